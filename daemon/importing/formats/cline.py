"""Cline's sessions, each one JSON value that is written anew with every message.

Its command line and newer extensions write `~/.cline/data/sessions/ID/ID.messages.json`, with the session's head in
`ID.json` beside it; older extensions `tasks/ID/api_conversation_history.json`, with the heads in
`state/taskHistory.json`. There a person's words stand in tags, calls may stand in tags in the assistant's text, and a
tool's answer may be a text of the person's role. Left out: thinking, the program's notes on the editor, other agents'
messages, and answers of our own memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store.roles import Role
from ..items import SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, guarded, json_document
from ..sanitize import instant, without_elements
from ..turns import Conversation

AGENT = "cline"

_OLDER = "api_conversation_history.json"
_NEWER = ".messages.json"
_LEAD = (None, "", "lead")
_WRITTEN_BY_THE_PROGRAM = (
    *("environment_details", "mode_notice", "hook_context", "explicit_instructions", "file_content", "folder_content"),
    *("url_content", "thinking", "system_reminder"),
)
# What a person typed stands in these.
_TYPED = ("user_input", "task", "feedback", "answer", "user_message")
_RESULT = re.compile(r"\A\[(\w+)(?: for '.*?')?\] Result:\n?(.*)\Z", re.DOTALL)
_CALL = re.compile(r"^<([a-z]+(?:_[a-z]+)+)>[ \t]*$", re.MULTILINE)
_PARAMETER = re.compile(r"^<([a-z_]+)>", re.MULTILINE)
# Calls by which the model speaks, and the input that holds its words.
_SPEAKING = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "ask_question": "question",
    "plan_mode_respond": "response",
    "submit_and_exit": "summary",
}
_FAILED = re.compile(r"\AThe tool execution failed|^Exit code: [1-9]|\A\[Command exited with code [1-9]", re.MULTILINE)


def recognises(document: object) -> bool:
    """Return True if a file's value is a session of the newer kind; the older kind is known by its name alone."""
    match document:
        case {"messages": list(), "sessionId": str(), "agent": _}:
            return True
        case _:
            return False


def is_session_file(name: str) -> bool:
    """Return True for the name of a file that holds a session."""
    return name == _OLDER or name.endswith(_NEWER)


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of one file."""
    try:
        document = json_document(path)
    except ValueError as error:
        yield Skipped(path, None, f"cannot be read: {error}")
        return
    session = Conversation(AGENT, path)
    if isinstance(document, dict):
        _open(session, document, path)
    else:
        _open_older(session, path)
    messages = document.get("messages") if isinstance(document, dict) else document
    for place, message in enumerate(dicts_in(messages), start=1):
        given = message.get("id")
        named = given if isinstance(given, str) and given else f"line {place}"
        yield from guarded(_turns_of(session, message, named, is_older=isinstance(document, list)), path)
    yield from session.rest()


def _open(session: Conversation, document: Mapping[str, Any], path: Path) -> None:
    head = _beside(path.with_name(f"{path.name.removesuffix(_NEWER)}.json"))
    given = document.get("sessionId")
    session.given = f"{AGENT}-{given if isinstance(given, str) and given else path.parent.name}"
    session.cwd = head.get("cwd") or head.get("workspace_root")
    session.started_at = head.get("started_at") or head.get("created_at")
    metadata = head.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    session.title = title if isinstance(title, str) else ""
    if document.get("agent") not in _LEAD or head.get("parent_session_id") or head.get("is_subagent"):
        session.left_out = SUB_AGENT


def _open_older(session: Conversation, path: Path) -> None:
    task = path.parent.name
    listed = _values(path.parents[2] / "state" / "taskHistory.json") if len(path.parents) > 2 else []
    head = next((one for one in listed if one.get("id") == task), {}) or _beside(path.with_name("history_item.json"))
    session.given = f"{AGENT}-{task}"
    session.cwd = head.get("cwdOnTaskInitialization") or head.get("workspace")
    # A task is named by the millisecond in which it began.
    session.started_at = int(task) if task.isascii() and task.isdigit() and len(task) < 16 else head.get("ts")


def _beside(path: Path) -> Mapping[str, Any]:
    """Return the object in a file, an empty one where there is none that can be read."""
    try:
        value = json_document(path)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _values(path: Path) -> list[dict[str, Any]]:
    try:
        return dicts_in(json_document(path))
    except (OSError, ValueError):
        return []


def _turns_of(
    session: Conversation, message: Mapping[str, Any], named: str, *, is_older: bool
) -> Iterator[SessionRead]:
    at = message.get("ts") if instant(message.get("ts")) else session.started_at
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else dicts_in(content)
    match message.get("role"):
        case "user":
            said, answers = _of_user(session, blocks, is_older=is_older)
            yield from session.add(Role.USER, said, at, named)
            yield from session.add(Role.TOOL, answers, at, f"{named}/result")
        case "assistant":
            said = "\n".join(text for block in blocks if (text := _of_assistant(session, block, is_older=is_older)))
            yield from session.add(Role.ASSISTANT, said, at, named)


def _of_assistant(session: Conversation, block: Mapping[str, Any], *, is_older: bool) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return _with_calls(session, without_elements(text, ("thinking",))) if is_older else text
        case {"type": "tool_use", "name": str(name)}:
            return _call(session, name, block.get("input"), block.get("id"))
        case _:
            return ""


def _call(session: Conversation, name: str, inputs: object, call_id: object) -> str:
    if name in _SPEAKING and isinstance(inputs, dict):
        said = inputs.get(_SPEAKING[name])
        return said if isinstance(said, str) else ""
    return session.called(name, inputs, call_id)


def _with_calls(session: Conversation, text: str) -> str:
    """Return a text with notes in place of the calls that stand in tags in it; the last call may be cut off."""
    parts, at = [], 0
    for opening in _CALL.finditer(text):
        if opening.start() < at:
            continue
        end = text.find(f"</{opening[1]}>", opening.end())
        inside = text[opening.end() : end if end >= 0 else len(text)]
        inputs = dict(_parameters(inside))
        parts += [text[at : opening.start()].strip(), _call(session, opening[1], inputs, opening[1])]
        at = end + len(opening[1]) + 3 if end >= 0 else len(text)
    return "\n".join(part for part in (*parts, text[at:].strip()) if part)


def _of_user(session: Conversation, blocks: list[dict[str, Any]], *, is_older: bool) -> tuple[str, str]:
    """Return a person's words, and the notes of tools' answers in the same message."""
    said, answers, answering = [], [], ""
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                result = _RESULT.match(text) if is_older else None
                if result and not result[2].strip():
                    # The answer is the text that follows.
                    answering = result[1]
                    continue
                if typed := _typed(text):
                    said += typed
                elif result or answering:
                    name, answer = (result[1], result[2]) if result else (answering, text)
                    answers.append(session.calls.answered(name, answer, is_error=_FAILED.search(answer) is not None))
                elif not is_older:
                    said.append(without_elements(text, _WRITTEN_BY_THE_PROGRAM))
                answering = ""
            case {"type": "image"}:
                said.append("[image]")
            case {"type": "tool_result"}:
                text, is_error = _answer_of(block)
                if typed := _typed(text):
                    said += typed
                else:
                    answers.append(session.calls.answered(block.get("tool_use_id"), text, is_error=is_error))
    clean = (without_elements(words, _WRITTEN_BY_THE_PROGRAM).strip() for words in said)
    return "\n".join(words for words in clean if words), "\n".join(answer for answer in answers if answer)


def _typed(text: str) -> list[str]:
    """Return the texts in the tags of a person's words, in their order."""
    found = []
    for tag in _TYPED if "</" in text else ():
        at = 0
        while (start := text.find(f"<{tag}", at)) >= 0 and (end := text.find(f"</{tag}>", start)) >= 0:
            inside, at = text.find(">", start) + 1, end + len(tag) + 3
            if text[start + len(tag) + 1] in " >":
                found.append((start, text[inside:end]))
    return [words for _, words in sorted(found)]


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    """Yield the inputs of a call in tags; the last one may be cut off."""
    at = 0
    while opening := _PARAMETER.search(text, at):
        end = text.find(f"</{opening[1]}>", opening.end())
        yield opening[1], text[opening.end() : end if end >= 0 else len(text)].strip()
        at = end if end >= 0 else len(text)


def _answer_of(block: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a tool's answer, and True if it failed; the newer tools answer to each of several questions."""
    content = block.get("content")
    if isinstance(content, str):
        return content, block.get("is_error") is True or _FAILED.search(content) is not None
    texts, failed = [], block.get("is_error") is True
    for part in dicts_in(content):
        text = next((one for key in ("text", "result", "error") if isinstance(one := part.get(key), str) and one), "")
        failed = failed or part.get("success") is False or (part.get("type") == "text" and bool(_FAILED.search(text)))
        texts.append(text)
    return "\n".join(texts), failed

"""Gemini CLI's chats: `~/.gemini/tmp/PROJECT/chats/session-*.jsonl`, one record a line; older ones one JSON value.

A message is written again under its id when more of it is known, so each of its parts is a turn of its own: its text
under the message's id, a tool's call and result under the call's. `$set` may repeat all messages. Left out: text of
hooks (`<hook_context>` in the person's message), the context that the program sends first, thoughts, sub-agents'
chats, and answers of our own memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from ....store import beginning
from ....store.model import NewTurn, NodeId
from ....store.roles import Role
from ..ignore_files import CallNotes
from ..items import NO_TURN, SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, guarded, json_document, read_through
from ..sanitize import instant, tidy, without_elements
from ..tool_calls import LOOKS_ONLY, as_known, brings_foreign_words, is_our_own
from ..turns import Batches, head_of_agent

USER, ASSISTANT, TOOL = Role.USER.value, Role.ASSISTANT.value, Role.TOOL.value

_WRITTEN_BY_THE_PROGRAM = ("hook_context", "session_context", "state_snapshot", "system-reminder")
_SPEAKERS = {"user": USER, "gemini": ASSISTANT}
_ENDED = frozenset({"success", "error", "cancelled"})
_FOLDER = re.compile(r"\*\*Workspace Directories:\*\*\s+- (.+)")
_OUTPUT = re.compile(
    r"\A<untrusted_context>\n(?:Output: )?(.*?)(?:\nProcess Group PGID: \d+)?\n</untrusted_context>\Z", re.DOTALL
)
# A hook's text has its angle brackets escaped, also where a model quotes it.
_RECALLED = re.compile(r"&lt;dreamd-memory\b.*?(?:&lt;/dreamd-memory&gt;|\Z)", re.DOTALL)
_FAILED = re.compile(r"^Exit Code: [1-9]", re.MULTILINE)
# The mark behind a person's words: the rest of the message is the content of the files that they name.
REFERENCED = "--- Content from referenced files ---"
_PATH_BYTES = 4096
# The program's own answer to the summary of a chat that it has compressed, in place of the turns before.
_COMPRESSED = "Got it. Thanks for the additional context!"
_LONGEST_LOOK_BYTES = 32 * 2**20


def recognises(value: object) -> bool:
    """Return True if a line's or a file's value is a chat's head."""
    return isinstance(value, dict) and isinstance(value.get("sessionId"), str) and "projectHash" in value


def newest_summary(path: Path, start: int = 0) -> tuple[str, int]:
    """Return the id of the last summary in a chat's lines from a byte on, "" without one, and the byte behind them.

    A chat that was compressed is written again as a whole, later too; a summary keeps its id. Raises OSError.
    """
    found = ""
    mark = json.dumps(_COMPRESSED).encode()
    with path.open("rb") as file:
        file.seek(max(start, path.stat().st_size - _LONGEST_LOOK_BYTES))
        end = file.tell()
        for line in file:
            if not line.endswith(b"\n"):
                break
            end += len(line)
            if line.startswith(b'{"$set":') and mark in line:
                found = _summary_in(line) or found
    return found, end


def _summary_in(line: bytes) -> str:
    """Return the id of the message that answers a summary, among the messages that a line sets."""
    try:
        messages = json.loads(line)["$set"]["messages"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    answers = [one for one in dicts_in(messages) if text_of(one.get("content")) == _COMPRESSED]
    return str(answers[-1].get("id", "")) if answers else ""


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of one chat; lines that cannot be read come as Skipped."""
    if path.suffix.lower() != ".json":
        return read_through(path, GeminiReading(path))
    return _document(path)


def _document(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of a chat that is one JSON value."""
    try:
        document = json_document(path)
    except ValueError as error:
        yield Skipped(path, None, str(error))
        return
    reading = GeminiReading(path)
    yield from reading.take(1, document)
    yield from reading.rest()


class GeminiReading:
    """The state in the middle of a chat."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches = Batches()
        self._head: Mapping[str, Any] = {}
        self._session: NodeId | None = None
        self._folder = ""
        self._notes = CallNotes()
        self._given: set[str] = set()
        self._bad = 0

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        match value:
            case {"$set": dict(changed)}:
                yield from self._messages(changed.get("messages"))
            case {"$rewindTo": _}:
                # The messages taken back were written all the same.
                return
            case {"sessionId": str(), "projectHash": _}:
                self._head = self._head or value
                yield from self._messages(value.get("messages"))
            case {"id": str(), "type": str()}:
                yield from self._message(value)
            case _:
                self._bad += 1
                yield Skipped(self._path, number, "not a line of Gemini CLI: no chat, message or change")

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        yield from self._batches.rest()
        if not self._given and not self._bad:
            yield Skipped(self._path, None, SUB_AGENT if self._is_sub_agent else NO_TURN)

    @property
    def _is_sub_agent(self) -> bool:
        return self._head.get("kind") == "subagent"

    def _messages(self, messages: object) -> Iterator[SessionRead | Skipped]:
        for message in dicts_in(messages):
            if isinstance(message.get("id"), str) and isinstance(message.get("type"), str):
                yield from guarded(self._message(message), self._path)

    def _message(self, message: Mapping[str, Any]) -> Iterator[SessionRead]:
        role = _SPEAKERS.get(message["type"])
        if role is None or self._is_sub_agent:
            return
        text = text_of(message.get("content"))
        # Only there: a model's answer may quote the mark.
        if role == USER:
            text = text.partition(REFERENCED)[0]
        self._folder = self._folder or _folder_of(text)
        at = instant(message.get("timestamp"))
        calls = (self._of_call(call, message["id"]) for call in dicts_in(message.get("toolCalls")))
        for turn in chain([NewTurn(role, plain(text), at, message["id"])], *calls):
            left_out = self._notes.left_out()
            # A message is repeated whenever something is added to it.
            if turn.text and turn.external_id not in self._given:
                self._given.add(str(turn.external_id))
                yield from self._batches.add(self._session or self._open(), turn, left_out)

    def _of_call(self, call: Mapping[str, Any], message_id: str) -> Iterator[NewTurn]:
        """Yield the notes of a call and, once it has ended, of its result."""
        name, call_id = call.get("name"), call.get("id")
        if not isinstance(name, str) or not isinstance(call_id, str):
            return
        known, inputs = as_known(name, call.get("args"))
        foreign = brings_foreign_words(known, inputs)
        if (is_our_own(name, inputs) or name in LOOKS_ONLY) and not foreign:
            return
        at, named = instant(call.get("timestamp")), f"{message_id}/{call_id}"
        note, placeholder = self._notes.of_call(known, inputs, self._cwd())
        ours = is_our_own(name, inputs)
        yield NewTurn(ASSISTANT, f"[{known}]" if ours else note, at, named, foreign)
        if call.get("status") in _ENDED and not ours:
            text, is_error = _result_of(call)
            failed = call["status"] == "error" or (known == "Bash" and is_error)
            result = self._notes.of_result(known, text, placeholder, is_error=failed)
            yield NewTurn(TOOL, tidy(result), at, f"{named}/result", foreign)

    def _cwd(self) -> str | None:
        return _project_root(self._path) or self._folder or None

    def _open(self) -> NodeId:
        started_at = instant(self._head.get("startTime"))
        head = head_of_agent("gemini", self._head.get("sessionId"), self._cwd(), self._path, started_at)
        self._session = head.session_id
        self._batches.open(head)
        return self._session


def _result_of(call: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a call's result, and True if its text says that it failed."""
    for part in dicts_in(call.get("result")):
        text, is_error = output_of(part)
        if text:
            return text, is_error
    shown = call.get("resultDisplay")
    return (shown if isinstance(shown, str) else ""), False


def output_of(part: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text of a tool's answer, and True if it says that it failed: a command's by its exit code."""
    match part.get("functionResponse"):
        case {"response": {"error": str(text)}}:
            return text, True
        case {"response": {"output": str(text)}}:
            found = _OUTPUT.match(text)
            return (found[1] if found else _printed(text)), _FAILED.search(text) is not None
        case _:
            return "", False


def _printed(text: str) -> str:
    """Return a command's output without Qwen Code's lines round it; another text as it is."""
    head, _, rest = text.partition("\nOutput: ")
    printed, found, _ = rest.rpartition("\nExit Code: ")
    if not head.startswith("Command: ") or not found:
        return text
    return "" if (said := printed.removesuffix("\nError: (none)")) == "(empty)" else said


def plain(text: str) -> str:
    """Return a text without the parts that hooks and the program added, or that the model quoted of them."""
    return tidy(_RECALLED.sub("", without_elements(text, _WRITTEN_BY_THE_PROGRAM)))


def text_of(content: object) -> str:
    """Return the text of a message's parts, without thoughts."""
    if isinstance(content, str):
        return content
    parts = [content] if isinstance(content, dict) else content if isinstance(content, list) else []
    return "\n".join(text for part in parts if (text := _part(part)))


def _part(part: object) -> str:
    match part:
        case str():
            return part
        case {"text": str(text), **others}:
            return "" if others.get("thought") else text
        case {"inlineData": _} | {"fileData": _}:
            return "[image]"
        case _:
            return ""


def _project_root(path: Path) -> str:
    """Return the project's folder, which the program notes beside the folder of the chats."""
    try:
        return beginning(path.parent.parent / ".project_root", _PATH_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _folder_of(text: str) -> str:
    """Return the folder in the context that the program sends first."""
    found = _FOLDER.search(text) if text.startswith("<session_context>") else None
    return found[1].strip() if found else ""

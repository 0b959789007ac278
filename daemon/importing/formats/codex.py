"""Codex's rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, one object a line.

Every text is in a rollout twice, as the model's input (`response_item`) and as it was shown (`event_msg`); only the
first is read. Left out: instructions (of role `developer`, or by the program in the person's name), hooks' text,
thinking, sub-agents' threads, and answers of our own memory. A line's own id is the turn's; lines of early 2026 have
none and are identified by their number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store.model import NewTurn, NodeId
from ....store.roles import Role
from ..ignore_files import OpenCalls
from ..items import NO_TURN, SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, read_through
from ..sanitize import element, instant, tidy, without_elements
from ..tool_calls import as_known, note_of_call
from ..turns import Batches, head_of_agent

USER, ASSISTANT, TOOL = Role.USER.value, Role.ASSISTANT.value, Role.TOOL.value

LINES = frozenset(
    {
        *("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"),
        *("token_usage_record", "inter_agent_communication"),
    }
)
_WRITTEN_BY_THE_PROGRAM = (
    *("apps_instructions", "collaboration_mode", "environment_context", "goal_context", "hook_prompt"),
    *(
        "legacy_user_shell_command",
        "model_switch",
        "permissions instructions",
        "personality_spec",
        "plugins_instructions",
    ),
    *("realtime_conversation", "skill", "skills_instructions", "subagent_notification", "turn_aborted"),
    *("user_instructions", "INSTRUCTIONS"),
)
_PROGRAM_SAYS = (
    "# AGENTS.md instructions for ",
    "Another language model started to solve this problem",
    "Warning: apply_patch was requested via ",
)
_ASKED_IN_EDITOR = "## My request for Codex:"
_EXIT_CODE = re.compile(r"(?:^Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)
_OUTPUT = "\nOutput:\n"


def recognises(value: object) -> bool:
    """Return True if a line's value belongs to a rollout."""
    match value:
        case {"type": str(kind), "payload": dict()}:
            return kind in LINES
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of one rollout; unreadable lines come as Skipped."""
    return read_through(path, CodexReading(path))


class CodexReading:
    """The state in the middle of a rollout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches = Batches()
        self._session: NodeId | None = None
        self._calls = OpenCalls()
        self._folder: object = None
        self._is_sub_agent = False
        self._turns = 0
        self._bad = 0

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not recognises(value):
            self._bad += 1
            yield Skipped(self._path, number, "not a line of Codex: no type and payload that are known")
            return
        payload = value["payload"]
        if value["type"] in ("session_meta", "turn_context"):
            self._folder = payload.get("cwd") or self._folder
        if value["type"] == "session_meta":
            self._open(payload, value.get("timestamp"))
        elif value["type"] == "response_item" and not self._is_sub_agent:
            role, text = self._text_of(payload)
            if text:
                self._turns += 1
                given = payload.get("id")
                named = given if isinstance(given, str) and given else f"line {number}"
                foreign = self._calls.brought_foreign_words()
                turn = NewTurn(role, text, instant(value.get("timestamp")), named, foreign)
                session = self._session or self._open({}, value.get("timestamp"))
                yield from self._batches.add(session, turn, self._calls.notes.left_out())

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        yield from self._batches.rest()
        if not self._turns and not self._bad:
            yield Skipped(self._path, None, SUB_AGENT if self._is_sub_agent else NO_TURN)

    def _open(self, meta: Mapping[str, Any], at: object) -> NodeId:
        """Set the session's head. A copied history has the heads of other sessions too, after the rollout's own."""
        if self._session is not None:
            return self._session
        source = meta.get("source")
        self._is_sub_agent = meta.get("thread_source") == "subagent" or (
            isinstance(source, dict) and "subagent" in source
        )
        started_at = instant(meta.get("timestamp")) or instant(at)
        head = head_of_agent("codex", meta.get("id"), meta.get("cwd"), self._path, started_at)
        self._session = head.session_id
        self._batches.open(head)
        return self._session

    def _text_of(self, item: Mapping[str, Any]) -> tuple[str, str]:
        """Return an item's role and text, "" if it is not kept."""
        match item:
            case {"type": "message", "role": "user", "content": list(content)}:
                kept = [text for text, ours in _texts(item, content) if not ours]
                return USER, "\n".join(words for text in kept if (words := _of_person(text)))
            case {"type": "message", "role": "assistant", "content": list(content)}:
                return ASSISTANT, tidy("\n".join(text for text, _ in _texts(item, content)))
            case {"type": "function_call" | "custom_tool_call", "name": str(name)}:
                arguments = item.get("arguments", item.get("input"))
                return ASSISTANT, self._call(f"{item.get('namespace') or ''}{name}", name, arguments, item)
            case {"type": "local_shell_call", "action": dict(action)}:
                return ASSISTANT, self._call("local_shell", "local_shell", action, item)
            case {"type": "web_search_call", "action": {"query": str(query)}}:
                self._calls.ran_a_search()
                return ASSISTANT, tidy(note_of_call("WebSearch", {"query": query}))
            case {"type": "function_call_output" | "custom_tool_call_output"}:
                return TOOL, self._result(item)
            case _:
                return "", ""

    def _call(self, full_name: str, name: str, arguments: object, item: Mapping[str, Any]) -> str:
        note = self._calls.called(name, arguments, item.get("call_id"), self._folder, full_name)
        if name == "update_plan":
            steps = as_known(name, arguments)[1].get("plan")
            todos = [{"content": step.get("step"), "status": step.get("status")} for step in dicts_in(steps)]
            return tidy(note_of_call("TodoWrite", {"todos": todos}))
        return note

    def _result(self, item: Mapping[str, Any]) -> str:
        text, is_error = _output(item.get("output"))
        return self._calls.answered(item.get("call_id"), text, is_error=is_error)


def _texts(item: Mapping[str, Any], content: list[Any]) -> Iterator[tuple[str, bool]]:
    """Yield each text of a message, and True if it is marked as the program's own: a hook's, an instruction."""
    passed = item.get("internal_chat_message_metadata_passthrough")
    known = dicts_in(passed.get("content_item_metadata")) if isinstance(passed, dict) else []
    for position, part in enumerate(content):
        match part:
            case {"text": str(text)}:
                given = known[position].get("provenance") if position < len(known) else None
                yield text, isinstance(given, dict) and given.get("type") not in (None, "user")
            case {"type": "input_image"}:
                yield "[image]", False


def _of_person(text: str) -> str:
    """Return a person's words without the program's wrapping; "" for the program's own text in their name."""
    if text.startswith(_PROGRAM_SAYS):
        return ""
    # The last mark: a file open in the editor may hold the same words.
    text = text.rpartition(_ASKED_IN_EDITOR)[2]
    if "<" in text:
        text = without_elements(text, _WRITTEN_BY_THE_PROGRAM)
        if (shell := element(text, "user_shell_command")) is not None:
            return tidy(f"[ran: {element(shell, 'command') or ''}]")
    return tidy(text)


def _output(output: object) -> tuple[str, bool]:
    """Return a result's text, and True if the call failed: of commands by their exit code."""
    if isinstance(output, list):
        return "\n".join(part["text"] for part in dicts_in(output) if isinstance(part.get("text"), str)), False
    if isinstance(output, dict):
        content = output.get("content", output.get("output"))
        return (content if isinstance(content, str) else ""), output.get("success") is False
    if not isinstance(output, str):
        return "", False
    # Results of older versions are JSON in a string.
    if output.startswith('{"output"'):
        try:
            parsed = json.loads(output)
        except (ValueError, RecursionError):
            return output, False
        metadata = parsed.get("metadata")
        code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        return str(parsed["output"]), code not in (None, 0)
    head, found, text = output.partition(_OUTPUT)
    code = _EXIT_CODE.search(head) if found else None
    return (text if found else output), code is not None and code[1] != "0"

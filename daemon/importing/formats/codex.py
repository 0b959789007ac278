"""Codex's rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, one object a line.

The same words stand in a rollout twice, as what the model was given (`response_item`) and as what the person saw
(`event_msg`); the first alone is read. Left out: instructions (role `developer`, and what the program itself says in
the person's name), hooks' text, thinking, sub-agents' threads, and what came from our own memory. A line's own id is
the turn's; those of early 2026 have none and are known by their number.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store import session_id, without_element
from ....store.channel import channel_of_folder
from ....store.model import NewTurn, NodeId, SessionHead
from ....store.roles import Role
from ..reading.agent_tools import LOOKS_ONLY, as_known
from ..reading.batches import Batches, by_first_words
from ..reading.contents import Contents
from ..reading.foreign_tools import brings_foreign_words
from ..reading.items import SessionRead, Skipped
from ..reading.line_reading import read_through
from ..reading.sanitize import element, tidy
from ..reading.timestamps import instant
from ..reading.tool_calls import is_our_own, note_of_call

USER, ASSISTANT, TOOL = Role.USER.value, Role.ASSISTANT.value, Role.TOOL.value

LINES = frozenset(
    {
        *("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"),
        *("token_usage_record", "inter_agent_communication"),
    }
)
_OURS = "our own"
_OPEN_CALLS = 1000
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
    """Say whether a line's value is one of a rollout's."""
    match value:
        case {"type": str(kind), "payload": dict()}:
            return kind in LINES
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of one rollout, turn by turn; lines that cannot be read come as Skipped."""
    return read_through(path, Reading(path))


class Reading:
    """The state in the middle of a rollout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches = Batches(by_first_words)
        self._session: NodeId | None = None
        self._contents = Contents()
        self._calls: OrderedDict[str, tuple[str, str, bool]] = OrderedDict()
        self._is_foreign = False
        self._folder: object = None
        self._is_sub_agent = False
        self._turns = 0
        self._bad = 0

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line adds."""
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
            role, text = self._said(payload)
            if text:
                self._turns += 1
                given = payload.get("id")
                named = given if isinstance(given, str) and given else f"line {number}"
                turn = NewTurn(role, text, instant(value.get("timestamp")), named, self._is_foreign)
                self._is_foreign = False
                session = self._session or self._open({}, value.get("timestamp"))
                yield from self._batches.add(session, turn, self._contents.left_out())

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        yield from self._batches.rest()
        if not self._turns and not self._bad:
            yield Skipped(self._path, None, "a sub-agent's own conversation" if self._is_sub_agent else "no turn in it")

    def _open(self, meta: Mapping[str, Any], at: object) -> NodeId:
        """Give the session its head. A copied history brings the heads of others, which come later."""
        if self._session is not None:
            return self._session
        given, cwd = meta.get("id"), meta.get("cwd")
        cwd = cwd if isinstance(cwd, str) and cwd else None
        self._session = session_id(given if isinstance(given, str) and given else self._path.stem)
        source = meta.get("source")
        self._is_sub_agent = meta.get("thread_source") == "subagent" or (
            isinstance(source, dict) and "subagent" in source
        )
        self._batches.open(
            SessionHead(
                session_id=self._session,
                channel=channel_of_folder(Path(cwd) if cwd else self._path.parent),
                started_at=instant(meta.get("timestamp")) or instant(at),
                agent_id="codex",
                cwd=cwd,
            )
        )
        return self._session

    def _said(self, item: Mapping[str, Any]) -> tuple[str, str]:
        """Return an item's role and text; the text is empty where there is nothing to keep."""
        match item:
            case {"type": "message", "role": "user", "content": list(content)}:
                kept = [text for text, ours in _texts(item, content) if not ours]
                return USER, "\n".join(said for text in kept if (said := _of_person(text)))
            case {"type": "message", "role": "assistant", "content": list(content)}:
                return ASSISTANT, tidy("\n".join(text for text, _ in _texts(item, content)))
            case {"type": "function_call" | "custom_tool_call", "name": str(name)}:
                arguments = item.get("arguments", item.get("input"))
                return ASSISTANT, self._call(f"{item.get('namespace') or ''}{name}", name, arguments, item)
            case {"type": "local_shell_call", "action": dict(action)}:
                return ASSISTANT, self._call("local_shell", "local_shell", action, item)
            case {"type": "web_search_call", "action": {"query": str(query)}}:
                self._is_foreign = True
                return ASSISTANT, tidy(note_of_call("WebSearch", {"query": query}))
            case {"type": "function_call_output" | "custom_tool_call_output"}:
                return TOOL, self._result(item)
            case _:
                return "", ""

    def _call(self, full_name: str, name: str, arguments: object, item: Mapping[str, Any]) -> str:
        known, inputs = as_known(name, arguments)
        ours, foreign = is_our_own(full_name, inputs), brings_foreign_words(known, inputs)
        foreign = foreign and not (ours and known != "Bash")
        note, line = self._contents.note_of_call(known, inputs, self._folder)
        self._is_foreign = self._is_foreign or foreign
        if ours:
            note = f"[{known}]" if foreign else ""
        if isinstance(call_id := item.get("call_id"), str):
            self._calls[call_id] = (_OURS if ours else known, line, foreign)
            if len(self._calls) > _OPEN_CALLS:
                self._calls.popitem(last=False)
        if (ours or name in LOOKS_ONLY) and not foreign:
            return ""
        if name == "update_plan":
            steps = inputs.get("plan")
            todos = [{"content": step.get("step"), "status": step.get("status")} for step in _dicts(steps)]
            return tidy(note_of_call("TodoWrite", {"todos": todos}))
        return note

    def _result(self, item: Mapping[str, Any]) -> str:
        name, line, foreign = self._calls.pop(str(item.get("call_id")), ("", "", False))
        self._is_foreign = self._is_foreign or foreign
        if name == _OURS:
            return ""
        text, is_error = _output(item.get("output"))
        return tidy(self._contents.note_of_result(name, text, line, is_error=is_error))


def _texts(item: Mapping[str, Any], content: list[Any]) -> Iterator[tuple[str, bool]]:
    """Yield each text of a message, and whether the program says that it is its own: a hook's, an instruction."""
    passed = item.get("internal_chat_message_metadata_passthrough")
    known = _dicts(passed.get("content_item_metadata")) if isinstance(passed, dict) else []
    for position, part in enumerate(content):
        match part:
            case {"text": str(text)}:
                given = known[position].get("provenance") if position < len(known) else None
                yield text, isinstance(given, dict) and given.get("type") not in (None, "user")
            case {"type": "input_image"}:
                yield "[image]", False


def _of_person(text: str) -> str:
    """Return a person's words without what the program wrapped around them, or said in their name."""
    if text.startswith(_PROGRAM_SAYS):
        return ""
    text = text.rpartition(_ASKED_IN_EDITOR)[2]  # the last: what is open in the editor may hold the same words
    if "<" in text:
        for tag in _WRITTEN_BY_THE_PROGRAM:
            text = without_element(text, tag)
        if (shell := element(text, "user_shell_command")) is not None:
            return tidy(f"[ran: {element(shell, 'command') or ''}]")
    return tidy(text)


def _output(output: object) -> tuple[str, bool]:
    """Return a result's text, and whether it failed: of commands by their exit code."""
    if isinstance(output, list):
        return "\n".join(part["text"] for part in _dicts(output) if isinstance(part.get("text"), str)), False
    if isinstance(output, dict):
        content = output.get("content", output.get("output"))
        return (content if isinstance(content, str) else ""), output.get("success") is False
    if not isinstance(output, str):
        return "", False
    if output.startswith('{"output"'):
        try:
            held = json.loads(output)
        except (ValueError, RecursionError):
            return output, False
        metadata = held.get("metadata")
        code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        return str(held["output"]), code not in (None, 0)
    head, found, text = output.partition(_OUTPUT)
    code = _EXIT_CODE.search(head) if found else None
    return (text if found else output), code is not None and code[1] != "0"


def _dicts(values: object) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []

"""The agents' hooks as data, one row each: the names of their events and inputs, and the shape of an answer.

They are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and Cursor's hooks version 1. opencode has no hooks;
our plugin for it (`opencode_plugin.js`) uses our own names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Moment(StrEnum):
    """A moment of a session at which an agent calls a hook; `before` and `after` are those of a call of a tool."""

    START = "start"
    PROMPT = "prompt"
    BEFORE = "before"
    AFTER = "after"
    COMPACTING = "compacting"
    ANSWERED = "answered"
    END = "end"


ACTS = frozenset({Moment.BEFORE, Moment.AFTER})


@dataclass(frozen=True, slots=True)
class AgentFormat:
    """One agent's names. Of each tuple of input names the first one present counts.

    `moments` maps its events, and `takes` are those at which it accepts text. `turn_id` identifies one exchange;
    `is_nested` is present only in a sub-agent's events. `suppresses`: it knows the key that hides a hook's output.
    `message_ids` are the ids of prompt and answer in the program's own store, from which the same turns may be
    imported.
    """

    moments: Mapping[str, Moment]
    takes: frozenset[Moment] = frozenset({Moment.START, Moment.PROMPT}) | ACTS
    shape: str = "hook_specific"
    session: tuple[str, ...] = ("session_id",)
    folder: tuple[str, ...] = ("cwd",)
    turn_id: tuple[str, ...] = ("prompt_id", "turn_id")
    prompt: tuple[str, ...] = ("prompt",)
    answer: tuple[str, ...] = ("last_assistant_message",)
    message_ids: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    transcript: tuple[str, ...] = ("transcript_path",)
    is_nested: tuple[str, ...] = ("agent_id",)
    suppresses: bool = True


_CLAUDE_CODE = {
    "SessionStart": Moment.START,
    "UserPromptSubmit": Moment.PROMPT,
    "PreToolUse": Moment.BEFORE,
    "PostToolUse": Moment.AFTER,
    "PostToolUseFailure": Moment.AFTER,
    "PreCompact": Moment.COMPACTING,
    "Stop": Moment.ANSWERED,
    "SessionEnd": Moment.END,
}

FORMATS: Mapping[str, AgentFormat] = {
    "claude-code": AgentFormat(_CLAUDE_CODE),
    "codex": AgentFormat(_CLAUDE_CODE, suppresses=False),
    "gemini": AgentFormat(
        {
            "SessionStart": Moment.START,
            "BeforeAgent": Moment.PROMPT,
            "AfterTool": Moment.AFTER,
            "PreCompress": Moment.COMPACTING,
            "AfterAgent": Moment.ANSWERED,
            "SessionEnd": Moment.END,
        },
        turn_id=("timestamp",),
        answer=("prompt_response",),
    ),
    "opencode": AgentFormat(
        {moment.value: moment for moment in Moment},
        shape="plain",
        turn_id=("turn_id",),
        message_ids=(("turn_id",), ("answer_id",)),
    ),
    "cursor": AgentFormat(
        {
            "sessionStart": Moment.START,
            "beforeSubmitPrompt": Moment.PROMPT,
            "afterAgentResponse": Moment.ANSWERED,
            "preCompact": Moment.COMPACTING,
            "sessionEnd": Moment.END,
        },
        takes=frozenset({Moment.START}),
        shape="cursor",
        session=("conversation_id", "session_id"),
        folder=("cwd", "workspace_roots"),
        turn_id=("generation_id",),
        answer=("text",),
    ),
}


@dataclass(frozen=True, slots=True)
class HookInput:
    """The inputs of an agent's hook; "" for missing ones. `agent_id` is that of a sub-agent.

    `is_failure`: its event is that of a failed call.
    """

    session: str
    folder: str
    turn_id: str
    prompt: str
    answer: str
    transcript: str
    source: str
    agent_id: str = ""
    tool: str = ""
    tool_input: Any = None
    tool_output: Any = None
    is_failure: bool = False
    message_ids: tuple[str, str] = ("", "")


def read_input(form: AgentFormat, event: str, given: Mapping[str, Any], cwd: str | None) -> HookInput | None:
    """Return a hook's inputs; None for one without a session, or of a sub-agent at another moment than an act."""
    agent_id = _first(given, form.is_nested)
    # A sub-agent's turns are not the person's words, and its context is its own.
    if any(given.get(name) for name in form.is_nested) and form.moments[event] not in ACTS:
        return None
    hook = HookInput(
        session=_first(given, form.session),
        folder=_first(given, form.folder) or cwd or "",
        turn_id=_first(given, form.turn_id),
        prompt=_first(given, form.prompt),
        answer=_first(given, form.answer),
        transcript=_first(given, form.transcript),
        source=_first(given, ("source",)),
        agent_id=agent_id,
        tool=_first(given, ("tool_name",)),
        tool_input=given.get("tool_input"),
        tool_output=given.get("error") or given.get("tool_response"),
        is_failure=event == "PostToolUseFailure",
        message_ids=tuple(_first(given, names) for names in form.message_ids or ((), ())),  # type: ignore[arg-type]
    )
    return hook if hook.session else None


def render_output(form: AgentFormat, event: str, text: str) -> str:
    """Return the JSON that gives an agent a text."""
    # Codex refuses the key at acts, though not elsewhere.
    hidden = {"suppressOutput": True} if form.suppresses or form.moments[event] not in ACTS else {}
    shapes: dict[str, dict[str, Any]] = {
        "hook_specific": {**hidden, "hookSpecificOutput": {"hookEventName": event, "additionalContext": text}},
        "cursor": {"additional_context": text},
        "plain": {"additionalContext": text},
    }
    return json.dumps(shapes[form.shape])


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return ""

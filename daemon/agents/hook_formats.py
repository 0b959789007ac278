"""The agents' hooks as data, one row each: the names of their events and inputs, and the shape of an answer.

They are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and Cursor's hooks version 1. opencode has no hooks;
our plugin for it (`opencode_plugin.js`) uses our own names.

Of Gemini CLI two are left alone. PreCompress comes at every prompt, whether or not the chat is then compressed, so a
compression is seen in the chat's file. A text at SessionStart is put in front of the prompt (`gemini -p`), and a message
that begins with it is left out when the session is taken up again; one at BeforeAgent is put behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..importing.formats.gemini import newest_summary
from ..importing.formats.opencode import without_quotation_marks


class Moment(StrEnum):
    """A moment of a session at which an agent calls a hook."""

    START = "start"
    PROMPT = "prompt"
    COMPACTING = "compacting"
    ANSWERED = "answered"
    END = "end"


@dataclass(frozen=True, slots=True)
class AgentFormat:
    """One agent's names. Of each tuple of input names the first one present counts.

    `moments` maps its events, and `takes` are those at which it accepts text; where it takes that of a start only with a
    prompt, it waits for one. `turn_id` identifies one exchange; `is_nested` is present only in a sub-agent's events.
    `message_ids` are the ids of prompt and answer in the program's own store, from which the same turns may be imported,
    and `messages` all messages of an exchange, as they are there. `plain` takes off what a program puts round a prompt.
    `summaries` finds the summary that took the place of older turns, where no event says that it did.
    """

    moments: Mapping[str, Moment]
    takes: frozenset[Moment] = frozenset({Moment.START, Moment.PROMPT})
    shape: str = "hook_specific"
    session: tuple[str, ...] = ("session_id",)
    folder: tuple[str, ...] = ("cwd",)
    turn_id: tuple[str, ...] = ("prompt_id", "turn_id")
    prompt: tuple[str, ...] = ("prompt",)
    answer: tuple[str, ...] = ("last_assistant_message",)
    message_ids: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    transcript: tuple[str, ...] = ("transcript_path",)
    is_nested: tuple[str, ...] = ("agent_id",)
    messages: tuple[str, ...] = ("messages",)
    plain: Callable[[str], str] = str
    summaries: Callable[[Path, int], tuple[str, int]] | None = None


_CLAUDE_CODE = {
    "SessionStart": Moment.START,
    "UserPromptSubmit": Moment.PROMPT,
    "PreCompact": Moment.COMPACTING,
    "Stop": Moment.ANSWERED,
    "SessionEnd": Moment.END,
}

FORMATS: Mapping[str, AgentFormat] = {
    "claude-code": AgentFormat(_CLAUDE_CODE),
    "codex": AgentFormat(_CLAUDE_CODE),
    "gemini": AgentFormat(
        {
            "SessionStart": Moment.START,
            "BeforeAgent": Moment.PROMPT,
            "AfterAgent": Moment.ANSWERED,
            "SessionEnd": Moment.END,
        },
        takes=frozenset({Moment.PROMPT}),
        turn_id=("timestamp",),
        answer=("prompt_response",),
        summaries=newest_summary,
    ),
    "opencode": AgentFormat(
        {moment.value: moment for moment in Moment},
        shape="plain",
        turn_id=("turn_id",),
        message_ids=(("turn_id",), ("answer_id",)),
        plain=without_quotation_marks,
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
    """The inputs of an agent's hook; "" for missing ones."""

    session: str
    folder: str
    turn_id: str
    prompt: str
    answer: str
    transcript: str
    source: str
    message_ids: tuple[str, str] = ("", "")
    messages: str = ""


def read_input(form: AgentFormat, given: Mapping[str, Any], cwd: str | None) -> HookInput | None:
    """Return a hook's inputs; None for one without a session, or of a sub-agent."""
    # A sub-agent's turns are not the person's words, and its context is its own.
    if any(given.get(name) for name in form.is_nested):
        return None
    hook = HookInput(
        session=_first(given, form.session),
        folder=_first(given, form.folder) or cwd or "",
        turn_id=_first(given, form.turn_id),
        prompt=form.plain(_first(given, form.prompt)),
        answer=_first(given, form.answer),
        transcript=_first(given, form.transcript),
        source=_first(given, ("source",)),
        message_ids=tuple(_first(given, names) for names in form.message_ids or ((), ())),  # type: ignore[arg-type]
        messages=_first(given, form.messages),
    )
    return hook if hook.session else None


def render_output(form: AgentFormat, event: str, text: str) -> str:
    """Return the JSON that gives an agent a text."""
    shapes: dict[str, dict[str, Any]] = {
        "hook_specific": {
            "suppressOutput": True,
            "hookSpecificOutput": {"hookEventName": event, "additionalContext": text},
        },
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

"""The agents' hooks as data, one row each: the names of their events and inputs, and the shape of an answer.

They are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and Cursor's hooks version 1. opencode has no hooks;
our plugin for it (`opencode_plugin.js`) uses our own names.

Of Gemini CLI's two are left alone. PreCompress comes at every prompt, whether or not the chat is then compressed: a
compression is seen in the chat's file. A text at SessionStart goes in front of the prompt (`gemini -p`), and a message
that begins so is left out when the session is taken up again; one at BeforeAgent goes behind it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..importing.formats.gemini import newest_summary
from ..importing.formats.opencode import without_quotation_marks


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

    `moments` maps its events, those that are registered with it, and `takes` are those at which it accepts text: if not
    at a start, but at a prompt, a start's text waits for one. `turn_id` identifies one exchange; `is_nested` is present
    only in a sub-agent's events. `suppresses`: it knows the key that hides a hook's output. `answer_id` is
    the id of an answer, as `turn_id` is that of a prompt, in the program's own store (`has_message_ids`), from which
    the same turns may be imported, and `messages` all messages of an exchange, as they are there. `plain` takes off
    marks that a program puts round a prompt. `summaries` finds the summary that took the place of older turns, where no
    event says that it did. Without `tells_outcomes` the result of a command may come without its exit code.
    """

    moments: Mapping[str, Moment]
    takes: frozenset[Moment] = frozenset({Moment.START, Moment.PROMPT}) | ACTS
    shape: str = "hook_specific"
    session: tuple[str, ...] = ("session_id",)
    folder: tuple[str, ...] = ("cwd",)
    turn_id: tuple[str, ...] = ("prompt_id", "turn_id")
    prompt: tuple[str, ...] = ("prompt",)
    answer: tuple[str, ...] = ("last_assistant_message",)
    answer_id: tuple[str, ...] = ()
    transcript: tuple[str, ...] = ("transcript_path",)
    is_nested: tuple[str, ...] = ("agent_id",)
    messages: tuple[str, ...] = ("messages",)
    plain: Callable[[str], str] = str
    summaries: Callable[[Path, int], tuple[str, int]] | None = None
    suppresses: bool = True
    tells_outcomes: bool = True

    @property
    def has_message_ids(self) -> bool:
        """True where hooks name the messages as the program's own store does."""
        return bool(self.answer_id)

    @property
    def starts_with_prompt(self) -> bool:
        """True where the text of a start is taken with a prompt alone."""
        return Moment.PROMPT in self.takes and Moment.START not in self.takes


def _of_claude_code(after: str) -> dict[str, Moment]:
    """Return the events of Claude Code, which Codex has too; `after` is that of a call that may have failed."""
    return {
        "SessionStart": Moment.START,
        "UserPromptSubmit": Moment.PROMPT,
        "PreToolUse": Moment.BEFORE,
        after: Moment.AFTER,
        "PreCompact": Moment.COMPACTING,
        "Stop": Moment.ANSWERED,
        "SessionEnd": Moment.END,
    }


FORMATS: Mapping[str, AgentFormat] = {
    "claude-code": AgentFormat(_of_claude_code("PostToolUseFailure")),
    "codex": AgentFormat(_of_claude_code("PostToolUse"), suppresses=False, tells_outcomes=False),
    "gemini": AgentFormat(
        {
            "SessionStart": Moment.START,
            "BeforeAgent": Moment.PROMPT,
            "AfterTool": Moment.AFTER,
            "AfterAgent": Moment.ANSWERED,
            "SessionEnd": Moment.END,
        },
        takes=frozenset({Moment.PROMPT}) | ACTS,
        turn_id=("timestamp",),
        answer=("prompt_response",),
        summaries=newest_summary,
    ),
    "opencode": AgentFormat(
        {moment.value: moment for moment in Moment},
        shape="plain",
        turn_id=("turn_id",),
        answer_id=("answer_id",),
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
    """The inputs of an agent's hook; "" for missing ones. `agent_id` is that of a sub-agent.

    `is_failure`: its event is that of a failed call; None where that is not known. `user`: one of several users.
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
    is_failure: bool | None = False
    answer_id: str = ""
    messages: str = ""
    user: str | None = None


def read_input(form: AgentFormat, event: str, given: Mapping[str, Any], cwd: str | None) -> HookInput | None:
    """Return a hook's inputs; None for one without a session, or of a sub-agent at another moment than an act."""
    agent_id = _first(given, form.is_nested)
    # A sub-agent's turns are not the person's words, and its context is its own.
    if any(given.get(name) for name in form.is_nested) and form.moments[event] not in ACTS:
        return None
    hook = HookInput(
        session=_first(given, form.session),
        folder=_first(given, form.folder, of_several=True) or cwd or "",
        turn_id=_first(given, form.turn_id),
        prompt=form.plain(_first(given, form.prompt)),
        answer=_first(given, form.answer),
        transcript=_first(given, form.transcript),
        source=_first(given, ("source",)),
        agent_id=agent_id,
        tool=_first(given, ("tool_name",)),
        tool_input=given.get("tool_input"),
        tool_output=given.get("error") or given.get("tool_response"),
        is_failure=event == "PostToolUseFailure" if form.tells_outcomes else None,
        answer_id=_first(given, form.answer_id),
        messages=_first(given, form.messages),
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


def _first(given: Mapping[str, Any], names: tuple[str, ...], *, of_several: bool = False) -> str:
    for name in names:
        value = given.get(name)
        if of_several and isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return ""


# ---- the moments at which a hook got no answer in time, as `dreamctl hook` notes them beside the socket: the daemon
# cannot know of them, since it was away, or answered somebody who had left

LATE, ABSENT, UNDELIVERED, FAILED = "late", "no daemon", "not delivered", "failed"
_REASONS = {
    "TimeoutError": LATE,
    "Undelivered": UNDELIVERED,
    "FileNotFoundError": ABSENT,
    "ConnectionRefusedError": ABSENT,
}

MOST_LOST_BYTES = 2**17


@dataclass(frozen=True, slots=True)
class LostMoment:
    """One moment: its agent's own name of the event, the session, its folder, and the reason."""

    at: datetime
    agent: str
    event: str
    session: str
    folder: str
    why: str


def take_lost(path: Path) -> list[LostMoment]:
    """Read and remove the notes; a line that is written meanwhile may be lost, which is one of a count."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            lines = file.read(MOST_LOST_BYTES).splitlines()
        path.unlink()
    except OSError:
        return []
    return [found for line in lines if (found := _lost(line)) is not None]


def _lost(line: bytes) -> LostMoment | None:
    try:
        at, *texts = json.loads(line)
        agent, event, session, folder, error = map(str, texts)
        return LostMoment(
            datetime.fromtimestamp(float(at), UTC), agent, event, session, folder, _REASONS.get(error, FAILED)
        )
    except (ValueError, TypeError, OverflowError, OSError):
        return None

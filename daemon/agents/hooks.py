"""The answers to agents' hooks: what holds at a session's start, what a prompt needs, and the turns that were said.

Most prompts need nothing. What is handed over is fenced, never twice in a session, and bounded in tokens, by prompt and
by session: every line that an agent did not need costs it attention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ipc.channels import channel_of
from ...store import estimate_tokens, fenced, session_id, unmarked, without_element, without_recalled
from ...store.model import NewTurn, SessionHead
from ...store.roles import Role
from .hook_formats import FORMATS, HookInput, Moment, read_input, render_output
from .session_start import STANDING_TOKENS, standing_lines, standing_text

if TYPE_CHECKING:
    from ...store import HandedSession, MemoryStore
    from ..importing.following.follower import Follower

PROMPT_TOKENS = 250
SESSION_TOKENS = 1500
"""The most that is handed to one session, until its context is emptied or compacted."""

HANDED = frozenset({Moment.START, Moment.PROMPT})
"""The moments at which something may be handed over, by an agent that takes it."""

MOST_CHARACTERS = 8000
"""Claude Code puts a text of 10,000 characters into a file, and shows the beginning of it."""

LONGEST_QUESTION = 2000
"""Characters of a prompt that are looked up: what follows is mostly pasted."""

KEPT_WITHIN_S = 10.0

_COMMAND = re.compile(r"\s*/\w")


class Hooks:
    """Answers hooks from the store. Any thread may ask."""

    def __init__(self, store: MemoryStore, follower: Follower, now: Callable[[], datetime]) -> None:
        self._store = store
        self._follower = follower
        self._now = now
        self._acts: Mapping[Moment, Callable[[str, HookInput, HandedSession], str]] = {
            Moment.START: self._start,
            Moment.PROMPT: self._prompt,
            Moment.COMPACTING: self._compacting,
            Moment.ANSWERED: self._answered,
            Moment.END: self._end,
        }

    def answer(self, agent: str, event: str, given: Mapping[str, Any], cwd: str | None) -> str:
        """Return the JSON that an agent is to be answered with; "" for an event that asks for nothing."""
        form = FORMATS.get(agent)
        if form is None or (moment := form.moments.get(event)) is None:
            return ""
        asked = read_input(form, given, cwd)
        if asked is None:
            return ""
        session = self._store.handed.get(agent, asked.session)
        if moment is Moment.PROMPT:
            session.note_prompt(own_words(asked.prompt))
        is_in_vain = moment in HANDED and moment not in form.takes
        text = "" if is_in_vain else self._acts[moment](agent, asked, session)
        self._store.handed.keep(session)
        return render_output(form, event, text) if text and len(text) <= MOST_CHARACTERS else ""

    # ---- what is handed over

    def _start(self, agent: str, asked: HookInput, session: HandedSession) -> str:
        """Tell what holds now; to a session that is taken up again, only what others have learned since."""
        since = session.seen_at if asked.source == "resume" else None
        if since is None:
            session.forget_given()
        channel, name = channel_of(None, asked.folder), session_id(asked.session)
        lines = standing_lines(self._store, channel, name, since)
        text, told = standing_text(lines, session.given, min(STANDING_TOKENS, SESSION_TOKENS - session.tokens))
        session.hand(told, estimate_tokens(text) if text else 0)
        work = text_at_start(self._store, channel, name, asked.source, self._now())
        session.hand([], estimate_tokens(work) if work else 0)
        return "\n".join(filter(None, (work, text)))

    def _prompt(self, agent: str, asked: HookInput, session: HandedSession) -> str:
        """Tell what answers a prompt, if something surely does."""
        prompt = session.prompt
        budget = min(PROMPT_TOKENS, SESSION_TOKENS - session.tokens)
        if not prompt or _COMMAND.match(prompt) or budget <= 0:
            return ""
        envelope = self._store.context(
            prompt[:LONGEST_QUESTION],
            budget_tokens=budget,
            channel=channel_of(None, asked.folder),
            session=session_id(asked.session),
            given=session.given,
            only_sure=True,
        )
        slots = list(envelope.slots)
        while slots and len(text := fenced("\n".join(slot.text for slot in slots))) > MOST_CHARACTERS:
            slots.pop()
        if not slots:
            return ""
        session.hand([" ".join(slot.words.split()) for slot in slots], estimate_tokens(text))
        return text

    def _compacting(self, agent: str, asked: HookInput, session: HandedSession) -> str:
        """Forget what was given, and keep what was asked: the agent is about to forget it too."""
        session.forget_given()
        keep_task(self._store, channel_of(None, asked.folder), session_id(asked.session), session.prompt)
        return ""

    # ---- what is learned

    def _answered(self, agent: str, asked: HookInput, session: HandedSession) -> str:
        """Keep the turns of one exchange, unless the agent's transcript has them."""
        if not self._is_written_down(agent, asked):
            self._observe(agent, asked, session)
        return ""

    def _end(self, agent: str, asked: HookInput, session: HandedSession) -> str:
        """Read the last of the transcript; what is open stays as threads."""
        self._is_written_down(agent, asked)
        self._follower.end(session_id(asked.session))
        return ""

    def _is_written_down(self, agent: str, asked: HookInput) -> bool:
        return bool(asked.transcript) and self._follower.take(Path(asked.transcript), agent)

    def _observe(self, agent: str, asked: HookInput, session: HandedSession) -> None:
        """Keep prompt and answer. Each is known by its exchange, so that a hook that is called twice adds nothing."""
        exchange = asked.turn_id or f"prompt {session.prompts}"
        prompt = "" if session.is_kept else session.prompt
        said = ((Role.USER, prompt or own_words(asked.prompt)), (Role.ASSISTANT, own_words(asked.answer)))
        now = self._now()
        turns = [
            NewTurn(role.value, text, now, message_id or f"{exchange} {role.value}")
            for (role, text), message_id in zip(said, asked.message_ids, strict=True)
            if text
        ]
        head = SessionHead(
            session_id=session_id(asked.session),
            channel=channel_of(None, asked.folder),
            agent_id=agent,
            cwd=asked.folder or None,
        )
        if turns:
            self._store.observe(head, turns).result(KEPT_WITHIN_S)
        session.is_kept = True


def own_words(text: str) -> str:
    """Return what a person or a model said, without what hooks and our memory put beside it."""
    return without_element(without_recalled(text), "hook_context").strip()


MOST_THREADS = 3
LOST_WITHIN = timedelta(days=1)
"""An older anchor of a session that did not end is of another day's work, and is left to `anchor_recover`."""

LONGEST_TASK = 300
OPENING = "Left open by earlier sessions:"
SAME_SESSION = frozenset({"compact", "resume"})
"""The sources of a start whose agent had begun before: it goes on from its own anchor alone."""


def text_at_start(store: MemoryStore, channel: str, session_id: str, source: str, now: datetime) -> str:
    """Return the anchor that a session goes on from, and the open threads of its channel; "" for none."""
    if source in SAME_SESSION:
        return store.anchor_of_session(session_id).text
    lost = store.recover_anchor(channel, session_id)
    anchor = lost.text if lost.anchor is not None and now - lost.anchor.set_at <= LOST_WITHIN else ""
    return "\n".join(filter(None, (anchor, _threads(store, channel))))


def keep_task(store: MemoryStore, channel: str, session_id: str, prompt: str) -> None:
    """Note what a session was asked, before its agent forgets it, unless it left an anchor of its own."""
    if not prompt or store.paused or channel in store.channels_off:
        return
    if store.anchor_of_session(session_id).anchor is None:
        store.set_anchor(session_id, channel, task=" ".join(prompt.split())[:LONGEST_TASK])


def _threads(store: MemoryStore, channel: str) -> str:
    lines = [
        f"- since {(goal.thread_since or goal.changed_at):%-d %B %Y}, {goal.state}: “{unmarked(goal.text)}”"
        for goal in store.threads(channel)[:MOST_THREADS]
    ]
    return fenced("\n".join((OPENING, *lines))) if lines else ""

"""The answers to agents' hooks: text for a session's start and for a prompt; and the turns that are learned from them.

Most prompts get no text. Any text is fenced, comes at most once in a session, and is bounded in tokens, by prompt and
by session: every line that an agent does not need costs it attention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ipc.channels import channel_of
from ...store import estimate_tokens, fenced, session_id, without_element, without_recalled
from ...store.model import NewTurn, SessionHead
from ...store.roles import Role
from .briefs import BRIEF_TOKENS, Briefs, Start
from .hook_formats import FORMATS, HookInput, Moment, read_input, render_output
from .session_start import keep_task, open_work
from .undreamt_sessions import UndreamtSessions

if TYPE_CHECKING:
    from ...store import HandedSession, MemoryStore
    from ..importing.following.follower import Follower

PROMPT_TOKENS = 250
# The most for one session, until its context is cleared or compacted.
SESSION_TOKENS = 1500

# The moments that may be answered with text, if the agent takes it.
HANDED = frozenset({Moment.START, Moment.PROMPT})

# Claude Code puts a text of 10,000 characters into a file, and shows only its beginning.
MOST_CHARACTERS = 8000

# Characters of a prompt that are looked up: the rest is mostly pasted.
LONGEST_QUESTION = 2000

KEPT_WITHIN_S = 10.0

_COMMAND = re.compile(r"\s*/\w")


class Hooks:
    """Answers hooks from the store. Any thread may call."""

    def __init__(self, store: MemoryStore, follower: Follower, now: Callable[[], datetime]) -> None:
        self._store = store
        self._follower = follower
        self._now = now
        self.undreamt = UndreamtSessions(store, now)
        self.briefs = Briefs(store, self.undreamt, now)
        self._acts: Mapping[Moment, Callable[[str, HookInput, HandedSession], str]] = {
            Moment.START: self._start,
            Moment.PROMPT: self._prompt,
            Moment.COMPACTING: self._compacting,
            Moment.ANSWERED: self._answered,
            Moment.END: self._end,
        }

    def answer(self, agent: str, event: str, given: Mapping[str, Any], cwd: str | None) -> str:
        """Return the JSON to answer an agent with; "" for an event without an answer."""
        form = FORMATS.get(agent)
        if form is None or (moment := form.moments.get(event)) is None:
            return ""
        hook = read_input(form, given, cwd)
        if hook is None:
            return ""
        session = self._store.handed.get(agent, hook.session)
        if moment is Moment.PROMPT:
            session.note_prompt(own_words(hook.prompt))
        # Cursor takes no text at a prompt: searching for one would cost time, and count as handed over.
        is_in_vain = moment in HANDED and moment not in form.takes
        text = "" if is_in_vain else self._acts[moment](agent, hook, session)
        self._store.handed.keep(session)
        return render_output(form, event, text) if text and len(text) <= MOST_CHARACTERS else ""

    # ---- text for the agent

    def _start(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Return what holds now; to a resumed session only what others have learned since."""
        since = session.seen_at if hook.source == "resume" else None
        if since is None:
            session.forget_given()
        channel, name = channel_of(None, hook.folder), session_id(hook.session)
        start = Start(channel, name, agent, hook.folder, since, session.given)
        brief = self.briefs.brief(start, min(BRIEF_TOKENS, SESSION_TOKENS - session.tokens))
        session.hand(brief.lines, estimate_tokens(brief.text) if brief.text else 0)
        work = open_work(self._store, channel, name, hook.source, self._now())
        session.hand([], estimate_tokens(work) if work else 0)
        return "\n".join(filter(None, (work, brief.text)))

    def _prompt(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Return the memories that surely answer a prompt, "" without any."""
        prompt = session.prompt
        budget = min(PROMPT_TOKENS, SESSION_TOKENS - session.tokens)
        if not prompt or _COMMAND.match(prompt) or budget <= 0:
            return ""
        envelope = self._store.context(
            prompt[:LONGEST_QUESTION],
            budget_tokens=budget,
            channel=channel_of(None, hook.folder),
            session=session_id(hook.session),
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

    def _compacting(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Keep the prompt as an anchor, and allow every text again: the agent is about to forget both."""
        session.forget_given()
        keep_task(self._store, channel_of(None, hook.folder), session_id(hook.session), session.prompt)
        return ""

    # ---- learning

    def _answered(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Keep the turns of one exchange, unless they are read from the agent's transcript."""
        if not self._is_in_transcript(agent, hook):
            self._observe(agent, hook, session)
        self.undreamt.judge_later(session_id(hook.session), ended=False)
        return ""

    def _end(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Read the rest of the transcript; open goals stay as threads."""
        self._is_in_transcript(agent, hook)
        self._follower.end(session_id(hook.session))
        self.undreamt.judge_later(session_id(hook.session), ended=True)
        return ""

    def _is_in_transcript(self, agent: str, hook: HookInput) -> bool:
        return bool(hook.transcript) and self._follower.take(Path(hook.transcript), agent)

    def _observe(self, agent: str, hook: HookInput, session: HandedSession) -> None:
        """Keep prompt and answer. Their ids come from the exchange, so that a hook called twice adds nothing."""
        exchange = hook.turn_id or f"prompt {session.prompts}"
        prompt = "" if session.is_kept else session.prompt
        texts = ((Role.USER, prompt or own_words(hook.prompt)), (Role.ASSISTANT, own_words(hook.answer)))
        now = self._now()
        turns = [
            NewTurn(role.value, text, now, message_id or f"{exchange} {role.value}")
            for (role, text), message_id in zip(texts, hook.message_ids, strict=True)
            if text
        ]
        head = SessionHead(
            session_id=session_id(hook.session),
            channel=channel_of(None, hook.folder),
            agent_id=agent,
            cwd=hook.folder or None,
        )
        if turns:
            self._store.observe(head, turns).result(KEPT_WITHIN_S)
        session.is_kept = True


def own_words(text: str) -> str:
    """Return a person's or model's text without the parts that hooks and our memory added."""
    return without_element(without_recalled(text), "hook_context").strip()

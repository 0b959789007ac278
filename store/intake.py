"""Intake: the acknowledgement path of statements and of the turns of sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import astuple, replace
from datetime import datetime, timedelta

from . import okf
from .changes.agent_statements import INFERRED, STATED, STEERING, ForeignWords, Origin, as_trusted
from .changes.corrections import FUTURE, Corrections
from .changes.edits import TITLE_CHARS
from .changes.remembering import REMEMBER, Once, Remembering, Reviving
from .changes.run_kinds import new_run_id
from .changes.session_plans import Observed, SessionPlans
from .channel import is_of_session
from .core import Core
from .index.projection import CURATED
from .index.tombstones import fingerprint
from .limits import INFERRED_CERTAINTY, LONGEST_CURATED, SESSION_TTL_S, STATED_CERTAINTY
from .model import GLOBAL_CHANNEL, InvalidInput, Kind, Level, Memory, NewTurn, NodeId, SessionHead
from .okf.entity_page import ALIASES
from .redaction import REDACTED
from .results import Goal, Kept, Lesson
from .text.quotes import title_of
from .upkeep.feedback import Feedback
from .upkeep.linking import Linker
from .working.sessions import SessionsAtWork


class Intake:
    """Takes in memories and sessions. Every method may be called from any thread."""

    def __init__(
        self,
        core: Core,
        sessions: SessionPlans,
        feedback: Feedback,
        linker: Linker,
        corrections: Corrections,
        at_work: SessionsAtWork,
        foreign: ForeignWords,
    ) -> None:
        self._core = core
        self._door = core.door
        self._writer = core.writer
        self._switches = core.switches
        self._tombstones = core.tombstones
        self._now = core.now
        self._reviving = Reviving(core.lookup.path_of)
        self._sessions = sessions
        self._feedback = feedback
        self._linker = linker
        self._corrections = corrections
        self._at_work = at_work
        self._foreign = foreign

    # The acknowledgement path: the caller's thread checks, redacts and plans, and takes no lock of the index;
    # `Writer.submit` queues the plan; the writer's thread runs it, commits its outcome to the ledger (`Writer._turn`,
    # one transaction for all plans that wait), and then resolves the future: that is the acknowledgement. Files,
    # index, vectors and links follow, and no caller waits for them.

    def remember(
        self,
        text: str,
        *,
        kind: Kind = Kind.NOTE,
        channel: str = GLOBAL_CHANNEL,
        tags: Sequence[str] = (),
        agent_id: str | None = None,
        title: str = "",
        created_at: datetime | None = None,
        curated: int = 0,
        idempotency_key: str | None = None,
    ) -> Future[NodeId]:
        """Keep one statement; the future resolves when it survives a power cut. Secrets are taken out.

        A note from elsewhere has its own `title` and `created_at`. A `curated` statement, with that priority, is in
        every envelope of its channel; a known memory is not curated by that. Sent again with the same
        `idempotency_key`, it is answered as before and not counted as stated again. Raises InvalidInput for an empty
        text or a curated one that is too long, StoreReadOnly while learning is paused.
        """
        memory = _curated(self._memory(text, kind, channel, tags, agent_id, title, created_at), curated)
        return self._keep(memory, said_now=created_at is None, key=idempotency_key)[0]

    def take_note(
        self,
        text: str,
        *,
        kind: Kind,
        channel: str,
        tags: Sequence[str],
        title: str,
        created_at: datetime | None,
        alias: str = "",
    ) -> Future[Kept]:
        """Keep a note from elsewhere as `remember` does; the future resolves to its novelty and id.

        `alias` is the name of its file there, by which other notes link to it.
        """
        memory = self._memory(text, kind, channel, tags, None, title, created_at)
        if (known_as := self._door.title(alias)) and known_as != memory.title:
            memory = replace(memory, extra={**memory.extra, ALIASES: [known_as]})
        acknowledged, remembering = self._keep(memory, said_now=created_at is None)
        redacted = _redacted(memory, text)
        return _kept(acknowledged, lambda node_id: Kept(node_id, channel, remembering.novelty, redacted))

    def keep(
        self,
        text: str,
        *,
        kind: Kind = Kind.NOTE,
        channel: str = GLOBAL_CHANNEL,
        tags: Sequence[str] = (),
        agent_id: str | None = None,
        session: str | None = None,
        curated: int = 0,
        idempotency_key: str | None = None,
    ) -> Future[Kept]:
        """Keep one statement as `remember` does; the future resolves to its novelty and id.

        An agent's statement is kept as far as its `session` can be trusted (`changes.agent_statements`): an instruction
        may have to wait for review.
        """
        memory = _curated(self._memory(text, kind, channel, tags, agent_id), curated)
        memory, is_said = self._trusted(memory, session)
        if session is not None and is_of_session(channel):
            memory = replace(memory, session_id=self._door.session_name(session))
        acknowledged, remembering = self._keep(memory, key=idempotency_key, is_said=is_said)
        redacted = _redacted(memory, text)

        def answer(node_id: NodeId) -> Kept:
            is_new = remembering.novelty == "new"
            waits = memory.is_waiting if is_new else remembering.found_waiting and not is_said
            return Kept(node_id, channel, remembering.novelty, redacted, waits)

        return _kept(acknowledged, answer)

    def reflect(
        self,
        session_id: NodeId,
        channel: str,
        learned: Sequence[tuple[Kind, str]],
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[Lesson, ...]:
        """Keep the lessons of an agent from a session, as inferred facts; wait until they survive a power cut.

        A statement with the words of a memory of the channel is known. Sent again with the same `idempotency_key`, it
        is answered as before. Raises InvalidInput for an empty text, StoreReadOnly while learning is paused.
        """
        session_id = self._door.checked_session(session_id, channel)
        kept = []
        for number, (kind, text) in enumerate(learned):
            key = f"{idempotency_key}:{number}" if idempotency_key else None
            memory, is_said = self._trusted(self._memory(text, kind, channel, (), agent_id), session_id)
            memory = self._learned_in(memory, session_id)
            kept.append((memory, *self._keep(memory, key=key, is_said=is_said)))
        return tuple(
            Lesson(
                future.result(),
                memory.kind,
                memory.text,
                known=remembering.novelty == "known",
                waits=memory.is_waiting,
            )
            for memory, future, remembering in kept
        )

    def _memory(
        self,
        text: str,
        kind: Kind,
        channel: str,
        tags: Sequence[str],
        agent_id: str | None = None,
        title: str = "",
        created_at: datetime | None = None,
    ) -> Memory:
        """Return the memory of a statement: checked, and without secrets."""
        self._core.calls.note()
        self._door.check_names(channel, (agent_id,), tags)
        self._switches.refuse_if_off(channel)
        kept = self._door.statement(text)
        node_id = okf.fact_id(channel, kept)
        title = self._door.title(title) or title_of(kept, TITLE_CHARS)
        learned = {"learned_at": self._now().isoformat()} if created_at else {}
        return Memory(
            node_id=node_id,
            level=Level.FACT,
            kind=kind,
            title=title,
            text=kept,
            channel=channel,
            scope=_scope_of(channel),
            tags=tuple(map(self._door.name, tags)),
            created_at=created_at or self._now(),
            certainty=STATED_CERTAINTY,
            provenance="user_corrected" if kind is Kind.CORRECTION else STATED,
            path=okf.path_for(Level.FACT, title, node_id, channel, kind=kind, layout=self._core.layout),
            extra={**learned, **({"agent_id": self._door.name(agent_id)} if agent_id else {})},
        )

    def _keep(
        self, memory: Memory, *, said_now: bool = True, key: str | None = None, is_said: bool = False
    ) -> tuple[Future[NodeId], Remembering]:
        """Queue the plan to keep a memory; the future resolves when it survives a power cut.

        `is_said`: these are a person's own words.
        """
        self._core.projects.learn(memory.channel)
        # The fingerprint costs a hash of all words, so it is taken only if there is any tombstone.
        tombstone = fingerprint(memory) if self._tombstones.names else ""
        now = self._now()
        remembering = Remembering(
            memory,
            self._reviving,
            new_run_id(now, REMEMBER),
            now,
            tombstone=tombstone if tombstone in self._tombstones.names else None,
            said_now=said_now,
        )

        # The kept answer of a repeated request has the novelty of the first: `remembering` has not run for this one.
        def read(kept: str) -> NodeId:
            node_id, remembering.novelty = json.loads(kept)
            return str(node_id)

        def write(node_id: NodeId) -> str:
            return json.dumps([node_id, remembering.novelty])

        once = key and Once(remembering, self._core.ledger, "remember", key, now, write=write, read=read)
        acknowledged = self._writer.submit(once or remembering)

        def link(kept_as: Future[NodeId]) -> None:
            if not (once and once.was_repeated):
                self._link(kept_as, remembering, memory, is_said)

        acknowledged.add_done_callback(link)
        return acknowledged, remembering

    def observe(
        self, head: SessionHead, turns: Sequence[NewTurn], idempotency_key: str | None = None, *, live: bool = False
    ) -> Future[Observed]:
        """Keep turns of a session, each once by its external id; the future resolves when they survive a power cut.

        While learning is paused, or off in the channel, nothing is kept and all counts are 0. Sent again with the same
        `idempotency_key`, it is answered as before. `live`: turns come in as they are said, so one without a time was
        said now.
        """
        self._core.calls.note()
        if live:
            now = self._now()
            turns = [turn if turn.at else replace(turn, at=now) for turn in turns]
        self._door.check_names(head.channel, (head.agent_id, head.task_id, head.user_id))
        if not self._switches.is_off(head.channel):
            self._core.projects.learn(head.channel, head.cwd)
        head = self._door.head(head)
        if self._switches.is_off(head.channel):
            self._foreign.miss(head.session_id)
            nothing: Future[Observed] = Future()
            nothing.set_result(Observed(head.session_id, 0, 0, 0))
            return nothing
        # Feedback only queues the turns, so that it does not delay the acknowledgement.
        self._feedback.said(head.session_id, head.channel, turns)
        recent = self._now() - timedelta(seconds=SESSION_TTL_S)  # older turns are an import, and no work under way
        if any(turn.at is None or (turn.at.tzinfo is not None and turn.at >= recent) for turn in turns):
            self._at_work.hear(head.session_id)
        if live:
            self._foreign.hear(head.session_id, head.agent_id or "", head.channel, turns)
        plan = self._sessions.observe(head, turns)
        if idempotency_key is not None:
            plan = Once(
                plan,
                self._core.ledger,
                "observe",
                idempotency_key,
                self._now(),
                write=lambda observed: json.dumps(astuple(observed)),
                read=lambda kept: Observed(*json.loads(kept)),
            )
        return self._writer.submit(plan)

    def hear_read(self, head: SessionHead, turns: Sequence[NewTurn]) -> None:
        """Note whose words a session has, as far as it is read; it may have grown since."""
        name = self._door.session_name(head.session_id)
        if self._switches.is_off(head.channel):
            self._foreign.miss(name)
        else:
            self._foreign.hear(name, head.agent_id or "", head.channel, turns, grows_unseen=True)

    def keep_thread(self, goal: Goal) -> None:
        """Keep a goal that its session left open, as a fact about the future, unless learning is off."""
        if not self._switches.is_off(goal.channel):
            memory = self._memory(goal.text, Kind.FACT, goal.channel, ())
            memory = replace(self._learned_in(memory, goal.session_id), tense=FUTURE)
            self._keep(memory)[0].result()

    def _learned_in(self, memory: Memory, session_id: NodeId) -> Memory:
        """Return a memory as one that an agent inferred in a session."""
        path = self._core.lookup.path_of(session_id)
        source = {"id": "session", "resource": f"/{path}" if path else session_id, "title": session_id}
        return replace(
            memory,
            session_id=session_id,
            certainty=INFERRED_CERTAINTY,
            provenance=INFERRED,
            extra={**memory.extra, "sources": [source]},
        )

    def _trusted(self, memory: Memory, session: str | None) -> tuple[Memory, bool]:
        """Return a statement as it is kept, an agent's as far as it can be trusted, and True if a person said it."""
        agent = memory.extra.get("agent_id")
        if not agent:
            return memory, True
        named = self._door.session_name(session) if session else None
        trust = self._foreign.trust(named, str(agent), memory.channel, memory.text)
        return as_trusted(memory, trust), trust is Origin.SAID

    def _link(self, kept_as: Future[NodeId], remembering: Remembering, memory: Memory, is_said: bool) -> None:
        """Queue the linking of a memory. Called in the writer's thread."""
        if kept_as.cancelled() or kept_as.exception() is not None:
            return
        if not memory.is_waiting:  # one that waits for review changes no other memory
            self._linker.on_remembered(kept_as.result(), known=remembering.is_known)
            if is_said and remembering.found_waiting and (memory.kind in STEERING or CURATED in memory.extra):
                waiting = replace(memory, node_id=kept_as.result())
                self._linker.later(lambda: self._corrections.vouch(waiting))


def _redacted(memory: Memory, given: str) -> int:
    """Count the secrets that were taken out of a given text."""
    return max(0, memory.text.count(REDACTED) - given.count(REDACTED))


def _kept(acknowledged: Future[NodeId], answer: Callable[[NodeId], Kept]) -> Future[Kept]:
    """Return a future that resolves to the answer when a memory is acknowledged; cancelling it cancels that."""
    kept: Future[Kept] = Future()
    kept.add_done_callback(lambda one: acknowledged.cancel() if one.cancelled() else None)

    def resolve(done: Future[NodeId]) -> None:
        if done.cancelled() or not kept.set_running_or_notify_cancel():
            kept.cancel()
        elif error := done.exception():
            kept.set_exception(error)
        else:
            kept.set_result(answer(done.result()))

    # Runs in the writer's thread right after the commit, or here if that is done already.
    acknowledged.add_done_callback(resolve)
    return kept


def _scope_of(channel: str) -> str:
    """Return the scope that a memory of a channel is of: it ends with its session, is of a project, or of all."""
    return "session" if is_of_session(channel) else "global" if channel == GLOBAL_CHANNEL else "project"


def _curated(memory: Memory, priority: int) -> Memory:
    """Return a memory as curated, itself for priority 0. Raises InvalidInput for a long one."""
    if not priority:
        return memory
    if len(memory.text) > LONGEST_CURATED:
        raise InvalidInput(
            f"it has {len(memory.text)} characters, and stands in every envelope",
            hint=f"Say it in {LONGEST_CURATED}, or keep it without `always`.",
        )
    return replace(memory, extra={**memory.extra, CURATED: priority})

"""The acknowledgement path: what clients give to be kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import astuple, replace
from datetime import datetime

from .. import okf
from ..background.activity import Activity
from ..changes.intake import Observed, Remembering, SessionPlans
from ..changes.repeats import Once
from ..changes.revival import REMEMBER, Reviving
from ..changes.runs import fingerprint, new_run_id
from ..door import Door
from ..index.catalog import LONGEST_CURATED
from ..index.projection import CURATED
from ..ledger.ledger import Ledger
from ..model import GLOBAL_CHANNEL, InvalidInput, Kind, Level, Memory, NewTurn, NodeId, SessionHead
from ..redaction import REDACTED
from ..results import Goal, Kept, Lesson
from ..text.quotes import title_of
from ..working.awaiting import INFERRED, INFERRED_CERTAINTY, STATED, STATED_CERTAINTY, STEERING, as_trusted
from ..working.foreign_words import ForeignWords, Trust
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .feedback import Feedback
from .lookup import Lookup
from .switches import Switches
from .tombstones import Tombstones

FUTURE = "future"
"""The tense of what is still to come."""

TITLE_CHARS = 79


class Intake:
    """Takes in memories and sessions. Every method may be called from any thread.

    `remembered` is called with a memory's id, and with whether it was known, once it is acknowledged; `heard` with a
    session's turns, and `vouched` with a memory that a person's words say again and that waits for their review.
    """

    def __init__(
        self,
        writer: Writer,
        ledger: Ledger,
        sessions: SessionPlans,
        reviving: Reviving,
        lookup: Lookup,
        feedback: Feedback,
        tombstones: Tombstones,
        switches: Switches,
        activity: Activity,
        remembered: Callable[[NodeId, bool], None],
        heard: Callable[[NodeId, str, Sequence[NewTurn]], None],
        foreign: ForeignWords,
        vouched: Callable[[Memory], None],
        now: Callable[[], datetime],
        door: Door,
    ) -> None:
        self._door = door
        self._writer = writer
        self._ledger = ledger
        self._sessions = sessions
        self._reviving = reviving
        self._lookup = lookup
        self._feedback = feedback
        self._tombstones = tombstones
        self._switches = switches
        self._activity = activity
        self._remembered = remembered
        self._heard = heard
        self._foreign = foreign
        self._vouched = vouched
        self._now = now

    # The acknowledgement path, of both methods: the caller's thread checks, redacts and plans, and takes no lock of the
    # index; `Writer.submit` queues the plan; the writer's thread runs it and commits what it came to into the ledger
    # (`Writer._turn`, one transaction for all that wait), and then resolves the future: that is the acknowledgement.
    # Files, index, vectors and links follow, and no caller waits for them.

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

        What was written down elsewhere brings its `title` and the time that it is of, `created_at`. A `curated` one, of
        that priority, stands in every envelope of its channel; one that is known is not changed by that. Sent again
        with the same `idempotency_key`, it is answered as before and is not counted as said again.
        Raises InvalidInput for an empty text or a curated one too long, StoreReadOnly while learning is paused.
        """
        memory = _curated(self._memory(text, kind, channel, tags, agent_id, title, created_at), curated)
        return self._keep(memory, said_now=created_at is None, key=idempotency_key)[0]

    def take_note(
        self, text: str, *, kind: Kind, channel: str, tags: Sequence[str], title: str, created_at: datetime | None
    ) -> Future[Kept]:
        """Keep what was written down elsewhere as `remember` does; the future resolves to what is known of it then."""
        memory = self._memory(text, kind, channel, tags, None, title, created_at)
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
        """Keep one statement as `remember` does; the future resolves to what is known of it then.

        An agent's is kept as far as its `session` can be trusted (`working.awaiting`): what steers may have to wait.
        """
        memory = _curated(self._memory(text, kind, channel, tags, agent_id), curated)
        memory, is_said = self._trusted(memory, session)
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
        """Keep what an agent learned in a session, as facts that it inferred; wait until they survive a power cut.

        What the channel knows in the same words is known. Sent again with the same `idempotency_key`, it is answered as
        before. Raises InvalidInput for an empty text, StoreReadOnly while
        learning is paused.
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
        """Return a statement as the memory that it becomes: checked, and without secrets."""
        self._activity.note_call()
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
            scope="global" if channel == GLOBAL_CHANNEL else "project",
            tags=tuple(map(self._door.name, tags)),
            created_at=created_at or self._now(),
            certainty=STATED_CERTAINTY,
            provenance="user_corrected" if kind is Kind.CORRECTION else STATED,
            path=okf.path_for(Level.FACT, title, node_id),
            extra={**learned, **({"agent_id": self._door.name(agent_id)} if agent_id else {})},
        )

    def _keep(
        self, memory: Memory, *, said_now: bool = True, key: str | None = None, is_said: bool = False
    ) -> tuple[Future[NodeId], Remembering]:
        """Have a memory kept, once; its future resolves when it survives a power cut.

        `is_said`: these are a person's own words.
        """
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

        def read(kept: str) -> NodeId:
            node_id, remembering.novelty = json.loads(kept)
            return str(node_id)

        def write(node_id: NodeId) -> str:
            return json.dumps([node_id, remembering.novelty])

        once = key and Once(remembering, self._ledger, "remember", key, now, write=write, read=read)
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
        `idempotency_key`, it is answered as before. `live`: all that is said in the session comes in as it is said, so
        a turn without a time was said now.
        """
        self._activity.note_call()
        if live:
            now = self._now()
            turns = [turn if turn.at else replace(turn, at=now) for turn in turns]
        self._door.check_names(head.channel, (head.agent_id, head.task_id, head.user_id))
        head = self._door.head(head)
        if self._switches.is_off(head.channel):
            self._foreign.miss(head.session_id)
            nothing: Future[Observed] = Future()
            nothing.set_result(Observed(head.session_id, 0, 0, 0))
            return nothing
        self._feedback.said(head.session_id, head.channel, turns)
        self._heard(head.session_id, head.channel, turns)
        if live:
            self._foreign.hear(head.session_id, head.agent_id or "", head.channel, turns)
        plan = self._sessions.observe(head, turns)
        if idempotency_key is not None:
            plan = Once(
                plan,
                self._ledger,
                "observe",
                idempotency_key,
                self._now(),
                write=lambda observed: json.dumps(astuple(observed)),
                read=lambda kept: Observed(*json.loads(kept)),
            )
        return self._writer.submit(plan)

    def keep_thread(self, goal: Goal) -> None:
        """Keep a goal that its session left open, as a fact about what is to come; none where nothing is learned."""
        if not self._switches.is_off(goal.channel):
            memory = self._memory(goal.text, Kind.FACT, goal.channel, ())
            memory = replace(self._learned_in(memory, goal.session_id), tense=FUTURE)
            self._keep(memory)[0].result()

    def _learned_in(self, memory: Memory, session_id: NodeId) -> Memory:
        """Return a memory as one that an agent inferred in a session."""
        path = self._lookup.path_of(session_id)
        source = {"id": "session", "resource": f"/{path}" if path else session_id, "title": session_id}
        return replace(
            memory,
            session_id=session_id,
            certainty=INFERRED_CERTAINTY,
            provenance=INFERRED,
            extra={**memory.extra, "sources": [source]},
        )

    def say_again(self, node_id: NodeId) -> None:
        """Count a memory that is known as said again, if its file is still there; wait until that is acknowledged."""
        now = self._now()
        run_id = new_run_id(now, REMEMBER)

        def plan(files: PendingFiles) -> Planned[NodeId]:
            path = self._lookup.path_of(node_id)
            if path is None or not files.exists(path):
                return Planned(node_id)
            return self._reviving.plan(files, node_id, path, run_id, now)

        self._writer.submit(plan).result()

    def _trusted(self, memory: Memory, session: str | None) -> tuple[Memory, bool]:
        """Return a statement as it is to be kept, an agent's as far as it can be trusted; and if a person said it."""
        agent = memory.extra.get("agent_id")
        if not agent:
            return memory, True
        named = self._door.session_name(session) if session else None
        trust = self._foreign.trust(named, str(agent), memory.channel, memory.text)
        return as_trusted(memory, trust), trust is Trust.SAID

    def _link(self, kept_as: Future[NodeId], remembering: Remembering, memory: Memory, is_said: bool) -> None:
        """Have a memory linked in the background; called in the writer's thread."""
        if kept_as.cancelled() or kept_as.exception() is not None:
            return
        if not memory.is_waiting:  # which changes nothing else until it is accepted
            self._remembered(kept_as.result(), remembering.is_known)
            if is_said and remembering.found_waiting and (memory.kind in STEERING or CURATED in memory.extra):
                self._vouched(replace(memory, node_id=kept_as.result()))


def _redacted(memory: Memory, given: str) -> int:
    """Count the secrets that were taken out of what was given."""
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

    acknowledged.add_done_callback(resolve)
    return kept


def _curated(memory: Memory, priority: int) -> Memory:
    """Return a memory that stands in every envelope; itself for no priority. Raises InvalidInput for a long one."""
    if not priority:
        return memory
    if len(memory.text) > LONGEST_CURATED:
        raise InvalidInput(
            f"it has {len(memory.text)} characters, and stands in every envelope",
            hint=f"Say it in {LONGEST_CURATED}, or keep it without `always`.",
        )
    return replace(memory, extra={**memory.extra, CURATED: priority})

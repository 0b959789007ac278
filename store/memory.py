"""The face of the room: remember, observe, recall, context, show, forget, and the life of what is behind them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from .background.embedding import EmbedQueue
from .background.linking import Kinship
from .background.relevance_feedback import Answered, FollowUp
from .changes import intake
from .changes.decisions import Choice, Decision, Decisions, restoring
from .changes.deletions import Deletions, bringing_back
from .changes.intake import Observed, SessionPlans
from .changes.link_edits import TieEdits
from .changes.revival import REMEMBER, Reviving
from .changes.runs import DELETED, FORGET, REVIEW, AppliedRun, Changes, Undone, fingerprint, new_run_id
from .changes.standing import last_successor
from .find.embedding.cache import EmbeddingCache
from .find.embedding.embedding import Embedder
from .find.index import scope
from .find.index.index import Reconciled, is_as_read
from .find.index.indexer import Indexer
from .find.index.mending import Mending
from .find.index.opening import OpenIndex
from .find.index.projection import SUCCESSOR, Node
from .find.search import hits as answer
from .find.search import rendering
from .find.search.hits import Recalled
from .find.search.search import Question, Ranking, Search
from .keep import okf
from .keep.derived import DerivedFiles, notes_on
from .keep.files.disk import Disk
from .keep.files.file_names import FileNames
from .keep.files.leftovers import Leftovers
from .keep.files.presence import Presence
from .keep.files.vault import Absence, FileStamp, Vault, is_kept
from .keep.ledger import records
from .keep.ledger.journal import sha256
from .keep.ledger.ledger import Ledger
from .keep.ledger.questions import forget_questions, prune_questions
from .keep.ledger.records import LINK, Run
from .keep.ledger.salvage import HISTORY_LOST, damaged_files
from .keep.okf.session import session_id as session_node_id
from .keep.unwritable import copy_to_memory
from .keep.writer.pending import PendingFiles
from .keep.writer.writer import Planned, Writer
from .model import (
    ALL_CHANNELS,
    GLOBAL_CHANNEL,
    Action,
    ActionKind,
    Changeset,
    Conflict,
    Corrupt,
    Envelope,
    Hit,
    IndexDamaged,
    InvalidInput,
    Kind,
    Level,
    Memory,
    NewTurn,
    NodeId,
    NotFound,
    SessionHead,
    Slot,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    Verdict,
)
from .results import Decided, Elsewhere, Forgotten, Listed, Problem, Rebuilt, Restored, Shown, StoreStatus
from .settings import StoreSettings
from .text.normal_form import normal_form

logger = logging.getLogger(__name__)

READ_YOUR_WRITES_S = 2.0
"""How long a question waits for what was acknowledged before it to become visible."""

FORGOTTEN = "[forgotten]"
"""What is said of a forgotten turn, which stays in its session's file."""

WRITTEN_WITHIN_S = 120.0
"""How long an undo waits for what was acknowledged before it."""

STATUS_WAITS_S = 0.5
"""How long `status` waits for what was acknowledged before it to be counted."""

COMPARED_AGAIN_S = 5.0
"""How long after a comparison of vault and index that failed the next one is tried."""

VAULT_ID = "vault_id"
"""The ledger's flag with the id of the vault that belongs to it."""

BUSY_FOR_S = 0.1
"""How long after a call the embedding of what came in stays out of the way of the next one."""

COUNTED = {Level.SESSION: "sessions", Level.FACT: "facts", Level.SCENARIO: "scenarios", Level.PROFILE: "profiles"}

MODEL_WAIT_S = 1.5
"""How long the first questions after a start wait for the embedding model before keywords answer alone."""


NOT_FOUND_YET = "what was written last is not found yet"
SALVAGE = "Stop dreamd, then `dreamctl salvage` brings back what can be read of it."

REPLACED_S = 4.0
"""How long a question waits for a damaged index to be replaced by a new one, which fills while it answers."""

P = ParamSpec("P")
T = TypeVar("T")


def _answered_by_another(
    method: Callable[Concatenate[MemoryStore, P], T],
) -> Callable[Concatenate[MemoryStore, P], T]:
    """Ask once more, of what takes its place, when the index or the ledger that was asked turns out damaged."""

    @wraps(method)
    def asking(store: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(store, *args, **kwargs)
        except IndexDamaged:
            store._mending.wait(REPLACED_S)
        except Corrupt:  # the ledger
            store._wait_for_ledger()
        return method(store, *args, **kwargs)

    return asking


LEFTOVER = (
    "a write that was interrupted left it, and what it holds is nowhere else: it may be what somebody saved at that"
    " moment; move it to where it belongs, or remove it"
)


@dataclass(frozen=True, slots=True)
class StorePaths:
    """Where everything lies."""

    vault: Path
    ledger: Path
    index: Path
    embeddings: Path
    runs: Path


class MemoryStore:
    """One vault with its ledger and its index. Open it once; every method may be called from any thread.

    `paused`: all learning is switched off; `channels_off`: the channels in which nothing is learned.
    """

    def __init__(
        self,
        paths: StorePaths,
        settings: StoreSettings,
        embedder: Embedder,
        now: Callable[[], datetime],
        disk: Disk | None = None,
        claim: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start to work; what a crash left undone, and what changed meanwhile, is taken in beside the first calls.

        A vault that is not there is waited for; `claim` locks its folder against other daemons. Raises StoreError when
        the ledger cannot be opened; a damaged index is made anew.
        """
        self.paths = paths
        self._now = now
        self._called_at = 0.0
        self._embedder = embedder
        self._settings = settings
        disk = disk or Disk()
        self.vault = Vault(paths.vault, disk)
        self.ledger = Ledger(paths.ledger)
        if self.ledger.is_new and self.vault.has_marker():  # its ledger is gone, or it came from elsewhere
            self.ledger.commit([], [records.set_flag(HISTORY_LOST, records.stored(now()))])
        self._read_switches()
        self._read_tombstones()
        self._leftovers = Leftovers(self.vault, self.ledger.holds, now())
        self._closing = threading.Event()
        self._sweeping = threading.Thread(target=self._sweep, name="dreamd-sweep", daemon=True)
        self._deletions = Deletions(self.vault, self.ledger, now, self._read_tombstones)
        self._mending = Mending(lambda: self._opened, self._fill)
        self._opened = OpenIndex(
            paths.index,
            self.vault,
            embedder,
            settings,
            now,
            self._is_hidden,
            self._deletions,
            on_damage=self._mending.noticed,
        )
        self.index, self.catalog = self._opened.index, self._opened.catalog
        self._names = FileNames(self.vault)
        self._presence = Presence(
            self.vault, self.ledger.flags().get(VAULT_ID), self._remember_vault, is_new=self._is_new(), claim=claim
        )
        self._presence.look()
        self._indexer = Indexer(self.index, self._wake_queue, self._was_asked, lambda s: self._writer.is_writing(s))
        self._writer = Writer(
            self.vault,
            self.ledger,
            self._indexer.placed,
            disk,
            is_asked=self._was_asked,
            presence=self._presence,
            on_back=self._catch_up,
        )
        self.ledger.in_mind = self._in_mind
        self.ledger.on_damage = self._writer.begin_ledger_anew
        self._deletions.start(self._opened, self._writer)
        self._cache = EmbeddingCache(self._place_of_vectors(), embedder.model_id)
        self._search = Search(self.catalog, self.index.backend, embedder, settings.search)
        self._queue = EmbedQueue(self.index, embedder, self._cache, self._is_busy)
        self._sessions = SessionPlans(self._path_of, self._deletions.before_anew)
        self._follow_up = FollowUp(self._writer.later, self._is_busy, self.ledger.asked)
        self.derived = DerivedFiles(self.vault, self.ledger, self._writer)
        self._changes = Changes(
            self.vault, self.ledger, self._writer, self._paths_citing, self._paths_replaced_by, self.settle
        )
        self._reviving = Reviving(self._path_of, lambda one, other: normal_form(one) == normal_form(other))
        self._kinship = Kinship(
            self.catalog,
            self.index.backend,
            self.vault,
            self._set_beside,
            self._say_again,
            lambda: self._tombstones,
            self._is_busy,
            now,
        )
        self._decisions = Decisions(self.catalog, self.vault, lambda: self._tombstones)
        self._writer.start()
        self._indexer.start(self._writer.visible)
        self._catch_up()
        self._mending.start()
        if self._opened.is_copy:
            self._mending.noticed()
        self._queue.start()
        self._follow_up.start()
        self._kinship.start()
        self._sweeping.start()
        if not settings.probes and self.ledger.asked() and not self.ledger.is_copy:
            self.purge_questions()

    @classmethod
    def open(
        cls,
        paths: StorePaths,
        settings: StoreSettings,
        embedder: Embedder,
        now: Callable[[], datetime],
        claim: Callable[[], bool] = lambda: True,
    ) -> MemoryStore:
        """Open the store on a real disk."""
        return cls(paths, settings, embedder, now, claim=claim)

    def close(self) -> None:
        """Finish what was acknowledged and let go of everything."""
        self._closing.set()
        self._sweeping.join()
        self._follow_up.stop()
        self._kinship.stop()
        self._deletions.stop()
        self._writer.close()
        self._indexer.stop()
        self._mending.stop()
        self._queue.stop()
        self._search.close()
        self._opened.close()
        self._cache.close()
        self.ledger.close()

    # ---- what comes in

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
    ) -> Future[NodeId]:
        """Keep one statement; the future resolves when it survives a power cut. Secrets are taken out.

        What was written down elsewhere brings its `title` and the time that it is of, `created_at`.
        Raises InvalidInput for an empty text, StoreReadOnly while learning is paused.
        """
        self._called_at = time.monotonic()
        intake.check_names(channel, (agent_id,), tags)
        self.refuse_if_off(channel)
        kept = intake.clean_text(text)
        node_id = okf.fact_id(channel, kept)
        title = intake.clean_title(title) or _title(kept)
        now = self._now()
        learned = {"learned_at": now.isoformat()} if created_at else {}
        memory = Memory(
            node_id=node_id,
            level=Level.FACT,
            kind=kind,
            title=title,
            text=kept,
            channel=channel,
            scope="global" if channel == GLOBAL_CHANNEL else "project",
            tags=tuple(tags),
            created_at=created_at or now,
            certainty=0.95,
            provenance="user_corrected" if kind is Kind.CORRECTION else "user_stated",
            path=okf.path_for(Level.FACT, title, node_id),
            extra=learned | ({"agent_id": agent_id} if agent_id else {}),
        )
        name = fingerprint(memory) if self._tombstones else ""
        remembering = intake.Remembering(
            memory,
            self._reviving,
            new_run_id(now, REMEMBER),
            now,
            tombstone=name if name in self._tombstones else None,
            said_now=created_at is None,
        )
        kept_as = self._writer.submit(remembering)
        kept_as.add_done_callback(lambda kept: self._set_beside_soon(kept, remembering))
        return kept_as

    def observe(self, head: SessionHead, turns: Sequence[NewTurn]) -> Future[Observed]:
        """Keep turns of a session, each once by its external id; the future resolves when they survive a power cut.

        While learning is paused, or off in the channel, nothing is kept and all counts are 0.
        """
        self._called_at = time.monotonic()
        intake.check_names(head.channel, (head.agent_id, head.task_id, head.user_id))
        if self.paused or head.channel in self.channels_off:
            nothing: Future[Observed] = Future()
            nothing.set_result(Observed(head.session_id, 0, 0, 0))
            return nothing
        self._follow_up.was_said(session_node_id(head.session_id), head.channel, turns, self._now())
        return self._writer.submit(self._sessions.observe(head, turns))

    # ---- what is asked

    @_answered_by_another
    def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        channel: str | None = None,
        levels: Sequence[Level] = (),
        include_archived: bool = False,
        as_of: datetime | None = None,
        explain: bool = False,
    ) -> Recalled:
        """Find what answers a question, best first."""
        question = Question(
            text=query,
            limit=limit,
            channel=channel,
            levels=tuple(levels),
            include_archived=include_archived,
            as_of=as_of,
        )
        ranking = self._rank(question)
        plainly = not (levels or include_archived or as_of or explain)
        if answer.abstains(ranking):
            if plainly:
                self._follow(query, channel, None, ranking, ())
            return Recalled([], True, ranking.notes, answer.trace(ranking) if explain else {})
        found = answer.hits(ranking, self.catalog, limit)
        self._writer.later(*records.log_usage([hit.node_id for hit in found], self._now()))
        if plainly:
            self._follow(query, channel, None, ranking, found)
        return Recalled(found, False, ranking.notes, answer.trace(ranking) if explain else {})

    @_answered_by_another
    def context(
        self, query: str, *, budget_tokens: int = 1000, channel: str | None = None, session: str | None = None
    ) -> Envelope:
        """Find what answers a question, packed into a budget of tokens. `session` is left out: its agent has it."""
        limit = max(10, min(200, budget_tokens // 10))
        ranking = self._rank(Question(text=query, limit=limit, channel=channel))
        ranking.leave_out_session(session)
        if answer.abstains(ranking):
            self._follow(query, channel, session, ranking, ())
            return Envelope("", 0, (), abstained=True, notes=tuple(ranking.notes))
        envelope = answer.envelope(ranking, self.catalog, budget_tokens, self._now())
        self._writer.later(*records.log_usage([slot.node_id for slot in envelope.slots], self._now()))
        self._follow(query, channel, session, ranking, envelope.slots)
        return replace(envelope, notes=tuple(ranking.notes))

    @_answered_by_another
    def elsewhere(self, query: str, limit: int = 10) -> list[Elsewhere]:
        """Find what answers a question in any channel, by channel, best first; nothing of it is counted or kept."""
        ranking = self._rank(Question(text=query, limit=limit, channel=ALL_CHANNELS))
        found: dict[str, list[Hit]] = {}
        if not answer.abstains(ranking):
            for hit in answer.hits(ranking, self.catalog, limit):
                found.setdefault(hit.channel, []).append(hit)
        return [Elsewhere(channel, tuple(hits)) for channel, hits in found.items()]

    @_answered_by_another
    def channels(self) -> dict[str, int]:
        """Count the memories and turns of each channel."""
        return self.catalog.channels()

    @_answered_by_another
    def rank(self, question: Question) -> Ranking:
        """Rank what answers a question, for whoever tests recall: nothing of it is counted or kept."""
        self.settle()
        return self._search.rank(question)

    @property
    def is_busy(self) -> bool:
        """Whether somebody asked, or wrote, a moment ago."""
        return self._is_busy()

    @_answered_by_another
    def show(self, node_id: NodeId, *, wanted: bool = True) -> Shown:
        """One memory, session or turn. Raises NotFound.

        `wanted`: somebody asks for it by its id, which says that the answer that named it was of use.
        """
        node = self._node(node_id)
        if wanted:
            self._follow_up.was_looked_at(node_id, self._now())
        beside = scope.beside(node.channel)
        successors = self._named(self.catalog.links(node_id, SUCCESSOR), beside)
        opposed = [*self.catalog.links(node_id, "contradicts"), *self.catalog.cited_by(node_id, "contradicts")]
        return Shown(
            node_id=node.node_id,
            level=node.level,
            kind=node.kind,
            title=FORGOTTEN if self._is_hidden(node_id) else node.title,
            text=self._told(node),
            channel=node.channel,
            path=node.path,
            created_at=node.created_at,
            live=node.live,
            tags=node.tags,
            evidence=answer.evidence_of([node], self.catalog, beside)[node_id],
            cited_by=self._named(self.catalog.cited_by(node_id), beside),
            superseded_by=successors[0] if successors else None,
            supersedes=self._named(self.catalog.links(node_id, "supersedes"), beside),
            contradicts=self._named(opposed, scope.living_beside(node.channel)),
        )

    def _told(self, node: Node) -> str:
        """A memory's text, of a session its turns'; what was forgotten is told nobody."""
        if node.kind is Kind.SESSION:
            turns = self.catalog.turns(node.node_id)
            return "\n\n".join(f"#{turn.ordinal} {turn.role}: {self._told(turn)}" for turn in turns)
        return FORGOTTEN if self._is_hidden(node.node_id) else node.text

    def _named(self, node_ids: Sequence[NodeId], beside: scope.Scope) -> tuple[NodeId, ...]:
        """Those that are there, and may be named."""
        nodes = self.catalog.nodes(node_ids)
        return tuple(dict.fromkeys(name for name in node_ids if name in nodes and beside.admits(nodes[name])))

    @_answered_by_another
    def list(
        self,
        *,
        channel: str | None = None,
        level: Level | None = None,
        kind: Kind | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> list[Listed]:
        """Memories and sessions, newest first; turns when asked for by kind."""
        self.settle()
        nodes = self.catalog.listing(channel, level, kind, limit, offset)
        titles = {node.node_id: FORGOTTEN if self._is_hidden(node.node_id) else node.title for node in nodes}
        return [Listed(n.node_id, n.level, n.kind, titles[n.node_id], n.channel, n.created_at, n.live) for n in nodes]

    # ---- what becomes of an answer

    def feedback(self, node_id: NodeId, verdict: Verdict) -> None:
        """Keep what somebody says of a memory that was shown. Raises NotFound."""
        node = self._node(node_id)
        self._writer.write(records.record_feedback(node_id, verdict.replace("-", "_"), self._now())).result()
        gold = [turn.node_id for turn in answer.evidence_of([node], self.catalog)[node_id]] or [node_id]
        self._follow_up.was_judged(node_id, gold, verdict == "useful")

    def purge_questions(self) -> int:
        """Remove every question that was kept, for good; return how many there were."""
        self._follow_up.forget()
        self._follow_up.settle(READ_YOUR_WRITES_S)

        def erase(files: PendingFiles) -> Planned[int]:
            held = len(self.ledger.asked())
            self.ledger.erase(forget_questions())
            return Planned(held)

        return self._writer.submit(erase).result()

    # ---- what a person takes back

    def forget(self, node_id: NodeId, reason: str = "") -> Forgotten:
        """Take a memory back, as a run that `undo` can undo; no dream proposes it again.

        A turn stays in its session's file and is found no more; facts that rest on nothing else go with it. What it
        had taken the place of holds again. Raises NotFound, and InvalidInput for a session.
        """
        node = self._node(node_id)
        if node.kind is Kind.SESSION:
            raise InvalidInput(f"{node_id} is a whole session", hint="Forget its turns, by their ids SESSION#N.")
        reason = reason or "forgotten by its person"
        also = [other for other in self._resting_only_on(node_id) if other.node_id != node_id]
        doomed = also if node.kind is Kind.TURN else [node, *also]
        actions = (*(self._forgetting(other, reason) for other in doomed), *self._releasing(doomed))
        now = self._now()
        run_id = new_run_id(now, FORGET)
        summary = {"node_id": node_id, "note": f"forgot {node_id}"}
        if node.kind is Kind.TURN:
            self._writer.write(records.leave_tombstone(f"turn:{node_id}", run_id, now, reason)).result()
        self._changes.apply(Changeset(run_id=run_id, actions=actions), kind=FORGET, now=now, summary=summary)
        self._rehide([node_id])
        return Forgotten(node_id, run_id, tuple(other.node_id for other in also))

    def restore(self, node_id: NodeId) -> Restored:
        """Bring a memory back that is archived, or whose file or successor is gone, as a run that `undo` can undo.

        It counts as used now. Raises NotFound, InvalidInput for one that is not archived, or whose place another one
        has taken, and Conflict when something else has the place of a deleted file.
        """
        self.settle()
        deleted = self._deletions.find(node_id)
        if deleted is None:
            node = self._node(node_id)
            path, lifted = node.path, None
            action = restoring(node, self.vault.read(node.path), last_successor(node_id, self._read))
        else:
            path, action, lifted = deleted.path, bringing_back(node_id, deleted), deleted.fingerprint
        now = self._now()
        run_id = new_run_id(now, "restore")
        self._writer.write(
            *records.log_usage([node_id], now), *([records.lift_tombstone(lifted)] if lifted else ())
        ).result()
        applied = self._changes.apply(
            Changeset(run_id=run_id, actions=(action,)),
            kind="restore",
            now=now,
            summary={"note": f"restored {node_id}"},
        )
        _raise_if_refused(applied)
        self._read_tombstones()
        return Restored(node_id, run_id, path)

    @_answered_by_another
    def decisions(self) -> Sequence[Decision]:
        """What waits for a person to decide, the newest first."""
        self.settle()
        return self._decisions.open()

    def decide(self, name: str, choice: Choice, by: str, text: str = "") -> Decided:
        """Settle an open decision, as a run that `undo` can undo; no dream asks again.

        Raises NotFound where none of this name is open, InvalidInput for an edit without a text, and Conflict when a
        file changed meanwhile.
        """
        self.settle()
        decision = self._decisions.find(name)
        kept = intake.clean_text(text) if choice == "edit" else ""
        now = self._now()
        actions = self._decisions.actions(decision, choice, by, now, kept, _title(kept))
        run_id = new_run_id(now, REVIEW)
        summary = {"note": f"decided {decision.decision_id}: {choice}"}
        _raise_if_refused(
            self._changes.apply(Changeset(run_id=run_id, actions=actions), kind=REVIEW, now=now, summary=summary)
        )
        self._read_tombstones()
        return Decided(decision.decision_id, run_id, choice, tuple(action.path for action in actions))

    # ---- what dreams change

    def apply(
        self,
        changeset: Changeset,
        *,
        kind: str = "daily",
        started_at: datetime | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> AppliedRun:
        """Make a changeset real: journaled whole, then file by file, each guarded by the hash of what it replaces."""
        return self._changes.apply(changeset, kind=kind, now=self._now(), started_at=started_at, summary=summary)

    def undo(self, run_id: str) -> Undone:
        """Bring back what was there before a run.

        Raises NotFound, Expired when its history is gone, and StoreError while that waits to be salvaged.
        """
        self._refuse_without_history()
        run = self.ledger.run(run_id)
        self.settle(WRITTEN_WITHIN_S)  # what it brought back a moment ago is read before it is undone, not after
        undone = self._changes.undo(run_id, now=self._now())
        self._read_tombstones()
        if run.kind == FORGET and (turn := str(run.summary.get("node_id", ""))) in self._hidden:
            self._writer.write(
                records.lift_tombstone(f"turn:{turn}"), records.run_undone(run_id, "undone", self._now())
            ).result()
            self._rehide([turn])
        return undone

    @_answered_by_another
    def runs(
        self, limit: int = 20, *, kinds: Sequence[str] = (), states: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> Sequence[Run]:
        """The latest runs, newest first: `limit` of each of these kinds, or in all of every kind that is not `hidden`.

        With `states` only those that ended so; only for `kinds`.
        """
        return self.ledger.runs(limit, kinds=kinds, states=states, hidden=hidden)

    def runs_since(self, moment: datetime, kinds: Sequence[str]) -> Sequence[Run]:
        """Every run of these kinds that began after a moment, newest first."""
        return self.ledger.runs_since(moment, kinds)

    def record_run(self, run: Run) -> None:
        """Write down a run that changed nothing: a failed one, or one with nothing to do."""
        if run.state == "failed":  # it read a copy of the index
            self._mending.suspect()
        self._writer.write(records.record_run(run)).result()

    @_answered_by_another
    def waiting_turns(self) -> int:
        """How many turns no dream has read yet, of the channels in which learning is on. Reads every turn's row."""
        read = self.ledger.cursors("consolidate")
        ends = self.catalog.sessions_outside(self.channels_off)
        return sum(max(0, last - read.get(session_id, 0)) for session_id, last in ends.items())

    # ---- learning, on and off

    def pause(self) -> None:
        """Learn nothing more until `resume`."""
        self._writer.write(records.set_flag("paused")).result()
        self._read_switches()

    def resume(self) -> None:
        """Learn again."""
        self._writer.write(records.clear_flag("paused")).result()
        self._read_switches()

    def set_channel(self, channel: str, learning: bool) -> None:
        """Switch learning in one channel on or off. Raises InvalidInput for what is no channel's name."""
        intake.check_names(channel)
        flag = f"off:{channel}"
        self._writer.write(records.clear_flag(flag) if learning else records.set_flag(flag)).result()
        self._read_switches()

    # ---- the vault and its projection

    @_answered_by_another
    def file_changed(self, paths: Collection[str]) -> None:
        """Read these files again, but for those that are as they were read last: what we wrote ourselves is known.

        Paths are the vault's own.
        """
        kept = [path for path in paths if is_kept(path)]
        self._indexer.submit(lambda: self._read_again(kept)).result()
        self._queue.wake()

    def _read_again(self, paths: Sequence[str]) -> None:
        known = self.catalog.known_files(paths)
        stamps = {path: self.vault.stamp(path) for path in paths}
        if sum(stamps[path] is None for path in known) >= 2 or self.absence is not None:
            self._compare()
        else:
            self.index.apply_all(sorted(path for path, stamp in stamps.items() if self._is_news(path, stamp, known)))

    def _is_news(self, path: str, stamp: FileStamp | None, known: Collection[str]) -> bool:
        if stamp is None:
            return path in known
        return self._deletions.is_withheld(path) or not is_as_read(stamp, self.catalog.file(path))

    @_answered_by_another
    def reconcile(self, accept_vanished: bool = False) -> Reconciled:
        """Compare every file with what was last seen of it, and learn what differs.

        What is gone is unlearned in a moment, as a run, or withheld; `accept_vanished` believes all of it at once.
        """
        if accept_vanished:
            self._presence.accept()
        found = self._indexer.submit(lambda: self._compare(accept_vanished)).result()
        self._queue.wake()
        return found

    def _compare(self, accept_vanished: bool = False) -> Reconciled:
        """Compare vault and index, in the indexer's thread. A vault that is away says nothing of its files."""
        if self._presence.look() is not None:
            return Reconciled()
        found = self._opened.reconcile()
        self._deletions.relearn()
        self._deletions.recall(lost := self._opened.take_lost())
        gone = (*found.gone, *(file.path for file in lost))
        self._look_at_missing(gone, at_once=accept_vanished, accept=accept_vanished)
        return found

    def _fill(self) -> None:
        """Read the vault into an index that took the place of a damaged one."""
        self._indexer.submit(self._compare).result()

    def _look_at_missing(self, gone: Collection[str], *, at_once: bool, accept: bool = False) -> None:
        if self.absence is None:
            self.index.apply_all(sorted(set(gone).difference(self._deletions.withheld)))
        self._deletions.look(at_once=at_once, accept=accept)

    def _catch_up(self) -> None:
        """Have the files compared that changed while the daemon, or the vault, was away."""
        self._catch_up_until = time.monotonic() + READ_YOUR_WRITES_S
        self._catching_up = self._indexer.submit(self._compare)
        self._catching_up.add_done_callback(self._caught_up)

    def _caught_up(self, compared: Future[Reconciled]) -> None:
        self._queue.wake()
        error = compared.exception()
        if error is not None and not self._closing.is_set() and not isinstance(error, IndexDamaged):
            logger.warning("the vault could not be compared (%s); again soon", type(error).__name__)
            again = threading.Timer(COMPARED_AGAIN_S, self._catch_up_again)
            again.daemon = True
            again.start()

    def _catch_up_again(self) -> None:
        with contextlib.suppress(StoreBusy):  # it is closing
            self._catch_up()

    @property
    def absence(self) -> Absence | None:
        """Why the vault cannot be used now, None when it is there."""
        return self._presence.look()

    def wait_until_caught_up(self, timeout_s: float) -> bool:
        """Wait until what changed while the daemon or the vault was away is read; False when that takes longer."""
        return bool(wait([self._catching_up], timeout_s).done)

    def settle_deletions(self) -> None:
        """Decide now about files that are gone, without waiting for them to come back in a moment."""
        self.settle()
        self._deletions.look(at_once=True)

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Make the index anew from vault and ledger; what was embedded before is not embedded again."""
        self.settle()
        began = time.monotonic()
        self.vault.raise_if_away()
        with contextlib.suppress(IndexDamaged):  # or nobody would know any more of what is gone
            self._look_at_missing(self.index.gone(), at_once=True)
        self._opened.rebuild(progress)
        self._deletions.relearn()
        embedded = self._queue.drain(self.catalog.counts()["embedding_queue"])
        counts = self.catalog.counts()
        nodes = sum(counts[name] for name in ("sessions", "facts", "scenarios", "profiles", "turns"))
        return Rebuilt(counts["files"], nodes, counts["chunks"], embedded, round(time.monotonic() - began, 3))

    def write_derived(self, pages: Mapping[str, str | None]) -> Sequence[str]:
        """Let derived files hold these texts (None: be gone); return those that a person wrote, and that stay."""
        foreign = self.derived.write(pages)
        if gone := [path for path, text in pages.items() if text is None]:
            self.settle()
            self.vault.remove_empty_folders(gone)
        return foreign

    def tidy(self) -> None:
        """Let go of what nobody can ask for any more: old history, vectors of texts that are gone, leftovers."""
        self._changes.prune(self._now())
        self._sweep()
        self._writer.write(*prune_questions(self._now())).result()
        self._cache.prune(self.index.text_hashes())
        self.ledger.look_through()  # what is seldom read is looked at now and then
        self._opened.problems()

    def check(self, accept: bool = False) -> Sequence[Problem]:
        """What is wrong with the vault and the databases; `accept` believes that what is gone is meant to be gone."""
        try:
            return self._check(accept)
        except IndexDamaged as error:
            self._mending.wait(REPLACED_S)
            return [Problem("index.db", str(error), "error"), *self._check(accept)]

    def _check(self, accept: bool) -> Sequence[Problem]:
        problems = [*self._accept()] if accept else []
        if not accept:
            self.reconcile()
        problems += [Problem(path, problem) for path, problem in self.catalog.problems()]
        if (absence := self.absence) is not None:
            problems.append(Problem(str(self.vault.root), f"{absence.reason}; {absence.hint}", "error"))
        problems += [Problem(path, LEFTOVER) for path in self._leftovers.held]
        problems += [
            Problem(path, "it is too large: only its first MiB is searched", "note")
            for path in self.catalog.cut_files()
        ]
        problems += [
            Problem(path, "it is gone, and stays known until `dreamctl check --accept` believes it", "error")
            for path in self._deletions.withheld
        ]
        if absence is None:
            problems += notes_on(self.derived.foreign())
        problems += [Problem("ledger.db", problem, "error") for problem in self._history_problems()]
        problems += [Problem("ledger.db", problem, "error") for problem in self.ledger.look_through()]
        problems += [
            Problem("index.db", f"{problem}; it is being made again", "error") for problem in self._opened.problems()
        ]
        return problems

    def _accept(self) -> Sequence[Problem]:
        """Believe that what is gone is meant to be gone, and say which run takes that back."""
        before = {run.run_id for run in self.ledger.runs(kinds=[DELETED])}
        self.reconcile(accept_vanished=True)
        runs = [run for run in self.ledger.runs(kinds=[DELETED]) if run.run_id not in before]
        told = "{}, as was accepted; `dreamctl undo {}` brings them back"
        return [Problem("", told.format(run.summary.get("note"), run.run_id), "note") for run in runs]

    @_answered_by_another
    def status(self) -> StoreStatus:
        """Counts, queues, and what is wrong, in sentences; of what was acknowledged before, if that is soon found."""
        self.settle(STATUS_WAITS_S)
        ledger = self.ledger.counts()
        broken = self.catalog.problems()
        problems = [f"{path}: {problem}." for path, problem in broken[:10]]
        if withheld := self._deletions.withheld:
            problems.append(
                f"{_listed(withheld)}: gone from the vault, and not believed to be deleted; nothing is unlearned until "
                "they are back or `dreamctl check --accept`."
            )
        problems += self._troubles()
        if ledger["conflicts"]:
            problems.append(f"{ledger['conflicts']} changes gave way to files edited by hand.")
        problems += self._history_problems()
        note = self._opened.note
        problems += [text for text in (self._queue.problem, note and f"{note[0].upper()}{note[1:]}.") if text]
        counts = self.catalog.counts()
        return {
            "memories": {level.value: counts[name] for level, name in COUNTED.items()},
            "files": counts["files"],
            "turns": counts["turns"],
            "chunks": counts["chunks"],
            "channels": self.catalog.channels(),
            "pending_embeddings": counts["embedding_queue"],
            "embedding": {"model": self._embedder.model_id, "ready": self._embedder.ready},
            "journal": ledger["journal"],
            "not_found_yet": self._writer.lag + self._indexer.lag,
            "catching_up": not self._catching_up.done(),
            "runs": ledger["runs"],
            "paused": self.paused,
            "channels_off": sorted(self.channels_off),
            "broken_files": len(broken),
            "problems": problems,
        }

    # ---- inside

    def _sweep(self) -> None:
        """Remove what killed writes left in the vault."""
        try:
            swept = self._leftovers.sweep(self._now(), self._closing.is_set)
        except (OSError, StoreError) as error:  # of no consequence but the files: the next start looks again
            logger.warning("what interrupted writes left was not swept (%s)", type(error).__name__)
        else:
            if swept:
                logger.info("removed %d files that interrupted writes had left", swept)

    def _troubles(self) -> Iterator[str]:
        """Say what keeps from being written or found what was acknowledged; each ends by itself."""
        waiting = self._writer.lag
        if (absence := self.absence) is not None:
            waits = f" {waiting} changes wait for it." if waiting else ""
            yield f"{absence.reason[0].upper()}{absence.reason[1:]}: it is waited for.{waits} {absence.hint}"
        elif (trouble := self._writer.trouble) is not None:
            yield f"{waiting} changes wait to be written: {trouble}. {trouble.hint}"
        if held := self._writer.held_paths:
            yield f"{len(held)} files cannot be written ({held[0]}); they are tried again every half minute."
        if self._indexer.problem is not None:
            yield self._indexer.problem

    def _rank(self, question: Question) -> Ranking:
        settled = self.settle(runs=False)
        self._called_at = time.monotonic()
        if not self._embedder.ready:
            self._embedder.wait(MODEL_WAIT_S)
        ranking = self._search.rank(question)
        ranking.notes += self._limits(settled)
        return ranking

    def _limits(self, settled: bool) -> Iterator[str]:
        """Say what an answer cannot hold yet."""
        if (absence := self.absence) is not None:
            waiting = self._writer.lag
            yield f"{absence.reason}" + (f"; {waiting} changes wait for it and are not found yet" if waiting else "")
        elif not settled:
            yield NOT_FOUND_YET
        if note := self._opened.note:
            yield note
        elif not self._catching_up.done():
            yield "files that changed while dreamd was away are still being read"

    def _follow(
        self,
        query: str,
        channel: str | None,
        session: NodeId | None,
        ranking: Ranking,
        found: Sequence[Hit] | Sequence[Slot],
    ) -> None:
        """Let the question be kept, and what becomes of its answer; costs the one who asks a place in a queue."""
        if self._settings.probes and not self.paused and channel not in self.channels_off:
            shown = [
                Answered(
                    one.node_id,
                    rendering.without_head(one.text),
                    tuple(t.node_id for t in one.evidence) or (one.node_id,),
                )
                for one in found
            ]
            self._follow_up.was_asked(query, channel, session, ranking, shown, self._now())

    def _is_busy(self) -> bool:
        """Whether somebody asked, or wrote, a moment ago: then what can wait does."""
        return self._was_asked() or self._writer.is_behind

    def _was_asked(self) -> bool:
        return time.monotonic() < self._called_at + BUSY_FOR_S

    def _set_beside_soon(self, kept_as: Future[NodeId], remembering: intake.Remembering) -> None:
        if not kept_as.cancelled() and kept_as.exception() is None:
            self._kinship.remembered(kept_as.result(), known=remembering.is_known)

    def _set_beside(self, changeset: Changeset, note: str) -> None:
        """Link what was remembered to what it is kin to, as a run that `undo` takes back."""
        self.settle()
        self._changes.apply(changeset, kind=LINK, now=self._now(), summary={"note": note})

    def _say_again(self, node_id: NodeId) -> None:
        """Have a memory that is known said again, if its file is still there."""
        now = self._now()
        run_id = new_run_id(now, REMEMBER)

        def plan(files: PendingFiles) -> Planned[NodeId]:
            path = self._path_of(node_id)
            if path is None or not files.exists(path):
                return Planned(node_id)
            return self._reviving.plan(files, node_id, path, run_id, now)

        self._writer.submit(plan).result()

    def settle_kinship(self, timeout_s: float = 10.0) -> bool:
        """Wait until what was remembered is set beside what was known; False when that takes longer."""
        return self._kinship.settle(timeout_s) and self.settle()

    def settle(self, timeout_s: float = READ_YOUR_WRITES_S, *, runs: bool = True) -> bool:
        """Wait until what was acknowledged before is found; False when that takes longer, or cannot be now.

        Without `runs` what dreams change is not waited for. What changed while the daemon was away is waited for in
        the first moments only.
        """
        until = time.monotonic() + timeout_s
        seq = self._writer.acknowledged(runs=runs)
        found = self._writer.barrier(timeout_s, runs=runs) and self._indexer.wait_for(seq, until - time.monotonic())
        patience_s = min(until, self._catch_up_until) - time.monotonic()
        if patience_s > 0:
            self.wait_until_caught_up(patience_s)
        return found

    def _wake_queue(self) -> None:
        self._queue.wake()

    def _place_of_vectors(self) -> Path:
        """Where vectors can be kept: beside the index, or, while its disk cannot be written, in memory."""
        path = self.paths.embeddings
        if not self._opened.is_copy:
            return path
        return copy_to_memory(path) if path.exists() else Path(":memory:")

    def _is_new(self) -> bool:
        """Whether nothing was ever kept here: then a vault may be made."""
        counts = self.ledger.counts()
        return not (counts["journal"] or counts["conflicts"] or counts["runs"] or self._knows_files())

    def _remember_vault(self, vault_id: str) -> None:
        """Lost with a crash, it is taken from the vault's marker again."""
        self.ledger.later(records.set_flag(VAULT_ID, vault_id))

    def refuse_if_off(self, channel: str) -> None:
        """Raise StoreReadOnly where nothing is learned."""
        if self.paused:
            raise StoreReadOnly("learning is paused", hint="Resume it with `dreamctl resume`.")
        if channel in self.channels_off:
            raise StoreReadOnly(
                f"learning is off in {channel}", hint=f"`dreamctl channel {channel} on` switches it on."
            )

    def _node(self, node_id: NodeId) -> Node:
        """Return a node, with what was acknowledged before in sight; raises StoreBusy while that is not."""
        settled = self.settle()
        node = self.catalog.node(node_id)
        if node is None and (note := self._opened.note or ("" if settled else NOT_FOUND_YET)):
            raise StoreBusy(note, hint="Try again in a moment.")
        if node is None:
            raise NotFound(f"there is no {node_id}", hint="`dreamctl list` and `dreamctl recall` show ids.")
        return node

    def _knows_files(self) -> bool:
        """Whether the index was in use before; a damaged one was."""
        try:
            return bool(self.catalog.files())
        except IndexDamaged:
            return True

    def _path_of(self, node_id: NodeId) -> str | None:
        """Where a node's file lies. Its name tells while the index cannot: an acknowledgement never needs the index."""
        try:
            path = self.catalog.path_of(node_id)
        except IndexDamaged:
            return self._names.path_of(node_id)
        if self._opened.is_whole:
            self._names.forget()
            return path
        return path or self._names.path_of(node_id)

    def _paths_citing(self, node_id: NodeId) -> Sequence[str]:
        return [node.path for node in self.catalog.nodes(self.catalog.cited_by(node_id)).values() if node.live]

    def _resting_only_on(self, node_id: NodeId) -> Sequence[Node]:
        citing = self.catalog.nodes(self.catalog.cited_by(node_id)).values()
        return [node for node in citing if set(self.catalog.links(node.node_id, "cites")) == {node_id}]

    def _paths_replaced_by(self, node_id: NodeId) -> Sequence[str]:
        replaced = self.catalog.nodes(self.catalog.cited_by(node_id, SUCCESSOR)).values()
        return [node.path for node in replaced]

    def _read(self, node_id: NodeId) -> bytes | None:
        path = self._path_of(node_id)
        return self.vault.read_if_any(path) if path else None

    def _releasing(self, doomed: Sequence[Node]) -> Sequence[Action]:
        """Let what the doomed had taken the place of hold again, or give way to what took theirs."""
        gone = {node.node_id for node in doomed}
        ties = TieEdits(self.vault.read_if_any, FORGET)
        for node in doomed:
            for older in self.catalog.nodes(self.catalog.cited_by(node.node_id, SUCCESSOR)).values():
                if older.node_id not in gone:
                    heir = last_successor(older.node_id, self._read, gone)
                    ties.release(older, node, self.catalog.node(heir) if heir else None)
        return ties.actions()

    def _forgetting(self, node: Node, reason: str) -> Action:
        data = self.vault.read(node.path)
        memory = okf.to_memory(node.path, okf.parse(data), self._now())
        return Action(
            kind=ActionKind.DELETE,
            path=node.path,
            node_id=node.node_id,
            stage=FORGET,
            reason=reason,
            pre_sha256=sha256(data),
            fingerprint=fingerprint(memory),
        )

    def _is_hidden(self, node_id: NodeId) -> bool:
        return node_id in self._hidden

    def refuse_to_dream(self) -> None:
        """Raise StoreError while a dream would not know what there is, or what was done and undone before it."""
        self.vault.raise_if_away()
        self._refuse_without_history()
        if note := self._opened.note:
            raise StoreBusy(note, hint="Try again in a moment.")

    def _refuse_without_history(self) -> None:
        if set_aside := damaged_files(self.paths.ledger):
            raise StoreError(f"the history is set aside in {set_aside[0].name}, which is damaged", hint=SALVAGE)

    def _history_problems(self) -> Iterator[str]:
        """Say what of the ledger waits for a person."""
        for path in damaged_files(self.paths.ledger):
            yield (
                f"The ledger was damaged, and is set aside as {path.name}. What is remembered is kept; dreams and undo "
                f"wait. {SALVAGE}"
            )
        if since := self.ledger.flags().get(HISTORY_LOST):
            yield (
                f"The vault was there before its ledger, which began on {since[:10]}: what was done and forgotten "
                "before is not known. Put the old ledger back from a backup while dreamd is stopped, or go on without: "
                "stop dreamd, then `dreamctl salvage --discard`."
            )

    def _in_mind(self) -> Sequence[records.Write]:
        """What a ledger that takes a damaged one's place must hold."""
        flags = [f"off:{channel}" for channel in self.channels_off] + ["paused"] * self.paused
        known = records.keep_in_mind(self._tombstones, flags, self._now())
        return [*known, records.set_flag(VAULT_ID, vault_id)] if (vault_id := self._presence.vault_id) else known

    def _wait_for_ledger(self) -> None:
        with contextlib.suppress(StoreError, TimeoutError):
            self._writer.write().result(REPLACED_S)  # what was queued before it is done then

    def _read_switches(self) -> None:
        """Keep in mind what is asked of every write."""
        self.paused = self.ledger.paused
        self.channels_off = self.ledger.channels_off

    def _read_tombstones(self) -> None:
        """Keep in mind what was forgotten or undone; of turns, which stay in their files, the ids."""
        self._tombstones = self.ledger.tombstones()
        self._hidden = frozenset(t.removeprefix("turn:") for t in self._tombstones if t.startswith("turn:"))

    def _rehide(self, node_ids: Collection[NodeId]) -> None:
        self._read_tombstones()
        drawn_from_them = [fact for node_id in node_ids for fact in self.catalog.cited_by(node_id)]
        self.index.reread([*node_ids, *drawn_from_them])


def _raise_if_refused(applied: AppliedRun) -> None:
    for refused in applied.refused:
        raise Conflict(f"{refused.path} stays as it is: {refused.reason}", hint="Look at it, and try again.")


def _listed(paths: Sequence[str], most: int = 3) -> str:
    rest = len(paths) - most
    return ", ".join(paths[:most]) + (f" and {rest} more" if rest > 0 else "")


def _title(text: str, limit: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rsplit(" ", 1)[0] + "…"

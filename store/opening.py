"""The opening of a store: its parts are built, then started in order, and closed in reverse."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path

import apsw

from .background.activity import Activity
from .background.candidates import Candidates
from .background.embedding import EmbedQueue
from .background.linking import Linker
from .background.relevance_feedback import RelevanceFeedback
from .changes.decisions import Decisions
from .changes.deletions import Deletions
from .changes.followed import Followed
from .changes.intake import SessionPlans
from .changes.revival import Reviving
from .changes.runs import Changes
from .documents.documents import Documents
from .documents.search import DocumentSearch
from .door import Door
from .embedding.embedding import Embedder
from .embedding.vector_cache import EmbeddingCache, QueryVectors
from .engine.database import copy_to_memory
from .index.indexer import Indexer
from .index.mending import Mending
from .index.opening import OpenIndex
from .index.withdrawn import Withdrawn
from .ledger import records
from .ledger.ledger import Ledger
from .ledger.salvage import HISTORY_LOST
from .model import StoreError
from .operations.corrections import Corrections
from .operations.damage import Repairs
from .operations.feedback import Feedback
from .operations.health import Health
from .operations.intake import Intake
from .operations.lookup import Lookup
from .operations.pages import Pages
from .operations.purge import Purge
from .operations.recall import Recall
from .operations.reconciliation import Reconciliation
from .operations.runs import Runs
from .operations.switches import Switches
from .operations.tombstones import Tombstones
from .operations.upkeep import Upkeep
from .operations.visibility import Visibility
from .paths import StorePaths
from .redaction import FileMask
from .search.learned import Judgements, RankingWeights
from .search.query_cache import QueryCache
from .search.search import Search
from .settings import StoreSettings
from .text.words import normal_form
from .vault.disk import Disk
from .vault.intent import Intent
from .vault.leftovers import Leftovers
from .vault.presence import Presence
from .vault.vault import Vault
from .working.anchors import Anchors
from .working.foreign_words import ForeignWords
from .working.goals import Goals
from .working.handed import HandedSessions
from .working.sessions import Sessions
from .working.surfacing import Surfacing
from .writer.derived import DerivedFiles
from .writer.writer import Writer

VAULT_ID = "vault_id"
"""The ledger's flag with the id of the vault that belongs to it."""


DELETED_IN_MIND = 1000
"""The files deleted last of which a start does not believe that the index has followed: it is never so far behind."""


class Parts:
    """All parts of one open store. A part is built after those that it is given, and closed before them.

    Where two parts need each other, the one that is built first is given a function that asks for the other.
    """

    def __init__(
        self,
        paths: StorePaths,
        settings: StoreSettings,
        embedder: Embedder,
        now: Callable[[], datetime],
        disk: Disk,
        claim: Callable[[], bool],
    ) -> None:
        """Build and start all of them. Where that fails, those that are open are closed, and the error is raised."""
        self.paths = paths
        self.settings = settings
        self.embedder = embedder
        self.now = now
        with ExitStack() as open_parts:
            self._build_keeping(disk, open_parts)
            self._build_finding(open_parts)
            self._build_writing(disk, claim, open_parts)
            self._build_changing()
            self._build_operations(open_parts)
            self._start()
            self._open_parts = open_parts.pop_all()

    def close(self) -> None:
        """Finish what was acknowledged and close everything, the last opened first."""
        self._open_parts.close()

    # ---- building, from below

    def _build_keeping(self, disk: Disk, open_parts: ExitStack) -> None:
        """Build what keeps: vault and ledger, and what of the ledger is held in memory."""
        self.activity = Activity()
        self.vault = Vault(self.paths.vault, disk)
        self.ledger = Ledger(self.paths.ledger)
        open_parts.callback(self.ledger.close)
        if self.ledger.is_new and self.vault.has_marker():  # its ledger is gone, or it came from elsewhere
            self.ledger.commit([], [records.set_flag(HISTORY_LOST, records.stored(self.now()))])
        self.tombstones = Tombstones(self.ledger)
        self.leftovers = Leftovers(self.vault, self.ledger.holds, self.now())
        self.deletions = Deletions(self.vault, self.ledger, self.now, self.tombstones.read)
        self.intent = Intent(self.paths.purge, disk)
        self.door = Door(personal=self.settings.redact_personal)
        self.mask = FileMask(personal=self.settings.redact_personal)

    def _build_finding(self, open_parts: ExitStack) -> None:
        """Build what finds: the index, its repair, search and embedding.

        The indexer ends before the repair, which may wait for the indexer.
        """
        self.mending = Mending(lambda: self.opened, lambda: self.reconciliation.fill())
        self.withdrawn = Withdrawn(
            lambda: self.tombstones.hidden, lambda seq: self.indexer.has_indexed(seq), self._has_followed, self.now
        )
        self.opened = OpenIndex(
            self.paths.index,
            self.vault,
            self.embedder,
            self.settings,
            self.now,
            self.tombstones.is_hidden,
            self.deletions,
            on_damage=self.mending.noticed,
            mask=self.mask,
            withdrawn=self.withdrawn,
        )
        open_parts.callback(self.opened.close)
        self.index, self.catalog = self.opened.index, self.opened.catalog
        self.lookup = Lookup(self.opened, self.vault, lambda: self.reconciliation.is_caught_up)
        self.cache = EmbeddingCache(self._place_of_vectors(), self.embedder.model_id)
        open_parts.callback(self.cache.close)
        self.vectors = QueryVectors(self.embedder, self.settings.search.cache)
        self.search = Search(self.catalog, self.index.backend, self.vectors, self.settings.search, self.now)
        open_parts.callback(self.search.close)
        self.ranking = RankingWeights(self.ledger, self.search)
        self.ranking.read()
        self.judgements = Judgements(self.ledger, self.search)
        self.judgements.read()
        self.questions = QueryCache(self.search, self.settings.search.cache, self._state_of_ranking, self.now)
        self.queue = EmbedQueue(self.index, self.embedder, self.cache, self.is_busy, self._workers)
        open_parts.callback(self.queue.stop)
        open_parts.callback(self.mending.stop)
        self.indexer = Indexer(
            self.index, self._on_indexed, self.activity.was_called, lambda within_s: self.writer.is_writing(within_s)
        )
        open_parts.callback(self.indexer.stop)

    def _state_of_ranking(self) -> tuple[object, ...]:
        """Return what an order of candidates depends on beside the question."""
        weights = tuple(self.search.weights.values())
        told = self.withdrawn.version, self.tombstones.version
        model, judged, cleared = self.embedder.model_id, self.judgements.version, self.questions.held.cleared
        return self.opened.generation, told, model, weights, judged, cleared

    def _on_indexed(self) -> None:
        self._let_go()
        self.queue.wake()

    def _let_go(self) -> None:
        with suppress(StoreError, apsw.Error):  # else it is asked again when the index has followed
            self.withdrawn.let_go()

    def _has_followed(self, path: str) -> bool:
        """Return True if the index knows a deleted file no more, or knows it since it is there, or withheld."""
        if path in self.writer.held_paths:
            return False
        is_known = bool(self.catalog.known_files([path]))
        return not is_known or self.vault.exists(path) or self.deletions.is_withheld(path)

    def _build_writing(self, disk: Disk, claim: Callable[[], bool], open_parts: ExitStack) -> None:
        """Build what writes: the one writer, and the look if its vault is there."""
        known_id = self.ledger.flags().get(VAULT_ID)
        self.presence = Presence(self.vault, known_id, self._keep_vault_id, is_new=self._is_new(), claim=claim)
        self.presence.look()
        self.writer = Writer(
            self.vault,
            self.ledger,
            self.indexer.placed,
            disk,
            is_asked=self.activity.was_called,
            presence=self.presence,
            on_back=lambda: self.reconciliation.catch_up(),
            on_deleted=self.withdrawn.deleted,
        )
        open_parts.callback(self.writer.close)
        open_parts.callback(self.deletions.stop)
        self.switches = Switches(self.ledger, self.writer, self.door)
        self.followed = Followed(self.ledger, self.writer)
        self.ledger.in_mind = self._held_in_memory
        self.ledger.on_damage = self.writer.begin_ledger_anew
        self.deletions.start(self.opened, self.writer)
        self.closing = threading.Event()
        self.repairs = Repairs(self.mending, self.writer)
        self.reconciliation = Reconciliation(
            self.vault,
            self.opened,
            self.indexer,
            self.deletions,
            self.presence,
            self.repairs,
            self.queue.wake,
            self.closing,
            lambda kept, other, session_id: self.writer.submit(
                self.sessions.join(kept, other, session_id, self.now())
            ).result(),
        )
        self.visibility = Visibility(self.writer, self.indexer, self.opened, self.reconciliation)

    def _build_changing(self) -> None:
        """Build what plans changes, and what keeps the work that is under way."""
        self.derived = DerivedFiles(self.vault, self.ledger, self.writer)
        self.changes = Changes(
            self.vault,
            self.ledger,
            self.writer,
            self.lookup.paths_citing,
            self.lookup.paths_replaced_by,
            self.visibility.settle,
            self.ranking.read,
        )
        self.reviving = Reviving(self.lookup.path_of, lambda one, other: normal_form(one) == normal_form(other))
        self.sessions = SessionPlans(
            self.door,
            self.lookup.path_of_session,
            self.deletions.before_anew,
            self.mask.note,
            self.lookup.session_as_read,
        )
        self.work_gate = threading.Lock()
        kept_by = (
            self.ledger,
            self.writer,
            self.switches.refuse_if_off,
            self.activity,
            self.work_gate,
            self.now,
            self.door,
        )
        self.anchors = Anchors(*kept_by)
        self.working = Sessions()
        self.handed = HandedSessions(self.ledger, self.writer, self.now)
        self.foreign_words = ForeignWords(self.now)
        self.goals = Goals(
            *kept_by,
            self.working,
            lambda goal: self.intake.keep_thread(goal),
            lambda goal: self.corrections.close_thread(goal),
        )
        self.documents = Documents(
            self.vault,
            self.writer,
            self.switches.refuse_if_off,
            self.activity.note_call,
            self.now,
            self.door,
        )
        self.document_search = DocumentSearch(
            self.documents, self.catalog, self.index.backend, self.embedder, self.visibility.settle
        )
        self.decisions = Decisions(self.catalog, self.vault, lambda: self.tombstones.names)

    def _build_operations(self, open_parts: ExitStack) -> None:
        """Build the operations, and the background work that they begin."""
        self._build_questions()
        self._build_runs()
        self.intake = Intake(
            self.writer,
            self.ledger,
            self.sessions,
            self.reviving,
            self.lookup,
            self.feedback,
            self.tombstones,
            self.switches,
            self.activity,
            lambda node_id, known: self.linker.on_remembered(node_id, known=known),
            self.surfacing.on_turns,
            self.foreign_words,
            lambda memory: self.linker.later(lambda: self.corrections.vouch(memory)),
            self.now,
            self.door,
        )
        self.linker = Linker(
            self.catalog,
            Candidates(self.catalog, self.index.backend, self.queue.embed_now),
            self.vault,
            self.runs.link,
            self.intake.say_again,
            lambda: self.tombstones.names,
            self.is_busy,
            self.visibility.settle,
            self.now,
        )
        open_parts.callback(self.linker.stop)
        open_parts.callback(self.relevance.stop)
        open_parts.callback(self.surfacing.stop)
        self._build_upkeep()
        self.sweeping = threading.Thread(target=self.upkeep.sweep, name="dreamd-sweep", daemon=True)
        open_parts.callback(self._end_sweep)

    def _build_questions(self) -> None:
        """Build what answers questions and learns from the answers."""
        self.relevance = RelevanceFeedback(
            self.writer.later, self.is_busy, self.ledger.asked, self.door, self.judgements.on_used
        )
        self.feedback = Feedback(
            self.relevance,
            self.catalog,
            self.ledger,
            self.writer,
            self.switches,
            self.visibility,
            self.now,
            keeps_questions=self.settings.probes,
            on_judged=self.judgements.read,
        )
        self.recall = Recall(
            self.search,
            self.questions,
            self.catalog,
            self.embedder,
            self.writer,
            self.feedback,
            self.tombstones,
            self.visibility,
            self.activity,
            self.repairs,
            self.now,
        )

        self.surfacing = Surfacing(
            self.working,
            self.embedder,
            self.recall.unasked,
            self.recall.living,
            self.recall.used,
            self.is_busy,
            self.now,
            self.door,
        )
        self.recall.on_given = self.surfacing.on_given
        self.feedback.on_purge = self._forget_questions

    def _build_runs(self) -> None:
        """Build what changes the memory in runs."""
        self.runs = Runs(
            self.changes,
            self.ledger,
            self.paths.ledger,
            self.writer,
            self.vault,
            self.opened,
            self.indexer,
            self.tombstones,
            self.switches,
            self.visibility,
            self.repairs,
            self.now,
            lambda: self.intent.is_there,
        )
        self.corrections = Corrections(
            self.changes,
            self.decisions,
            self.deletions,
            self.writer,
            self.vault,
            self.opened,
            self.indexer,
            self.ledger,
            self.lookup,
            self.tombstones,
            self.visibility,
            self.repairs,
            self.now,
            self.door,
        )

    def _build_upkeep(self) -> None:
        """Build what looks after the store."""
        self.pages = Pages(self.derived, self.catalog, self.vault, self.paths.vault, self.visibility, self.door)
        self.health = Health(
            self.vault,
            self.ledger,
            self.paths.ledger,
            self.writer,
            self.opened,
            self.indexer,
            self.queue,
            self.embedder,
            self.derived,
            self.deletions,
            self.leftovers,
            self.reconciliation,
            self.visibility,
            self.switches,
            self.repairs,
            lambda: self.intent.is_there,
            self.questions,
            self.ranking,
        )
        self.upkeep = Upkeep(
            self.vault,
            self.ledger,
            self.writer,
            self.opened,
            self.queue,
            self.cache,
            self.changes,
            self.documents,
            self.deletions,
            self.leftovers,
            self.reconciliation,
            self.visibility,
            self.now,
            self.closing,
        )
        self.purge = Purge(
            self.paths,
            self.vault,
            self.ledger,
            self.writer,
            self.opened,
            self.cache,
            self.derived,
            self.deletions,
            self.leftovers,
            self.relevance,
            self.tombstones,
            self.visibility,
            self.intent,
            self.is_busy,
            self.now,
            self.closing,
            self.work_gate,
            self._forget_working,
        )

    def _forget_working(self) -> None:
        """Let go of what is held of sessions in memory, before a purge erases the rows."""
        self._forget_questions()
        self.working.forget()
        self.handed.forget()
        self.foreign_words.forget()

    def _forget_questions(self) -> None:
        self.questions.held.clear()
        self.vectors.held.clear()

    # ---- starting

    def _start(self) -> None:
        """Take up what a crash left undone, then start the threads; what changed meanwhile is compared beside them."""
        self.purge.expect()
        self.writer.start()
        self.indexer.start(self.writer.visible)
        self.withdrawn.deleted(self.ledger.lately_deleted(DELETED_IN_MIND), 0)  # a crash may have overtaken the index
        self._let_go()
        self.tombstones.follow_if_behind(self.opened, self.indexer)
        self.reconciliation.catch_up()
        self.mending.start()
        if self.opened.is_copy:
            self.mending.noticed()
        self.queue.start()
        self.relevance.start()
        self.surfacing.start()
        self.linker.start()
        self.sweeping.start()
        self.purge.start()
        self.feedback.purge_if_off()

    def _end_sweep(self) -> None:
        self.closing.set()
        if self.sweeping.ident is not None:
            self.sweeping.join()
        self.purge.stop()

    # ---- asked by parts

    def is_busy(self) -> bool:
        """Return whether a client called, or something was acknowledged, a moment ago: then background work waits."""
        return self.activity.was_called() or self.writer.is_behind

    def _workers(self) -> int:
        """Return how many may embed at once now: one while a client may call again."""
        if self.is_busy() or not self.activity.is_quiet():
            return 1
        return min(self.settings.embedding.workers_when_quiet, os.cpu_count() or 1)

    def _place_of_vectors(self) -> Path:
        """Return where vectors can be kept: beside the index, or, while its disk cannot be written, in memory."""
        path = self.paths.embeddings
        if not self.opened.is_copy:
            return path
        return copy_to_memory(path) if path.exists() else Path(":memory:")

    def _is_new(self) -> bool:
        """Return whether nothing was ever kept here: then a vault may be made."""
        counts = self.ledger.counts()
        return not (counts["journal"] or counts["conflicts"] or counts["runs"] or self.lookup.knows_files())

    def _keep_vault_id(self, vault_id: str) -> None:
        """Write the vault's id into the ledger; lost with a crash, it is taken from the vault's marker again."""
        self.ledger.later(records.set_flag(VAULT_ID, vault_id))

    def _held_in_memory(self) -> Sequence[records.Write]:
        """Return what a ledger that takes a damaged one's place must hold."""
        known = records.keep_in_mind(self.tombstones.names, self.switches.flags(), self.now())
        vault_id = self.presence.vault_id
        return [*known, records.set_flag(VAULT_ID, vault_id)] if vault_id else known

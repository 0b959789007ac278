"""The operations of an open store: each is built after those that it calls, then started, and stopped in reverse."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from . import extensions
from .changes.agent_statements import ForeignWords
from .changes.corrections import Corrections
from .changes.deletions import Deletions
from .changes.documents import Documents, DocumentSearch
from .changes.people import Entities, NamesByHand
from .changes.runs import Runs
from .changes.session_plans import SessionPlans
from .core import Core
from .embedding.vector_cache import QueryVectors
from .intake import Intake
from .purge.erase import SETTLED_WITHIN_S, Purge
from .recall import Recall
from .search.search import Judgements, QueryCache, Search
from .upkeep.cleanup import Cleanup
from .upkeep.colleagues import Colleagues
from .upkeep.embed_queue import EmbedQueue
from .upkeep.export import Exports, Pages
from .upkeep.feedback import Feedback
from .upkeep.file_copies import FileCopies
from .upkeep.health import Checkup, Health
from .upkeep.linking import Linker
from .upkeep.reconciliation import Reconciliation
from .upkeep.replica import Replica
from .working import Anchors, Cues, Goals, HandedSessions, SessionsAtWork, ToldTexts, Toolbox


class Operations:
    """The operations of an open store, one object for each kind, and their background work."""

    def __init__(self, core: Core) -> None:
        """Build and start all of them. On a failure those that run are stopped, and the error is raised."""
        self.core = core
        with ExitStack() as running:
            running.callback(core.close)  # first, so that it runs last
            self._build_search(running)
            self._build_index_upkeep(running)
            self._build_questions(running)
            self._build_changes(running)
            self._build_working(running)
            self._build_upkeep(running)
            self._start()
            self._running = running.pop_all()

    def close(self) -> None:
        """Stop all background work, then close the core, which writes the acknowledged changes."""
        self._running.close()

    # ---- building

    def _build_search(self, running: ExitStack) -> None:
        """Build search with its caches, and the embedding queue."""
        core = self.core
        self.vectors = QueryVectors(core.embedder, core.settings.search.cache)
        self.search = Search(core.catalog, core.index.backend, self.vectors, core.settings.search, core.now)
        running.callback(self.search.close)
        self.judgements = Judgements(core.ledger, self.search)
        self.judgements.read()
        self.questions = QueryCache(self.search, core.settings.search.cache, self._state_of_ranking, core.now)
        self.queue = EmbedQueue(core.index, core.embedder, core.embeddings, core.is_busy, self._workers)
        running.callback(self.queue.stop)
        core.on_indexed = self.queue.wake

    def _state_of_ranking(self) -> tuple[object, ...]:
        """Return the state, apart from the question, on which an order of candidates depends."""
        core = self.core
        told = core.withdrawn.version, core.tombstones.version
        model, judged, cleared = core.embedder.model_id, self.judgements.version, self.questions.held.cleared
        return core.opened.generation, told, model, judged, cleared

    def _workers(self) -> int:
        """Return the number of embedding threads for now: one while a client may call again."""
        if self.core.is_busy() or not self.core.calls.are_over():
            return 1
        return min(self.core.settings.embedding.workers_when_quiet, os.cpu_count() or 1)

    def _build_index_upkeep(self, running: ExitStack) -> None:
        """Build the operations that keep the index true to the vault."""
        core = self.core
        self.deletions = Deletions(core)
        running.callback(self.deletions.stop)
        core.opened.guard(self.deletions)
        self.sessions = SessionPlans(
            core.door,
            core.lookup.path_of_session,
            self.deletions.before_anew,
            core.mask.note,
            core.lookup.session_as_read,
            core.lookup.channel_of_session,
        )
        self.reconciliation = Reconciliation(core, self.deletions, self.sessions, self.queue)
        core.on_vault_back = self.reconciliation.catch_up
        core.fill_index = self.reconciliation.fill

    def _build_questions(self, running: ExitStack) -> None:
        """Build recall, and the feedback on its answers."""
        core = self.core
        self.feedback = Feedback(core, self.judgements, self._forget_questions)
        running.callback(self.feedback.stop)
        self.recall = Recall(core, self.search, self.questions, self.feedback)
        if (known := extensions.current()).listens(extensions.RETRIEVED):
            self.recall.held_back = known.left_out
        self.entities = Entities(core, self.search)

    def _build_changes(self, running: ExitStack) -> None:
        """Build the operations that change memories."""
        core = self.core
        self.runs = Runs(core)
        self.corrections = Corrections(core, self.runs.changes, self.deletions)
        self.names_by_hand = NamesByHand(core, self.runs.changes)
        self.linker = Linker(core, self.queue, self.runs)
        self.corrections.link_accepted = self.linker.link_accepted
        running.callback(self.linker.stop)
        self.documents = Documents(core)
        self.document_search = DocumentSearch(core, self.documents)
        self.copies = FileCopies(core, self.runs)
        self.recall.known_to = self.copies.read_by

    def _build_working(self, running: ExitStack) -> None:
        """Build the state of sessions at work, and the intake of their turns and statements."""
        core = self.core
        self.at_work = SessionsAtWork()
        self.foreign_words = ForeignWords(core.now)
        self.intake = Intake(
            core, self.sessions, self.feedback, self.linker, self.corrections, self.at_work, self.foreign_words
        )
        # Held while an anchor or a goal is changed, and by a purge of these rows.
        self.work_gate = threading.Lock()
        self.handed = HandedSessions(core.ledger, core.writer, core.now)
        self.anchors = Anchors(core, self.work_gate, self._at_work)
        self.goals = Goals(core, self.work_gate, self.at_work, self.intake.keep_thread, self.corrections.close_thread)
        self.told = ToldTexts(core)
        # Feedback and corrections are built before it.
        self.feedback.on_said, self.feedback.on_verdict = self.told.said, self.told.judged
        self.corrections.on_forgotten = self.told.forgotten
        self.cues = Cues(core, self.told)
        self.toolbox = Toolbox(core)

    def _at_work(self) -> set[str]:
        """Return the sessions that gave a sign of life lately."""
        return {*self.at_work.ids(), *(one.session_id for one in self.handed.at_work())}

    def _build_upkeep(self, running: ExitStack) -> None:
        """Build pages, status, cleanup and purge."""
        core = self.core
        self.pages = Pages(core)
        self.cleanup = Cleanup(core, self.runs.changes, self.documents)
        derived, leftovers = self.pages.derived, self.cleanup.leftovers
        self.health = Health(core, self.queue, self.deletions, self.questions)
        self.exports = Exports(core, self.recall.rank)
        self.replica = Replica(core, self.runs, self.sessions)
        self.colleagues = Colleagues(core, self.runs)
        self.checkup = Checkup(core, self.deletions, derived, leftovers, self.reconciliation)
        self.purge = Purge(core, self.deletions, derived, leftovers, self._forget_working, self.work_gate)
        running.callback(self.purge.stop)
        running.callback(self.cleanup.stop)
        running.callback(core.closing.set)  # runs first, and ends a sweep or a purge under way

    def _forget_working(self) -> None:
        """Drop the sessions and questions held in memory, before a purge erases their rows."""
        self._forget_questions()
        self.at_work.forget()
        self.handed.forget()
        self.told.forget()
        self.toolbox.forget()
        self.foreign_words.forget()
        self.feedback.forget()
        self.feedback.settle(SETTLED_WITHIN_S)

    def _forget_questions(self) -> None:
        self.questions.held.clear()
        self.vectors.held.clear()

    # ---- starting

    def _start(self) -> None:
        """Start the core, then the background threads; vault and index are compared meanwhile.

        The purge that a crash interrupted comes first: files that it removed are no deletions by hand.
        """
        self.purge.expect()
        self.core.start()
        self.reconciliation.catch_up()
        self.core.mending.start()
        if self.core.opened.is_copy:
            self.core.mending.noticed()
        self.queue.start()
        self.linker.start()
        self.cleanup.start()
        self.purge.start()
        self.feedback.start()

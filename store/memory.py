"""The public API of the store: one object whose methods are those of its operations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from .embedding.embedding import Embedder
from .opening import Parts
from .operations.decay_inputs import DecayInputs, read_decay_inputs
from .paths import StorePaths
from .settings import StoreSettings
from .vault.disk import Disk
from .vault.vault import Absence

__all__ = ["MemoryStore", "StorePaths"]


class MemoryStore:
    """One vault with its ledger and its index. Open it once; every method may be called from any thread.

    The methods are those of the operations, taken over as they are: a call costs no more, and each is documented there.
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
        self.parts = parts = Parts(paths, settings, embedder, now, disk or Disk(), claim)
        self.close = parts.close

        # What comes in: operations/intake
        self.remember = parts.intake.remember
        self.keep = parts.intake.keep
        self.take_note = parts.intake.take_note
        self.observe = parts.intake.observe

        self.reflect = parts.intake.reflect

        # Work under way: working/anchors, working/goals, working/surfacing, working/handed
        self.session_name = parts.door.session_name
        self.as_kept = parts.door.turn
        self.set_anchor = parts.anchors.set
        self.anchor_of_session = parts.anchors.of_session
        self.anchor_of_channel = parts.anchors.of_channel
        self.recover_anchor = parts.anchors.recover
        self.set_goal = parts.goals.set
        self.goals = parts.goals.of
        self.threads = parts.goals.threads
        self.end_session = parts.goals.end_session
        self.think = parts.surfacing.think
        self.working = parts.surfacing.working
        self.take_pending = parts.surfacing.take
        self.handed = parts.handed

        # Documents by key: documents/
        self.put_document = parts.documents.put
        self.document = parts.documents.get
        self.documents = parts.documents.select
        self.delete_document = parts.documents.delete
        self.rename_document = parts.documents.rename
        self.channel_of_session = parts.lookup.channel_of_session
        self.search_documents = parts.document_search.search

        # Questions: operations/recall, operations/feedback
        self.recall = parts.recall.recall
        self.context = parts.recall.context
        self.elsewhere = parts.recall.elsewhere
        self.meant = parts.recall.meant
        self.rank = parts.recall.rank
        self.show = parts.recall.show
        self.ruled_out_by = parts.recall.ruled_out_by
        self.list = parts.recall.list
        self.turns_of = parts.catalog.turns
        self.channels = parts.recall.channels
        self.channel_names = parts.recall.channel_names
        self.channel_names_with = parts.recall.channel_names_with
        self.feedback = parts.feedback.feedback
        self.purge_questions = parts.feedback.purge_questions

        # Erasing: operations/purge
        self.purge = parts.purge.purge
        self.preview_purge = parts.purge.preview

        # What dreams and people change: operations/runs, operations/corrections
        self.apply = parts.runs.apply
        self.undo = parts.runs.undo
        self.run = parts.runs.run
        self.runs = parts.runs.runs
        self.runs_since = parts.runs.runs_since
        self.record_run = parts.runs.record_run
        self.waiting_turns = parts.runs.waiting_turns
        self.refuse_to_dream = parts.runs.refuse_to_dream
        self.forget = parts.corrections.forget
        self.restore = parts.corrections.restore
        self.link = parts.corrections.link
        self.tag = parts.corrections.tag
        self.curate = parts.corrections.curate
        self.decisions = parts.corrections.decisions
        self.marks = parts.corrections.marks
        self.decide = parts.corrections.decide
        self.waiting = parts.corrections.waiting
        self.accept = parts.corrections.accept
        self.reject = parts.corrections.reject

        # Learning, on and off: operations/switches
        self.pause = parts.switches.pause
        self.resume = parts.switches.resume
        self.set_channel = parts.switches.set_channel
        self.refuse_if_off = parts.switches.refuse_if_off

        # Files of other programs that are followed: changes/followed
        self.followed = parts.followed

        # The vault and its projection: operations/reconciliation, operations/visibility
        self.file_changed = parts.reconciliation.file_changed
        self.reconcile = parts.reconciliation.reconcile
        self.wait_until_caught_up = parts.reconciliation.wait_until_caught_up
        self.settle = parts.visibility.settle
        self.begin_to_stop = parts.indexer.begin_to_stop

        # Upkeep: operations/health, operations/upkeep, operations/pages
        self.status = parts.health.status
        self.check = parts.health.check
        self.leaks = parts.health.leaks
        self.rebuild = parts.upkeep.rebuild
        self.settle_deletions = parts.upkeep.settle_deletions
        self.tidy = parts.upkeep.tidy
        self.embed = parts.upkeep.embed
        self.pages = parts.pages
        self.write_derived = parts.pages.write

        # For tests and the tools that measure; no other room asks them.
        self.vault = parts.vault
        self.ledger = parts.ledger
        self.index = parts.index
        self.catalog = parts.catalog
        self.derived = parts.derived

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

    @property
    def paused(self) -> bool:
        """Return whether all learning is switched off."""
        return self.parts.switches.paused

    @property
    def channels_off(self) -> frozenset[str]:
        """The channels in which nothing is learned."""
        return self.parts.switches.channels_off

    @property
    def is_busy(self) -> bool:
        """Return whether a client called, or something was acknowledged, a moment ago."""
        return self.parts.is_busy()

    @property
    def absence(self) -> Absence | None:
        """Why the vault cannot be used now, None when it is there."""
        return self.parts.reconciliation.absence

    def decay_inputs(self) -> DecayInputs:
        """Return the inputs of decay, after what was acknowledged is found."""
        return read_decay_inputs(self.ledger, self.catalog, self.vault, self.parts.visibility)

    def settle_links(self, timeout_s: float = 10.0) -> bool:
        """Wait until what was remembered is linked to what was known; False when that takes longer."""
        return self.parts.linker.settle(timeout_s) and self.settle()

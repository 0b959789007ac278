"""The core of an open store: its databases, its one writer and its clock, which every operation is given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from . import extensions
from .door import Door, outgoing
from .embedding.embedding import Embedder
from .embedding.vector_cache import EmbeddingCache
from .engine.database import copy_to_memory
from .flags import Followed, ProjectChannels, Switches
from .index.index import Reconciled
from .index.indexer import Indexer
from .index.lookup import Lookup
from .index.open_index import OpenIndex
from .index.projection import Node
from .index.repairs import Mending, Repairs
from .index.tombstones import Tombstones
from .index.visibility import Concealment, Withdrawn
from .ledger import records
from .ledger.ledger import Ledger
from .ledger.salvage import HISTORY_LOST
from .model import IndexDamaged, NodeId, NotFound, StoreBusy, StoreError
from .redaction import FileMask
from .settings import StorePaths, StoreSettings
from .vault.disk import Disk
from .vault.layout import LAYOUT, Layout, layout_of
from .vault.presence import Presence
from .vault.vault import Absence, Vault
from .writer.writer import Writer, WriterEvents

# The ledger's flag with the id of the vault that belongs to it.
VAULT_ID: Final = "vault_id"

# Deleted files that a start withholds until the index has followed: it is never more than these behind.
NEWEST_DELETIONS: Final = 1000

# The longest wait of a question for the writes acknowledged before it to become visible.
READ_YOUR_WRITES_S = 2.0

FEW_CHUNKS = 16
"""Chunks that have their vectors within a moment: those of the last statements."""

NOT_FOUND_YET = "what was written last is not found yet"

# The time after a call in which background work stays out of the way of the next one.
BUSY_FOR_S = 0.1

# The time without a call after which background work takes more than one core.
QUIET_AFTER_S = 3.0


class Calls:
    """The time of the last call of a client. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._called_at = 0.0

    def note(self) -> None:
        """Note that a client calls now."""
        self._called_at = time.monotonic()

    def are_recent(self) -> bool:
        """Return True if a client called within the last BUSY_FOR_S seconds."""
        return time.monotonic() < self._called_at + BUSY_FOR_S

    def are_over(self) -> bool:
        """Return True if no client called within the last QUIET_AFTER_S seconds."""
        return time.monotonic() >= self._called_at + QUIET_AFTER_S


class Core:
    """The parts of a store that all operations share; each is built after those that it is given, and closed before.

    Three parts report to operations, which are built later. `on_indexed`, `on_vault_back` and `fill_index` are set
    by those before `start`: no thread runs until then.
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
        """Open everything. On a failure the parts that are open are closed, and the error is raised."""
        self.paths = paths
        self.settings = settings
        self.embedder = embedder
        self.now = now
        self.calls = Calls()
        self.door = Door(personal=settings.redact_personal)
        self.mask = FileMask(personal=settings.redact_personal)
        self.closing = threading.Event()  # ends what takes long: a sweep, a purge, the wait before a retry
        self.on_indexed: Callable[[], None] = _nothing
        """Called by the indexer after files were indexed."""
        self.on_vault_back: Callable[[], None] = _nothing
        """Called by the writer when a vault that was away is there again."""
        self.fill_index: Callable[[], None] = _nothing
        """Called by the repair to read the vault into a new index."""
        self._layout: Layout | None = None
        self.comparison: Future[Reconciled] = Future()
        """The comparison of vault and index since the start, or since the vault was there again."""
        self.patience_until = 0.0
        """The moment, of the monotonic clock, until which questions wait for it."""
        with ExitStack() as opened:
            self._open_databases(disk, opened)
            self._open_writer(disk, claim, opened)
            self._opened = opened.pop_all()

    def start(self) -> None:
        """Place the files that a crash left in the journal, and start to write and to index."""
        self.writer.start()
        self.opened.serve(self.paths.dsn)
        self.indexer.start(self.writer.visible)
        # The index may be behind the ledger after a crash: the last deletions stay withdrawn until it has followed.
        self.withdrawn.deleted(self.ledger.lately_deleted(NEWEST_DELETIONS), 0)
        self._release_withdrawn()
        self.tombstones.follow_if_behind(self.opened, self.indexer)

    def close(self) -> None:
        """Write and index the acknowledged changes, then close everything, the last opened first."""
        self._opened.close()

    def is_busy(self) -> bool:
        """Return True if a client called, or something was acknowledged, a moment ago: then background work waits."""
        return self.calls.are_recent() or self.writer.is_behind

    @property
    def absence(self) -> Absence | None:
        """The reason why the vault cannot be used now, None if it can."""
        return self.presence.look()

    @property
    def layout(self) -> Layout:
        """The layout of the vault, which new memories follow; read from the ledger once, and changed by a migration."""
        if self._layout is None:
            flag = self.ledger.flags().get(LAYOUT)
            found = layout_of(flag, () if flag else self._paths_there())
            # Nothing is certain of a vault that is away: the next write looks again.
            if self.absence is not None and not flag:
                return found
            if not flag:
                with suppress(StoreError):  # closing: the next start looks again
                    self.writer.write(records.set_flag(LAYOUT, found.value))
            self._layout = found
        return self._layout

    def _paths_there(self) -> Sequence[str]:
        with suppress(OSError):  # a vault that is not made yet, or is away
            return [stamp.path for stamp in self.vault.walk()]
        return []

    def forget_layout(self) -> None:
        """Read the vault's layout again at the next write."""
        self._layout = None

    @property
    def is_purging(self) -> bool:
        """True while a purge is being carried out, or waits to be finished."""
        return self.paths.purge.exists()

    # ---- read your writes

    def settle(self, timeout_s: float = READ_YOUR_WRITES_S, *, runs: bool = True) -> bool:
        """Wait until all acknowledged writes can be found; False if that takes longer, or is not possible now.

        Without `runs` the changes of dreams are not waited for. Files that changed while the daemon was away are waited
        for in the first moments only. Call from any thread but the writer's and the indexer's.
        """
        until = time.monotonic() + timeout_s
        # The number is taken first: writes acknowledged after this call are not waited for.
        seq = self.writer.acknowledged(runs=runs)
        found = self.writer.barrier(timeout_s, runs=runs) and self.indexer.wait_for(seq, until - time.monotonic())
        if runs and (following := self.indexer.following) is not None:
            wait([following], max(0.0, until - time.monotonic()))
        patience_s = min(until, self.patience_until) - time.monotonic()
        if patience_s > 0:
            wait([self.comparison], patience_s)
        return found

    def limits(self, settled: bool) -> Iterator[str]:
        """Yield, in sentences, the content that an answer may lack for now."""
        if (absence := self.absence) is not None:
            waiting = self.writer.lag
            yield f"{absence.reason}" + (f"; {waiting} changes wait for it and are not found yet" if waiting else "")
        elif not settled:
            yield NOT_FOUND_YET
        if note := self.opened.note:
            yield note
        elif not self.opened.is_compared:
            yield "files that changed while dreamd was away are still being read"

    def without_vectors(self) -> str:
        """Return a sentence on chunks without a vector, as of an index made again; "" for none or FEW_CHUNKS."""
        waiting = self.catalog.without_vector() if self.index.wants_vectors and self.embedder.ready else 0
        return f"{waiting:,} pieces of text are found by their words alone so far" if waiting > FEW_CHUNKS else ""

    def node(self, node_id: NodeId) -> Node:
        """Return a node, after acknowledged writes can be found.

        Raises NotFound, or StoreBusy while a node that is not found may yet be.
        """
        settled = self.settle()
        node = self.catalog.node(node_id)
        if node is None and (note := self.opened.note or ("" if settled else NOT_FOUND_YET)):
            raise StoreBusy(note, hint="Try again in a moment.")
        if node is None:
            raise NotFound(f"there is no {node_id}", hint="`dreamctl list` and `dreamctl recall` show ids.")
        return node

    # ---- events for extensions

    def _tell_of_created(self, nodes: Collection[Node]) -> None:
        """Queue an event for each: in the indexer's thread, after all were acknowledged."""
        for node in nodes:
            extensions.current().tell(extensions.CREATED, partial(self._created, node))

    def _created(self, node: Node) -> dict[str, str] | None:
        if node.forgotten or self.tombstones.is_hidden(node.node_id):
            return None
        text = outgoing(node.text)
        return {"node_id": node.node_id, "kind": node.kind.value, "channel": node.channel, "text": text}

    def tell_of_end(self, session_id: NodeId) -> None:
        """Queue the event of a session's end."""
        extensions.current().tell(extensions.ENDED, partial(self._ended, session_id))

    def _ended(self, session_id: NodeId) -> dict[str, str]:
        self.settle()  # its last turns may have come a moment ago
        node = self.catalog.node(session_id)
        return {"session_id": session_id, "channel": node.channel if node is not None else ""}

    # ---- opening, from below

    def _open_databases(self, disk: Disk, opened: ExitStack) -> None:
        """Open ledger, index and embeddings.

        The index asks three things of parts that are built after it: the indexer how far it has come, the writer
        which files it cannot write, and, through `opened.guard`, an operation about files that are gone.
        """
        self.vault = Vault(self.paths.vault, disk)
        self.ledger = Ledger(self.paths.ledger)
        opened.callback(self.ledger.close)
        # A vault without its ledger: that was lost, or the vault was copied from elsewhere.
        if self.ledger.is_new and self.vault.has_marker():
            self.ledger.commit([], [records.set_flag(HISTORY_LOST, records.stored(self.now()))])
        self.tombstones = Tombstones(self.ledger)
        self.mending = Mending(lambda: self.opened, lambda: self.fill_index())
        self.withdrawn = Withdrawn(
            lambda: self.tombstones.hidden, lambda seq: self.indexer.has_indexed(seq), self._has_followed, self.now
        )
        self.opened = OpenIndex(
            self.paths.index,
            self.vault,
            self.embedder,
            self.settings,
            self.now,
            Concealment(self.tombstones.is_hidden, self.mask, self.withdrawn),
            self.mending.noticed,
        )
        opened.callback(self.opened.close)
        self.index, self.catalog = self.opened.index, self.opened.catalog
        self.lookup = Lookup(self.opened, self.vault)
        self.embeddings = EmbeddingCache(self._place_of_embeddings(), self.embedder.model_id)
        opened.callback(self.embeddings.close)

    def _open_writer(self, disk: Disk, claim: Callable[[], bool], opened: ExitStack) -> None:
        """Build indexer and writer, and look whether the vault is there.

        The indexer ends before the repair, which may wait for it.
        """
        self.indexer = Indexer(
            self.index, self._after_indexing, self.calls.are_recent, lambda within_s: self.writer.is_writing(within_s)
        )
        if extensions.current().listens(extensions.CREATED):
            self.indexer.on_created = self._tell_of_created
        opened.callback(self.mending.stop)
        opened.callback(self.indexer.stop)
        known_id = self.ledger.flags().get(VAULT_ID)
        self.presence = Presence(self.vault, known_id, self._keep_vault_id, is_new=self._is_new(), claim=claim)
        self.presence.look()
        self.writer = Writer(
            self.vault,
            self.ledger,
            WriterEvents(self.indexer.placed, self.withdrawn.deleted, lambda: self.on_vault_back()),
            self.presence,
            self.calls.are_recent,
        )
        opened.callback(self.writer.close)
        self.switches = Switches(self.ledger, self.writer, self.door)
        self.followed = Followed(self.ledger, self.writer)
        self.projects = ProjectChannels(self.ledger, self.writer, self._channel_names(), self.settings.apart)
        # A damaged ledger is set aside by the writer's thread; the next one starts with these rows.
        self.ledger.in_mind = self._held_in_memory
        self.ledger.on_damage = self.writer.begin_ledger_anew
        self.repairs = Repairs(self.mending, self.writer)

    def _channel_names(self) -> list[str]:
        try:
            return self.catalog.channel_names()
        except IndexDamaged:
            return []

    def _place_of_embeddings(self) -> Path:
        """Return the file of the vectors: beside the index, or in memory while its disk cannot be written."""
        path = self.paths.embeddings
        if not self.opened.is_copy:
            return path
        return copy_to_memory(path) if path.exists() else Path(":memory:")

    # ---- called by the parts

    def _after_indexing(self) -> None:
        self._release_withdrawn()
        self.on_indexed()

    def _release_withdrawn(self) -> None:
        with suppress(StoreError, apsw.Error):  # the next question, or the next files, release them
            self.withdrawn.let_go()

    def _has_followed(self, path: str) -> bool:
        """Return True if the index no longer knows a deleted file, or knows it because it is there or withheld."""
        # The deletion itself may still wait: a file in a read-only folder cannot be removed.
        if path in self.writer.held_paths:
            return False
        is_known = bool(self.catalog.known_files([path]))
        return not is_known or self.vault.exists(path) or self.opened.missing.is_withheld(path)

    def _is_new(self) -> bool:
        """Return True if nothing was ever kept here: then a vault may be made."""
        counts = self.ledger.counts()
        return not (counts["journal"] or counts["conflicts"] or counts["runs"] or self.lookup.knows_files())

    def _keep_vault_id(self, vault_id: str) -> None:
        """Write the vault's id into the ledger; lost with a crash, it is taken from the vault's marker again."""
        self.ledger.later(records.set_flag(VAULT_ID, vault_id))

    def _held_in_memory(self) -> Sequence[records.Write]:
        """Return the rows that a ledger in place of a damaged one must hold."""
        known = records.keep_in_mind(self.tombstones.names, self.switches.flags(), self.now())
        vault_id = self.presence.vault_id
        return [*known, records.set_flag(VAULT_ID, vault_id)] if vault_id else known


def _nothing() -> None:
    pass

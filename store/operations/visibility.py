"""Read your writes: wait until what was acknowledged is found, and say what is not found yet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import wait

from ..index.indexer import Indexer
from ..index.opening import OpenIndex
from ..index.projection import Node
from ..model import NodeId, NotFound, StoreBusy
from ..writer.writer import Writer
from .reconciliation import Reconciliation

READ_YOUR_WRITES_S = 2.0
"""The longest wait of a question for what was acknowledged before it to become visible."""

NOT_FOUND_YET = "what was written last is not found yet"


class Visibility:
    """Waits for what was acknowledged. Every method may be called from any thread but the writer's and indexer's."""

    def __init__(self, writer: Writer, indexer: Indexer, opened: OpenIndex, reconciliation: Reconciliation) -> None:
        self._writer = writer
        self._indexer = indexer
        self._opened = opened
        self._reconciliation = reconciliation

    def settle(self, timeout_s: float = READ_YOUR_WRITES_S, *, runs: bool = True) -> bool:
        """Wait until what was acknowledged before is found; False when that takes longer, or cannot be now.

        Without `runs` what dreams change is not waited for. What changed while the daemon was away is waited for in
        the first moments only.
        """
        until = time.monotonic() + timeout_s
        seq = self._writer.acknowledged(runs=runs)
        found = self._writer.barrier(timeout_s, runs=runs) and self._indexer.wait_for(seq, until - time.monotonic())
        if runs and (following := self._indexer.following) is not None:
            wait([following], max(0.0, until - time.monotonic()))
        patience_s = min(until, self._reconciliation.patience_until) - time.monotonic()
        if patience_s > 0:
            self._reconciliation.wait_until_caught_up(patience_s)
        return found

    def limits(self, settled: bool) -> Iterator[str]:
        """Yield what an answer cannot hold yet."""
        if (absence := self._reconciliation.absence) is not None:
            waiting = self._writer.lag
            yield f"{absence.reason}" + (f"; {waiting} changes wait for it and are not found yet" if waiting else "")
        elif not settled:
            yield NOT_FOUND_YET
        if note := self._opened.note:
            yield note
        elif not self._reconciliation.is_caught_up:
            yield "files that changed while dreamd was away are still being read"

    def node(self, node_id: NodeId) -> Node:
        """Return a node, after what was acknowledged before is found.

        Raises NotFound, or StoreBusy while a node that is not found may yet be.
        """
        settled = self.settle()
        node = self._opened.catalog.node(node_id)
        if node is None and (note := self._opened.note or ("" if settled else NOT_FOUND_YET)):
            raise StoreBusy(note, hint="Try again in a moment.")
        if node is None:
            raise NotFound(f"there is no {node_id}", hint="`dreamctl list` and `dreamctl recall` show ids.")
        return node

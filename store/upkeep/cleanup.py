"""Cleanup: removal of expired documents, old history, unused vectors, and files that interrupted writes left.

Beside it are the inputs of decay: the facts that may fade, and the uses, verdicts and pages that keep them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..changes.apply import Changes
from ..changes.documents import Documents
from ..core import Core
from ..ledger.ledger import Reinforced, Usage
from ..ledger.questions import Probe, prune_questions
from ..ledger.records import prune_events
from ..model import Kind, Level, Memory, NodeId, StoreError
from ..vault.leftovers import Leftovers

logger = logging.getLogger(__name__)


class Cleanup:
    """Removes what is no longer needed. Every method may be called from any thread."""

    def __init__(self, core: Core, changes: Changes, documents: Documents) -> None:
        self._core = core
        self._changes = changes
        self._documents = documents
        self.leftovers = Leftovers(core.vault, core.ledger.holds, core.now())
        self._thread = threading.Thread(target=self.sweep, name="dreamd-sweep", daemon=True)

    def start(self) -> None:
        """Sweep once, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the end of that sweep; `core.closing` is set by then."""
        if self._thread.is_alive():
            self._thread.join()

    def tidy(self) -> None:
        """Remove expired documents, old history, vectors of texts that are gone, leftovers; look at the databases."""
        now = self._core.now()
        with contextlib.suppress(StoreError):  # the vault is away: the next time
            self._documents.sweep()
        self._changes.prune(now)
        self.sweep()
        self._core.writer.write(
            *prune_questions(now), *prune_events(now - timedelta(days=self._core.settings.history_days))
        ).result()
        self._core.embeddings.prune(self._core.index.text_hashes())
        self._core.ledger.look_through()  # damage in rows that are seldom read is found here
        self._core.opened.problems()

    def sweep(self) -> None:
        """Remove what killed writes left in the vault."""
        try:
            swept = self.leftovers.sweep(self._core.now(), self._core.closing.is_set)
        except (OSError, StoreError) as error:  # of no consequence but the files: the next start looks again
            logger.warning("what interrupted writes left was not swept (%s)", type(error).__name__)
        else:
            if swept:
                logger.info("removed %d files that interrupted writes had left", swept)


# ---- what fades


@dataclass(frozen=True, slots=True)
class DecayInputs:
    """The contents of ledger and index from which decay is computed.

    `citations` are pairs of a living page and a living fact that it cites; `living` counts the living facts. `facts`
    yields the facts stated before a moment, with id, path and time only; `read` returns a file's content, None if
    there is none.
    """

    tombstones: frozenset[str]
    usage: Mapping[NodeId, Usage]
    feedback: Mapping[NodeId, Mapping[str, int]]
    probes: Sequence[Probe]
    reinforced: Mapping[NodeId, Reinforced]
    citations: Sequence[tuple[NodeId, NodeId]]
    living: int
    facts: Callable[[datetime], Iterator[Memory]]
    read: Callable[[str], bytes | None]


def read_decay_inputs(core: Core) -> DecayInputs:
    """Read the inputs of decay, after acknowledged writes can be found."""
    core.settle()
    ledger, catalog = core.ledger, core.catalog

    def facts(before: datetime) -> Iterator[Memory]:
        for node_id, path, at in catalog.old_facts(before):
            yield Memory(node_id=node_id, level=Level.FACT, kind=Kind.FACT, title="", text="", path=path, created_at=at)

    return DecayInputs(
        tombstones=frozenset(ledger.tombstones()),
        usage=ledger.usage(),
        feedback=ledger.feedback(),
        probes=ledger.probes(),
        reinforced=ledger.reinforced(),
        citations=catalog.resting(),
        living=catalog.counts()["facts"],
        facts=facts,
        read=core.vault.read_if_any,
    )

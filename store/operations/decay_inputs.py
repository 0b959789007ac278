"""The inputs of decay: the facts that may fade, and the uses, judgements and pages that keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..index.catalog import Catalog
from ..ledger.ledger import Ledger, Reinforced, Usage
from ..ledger.questions import Probe
from ..model import Kind, Level, Memory, NodeId
from ..vault.vault import Vault
from .visibility import Visibility


@dataclass(frozen=True, slots=True)
class DecayInputs:
    """The contents of ledger and index that decay looks at.

    `citations` are pairs of a living page and a living fact that it cites; `living` counts the living facts. `facts`
    yields those that were stated before a moment, with no more of each than the index holds; `read` returns a file's
    content, None where there is none.
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


def read_decay_inputs(ledger: Ledger, catalog: Catalog, vault: Vault, visibility: Visibility) -> DecayInputs:
    """Read the inputs of decay, after what was acknowledged is found."""
    visibility.settle()

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
        read=vault.read_if_any,
    )

"""The inputs of decay: the facts that may fade, and the uses, verdicts and pages that keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..core import Core
from ..ledger.ledger import Reinforced, Usage
from ..ledger.questions import Probe
from ..model import Kind, Level, Memory, NodeId


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

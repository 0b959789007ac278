"""Probes: questions with known answers, asked of an index to measure what is found and what envelopes tell.

A probe's gold is turns, and memories that rest on none, and what they say: their details and their rare words. Where a
person asked too little, synthetic probes are generated from turns of before this run: some of a turn's rare words ask
for the turn. What a stage touches is asked for by few and common words, which tell more: rare words always find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

from ...store.index.catalog import Catalog
from ...store.index.projection import Node
from ...store.ledger.questions import Probe
from ...store.model import Hit, NodeId, Slot
from ...store.roles import MACHINES
from ...store.search import hits, packing
from ...store.search.question import Question
from ...store.search.search import Ranking
from ...store.text.words import query_terms, stems_of, term_stems
from ..workspace.diff import Replaced
from .details import Detail, details_of, said_in, told, written_as_names
from .shadow_index import ShadowIndex

HITS = 10
FIRM_HITS = 5
"""The first hits, in which a made-up question must find: at the edge of HITS any new memory may push it out."""

ENVELOPE_TOKENS = 500
ASKED_WORDS = 4
EXPECTED_WORDS = 12
"""Of a memory's words, rarest first: so many ask for it, and so many should be in the envelope that answers."""

WORDS_KEPT = 0.5
"""The share of the rare words told before that must still be told."""

FEWEST_WORDS = 5
MOST_WORDS = 5000
HARD_WORDS = (2, 4)
"""The numbers of common words that ask for what a stage touches: the first that finds it is kept."""

READ_AT_MOST, NOTES_AT_MOST = 4000, 1000
"""Turns, and memories that rest on none, read to generate probes and to count how rare words are."""


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a probe.

    `recall` is the share of its gold in the first HITS hits; `coverage` the share of its words, and `told` its details,
    in an envelope of ENVELOPE_TOKENS tokens; the details in one that is about what was asked. `shown` holds the nodes
    of the hits and of the envelope's lines, with the turns that they cite. `is_firm`: gold is in the first FIRM_HITS.
    """

    recall: float
    coverage: float
    told: frozenset[Detail] = frozenset()
    shown: frozenset[NodeId] = frozenset()
    is_firm: bool = True

    def is_worse_than(self, before: Score) -> bool:
        """Return True if it finds less or tells less."""
        return self.recall < before.recall or self.tells_less_than(before)

    def tells_less_than(self, before: Score) -> bool:
        """Return True if a detail that was told before is not, or most of the words that were."""
        return bool(before.told - self.told) or self.coverage < WORDS_KEPT * before.coverage


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """A probe with the rare words and the details that its answer should tell; `synthetic` unless a person asked it."""

    probe: Probe
    words: frozenset[str]
    synthetic: bool = True
    details: frozenset[Detail] = frozenset()

    def after(self, replaced: Replaced) -> ProbeCase:
        """Return the case without what only a superseded fact says."""
        gone = told(self.details, replaced.older) - told(self.details, replaced.newer)
        words = self.words - (said_in(replaced.older) - said_in(replaced.newer))
        return replace(self, words=words, details=self.details - gone)


@dataclass(frozen=True, slots=True)
class Touched:
    """A probe of what a stage touches, with its result before the stage."""

    case: ProbeCase
    before: Score


class Searchable(Protocol):
    """An index that answers probes: the shadow index, or the store itself."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog of its nodes."""
        ...

    def rank(self, question: Question) -> Ranking:
        """Rank the nodes that answer a question."""
        ...


def ask(index: Searchable, case: ProbeCase) -> Score:
    """Ask one probe. A superseded memory counts as found if its successor is."""
    probe = case.probe
    ranking = index.rank(Question(text=probe.text, channel=probe.channel, limit=HITS))
    answer = hits.answer(ranking, index.catalog, HITS).hits
    first, shown = _named_by(answer[:FIRM_HITS]), _named_by(answer)
    found = shown | {old for hit in answer for old in replaced_by(index, hit.node_id)}
    envelope = packing.envelope(ranking, index.catalog, ENVELOPE_TOKENS)
    words = stems_of(query_terms(envelope.text, MOST_WORDS))
    return Score(
        len(found & set(probe.gold)) / len(probe.gold),
        len(words & case.words) / len(case.words) if case.words else 1.0,
        _told(case, [slot.text for slot in envelope.slots]),
        frozenset(shown | _named_by(envelope.slots)),
        bool(first & set(probe.gold)),
    )


def _named_by(answers: Iterable[Hit | Slot]) -> set[NodeId]:
    """Return the nodes of hits or of an envelope's lines, and the turns that they cite."""
    return {node_id for one in answers for node_id in (one.node_id, *(turn.node_id for turn in one.evidence))}


def _told(case: ProbeCase, lines: Sequence[str]) -> frozenset[Detail]:
    """Return the details that stand in a line with at least half of the words that were asked for."""
    asked = stems_of(query_terms(case.probe.text))
    about = [line for line in lines if 2 * len(asked & said_in(line)) >= len(asked)]
    return frozenset(detail for line in about for detail in told(case.details, line))


def replaced_by(index: Searchable, node_id: NodeId) -> set[NodeId]:
    """Return all memories that one supersedes, transitively; never one that is newer than its successor."""
    replaced: set[NodeId] = set()
    waiting = list(index.catalog.nodes([node_id]).values())
    while waiting:
        newer = waiting.pop()
        for older in index.catalog.nodes(index.catalog.links(newer.node_id, "supersedes")).values():
            if older.node_id not in replaced and not _is_newer(older, newer):
                replaced.add(older.node_id)
                waiting.append(older)
    return replaced


def _is_newer(one: Node, other: Node) -> bool:
    one_at, other_at = one.valid_from or one.created_at, other.valid_from or other.created_at
    return bool(one_at and other_at and one_at > other_at)


class ProbeGenerator:
    """Generates probes from an index: from the same index always the same."""

    def __init__(self, shadow: ShadowIndex) -> None:
        self._catalog = shadow.catalog
        chosen = spread(self._catalog.turn_ids(), READ_AT_MOST) + spread(self._catalog.facts_alone(), NOTES_AT_MOST)
        self._nodes = self._catalog.nodes(chosen)
        self._counts = Counter(stem for node in self._nodes.values() for stem in term_stems(node.text))
        self._names = written_as_names(node.text for node in self._nodes.values())

    def real(self, probes: Sequence[Probe]) -> list[ProbeCase]:
        """Return cases for the probes that a person asked, with as much of their gold as is still living."""
        asked = []
        for probe in probes:
            known = self._catalog.nodes(probe.gold)
            if gold := tuple(node_id for node_id in probe.gold if node_id in known and known[node_id].live):
                words = frozenset(stem for node_id in gold for stem in self._expected(known[node_id]))
                details = frozenset(detail for node_id in gold for detail in self._details(known[node_id]))
                asked.append(ProbeCase(Probe(probe.text, probe.channel, gold, probe.last_at), words, False, details))
        return asked

    def synthetic(self, count: int) -> list[ProbeCase]:
        """Generate up to `count` probes, spread over all turns and memories that rest on none."""
        return self.of(self._nodes[node_id] for node_id in spread(list(self._nodes), 2 * count))[:count]

    def of(self, nodes: Iterable[Node]) -> list[ProbeCase]:
        """Generate a probe for each node with at least FEWEST_WORDS content words."""
        return [case for node in nodes if (case := self._case_of(node)) is not None]

    def _case_of(self, node: Node) -> ProbeCase | None:
        words = self._rare(node)
        if len(words) < FEWEST_WORDS:
            return None
        return self._case(node, words[:ASKED_WORDS], self._details(node))

    def harder(self, node: Node, replaced: Replaced | None = None) -> list[ProbeCase]:
        """Generate probes that ask for a node's details by common words beside them, the hardest first.

        Where a stage supersedes a fact of the node, what both facts say asks, and is all that is expected of it.
        """
        details = self._details(node)
        words = [stem for stem in self._rare(node)[:EXPECTED_WORDS] if frozenset([stem]) not in details][::-1]
        if replaced is None:
            return [self._case(node, words[:count], details) for count in HARD_WORDS if len(words) >= count]
        words = [stem for stem in words if stem in said_in(replaced.newer)]
        return [self._case(node, words[:count], details).after(replaced) for count in HARD_WORDS if words]

    def _case(self, node: Node, stems: Sequence[str], details: frozenset[Detail]) -> ProbeCase:
        spelt = {next(iter(stems_of([word]))): word for word in query_terms(node.text)}
        text = " ".join(spelt[stem] for stem in stems if stem in spelt)
        return ProbeCase(Probe(text, node.channel, (node.node_id,)), frozenset(self._expected(node)), details=details)

    def _details(self, node: Node) -> frozenset[Detail]:
        return frozenset() if node.role in MACHINES else details_of(node.text, self._names)

    def _expected(self, node: Node) -> list[str]:
        """Return the words that its envelope should contain; none of an assistant's, as their long answers are cut."""
        return [] if node.role in MACHINES else self._rare(node)[:EXPECTED_WORDS]

    def _rare(self, node: Node) -> list[str]:
        return sorted(term_stems(node.text), key=lambda stem: (self._counts[stem], stem))


def spread(node_ids: Sequence[NodeId], count: int) -> list[NodeId]:
    """Choose `count` ids in the order of their hashes: spread evenly, and always the same."""
    return sorted(node_ids, key=lambda node_id: sha256(node_id.encode()).digest())[:count]

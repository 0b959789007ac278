"""Probes: questions with known answers, asked of an index to measure hits and envelopes.

A probe's gold is turns, and memories without a turn, together with their details and rare words. Where a person asked
too few questions, synthetic probes are generated from turns before this run: some rare words of a turn ask for it.
Memories touched by a stage are asked for by few and common words: rare words find in any case and measure nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

from ...store.index.catalog import Catalog
from ...store.index.projection import Node
from ...store.ledger.questions import Gap, Probe
from ...store.model import Hit, NodeId, Slot
from ...store.roles import MACHINES
from ...store.search import hits, packing
from ...store.search.gathering import Ranking
from ...store.search.question import Question
from ...store.text.words import query_terms, stems_of, term_stems
from ..workspace.proposals import ReplacedTexts
from .details import Detail, contained, details_of, stems_in, written_as_names
from .shadow_index import ShadowIndex

HITS = 10

# The first hits, which must contain the gold of a synthetic probe: at the edge of HITS any new one may push it out.
FIRM_HITS = 5

ENVELOPE_TOKENS = 500

# The numbers of a memory's rarest words that ask for it, and that are expected in the answering envelope.
ASKED_WORDS, EXPECTED_WORDS = 4, 12

# The share of the rare words of the envelope before that the one after must contain.
WORDS_KEPT = 0.5

# The least confidence of an answer to a question that found none before.
ANSWERS = 0.2

FEWEST_WORDS = 5
MOST_WORDS = 5000

# The numbers of common words of the probes for a touched memory; the first probe that finds it is kept.
HARD_WORDS = (2, 4)

# Turns, and memories without a turn, read to generate probes and to count the frequency of words.
READ_AT_MOST, NOTES_AT_MOST = 4000, 1000


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a probe.

    `recall` is the share of its gold in the first HITS hits. Of an envelope of ENVELOPE_TOKENS tokens, `coverage` is
    the share of the probe's words in it, `details` those in its lines about the question. `shown` are the nodes of the
    hits and of the envelope's lines, with the turns that they cite. `is_firm`: gold is in the first FIRM_HITS.
    """

    recall: float
    coverage: float
    details: frozenset[Detail] = frozenset()
    shown: frozenset[NodeId] = frozenset()
    is_firm: bool = True

    def is_worse_than(self, before: Score) -> bool:
        """Return True if it found less, or its envelope contains less."""
        return self.recall < before.recall or self.contains_less_than(before)

    def contains_less_than(self, before: Score) -> bool:
        """Return True if a detail, or most words, of the envelope before are missing."""
        return bool(before.details - self.details) or self.coverage < WORDS_KEPT * before.coverage


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """A probe with the rare words and details expected in its answer; `synthetic` unless a person asked it."""

    probe: Probe
    words: frozenset[str]
    synthetic: bool = True
    details: frozenset[Detail] = frozenset()

    def after(self, replaced: ReplacedTexts) -> ProbeCase:
        """Return the case without the words and details that only the superseded fact contains."""
        gone = contained(self.details, replaced.older) - contained(self.details, replaced.newer)
        words = self.words - (stems_in(replaced.older) - stems_in(replaced.newer))
        return replace(self, words=words, details=self.details - gone)


@dataclass(frozen=True, slots=True)
class Touched:
    """A probe of a memory touched by a stage, with its result before the stage."""

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
    # A superseded memory that was gold is answered by its successor.
    found = shown | {old for hit in answer for old in replaced_by(index, hit.node_id)}
    envelope = packing.envelope(ranking, index.catalog, ENVELOPE_TOKENS)
    words = stems_of(query_terms(envelope.text, MOST_WORDS))
    return Score(
        len(found & set(probe.gold)) / len(probe.gold),
        len(words & case.words) / len(case.words) if case.words else 1.0,
        _contained(case, [slot.text for slot in envelope.slots]),
        frozenset(shown | _named_by(envelope.slots)),
        bool(first & set(probe.gold)),
    )


def answered_now(index: Searchable, gaps: Iterable[Gap]) -> dict[int, Node]:
    """Return, by question in vain, the memory that answers it now.

    It is a person's statement with a word of the question that was not shown then: the question itself, and an agent's
    words on it, are none.
    """
    found: dict[int, Node] = {}
    for gap in gaps:
        ranking = index.rank(Question(text=gap.text, channel=gap.channel, limit=FIRM_HITS))
        answer = hits.answer(ranking, index.catalog, FIRM_HITS).hits
        sure = [hit.node_id for hit in answer if hit.confidence >= ANSWERS and hit.node_id not in gap.shown]
        nodes = index.catalog.nodes(sure)
        asked = stems_of(query_terms(gap.text))
        for node in (nodes[name] for name in sure if name in nodes):
            if node.role not in MACHINES and not node.asks and asked & stems_in(node.text):
                found.setdefault(gap.question_id, node)
    return found


def _named_by(answers: Iterable[Hit | Slot]) -> set[NodeId]:
    """Return the nodes of hits or of an envelope's lines, and the turns that they cite."""
    return {node_id for one in answers for node_id in (one.node_id, *(turn.node_id for turn in one.evidence))}


def _contained(case: ProbeCase, lines: Sequence[str]) -> frozenset[Detail]:
    """Return the details in lines that contain at least half of the question's words."""
    asked = stems_of(query_terms(case.probe.text))
    about = [line for line in lines if 2 * len(asked & stems_in(line)) >= len(asked)]
    return frozenset(detail for line in about for detail in contained(case.details, line))


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
    """Generates probes from an index, the same each time."""

    def __init__(self, shadow: ShadowIndex) -> None:
        self._catalog = shadow.catalog
        chosen = spread(self._catalog.turn_ids(), READ_AT_MOST) + spread(self._catalog.facts_alone(), NOTES_AT_MOST)
        self._nodes = self._catalog.nodes(chosen)
        self._counts = Counter(stem for node in self._nodes.values() for stem in term_stems(node.text))
        self._names = written_as_names(node.text for node in self._nodes.values())

    def real(self, probes: Sequence[Probe]) -> list[ProbeCase]:
        """Return cases for the probes that a person asked, with the live part of their gold."""
        asked = []
        for probe in probes:
            known = self._catalog.nodes(probe.gold)
            if gold := tuple(node_id for node_id in probe.gold if node_id in known and known[node_id].live):
                words = frozenset(stem for node_id in gold for stem in self._expected(known[node_id]))
                details = frozenset(detail for node_id in gold for detail in self._details(known[node_id]))
                asked.append(ProbeCase(Probe(probe.text, probe.channel, gold, probe.last_at), words, False, details))
        return asked

    def synthetic(self, count: int) -> list[ProbeCase]:
        """Generate up to `count` probes, spread over all turns and memories without a turn."""
        return self.of(self._nodes[node_id] for node_id in spread(list(self._nodes), 2 * count))[:count]

    def of(self, nodes: Iterable[Node]) -> list[ProbeCase]:
        """Generate a probe for each node with at least FEWEST_WORDS content words."""
        return [case for node in nodes if (case := self._case_of(node)) is not None]

    def _case_of(self, node: Node) -> ProbeCase | None:
        words = self._rare(node)
        if len(words) < FEWEST_WORDS:
            return None
        return self._case(node, words[:ASKED_WORDS], self._details(node))

    def harder(self, node: Node, replaced: ReplacedTexts | None = None) -> list[ProbeCase]:
        """Generate probes that ask for a node's details by its other, common words, the hardest first.

        Where a stage supersedes a fact of the node, only words that both facts contain ask, and are expected.
        """
        details = self._details(node)
        # Reversed, the most common of the expected words ask; details do not, as they are the answer.
        words = [stem for stem in self._rare(node)[:EXPECTED_WORDS] if frozenset([stem]) not in details][::-1]
        if replaced is None:
            return [self._case(node, words[:count], details) for count in HARD_WORDS if len(words) >= count]
        # The words that only the older fact has should not find any more, those of the newer find it in any case.
        words = [stem for stem in words if stem in stems_in(replaced.newer)]
        return [self._case(node, words[:count], details).after(replaced) for count in HARD_WORDS if words]

    def _case(self, node: Node, stems: Sequence[str], details: frozenset[Detail]) -> ProbeCase:
        # Asked in the spelling of the text, since stems are no words: the store stems the question by itself.
        spelt = {next(iter(stems_of([word]))): word for word in query_terms(node.text)}
        text = " ".join(spelt[stem] for stem in stems if stem in spelt)
        return ProbeCase(Probe(text, node.channel, (node.node_id,)), frozenset(self._expected(node)), details=details)

    def _details(self, node: Node) -> frozenset[Detail]:
        return frozenset() if node.role in MACHINES else details_of(node.text, self._names)

    def _expected(self, node: Node) -> list[str]:
        """Return the words expected in the envelope; none for an assistant's turn, since long answers are cut."""
        return [] if node.role in MACHINES else self._rare(node)[:EXPECTED_WORDS]

    def _rare(self, node: Node) -> list[str]:
        return sorted(term_stems(node.text), key=lambda stem: (self._counts[stem], stem))


def spread(node_ids: Sequence[NodeId], count: int) -> list[NodeId]:
    """Choose `count` ids in the order of their hashes: spread evenly, and always the same."""
    return sorted(node_ids, key=lambda node_id: sha256(node_id.encode()).digest())[:count]

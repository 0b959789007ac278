"""Probing: what past questions find in a trial, and how much of what they should tell an envelope holds.

A probe's gold is turns, and memories that rest on none. Where a person asked little, or nothing that was of use, probes
are made of what was said before tonight: some of a turn's rare words ask for the turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from ...store.find.index.catalog import Catalog
from ...store.find.index.projection import Node
from ...store.find.search import hits as answer
from ...store.find.search.search import Question, Ranking
from ...store.keep.ledger.questions import Probe
from ...store.model import NodeId
from ...store.roles import MACHINES
from ...store.text.stems import stems_of
from ...store.text.terms import query_terms, term_stems
from .shadow_index import Trial

HITS = 10
ENVELOPE_TOKENS = 500
ASKED_WORDS = 4
TOLD_WORDS = 12
"""Of a memory's words, rarest first: so many ask for it, and so many should be told when it is asked for."""

FEWEST_WORDS = 5
MOST_WORDS = 5000
READ_AT_MOST, NOTES_AT_MOST = 4000, 1000
"""Turns, and memories that rest on none, read to make probes and to know which words are rare."""


@dataclass(frozen=True, slots=True)
class Score:
    """What became of a probe, each from 0 to 1: of its gold, what the first ten hits hold; of its words, what is told.

    `told` is measured in an envelope of 500 tokens.
    """

    recall: float
    told: float


@dataclass(frozen=True, slots=True)
class Asking:
    """A probe, ready to be asked: with the words that its gold has and others have not."""

    probe: Probe
    words: frozenset[str]
    made: bool = True


class Searchable(Protocol):
    """What can be asked: a trial, or the store itself."""

    @property
    def catalog(self) -> Catalog:
        """What is there."""
        ...

    def rank(self, question: Question) -> Ranking:
        """Rank what answers a question."""
        ...


def ask(trial: Searchable, asking: Asking) -> Score:
    """Ask one probe. A memory that gave way is found by the newer one that took its place."""
    probe = asking.probe
    ranking = trial.rank(Question(text=probe.text, channel=probe.channel, limit=HITS))
    hits = answer.hits(ranking, trial.catalog, HITS)
    found = {hit.node_id for hit in hits} | {turn.node_id for hit in hits for turn in hit.evidence}
    found |= {old for hit in hits for old in replaced_by(trial, hit.node_id)}
    told = all_words_of(answer.envelope(ranking, trial.catalog, ENVELOPE_TOKENS).text)
    return Score(
        len(found & set(probe.gold)) / len(probe.gold),
        len(told & asking.words) / len(asking.words) if asking.words else 1.0,
    )


def all_words_of(text: str) -> frozenset[str]:
    """The stems of a text's telling words, however many."""
    return stems_of(query_terms(text, MOST_WORDS))


def replaced_by(trial: Searchable, node_id: NodeId) -> set[NodeId]:
    """What a memory took the place of, and those what they did; never what is newer than itself."""
    replaced: set[NodeId] = set()
    waiting = list(trial.catalog.nodes([node_id]).values())
    while waiting:
        newer = waiting.pop()
        for older in trial.catalog.nodes(trial.catalog.links(newer.node_id, "supersedes")).values():
            if older.node_id not in replaced and not _is_newer(older, newer):
                replaced.add(older.node_id)
                waiting.append(older)
    return replaced


def _is_newer(one: Node, other: Node) -> bool:
    one_at, other_at = one.valid_from or one.created_at, other.valid_from or other.created_at
    return bool(one_at and other_at and one_at > other_at)


class Maker:
    """Makes probes of what is there: always the same of the same."""

    def __init__(self, trial: Trial) -> None:
        self._catalog = trial.catalog
        chosen = spread(self._catalog.turn_ids(), READ_AT_MOST) + spread(self._catalog.facts_alone(), NOTES_AT_MOST)
        self._nodes = self._catalog.nodes(chosen)
        self._counts = Counter(stem for node in self._nodes.values() for stem in term_stems(node.text))

    def real(self, probes: Sequence[Probe]) -> list[Asking]:
        """Probes that a person asked, for as much of their gold as is still there."""
        asked = []
        for probe in probes:
            known = self._catalog.nodes(probe.gold)
            if gold := tuple(node_id for node_id in probe.gold if node_id in known and known[node_id].live):
                words = frozenset(stem for node_id in gold for stem in self._telling(known[node_id]))
                asked.append(Asking(Probe(probe.text, probe.channel, gold, probe.last_at), words, made=False))
        return asked

    def made(self, count: int) -> list[Asking]:
        """So many probes of turns and memories, spread over all there is."""
        return self.of(self._nodes[node_id] for node_id in spread(list(self._nodes), 2 * count))[:count]

    def of(self, nodes: Iterable[Node]) -> list[Asking]:
        """A probe of each that has enough to say."""
        return [asking for node in nodes if (asking := self._asking(node)) is not None]

    def _asking(self, node: Node) -> Asking | None:
        words = self._rare(node)
        if len(words) < FEWEST_WORDS:
            return None
        spelt = {next(iter(stems_of([word]))): word for word in query_terms(node.text)}
        text = " ".join(spelt[stem] for stem in words[:ASKED_WORDS] if stem in spelt)
        return Asking(Probe(text, node.channel, (node.node_id,)), frozenset(self._telling(node)))

    def _telling(self, node: Node) -> list[str]:
        """What should be told of it; an assistant's long answers are kept in brief, and asked for no more than that."""
        return [] if node.role in MACHINES else self._rare(node)[:TOLD_WORDS]

    def _rare(self, node: Node) -> list[str]:
        return sorted(term_stems(node.text), key=lambda stem: (self._counts[stem], stem))


def spread(node_ids: Sequence[NodeId], count: int) -> list[NodeId]:
    """So many of them, as if by chance and always the same."""
    return sorted(node_ids, key=lambda node_id: sha256(node_id.encode()).digest())[:count]

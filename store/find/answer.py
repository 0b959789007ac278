"""From a ranking to what a person or an agent reads: hits, and envelopes inside a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from ..model import Envelope, Evidence, Hit, Kind, NodeId, Slot
from .catalog import Catalog, ChunkRow
from .chunking import estimate_tokens
from .projection import Node
from .search import Ranking
from .terms import words_of

SHOWN_WHOLE_CHARS = 2000
"""A longer memory answers with the chunk that matched; `show` has the rest."""

READ_AT_ONCE = 32
"""Candidates whose texts are read together: an envelope of 500 tokens has about 15 of them."""

LINE_TOKENS, SPECIAL_TOKENS, SMALLEST_SLOT_TOKENS = 1, 2, 12
"""What a line break may cost, what an estimate adds to a text and an envelope pays once, and when it is full."""

SLOT_TOKENS = 120
"""A longer text gives an envelope only its sentences nearest to the question: density pays."""

ABSTAIN_BELOW_COSINE = 0.2
"""Unrelated English sentences lie around .0 to .15 with the shipped model, weakly related ones above .2."""

FULL_SHARE = 0.4
"""The part of an envelope's budget in which turns are told by all their facts; after it by the nearest ones alone.

Evidence recall and answer coverage at 500 tokens, LoCoMo: .771 and .767 with all facts throughout, .792 and .765 with
four tenths, .798 and .708 with the nearest ones from the start.
"""

NEAREST_TOKENS = 30
"""What the nearest facts of a turn may take; there is always one."""

ASSISTANT_TOKENS = 20
"""What the facts of an assistant's turn may take: its advice can be had again, what its person said cannot.

BEAM, evidence recall and answer coverage at 500 tokens: .546 and .653 in full, .597 and .650 at 30, .617 and .655 here.
"""

DISPUTED, CHANGED = "disputed", "changed since"
"""What an envelope says of a memory that another contradicts, or took the place of."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_SENTENCE = re.compile(r"[^\n.!?;]+(?:[.!?;]+(?=\s|$)|[.!?;]+\S+)*[.!?;]*\s*|\n+")


@dataclass(slots=True)
class Recalled:
    """What `recall` answers. `abstained`: nothing is near enough to be called an answer, and `hits` is empty."""

    hits: list[Hit]
    abstained: bool
    notes: list[str] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)


def abstains(ranking: Ranking) -> bool:
    """Whether nothing is near the question, neither in words nor in meaning."""
    return not any(
        "keyword" in candidate.scores or candidate.scores.get("vector", -1.0) >= ABSTAIN_BELOW_COSINE
        for candidate in ranking.candidates
    )


def hits(ranking: Ranking, catalog: Catalog, limit: int) -> list[Hit]:
    """The best candidates, each shown by what matched: a turn by the fact of it that is nearest to the question."""
    best = [(candidate, *candidate.best()) for candidate in ranking.candidates[:limit]]
    nodes = catalog.nodes([node_id for _, node_id, _ in best])
    facts = catalog.facts_of(nodes) if ranking.tells_facts else {}
    shown = {node_id: _nearest(node, facts.get(node_id, ()), ranking.terms) for node_id, node in nodes.items()}
    evidence = evidence_of(shown.values(), catalog)
    places = catalog.chunks([chunk for _, node_id, chunk in best if chunk != node_id])
    found = []
    for candidate, node_id, chunk in best:
        if (node := shown.get(node_id)) is None:  # forgotten since it was ranked
            continue
        found.append(
            Hit(
                node_id=node.node_id,
                level=node.level,
                kind=node.kind,
                title=node.title,
                text=_excerpt(node, places.get(chunk) if node.node_id == node_id else None),
                score=round(candidate.score, 4),
                channel=node.channel,
                created_at=node.created_at,
                evidence=evidence[node.node_id],
                contradicts=ranking.ties.disputes(candidate.unit),
            )
        )
    return found


def _nearest(node: Node, facts: Sequence[Node], terms: AbstractSet[str]) -> Node:
    """The fact that shares most words with the question, the first of those that do; the turn itself if none does."""
    shared = [len(terms & words_of(fact.text)) for fact in facts]
    return facts[shared.index(max(shared))] if any(shared) else node


def _excerpt(node: Node, place: ChunkRow | None) -> str:
    if place is None or len(node.text) <= SHOWN_WHOLE_CHARS:
        return node.text
    return f"…{node.text[place.start : place.end].strip()}…"


def evidence_of(nodes: Iterable[Node], catalog: Catalog) -> dict[NodeId, tuple[Evidence, ...]]:
    """The turns behind each node: a turn is its own evidence."""
    listed = list(nodes)
    turns = {node.node_id: (Evidence(node.node_id, node.external_id),) for node in listed if node.kind is Kind.TURN}
    return turns | catalog.evidence([node.node_id for node in listed if node.kind is not Kind.TURN])


def envelope(ranking: Ranking, catalog: Catalog, budget_tokens: int) -> Envelope:
    """Pack the best candidates until the budget is full; what does not fit makes room for what still does.

    `tokens` is an upper estimate of the whole text's.
    """
    packed: list[tuple[str, int, list[Node], tuple[NodeId, ...]]] = []
    texts: set[str] = set()
    left = budget_tokens - SPECIAL_TOKENS
    for unit in _units(ranking, catalog):
        in_full = left > budget_tokens * (1 - FULL_SHARE)
        text, nodes = unit.told(ranking.terms, in_full)
        tokens = estimate_tokens(text) - SPECIAL_TOKENS + LINE_TOKENS
        if tokens <= left and text not in texts:
            texts.add(text)
            packed.append((text, tokens, nodes, unit.contradicts))
            left -= tokens
        if left < SMALLEST_SLOT_TOKENS:
            break
    evidence = evidence_of([node for _, _, nodes, _ in packed for node in nodes], catalog)
    slots = tuple(
        Slot(
            nodes[0].node_id,
            text,
            tuple(dict.fromkeys(e for node in nodes for e in evidence[node.node_id])),
            tokens,
            contradicts,
        )
        for text, tokens, nodes, contradicts in packed
    )
    return Envelope("\n".join(slot.text for slot in slots), budget_tokens - left if slots else 0, slots)


@dataclass(frozen=True, slots=True)
class _Unit:
    """What a candidate can be told by: its own text, or the facts drawn from it; and what others say to it."""

    node: Node
    facts: Sequence[Node]
    changed: bool = False
    contradicts: tuple[NodeId, ...] = ()

    @property
    def _mark(self) -> str:
        return DISPUTED if self.contradicts else CHANGED if self.changed else ""

    def told(self, terms: AbstractSet[str], in_full: bool) -> tuple[str, list[Node]]:
        """The words, and the nodes that they are from: a turn's facts where they are fewer tokens than the turn."""
        whole = _dated(self.node, condensed(self.node.text, terms), self.node.role, self._mark)
        if not self.facts:
            return whole, [self.node]
        told = list(self.facts) if in_full else _nearest_few(self.facts, terms)
        limit_tokens = ASSISTANT_TOKENS if self.node.role == "assistant" else SLOT_TOKENS
        said = condensed(" ".join(_sentence(fact.text) for fact in told), terms, limit_tokens)
        brief = _dated(told[0], said, self._mark)
        shorter = self.node.kind is not Kind.TURN or estimate_tokens(brief) < estimate_tokens(whole)
        return (brief, told) if shorter else (whole, [self.node])


def _units(ranking: Ranking, catalog: Catalog) -> Iterator[_Unit]:
    """Read the candidates, best first, no more of them than are asked for."""
    ties = ranking.ties
    for start in range(0, len(ranking.candidates), READ_AT_ONCE):
        some = ranking.candidates[start : start + READ_AT_ONCE]
        facts_of = catalog.facts_of([candidate.unit for candidate in some])
        nodes = catalog.nodes({node_id for candidate in some for node_id in (candidate.unit, candidate.best()[0])})
        for candidate in some:
            node = nodes.get(candidate.unit) or nodes.get(candidate.best()[0])
            if node is not None:  # it may have been forgotten since it was ranked
                facts = facts_of.get(candidate.unit, ())
                yield _Unit(node, facts, candidate.unit in ties.newer, ties.disputes(candidate.unit))


def _nearest_few(facts: Sequence[Node], terms: AbstractSet[str]) -> list[Node]:
    """The facts that share most words with the question, in their order, inside NEAREST_TOKENS; at least one."""
    order = sorted(range(len(facts)), key=lambda i: (-len(terms & words_of(facts[i].text)), i))
    kept: list[int] = []
    left = NEAREST_TOKENS
    for i in order:
        tokens = estimate_tokens(facts[i].text)
        if not kept or tokens <= left:
            kept.append(i)
            left -= tokens
    return [facts[i] for i in sorted(kept)]


def condensed(text: str, terms: AbstractSet[str], limit_tokens: int = SLOT_TOKENS) -> str:
    """The text, or of a long one the sentences that share most with the question, in their order.

    A sentence counts its distinct terms; ties go to the earlier one. At least one sentence stays, cut if it must be.
    """
    if estimate_tokens(text) <= limit_tokens:
        return " ".join(text.split())
    sentences = [" ".join(match.group().split()) for match in _SENTENCE.finditer(text)]
    sentences = [sentence for sentence in sentences if sentence]
    order = sorted(range(len(sentences)), key=lambda i: (-len(terms & words_of(sentences[i])), i))
    kept: list[int] = []
    left = limit_tokens
    for i in order:
        tokens = estimate_tokens(sentences[i]) + 1
        if tokens <= left:
            kept.append(i)
            left -= tokens
    if not kept:
        return _cut(sentences[order[0]], limit_tokens)
    return " ".join(sentences[i] for i in sorted(kept))


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "…", ":")) else f"{line}."


def _cut(sentence: str, limit_tokens: int) -> str:
    """The beginning of a sentence, whole words where there are any, at three characters a token."""
    begun = sentence[: 3 * limit_tokens]
    return (begun.rsplit(" ", 1)[0] if " " in begun else begun).rstrip(" ,;:") + "…"


def _dated(node: Node, text: str, *said_of_it: str) -> str:
    """The text after its day, in four tokens instead of ISO's seven, and after what is said of it: by whom, a mark."""
    at = node.created_at
    head = ([f"{at.day} {MONTHS[at.month - 1]} {at.year}"] if at else []) + [said for said in said_of_it if said]
    return f"{', '.join(head)}: {text}" if head else text


_HEAD = re.compile(rf"(?:\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}(?:, [^:\n]{{1,60}})?|(?:user|assistant)): ")


def without_head(text: str) -> str:
    """What a slot tells, without the day and the name in front of it."""
    return _HEAD.sub("", text, count=1) if _HEAD.match(text) else text


def trace(ranking: Ranking) -> dict[str, Any]:
    """How an answer came about: the time of each step, and each candidate's ranks and scores by arm."""
    return {
        "timings_ms": ranking.timings_ms,
        "candidates": [
            {
                "unit": candidate.unit,
                "nodes": list(candidate.matched()),
                "score": round(candidate.score, 4),
                "ranks": candidate.ranks,
                "scores": {arm: round(score, 4) for arm, score in candidate.scores.items()},
            }
            for candidate in ranking.candidates
        ],
    }

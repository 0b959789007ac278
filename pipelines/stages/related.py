"""Related memories across sessions, each pair with the evidence for it.

Scenarios are related by rare nouns in both and nearness in meaning; facts by having answered the same questions.
 Only what shares something rare is ever compared, so the work grows with the texts, not with their pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from math import log
from typing import Any

import numpy as np

from ...store.keep import okf
from ...store.keep.ledger.questions import Probe
from ...store.model import Action, Memory, NodeId
from ..language.nouns import nouns_of, stems_in
from ..pages.clusters import centre
from ..workspace.view import Vectors, View

MOST_SCENARIOS = 2000
MOST_SHARED_BY = 8
"""A word in more scenarios than this relates no two of them; eight make 28 pairs."""

LEAST_SHARED = 2
MOST_PAIRS = 20_000
NEAR = 0.35
"""Cosine of two centres; scenarios nearer than clusters.JOINS_AT would be one."""

MOST_RELATIONS = 5
MOST_NAMED = 4
FACTS_READ = 8
LEAST_QUESTIONS = 2
FACTS_OF_A_TURN = 3
LARGEST_ANSWER = 12


@dataclass(frozen=True, slots=True)
class Relation:
    """Two related memories, with the strength of the relation in (0, 1] and the reason in words."""

    one: NodeId
    other: NodeId
    weight: float
    because: str


def among(view: View, scenarios: Sequence[Memory], facts: Mapping[NodeId, Memory]) -> list[Relation]:
    """Relate the scenarios of one channel, the strongest pairs first; none has more than MOST_RELATIONS."""
    newest = sorted(scenarios, key=lambda s: (-s.created_at.timestamp() if s.created_at else 0.0, s.node_id))
    newest = newest[:MOST_SCENARIOS]
    nouns = nouns_of(fact.text for fact in facts.values())
    words = {
        scenario.node_id: {
            root for source in scenario.sources if source in facts for root in stems_in(facts[source].text, nouns)
        }
        for scenario in newest
    }
    spread = Counter(root for held in words.values() for root in held)
    rarity = {root: log((1 + len(newest)) / number) for root, number in spread.items()}
    shared = _shared(words, spread)
    pairs = sorted(shared, key=lambda pair: (-sum(rarity[root] for root in shared[pair]), pair))[:MOST_PAIRS]
    compared = {node_id for pair in pairs for node_id in pair}
    centres = _centres(view, [scenario for scenario in newest if scenario.node_id in compared], facts)
    found = []
    for one, other in pairs:
        if one not in centres or other not in centres:
            continue
        cosine = float(centres[one] @ centres[other])
        if cosine >= NEAR:
            named = sorted(shared[one, other], key=lambda root: (spread[root], root))[:MOST_NAMED]
            found.append(
                Relation(one, other, round(cosine, 2), "both mention " + ", ".join(nouns[root] for root in named))
            )
    return _bounded(sorted(found, key=lambda r: (-r.weight, r.one, r.other)))


def used_together(probes: Iterable[Probe], facts: Iterable[Memory]) -> list[Relation]:
    """Relate facts that answered the same questions at least LEAST_QUESTIONS times."""
    drawn: dict[NodeId, list[NodeId]] = defaultdict(list)
    for fact in facts:
        drawn[fact.node_id].append(fact.node_id)
        if fact.sources and len(drawn[fact.sources[0]]) < FACTS_OF_A_TURN:
            drawn[fact.sources[0]].append(fact.node_id)
    times: Counter[tuple[NodeId, NodeId]] = Counter()
    for probe in probes:
        answer = [drawn[turn] for turn in probe.gold[:LARGEST_ANSWER] if turn in drawn]
        pairs = {
            (min(one, other), max(one, other))
            for ones, others in combinations(answer, 2)
            for one in ones
            for other in others
            if one != other
        }
        times.update(pairs)
    found = [
        Relation(one, other, round(1 - 1 / (1 + number), 2), f"used together for {number} questions")
        for (one, other), number in times.items()
        if number >= LEAST_QUESTIONS
    ]
    return _bounded(sorted(found, key=lambda r: (-r.weight, r.one, r.other)))


def actions(view: View, relations: Iterable[Relation], memories: Iterable[Memory], stage: str) -> Iterator[Action]:
    """Yield the actions that write these relations, and no others of ours, into the files of some memories."""
    by_node: dict[NodeId, list[tuple[NodeId, Relation]]] = defaultdict(list)
    for relation in relations:
        by_node[relation.one].append((relation.other, relation))
        by_node[relation.other].append((relation.one, relation))
    paths = view.memory_paths()
    for memory in memories:
        data = view.read(memory.path)
        if data is None or (memory.node_id not in by_node and b"\nrelates:" not in data):
            continue
        document = okf.parse(data)
        wanted = [
            {"title": other, "resource": f"/{paths[other]}", "weight": relation.weight, "because": relation.because}
            for other, relation in by_node.get(memory.node_id, ())
            if other in paths
        ]
        tombstone_key = _tombstone_key(memory.node_id, wanted)
        listed = _listed(document.meta)
        theirs = [entry for entry in listed if "because" not in entry]
        if document.problem or _same(listed, [*theirs, *wanted]) or view.is_forbidden(tombstone_key):
            continue
        content = okf.edit(data, {"relates": [*theirs, *wanted] or None})
        reason = f"related to {len(wanted)} others" if wanted else "related to none any more"
        yield Action.replacing(
            memory.path, memory.node_id, data, content, stage=stage, reason=reason, fingerprint=tombstone_key
        )


def _shared(words: Mapping[NodeId, Set[str]], spread: Mapping[str, int]) -> dict[tuple[NodeId, NodeId], list[str]]:
    """Return the pairs that share rare words, with those words."""
    held_by: dict[str, list[NodeId]] = defaultdict(list)
    for node_id in sorted(words):
        for root in sorted(words[node_id]):
            if 2 <= spread[root] <= MOST_SHARED_BY:
                held_by[root].append(node_id)
    shared: dict[tuple[NodeId, NodeId], list[str]] = defaultdict(list)
    for root, holders in held_by.items():
        for pair in combinations(holders, 2):
            shared[pair].append(root)
    return {pair: roots for pair, roots in shared.items() if len(roots) >= LEAST_SHARED}


def _centres(view: View, scenarios: Sequence[Memory], facts: Mapping[NodeId, Memory]) -> dict[NodeId, Vectors]:
    """Return the centre of each scenario's first facts."""
    texts: list[str] = []
    rows: dict[NodeId, slice] = {}
    for scenario in scenarios:
        texts_of = [facts[source].text for source in scenario.sources if source in facts][:FACTS_READ]
        if texts_of:
            rows[scenario.node_id] = slice(len(texts), len(texts) + len(texts_of))
            texts += texts_of
    vectors = view.vectors(texts) if texts else np.empty((0, 0), np.float32)
    return {node_id: centre(vectors[part]) for node_id, part in rows.items()}


def _bounded(relations: Iterable[Relation]) -> list[Relation]:
    """Keep the strongest relations, at most MOST_RELATIONS a memory."""
    degree: Counter[NodeId] = Counter()
    kept = []
    for relation in relations:
        if max(degree[relation.one], degree[relation.other]) < MOST_RELATIONS:
            degree.update((relation.one, relation.other))
            kept.append(relation)
    return kept


def _listed(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = meta.get("relates")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def _same(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if two lists name the same memories, with weights that differ by at most a tenth."""
    weights = [{str(e.get("title")): e.get("weight") or 0.0 for e in entries} for entries in (one, other)]
    return weights[0].keys() == weights[1].keys() and all(
        abs(float(weights[0][name]) - float(weights[1][name])) <= 0.1 for name in weights[0]
    )


def _tombstone_key(node_id: NodeId, wanted: Sequence[Mapping[str, Any]]) -> str:
    names = "\0".join(sorted(str(entry["title"]) for entry in wanted))
    return "relates:" + sha256(f"{node_id}\0{names}".encode()).hexdigest()[:32]

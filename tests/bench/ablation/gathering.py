"""What the arms find for every question, read once: each pipeline then ranks the same candidates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from dreamd.daemon.clock import utc_now
from dreamd.store import MemoryStore
from dreamd.store.model import Kind, NodeId
from dreamd.store.search.gathering import Ranking
from dreamd.store.search.question import Question
from dreamd.store.search.rerankers import StageReranker, run
from dreamd.store.search.search import Search
from dreamd.store.settings import SearchSettings, Stages

from .. import datasets
from ..datasets import Dataset
from ..ranking.listwise import Example
from .variants import ONE_EACH, variants

HITS = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the first turns by each pipeline, as its set names them, best first.

    `candidates` are all that the default ranks, in its order; `example` has what a learned default weighs of each, in
    the same order; None where the default is not learned.
    """

    question: datasets.Question
    candidates: tuple[str, ...]
    found: Mapping[str, tuple[str, ...]]
    example: Example | None


def ask(store: MemoryStore, data: Dataset) -> Iterator[Asked]:
    """Ask every question once of the arms, and once as the store's own settings rank.

    Ages count from the last turn of a question's channel.
    """
    catalog, backend = store.core.catalog, store.core.index.backend
    reranker = StageReranker(ONE_EACH, catalog, backend, utc_now)
    ends = {channel: _end(store, channel) for channel in {question.channel for question in data.questions}}
    arms = Search(catalog, backend, store.core.embedder, SearchSettings(stages=Stages()), utc_now)
    try:
        for question in data.questions:
            asked = Question(text=question.text, limit=HITS, channel=question.channel)
            gathered = arms.rank(asked).candidates
            pool = reranker.pool(gathered, asked.scope, ends[question.channel])
            ranking = store.operations.search.rank(asked)
            names = _names(store, {*pool.units, *(one.unit for one in ranking.candidates)})
            found = {
                variant.name: tuple(names[unit] for unit, _ in run(pool, variant.stages, HITS)[:HITS])
                for variant in variants()
            }
            candidates = tuple(names[one.unit] for one in ranking.candidates)
            yield Asked(question, candidates, found, _example(store, data, question, ranking, candidates))
    finally:
        arms.close()


def _example(
    store: MemoryStore, data: Dataset, question: datasets.Question, ranking: Ranking, names: tuple[str, ...]
) -> Example | None:
    if store.core.settings.search.scorer != "learned" or not names:
        return None
    features = np.stack(list(store.operations.search.features(ranking).values()), 1)
    prior = sum(store.operations.search.priors(ranking).values(), np.zeros(len(names)))
    gold = np.array([name in question.gold for name in names])
    group = f"{data.name} {question.channel}"
    return Example(data.name, group, features, gold, len(question.gold), prior=prior)


def _end(store: MemoryStore, channel: str) -> datetime:
    last = store.core.catalog.listing(channel, kind=Kind.TURN, limit=1)
    at = last[0].created_at if last else None
    return at or utc_now()


def _names(store: MemoryStore, units: Collection[NodeId]) -> dict[NodeId, str]:
    """Return the names that the set gives to turns; of anything else its own."""
    nodes = store.core.catalog.nodes(units)
    return {unit: nodes[unit].external_id or unit if unit in nodes else unit for unit in units}

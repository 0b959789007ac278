"""Examples for the scorer: each question of a set with its candidates, as the store's own search finds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from dreamd.pipelines.learning.listwise import Example
from dreamd.store.find.search.search import Question as Asked
from dreamd.store.find.search.search import Ranking

from ..datasets import Question, beam, locomo
from ..in_process import DaemonInProcess
from ..quality.suite import imported
from ..readers import questions as readers
from ..table import say

Answerable = Callable[[DaemonInProcess], Sequence[Question]]


@dataclass(slots=True)
class Gathered:
    """The questions of one set, each with its candidates in the order in which they were ranked."""

    name: str
    features: tuple[str, ...] = ()
    examples: list[Example] = field(default_factory=list)


def gathered(name: str, folder: Path, data: Path) -> Gathered:
    """Import a set into a store of its own and ask its questions; vectors are kept for the next run."""
    found = Gathered(name)
    with DaemonInProcess(folder) as daemon:
        questions = SETS[name](daemon, data, folder)
        daemon.wait_until_embedded()
        say(f"{name}: {len(questions)} questions")
        for question in questions:
            _gather(daemon, question, found)
    return found


def _gather(daemon: DaemonInProcess, question: Question, found: Gathered) -> None:
    parts = daemon.store.parts
    ranking: Ranking = parts.search.rank(Asked(text=question.text, channel=question.channel))
    if not ranking.candidates:
        return
    features = parts.search.features(ranking)
    nodes = parts.catalog.nodes([one.unit for one in ranking.candidates])
    gold = np.array([one.unit in nodes and nodes[one.unit].external_id in question.gold for one in ranking.candidates])
    found.features = tuple(features)
    group, rows = f"{found.name} {question.channel}", np.stack(list(features.values()), axis=1)
    prior = sum(parts.search.priors(ranking).values(), np.zeros(len(rows)))
    example = Example(found.name, group, rows, gold, len(question.gold), prior=prior)
    found.examples.append(example)


def _locomo(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    dataset = locomo(data / "locomo" / "dev.json", folder)
    imported(daemon, dataset)
    return dataset.questions


def _beam(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    dataset = beam(data / "beam-100k")
    imported(daemon, dataset)
    return dataset.questions


def _readers(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    readers.import_sessions(daemon, data / "readers")
    return list(_answerable(json.loads((data / "readers" / "questions.json").read_text()), daemon))


def _answerable(asked: Sequence[dict[str, object]], daemon: DaemonInProcess) -> Iterator[Question]:
    channels = daemon.call("status")["channels"]
    for one in asked:
        if one["evidence"] and one["kind"] not in readers.UNASKED_FOR:
            channel = readers.channel_of(str(one["project"]), channels)
            evidence = one["evidence"]
            assert isinstance(evidence, list)
            yield Question(str(one["question"]), frozenset(evidence), str(one["kind"]), "", channel)


SETS: dict[str, Callable[[DaemonInProcess, Path, Path], Sequence[Question]]] = {
    "LoCoMo": _locomo,
    "BEAM-100K": _beam,
    "readers": _readers,
}

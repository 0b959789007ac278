"""Examples for the scorer: each question of a set with its candidates, as the store's own search finds them.

Learned from are the people that the shipped encoders have not seen (fold 0 of `tests.train.examples`), the readers'
benchmarks and the real prompts; LoCoMo and BEAM are measured on alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
from dreamd.store.filters import Condition
from dreamd.store.index.projection import Node
from dreamd.store.model import Kind
from dreamd.store.roles import Role
from dreamd.store.search.gathering import Ranking
from dreamd.store.search.question import Question as Asked

from ...train.examples import People, fold_of_people
from ..datasets import Question, beam, locomo
from ..in_process import DaemonInProcess
from ..people import scorer_of, unpacked
from ..quality.suite import imported
from ..readers import questions as readers
from ..table import say
from .listwise import Example

Answerable = Callable[[DaemonInProcess, Path, Path], Sequence[Question]]

ENTIRE, PROMPT, HELPS = "entire", "a real prompt", 2
QUOTED = "quotes"
QUOTES, QUOTED_WORDS, MOST_TURNS, SEED = 150, 4, 1_000, 24
SPEAKERS = frozenset((Role.USER, Role.ASSISTANT))
MEASURED_ALONE = frozenset({"LoCoMo", "BEAM-100K"})
"""Sets of which nothing that ships is learned: their licences do not allow it, or there is none."""


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
        questions = sets()[name](daemon, data, folder)
        daemon.wait_until_embedded()
        say(f"{name}: {len(questions)} questions")
        for question in questions:
            if question.gold:
                _gather(daemon, question, found)
    return found


def _gather(daemon: DaemonInProcess, question: Question, found: Gathered) -> None:
    search = daemon.store.operations.search
    ranking: Ranking = search.rank(Asked(text=question.text, channel=question.channel, where=before_it(question)))
    if not ranking.candidates:
        return
    features = search.features(ranking)
    nodes = daemon.store.core.catalog.nodes([one.unit for one in ranking.candidates])
    gold = np.array([one.unit in nodes and nodes[one.unit].external_id in question.gold for one in ranking.candidates])
    found.features = tuple(features)
    group, rows = f"{found.name} {question.channel}", np.stack(list(features.values()), axis=1)
    prior = sum(search.priors(ranking).values(), np.zeros(len(rows)))
    example = Example(found.name, group, rows, gold, len(question.gold), prior=prior)
    found.examples.append(example)


def before_it(question: Question) -> tuple[Condition, ...]:
    """Return the condition that only what was said before a real prompt's day may answer it."""
    if question.kind != PROMPT:
        return ()
    return (Condition("time", "lt", (int(datetime.fromisoformat(question.answer).timestamp()),)),)


def _locomo(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    dataset = locomo(data / "locomo" / "dev.json", folder)
    imported(daemon, dataset)
    return dataset.questions


def _beam(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    dataset = beam(data / "beam-100k")
    imported(daemon, dataset)
    return dataset.questions


def _readers(name: str, daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    readers.import_sessions(daemon, data / name)
    return list(_answerable(json.loads((data / name / "questions.json").read_text()), daemon))


def _answerable(asked: Sequence[dict[str, object]], daemon: DaemonInProcess) -> Iterator[Question]:
    channels = daemon.call("status")["channels"]
    for one in asked:
        if one["evidence"] and one["kind"] not in readers.UNASKED_FOR:
            channel = readers.channel_of(str(one["project"]), channels)
            evidence = one["evidence"]
            assert isinstance(evidence, list)
            yield Question(str(one["question"]), frozenset(evidence), str(one["kind"]), "", channel)


def _quotes(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    """Ask for turns by words of their own: invented people ask in others, and exact ones must still count."""
    readers.import_sessions(daemon, data / "readers")
    rng = random.Random(SEED)
    turns = [
        node
        for channel in daemon.call("status")["channels"]
        for node in daemon.store.core.catalog.listing(channel, kind=Kind.TURN, limit=MOST_TURNS)
        if node.role in SPEAKERS and len(node.text.split()) >= QUOTED_WORDS
    ]
    return [_quoted(node, turns, rng) for node in rng.sample(turns, min(QUOTES, len(turns)))]


def _quoted(node: Node, turns: Sequence[Node], rng: random.Random) -> Question:
    words = node.text.split()
    start = rng.randrange(len(words) - QUOTED_WORDS + 1)
    quote = " ".join(words[start : start + QUOTED_WORDS])
    gold = {one.external_id or "" for one in turns if quote in " ".join(one.text.split())}
    return Question(quote, frozenset(gold), "quote", "", node.channel)


def _entire(daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    sessions = unpacked(data / ENTIRE / "sessions", folder / "sessions")
    daemon.call("import", paths=[str(sessions)], format="claude-code")
    return [
        Question(
            one["prompt"],
            frozenset(candidate["uuid"] for candidate in one["candidates"] if candidate["label"] == HELPS),
            PROMPT,
            one["at"] + "T00:00:00+00:00",
            "*",
        )
        for one in json.loads((data / ENTIRE / "labels" / "prompts.json").read_text())
    ]


def _life(name: str, daemon: DaemonInProcess, data: Path, folder: Path) -> Sequence[Question]:
    life, scorer = People(data).lives[name], scorer_of(data / "lives")
    sessions = folder / "sessions"
    scorer.claude(life, sessions)
    daemon.call("import", paths=[str(sessions)], format="claude-code")
    channels = {channel.rpartition("-")[0]: channel for channel in daemon.call("status")["channels"]}
    return [
        Question(
            asked.text,
            frozenset(scorer.turn_uuid(life, turn) for turn in asked.turns),
            asked.form,
            "",
            channels[asked.project.lower()],
        )
        for asked in People(data).asked(name)
    ]


def sets() -> Mapping[str, Answerable]:
    """Return the sets by their names, those that are learned from first."""
    lives = (name for name, fold in fold_of_people(list(People().lives)).items() if fold == 0)
    return {
        **{name: partial(_life, name) for name in lives},
        **{name: partial(_readers, name) for name in ("readers", "readers-2")},
        QUOTED: _quotes,
        ENTIRE: _entire,
        "LoCoMo": _locomo,
        "BEAM-100K": _beam,
    }

"""The ranking fitted to a person's own questions: proposed, tried by the gate, applied, undone; and not for a liar."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from dreamd.pipelines.changeset_file import read_changeset
from dreamd.pipelines.dream import dream
from dreamd.pipelines.gate import gate
from dreamd.pipelines.protocol import Done
from dreamd.pipelines.registry import Stage
from dreamd.pipelines.settings import GateSettings, PipelineSettings
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.questions import add_gold, record_question
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Changeset, FittedRanking, NewTurn, SessionHead
from dreamd.store.search.question import Question
from dreamd.store.search.scorer import SCORER
from dreamd.store.search.weights import WEIGHTS

from tests.pipelines.fakes import NOW, SETTINGS, request_of

PLACES = ("harbour", "quarry", "orchard", "lighthouse", "bakery", "viaduct", "glacier", "meadow")
THINGS = ("parser", "ledger", "turbine", "scanner", "router", "compass", "boiler", "printer")
RANKING_ALONE = PipelineSettings(
    stages={stage: stage is Stage.RANKING for stage in Stage}, gate=GateSettings(probes=40)
)
DAYS = 8


def sessions() -> list[tuple[SessionHead, list[NewTurn]]]:
    """Return sessions in which what a tool put out is what one later asks for, among talk of the same."""
    made = []
    for number, (place, thing) in enumerate(product(PLACES, THINGS)):
        at = NOW - timedelta(days=20 - number % DAYS, minutes=number)
        said = (
            ("user", f"Please check the {thing} of the {place} once more before we go on with it."),
            ("tool", f"check {place} {thing}: code {number * 37 + 1000}, checksum failed at block {number + 3}"),
            ("assistant", f"I checked the {thing} of the {place}; that looks as we thought it would."),
            ("user", f"Good, then the {thing} can wait."),
        )
        turns = [NewTurn(role, text, at + timedelta(seconds=n), f"m{n}") for n, (role, text) in enumerate(said)]
        made.append((SessionHead(f"s{number}", "shop", started_at=at), turns))
    return made


def question(number: int) -> str:
    place, thing = list(product(PLACES, THINGS))[number]
    return f"Which check of the {place} {thing} failed?"


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    files = (tmp_path / name for name in ("vault", "ledger.db", "index.db", "vectors.db", "runs"))
    return StorePaths(*files)


@pytest.fixture
def store(paths: StorePaths) -> Iterator[MemoryStore]:
    opened = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)
    for head, turns in sessions():
        opened.observe(head, turns).result()
    opened.rebuild()
    yield opened
    opened.close()


def ask(store: MemoryStore, gold: Sequence[str], count: int = 56, start: datetime = NOW - timedelta(days=9)) -> None:
    """Ask a question of each session on one of DAYS days, and say what was of use."""
    for number in range(count):
        at = start + timedelta(days=number % DAYS)
        text = question(number)
        store.parts.writer.write(
            record_question(text, "shop", [gold[number]], True, at), add_gold(text, "shop", [gold[number]])
        ).result()


def tool_turns() -> list[str]:
    return [f"s{number}#2" for number in range(len(PLACES) * len(THINGS))]


def place_of(store: MemoryStore, number: int) -> int:
    """Return the place of what the tool put out among the candidates of a question."""
    ranking = store.parts.search.rank(Question(text=question(number), channel="shop"))
    return [one.unit for one in ranking.candidates].index(f"s{number}#2")


def dreamt(store: MemoryStore, paths: StorePaths, run_id: str, kind: str = "weekly") -> tuple[Done, Changeset]:
    request = request_of(paths, run_id, pipelines=RANKING_ALONE, kind=kind)
    done = dream(request, lambda progress: None)
    found = read_changeset(done.changeset_path) if done.changeset_path else Changeset(run_id=run_id)
    return done, found


def test_what_a_person_uses_moves_the_weights_and_undo_brings_them_back(store: MemoryStore, paths: StorePaths) -> None:
    ask(store, tool_turns())
    held_out = range(56, 64)
    before = [place_of(store, number) for number in held_out]
    done, changeset = dreamt(store, paths, "r1")
    fitted = changeset.ranking
    assert fitted is not None, done.report
    assert fitted.weights["tool, found"] > WEIGHTS["tool, found"]
    assert fitted.weights["tool"] > WEIGHTS["tool"]
    assert done.report["did_nothing"] is False
    assert f"Ranking was fitted to {fitted.questions} of your questions" in done.digest
    applied = store.apply(changeset, kind="weekly", summary=done.report)
    assert applied.applied == 1
    assert store.status()["ranking_fitted_to"] == fitted.questions < 56
    assert sum(place_of(store, number) for number in held_out) < sum(before)
    undone = store.undo("r1")
    assert undone.ranking
    assert store.run("r1").state == "undone"
    assert store.status()["ranking_fitted_to"] == 0
    assert [place_of(store, number) for number in held_out] == before
    assert dreamt(store, paths, "r2")[1].ranking is None  # what was undone is not proposed of the same questions


def test_fitted_weights_outlive_a_restart_and_a_rebuild_and_the_earlier_ones_come_back(
    store: MemoryStore, paths: StorePaths
) -> None:
    ask(store, tool_turns())
    _, changeset = dreamt(store, paths, "r1")
    assert changeset.ranking is not None
    store.apply(changeset, kind="weekly", started_at=NOW)
    later = dreamt(store, paths, "r2")[1]  # nothing is gained over what is in use already
    assert later.ranking is None
    other = FittedRanking(scorer=changeset.ranking.scorer, weights={**WEIGHTS, "tool": 1.0}, questions=99)
    store.apply(Changeset(run_id="r3", ranking=other), kind="weekly", started_at=NOW + timedelta(days=7))
    store.rebuild()
    store.close()
    again = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)
    try:
        assert again.status()["ranking_fitted_to"] == 99
        assert again.parts.search.weights["tool"] == 1.0
        again.undo("r3")
        assert again.parts.search.weights == changeset.ranking.weights
    finally:
        again.close()


@pytest.mark.parametrize(
    ("scorer", "weights"),
    [("of another version", dict(WEIGHTS)), ("", {**WEIGHTS, "tool": float("nan")}), ("", {"tool": 1.0})],
)
def test_weights_of_another_scorer_or_that_are_none_are_not_used(
    store: MemoryStore, scorer: str, weights: dict[str, float]
) -> None:
    ranking = FittedRanking(scorer=scorer or SCORER, weights=weights, questions=50)
    store.apply(Changeset(run_id="r1", ranking=ranking), kind="weekly")
    assert store.parts.search.weights == WEIGHTS
    assert store.status()["ranking_fitted_to"] == 0


def test_a_liars_questions_change_nothing(store: MemoryStore, paths: StorePaths) -> None:
    nodes = [f"s{number}#{turn}" for number in range(64) for turn in (1, 2, 3, 4)]
    ask(store, random.Random(5).sample(nodes, 56))
    assert dreamt(store, paths, "r1")[1].ranking is None


def test_few_questions_one_day_of_them_and_a_daily_dream_change_nothing(store: MemoryStore, paths: StorePaths) -> None:
    ask(store, tool_turns(), count=30)
    assert dreamt(store, paths, "few")[1].ranking is None
    ask(store, tool_turns())
    assert dreamt(store, paths, "daily", "daily")[1].ranking is None


def test_what_the_gate_finds_worse_is_dropped(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(store, tool_turns())
    monkeypatch.setattr(gate, "worse", lambda before, after: ["recall would drop by 0.500"])
    done, changeset = dreamt(store, paths, "r1")
    assert changeset.ranking is None
    assert done.report["stages"]["ranking"] == {"refused": 1}
    assert done.report["gate"]["dropped"] == (
        {"stage": "ranking", "reason": "recall would drop by 0.500", "actions": 1, "of": 1},
    )
    assert "Ranking was fitted" not in done.digest


def test_it_is_off_unless_it_is_switched_on() -> None:
    assert not PipelineSettings().stages[Stage.RANKING]

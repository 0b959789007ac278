"""Probes: generated from an index always alike, asked of it, and compared before and after a stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from dreamd.pipelines.gate.details import details_of, stems_in
from dreamd.pipelines.gate.gate import probes_of, worse
from dreamd.pipelines.gate.probes import (
    FEWEST_WORDS,
    HARD_WORDS,
    ProbeGenerator,
    Score,
    answered_now,
    ask,
    replaced_by,
    spread,
)
from dreamd.pipelines.gate.shadow_index import ShadowIndex
from dreamd.pipelines.workspace.proposals import ReplacedTexts
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.questions import Gap, Probe
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.settings import StorePaths
from dreamd.store.text.words import query_terms, stems_of

from tests.pipelines.fakes import NOW, SETTINGS

NOTES = [
    f"The {thing} of the {place} is kept by {who} in {month}"
    for thing, who in (("copper kettle", "Ines"), ("spare battery", "Priya"), ("blue ladder", "Marek"))
    for place, month in (("workshop", "March"), ("harbour office", "April"), ("old mill", "August"))
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    paths = StorePaths(
        tmp_path / "vault", tmp_path / "ledger.db", tmp_path / "index.db", tmp_path / "vectors.db", tmp_path / "runs"
    )
    store = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)
    for note in NOTES:
        store.remember(note, channel="shop").result()
    store.settle(60)
    yield store
    store.close()


def generator_of(store: MemoryStore) -> ProbeGenerator:
    return ProbeGenerator(cast(ShadowIndex, SimpleNamespace(catalog=store.catalog)))


def test_synthetic_probes_are_the_same_every_time_and_find_their_memory(store: MemoryStore) -> None:
    cases = generator_of(store).synthetic(5)
    assert cases == generator_of(store).synthetic(5)
    assert len(cases) == 5
    for case in cases:
        assert case.synthetic
        assert len(case.words) >= FEWEST_WORDS
        score = ask(store, case)
        assert (score.recall, score.coverage, score.details) == (1.0, 1.0, case.details)
        assert set(case.probe.gold) <= score.shown
        assert len(case.details) == 2  # who and when


def test_a_question_of_a_person_is_kept_for_its_living_gold_alone(store: MemoryStore) -> None:
    node_id = store.list(channel="shop")[0].node_id
    generator = generator_of(store)
    assert generator.real([Probe("Who keeps it?", "shop", ("gone",))]) == []
    (case,) = generator.real([Probe("Who keeps it?", "shop", ("gone", node_id))])
    assert (case.probe.gold, case.synthetic) == ((node_id,), False)


def test_at_least_a_quarter_of_the_probes_are_synthetic(store: MemoryStore) -> None:
    node_id = store.list(channel="shop")[0].node_id
    past = [Probe(f"Question {n}?", "shop", (node_id,)) for n in range(20)]
    assert [case.synthetic for case in probes_of(generator_of(store), past, 8)] == [False] * 6 + [True] * 2


def test_what_a_stage_touches_is_asked_for_by_common_words_and_expected_by_its_details(store: MemoryStore) -> None:
    node = store.catalog.nodes([store.list(channel="shop")[0].node_id]).popitem()[1]
    cases = generator_of(store).harder(node)
    assert [len(case.probe.text.split()) for case in cases] == list(HARD_WORDS)
    assert all(case.details == details_of(node.text) for case in cases)
    assert ask(store, cases[1]).details == details_of(node.text)


def test_of_what_is_superseded_only_the_details_that_both_have_are_expected(store: MemoryStore) -> None:
    node = store.catalog.nodes([store.list(channel="shop")[0].node_id]).popitem()[1]
    kept = " ".join(node.text.split()[:-1])  # another month
    newer = f"{kept} December"
    for case in generator_of(store).harder(node, ReplacedTexts(node.text, newer)):
        assert case.details == details_of(kept)
        assert case.words == stems_in(newer) & stems_in(node.text) & case.words
    (asked,) = generator_of(store).real([Probe("Who keeps it?", "shop", (node.node_id,))])
    assert asked.after(ReplacedTexts("Another says it in May 2020", newer)).details == asked.details


def test_what_is_superseded_is_asked_for_by_words_of_its_successor(store: MemoryStore) -> None:
    node = store.catalog.nodes([store.list(channel="shop")[0].node_id]).popitem()[1]
    newer = " ".join(node.text.split()[::2])
    asked = generator_of(store).harder(node, ReplacedTexts(node.text, newer))
    assert asked
    assert all(stems_of(query_terms(case.probe.text)) <= stems_in(newer) for case in asked)
    assert generator_of(store).harder(node, ReplacedTexts(node.text, "Gone for good")) == []


def test_a_memory_that_supersedes_none_replaces_none(store: MemoryStore) -> None:
    assert replaced_by(store, store.list(channel="shop")[0].node_id) == set()


def test_ids_are_spread_alike_in_whatever_order_they_come() -> None:
    ids = [f"node-{n}" for n in range(50)]
    assert spread(ids, 7) == spread(ids[::-1], 7)
    assert len(spread(ids, 7)) == 7


INES, NUMBER, REASON = frozenset(["ine"]), frozenset(["312"]), frozenset(["yard", "flood", "spring"])
GOOD = Score(recall=1.0, coverage=0.9, details=frozenset([INES, NUMBER, REASON]))
LESS = "{} of 100 answers would leave out a name, a number, a reason or most words, and {} would tell more"


@pytest.mark.parametrize(
    ("after", "reasons"),
    [
        ([GOOD] * 100, []),
        ([replace(GOOD, recall=0.6), *[GOOD] * 99], []),
        (
            [replace(GOOD, recall=0.0)] * 2 + [GOOD] * 98,
            ["2 of 100 questions would find less, and 0 more", "recall would drop by 0.020"],
        ),
        ([replace(GOOD, coverage=0.6)] * 100, []),
        ([replace(GOOD, coverage=0.4)] * 5 + [GOOD] * 95, [LESS.format(5, 0)]),
        ([replace(GOOD, details=frozenset([INES, NUMBER]))] * 2 + [GOOD] * 98, [LESS.format(2, 0)]),
        ([replace(GOOD, details=frozenset([INES, REASON]))] + [GOOD] * 99, []),
        ([replace(GOOD, details=GOOD.details | {frozenset(["new"])})] * 100, []),
    ],
)
def test_answers_may_find_and_tell_little_less_only(after: list[Score], reasons: list[str]) -> None:
    assert worse([GOOD] * 100, after) == reasons
    assert worse([], []) == []


def test_a_gap_is_filled_by_a_persons_statement_that_was_not_shown_then(store: MemoryStore) -> None:
    question = "Where is the orange lifebuoy of the ferry?"
    gap = Gap(question, "shop", 2, NOW, (), 7)
    assert answered_now(store, [gap]) == {}
    turns = [NewTurn("user", question, NOW, "q1"), NewTurn("assistant", f"I do not know: {question}", NOW, "q2")]
    store.observe(SessionHead("s1", "shop"), turns).result()
    store.settle(60)
    assert answered_now(store, [gap]) == {}
    node_id = store.remember("The orange lifebuoy of the ferry hangs on pier 4", channel="shop").result()
    store.settle(60)
    assert {number: node.node_id for number, node in answered_now(store, [gap]).items()} == {7: node_id}
    assert answered_now(store, [replace(gap, shown=(node_id,))]) == {}

"""Presets: what the settings make of them, and that a search ranks by them."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.filters import Condition
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.search.gathering import Candidate, fuse_by_reciprocal_rank, in_order, scores_by
from dreamd.store.search.question import Question
from dreamd.store.search.rerankers import StageReranker, run, stages_of
from dreamd.store.search.search import Search
from dreamd.store.settings import (
    PRESETS,
    Cascade,
    CosineRerank,
    Fusion,
    HardMinimum,
    Importance,
    LengthNormalisation,
    Mmr,
    NearDuplicates,
    PresetName,
    RecencyBoost,
    SearchSettings,
    SessionCap,
    StageName,
    Stages,
    StoreSettings,
    Tense,
    TimeDecay,
)
from pydantic import ValidationError

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NAMES: tuple[PresetName, ...] = get_args(PresetName)


@pytest.fixture
def store(paths: StorePaths) -> Iterator[MemoryStore]:
    """Give a store of three sessions, weeks apart, whose turns share words."""
    with ExitStack() as stack:
        store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
        stack.callback(store.close)
        for number, days in enumerate((90, 20, 1)):
            at = NOW - timedelta(days=days)
            turns = [
                NewTurn(
                    ("user", "assistant")[n % 2],
                    f"The kayak of week {number} has hull {n} and " + "paddle " * n * number,
                    at + timedelta(minutes=n),
                    f"{number}-{n}",
                )
                for n in range(6)
            ]
            store.observe(SessionHead(f"s{number}", "shop", started_at=at), turns).result()
        store.rebuild()  # embeds them
        yield store


def searching(store: MemoryStore, settings: SearchSettings) -> Search:
    core = store.core
    return Search(core.catalog, core.index.backend, core.embedder, settings, lambda: NOW)


def test_without_a_preset_no_stage_ranks() -> None:
    assert not SearchSettings().is_reranked
    assert not SearchSettings(without=("mmr",)).is_reranked


@pytest.mark.parametrize("name", NAMES)
def test_each_stage_of_a_preset_can_be_switched_off(name: PresetName) -> None:
    stages = stages_of(SearchSettings(preset=name))
    assert stages == PRESETS[name]
    every: tuple[StageName, ...] = get_args(StageName)
    for stage in every:
        left = stages_of(SearchSettings(preset=name, without=(stage,)))
        assert left.names() == tuple(other for other in stages.names() if other != stage)


def test_own_stages_take_the_place_of_the_presets_also_when_settings_went_through_json() -> None:
    given = SearchSettings.model_validate(
        {"preset": "aleph", "stages": {"time_decay": {"half_life_days": 7}, "mmr": {}}, "without": ["length"]}
    )
    stages = stages_of(SearchSettings.model_validate_json(given.model_dump_json()))
    assert stages == stages_of(given)
    assert stages.time_decay == TimeDecay(half_life_days=7)
    assert stages.mmr == Mmr()
    assert stages.length is None
    assert stages.fusion == PRESETS["aleph"].fusion


@pytest.mark.parametrize(
    "wrong", [{"preset": "unknown"}, {"without": ["unknown"]}, {"stages": {"time_decay": {"half_life_days": 0}}}]
)
def test_what_is_no_preset_stage_or_value_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SearchSettings.model_validate(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_a_search_with_a_preset_ranks_as_the_stages_do_over_what_the_arms_found(
    store: MemoryStore, name: PresetName
) -> None:
    question = Question(text="Which hull has the kayak of week 1, and how many a paddle?", channel="shop", limit=3)
    gathered = searching(store, SearchSettings(stages=Stages())).rank(question)
    stages = PRESETS[name].without("minimum")  # made for the cosines of a real model
    reranker = StageReranker(stages, store.core.catalog, store.core.index.backend, lambda: NOW)
    pool = reranker.pool(gathered.candidates, question.scope, NOW)
    expected = run(pool, stages, question.limit)
    ranked = searching(store, SearchSettings(preset=name, without=("minimum",))).rank(question)
    assert [(one.unit, one.score) for one in ranked.candidates] == expected
    assert expected


def test_recall_answers_by_a_preset_of_the_settings(paths: StorePaths) -> None:
    search = SearchSettings(stages=Stages(minimum=HardMinimum(score=2.0)))
    store = MemoryStore.open(paths, StoreSettings(search=search), StubEmbedder(), lambda: NOW)
    with ExitStack() as stack:
        stack.callback(store.close)
        store.remember("The kayak is red.", channel="shop").result()
        store.settle(60)
        assert store.recall("kayak", channel="shop").hits == []


def test_a_cascade_brings_what_took_the_place_of_a_fact_that_was_found(store: MemoryStore) -> None:
    folder = store.paths.vault / "facts"
    folder.mkdir(exist_ok=True)
    head = "---\ntype: Fact\ntitle: {0}\nnode_id: {0}\nlevel: L1\nkind: fact\nchannel: boats\n{1}---\n\n{2}\n"
    (folder / "old.md").write_text(head.format("old", "", "The harbour fee is nine crowns."))
    (folder / "new.md").write_text(head.format("new", "supersedes: [old]\n", "It went up to twelve."))
    store.reconcile()
    store.rebuild()  # embeds them
    question = Question(text="harbour fee", channel="boats")
    cut = Fusion(vector_weight=0.0)
    plain = searching(store, SearchSettings(stages=Stages(fusion=cut))).rank(question)
    assert [one.unit for one in plain.candidates] == ["old"]
    linked = Stages(fusion=cut, cascade=Cascade(least_cosine=-1.0))
    found = searching(store, SearchSettings(stages=linked)).rank(question).candidates
    assert [one.unit for one in found] == ["old", "new"]
    assert found[1].score == pytest.approx(0.9 * 0.7 * found[0].score)
    narrowed = replace(question, where=(Condition("node", "in", ("old",)),))
    assert [one.unit for one in searching(store, SearchSettings(stages=linked)).rank(narrowed).candidates] == ["old"]


def test_facts_of_one_tag_and_of_one_page_are_linked(store: MemoryStore) -> None:
    folder = store.paths.vault / "facts"
    folder.mkdir(exist_ok=True)
    head = (
        "---\ntype: Fact\ntitle: {0}\nnode_id: {0}\nlevel: L1\nkind: fact\nchannel: boats\n{1}---\n\nThe {0} is old.\n"
    )
    for name, more in (("mast", "tags: [rig]\n"), ("boom", "tags: [rig]\n"), ("keel", ""), ("oar", "")):
        (folder / f"{name}.md").write_text(head.format(name, more))
    pages = store.paths.vault / "scenarios"
    pages.mkdir(exist_ok=True)
    sources = "".join(
        f'  - {{ id: m{n}, resource: /facts/{one}.md, title: "{one}" }}\n' for n, one in enumerate(("boom", "keel"))
    )
    page = "---\ntype: Scenario\ntitle: refit\nnode_id: refit\nlevel: L2\nkind: episode\nchannel: boats\n"
    (pages / "refit.md").write_text(f"{page}sources:\n{sources}---\n\nIt was.\n")
    store.reconcile()
    reranker = StageReranker(PRESETS["jcode"], store.core.catalog, store.core.index.backend, lambda: NOW)
    found, scope = [Candidate("mast"), Candidate("boom")], Question(text="boats", channel="boats").scope
    pool = reranker.pool(found, scope, NOW)
    assert {(frozenset({pool.units[one], pool.units[other]}), kind) for one, other, kind in pool.edges} == {
        (frozenset({"boom", "keel"}), "page"),
        (frozenset({"boom", "mast"}), "tag"),
    }
    assert pool.units == ("boom", "keel", "mast")
    filtered = reranker.pool(found, scope, NOW, brings=False)
    assert filtered.units == ("boom", "mast")
    assert [kind for _, _, kind in filtered.edges] == ["tag"]


# ---- what the page says of them

PAGE = (Path(__file__).parents[3] / "docs" / "presets.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d*\.?\d+")
DEFAULTS: dict[str, list[float]] = {
    "fusion": [],
    "cosine_rerank": [CosineRerank().blend],
    "recency": [RecencyBoost().weight, RecencyBoost().half_life_days],
    "importance": [Importance().floor, 1],
    "tense": [Tense().current, Tense().past],
    "length": [LengthNormalisation().anchor_chars, LengthNormalisation().slope],
    "time_decay": [TimeDecay().half_life_days, TimeDecay().floor],
    "minimum": [HardMinimum().score],
    "cascade": [Cascade().seeds, Cascade().least_cosine, Cascade().depth, Cascade().step],
    "mmr": [Mmr().share, Mmr().best],
    "near_duplicates": [NearDuplicates().cosine],
    "session_cap": [SessionCap().hits],
}


@pytest.mark.parametrize("stage", ["fusion", *get_args(StageName)])
def test_a_stage_has_the_values_of_the_page(stage: str) -> None:
    (row,) = re.findall(rf"^\| `{stage}` \| .* \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert [float(number) for number in NUMBER.findall(row)] == DEFAULTS[stage]
    assert row != "min-max, equal weights" or (Fusion().method, Fusion().keyword_weight) == (
        "min_max",
        Fusion().vector_weight,
    )


def of(preset: PresetName, stage: str) -> Any:
    """Return the values of a preset's stage, which it has."""
    values = getattr(PRESETS[preset], stage)
    assert values is not None
    return values


def a_time_constant(stage: Any) -> float:
    return float(stage.half_life_days / math.log(2))


SAID_OF_PRESETS: list[tuple[str, list[float]]] = [
    ("`aquifer` | reciprocal ranks, k = 60", [of("aquifer", "fusion").rrf_k]),
    (".7 cosine + .3 keyword", [of("aleph", "fusion").vector_weight, of("aleph", "fusion").keyword_weight]),
    (
        "cosine blend .3; youth .1 with time constant 14 days; anchor 500; minimum .35; likeness .85",
        [
            *(
                of("aleph", "cosine_rerank").blend,
                of("aleph", "recency").weight,
                a_time_constant(of("aleph", "recency")),
            ),
            *(of("aleph", "length").anchor_chars, of("aleph", "minimum").score, of("aleph", "near_duplicates").cosine),
        ],
    ),
    (
        "decay: time constant 60 days, floor .5",
        [a_time_constant(of("aleph", "time_decay")), of("aleph", "time_decay").floor],
    ),
    (
        "certainty factor .7 to 1; length 1 / (1 + .5",
        [of("aleph", "importance").floor, 1, 1, 1, of("aleph", "length").slope],
    ),
    (
        "`agentx` | reciprocal ranks, k = 60, keyword .3, vector .7",
        [getattr(of("agentx", "fusion"), name) for name in ("rrf_k", "keyword_weight", "vector_weight")],
    ),
    ("at most 3 hits of a conversation", [of("agentx", "session_cap").hits]),
    ("tense 1.2 and .7", [of("agentx", "tense").current, of("agentx", "tense").past]),
    ("`jcode` | reciprocal ranks, k = 60", [of("jcode", "fusion").rrf_k]),
    ("as many candidates as hits, at least 50", [of("jcode", "fusion").least]),
    ("seeds of cosine ≥ .4", [of("jcode", "cascade").least_cosine]),
    ("at most 10; 2 links; × .7^n", [getattr(of("jcode", "cascade"), name) for name in ("seeds", "depth", "step")]),
    (
        "tag .8, cluster (here: page) .6, supersedes .9, contradicts .3, derived (here: cites) .7, related .6",
        [getattr(of("jcode", "cascade"), name) for name in ("tag", "page", "supersedes", "other", "cites", "related")],
    ),
]


@pytest.mark.parametrize(("said", "values"), SAID_OF_PRESETS, ids=lambda one: str(one)[:40])
def test_a_preset_has_the_values_of_the_page(said: str, values: list[float]) -> None:
    assert said in PAGE
    assert [float(number) for number in NUMBER.findall(said)] == pytest.approx(values)
    times = [of(name, "fusion").over_fetch for name in ("aleph", "agentx", "jcode")]
    assert times == [4, 2, 5]
    assert re.findall(r"(\w+) times as many candidates|(twice) as many", PAGE) == [
        ("four", ""),
        ("", "twice"),
        ("five", ""),
    ]


def test_aquifer_ranks_by_reciprocal_ranks(store: MemoryStore) -> None:
    question = Question(text="Which hull has the kayak of week 1, and how many a paddle?", channel="shop", limit=3)
    found = searching(store, SearchSettings(preset="aquifer")).rank(question).candidates
    arms = [in_order(scores_by(arm, found)) for arm in ("keyword", "vector")]
    ranked = fuse_by_reciprocal_rank(arms, k=60)
    assert [one.score for one in found] == pytest.approx([score * 61 / 2 for _, score in ranked])
    assert {one.unit for one in found} == {unit for unit, _ in ranked}


def test_only_a_search_that_reranks_loads_what_does() -> None:
    program = "import sys; import dreamd.store.search.search; print('dreamd.store.search.rerankers' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_stages_without_a_preset_are_a_pipeline_of_ones_own() -> None:
    stages = stages_of(SearchSettings.model_validate({"stages": {"session_cap": {"hits": 2}}}))
    assert set(stages.names()) - {"fusion"} == {"session_cap"}

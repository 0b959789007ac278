"""Promotion: what is wished for in several projects is proposed for all, and waits for its person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd.pipelines.dream import dream
from dreamd.pipelines.messages import read_changeset
from dreamd.pipelines.settings import GateSettings, PipelineSettings, PromotionSettings
from dreamd.pipelines.stages import promotion
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.projection import memory_links
from dreamd.store.ledger.ledger import Usage
from dreamd.store.memory import MemoryStore
from dreamd.store.model import (
    AWAITS_REVIEW,
    CURRENT_PAGE,
    GLOBAL_CHANNEL,
    PROMOTED_FROM,
    Kind,
    Level,
    Memory,
    NewTurn,
    SessionHead,
)
from dreamd.store.settings import StorePaths
from dreamd.store.text.judging import judge

from tests.pipelines.fakes import NOW, SETTINGS, FakeSource, request_of
from tests.pipelines.pages.said import said

ASKED = "Always ask me before you install a dependency."
AGAIN = "Before you install a dependency always ask me."


@pytest.fixture(autouse=True)
def words_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub's vectors know no meaning: what says the same is left to the words."""
    monkeypatch.setattr(promotion, "_near_to", lambda vectors, heads, at: [0.95] * len(heads))


def wish(text: str, channel: str = "shop-a1b2c3", turn: str = "s1#1", **fields: Any) -> Memory:
    keys: dict[str, Any] = {"kind": Kind.PREFERENCE, "channel": channel, "certainty": 0.95} | fields
    return said(text, turn, **keys)


def proposed(
    *facts: Memory,
    settings: PromotionSettings | None = None,
    history: History | None = None,
    source: FakeSource | None = None,
) -> list[Memory]:
    source = source or FakeSource()
    source.keep(*facts)
    view = source.view(history)
    view.settings = PipelineSettings(promotion=settings or PromotionSettings())
    planned = promotion.plan(view, NOW)
    view.apply(planned.actions)
    source.take(view)
    return [okf.to_memory(action.path, okf.parse(action.content or b"")) for action in planned.actions]


def test_two_clones_of_a_project_are_one_project(one_project: tuple[str, str]) -> None:
    facts = [wish(ASKED, one_project[0]), wish(AGAIN, one_project[1], "s2#1")]
    assert proposed(*facts) == []


def two() -> tuple[Memory, Memory]:
    return wish(ASKED), wish(AGAIN, "blog-d4e5f6", "s2#1")


def test_a_wish_of_two_projects_waits_for_its_person_with_what_decided() -> None:
    facts = two()
    (found,) = proposed(*facts)
    assert (found.channel, found.kind, found.text) == (GLOBAL_CHANNEL, Kind.FACT, ASKED)
    assert found.extra[AWAITS_REVIEW] == {"kind": "preference", "because": "said in 2 projects"}
    assert found.extra[PROMOTED_FROM] == [fact.node_id for fact in facts]
    assert {link.target for link in memory_links(found) if link.kind == PROMOTED_FROM} == {one.node_id for one in facts}
    assert set(found.sources) == {"s1#1", "s2#1"}
    assert found.extra["promotion"]["projects"] == 2


def test_a_wish_of_two_projects_in_the_words_of_a_rule_needs_no_judge() -> None:
    unsure: dict[str, Any] = {"extra": {"worth": 0.2, "standing": 0.01}}
    assert proposed(wish(ASKED, **unsure), wish(AGAIN, "blog-d4e5f6", "s2#1", **unsure))
    plain = ("Ask me about each new dependency.", "About each new dependency ask me.")
    assert not proposed(wish(plain[0], **unsure), wish(plain[1], "blog-d4e5f6", "s2#1", **unsure))


def test_it_holds_at_once_where_its_person_wants_no_review() -> None:
    (found,) = proposed(*two(), settings=PromotionSettings(review=False))
    assert (found.kind, found.is_waiting) == (Kind.PREFERENCE, False)


def test_it_is_proposed_once_whatever_became_of_it() -> None:
    source = FakeSource()
    (found,) = proposed(*two(), source=source)
    assert proposed(source=source) == []
    third = wish("Ask me always before you install a dependency.", "site-a7a7a7", "s3#1")
    assert proposed(third, source=source) == []
    source.files[found.path] = okf.edit(source.files[found.path], {"status": "deprecated"})
    assert proposed(source=source) == []


def test_it_is_taken_back_while_it_waits_if_nothing_of_it_holds() -> None:
    source, facts = FakeSource(), two()
    (found,) = proposed(*facts, source=source)
    gone = [replace(fact, superseded_by="other") for fact in facts]
    (taken_back,) = proposed(*gone, source=source)
    assert (taken_back.node_id, taken_back.is_live) == (found.node_id, False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Always use tabs in code.", "Always use spaces in code."),
        ("Always ask me before you push.", "Never ask me before you push."),
        ("Always wrap lines at 80 columns.", "Always wrap lines at 90 columns."),
        ("Always serve it on port 8080.", "Always serve it on port 8080."),
        ("Always put fixtures into tests/fixtures.", "Always put fixtures into tests/fixtures."),
        ("Always read `config.load` first.", "Always read `config.load` first."),
        ("In this repo always use relative imports.", "In this repo always use relative imports."),
        ("For now always skip slow tests.", "For now always skip slow tests."),
        ("Can you always run slow tests?", "Can you always run slow tests?"),
        ("Always release on Thursday.", "Always release on Thursday."),
        ("Always deploy the shop by hand.", "Always deploy the shop by hand."),
        ("Always pass the token [REDACTED] along.", "Always pass the token [REDACTED] along."),
    ],
)
def test_what_differs_or_is_of_a_project_stays_there(one: str, other: str) -> None:
    assert proposed(wish(one), wish(other, "blog-d4e5f6", "s2#1")) == []


def test_what_a_third_project_opposes_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "RELATED_FROM", -1.0)
    against = wish("Never ask me before you install a dependency.", "site-a7a7a7", "s3#1")
    monkeypatch.setattr(promotion, "judge", lambda later, few: judge(later, [replace(one, cosine=0.95) for one in few]))
    assert proposed(*two(), against) == []


def used(facts: Sequence[Memory], times: int) -> Mapping[str, Usage]:
    return {fact.node_id: Usage(times, NOW) for fact in facts}


def test_of_one_project_it_must_be_said_again_and_used() -> None:
    facts = [wish(ASKED), wish(AGAIN, turn="s2#1")]
    facts = [replace(fact, extra={"worth": 1.0, "standing": 0.9}) for fact in facts]
    assert proposed(*facts, history=History(usage=used(facts, 1))) == []
    (found,) = proposed(*facts, history=History(usage=used(facts, 3)))
    assert found.extra["promotion"]["uses"] == 6
    assert proposed(facts[0], history=History(usage=used(facts, 9))) == []


def test_nothing_comes_from_a_private_channel_nor_from_two_parts_of_one() -> None:
    one, other = two()
    assert proposed(one, other, settings=PromotionSettings(private=("blog-d4e5f6",))) == []
    assert proposed(one, other, history=History(channels_off=frozenset({"blog-d4e5f6"}))) == []
    assert proposed(one, wish(AGAIN, "=blog", "s2#1")) == []
    assert proposed(one, wish(AGAIN, "shop-a1b2c3/spike", "s2#1")) == []


def test_users_are_kept_apart() -> None:
    ana, bob = wish(ASKED, "shop-a1b2c3/@ana"), wish(AGAIN, "blog-d4e5f6/@bob", "s2#1")
    assert proposed(ana, bob) == []
    (found,) = proposed(ana, wish(AGAIN, "blog-d4e5f6/@ana", "s2#1"))
    assert found.channel == f"{GLOBAL_CHANNEL}/@ana"


def test_what_a_person_always_corrects_is_offered_for_every_envelope() -> None:
    facts = [
        replace(wish(text, channel, turn), kind=Kind.CORRECTION, extra={"standing": 0.9, "reply": "correct"})
        for text, channel, turn in ((ASKED, "shop-a1b2c3", "s1#1"), (AGAIN, "blog-d4e5f6", "s2#1"))
    ]
    assert "always" not in proposed(*facts)[0].extra[AWAITS_REVIEW]
    third = replace(facts[0], sources=("s1#1", "s3#1"))
    assert proposed(third, facts[1])[0].extra[AWAITS_REVIEW]["always"] == 1


def test_a_correction_of_three_conversations_of_one_project_is_offered_though_nobody_used_it() -> None:
    turns = ("s1#1", "s2#1", "s3#1")
    keys = {"standing": 0.9, "reply": "correct", "worth": 1.0}
    said_again = replace(wish(ASKED, kind=Kind.CORRECTION), sources=turns, extra=keys)
    (found,) = proposed(said_again)
    assert found.extra[AWAITS_REVIEW] == {"kind": "correction", "always": 1, "because": "put right in 3 conversations"}
    assert proposed(replace(said_again, sources=("s1#1", "s2#1"))) == []
    assert proposed(replace(said_again, kind=Kind.PREFERENCE, extra={"standing": 0.9, "worth": 1.0})) == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    """A store in which the same was remembered in two projects."""
    paths = StorePaths(*(tmp_path / name for name in ("vault", "l.db", "i.db", "e.db", "runs")))
    with closing(MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)) as store:
        for text, channel in ((ASKED, "shop-a1b2c3"), (AGAIN, "blog-d4e5f6")):
            store.remember(text, kind=Kind.PREFERENCE, channel=channel).result()
        store.settle(60)
        yield store


def dreamt(store: MemoryStore, week: int) -> None:
    """Dream as a week does, with the gate."""
    few = PipelineSettings(gate=GateSettings(probes=20))
    later = NOW + timedelta(days=7 * week)
    done = dream(request_of(store.core.paths, f"run-{week}", later, pipelines=few, kind="weekly"), lambda _: None)
    if done.changeset_path is not None:
        store.apply(read_changeset(done.changeset_path))
    store.settle(60)


def test_a_weekly_dream_proposes_it_and_once_accepted_it_is_on_the_persons_page(store: MemoryStore) -> None:
    dreamt(store, 1)
    (waiting,) = store.waiting()
    assert (waiting.kind, waiting.because, waiting.channel) == (Kind.PREFERENCE, "said in 2 projects", GLOBAL_CHANNEL)
    store.accept(waiting.node_id, "ann")
    dreamt(store, 2)
    assert store.waiting() == []
    (page,) = store.core.catalog.listing(GLOBAL_CHANNEL, Level.PROFILE)
    assert page.title == CURRENT_PAGE
    assert waiting.text in page.text


def test_an_accepted_correction_is_pinned_and_undo_takes_the_pin_back(store: MemoryStore) -> None:
    text = "Never squash commits before you merge."
    keys: dict[str, Any] = {"kind": Kind.CORRECTION, "certainty": 0.95, "channel": "shop-a1b2c3"}
    corrected = said(text, "s1#1", **keys)
    corrected = replace(
        corrected, sources=("s1#1", "s2#1", "s3#1"), extra={"standing": 0.9, "reply": "correct", "worth": 1.0}
    )
    for session in ("s1", "s2", "s3"):
        store.observe(SessionHead(session, "shop-a1b2c3"), [NewTurn("user", text, NOW, "1")]).result()
    (store.vault.root / "corrected.md").write_bytes(okf.from_memory(corrected))
    store.reconcile()
    store.settle(60)
    dreamt(store, 1)
    (waiting,) = (one for one in store.waiting() if one.text == text)
    assert waiting.always == 1
    pinned = store.accept(waiting.node_id, "ann")
    store.settle()
    assert text in [slot.words for slot in store.context("Which port?", channel="blog-d4e5f6").slots]
    store.undo(pinned.run_id)
    store.settle()
    assert text not in [slot.words for slot in store.context("Which port?", channel="blog-d4e5f6").slots]


def test_undo_takes_a_proposal_back_for_good(store: MemoryStore) -> None:
    dreamt(store, 1)
    store.undo("run-1")
    assert store.waiting() == []
    dreamt(store, 2)
    assert store.waiting() == []

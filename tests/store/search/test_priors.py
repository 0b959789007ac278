"""Priors: what moves a candidate beside its match with the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pytest
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.catalog import TurnForm
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.search.question import asked_by
from dreamd.store.search.scoring import CandidateArrays, priors_of
from dreamd.store.settings import PriorSettings, SearchSettings, StoreSettings

from tests import memories

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NONE = np.zeros(1)
IN_MAY = asked_by("What did we choose in May?", 3, NOW)
AT_ANY_TIME = asked_by("Which boxes did we choose?", 3, NOW)
TEXT = "The bakery chose the blue boxes for the bread"


def of(*days: str | None, keyword: Sequence[float] = (), texts: Sequence[str] = ()) -> CandidateArrays:
    """Return candidates that were said on these days; without a score the keyword arm found none of them."""
    times = [day and int(datetime.fromisoformat(f"{day}T09:00:00+00:00").timestamp()) for day in days]
    units = [f"s#{place}" for place in range(len(days))]
    scores, cosines = np.array([*keyword] or [0.0] * len(days)), np.full(len(days), np.nan)
    said = [TurnForm("user", 100, time_s=time_s or None) for time_s in times]
    of_units = dict(zip(units, texts, strict=False))
    return CandidateArrays(units, scores, cosines, said, lambda wanted: {unit: of_units[unit] for unit in wanted})


def test_a_time_fits_within_is_soft_beside_and_softer_after() -> None:
    said = of("2026-05-10", "2026-04-29", "2026-06-02", "2025-05-10", None)
    added = priors_of(said, NONE, IN_MAY, PriorSettings(time=1.0))["time"]
    assert added[[0, 3, 4]].tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert 0.3 < added[1] < added[2] < 0.8


def test_a_question_without_a_time_has_no_prior_nor_one_that_fits_nothing() -> None:
    assert priors_of(of("2026-05-10"), NONE, AT_ANY_TIME, PriorSettings()) == {}
    assert priors_of(of(None), NONE, IN_MAY, PriorSettings()) == {}
    assert priors_of(of("2026-05-10"), NONE, IN_MAY, PriorSettings(time=0.0)) == {}


def test_what_was_said_then_comes_first_and_nothing_is_lost(store: MemoryStore) -> None:
    for number, weeks in enumerate((1, 30, 60)):
        at = NOW - timedelta(weeks=weeks)
        store.observe(SessionHead(f"s{number}", "shop", started_at=at), [NewTurn("user", TEXT, at)]).result()

    def order(question: str, as_of: datetime | None = None) -> list[str]:
        return [hit.node_id for hit in store.recall(question, channel="shop", as_of=as_of).hits]

    assert order("blue boxes last week")[0] == "s0#1"
    assert order(f"blue boxes on {NOW - timedelta(weeks=60):%Y-%m-%d}")[0] == "s2#1"
    assert sorted(order("blue boxes last week")) == ["s0#1", "s1#1", "s2#1"]
    assert not store.recall("blue boxes last week", channel="shop").notes
    of_may = store.recall("blue boxes in May 2021", channel="shop").notes
    assert of_may == ["none of this is from May 2021; a filter of the time looks there alone"]
    assert order("blue boxes last week", as_of=NOW - timedelta(weeks=29))[0] == "s1#1"
    traced = store.recall("blue boxes last week", channel="shop", explain=True).trace["candidates"]
    assert {one["unit"]: one["priors"] for one in traced} == {"s0#1": {"time": 3.0}, "s1#1": {}, "s2#1": {}}


def diary(store: MemoryStore, days: Iterable[date], *, channel: str = "shop", said: str = "") -> None:
    """Say one thing a day, each in a session of its own, and have it acknowledged."""
    for day in days:
        at = datetime.combine(day, time(9), UTC)
        said_then = said or f"{THINGS[day.day % len(THINGS)]} broke again that morning"
        turns = [NewTurn("user", said_then, at), NewTurn("assistant", "Noted.", at)]
        name = f"{day}" if channel == "shop" else f"{channel}-{day}"
        store.observe(SessionHead(name, channel, started_at=at), turns).result()


THINGS = ("The kiln", "The loom", "The till", "The oven", "The fax", "The lamp", "The pump")
SIX_WEEKS = [NOW.date() - timedelta(days=days) for days in range(42)]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What happened on 5 November?", date(2026, 11, 5), date(2026, 11, 5)),
        ("what did I say on November 5th", date(2026, 11, 5), date(2026, 11, 5)),
        ("What happened on 2026-11-05?", date(2026, 11, 5), date(2026, 11, 5)),
        ("was geschah am 5. November?", date(2026, 11, 5), date(2026, 11, 5)),
        ("What happened last week?", date(2026, 11, 9), date(2026, 11, 15)),
        ("what did we do this week", date(2026, 11, 16), date(2026, 11, 21)),
        ("what did we talk about yesterday", date(2026, 11, 20), date(2026, 11, 20)),
        ("what is the newest?", date(2026, 11, 12), date(2026, 11, 21)),
    ],
)
def test_a_question_about_a_time_alone_finds_what_was_said_then(
    store: MemoryStore, question: str, first: date, last: date
) -> None:
    diary(store, SIX_WEEKS)
    diary(store, SIX_WEEKS[:1], channel="another")
    found = store.recall(question, channel="shop").hits
    days = [date.fromisoformat(hit.node_id.partition("#")[0]) for hit in found]
    people = [day for day, hit in zip(days, found, strict=True) if hit.text != "Noted."]
    assert people == sorted({day for day in SIX_WEEKS if first <= day <= last}, reverse=True)
    assert days[: len(people)] == people
    slots = store.context(question, channel="shop", budget_tokens=120).slots
    assert {date.fromisoformat(slot.node_id.partition("#")[0]) for slot in slots} <= {*people}
    assert slots


def test_what_was_drawn_from_a_turn_comes_first_and_what_names_a_day_is_of_it(store: MemoryStore) -> None:
    diary(store, SIX_WEEKS)
    drawn_fact(store, "2026-11-10#1", "The loom broke.", datetime(2026, 11, 10, 9, tzinfo=UTC))
    late = NewTurn("user", "The roof broke on 10 November.", NOW - timedelta(days=9))
    store.observe(SessionHead("late", "shop", started_at=late.at), [late]).result()
    assert store.settle(30)
    found = [hit.node_id for hit in store.recall("What happened last week?", channel="shop", limit=4).hits]
    assert found == ["2026-11-10#1", "2026-11-15#1", "2026-11-14#1", "2026-11-13#1"]
    of_the_day = [hit.node_id for hit in store.recall("What happened on 10 November?", channel="shop").hits]
    assert of_the_day == ["2026-11-10#1", "late#1", "2026-11-10#2"]


def test_nothing_is_found_where_nothing_was_said(store: MemoryStore) -> None:
    diary(store, SIX_WEEKS)
    found = store.recall("What happened on 5 March?", channel="shop")
    assert (found.hits, found.abstained) == ([], True)
    assert found.notes == ["nothing here is from 5 March 2026"]
    envelope = store.context("What happened on 5 March?", channel="shop")
    assert (envelope.abstained, envelope.notes) == (True, ("nothing here is from 5 March 2026",))
    assert store.recall("What happened yesterday?", channel="shop", session="2026-11-20").hits == []


def test_a_thing_is_looked_for_at_its_time_however_often_it_was_named(paths: StorePaths) -> None:
    settings = StoreSettings(search=SearchSettings(reach=10))
    store = MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)
    diary(store, SIX_WEEKS, said="We packed the blue boxes again")
    store.rebuild()  # embeds them
    found = store.recall("when were the blue boxes packed, on 20 October?", channel="shop", limit=3).hits
    store.close()
    assert found[0].node_id == "2026-10-20#1"


def test_the_newest_of_a_thing_comes_before_older_ones(store: MemoryStore) -> None:
    for days, text in (
        (40, "The price of flour rose to nine"),
        (3, "Flour went up: its price is ten"),
        (1, "The sky is blue"),
    ):
        diary(store, [SIX_WEEKS[days]], said=text)
    asked = "the price of flour"
    assert store.recall(asked, channel="shop").hits[0].node_id == f"{SIX_WEEKS[40]}#1"
    assert store.recall(f"What is the latest {asked}?", channel="shop").hits[0].node_id == f"{SIX_WEEKS[3]}#1"


def test_a_memory_of_another_time_that_answers_much_better_stays_ahead() -> None:
    added = priors_of(of("2026-05-10"), NONE, IN_MAY, PriorSettings())
    assert np.abs(added["time"]).max() <= PriorSettings().time


MOVED = of(
    *("2026-03-01", "2026-05-10", "2026-05-10", "2026-07-01", None),
    keyword=[1.0, 3.0, 2.0, 0.0, 0.5],
    texts=["We print labels.", "The fair went well.", "We moved to the new house today.", "", "A label."],
)


@pytest.mark.parametrize(
    ("question", "fits"),
    [
        ("Which labels did we print before the move?", [1.0, 1.0, 1.0, 0.0, 0.0]),
        ("Which labels did we print after we moved house?", [0.0, 1.0, 1.0, 1.0, 0.0]),
        ("Welche Etiketten hatten wir vor dem Move?", [1.0, 1.0, 1.0, 0.0, 0.0]),
        ("Which labels did we print before the wedding?", None),
        ("Did we print labels before?", None),
    ],
)
def test_the_time_before_or_after_an_event_is_that_of_who_tells_of_it(question: str, fits: list[float] | None) -> None:
    added = priors_of(MOVED, NONE, asked_by(question, 3, NOW), PriorSettings(event=1.0))
    assert added.keys() == ({"event"} if fits else set())
    if fits:
        assert added["event"].tolist() == pytest.approx(fits, abs=1e-2)


def test_a_word_that_few_hold_is_looked_up() -> None:
    found = of(None, None, None, keyword=[0.0, 2.0, 1.0])
    added = priors_of(found, NONE, asked_by("Lindqvist", 1, NOW), PriorSettings(words=4.0))["words"]
    assert added.tolist() == [0.0, 4.0, 2.0]
    assert priors_of(found, NONE, asked_by("who paid the Lindqvist invoice", 3, NOW), PriorSettings()) == {}
    many = of(*[None] * 50, keyword=[1.0] * 50)
    assert priors_of(many, NONE, asked_by("bakery", 1, NOW), PriorSettings()) == {}


def test_the_only_memory_that_holds_a_name_comes_first(store: MemoryStore) -> None:
    turns = [NewTurn("user", f"Hi, my name is Tomas Berger and I run a pottery, part {n}.", NOW) for n in range(9)]
    store.observe(SessionHead("s", "shop", started_at=NOW), turns).result()
    store.remember("Boxes come from Ratioform; the contact there is Petra Lindqvist.", channel="shop").result()
    assert store.settle(30)
    assert "Lindqvist" in store.recall("Lindqvist", channel="shop").hits[0].text


def test_trust_moves_within_its_bound() -> None:
    trust = np.array([0.05, -0.1, 0.9, 0.0])
    added = priors_of(of(*[None] * 4), trust, AT_ANY_TIME, PriorSettings())["trust"]
    assert added.tolist() == pytest.approx([0.2, -0.4, 0.6, 0.0])


def drawn_fact(store: MemoryStore, turn: str, text: str, at: datetime = NOW) -> str:
    """Write a fact into the vault as a dream draws it from a turn: it is found by that turn alone."""
    source = {"id": "t1", "resource": "/s.md", "title": turn}
    drawn = memories.fact(text, "shop", created_at=at, extra={"sources": [source], "searched": False})
    path = store.paths.vault / drawn.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(okf.from_memory(replace(drawn, sources=(turn,))))
    store.reconcile()
    return drawn.node_id


def test_feedback_on_a_fact_moves_the_turn_that_it_was_drawn_from(store: MemoryStore) -> None:
    texts = ("Blue boxes for bread come from Ratioform in Munich", "Red boxes for bread come from Ratioform in Hamburg")
    for name, text in zip(("s1", "s2"), texts, strict=True):
        store.observe(SessionHead(name, "shop", started_at=NOW), [NewTurn("user", text, NOW)]).result()
    facts = {f"{name}#1": drawn_fact(store, f"{name}#1", text) for name, text in zip(("s1", "s2"), texts, strict=True)}
    assert store.settle(30)
    asked = "Where do boxes for bread come from?"

    def found() -> dict[str, dict[str, float]]:
        traced = store.recall(asked, channel="shop", explain=True).trace["candidates"]
        return {one["unit"]: one["priors"] for one in traced}

    first, second = found()
    store.feedback(facts[second], "useful")
    store.feedback(facts[first], "not-useful")
    assert found() == {second: {"trust": pytest.approx(0.2)}, first: {"trust": pytest.approx(-0.4)}}
    assert list(found()) == [second, first]
    store.feedback(first, "not-useful")
    for _ in range(9):
        store.feedback(facts[first], "not-useful")
    assert found()[first] == {"trust": -PriorSettings().most_trust}


def test_feedback_on_a_page_moves_none_of_the_turns_that_it_cites(store: MemoryStore) -> None:
    store.observe(SessionHead("s1", "shop", started_at=NOW), [NewTurn("user", TEXT, NOW)]).result()
    page = store.paths.vault / "scenarios" / "boxes.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        "---\ntype: Scenario\ntitle: Boxes\nnode_id: boxes\nlevel: L2\nkind: episode\nchannel: shop\n"
        'sources:\n  - { id: t1, resource: /s.md, title: "s1#1" }\n---\n\nBoxes were chosen.\n'
    )
    store.reconcile()
    assert store.settle(30)
    store.feedback("boxes", "not-useful")
    (traced,) = store.recall("blue boxes for bread", channel="shop", explain=True).trace["candidates"]
    assert traced["priors"] == {}


def test_what_a_person_judged_changes_places_with_its_neighbour(store: MemoryStore) -> None:
    store.remember("Blue boxes for bread come from Ratioform in Munich.", channel="shop").result()
    store.remember("Red boxes for bread come from Ratioform in Hamburg.", channel="shop").result()
    store.remember("The kiln is fired at night.", channel="shop").result()
    assert store.settle(30)
    asked = "Where do boxes for bread come from?"
    first, second, *rest = [hit.node_id for hit in store.recall(asked, channel="shop").hits]
    store.feedback(second, "useful")
    store.feedback(first, "not-useful")
    judged = [hit.node_id for hit in store.recall(asked, channel="shop").hits]
    assert judged == [second, first, *rest]
    for _ in range(20):
        store.feedback(second, "not-useful")
        for one in rest:
            store.feedback(one, "useful")
    assert store.recall(asked, channel="shop").hits[0].node_id == first

"""Goals of sessions, and the threads that they leave open."""

from __future__ import annotations

from datetime import timedelta

import pytest
from dreamd.store.ledger.work import KEPT_DAYS, THREAD_DAYS
from dreamd.store.limits import SESSION_TTL_S
from dreamd.store.memory import MemoryStore
from dreamd.store.model import InvalidInput, NewTurn, NotFound, SessionHead
from dreamd.store.working.goals import MOST_OPEN


def test_a_goal_is_opened_once_and_closed(store: MemoryStore) -> None:
    goal = store.set_goal("s1", "shop", text="move the orders")
    assert store.set_goal("s1", "shop", text="move  the orders").goal_id == goal.goal_id
    step = store.set_goal("s1", "shop", text="dump them", parent=goal.goal_id, state="blocked")
    assert {(one.text, one.state, one.parent) for one in store.goals("s1")} == {
        ("move the orders", "active", None),
        ("dump them", "blocked", goal.goal_id),
    }
    assert [one.text for one in store.goals("s1")] == ["move the orders", "dump them"]
    done = store.set_goal("s1", "shop", goal_id=step.goal_id, state="completed")
    assert (done.text, done.state, done.is_open) == ("dump them", "completed", False)


def test_what_is_open_when_a_session_ends_is_a_thread_until_another_takes_it_up(store: MemoryStore) -> None:
    goal = store.set_goal("s1", "shop", text="move the orders")
    done = store.set_goal("s1", "shop", text="dump them", state="completed")
    assert store.threads("shop") == []
    assert [one.goal_id for one in store.end_session("s1")] == [goal.goal_id]
    assert [one.goal_id for one in store.threads("shop")] == [goal.goal_id]
    assert store.threads("garden") == []
    taken = store.set_goal("s2", "shop", goal_id=goal.goal_id)
    assert (taken.session_id, taken.thread_since) == ("s2", None)
    assert store.threads("shop") == []
    assert [one.goal_id for one in store.goals("s1")] == [done.goal_id]


def test_a_person_closes_a_thread_without_a_session(store: MemoryStore) -> None:
    goal = store.set_goal("s1", "shop", text="move the orders")
    store.end_session("s1")
    closed = store.set_goal(None, "shop", goal_id=goal.goal_id, state="abandoned")
    assert closed.session_id == "s1"
    assert store.threads("shop") == []


def test_goals_of_another_channel_are_not_there(store: MemoryStore) -> None:
    goal = store.set_goal("s1", "shop", text="move the orders")
    with pytest.raises(NotFound):
        store.set_goal("s2", "garden", goal_id=goal.goal_id, state="completed")
    with pytest.raises(NotFound):
        store.set_goal("s2", "garden", text="weeding", parent=goal.goal_id)


def test_no_goal_serves_itself(store: MemoryStore) -> None:
    one = store.set_goal("s1", "shop", text="one")
    two = store.set_goal("s1", "shop", text="two", parent=one.goal_id)
    for parent in (one.goal_id, two.goal_id):
        with pytest.raises(InvalidInput, match="serves"):
            store.set_goal("s1", "shop", goal_id=one.goal_id, parent=parent)
    assert store.set_goal("s1", "shop", goal_id=two.goal_id, parent="").parent is None


def test_a_session_has_so_many_open_goals(store: MemoryStore) -> None:
    goals = [store.set_goal("s1", "shop", text=f"goal {n}") for n in range(MOST_OPEN)]
    with pytest.raises(InvalidInput, match="open goals"):
        store.set_goal("s1", "shop", text="one more")
    store.set_goal("s1", "shop", goal_id=goals[0].goal_id, state="completed")
    assert store.set_goal("s1", "shop", text="one more").is_open


def test_a_thread_that_nobody_takes_up_is_let_go(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set_goal("s1", "shop", text="move the orders")
    store.end_session("s1")
    later = store.core.now() + timedelta(days=THREAD_DAYS + 1)
    monkeypatch.setattr(store.operations.goals, "_now", lambda: later)
    assert len(store.threads("shop")) == 1
    store.set_goal("s2", "shop", text="something else")
    assert store.threads("shop") == []


def test_a_closed_goal_is_kept_for_a_while(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set_goal("s1", "shop", text="move the orders", state="completed")
    store.set_goal("s1", "shop", text="dump them")
    begun = store.core.now()
    for days, texts in ((KEPT_DAYS - 1, {"move the orders", "dump them"}), (KEPT_DAYS + 1, {"dump them"})):
        monkeypatch.setattr(store.operations.goals, "_now", lambda days=days: begun + timedelta(days=days))
        store.set_goal("s2", "shop", text=f"after {days} days")
        assert {goal.text for goal in store.goals("s1")} == texts


def test_the_threads_of_a_channel_stand_newest_first(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = store.core.now()
    for hours, text in enumerate(("paint the shelves", "move the orders", "oil the locks")):
        monkeypatch.setattr(store.operations.goals, "_now", lambda hours=hours: begun + timedelta(hours=hours))
        store.set_goal(f"s{hours}", "shop", text=text)
        store.end_session(f"s{hours}")
    assert [goal.text for goal in store.threads("shop")] == ["oil the locks", "move the orders", "paint the shelves"]


def test_a_goal_needs_words_or_an_id(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="no goal"):
        store.set_goal("s1", "shop")
    with pytest.raises(InvalidInput, match="characters"):
        store.set_goal("s1", "shop", text="x" * 501)


def test_what_only_its_lines_betray_is_in_no_goal(store: MemoryStore) -> None:
    goal = store.set_goal("s1", "shop", text="| host | password |\n|---|---|\n| web | Kx93-harbour!Zz |")
    assert "Kx93" not in goal.text


def test_a_session_that_fell_silent_leaves_its_open_goals_as_threads(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    store.operations.at_work._clock = lambda: clock[0]
    store.set_goal("s1", "shop", text="the lease of the bakery is signed")
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", "ask the landlord")]).result()
    later = store.core.now() + timedelta(seconds=SESSION_TTL_S + 1)
    monkeypatch.setattr(store.operations.goals, "_now", lambda: later)
    assert store.threads("shop") == []
    clock[0] = SESSION_TTL_S + 1
    assert [goal.thread_since for goal in store.threads("shop")] == [later]


def test_an_open_goal_of_a_session_that_ended_is_a_fact_until_it_is_closed(store: MemoryStore) -> None:
    goal = store.set_goal("s1", "shop", text="the lease of the bakery is signed")
    store.end_session("s1")
    (hit, *_) = store.recall("is the lease of the bakery signed", channel="shop").hits
    assert store.vault.read(store.show(hit.node_id).path).decode().count("tense: future") == 1
    store.set_goal(None, "shop", goal_id=goal.goal_id, state="completed")
    assert not store.show(hit.node_id).live

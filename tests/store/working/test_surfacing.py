"""What the memory holds on a turn waits for the agent's next call: once, without repeating itself, and never long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from dreamd.store.limits import MOST_TURN_CHARS, SESSION_TTL_S
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.purge.plan import Selection
from dreamd.store.results import BufferedTurn
from dreamd.store.working import surfacing
from dreamd.store.working.sessions import (
    MOST_CHARS,
    MOST_SESSIONS,
    MOST_THOUGHTS,
    WorkingSession,
    WorkingSessions,
)
from dreamd.store.working.surfacing import summary_of

from tests.store.purge.purging import places_with

OVEN = "The oven of the bakery is heated with beech wood at noon."
ROSES = "Roses in the garden of Ines are cut back in early March."
KEY = "gh" + "p_" + "aB3dE5fG7h" * 4


def say(store: MemoryStore, text: str, session: str = "s1", channel: str = "shop", role: str = "user") -> None:
    store.observe(SessionHead(session, channel), [NewTurn(role, text)]).result()
    assert store.operations.surfacing.settle(10)


@pytest.fixture
def known(store: MemoryStore) -> MemoryStore:
    for text in (OVEN, ROSES):
        store.remember(text, channel="shop").result()
    assert store.settle_links()
    return store


def test_what_answers_a_turn_is_handed_out_once(known: MemoryStore) -> None:
    say(known, "When is the oven of the bakery heated?")
    pending = known.take_pending("s1")
    assert pending.text.startswith("<dreamd-memory ")
    assert OVEN in pending.text
    assert pending.tokens <= surfacing.BUDGET_TOKENS
    assert known.take_pending("s1").text == ""
    say(known, "And the oven of the bakery, is it heated with beech wood?")
    assert OVEN not in known.take_pending("s1").text


def test_what_context_handed_out_is_not_surfaced_again(known: MemoryStore) -> None:
    say(known, "Good morning, dear bakery and oven people")
    known.take_pending("s1")
    assert OVEN in known.context("when is the oven of the bakery heated", channel="shop", session="s1").text
    say(known, "When is the oven of the bakery heated?")
    assert OVEN not in known.take_pending("s1").text


def test_another_topic_clears_what_was_given(known: MemoryStore) -> None:
    say(known, "When is the oven of the bakery heated?")
    assert OVEN in known.take_pending("s1").text
    say(known, "Roses: are they cut back by Ines, early March?")
    other = known.take_pending("s1")
    assert other.topic == 2
    assert ROSES in other.text
    say(known, "When is the oven of the bakery heated?")
    assert OVEN in known.take_pending("s1").text


def test_a_session_is_not_told_its_own_words_nor_another_channel_s(known: MemoryStore) -> None:
    say(known, "The harbour closes at six on Sundays in Zephyrhall.", "s2", "garden")
    say(known, "The harbour closes at six on Sundays in Zephyrhall.", "s3")
    say(known, "When does the harbour close on Sundays in Zephyrhall?", "s3")
    assert "harbour closes" not in known.take_pending("s3").text


def test_what_is_not_sure_is_not_worth_it(known: MemoryStore) -> None:
    say(known, "Is it noon?")
    assert known.take_pending("s1").text == ""


def test_what_was_forgotten_meanwhile_is_not_handed_out(known: MemoryStore) -> None:
    say(known, "When is the oven of the bakery heated?")
    hits = known.recall("oven of the bakery", channel="shop").hits
    known.forget(next(hit.node_id for hit in hits if hit.text == OVEN))
    assert known.settle()
    assert known.take_pending("s1").text == ""


def test_under_load_nothing_is_searched_and_the_turns_are_held(
    known: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = known.operations.surfacing
    monkeypatch.setattr(known.core, "is_busy", lambda: True)
    say(known, "When is the oven of the bakery heated?")
    assert (worker.dropped, known.take_pending("s1").text) == (1, "")
    assert [turn.text for turn in known.working("s1").turns] == ["When is the oven of the bakery heated?"]


def test_a_word_of_thanks_begins_no_topic(known: MemoryStore) -> None:
    say(known, "When is the oven of the bakery heated?")
    say(known, "thanks, ok")
    pending = known.take_pending("s1")
    assert (pending.topic, OVEN in pending.text) == (1, True)


def test_an_import_is_no_session_at_work(store: MemoryStore) -> None:
    turns = [NewTurn("user", f"turn {number}") for number in range(surfacing.MOST_AT_ONCE + 1)]
    store.observe(SessionHead("s1", "shop"), turns).result()
    assert store.operations.surfacing.settle(10)
    assert store.working("s1").channel is None


def test_thoughts_and_turns_are_held_without_secrets_and_end_with_the_session(store: MemoryStore) -> None:
    say(store, f"the token is {KEY}")
    assert store.think("s1", "shop", f"use {KEY} later") == 1
    held = store.working("s1")
    assert held.channel == "shop"
    assert KEY not in str(held)
    store.end_session("s1")
    assert store.working("s1").channel is None


def test_thoughts_are_held_in_memory_alone_and_the_last_of_them(store: MemoryStore, tmp_path: Path) -> None:
    counts = [store.think("s1", "shop", f"the quasarine jar is number {number}") for number in range(MOST_THOUGHTS + 3)]
    assert counts[-1] == MOST_THOUGHTS
    assert store.working("s1").thoughts[0] == "the quasarine jar is number 3"
    assert store.settle()
    assert places_with(tmp_path, ["quasarine"]) == []


def test_a_thought_without_a_channel_leaves_the_session_in_its_own(known: MemoryStore) -> None:
    say(known, "The oven is heated at noon, as ever")
    before = known.working("s1")
    assert known.think("s1", None, "ask the baker") == 1
    assert known.working("s1") == replace(before, thoughts=("ask the baker",))
    assert known.think("s2", None, "ask the landlord") == 1
    assert known.working("s2").channel == "_global"


def test_a_thought_before_the_first_turn_is_held_beside_it(known: MemoryStore) -> None:
    known.think("s1", None, "ask the baker")
    say(known, "The oven is heated at noon, as ever")
    held = known.working("s1")
    assert (held.channel, held.thoughts, len(held.turns)) == ("shop", ("ask the baker",), 1)


def test_a_purge_clears_what_is_held(known: MemoryStore, tmp_path: Path) -> None:
    say(known, "When is the oven of the bakery heated?")
    known.think("s1", "shop", "the oven again")
    known.purge(Selection(matching="beech wood"))
    assert known.working("s1").channel is None
    assert known.take_pending("s1").text == ""


def test_what_was_read_before_a_purge_is_not_written_after_it(store: MemoryStore) -> None:
    before = store.operations.working.generation
    store.operations.working.forget()
    with store.operations.working.touched("s1", "shop", before) as session:
        assert session is None


def test_a_session_that_fell_silent_leaves_its_open_goals_as_threads(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    store.operations.working._clock = lambda: clock[0]
    store.set_goal("s1", "shop", text="the lease of the bakery is signed")
    store.think("s1", "shop", "ask the landlord")
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


def test_sessions_are_bounded_and_let_go_after_an_hour() -> None:
    clock = [0.0]
    sessions = WorkingSessions(lambda: clock[0])
    for number in range(MOST_SESSIONS + 5):
        with sessions.touched(f"s{number}", "shop"):
            pass
    assert len(sessions.at_work()) == MOST_SESSIONS
    clock[0] = SESSION_TTL_S - 1
    with sessions.held("s60"):
        pass
    clock[0] = SESSION_TTL_S + 1
    assert sessions.at_work() == {"s60"}


def test_a_buffer_is_bounded() -> None:
    session = WorkingSession("s1", "shop", 0.0)
    for _ in range(100):
        session.add(BufferedTurn("user", "x" * MOST_TURN_CHARS))
    assert sum(len(turn.text) for turn in session.turns) <= MOST_CHARS


def test_a_turn_far_from_the_context_is_another_topic() -> None:
    session = WorkingSession("s1", "shop", 0.0)
    one, near, far = (np.array(axes, np.float32) for axes in ([1, 0], [0.8, 0.6], [0, 1]))
    assert [session.turn_to(vector) for vector in (one, near, one)] == [False, False, False]
    session.window.clear()
    assert [session.turn_to(vector) for vector in (one, one, far)] == [False, False, True]
    assert len(session.window) == 1


def test_a_summary_is_what_the_sentences_share() -> None:
    texts = [
        "We move the orders to Postgres tonight. The weather is nice today, isn't it?",
        "The orders are dumped first, then Postgres is filled with them.",
        "Fine. Ok.",
    ]
    assert summary_of(texts, 2) == [
        "We move the orders to Postgres tonight.",
        "The orders are dumped first, then Postgres is filled with them.",
    ]
    assert summary_of([]) == []

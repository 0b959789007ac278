"""What was done last: by session, by day, by file; and who said what recall finds, and how it was answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dreamd.store import MemoryStore
from dreamd.store.model import NewTurn, SessionHead

DAY = datetime(2026, 11, 20, 10, tzinfo=UTC)
SESSIONS = {
    "s1": (
        ("user", "Move the orders to Linz."),
        ("assistant", "[Edit /home/ana/shop/src/orders.py]"),
        ("assistant", "The orders are moved."),
        ("user", "And the invoices?"),
        ("assistant", "They stay. Shall I use LaunchDarkly for the flags?"),
    ),
    "s2": (
        ("user", "No LaunchDarkly, flags go in a table."),
        ("assistant", "[Write: docs/flags.md]"),
        ("assistant", "[Edit: docs/flags.md]"),
        ("assistant", "The flags have a table."),
    ),
}


@pytest.fixture
def said(store: MemoryStore) -> MemoryStore:
    for days, (session_id, turns) in enumerate(SESSIONS.items()):
        at = DAY + timedelta(days=days)
        timed = [NewTurn(role, text, at + timedelta(minutes=n)) for n, (role, text) in enumerate(turns)]
        store.observe(SessionHead(session_id, "shop", agent_id="claude-code"), timed).result()
    store.observe(SessionHead("other", "blog"), [NewTurn("user", "Use Hugo.", DAY)]).result()
    return store


def test_sessions_are_told_newest_first_with_what_was_asked_said_and_changed(said: MemoryStore) -> None:
    newest, older = said.recent("shop", 5)
    assert (newest.session_id, older.session_id, older.turns) == ("s2", "s1", 5)
    assert [one.node_id for one in older.asked] == ["s1#1", "s1#4"]
    assert older.answer is not None
    assert older.answer.text == "They stay. Shall I use LaunchDarkly for the flags?"
    assert (older.edited, newest.edited) == (("src/orders.py",), ("docs/flags.md",))
    assert [one.session_id for one in said.recent("shop", 1)] == ["s2"]
    assert [one.session_id for one in said.recent("shop", 5, left_out="s2")] == ["s1"]


@pytest.mark.parametrize("file", ["orders.py", "src/orders.py", "/home/ana/shop/src/orders.py", "./src/orders.py"])
def test_a_file_is_named_by_its_path_or_the_end_of_it(said: MemoryStore, file: str) -> None:
    assert [one.session_id for one in said.recent("shop", 5, file=file)] == ["s1"]
    assert said.recent("shop", 5, file="rders.py") == []


def test_a_day_and_a_session_narrow_it(said: MemoryStore) -> None:
    assert [one.session_id for one in said.recent("shop", 5, day=DAY.date())] == ["s1"]
    assert [one.session_id for one in said.recent("shop", 5, session="s1")] == ["s1"]
    assert said.recent("shop", 5, day=DAY.date() - timedelta(days=1)) == []
    assert {one.session_id for one in said.recent("*", 5)} == {"s1", "s2", "other"}


def test_a_hit_has_its_speaker_and_its_reply(store: MemoryStore) -> None:
    turns = [
        ("user", "Which queue did we take for the orders service?"),
        ("assistant", "We took NATS JetStream. Kafka was too much."),
        ("assistant", "I suggest LaunchDarkly for the feature flags of the depots."),
        ("assistant", "[Bash: ls]"),
        ("user", "No. Flags go in a table."),
    ]
    timed = [NewTurn(role, text, DAY + timedelta(minutes=n)) for n, (role, text) in enumerate(turns)]
    store.observe(SessionHead("s1", "shop"), timed).result()
    store.settle()
    hits = {hit.node_id: hit for hit in store.recall("feature flags LaunchDarkly depots", channel="shop").hits}
    assert (hits["s1#3"].speaker, hits["s1#3"].reply) == ("assistant", "No. Flags go in a table.")
    hits = {hit.node_id: hit for hit in store.recall("which queue for the orders service", channel="shop").hits}
    assert (hits["s1#1"].speaker, hits["s1#1"].reply) == ("user", "We took NATS JetStream. Kafka was too much.")
    store.forget("s1#5")
    hits = {hit.node_id: hit for hit in store.recall("feature flags LaunchDarkly depots", channel="shop").hits}
    assert hits["s1#3"].reply == ""

"""The sessions at work: those that were heard of lately, a bounded number."""

from __future__ import annotations

from datetime import UTC, datetime

from dreamd.store.limits import SESSION_TTL_S
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.purge.plan import Selection
from dreamd.store.working.sessions import MOST_SESSIONS, SessionsAtWork


def test_sessions_are_bounded_and_let_go_after_an_hour() -> None:
    clock = [0.0]
    sessions = SessionsAtWork(lambda: clock[0])
    for number in range(MOST_SESSIONS + 5):
        sessions.hear(f"s{number}")
    assert len(sessions.ids()) == MOST_SESSIONS
    clock[0] = SESSION_TTL_S - 1
    sessions.hear("s60")
    clock[0] = SESSION_TTL_S + 1
    assert sessions.ids() == {"s60"}


def test_a_session_is_at_work_until_it_ends_and_an_import_is_none(store: MemoryStore) -> None:
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", "good morning")]).result()
    store.observe(SessionHead("s2", "shop"), [NewTurn("user", "long ago", datetime(2020, 1, 1, tzinfo=UTC))]).result()
    assert store.operations.at_work.ids() == {"s1"}
    store.end_session("s1")
    assert store.operations.at_work.ids() == set()


def test_a_purge_clears_what_is_held(store: MemoryStore) -> None:
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", "the oven is heated with beech wood")]).result()
    store.settle()
    store.purge(Selection(matching="beech wood"))
    assert store.operations.at_work.ids() == set()

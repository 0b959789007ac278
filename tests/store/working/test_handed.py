"""What sessions were handed: bounded in number, in lines and in time, and kept over a restart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from dreamd.store import MemoryStore
from dreamd.store.ledger.work import HANDED_KEPT, MOST_HANDED
from dreamd.store.working.sessions import MOST_LINES, HandedSessions

from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


@pytest.fixture
def make(store: MemoryStore, clock: Clock) -> Callable[[], HandedSessions]:
    """Make it as a restarted daemon does: nothing is in memory, and what was written is in the ledger."""

    def fresh() -> HandedSessions:
        store.settle()
        store.set_channel("flushed", learning=True)  # what waits is written with the next transaction
        return HandedSessions(store.core.ledger, store.core.writer, clock)

    return fresh


def hand(sessions: HandedSessions, agent: str, name: str, *lines: str) -> None:
    session = sessions.get(agent, name)
    session.hand(list(lines), len(lines))
    session.note_prompt("x", "t1")
    sessions.keep(session)


def test_a_session_is_as_it_was(make: Callable[[], HandedSessions], clock: Clock) -> None:
    hand(make(), "codex", "first", "a line")
    again = make().get("codex", "first")
    assert (again.given, again.tokens, again.prompts, again.seen_at) == (["a line"], 1, 1, clock.now)
    assert make().get("gemini", "first").given == []
    clock.now += HANDED_KEPT + timedelta(seconds=1)
    assert make().get("codex", "first").given == []


def test_sessions_and_lines_are_bounded(make: Callable[[], HandedSessions], clock: Clock) -> None:
    sessions = make()
    for number in range(MOST_HANDED + 20):
        clock.now += timedelta(seconds=1)
        hand(sessions, "codex", str(number), *map(str, range(2 * MOST_LINES)))
    for one in (sessions, make()):
        assert one.get("codex", "0").given == []
        assert len(one.get("codex", str(MOST_HANDED + 19)).given) == MOST_LINES


def test_what_was_forgotten_is_not_written_again(make: Callable[[], HandedSessions]) -> None:
    sessions = make()
    session = sessions.get("codex", "first")
    sessions.forget()
    session.hand(["a line"], 1)
    sessions.keep(session)
    assert sessions.get("codex", "first").given == []
    assert make().get("codex", "first").given == []

"""The record of what agents were handed: bounded, with its outcome, and erased with what it quotes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from dreamd.store import MemoryStore, Selection
from dreamd.store.ledger.work import MOST_TOLD, TOLD_DAYS, set_told
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.results import ToldLine, ToldText
from dreamd.store.text.fence import fenced
from dreamd.store.working import told as told_texts

from tests.store.conftest import NOW

LINE = "6 Jul 2026, user: the port of the orders service is 8443"


def told(store: MemoryStore, text: str = LINE, session: str = "s1", moment: str = "prompt") -> ToldText:
    at = store.told.since()[0].at + timedelta(seconds=1) if store.told.since() else NOW
    asked = "Which port has the orders service?"
    return store.told.note(ToldText(at, session, "shop", "codex", moment, 20), fenced(text), asked=asked)


def test_a_text_is_recorded_by_its_lines_without_the_fence(store: MemoryStore) -> None:
    text = "\n".join(map(fenced, ("one", "two\nthree")))
    store.told.note(ToldText(NOW, "s1", "shop", "codex", "start", 20), text)
    (recorded,) = store.told.since()
    assert [line.text for line in recorded.lines] == ["one", "two", "three"]
    assert store.told.since(NOW, "s2") == []


def test_nothing_is_recorded_where_nothing_is_learned(store: MemoryStore) -> None:
    store.set_channel("shop", learning=False)
    told(store)
    assert store.told.since() == []


@pytest.mark.parametrize(
    ("answer", "became"),
    [
        ("It listens on 8443, the port of the orders service.", "used"),
        ("I do not know the port of the orders service.", ""),
        ("8443", "used"),
    ],
)
def test_a_line_is_used_where_the_next_turn_has_its_words(store: MemoryStore, answer: str, became: str) -> None:
    told(store)
    store.told.said("s2", [NewTurn("assistant", LINE)], NOW)
    store.told.said("s1", [NewTurn("assistant", answer)], NOW)
    (recorded,) = store.told.since()
    assert (recorded.answered, recorded.lines[0].became) == (True, became)


def test_texts_are_bounded_in_number_and_time(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_TOLD + 5):
        row = ToldText(NOW, "s1", "shop", "codex", "prompt", 1, lines=(ToldLine("x"),), told_id=10**15 + number)
        store.core.writer.write(*set_told(row))
    store.core.writer.write().result()
    assert len(store.ledger.ask("SELECT id FROM told")) <= MOST_TOLD
    later = NOW + timedelta(days=TOLD_DAYS + 1)
    monkeypatch.setattr(store.told, "_now", lambda: later)
    store.told.note(ToldText(later, "s2", "shop", "codex", "prompt", 1), "y")
    store.set_channel("flushed", learning=True)  # what waits is written with the next transaction
    assert [row[0] for row in store.ledger.ask("SELECT session_id FROM told")] == ["s2"]


def test_the_record_outlives_the_store_and_a_purge_of_its_words_does_not_spare_it(store: MemoryStore) -> None:
    told(store)
    told(store, "7 Jul 2026, user: Gretl holds the spare keys", "s2")
    store.set_channel("flushed", learning=True)  # what waits is written with the next transaction
    store.purge(Selection(matching="orders service"))
    assert "8443" not in str(store.told.since())
    assert "Gretl" in str(store.told.since())
    store.set_channel("flushed", learning=True)
    assert b"orders service" not in store.paths.ledger.read_bytes()


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(nodes=("s1",)), ["s2"]),
        (Selection(channel="shop"), []),
        (Selection(before=NOW + timedelta(seconds=1)), ["s2"]),
    ],
)
def test_a_purge_of_a_session_a_channel_or_a_time_erases_its_texts(
    store: MemoryStore, selection: Selection, left: list[str]
) -> None:
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", "Where is the depot?", NOW)]).result()
    told(store)
    told(store, "7 Jul 2026, user: Gretl holds the spare keys", "s2")
    store.set_channel("flushed", learning=True)
    store.purge(selection)
    assert [one.session_id for one in store.told.since()] == left


def test_what_is_held_in_memory_is_bounded(store: MemoryStore) -> None:
    for _ in range(told_texts.MOST_AWAITED + 5):
        told(store)
    assert len(store.told._awaited) == told_texts.MOST_AWAITED
    assert len(store.told._fresh) <= told_texts.MOST_FRESH


def test_the_whole_sessions_behind_the_lines_are_counted_once_a_text(store: MemoryStore) -> None:
    turns = [NewTurn("user", "The port of the orders service is 8443."), NewTurn("assistant", "word " * 400)]
    store.observe(SessionHead("s9", "shop"), turns).result()
    store.core.settle(10)
    (file,) = (store.core.paths.vault / "sessions").rglob("*.md")
    for moment in ("start", "prompt"):
        text = ToldText(NOW, "s1", "shop", "codex", moment, 20)
        store.told.note(text, "The port is 8443.\nAgain 8443.", nodes=[("8443", "s9#1"), ("Again", "s9#2")])
    counts = store.told.counts(store.told.since())
    assert counts.cited == 2 * file.stat().st_size // 4
    assert dict(counts.by_moment) == {"start": 20, "prompt": 20}

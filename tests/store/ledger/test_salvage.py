"""A damaged ledger: set aside, never deleted; another goes on with what promises rest on; the rest is brought back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from dreamd.store.ledger import records
from dreamd.store.ledger.journal import BLIND, Entry
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.ledger.salvage import damaged_files, discard, salvage
from dreamd.store.model import Corrupt

PAGE_BYTES = 4096
AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
RUNS, ENTRIES, TOMBSTONES = 60, 40, 30


def entry(seq: int) -> Entry:
    text = f"Memory {seq} is kept. " + "It is long. " * 400 * (seq % 7 == 0)
    return Entry(seq, "create", f"facts/m{seq}.md", text.encode(), 0, None, None, None)


def fill(ledger: Ledger) -> None:
    for number in range(RUNS):
        run = records.Run(
            f"run-{number:03}", "daily", "applied", AT + timedelta(days=number), summary={"note": "x" * 200}
        )
        ledger.commit([], [records.record_run(run)])
    ledger.commit([entry(seq) for seq in range(1, ENTRIES + 1)])
    ledger.commit([], [records.leave_tombstone(f"turn:s#{n}", "run-001", AT, "forgotten") for n in range(TOMBSTONES)])
    ledger.commit([], [records.set_flag("paused"), records.set_flag("off:shop")])
    ledger.checkpoint(anyway=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path / "ledger.db")
    fill(ledger)
    ledger.close()
    connection = apsw.Connection(str(ledger.path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return ledger.path


@pytest.fixture
def whole(path: Path) -> bytes:
    return path.read_bytes()


def begin_with(path: Path, content: bytes) -> None:
    for file in path.parent.glob("ledger.*"):
        file.unlink()
    path.write_bytes(content)


def noise_over(content: bytes, page: int) -> bytes:
    noise = random.Random(page).randbytes(PAGE_BYTES)
    return content[: page * PAGE_BYTES] + noise + content[(page + 1) * PAGE_BYTES :]


def test_whatever_page_is_damaged_the_ledger_opens_and_salvage_brings_back_nearly_all(path: Path, whole: bytes) -> None:
    pages = len(whole) // PAGE_BYTES
    brought_back = []
    for page in range(pages):
        begin_with(path, noise_over(whole, page))
        ledger = Ledger(path)
        ledger.commit([entry(1000)])  # what is remembered from now on is durable
        assert 1000 in {one.seq for one in ledger.pending()}
        ledger.close()
        if damaged_files(path):
            salvage(path)
            assert not damaged_files(path)
            assert list(path.parent.glob("ledger.salvaged-1.db"))
        ledger = Ledger(path)
        contents = {one.content for one in (*ledger.pending(), *ledger.pending(BLIND))}
        assert contents <= {entry(seq).content for seq in (*range(1, ENTRIES + 1), 1000)}
        brought_back.append((len(ledger.runs(1000)), len(contents) - 1, len(ledger.tombstones()), ledger.paused))
        assert ledger.problems() == []
        ledger.close()
    untouched = (RUNS, ENTRIES, TOMBSTONES, True)
    shares = [sum(one[part] for one in brought_back) / pages / untouched[part] for part in range(3)]
    assert min(shares) > 0.9, shares  # one page of many is lost, and with a root its table


@pytest.mark.parametrize("content", [b"", b"no database at all" * 1000])
def test_a_file_that_is_none_is_kept_beside_the_one_that_is_begun(path: Path, content: bytes) -> None:
    begin_with(path, content)
    ledger = Ledger(path)
    assert [file.read_bytes() for file in damaged_files(path)] == [content]
    ledger.commit([entry(1)])
    ledger.close()
    assert [one.file for one in salvage(path)] == ["ledger.damaged-1.db"]
    ledger = Ledger(path)
    assert [one.seq for one in ledger.pending()] == [1]
    ledger.close()


def test_rows_copied_at_once_are_not_copied_again(path: Path, whole: bytes) -> None:
    begin_with(path, noise_over(whole, len(whole) // PAGE_BYTES // 2))
    ledger = Ledger(path)
    assert damaged_files(path)
    first = ledger.pending()
    assert len(first) > ENTRIES / 2
    ledger.forget_done(first[-1].seq)  # they are in their files, and some may be forgotten since
    ledger.close()
    salvage(path)
    ledger = Ledger(path)
    assert [*ledger.pending(), *ledger.pending(BLIND)] == []
    ledger.close()


def test_discarding_goes_on_without(path: Path, whole: bytes) -> None:
    begin_with(path, noise_over(whole, 1))
    Ledger(path).close()
    assert discard(path) == ["ledger.discarded-1.db"]
    assert not damaged_files(path)
    assert (path.parent / "ledger.discarded-1.db").exists()


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger(path)
    yield opened
    opened.close()


def test_damage_in_use_is_reported_and_a_new_ledger_begins(ledger: Ledger) -> None:
    told = []
    ledger.on_damage = lambda: told.append("damage")
    ledger.in_mind = lambda: [records.leave_tombstone("turn:s#99", "", AT, "known")]
    ledger.path.write_bytes(ledger.path.read_bytes()[:PAGE_BYTES] + bytes(PAGE_BYTES) * 50)
    with pytest.raises(Corrupt):
        ledger.runs(1000)
    assert told == ["damage"]
    ledger.begin_anew([entry(77)])
    assert ledger.damage is None
    assert {77} <= {one.seq for one in ledger.pending()}
    assert "turn:s#99" in ledger.tombstones()
    assert ledger.runs() == []
    ledger.commit([entry(78)])
    assert len(damaged_files(ledger.path)) == 1


def test_a_question_while_another_is_begun_meets_damage_and_is_repeated(ledger: Ledger, path: Path) -> None:
    ledger.damage = Corrupt("found by another thread")
    path.rename(path.with_name("aside.db"))
    with ThreadPoolExecutor(1) as other_thread, pytest.raises(Corrupt, match="another is being begun"):
        other_thread.submit(ledger.counts).result()


def test_a_ledger_that_is_deleted_in_use_is_written_again(ledger: Ledger, path: Path) -> None:
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    ledger.commit([entry(1000)])
    assert len(ledger.runs(1000)) == RUNS
    another = Ledger(path, read_only=True)
    assert len(another.runs(1000)) == RUNS
    another.close()
    assert 1000 in {one.seq for one in ledger.pending()}
    assert damaged_files(path) == []


def test_an_undo_that_would_be_half_is_expired(path: Path) -> None:
    ledger = Ledger(path)
    ledger.commit([], [records.record_run(records.Run("torn", "daily", "applied", AT))])
    connection = apsw.Connection(str(path))
    for ordinal in (0, 2):  # 1 is lost
        connection.execute(
            "INSERT INTO action (run_id, ordinal, kind, path, node_id, stage, reason, state, pre_image)"
            " VALUES ('torn', ?, 'replace', 'a.md', 'a', 's', 'r', 'applied', x'00')",
            (ordinal,),
        )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = (
        int(str(number)) for (number,) in connection.execute("SELECT pageno - 1 FROM dbstat WHERE name = 'tombstone'")
    )
    connection.close()
    ledger.close()
    path.write_bytes(noise_over(path.read_bytes(), page))
    Ledger(path).close()
    assert damaged_files(path)
    salvage(path)
    ledger = Ledger(path)
    assert ledger.run("torn").expired
    ledger.close()

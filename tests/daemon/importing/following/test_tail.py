"""A file that grows: half lines, cuts, replacements, and readers that begin in the middle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dreamd.daemon.importing.following import tail as tail_module
from dreamd.daemon.importing.following.tail import Tail, was_changed
from dreamd.daemon.importing.items import SessionRead
from dreamd.store.model import ReadUpTo

from tests.daemon.importing.following.conftest import line


def told(tail: Tail) -> list[str]:
    """Read to the end of what is there."""
    texts, more = [], True
    while more:
        items, more = tail.step()
        texts += [turn.text for item in items if isinstance(item, SessionRead) for turn in item.turns]
    return texts


def test_each_line_is_read_once_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(line("one"))
    tail = Tail(path, None)
    assert told(tail) == ["one"]
    assert told(tail) == []
    with path.open("ab") as file:
        file.write(line("two") + line("three"))
    assert told(tail) == ["two", "three"]
    assert tail.read_up_to.size_bytes == path.stat().st_size
    assert tail.read_up_to.lines == 3


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path, whole = tmp_path / "s.jsonl", line("Ünï two")
    path.write_bytes(line("one"))
    tail = Tail(path, None)
    assert told(tail) == ["one"]
    for end in range(1, len(whole)):
        path.write_bytes(path.read_bytes()[: tail.read_up_to.size_bytes] + whole[:end])
        assert told(tail) == []
    with path.open("ab") as file:
        file.write(whole[-1:])
    assert told(tail) == ["Ünï two"]


def test_a_file_that_was_cut_or_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(line("one") + line("two"))
    tail = Tail(path, None)
    assert told(tail) == ["one", "two"]
    path.write_bytes(line("three"))
    assert told(tail) == ["three"]
    other = tmp_path / "other"
    other.write_bytes(line("four, which is longer than what was there before"))
    other.replace(path)
    assert told(tail) == ["four, which is longer than what was there before"]


@pytest.mark.parametrize("whole_bytes", [2**19, 100])
def test_a_file_that_was_written_anew_in_its_place_is_read_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> None:
    monkeypatch.setattr(tail_module, "WHOLE_BYTES", whole_bytes)
    path, head = tmp_path / "s.jsonl", line("head " + "h" * 20_000)
    path.write_bytes(head + line("one", "a") + line("two", "b"))
    tail = Tail(path, None)
    assert told(tail)[1:] == ["one", "two"]
    with path.open("ab") as file:
        file.write(line("three", "c"))
    assert told(tail) == ["three"]
    path.write_bytes(head + line("ten", "d") + line("more than there was before", "e") + line("and more", "f"))
    assert told(Tail(path, tail.read_up_to))[1:] == ["ten", "more than there was before", "and more"]
    read = tail.read_up_to
    told(tail)
    path.write_bytes(path.read_bytes().replace(b"and more", b"and less"))
    found = path.stat()
    assert not was_changed(read, read.size_bytes, int(read.mark.split(":")[1]))
    assert was_changed(tail.read_up_to, found.st_size, found.st_mtime_ns)
    assert told(tail)[3:] == ["and less"]
    assert not was_changed(tail.read_up_to, found.st_size, found.st_mtime_ns)


def test_a_copy_with_the_same_beginning_goes_on_where_it_was(tmp_path: Path) -> None:
    path, other = tmp_path / "s.jsonl", tmp_path / "other"
    path.write_bytes(line("one"))
    tail = Tail(path, None)
    assert told(tail) == ["one"]
    other.write_bytes(path.read_bytes() + line("two"))
    other.replace(path)
    assert told(tail) == ["two"]


def test_a_reader_that_begins_in_the_middle_knows_session_line_and_calls(tmp_path: Path) -> None:
    """A rollout without ids: the head is in its first line, a call before the place, its result after it."""
    path = tmp_path / "rollout-1.jsonl"

    def row(kind: str, payload: dict[str, object]) -> bytes:
        return json.dumps({"timestamp": "2026-02-01T10:00:00Z", "type": kind, "payload": payload}).encode() + b"\n"

    def said(text: str) -> bytes:
        return row("response_item", {"type": "message", "role": "user", "content": [{"text": text}]})

    call = row("response_item", {"type": "function_call", "name": "mcp__dreamd__recall", "call_id": "1"})
    result = row("response_item", {"type": "function_call_output", "call_id": "1", "output": [{"text": "It is blue."}]})
    path.write_bytes(row("session_meta", {"id": "t1", "cwd": "/nowhere"}) + b"".join(map(said, "abc")) + call)
    first = Tail(path, None)
    assert told(first) == ["a", "b", "c"]
    with path.open("ab") as file:
        file.write(result + said("d"))
    items, _ = Tail(path, first.read_up_to).step()
    (session,) = [item for item in items if isinstance(item, SessionRead)]
    assert session.head.session_id == "t1"
    assert [(turn.text, turn.external_id) for turn in session.turns] == [("d", "line 7")]


def test_a_reader_begins_far_behind_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "_BEFORE_BYTES", 500)
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(line(f"turn {number}", uuid="") for number in range(40)))
    known = Tail(path, None)
    assert len(told(known)) == 40
    with path.open("ab") as file:
        file.write(b"{broken\n" + line("forty-one"))
    items, _ = Tail(path, known.read_up_to).step()
    assert [item.line for item in items if not isinstance(item, SessionRead)] == [41]
    assert [turn.text for item in items if isinstance(item, SessionRead) for turn in item.turns] == ["forty-one"]


def test_a_step_is_bounded_and_an_overlong_line_is_read_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "STEP_BYTES", 1000)
    monkeypatch.setattr(tail_module, "MAX_LINE_BYTES", 5000)
    path = tmp_path / "s.jsonl"
    long = line("x" * 20_000)
    path.write_bytes(line("one") + long[:15_000])
    tail = Tail(path, None)
    assert told(tail) == ["one"]
    with path.open("ab") as file:
        file.write(long[15_000:] + b"".join(line(f"turn {number}") for number in range(20)))
    items, more = tail.step()
    assert more
    rest = told(tail)
    assert [turn.text for item in items if isinstance(item, SessionRead) for turn in item.turns] + rest == [
        f"turn {number}" for number in range(20)
    ]
    assert tail.read_up_to.lines == 22


def test_what_is_no_transcript_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"level": "info"}\n')
    tail = Tail(path, None)
    assert tail.step() == ([], False)
    assert tail.read_up_to == ReadUpTo(0, 0, "")
    with path.open("ab") as file:
        file.write(line("one"))
    assert told(tail) == ["one"]

"""Settling of one path: the file as found, and the entries of the journal."""

from __future__ import annotations

from dreamd.store.ledger.journal import ChangeKind, Entry, is_torn, settle, sha256
from hypothesis import given
from hypothesis import strategies as st

contents = st.binary(max_size=12)


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[bytes | None], list[Entry]]:
    """A file's states, the first of them from before, and the entries that lead from each to the next."""
    states: list[bytes | None] = [draw(st.none() | contents)]
    entries: list[Entry] = []
    for seq in range(draw(st.integers(1, 5))):
        now = states[-1]
        kinds: list[ChangeKind] = ["create"] if now is None else ["append", "replace", "delete"]
        kind = draw(st.sampled_from(kinds))
        content = b"" if kind == "delete" else draw(contents)
        offset = len(now or b"") if kind == "append" else 0
        pre = sha256(now) if kind in {"replace", "delete"} and now is not None else None
        entries.append(Entry(seq, kind, "p.md", content, offset, pre, None, None))
        states.append({"append": (now or b"") + content, "delete": None}.get(kind, content))
    return states, entries


@given(lives(), st.data())
def test_from_every_state_the_entries_lead_to_the_last(
    life: tuple[list[bytes | None], list[Entry]], data: st.DataObject
) -> None:
    states, entries = life
    found = data.draw(st.sampled_from(states))
    if found is None and states[0] is not None and None not in states[1:]:
        return
    assert settle(found, entries) == (states[-1], ())
    assert settle(states[-1], entries) == (states[-1], ())


@given(contents, contents, contents)
def test_what_was_appended_is_there_whatever_a_person_did(base: bytes, added: bytes, found: bytes) -> None:
    settled = settle(found, [Entry(1, "append", "p.md", added, len(base), None, None, None)])
    assert settled.content is not None
    assert added in settled.content
    assert not settled.kept_out


def test_what_a_person_added_behind_the_last_turn_outlives_a_replacement() -> None:
    append = Entry(1, "append", "p.md", b"cd", 2, None, None, None)
    replace = Entry(2, "replace", "p.md", b"EF", 0, sha256(b"abcd"), None, None)
    for found in (b"ab", b"abc", b"ab\0\0", b"abcd", b"E\0", b"EF"):
        assert settle(found, [append, replace]) == (b"EF", ())
    assert settle(b"abx", [append, replace]) == (b"abx\ncd", (replace,))


def test_torn_means_less_of_the_same() -> None:
    assert is_torn(b"", b"abc")
    assert is_torn(b"ab", b"abc")
    assert is_torn(b"a\0", b"abc")
    assert not is_torn(b"abcd", b"abc")
    assert not is_torn(b"x\0", b"abc")

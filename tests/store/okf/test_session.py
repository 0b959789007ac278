"""The L0 file: every text survives, every cut is seen, every boundary is a place to go on from."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from dreamd.store import okf
from dreamd.store.model import NewTurn, SessionHead, Turn
from dreamd.store.okf import session
from dreamd.store.okf.file import conformance
from hypothesis import example, given
from hypothesis import strategies as st

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
HEAD = SessionHead("s1", "app-1a2b3c", "A title: with a colon", AT, agent_id="claude-code/2", cwd="/home/me/app")

NASTY = [
    "",
    "\n",
    "\n\n",
    "\r\n",
    "\0",
    "---\n",
    '<!-- turn n=1 role="user" bytes=0 sha256="e3b0c44298fc1c14" -->\n\n\n',
    "<!-- turn torn n=7 -->\n",
    "\\<!-- turn ",
    "\\\\<!-- turn x\n<!-- turn ",
    "a\n<!-- turn ",
    "<!-- ",
    "-->",
    "a\u2028b\x85c\x0bd",
    "🙂 καλημέρα",
    "text that ends in a newline\n",
]
texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=20), max_size=4).map("".join)
names = st.text(max_size=12) | st.sampled_from(['"', "\\", "-->", "a\nb", "user", "\ud800", "D1:3"])
instants = (
    st.none()
    | st.datetimes(
        min_value=datetime(1, 1, 2),
        max_value=datetime(9999, 12, 30),
        timezones=st.just(UTC),
    )
    | st.just(AT.astimezone(timezone(timedelta(hours=5, minutes=30))))
)
new_turns = st.builds(NewTurn, role=names, text=texts, at=instants, external_id=st.none() | names)
conversations = st.lists(new_turns, max_size=5)


def file_of(turns: list[NewTurn]) -> bytes:
    return session.open_file(HEAD) + session.encode_turns(turns, 1)


def clean(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def said(turn: Turn) -> tuple[str, str, datetime | None, str | None]:
    return turn.role, turn.text, turn.at, turn.external_id


@given(conversations)
def test_every_turn_comes_back_as_it_went_in(turns: list[NewTurn]) -> None:
    data = file_of(turns)
    parsed = session.parse(data, session_id="s1")
    assert [said(turn) for turn in parsed.turns] == [
        (clean(turn.role), clean(turn.text), turn.at, turn.external_id and clean(turn.external_id)) for turn in turns
    ]
    assert [turn.node_id for turn in parsed.turns] == [f"s1#{n}" for n in range(1, len(turns) + 1)]
    assert (parsed.end, parsed.torn, parsed.next_ordinal, parsed.closing) == (len(data), False, len(turns) + 1, b"")
    assert all(data[turn.offset :].startswith(b"<!-- turn n=") for turn in parsed.turns)


@given(conversations, st.data())
def test_a_parse_from_any_turn_is_the_tail_of_the_whole(turns: list[NewTurn], data: st.DataObject) -> None:
    content = file_of(turns)
    whole = session.parse(content, session_id="s1")
    start = data.draw(st.integers(0, len(turns)))
    offset = whole.turns[start].offset if start < len(turns) else whole.end
    tail = session.parse(content, offset, "s1", start + 1)
    assert tail == session.Parsed(whole.turns[start:], whole.end, False, whole.next_ordinal, whole.resume_ordinal)


@given(conversations, st.data())
def test_a_cut_anywhere_is_seen_and_can_be_closed(turns: list[NewTurn], data: st.DataObject) -> None:
    content = file_of(turns)
    whole = session.parse(content, session_id="s1")
    head = len(session.open_file(HEAD))
    boundaries = {0, head, *(turn.end + 2 for turn in whole.turns)}
    cut = data.draw(st.integers(0, len(content)))

    parsed = session.parse(content[:cut], session_id="s1")
    assert parsed.turns == whole.turns[: len(parsed.turns)]
    assert [turn for turn in whole.turns if turn.end <= cut] == list(parsed.turns)
    assert parsed.torn is (cut not in boundaries)

    # What is written next gets a number that nobody had, and nothing of the torn turn is taken for a turn.
    added = [NewTurn("user", "after the crash"), NewTurn("assistant", "<!-- turn torn n=1 -->")]
    mended = content[:cut] + parsed.closing + session.encode_turns(added, parsed.next_ordinal)
    again = session.parse(mended, session_id="s1")
    assert again.turns[:-2] == parsed.turns
    assert [turn.text for turn in again.turns[-2:]] == [turn.text for turn in added]
    assert [turn.ordinal for turn in again.turns[-2:]] == [parsed.next_ordinal, parsed.next_ordinal + 1]
    assert (again.torn, again.end) == (False, len(mended))
    torn_turn = parsed.torn and cut > head and len(parsed.turns) < len(turns) and parsed.end != cut
    assert parsed.next_ordinal == len(parsed.turns) + (
        2 if torn_turn or (not parsed.turns and parsed.next_ordinal == 2) else 1
    )

    # Going on from where the cut file ended reads the same.
    resumed = session.parse(mended, parsed.end, "s1", parsed.resume_ordinal)
    assert (parsed.turns + resumed.turns, resumed.end) == (again.turns, again.end)
    # And so does going on when the torn turn has been made whole.
    resumed = session.parse(content, parsed.end, "s1", parsed.resume_ordinal)
    assert parsed.turns + resumed.turns == whole.turns


@given(conversations, st.data())
def test_two_crashes_in_a_row_are_survived(turns: list[NewTurn], data: st.DataObject) -> None:
    content = file_of(turns)
    first = content[: data.draw(st.integers(0, len(content)))]
    parsed = session.parse(first, session_id="s1")
    mended = first + parsed.closing + session.encode_turn(NewTurn("user", "hello\nthere"), parsed.next_ordinal)
    second = mended[: data.draw(st.integers(len(first), len(mended)))]
    closed = session.parse(second, session_id="s1")
    assert closed.turns[: len(parsed.turns)] == parsed.turns
    final = second + closed.closing + session.encode_turn(NewTurn("user", "still here"), closed.next_ordinal)
    again = session.parse(final, session_id="s1")
    assert again.turns[-1].text == "still here"
    assert again.turns[:-1] == closed.turns
    assert not again.torn
    assert len({turn.ordinal for turn in again.turns}) == len(again.turns)


@given(conversations, st.integers(1, 50))
def test_zeros_where_a_turn_should_be_are_torn(turns: list[NewTurn], zeros: int) -> None:
    content = file_of(turns)
    parsed = session.parse(content + b"\0" * zeros, session_id="s1")
    assert parsed.torn
    assert len(parsed.turns) == len(turns)
    mended = content + b"\0" * zeros + parsed.closing + session.encode_turn(NewTurn("u", "x"), parsed.next_ordinal)
    assert session.parse(mended, session_id="s1").turns[-1].text == "x"


def test_a_turn_whose_text_is_zeros_is_torn() -> None:
    content = file_of([NewTurn("user", "one"), NewTurn("user", "two is longer")])
    whole = session.parse(content, session_id="s1")
    lost = content[: whole.turns[1].end - 6] + b"\0" * 8
    parsed = session.parse(lost, session_id="s1")
    assert (len(parsed.turns), parsed.torn, parsed.next_ordinal) == (1, True, 3)


@pytest.mark.parametrize("new", ["a much longer text than there was", "x", "", "several\n\nparagraphs\n"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_text_changed_by_hand_is_read_as_it_is_now(which: int, new: str) -> None:
    old = ["first text", "second text", "last"]
    content = file_of([NewTurn("user", text) for text in old]).replace(old[which].encode(), new.encode())
    parsed = session.parse(content, session_id="s1")
    assert [turn.text for turn in parsed.turns] == [new if n == which else text for n, text in enumerate(old)]
    assert not parsed.torn


def test_a_file_saved_with_other_line_ends_is_still_read() -> None:
    content = file_of([NewTurn("user", "one\ntwo"), NewTurn("assistant", "three")]).replace(b"\n", b"\r\n")
    parsed = session.parse(content, session_id="s1")
    assert [turn.text for turn in parsed.turns] == ["one\r\ntwo", "three"]
    assert not parsed.torn


def test_a_turn_copied_by_hand_gets_a_number_of_its_own_and_a_deleted_one_leaves_a_gap() -> None:
    turns = [session.encode_turn(NewTurn("user", f"text {n}"), n) for n in (1, 2, 3)]
    parsed = session.parse(session.open_file(HEAD) + turns[0] + turns[2] + turns[0], session_id="s1")
    assert [(turn.ordinal, turn.text) for turn in parsed.turns] == [(1, "text 1"), (3, "text 3"), (4, "text 1")]


def test_a_note_by_hand_at_the_end_is_passed_over_and_kept() -> None:
    content = file_of([NewTurn("user", "one")]) + b"my own remark"
    parsed = session.parse(content, session_id="s1")
    assert (len(parsed.turns), parsed.torn) == (1, False)
    mended = content + parsed.closing + session.encode_turn(NewTurn("user", "two"), parsed.next_ordinal)
    assert [turn.text for turn in session.parse(mended).turns] == ["one", "two"]


@given(st.binary(max_size=300))
@example(b'<!-- turn n=1 role="u" bytes=99999999999 sha256="0123456789abcdef" -->\n')
@example(b"<!-- turn torn n=3 -->\n<!-- turn n=")
def test_no_bytes_break_the_parser(data: bytes) -> None:
    for content in (data, session.open_file(HEAD) + data):
        parsed = session.parse(content, session_id="s1")
        mended = content + parsed.closing + session.encode_turn(NewTurn("user", "x"), parsed.next_ordinal)
        assert session.parse(mended, session_id="s1").turns[-1].text == "x"


def test_the_head_is_okf_and_comes_back() -> None:
    content = session.open_file(HEAD)
    path = session.path_of(HEAD)
    assert path == "sessions/2026/11/21/s1.md"
    assert conformance(path, content) == []
    assert session.head_of(path, okf.parse(content)) == HEAD
    assert session.head_of(path, okf.parse(b"---\n: :\n---\n")) == SessionHead("s1", "_global")


def test_a_session_lies_under_the_utc_day_on_which_it_began() -> None:
    late = datetime(2026, 11, 21, 23, 30, tzinfo=timezone(timedelta(hours=-2)))
    assert session.path_of(SessionHead("x", "c", started_at=late)) == "sessions/2026/11/22/x.md"
    assert session.path_of(SessionHead("x", "c")) == "sessions/undated/x.md"


@given(st.text(max_size=120))
@example("../../etc/passwd")
@example(".hidden")
@example("index")
@example("a" * 81)
def test_any_outside_id_becomes_a_safe_one(raw: str) -> None:
    made = session.session_id(raw)
    assert len(made.encode()) <= session.MAX_ID_BYTES
    assert not made.startswith((".", "-"))
    assert made not in {"", "index", "log"}
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in made)
    assert session.session_id(made) == made


def test_a_safe_id_stays_and_a_changed_one_is_told_apart() -> None:
    for raw in ("conv-26_session_1", "0b6f7a3c-5d1e-4c55-9f0e-5a1f6f2f7d11"):
        assert session.session_id(raw) == raw
    assert session.session_id("a/b") != session.session_id("a:b")
    assert session.session_id("a/b").startswith("a-b-")


def test_a_turn_says_who_speaks_and_a_person_may_say_it_otherwise() -> None:
    turns = [NewTurn("user", "**Bold**\n\nhello", AT), NewTurn("assistant", "hi there")]
    content = session.open_file(HEAD) + session.encode_turns(turns, 1)
    assert f"named -->\n**User** · {AT:%Y-%m-%d %H:%M}\n\n**Bold**".encode() in content
    assert b"named -->\n**Assistant**\n\nhi there\n\n" in content
    name = f"**User** · {AT:%Y-%m-%d %H:%M}\n\n".encode()
    for other in (b"**Tunde**, in the morning\n\n", b"**Tunde**\r\n\r\n".replace(b"\r\n\r\n", b"\n\n"), b""):
        read = session.parse(content.replace(name, other)).turns
        assert [turn.text for turn in read] == [turn.text for turn in turns]
    edited = session.parse(content.replace(b"hello", b"good morning")).turns
    assert [turn.text for turn in edited] == ["**Bold**\n\ngood morning", "hi there"]


def test_turns_of_before_have_no_name_and_are_read_as_they_were() -> None:
    turns = [NewTurn("user", "**Bold**\n\nhello", AT), NewTurn("assistant", "hi there")]
    named = session.encode_turns(turns, 1)
    before = re.sub(rb" named -->\n\*\*[^\n]*\n\n", b" -->\n", named)
    assert b"**User**" not in before
    content = session.open_file(HEAD) + before
    assert [turn.text for turn in session.parse(content).turns] == [turn.text for turn in turns]
    longer = content + session.encode_turns(turns, 3)
    assert [turn.ordinal for turn in session.parse(longer).turns] == [1, 2, 3, 4]


def test_a_crash_within_the_name_closes_the_turn_and_keeps_its_number() -> None:
    first = session.open_file(HEAD) + session.encode_turn(NewTurn("user", "one", AT), 1)
    second = session.encode_turn(NewTurn("assistant", "two **is** more", AT), 2)
    for cut in range(second.index(b"-->") + 4, len(second) - 2):
        for zeros in (b"", b"\0\0"):
            torn = session.parse(first + second[:cut] + zeros)
            assert torn.torn, cut
            mended = first + second[:cut] + zeros + torn.closing + session.encode_turn(NewTurn("user", "three"), 3)
            read = session.parse(mended)
            assert [(turn.ordinal, turn.text) for turn in read.turns] == [(1, "one"), (3, "three")], cut

"""Versions of one memory become one file: the same on every machine, and nothing that a person wrote is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.model import Kind, Level, Memory, NewTurn, NodeId, SessionHead, Turn
from dreamd.store.okf import session
from dreamd.store.okf.memory_file import BY_HAND, EDITED_AT, body_hash
from dreamd.store.upkeep.merging import (
    MemoryVersion,
    ToldTurn,
    arranged,
    merged,
    session_lines,
    told_of,
    turn_key,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
TEXTS = ("The kiln is in the shed.", "Tom sweeps.", "Ines orders clay.")
NODE = okf.fact_id("kiln", "The kiln is in the shed.")


def fact(text: str = "The kiln is in the shed.", *, hour: int = 9, level: Level = Level.FACT, **keys: Any) -> bytes:
    kind = Kind.PROFILE if level is Level.PROFILE else Kind.FACT
    memory = Memory(node_id=NODE, level=level, kind=kind, title="Kiln", text=text, channel="kiln", created_at=NOW)
    written = {EDITED_AT: f"2026-11-21T{hour:02}:00:00+00:00"} if text != "The kiln is in the shed." else {}
    return okf.edit(okf.from_memory(memory), {**written, **keys})


def page(text: str, known: str, hour: int = 9) -> bytes:
    return okf.edit(fact(text, hour=hour, level=Level.PROFILE), {BY_HAND: body_hash(known)})


def versions(*data: bytes) -> list[MemoryVersion]:
    return [MemoryVersion(f"{number:02}", one) for number, one in enumerate(data)]


def body(data: bytes) -> str:
    return okf.parse(data).body.strip()


def test_one_version_is_itself() -> None:
    assert merged(versions(fact()), None).data == fact()


def test_what_each_changed_is_in_the_merge() -> None:
    before = fact(tags=["a", "b"])
    one, other = okf.edit(before, {"tags": ["b", "c"]}), okf.edit(before, {"tags": ["a", "b", "d"], "certainty": 0.5})
    result = merged(versions(one, other), before)
    meta = okf.parse(result.data).meta
    assert (sorted(meta["tags"]), meta["certainty"], result.beside) == (["b", "c", "d"], 0.5, ())


def test_a_text_that_is_surely_replaced_is_kept_as_replaced() -> None:
    one, other = (
        fact("Deploys run on Jenkins.", hour=10),
        fact("Deploys run on Buildkite now, not on Jenkins.", hour=11),
    )
    result = merged(versions(one, other), fact())
    assert body(result.data).startswith("Deploys run on Buildkite")
    ((node, kept),) = result.beside
    assert okf.parse(kept).meta["superseded_by"] == NODE
    assert okf.parse(result.data).meta["supersedes"] == [node]


def test_two_texts_without_a_sign_are_disputed() -> None:
    result = merged(versions(fact("Tom sweeps the yard.", hour=11), fact("Ines orders clay.", hour=10)), fact())
    ((node, kept),) = result.beside
    assert (body(result.data), body(kept)) == ("Tom sweeps the yard.", "Ines orders clay.")
    assert okf.parse(kept).meta["contradicts"] == [NODE]
    assert okf.parse(result.data).meta["contradicts"] == [node]


def test_of_a_page_a_persons_text_stays() -> None:
    before = page("- old", "- old")
    dreamt = page("- new, by a dream", "- new, by a dream", 12)
    by_hand = page("- mine", "- old", 10)
    result = merged(versions(dreamt, by_hand), before)
    assert (body(result.data), result.beside) == ("- mine", ())


def test_of_a_document_the_later_stays() -> None:
    one, other = fact("a", hour=10, kind="document"), fact("b", hour=11, kind="document")
    result = merged(versions(other, one), fact(kind="document"))
    assert (body(result.data), result.beside) == ("b", ())


def test_two_successors_are_named_as_rivals() -> None:
    one, other = fact(superseded_by="aaa"), fact(superseded_by="bbb")
    assert merged(versions(one, other), fact()).rivals == (("aaa", "bbb"),)


def test_a_persons_note_without_frontmatter_is_kept_beside_the_later() -> None:
    result = merged(versions(b"one\n", b"other\n"), None)
    ((_, kept),) = result.beside
    assert (result.data, body(kept)) == (b"other\n", "one")


@pytest.mark.parametrize("before", [None, fact()])
@given(
    texts=st.lists(
        st.sampled_from(["The kiln is in the shed.", "Tom sweeps.", "Ines orders clay."]), min_size=2, max_size=3
    ),
    tags=st.lists(st.lists(st.sampled_from("abc"), unique=True), min_size=3, max_size=3),
)
def test_the_order_of_versions_does_not_matter(texts: list[str], tags: list[list[str]], before: bytes | None) -> None:
    data = [fact(text, hour=10 + n, tags=tags[n] or None) for n, text in enumerate(texts)]
    results = {
        (one.data, one.beside, one.rivals) for order in permutations(versions(*data)) for one in [merged(order, before)]
    }
    assert len(results) == 1
    (result,) = results
    kept = {body(result[0]), *(body(one) for _, one in result[1])}
    assert kept >= set(texts) - ({body(before)} if before else set())


# ---- the lines of a session

Lines = dict[NodeId, list[str]]


def turn(text: str, ordinal: int, minute: int = 0, external_id: str | None = None) -> Turn:
    return Turn("S", ordinal, "user", text, NOW + timedelta(minutes=minute), external_id)


def read(images: dict[NodeId, bytes], told: Iterable[ToldTurn]) -> None:
    """Have the files of a session's lines take in turns that came, as a machine does."""

    def lines() -> dict[NodeId, Any]:
        here = [one for line, image in images.items() for one in told_of(session.parse(image, session_id=line).turns)]
        return session_lines("S", [*told, *here])

    def opened(line: NodeId) -> bytes:
        return session.open_file(SessionHead(line, "kiln", started_at=NOW))

    for line, image in arranged(lines(), images, opened).files.items():
        images.pop(line, None)
        images |= {line: image} if image is not None else {}
    for line, turns in lines().items():
        for one in (one.turn for one in turns if not one.here):
            parsed = session.parse(images.setdefault(line, opened(line)))
            new = NewTurn(one.role, one.text, one.at, one.external_id)
            images[line] += parsed.closing + session.encode_turn(new, max(one.ordinal, parsed.next_ordinal))


def texts(images: dict[NodeId, bytes]) -> Lines:
    return {line: [f"{one.ordinal} {one.text}" for one in session.parse(images[line]).turns] for line in sorted(images)}


def after_each(orders: Iterable[Sequence[Sequence[ToldTurn]]]) -> list[Lines]:
    """Return the lines after the segments came in each of these orders, one by one."""
    found = []
    for order in orders:
        images: dict[NodeId, bytes] = {}
        for number in range(len(order)):
            read(images, [one for segment in order[: number + 1] for one in segment])
        found.append(texts(images))
    return found


@pytest.mark.parametrize("first", [None, ""], ids=["entries of before", "entries that name the turn before"])
def test_three_forks_of_a_session_become_the_same_lines_in_whatever_order_they_come(first: str | None) -> None:
    one, forks = (
        turn("1", 1),
        {name: [turn(f"2{name}", 2, at), turn(f"3{name}", 3, at)] for at, name in enumerate("abc")},
    )
    names_the_one_before = first is not None
    segments = [
        [
            ToldTurn(told.turn, told.after if names_the_one_before else None, name)
            for told in told_of([one, *turns])
            if told.turn is not one or name == "a"
        ]
        for name, turns in forks.items()
    ]
    found = after_each(permutations(segments))
    assert all(lines == found[0] for lines in found)
    names = [f"S-fork-{turn_key(forks[name][0])[:8]}" for name in "bc"]
    assert found[0] == {
        "S": ["1 1", "2 2a", "3 3a"], names[0]: ["2 2b", "3 3b"], names[1]: ["2 2c", "3 3c"],
    }  # fmt: skip


@st.composite
def segments_of_a_session(draw: st.DrawFn) -> list[list[ToldTurn]]:
    """Draw a tree of turns, each written by one of three machines after a turn that any of them wrote."""
    turns, segments = list[Turn](), {name: list[ToldTurn]() for name in "abc"}
    for number in range(draw(st.integers(1, 9))):
        before = draw(st.sampled_from([None, *turns]))
        ordinal = before.ordinal + draw(st.integers(1, 2)) if before else 1
        named = str(number) if draw(st.booleans()) else None
        new = turn(f"turn {number}", ordinal, draw(st.integers(0, 3)) + (0 if named else 10 * number), named)
        turns.append(new)
        told = ToldTurn(new, turn_key(before) if before else "", name := draw(st.sampled_from("abc")))
        segments[name].append(told)
    return [some for some in segments.values() if some]


@given(segments_of_a_session())
def test_the_lines_of_a_session_do_not_depend_on_the_order_of_segments(segments: list[list[ToldTurn]]) -> None:
    found = after_each(permutations(segments))
    assert all(lines == found[0] for lines in found)
    every = sorted(text.partition(" ")[2] for line in found[0].values() for text in line)
    assert every == sorted(one.turn.text for some in segments for one in some)


@given(segments_of_a_session(), st.integers(0, 2))
def test_a_turn_that_was_told_of_stays_before_one_that_was_not(segments: list[list[ToldTurn]], which: int) -> None:
    told, here = [one for some in segments for one in some], [turn(f"here {number}", number, -1) for number in (1, 2)]
    lines = session_lines("S", [*told, *told_of(here)])
    alone = session_lines("S", told)
    assert {line: turns for line, turns in lines.items() if line in alone} == alone
    assert [[one.turn.text for one in lines[line]] for line in lines.keys() - alone.keys()] == [["here 1", "here 2"]]

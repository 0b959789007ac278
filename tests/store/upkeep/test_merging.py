"""Versions of one memory become one file: the same on every machine, and nothing that a person wrote is lost."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.model import Kind, Level, Memory
from dreamd.store.okf.memory_file import BY_HAND, EDITED_AT, body_hash
from dreamd.store.upkeep.merging import MemoryVersion, merged
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

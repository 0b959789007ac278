"""Sections of long texts: what matched and what stands around it, evenly, inside a budget."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dreamd.store.memory import MemoryStore
from dreamd.store.search.hits import (
    FALLBACK_CHARS,
    MOST_CHARS,
    merged,
    section_budget,
    widened,
)
from dreamd.store.text.sentences import joined_sentences
from hypothesis import given
from hypothesis import strategies as st

PARTS = (
    ("Mooring", "The mooring costs {0} crowns a month in berth {0}. It is paid in the harbour office before noon."),
    (
        "Paint",
        "Coat number {0} is dark blue and dries for {0} hours. After coat {0} the brush is washed in white spirit.",
    ),
    ("Sails", "Sail {0} is folded in three and kept dry in locker {0}. A wet sail is hung up before the evening."),
    ("Engine", "Before start number {0} the oil is checked twice. The filter is changed every {0} hours of running."),
)


def note() -> str:
    """Return a note of four sections, each of about 3,000 characters."""
    return "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(text.format(number) for number in range(10, 40)) for title, text in PARTS
    )


@given(st.lists(st.tuples(st.integers(0, 9_000), st.integers(1, 900)), min_size=1, max_size=4), st.integers(1, 9_000))
def test_widened_spans_are_apart_in_order_and_within_the_budget(places: list[tuple[int, int]], budget: int) -> None:
    text = note()
    spans = [(start, start + size) for start, size in places]
    found = widened(text, joined_sentences(text), spans, budget)
    headings = sum(len(title) + 5 for title, _ in PARTS)
    assert sum(end - start for start, end in found) <= max(budget, places[0][1]) + headings
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))
    assert any(start <= spans[0][0] and spans[0][1] <= end for start, end in found)


def test_it_grows_on_both_sides_by_whole_sentences() -> None:
    text = note()
    start = text.index("Coat number 20")
    ((begin, end),) = widened(text, joined_sentences(text), [(start, start + 40)], 1200)
    assert text[begin:end].startswith(("Coat", "After coat"))
    assert text[begin:end].endswith(".")
    assert start - begin == pytest.approx(end - start - 40, abs=200)


def test_a_heading_right_above_belongs_to_the_section() -> None:
    text = note()
    start = text.index("Coat number 10")
    ((begin, _),) = widened(text, joined_sentences(text), [(start, start + 90)], 100)
    assert text[begin:].startswith("## Paint")


@pytest.mark.parametrize(
    ("parents", "chunk", "most", "budget"),
    [
        ([], 1600, MOST_CHARS, FALLBACK_CHARS),
        ([3000, 5000, 9000], 1600, MOST_CHARS, 5000),
        ([20_000], 1600, MOST_CHARS, MOST_CHARS),
        ([2100], 2400, MOST_CHARS, 2400),
        ([20_000], 1600, 3200, 3200),
    ],
)
def test_the_budget_is_the_usual_length_of_long_texts_within_bounds(
    parents: list[int], chunk: int, most: int, budget: int
) -> None:
    assert section_budget(parents, chunk, most) == budget


def test_spans_that_overlap_are_one() -> None:
    assert merged([(200, 300), (0, 100), (50, 120)]) == [(0, 120), (200, 300)]


def test_a_hit_of_a_long_note_is_its_section(store: MemoryStore) -> None:
    store.remember(note(), channel="boat").result()
    (hit,) = store.recall("Which coat of paint is dark blue, and how long does it dry?", channel="boat").hits
    assert hit.text.count("dark blue") > 4
    assert len(hit.text) <= 1300
    assert "filter is changed" not in hit.text
    assert hit.text.startswith("…")
    assert hit.text.endswith("…")


def test_a_large_budget_is_spent_on_the_section_and_a_small_one_is_not(store: MemoryStore) -> None:
    store.remember(note(), channel="boat").result()
    store.remember("The harbour master is called Jens.", channel="boat").result()
    asked = "Which coat of paint is dark blue, and how long does it dry?"
    small, large = (store.context(asked, channel="boat", budget_tokens=budget) for budget in (500, 4000))
    assert small.tokens <= 500
    assert 700 < large.tokens <= 4000
    assert large.text.count("dark blue") > small.text.count("dark blue")
    assert "the brush is washed" in large.text
    assert "filter is changed" not in large.text
    assert large.text.count("harbour master") <= 1


def test_a_note_that_is_all_about_the_question_is_told_more_of_by_a_larger_budget(store: MemoryStore) -> None:
    store.remember("\n\n".join(PARTS[1][1].format(number) for number in range(10, 99)), channel="boat").result()
    asked = "Which coat of paint is dark blue, and how long does it dry?"
    tokens = [store.context(asked, channel="boat", budget_tokens=budget).tokens for budget in (1000, 2000, 4000)]
    assert tokens[0] < tokens[1]
    assert tokens[2] > 1.2 * tokens[0]


def test_a_hit_of_a_long_note_says_which_part_of_it_it_is(store: MemoryStore) -> None:
    store.remember(note(), channel="boat").result()
    store.remember("The harbour master is called Jens.", channel="boat").result()
    (hit,) = store.recall("Where is a wet sail hung up?", channel="boat", max_facts=1).hits
    assert hit.chunk is not None
    assert hit.chunks is not None
    assert 1 < hit.chunk < hit.chunks
    assert "wet sail" in hit.text
    short = store.recall("harbour master", channel="boat").hits[0]
    assert (short.chunk, short.chunks) == (None, None)

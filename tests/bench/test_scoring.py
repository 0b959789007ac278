"""The scorer is what every claim rests on, so its rules are tested one by one."""

from __future__ import annotations

import random

import pytest

from .scoring import (
    ScoredEnvelope,
    ScoredSlot,
    answer_coverage,
    any_found,
    carried_in_envelope,
    content_words,
    distinct_turns,
    evidence_recall,
    paired_bootstrap,
    recall_in_envelope,
    score_envelope,
    wordpieces,
)


def words(text: str) -> int:
    return len(text.split())


def slot(tokens: int, *evidence: str) -> ScoredSlot:
    return ScoredSlot(" ".join(["word"] * tokens), evidence)


def test_turns_are_distinct_and_in_the_order_of_hits() -> None:
    assert distinct_turns([["b"], ["a", "b"], ["c"]]) == ["b", "a", "c"]


def test_a_hit_counts_for_its_first_three_turns() -> None:
    assert distinct_turns([["a", "b", "c", "d"], ["e"]]) == ["a", "b", "c", "e"]


def test_a_turn_beyond_the_cap_counts_through_another_hit() -> None:
    assert distinct_turns([["a", "b", "c", "d"], ["d"]]) == ["a", "b", "c", "d"]


def test_evidence_recall_is_a_fraction_of_the_gold() -> None:
    assert evidence_recall(["a", "x", "b"], {"a", "b"}, 2) == 0.5
    assert evidence_recall(["a", "x", "b"], {"a", "b"}, 3) == 1.0
    assert evidence_recall([], {"a"}, 10) == 0.0


def test_any_found_looks_no_further_than_k() -> None:
    assert any_found(["x", "a"], {"a", "b"}, 1) == 0.0
    assert any_found(["x", "a"], {"a", "b"}, 2) == 1.0


def test_a_slot_counts_for_a_turn_every_25_tokens() -> None:
    one = score_envelope("", [slot(25, "a", "b")], 100, words)
    assert one.turns == ("a",)
    two = score_envelope("", [slot(26, "a", "b", "c")], 100, words)
    assert two.turns == ("a", "b")


def test_an_empty_slot_counts_for_nothing() -> None:
    assert score_envelope("", [slot(0, "a")], 100, words).turns == ()


def test_an_envelope_over_its_budget_scores_nothing() -> None:
    full = score_envelope(" ".join(["word"] * 10), [slot(10, "a")], 10, words)
    assert recall_in_envelope(full, {"a"}) == 1.0
    over = score_envelope(" ".join(["word"] * 11), [slot(10, "a")], 10, words)
    assert not over.fits
    assert recall_in_envelope(over, {"a"}) == 0.0
    assert answer_coverage(over, "word") == 0.0


def test_slots_that_hold_more_than_the_text_are_counted_too() -> None:
    assert not score_envelope("short", [slot(8, "a"), slot(8, "b")], 10, words).fits


def test_an_envelope_that_abstains_scores_nothing() -> None:
    nothing = score_envelope("", [], 10, words)
    assert nothing.fits
    assert recall_in_envelope(nothing, {"a"}) == 0.0


def test_a_slot_carries_a_turn_with_a_word_of_the_answer_that_is_not_the_question_s() -> None:
    slots = (ScoredSlot("the colour of the lamp", ("a",)), ScoredSlot("it is purple", ("b", "c")))
    envelope = ScoredEnvelope(slots, 8, True, "")
    asked = "Which colour is the lamp?"
    assert carried_in_envelope(envelope, {"a", "b"}, asked, "The lamp is purple") == 0.5
    assert carried_in_envelope(envelope, {"a", "b"}, asked, "The lamp's colour is green") == 0.0
    assert carried_in_envelope(envelope, {"a", "b"}, asked, "It is the lamp") is None


def test_nothing_is_carried_over_the_budget() -> None:
    over = score_envelope("", [slot(11, "a")], 10, words)
    assert carried_in_envelope(over, {"a"}, "what", "word") == 0.0


def test_coverage_is_of_stems_without_stop_words() -> None:
    envelope = ScoredEnvelope((), 9, True, "She painted the sunrises by a lake")
    assert answer_coverage(envelope, "the painting of a sunrise") == 1.0
    assert answer_coverage(envelope, "a sunset at the lake") == 0.5
    assert answer_coverage(envelope, "the of") is None


@pytest.mark.parametrize(
    "written",
    [
        "7 May 2023",
        "May 7, 2023",
        "May 7th 2023",
        "2023-05-07",
        "7th of May, 2023",
        "2023-05-07T13:56:00+00:00",
        "07 may 2023",
    ],
)
def test_a_date_is_the_same_however_it_is_written(written: str) -> None:
    assert content_words(written) >= content_words("7 May 2023") == {"7", "may", "2023"}


def test_months_alone_and_abbreviated() -> None:
    assert content_words("Sept 2022") == content_words("September 2022") == content_words("2022-09")
    assert content_words("Jan 3") == content_words("January 3")


@pytest.mark.parametrize("text", ["2023-13-45", "she may paint", "port 8080-90", "v1.2.3"])
def test_what_is_no_date_stays_as_it_is(text: str) -> None:
    assert content_words(text)


def test_the_bootstrap_sees_a_difference_and_none() -> None:
    rng = random.Random(7)
    before = [float(i % 2) for i in range(200)]
    better = [1.0 if i % 4 == 0 else value for i, value in enumerate(before)]
    difference = paired_bootstrap(before, better, rng)
    assert difference.mean == pytest.approx(0.25)
    assert 0 < difference.low < 0.25 < difference.high
    same = paired_bootstrap(before, before, rng)
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_the_bootstrap_is_paired() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_bootstrap([0.0], [0.0, 1.0], random.Random(7))
    with pytest.raises(ValueError, match="no questions"):
        paired_bootstrap([], [], random.Random(7))


def test_wordpieces_are_counted_whole() -> None:
    count = wordpieces()
    assert count("") == 0
    assert count("hello world") == 2
    assert count("word " * 1000) == 1000

from __future__ import annotations

from dreamd.pipelines.grounding.verify import COMMON, SharedWords

SAID = ["The office is in Oslo", "The kettle is blue", "The blue office", "The office is in Bergen now"]


def test_earlier_texts_that_share_the_rarest_words_come_first() -> None:
    shared = SharedWords(SAID)
    for place in range(3):
        shared.add(place)
    assert shared.shared_with(3) == [2, 0]
    assert shared.shared_with(1) == [1, 2]


def test_a_word_of_nearly_all_finds_nothing() -> None:
    shared = SharedWords(["The kettle"] * (COMMON + 1))
    shared.add(0)
    assert shared.shared_with(1) == []

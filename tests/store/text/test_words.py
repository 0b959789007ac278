"""What a statement names."""

from __future__ import annotations

import pytest
from dreamd.store.text.words import MOST_NAMES, entities_in, names_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Berta's dog eats what Ines Vogel cooks.", ["Ines Vogel", "Berta"]),
        ("The API of `pay-hub` is in main.py. On Monday Tom deploys it.", ["API", "Tom", "pay-hub", "main.py"]),
        ("We never deploy on Fridays.", ["Fridays"]),
        ("When it rains, I stay.", []),
    ],
)
def test_a_statement_is_of_what_it_names(text: str, names: list[str]) -> None:
    assert list(entities_in(text)) == names


def test_a_name_that_opens_a_sentence_may_be_any_word() -> None:
    assert list(names_in("Deploys go through Argo. Berta knows how.")) == ["Argo"]


def test_names_are_bounded() -> None:
    assert len(entities_in(" and ".join(f"Anna{number}" for number in range(9_000)))) == MOST_NAMES

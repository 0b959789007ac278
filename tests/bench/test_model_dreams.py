"""The check of a vault sees a lie, and lets what was said pass."""

from __future__ import annotations

from datetime import date

import pytest

from .model_dreams import Turn, unsupported

SAID = Turn("Caroline", "I went to a support group yesterday with Anna and her 3 dogs.", date(2023, 5, 8))


@pytest.mark.parametrize(
    "text",
    [
        "Caroline went to a support group on 7 May 2023 with Anna and her 3 dogs.",
        "Caroline told Melanie of three dogs.",
        "The support group",
    ],
)
def test_what_was_said_passes(text: str) -> None:
    assert unsupported(text, [SAID]) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Caroline went with Bob.", ["name Bob"]),
        ("Caroline went with Anna and her 4 dogs.", ["number 4"]),
        ("Caroline went with five dogs.", ["number five"]),
        ("Caroline went on 6 May 2023.", ["date 6 May 2023"]),
        ("Caroline went in June 2019.", ["date June 2019"]),
        ("Caroline went in 2022.", ["date 2022"]),
    ],
)
def test_what_was_not_is_named(text: str, wrong: list[str]) -> None:
    assert unsupported(text, [SAID]) == wrong

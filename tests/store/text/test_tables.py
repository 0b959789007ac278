"""Rows of tables as lines of their own."""

from __future__ import annotations

import pytest
from dreamd.store.text.sentences import rows_in
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "| room | key |\n|:--|---:|\n| attic | 17 |\n| cellar | |",
            ["room | key … attic | 17", "room | key … cellar |"],
        ),
        ("| | key |\n|-|-|\n| attic | 17 |", ["| key … attic | 17"]),
        ("| a | b |\n| c | d |", ["a | b", "c | d"]),
        ("| a |\n|---|\n| 1 | 2 |\n\nBetween.\n\n| b |\n|---|\n| 3 |", ["a … 1 | 2", "b … 3"]),
        (r"| sign |" + "\n|---|\n" + r"| x \| y |", [r"sign … x \| y"]),
        ("| a |\n|---|", []),
        ("a | b, and no table", []),
    ],
)
def test_each_row_stands_behind_the_head_of_its_table(text: str, rows: list[str]) -> None:
    assert [row.text for row in rows_in(text)] == rows


@given(st.text(alphabet="|- a:\\\n\t1"))
def test_a_row_has_its_place_in_the_text(text: str) -> None:
    for row in rows_in(text):
        assert text[row.start : row.end].strip()[0] == "|"
        assert "\n" not in row.text

"""A long paste is cut, and nothing that tells of a person is cut in two."""

from __future__ import annotations

import pytest
from dreamd.daemon.importing.sanitize import shorten
from dreamd.store import bounds_of_secret

ADDRESS = "ines.garcia@shop.dev"


@pytest.mark.parametrize("at", range(200 - len(ADDRESS), 201))
def test_an_identifier_is_left_out_as_a_whole_where_it_would_be_cut(at: int) -> None:
    """Whether it is kept is the store's to say, which knows it only whole."""
    text = f"{'.' * (at - 1)} {ADDRESS} {'.' * 2000} {ADDRESS} {'.' * (200 - len(ADDRESS) // 2)}"
    short = shorten(text, 200, 200)
    assert "characters left out" in short
    assert "ines" not in short.replace(ADDRESS, "")
    assert "shop.dev" not in short.replace(ADDRESS, "")


def test_the_bounds_of_a_secret_are_found_from_within() -> None:
    text = f"write to {ADDRESS} today"
    assert bounds_of_secret(text, text.index("@")) == (9, 9 + len(ADDRESS))
    assert bounds_of_secret(text, 9) == (9, 9)
    assert bounds_of_secret(text, 4) == (4, 4)


def test_a_mark_of_a_secret_is_not_cut() -> None:
    """One of which the half is left would be told as a word that nobody said."""
    mark = "[redacted:token]"
    for at in range(len(mark) + 1):
        short = shorten(f"{'a ' * 90}{' ' * at}{mark} {'b ' * 2000}", 200, 200)
        assert "[redacted" not in short.replace(mark, "")

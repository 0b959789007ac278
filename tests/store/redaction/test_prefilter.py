"""What says that a text needs no rule may not pass over one that does."""

from __future__ import annotations

import re
import sys

import pytest
from dreamd.store.redaction import prose
from dreamd.store.redaction.key_forms import CANDIDATE, MARKED, SHAPES, Shape
from dreamd.store.redaction.prefilter import folded, has_long_run, matches_at, starts_of
from hypothesis import given
from hypothesis import strategies as st

WORDS = "pass PassWord pwd paſſ kenNwort contraseña İ pin token key LogIn x 7 secret hunter2-x".split()
PIECES = st.sampled_from([*WORDS, " is ", " ", "\n", ":", "= ", "PIN: 1234"])
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join)
BY_NAMES = (
    (prose._PHRASE, prose.PHRASE_NAMES),
    (prose._GROUPED, prose.GROUPED_NAMES),
    (prose._PIN, ("pin",)),
)


@pytest.mark.parametrize(("pattern", "names"), BY_NAMES)
@given(text=TEXTS)
def test_a_pattern_is_found_where_its_names_are_and_nowhere_else(
    pattern: re.Pattern[str], names: tuple[str, ...], text: str
) -> None:
    found = [each.span() for each in matches_at(starts_of(names, folded(text)), pattern, text)]
    assert found == [each.span() for each in pattern.finditer(text)]


def test_folding_keeps_every_length() -> None:
    letters = "".join(map(chr, range(sys.maxunicode + 1)))
    assert len(folded(letters)) == len(letters)
    assert folded("PAſſWORT İ ı K") == "passwort i i k"


@given(text=TEXTS | st.from_regex(r"[A-Za-z0-9+/_-]{10,20}={0,2}"))
def test_a_text_with_a_candidate_has_a_long_run(text: str) -> None:
    assert has_long_run(text) or CANDIDATE.search(text) is None


@pytest.mark.parametrize("shape", MARKED, ids=lambda shape: shape.form)
def test_a_shape_that_is_found_by_its_literal_has_a_long_run(shape: Shape) -> None:
    """Of the least that its pattern accepts: each place of the least length."""
    least = re.sub(r"<o>", "", shape.form)
    least = re.sub(r"<[A-Za-z](\d+)[^>]*>", lambda place: "a" * int(place[1]), least)
    if shape.is_telling:
        told = re.search(r"\{(\d+),\d+\}\+$", shape.pattern.pattern)
        assert told is not None
        least = shape.head + "a" * int(told[1])
    assert has_long_run(f"({least})")
    assert len(SHAPES) > len(MARKED) > 50

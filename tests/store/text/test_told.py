"""Whatever a text is, what is told of it is a piece of it: no word, space or mark comes in that was not said."""

from __future__ import annotations

from datetime import date

from dreamd.store.search.relevance import pieces_of
from dreamd.store.text.dates import with_days
from dreamd.store.text.fence import unmarked
from dreamd.store.text.quotes import leading, quote, title_of, title_of_fact
from dreamd.store.text.sentences import joined_sentences, sentences_of, split
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.told import TEXTS, strays


@given(TEXTS, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_sentences_and_quotes_are_pieces_of_the_text(text: str, data: st.DataObject) -> None:
    told = [*(one.text for one in split(text)), *sentences_of(text), title_of(text, 40), title_of_fact(text)]
    for pieces in (pieces_of(text), joined_sentences(text)):
        if pieces:
            chosen = data.draw(st.sets(st.integers(0, len(pieces) - 1)))
            told += [piece.text for piece in pieces]
            told += [quote({place: pieces[place].text for place in chosen}, pieces, text)]
            told += [quote({**leading(pieces, place), place: pieces[place].text}, pieces, text) for place in chosen]
    assert [stray for one in told for stray in strays(one, [text])] == []


@given(TEXTS)
@settings(max_examples=examples(150), deadline=None)
def test_what_a_fence_shows_are_pieces_of_the_text(text: str) -> None:
    assert strays(unmarked(with_days(text, date(2026, 11, 21))), [text]) == []

"""Redaction takes time in proportion to a text, whatever is repeated in it: what rules begin with, or nearly match."""

from __future__ import annotations

import random
import time

import pytest
from dreamd.store.redaction import redact
from dreamd.store.redaction.key_forms import SHAPES
from dreamd.store.redaction.rules import RULES

from tests.examples import NIGHTLY
from tests.test_patterns import PIECES

from .test_issuers import example

TINY_CHARS, SHORT_CHARS, LONG_CHARS = 2_000, 7_500, 30_000
LONGEST_S = 0.5
"""For the long text. Real text of that length takes 10 ms, one that is made of secrets alone 200."""

PATIENCE_S = 0.15
MOST_GROWTH = 6
"""The most that four times the text may take, on a machine that does other things: linear is 4, quadratic 16."""

BEGINNINGS = sorted({shape.head for shape in SHAPES if shape.head})
WORDS = sorted({word for rule in RULES for word in (*rule.words, *rule.marks)})
REPEATED = {
    "beginnings": BEGINNINGS,
    "beginnings with a word": [f"{head}some-" for head in BEGINNINGS],
    "beginnings with a digit": [f"{head}a1_" for head in BEGINNINGS],
    "keys": [example(shape, random.Random(shape.form)) for shape in SHAPES],
    "keys side by side": [f"{example(shape, random.Random(shape.form))}-" for shape in SHAPES],
    "words": WORDS,
    "words that assign": [f"{word}: " for word in WORDS],
    "words that quote": [f'{word}="' for word in WORDS],
    "pieces": PIECES,
}


EVERY = 1 if NIGHTLY else 8
"""Of the pieces of a sort one in so many is tried; their rules share the code whose time is measured."""


@pytest.mark.hypothesis  # on all of its examples in the night
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pieces", REPEATED.values(), ids=REPEATED)
def test_four_times_the_text_takes_about_four_times_as_long(pieces: list[str]) -> None:
    assert not next(filter(None, map(why_slow, pieces[::EVERY])), "")


def why_slow(piece: str) -> str:
    """Say of a repeated piece how long it takes, if that is too long or grows faster than the text; "" if not."""
    tiny, short, long = (piece * (size // len(piece)) for size in (TINY_CHARS, SHORT_CHARS, LONG_CHARS))
    if (tiny_s := seconds(tiny)) > LONGEST_S:
        return f"{piece!r}: {tiny_s:.1f} s for {TINY_CHARS} characters"
    if (long_s := seconds(long)) > PATIENCE_S:
        short_s, long_s = min(seconds(short) for _ in range(3)), min(long_s, seconds(long))
        if long_s > min(LONGEST_S, max(PATIENCE_S, MOST_GROWTH * short_s)):
            return f"{piece!r}: {short_s:.3f} s, then {long_s:.3f} s"
    return ""


def seconds(text: str) -> float:
    """Return the processor's time to redact a text."""
    began = time.process_time()
    redact(text)
    return time.process_time() - began

"""Sequences: a turn in its place as the token ids that the encoder reads, the same in training and at work.

A part begins with a mark that says whose words it is: a word of the vocabulary, since the places that it leaves unused
have vectors that cannot be told apart (cosine .83). A long turn is read by windows, each with the end of what was said
before and the beginning of what came after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CLS, SEP = 101, 102

WINDOW_TOKENS = 96
"""Tokens of a turn that are read at once."""

STRIDE_TOKENS = 80
"""Tokens from the start of a window to that of the next."""

WINDOWS_MOST = 6
"""Windows of one turn: the first ones and the last."""

BEFORE_TOKENS, AFTER_TOKENS = 32, 20
TOKEN_CHARS = 8
"""More characters than a token has: so many for each are looked at."""

Span = tuple[int, int]


class Mark(IntEnum):
    """The tokens that tell whose words follow: "user" and "assistant" in the vocabulary."""

    USER = 5310
    ASSISTANT = 3353


@dataclass(frozen=True, slots=True)
class Given:
    """A window of a turn: its ids, and where in the turn's text its own tokens stand.

    `spans[i]` are the characters of token `first + i`.
    """

    ids: tuple[int, ...]
    first: int = 0
    spans: tuple[Span, ...] = ()


def of_turn(role: str, text: str, before: str, after: str) -> list[Given]:
    """Return the windows of a turn; `before` and `after` are what the other side said. At least one."""
    own, other = (Mark.USER, Mark.ASSISTANT) if role == "user" else (Mark.ASSISTANT, Mark.USER)
    head = [CLS, other, *_ids(before[-TOKEN_CHARS * BEFORE_TOKENS :])[-BEFORE_TOKENS:], SEP, own]
    tail = [SEP]
    if role != "user" and after:
        tail += [other, *_ids(after[: TOKEN_CHARS * AFTER_TOKENS])[:AFTER_TOKENS], SEP]
    encoded = tokenizer().encode(text, add_special_tokens=False)
    return [
        Given((*head, *encoded.ids[start:end], *tail), len(head), tuple(encoded.offsets[start:end]))
        for start, end in _windows(len(encoded.ids))
    ]


def _windows(count: int) -> Iterator[Span]:
    overlap = WINDOW_TOKENS - STRIDE_TOKENS
    starts = range(0, max(1, count - overlap), STRIDE_TOKENS)
    for start in starts if len(starts) <= WINDOWS_MOST else [*starts[: WINDOWS_MOST - 1], starts[-1]]:
        yield start, min(start + WINDOW_TOKENS, count)


def _ids(text: str) -> list[int]:
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False).ids
    return ids


@cache
def tokenizer() -> Tokenizer:
    """Return the shipped model's tokenizer, neither cutting nor padding."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(Path(__file__).parents[1] / "text" / "data" / "minilm" / "tokenizer.json"))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded

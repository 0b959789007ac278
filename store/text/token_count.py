"""Token count: an estimate of a text's tokens without a tokenizer; the cost of each word is cached."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import Path

_PIECE = re.compile(r"[^\W_]+|[^\w\s]|_")

_RUN = re.compile(r"\S+")

LONGEST_WORD = 40
"""Characters; a longer run is no word, and costs three characters a token."""

REMEMBERED = 50_000
"""Words with the marks around them; with a longest of LONGEST_WORD they take at most 8 MiB."""


def estimate_tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens in a typical tokenizer, two special tokens included.

    At least a token for each four characters, and at least the tokens of the shipped model's WordPiece vocabulary word
    by word, where a blank line, three digits, a letter of another script count one, an emoji three. On the LoCoMo and
    BEAM turns, their sentences, transcripts and OKF files it is at least MiniLM's own count in 99.9 % of texts, and
    8 to 20 % above it on average. Linear in the text.
    """
    # The cost of a word is looked up: most of a text are the same few thousand words.
    by_words = sum(map(_costs.__getitem__, text.lower().split())) + text.count("\n\n")
    return 2 + max(-(-len(text) // 4), by_words)


def beginning(text: str, limit_tokens: int) -> str:
    """Return the longest beginning of a text, in whole words, of at most `limit_tokens` by the same estimate.

    A first word that is longer is cut, at one character a token.
    """
    left = limit_tokens - 2
    words = end = 0
    for run in _RUN.finditer(text):
        words += _costs[run.group().lower()] + text.count("\n\n", end, run.start())
        if max(words, -(-run.end() // 4)) > left:
            return text[:end] if end else run.group()[:left]
        end = run.end()
    return text


class _Costs(dict[str, int]):
    """A run without spaces to its number of tokens, computed on first use."""

    def __missing__(self, run: str) -> int:
        cost = sum(map(_pieces.__getitem__, _PIECE.findall(run)))
        if len(run) <= LONGEST_WORD:
            if len(self) >= REMEMBERED:  # cheaper than an order of use, and filled again in a second
                self.clear()
            self[run] = cost
        return cost


class _Pieces(dict[str, int]):
    """A word or a mark to its number of tokens, computed on first use."""

    def __missing__(self, piece: str) -> int:
        cost = _cost(piece)
        if len(piece) <= LONGEST_WORD:
            if len(self) >= REMEMBERED:
                self.clear()
            self[piece] = cost
        return cost


_costs, _pieces = _Costs(), _Pieces()


def _cost(piece: str) -> int:
    if not piece[0].isalnum():
        return 3 if piece >= "\U0001f000" else 1
    if len(piece) > LONGEST_WORD or piece.isdigit():
        return max(-(-len(piece) // 3), _wordpieces(piece) if len(piece) <= LONGEST_WORD else 0)
    # WordPiece splits accents off, and takes every letter of an unknown script by itself.
    plain = "".join(c for c in unicodedata.normalize("NFD", piece) if not unicodedata.combining(c))
    return _wordpieces(plain) if plain.isascii() else len(piece)


def _wordpieces(word: str) -> int:
    """Greedy longest match, as WordPiece does it; a character that the vocabulary lacks is one token."""
    vocabulary = _vocabulary()
    pieces = start = 0
    while start < len(word):
        end = len(word)
        prefix = "##" if start else ""
        while end > start + 1 and prefix + word[start:end] not in vocabulary:
            end -= 1
        pieces, start = pieces + 1, end
    return pieces


@cache
def _vocabulary() -> frozenset[str]:
    file = Path(__file__).parent / "data" / "minilm" / "tokenizer.json"
    return frozenset(json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"])

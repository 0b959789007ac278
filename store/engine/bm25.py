"""BM25: the words of a text and the weight of a match, the same for every engine, so that they answer alike.

Identifiers are split whole and in parts, scripts without spaces in pairs.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..text.words import ALPHANUMERIC, index_stem

K1 = 1.5
B = 0.9
CONTEXT_WEIGHT = 0.4
"""Swept on the LoCoMo and BEAM dev sets. A context is a neighbour's words, so it counts for less."""


def idf(count: int, found: int) -> float:
    """Return the rarity of a word that `found` of `count` points have (Robertson, kept above zero as in Lucene)."""
    return math.log(1.0 + (count - found + 0.5) / (found + 0.5))


def weight(frequency: Any, sizes: NDArray[np.int32], mean_size: float) -> NDArray[np.float32]:
    """Return BM25's weight of a word in points of some sizes (characters of text and context together).

    `frequency` says whether a point has the word, not how often: 1 in its text, CONTEXT_WEIGHT more in its context.
    Counting repetitions gave the same on LoCoMo (evidence recall@10 .720) and less on BEAM (any@10 .587, presence
    .637): a text that repeats a word is a list or an essay more often than an answer.
    """
    below: NDArray[np.float32] = sizes.astype(np.float32)
    below *= np.float32(K1 * B / max(mean_size, 1.0))
    below += np.float32(K1 * (1.0 - B))
    below += frequency
    np.divide(frequency * np.float32(K1 + 1.0), below, out=below)
    return below


LONGEST_WORD = 64
"""Characters of a fused identifier; a longer one is a hash or a path that is found by its parts."""

_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]++(?:[-._/\\:@#+~]++[^\W_]++)+")
_LEVEL = re.compile(r"[/\\:@#]+")
_JOINT = re.compile(r"[^\w]+|_+")
_CAMEL = re.compile(r"(?<![^\W_])(?=[^\W_]*?(?:[a-z][A-Z]|[A-Z][A-Z][a-z]))[A-Za-z0-9]++")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U000323af]+"
)
"""Thai, Lao, Burmese, Khmer, kana, Han, Hangul: scripts in which a space does not end a word."""


def spell_out(text: str, *, query: bool = False) -> str:
    """Append the words to a text that a splitter at spaces and marks would miss.

    `foo_bar.py` gains `foobarpy`, `MemoryStore` gains `memory store`, runs of a spaceless script become their pairs
    and (not in a query of two or more) their single characters. Linear in the text.
    """
    if not text.isascii():
        text = _SPACELESS.sub(_pairs if query else _singles_and_pairs, unicodedata.normalize("NFKC", text))
    pieces = text.split()  # most words are plain: the expressions see only those that might not be
    marked = " ".join([piece for piece in pieces if not piece.isalpha()])
    mixed = " ".join([piece for piece in pieces if not piece[1:].islower()])
    extra = [*_fused(marked), *_humps(mixed)]
    return f"{text}\n{' '.join(extra)}" if extra else text


def words(text: str, *, query: bool = False) -> list[str]:
    """Return the stemmed words of a text, in order, as FTS5's `porter unicode61 remove_diacritics 2` would split it."""
    spelled = spell_out(text, query=query)
    if not spelled.isascii():
        spelled = "".join(c for c in unicodedata.normalize("NFKD", spelled) if not unicodedata.combining(c))
    return [index_stem(word) for word in ALPHANUMERIC.findall(spelled.lower())]


def _fused(text: str) -> Iterator[str]:
    for compound in _COMPOUND.findall(text):
        whole = _JOINT.sub("", compound)
        if len(whole) <= LONGEST_WORD:
            yield whole
        levels = _LEVEL.split(compound)
        if len(levels) > 1:
            for level in levels:
                fused = _JOINT.sub("", level)
                if fused != level and len(fused) <= LONGEST_WORD:
                    yield fused


def _humps(text: str) -> Iterator[str]:
    for word in _CAMEL.findall(text):
        if len(word) <= LONGEST_WORD:
            yield from _HUMP.findall(word)


def _pairs(run: re.Match[str]) -> str:
    letters = run.group()
    if len(letters) == 1:
        return f" {letters} "
    return f" {' '.join(map(''.join, pairwise(letters)))} "


def _singles_and_pairs(run: re.Match[str]) -> str:
    letters = run.group()
    return f" {' '.join(letters)}{_pairs(run) if len(letters) > 1 else ' '}"

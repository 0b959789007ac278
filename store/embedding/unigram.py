"""A SentencePiece unigram tokenizer over a vocabulary of any size, small in memory.

The `tokenizers` package does the same, and takes 254 MiB for the 250,002 pieces of XLM-RoBERTa, where a dictionary
takes 40. Its normalisation, which is not bound to the vocabulary, is used.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf

MARK = "\u2581"
"""Stands for the space before a word."""

UNKNOWN_PENALTY = 10.0
"""Below the score of the worst piece lies that of an unknown character by so much, as SentencePiece has it."""

WORDS_KEPT = 2**14


class Unigram:
    """Cuts text into the pieces whose scores, log probabilities, have the greatest sum (Kudo 2018)."""

    def __init__(self, pieces: Sequence[tuple[str, float]], unknown: int) -> None:
        from tokenizers.normalizers import NFKC, Nmt
        from tokenizers.normalizers import Sequence as Steps

        self._ids = {piece: number for number, (piece, _) in enumerate(pieces) if number != unknown}
        self._scores = array("f", (score for _, score in pieces))
        self._unknown = unknown
        self._unknown_score = min(self._scores) - UNKNOWN_PENALTY
        self._longest = max(map(len, self._ids))
        self._normalized: Callable[[str], str] = Steps([Nmt(), NFKC()]).normalize_str
        self._of_word = lru_cache(WORDS_KEPT)(self._cut)

    def encode(self, text: str, most: int) -> list[int]:
        """Return the ids of a text's pieces, at most `most`."""
        ids: list[int] = []
        for word in self._normalized(text).split():
            ids += self._of_word(MARK + word[: most * self._longest])  # no more of it can be among them
            if len(ids) >= most:
                break
        return ids[:most]

    def _cut(self, word: str) -> tuple[int, ...]:
        """Find the best way to each place of a word from those before it, then follow it back from the end (Viterbi).

        Of "abc", with the pieces a -1, b -1, ab -1.5 and c -1: to 1 by a, -1; to 2 by ab, -1.5, not by a and b, -2; to
        3 by c, -2.5. Followed back: c, ab.
        """
        ways: list[tuple[float, int, int]] = [(0.0, 0, self._unknown)]  # a score, from where, by which piece
        ways += [(-inf, 0, self._unknown)] * len(word)
        for start in range(len(word)):
            so_far = ways[start][0]
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                piece = self._ids.get(word[start:end])
                if piece is not None and (score := so_far + self._scores[piece]) > ways[end][0]:
                    ways[end] = score, start, piece
            if (score := so_far + self._unknown_score) > ways[start + 1][0]:
                ways[start + 1] = score, start, self._unknown
        ids: list[int] = []
        place = len(word)
        while place:
            _, place, piece = ways[place]
            if piece != self._unknown or ids[-1:] != [piece]:  # unknown characters side by side are one
                ids.append(piece)
        return tuple(reversed(ids))

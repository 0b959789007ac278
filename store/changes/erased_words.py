"""The words of what is purged, as salted hashes: by these it is recognised everywhere, and cannot be read.

A purge that was interrupted goes on from what it wrote down first. That must find every trace of the content, and must
not be one more.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ..text.words import ALPHANUMERIC

GRAM: Final = 4
"""The length, in words, of a passage by which a quote is recognised."""

SHORTEST: Final = 4
"""Shorter words are no trace, but in scripts that need fewer letters (SHORTEST_ELSEWHERE)."""

SHORTEST_ELSEWHERE: Final = 2
HASH_BYTES: Final = 8
WORDS_IN_MIND: Final = 200_000

_ROOMS: Final = ("daemon", "ipc", "llm", "pipelines", "store")


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are compared: letters and digits, without case."""
    return [word.casefold() for word in ALPHANUMERIC.findall(text)]


def is_telling(word: str) -> bool:
    """Return True if a word is long enough to be a trace."""
    return len(word) >= (SHORTEST if word.isascii() else SHORTEST_ELSEWHERE)


@cache
def own_words() -> frozenset[str]:
    """Return the words that dreamd writes by itself (names of tables and keys, sentences of a digest): no traces."""
    root = Path(__file__).resolve().parents[2]
    sources = (path for room in _ROOMS for path in (root / room).rglob("*") if path.suffix in {".py", ".toml", ".css"})
    return frozenset(word for path in sources for word in words_of(path.read_text(encoding="utf-8", errors="replace")))


def passages_of(texts: Iterable[str]) -> set[str]:
    """Return the passages of some texts, in words."""
    return {gram for text in texts for gram in _grams(words_of(text))}


def longest_common(words: Sequence[str], is_passage: Callable[[str], bool]) -> int:
    """Return the length, in words, of the longest part of a text of which every passage is one of these."""
    longest = running = 0
    for gram in _grams(words) if len(words) >= GRAM else ():
        running = running + 1 if is_passage(gram) else 0
        longest = max(longest, running)
    return longest + GRAM - 1 if longest else 0


def traces_among(words: Iterable[str], kept: Iterable[str]) -> set[str]:
    """Return the words by which what goes can be told from what is kept, and from what dreamd writes by itself.

    A word that another one begins or ends with is none: the inverted index cuts words into stems and endings.
    """
    vocabulary = own_words().union(kept)
    telling = {word for word in words if is_telling(word)} - vocabulary
    beginnings = sorted(vocabulary)
    endings = sorted(word[::-1] for word in vocabulary)
    return {word for word in telling if not (_begins_one(word, beginnings) or _begins_one(word[::-1], endings))}


def _begins_one(word: str, ordered: Sequence[str]) -> bool:
    place = bisect_left(ordered, word)
    return place < len(ordered) and ordered[place].startswith(word)


@dataclass(frozen=True, slots=True)
class ErasedWords:
    """Hashes of the words that nothing else holds, of passages of GRAM words, and of phrases of any length."""

    salt: bytes
    words: frozenset[bytes] = frozenset()
    passages: frozenset[bytes] = frozenset()
    phrases: frozenset[tuple[int, bytes]] = frozenset()
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, salt: bytes, words: Iterable[str], texts: Iterable[str], phrases: Iterable[str] = ()) -> ErasedWords:
        """Hash the words that are traces, the passages of these texts, and whole phrases."""
        passages = {_hash(salt, gram) for text in texts for gram in _grams(words_of(text))}
        spelled = [found for phrase in phrases if (found := words_of(phrase))]
        return cls(
            salt,
            frozenset(_hash(salt, word) for word in words),
            frozenset(passages),
            frozenset((len(found), _hash(salt, " ".join(found))) for found in spelled),
        )

    def is_trace(self, word: str) -> bool:
        """Return True for a word, in lower case, that only the purged content held."""
        known = self._known.get(word)
        if known is None:
            if len(self._known) >= WORDS_IN_MIND:
                self._known.clear()
            known = self._known[word] = is_telling(word) and _hash(self.salt, word) in self.words
        return known

    def tells(self, text: str) -> bool:
        """Return True if a text holds a trace, or one of the phrases."""
        words = words_of(text)
        return any(map(self.is_trace, words)) or self._has_phrase(words)

    def holds_whole(self, text: str) -> bool:
        """Return True if the purged content holds all of a text, or its last word is cut, or it holds a trace."""
        words = words_of(text)
        if any(map(self.is_trace, words)) or self._has_phrase(words):
            return True
        return longest_common(words, self._is_passage) >= max(GRAM, len(words) - 1)

    def quotes(self, text: str) -> bool:
        """Return True if a text shares a passage with the purged content, or holds a trace of it."""
        words = words_of(text)
        if any(map(self.is_trace, words)) or self._has_phrase(words):
            return True
        return any(map(self._is_passage, _grams(words)))

    def with_words(self, words: Iterable[str]) -> ErasedWords:
        """Return it with these words as its traces."""
        return ErasedWords(self.salt, ErasedWords.of(self.salt, words, ()).words, self.passages, self.phrases)

    def _is_passage(self, gram: str) -> bool:
        return _hash(self.salt, gram) in self.passages

    def _has_phrase(self, words: Sequence[str]) -> bool:
        return any(
            (length, _hash(self.salt, " ".join(words[start : start + length]))) in self.phrases
            for length in {n for n, _ in self.phrases}
            for start in range(len(words) - length + 1)
        )

    # ---- what is written down

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "salt": self.salt.hex(),
            "words": _packed(self.words),
            "passages": _packed(self.passages),
            "phrases": sorted([n, held.hex()] for n, held in self.phrases),
        }

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> ErasedWords:
        """Read it back. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            bytes.fromhex(written["salt"]),
            frozenset(_unpacked(written["words"])),
            frozenset(_unpacked(written["passages"])),
            frozenset((int(n), bytes.fromhex(held)) for n, held in written["phrases"]),
        )


def _grams(words: Sequence[str]) -> Iterator[str]:
    """Yield the passages of a text; a shorter text is one."""
    if words:
        yield from (" ".join(words[start : start + GRAM]) for start in range(max(1, len(words) - GRAM + 1)))


def _hash(salt: bytes, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=salt, digest_size=HASH_BYTES).digest()


def _packed(hashes: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(hashes))).decode()


def _unpacked(packed: str) -> Iterator[bytes]:
    joined = base64.b64decode(packed)
    return (joined[start : start + HASH_BYTES] for start in range(0, len(joined), HASH_BYTES))

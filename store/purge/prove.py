"""Recognise purged content by hashes of its words, and search every byte that is kept for it.

A purge that was interrupted goes on from a file on the disk. That file must identify every trace of the content, and
must not be one itself: it holds salted hashes of words that nothing else contains, of passages, and of phrases.

Example: of "the old database holds every row" and "one row is new", the first is purged. "database" occurs nowhere
else, so its hash is a trace, and any text with it mentions what was purged; "row" is no trace, since it stays. The
passages of GRAM words are "the old database holds", "old database holds every" and "database holds every row": a text
with one of them overlaps what was purged.
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, BinaryIO, Final

from ..text.words import ALPHANUMERIC
from ..vault.disk import opened

GRAM: Final = 4
"""The length, in words, of a passage by which a quote is recognised."""

LONG_QUOTE: Final = 8
"""Words in a row that are a quote of a longer text; of a shorter one its own words are, all of them."""

SHORTEST: Final = 4
SHORTEST_ELSEWHERE: Final = 2
"""Shorter words are no trace; scripts other than ASCII need fewer letters."""

SHORTEST_IN_BINARY: Final = 6
"""The length of a word that counts as a trace among other bytes: vectors spell shorter ones by chance."""

HASH_BYTES: Final = 8
WORDS_IN_MIND: Final = 200_000

READ_BYTES: Final = 2**17
OVERLAP_BYTES: Final = 2**10
"""The bytes that are read at once, and those of them that are read again with the next: no word is longer."""

LARGEST_BYTES: Final = 2**35
"""A sparse file of a vault may be endless; no database of ours is so large."""

NO_CONTENT: Final = (".onnx", ".lock", "-shm")
"""The endings of files that hold nothing of a person's."""

NOT_OURS: Final = (".git", "models", "minilm-")
"""The beginnings of folders that hold nothing of ours, or a model."""

_ROOMS: Final = ("daemon", "ipc", "llm", "pipelines", "store")
_TEXT_ENDINGS: Final = frozenset({".md", ".html", ".json", ".log", ".txt"})
_ZLIB: Final = b"\x78\x01"
"""The first bytes of a stream that zlib compressed at level 1, as all images are."""

_FED_BYTES: Final = 512


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are compared: letters and digits, without case."""
    return [word.casefold() for word in ALPHANUMERIC.findall(text)]


def is_long_enough(word: str) -> bool:
    """Return True if a word is long enough to be a trace."""
    return len(word) >= (SHORTEST if word.isascii() else SHORTEST_ELSEWHERE)


@cache
def own_words() -> frozenset[str]:
    """Return the words that dreamd writes by itself (names of tables and keys, sentences of a digest): no traces.

    All of the code is read, its comments too: an example there must not use a rare word.
    """
    root = Path(__file__).resolve().parents[2]
    sources = (path for room in _ROOMS for path in (root / room).rglob("*") if path.suffix in {".py", ".toml", ".css"})
    return frozenset(word for path in sources for word in words_of(path.read_text(encoding="utf-8", errors="replace")))


def traces_among(words: Iterable[str], kept: Iterable[str]) -> set[str]:
    """Return the words that neither the kept content nor dreamd itself uses.

    A word that another one begins or ends with is left out: the inverted index cuts words into stems and endings, so
    the bytes of "row" are still there while "rows" is kept.
    """
    vocabulary = own_words().union(kept)
    rare = {word for word in words if is_long_enough(word)} - vocabulary
    beginnings = sorted(vocabulary)
    endings = sorted(word[::-1] for word in vocabulary)
    return {word for word in rare if not (_begins_one(word, beginnings) or _begins_one(word[::-1], endings))}


def _begins_one(word: str, ordered: Sequence[str]) -> bool:
    place = bisect_left(ordered, word)
    return place < len(ordered) and ordered[place].startswith(word)


def passages_of(texts: Iterable[str]) -> set[str]:
    """Return the passages of some texts, in words."""
    return {gram for text in texts for gram in _grams(words_of(text))}


def _grams(words: Sequence[str]) -> Iterator[str]:
    """Yield the passages of a text; a shorter text is one."""
    if words:
        yield from (" ".join(words[start : start + GRAM]) for start in range(max(1, len(words) - GRAM + 1)))


def longest_common(words: Sequence[str], is_passage: Callable[[str], bool]) -> int:
    """Return the length, in words, of the longest part of a text of which every passage is one of these."""
    longest = running = 0
    for gram in _grams(words) if len(words) >= GRAM else ():
        running = running + 1 if is_passage(gram) else 0
        longest = max(longest, running)
    return longest + GRAM - 1 if longest else 0


@dataclass(frozen=True, slots=True)
class ErasedWords:
    """Hashes of the words that nothing else holds, of passages of GRAM words, and of phrases of any length.

    `whole` are the texts of GRAM words and more that are shorter than a LONG_QUOTE.
    """

    salt: bytes
    words: frozenset[bytes] = frozenset()
    passages: frozenset[bytes] = frozenset()
    phrases: frozenset[tuple[int, bytes]] = frozenset()
    whole: frozenset[bytes] = frozenset()
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, salt: bytes, words: Iterable[str], texts: Iterable[str], phrases: Iterable[str] = ()) -> ErasedWords:
        """Hash the words that are traces, the passages of these texts, and whole phrases."""
        texts = list(texts)
        spelled = [found for phrase in phrases if (found := words_of(phrase))]
        short = (found for text in texts if GRAM <= len(found := words_of(text)) < LONG_QUOTE)
        return cls(
            salt,
            frozenset(_hash(salt, word) for word in words),
            frozenset(_hash(salt, gram) for gram in passages_of(texts)),
            frozenset((len(found), _hash(salt, " ".join(found))) for found in spelled),
            frozenset(_hash(salt, " ".join(found)) for found in short),
        )

    def with_words(self, words: Iterable[str]) -> ErasedWords:
        """Return it with these words as its traces."""
        return replace(self, words=frozenset(_hash(self.salt, word) for word in words), _known={})

    def is_trace(self, word: str) -> bool:
        """Return True for a word, in lower case, that only the purged content held."""
        known = self._known.get(word)
        if known is None:
            if len(self._known) >= WORDS_IN_MIND:
                self._known.clear()
            known = self._known[word] = is_long_enough(word) and _hash(self.salt, word) in self.words
        return known

    def mentions(self, text: str) -> bool:
        """Return True if a text contains a trace, or one of the phrases."""
        return self._mentions(words_of(text))

    def covers(self, text: str) -> bool:
        """Return True if the purged content contains all of a text, its last word perhaps cut; or it mentions it."""
        words = words_of(text)
        return self._mentions(words) or longest_common(words, self._is_passage) >= max(GRAM, len(words) - 1)

    def overlaps(self, text: str) -> bool:
        """Return True if a text shares a passage with the purged content, or mentions it."""
        words = words_of(text)
        return self._mentions(words) or any(map(self._is_passage, _grams(words)))

    def quoted(self, words: Sequence[str]) -> set[int]:
        """Return the places of the words that quote purged content: a whole short text, or much of a longer one."""
        places = set[int]()
        begins = [self._is_passage(gram) for gram in _grams(words)] if len(words) >= GRAM else []
        for is_passage, run in groupby(enumerate(begins), key=lambda each: each[1]):
            if is_passage:
                within = [place for place, _ in run]
                places.update(self._quoted_in(words, within[0], within[-1] + GRAM))
        return places

    def _quoted_in(self, words: Sequence[str], start: int, end: int) -> Iterator[int]:
        if end - start >= LONG_QUOTE:
            yield from range(start, end)
            return
        for first, last in combinations(range(start, end + 1), 2):
            if GRAM <= last - first < LONG_QUOTE and _hash(self.salt, " ".join(words[first:last])) in self.whole:
                yield from range(first, last)

    def _mentions(self, words: Sequence[str]) -> bool:
        return any(map(self.is_trace, words)) or any(
            (length, _hash(self.salt, " ".join(words[start : start + length]))) in self.phrases
            for length in {n for n, _ in self.phrases}
            for start in range(len(words) - length + 1)
        )

    def _is_passage(self, gram: str) -> bool:
        return _hash(self.salt, gram) in self.passages

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "salt": self.salt.hex(),
            "words": _packed(self.words),
            "passages": _packed(self.passages),
            "phrases": sorted([n, held.hex()] for n, held in self.phrases),
            "whole": _packed(self.whole),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> ErasedWords:
        """Read it back. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            bytes.fromhex(written["salt"]),
            frozenset(_unpacked(written["words"])),
            frozenset(_unpacked(written["passages"])),
            frozenset((int(n), bytes.fromhex(held)) for n, held in written["phrases"]),
            frozenset(_unpacked(written.get("whole", ""))),
        )


def _hash(salt: bytes, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=salt, digest_size=HASH_BYTES).digest()


def _packed(hashes: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(hashes))).decode()


def _unpacked(packed: str) -> Iterator[bytes]:
    joined = base64.b64decode(packed)
    return (joined[start : start + HASH_BYTES] for start in range(0, len(joined), HASH_BYTES))


# ---- the search of bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of a search: how many traces each file holds, and the files that were not read to their end."""

    traces: Mapping[Path, int]
    missed: Sequence[Path]


def search(files: Iterable[Path], is_trace: Callable[[str], bool], rest: Callable[[], None]) -> Proof:
    """Count the traces in files; `rest` is called between two pieces of a file, and may raise to end the search.

    A word is counted once in a piece.
    """
    traces: dict[Path, int] = {}
    missed: list[Path] = []
    for path in files:
        times = 0
        try:
            with opened(path) as file:
                for data in pieces_of(file):
                    times += sum(map(is_trace, _words_in(data, is_text=path.suffix in _TEXT_ENDINGS)))
                    rest()
                if file.read(1):
                    missed.append(path)
        except FileNotFoundError:
            pass
        except OSError:  # it cannot be read, or a pipe or a link took its place
            missed.append(path)
        if times:
            traces[path] = times
    return Proof(traces, missed)


def pieces_in(files: Iterable[Path]) -> int:
    """Return the number of pieces that `search` reads of some files, as large as they are now."""
    number = 0
    for path in files:
        with contextlib.suppress(OSError):
            number += -(-path.stat().st_size // READ_BYTES)
    return number


def holds_any(path: Path, is_purged: Callable[[str], bool], rest: Callable[[], None]) -> bool:
    """Return True if a file's text is purged content in any piece; a file that cannot be read counts as without."""
    with contextlib.suppress(OSError), opened(path) as file:
        for piece in pieces_of(file):
            rest()
            if is_purged(piece.decode("utf-8", "replace")):
                return True
    return False


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file, up to LARGEST_BYTES, in pieces that overlap."""
    before = b""
    while (data := file.read(READ_BYTES)) and file.tell() <= LARGEST_BYTES:
        # With the end of the piece before it, so that a word across the border is read whole once.
        yield before + data
        before = data[-OVERLAP_BYTES:]


def regular_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that may hold content, in order; links are not followed."""
    for parent, folders, names in os.walk(folder):
        # In place: `os.walk` goes down only into the folders that are left in this list.
        folders[:] = sorted(name for name in folders if not name.startswith(NOT_OURS))
        for name in sorted(names):
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                if not name.endswith(NO_CONTENT) and stat.S_ISREG(path.lstat().st_mode):
                    yield path


def _words_in(data: bytes, *, is_text: bool) -> set[str]:
    """Return the words of a piece; of a database also those in compressed images."""
    words = _plain_words(data)
    return words if is_text else _after_a_byte(words) | _plain_words(b" ".join(_decompressed(data)))


def _plain_words(data: bytes) -> set[str]:
    return set(ALPHANUMERIC.findall(data.decode("utf-8", "replace").casefold()))


def _after_a_byte(words: set[str]) -> set[str]:
    """Return the words of a database's bytes, also without a byte or two that only look like letters.

    SQLite writes a text's length directly before it: where that is the byte 0x51, "rows" reads "Qrows".
    """
    long = {word for word in words if len(word) >= SHORTEST_IN_BINARY or not word.isascii()}
    return long | {word[lead:] for word in long for lead in (1, 2) if len(word) - lead >= SHORTEST_IN_BINARY}


def _decompressed(data: bytes) -> Iterator[bytes]:
    start = data.find(_ZLIB)
    # A page holds several images, and the two bytes occur by chance as well: every place is tried.
    while start >= 0:
        yield unpacked_from(data, start)
        start = data.find(_ZLIB, start + 1)


def unpacked_from(data: bytes, start: int) -> bytes:
    """Return the content of a zlib stream that begins here, as far as it goes: a database page may end within it."""
    unpacking = zlib.decompressobj()
    parts = []
    with contextlib.suppress(zlib.error):
        for position in range(start, len(data), _FED_BYTES):
            parts.append(unpacking.decompress(data[position : position + _FED_BYTES]))
            if unpacking.eof:
                break
    return b"".join(parts)

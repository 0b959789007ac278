"""The checkpoint: results of expensive pure work, so that an interrupted dream need not repeat it.

The next attempt works on a fresh copy that is mostly equal, and equal inputs give equal results. So a unit (a model's
answer, the vector of a text) is kept under the hash of its inputs as soon as it is finished; a killed process loses at
most the unit in progress. A vector is looked up in this run, the store's cache and the checkpoint, then computed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ... import __version__
from ...store.embedding.embedding import Embedder
from ...store.embedding.vector_cache import EmbeddingCache
from ...store.engine.database import backup
from ...store.model import Corrupt

Vectors = NDArray[np.float32]

# About a hundred thousand vectors, or ten thousand answers; units beyond that are computed again.
LIMIT_BYTES: Final = 256 * 2**20

_HEADER: Final = f"dreamd checkpoint 1, {__version__}\n".encode()  # another version may compute otherwise
_RECORD: Final = struct.Struct("<32sII")  # key, size and crc32 of what follows


def key_of(*parts: str | bytes) -> bytes:
    """Hash the parts that identify a unit: its kind, and every input of the result."""
    digest = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))  # so that ("ab", "c") and ("a", "bc") differ
        digest.update(data)
    return digest.digest()


class Memo:
    """Units in one file, appended to as they are finished. One process at a time; not for several threads.

    A file of another version is emptied, a torn end is cut off, and a damaged unit is treated as missing.
    """

    def __init__(self, path: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """Open or create the file, readable by its person alone. Raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._limit_bytes = limit_bytes
        self._places: dict[bytes, tuple[int, int, int]] = {}
        self._end = self._read()

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: bytes) -> bytes | None:
        """Return a finished unit, or None."""
        place = self._places.get(key)
        if place is None:
            return None
        offset, size, crc = place
        data = os.pread(self._file, size, offset)
        return data if len(data) == size and zlib.crc32(data) == crc else None

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a unit, unless the file is full."""
        self.put_many({key: value})

    def put_many(self, units: Mapping[bytes, bytes]) -> None:
        """Keep several units, in one write."""
        written = bytearray()
        places = {}
        for key, value in units.items():
            if key in self._places or self._end + len(written) + _RECORD.size + len(value) > self._limit_bytes:
                continue
            crc = zlib.crc32(value)
            written += _RECORD.pack(key, len(value), crc)
            places[key] = self._end + len(written), len(value), crc
            written += value
        if written:
            os.pwrite(self._file, written, self._end)
            self._end += len(written)
            self._places.update(places)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _read(self) -> int:
        """Read the index of units; return the offset at which the whole records end."""
        size = os.fstat(self._file).st_size
        if os.pread(self._file, len(_HEADER), 0) != _HEADER:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, _HEADER, 0)
            return len(_HEADER)
        end = len(_HEADER)
        while len(head := os.pread(self._file, _RECORD.size, end)) == _RECORD.size:
            key, length, crc = _RECORD.unpack(head)
            if end + _RECORD.size + length > size:
                break
            self._places[key] = end + _RECORD.size, length, crc
            end += _RECORD.size + length
        if end < size:
            os.ftruncate(self._file, end)
        return end


def once(memo: Memo | None, parts: Iterable[str | bytes], make: Callable[[], bytes]) -> bytes:
    """Return the unit of these parts from the checkpoint, or `make` it and keep it."""
    if memo is None:
        return make()
    key = key_of(*parts)
    value = memo.get(key)
    if value is None:
        value = make()
        memo.put(key, value)
    return value


# Texts embedded between two reports of progress: about four seconds of work, well below `limits.silence_s`.
BATCH = 512


def cache_copy(embeddings: Path, folder: Path, embedder: Embedder) -> EmbeddingCache | None:
    """Copy the store's cache of vectors into a run's folder and open the copy; None where the store has none."""
    if not embeddings.exists():
        return None
    copy = folder / "embeddings.db"
    with contextlib.suppress(Corrupt):  # vectors are computed again
        backup(embeddings, copy)
    return EmbeddingCache(copy, embedder.model_id)


class CachedEmbedder:
    """Embeds texts, each only once: earlier vectors come from this run, the store's cache or the checkpoint."""

    def __init__(
        self,
        embedder: Embedder,
        cache: EmbeddingCache | None,
        on_progress: Callable[[int, int], None],
        memo: Memo | None = None,
    ) -> None:
        self._embedder = embedder
        self._on_progress = on_progress
        self._cache = cache
        self._memo = memo
        self._known: dict[bytes, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text."""
        hashes = [sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in self._known}
        # The store's cache first: it has nearly every text of an earlier dream, in one query.
        if self._cache is not None and missing:
            self._known |= self._cache.get_many(set(missing))
            missing = {key: text for key, text in missing.items() if key not in self._known}
        if self._memo is not None:
            missing = {key: text for key, text in missing.items() if not self._take_checkpointed(self._memo, key)}
        self._embed(missing)
        if not texts:
            return np.empty((0, self._embedder.dimension), np.float32)
        return np.stack([self._known[key] for key in hashes])

    def _take_checkpointed(self, memo: Memo, key: bytes) -> bool:
        """Take the vector from the checkpoint of a dream that was ended, if it is there."""
        data = memo.get(self._unit(key))
        if data is not None:
            self._known[key] = np.frombuffer(data, np.float32)
        return data is not None

    def _unit(self, key: bytes) -> bytes:
        return key_of("vector", self._embedder.model_id, key)

    def _embed(self, missing: dict[bytes, str]) -> None:
        keys = sorted(
            missing, key=lambda key: (len(missing[key]), key)
        )  # texts of similar length share a batch, with little padding
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            vectors = self._embedder.embed_passages([missing[key] for key in batch])
            self._known |= dict(zip(batch, vectors, strict=True))
            if self._memo is not None:
                self._memo.put_many({self._unit(key): self._known[key].tobytes() for key in batch})
            self._on_progress(start + len(batch), len(keys))

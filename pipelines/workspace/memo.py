"""The checkpoint: results of expensive pure work, so that an interrupted dream need not repeat it.

The next attempt works on a fresh copy that is mostly equal, and equal inputs give equal results. So a unit (a model's
answer, the vector of a text) is kept under the hash of its inputs as soon as it is finished; a killed process loses at
most the unit in progress.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from ... import __version__

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

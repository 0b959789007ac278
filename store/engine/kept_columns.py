"""Columns as the database keeps them between two starts: reading a million rows again takes ten seconds, these a half.

A snapshot is of one stamp: who reads it reads the rows that are newer from the collection itself, and all of them
where the snapshot is not there, not whole, or of other fields. So it is never believed over the collection.

It is written piece by piece, each in a short transaction of its own, so that nothing waits long. The head is removed
before the first piece and written after the last, and a snapshot without a head is not there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

LAYOUT = """
CREATE TABLE IF NOT EXISTS {name}_columns(
    part TEXT NOT NULL, place INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY(part, place)
)
"""

VERSION = 3
HEAD = ""
PIECE_BYTES = 2**21

Arrays = Mapping[str, NDArray[Any]]


def drop(connection: apsw.Connection, name: str) -> None:
    """Remove a collection's snapshot."""
    connection.execute(f"DELETE FROM {name}_columns")


def write(
    connection: Callable[[], apsw.Connection],
    batch: Callable[[], AbstractContextManager[None]],
    name: str,
    about: Mapping[str, Any],
    pieces: Iterator[tuple[str, int, bytes]],
) -> None:
    """Write pieces (the array's name, their place in it, its bytes), then the head; `batch` is a transaction.

    What `pieces` raises is raised, and no snapshot is there then.
    """
    with batch():
        drop(connection(), name)
    for part, place, data in pieces:
        with batch():
            _put(connection(), name, part, place, data)
    with batch():
        _put(connection(), name, HEAD, 0, json.dumps({"version": VERSION, **about}).encode())


def read_head(connection: apsw.Connection, name: str) -> dict[str, Any] | None:
    """Return the description of a snapshot; None where there is no whole one."""
    data = _piece(connection, name, HEAD, 0)
    head: dict[str, Any] | None = json.loads(data) if data is not None else None
    return head if head is not None and head["version"] == VERSION else None


def read_array(connection: apsw.Connection, name: str, part: str, into: NDArray[Any]) -> bool:
    """Fill an array, which is contiguous; False where a piece is missing or damaged."""
    held = into.reshape(-1).view(np.uint8)
    for place, start in enumerate(range(0, len(held), PIECE_BYTES)):
        wanted = held[start : start + PIECE_BYTES]
        data = _piece(connection, name, part, place)
        if data is None or len(data) != len(wanted):
            return False
        wanted[:] = np.frombuffer(data, np.uint8)
    return True


def pieces_of(array: NDArray[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield an array's bytes, piece by piece, each copied when it is asked for."""
    held = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for place, start in enumerate(range(0, len(held), PIECE_BYTES)):
        yield place, held[start : start + PIECE_BYTES].tobytes()


def _put(connection: apsw.Connection, name: str, part: str, place: int, data: bytes) -> None:
    connection.execute(f"REPLACE INTO {name}_columns VALUES(?, ?, ?, ?)", (part, place, zlib.crc32(data), data))


def _piece(connection: apsw.Connection, name: str, part: str, place: int) -> bytes | None:
    sql = f"SELECT crc, data FROM {name}_columns WHERE part = ? AND place = ?"
    row: Any = connection.execute(sql, (part, place)).fetchone()
    return row[1] if row is not None and row[0] == zlib.crc32(row[1]) else None

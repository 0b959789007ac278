"""Files that are gone and only a discarded index knew: without this, their deletion would go unnoticed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import apsw

from ..model import InvalidInput, NodeId
from ..vault.vault import Vault, is_kept
from .images import Images


class LostFile(NamedTuple):
    """A file that an older index had read, at `seen_ns`, and the nodes in it.

    `image` is what it held, None where that cannot be read.
    """

    path: str
    mtime_ns: int
    seen_ns: int
    node_ids: tuple[NodeId, ...]
    image: bytes | None


def lost_files(index: Path, vault: Vault) -> list[LostFile]:
    """Return the files that an index knows and that are gone, as far as it can be read.

    Returns none while the vault is away.
    """
    if not vault.has_marker() or not index.is_file():
        return []
    found: list[LostFile] = []
    with contextlib.suppress(apsw.Error):  # at a damaged page it ends: what was read before counts
        connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
        with contextlib.closing(connection):
            for path, mtime_ns, seen_ns in connection.execute("SELECT path, mtime_ns, seen_ns FROM file"):
                if _is_gone(path, vault) and isinstance(mtime_ns, int) and isinstance(seen_ns, int):
                    found.append(LostFile(path, mtime_ns, seen_ns, _nodes(connection, path), _image(connection, path)))
    return found


def _is_gone(path: object, vault: Vault) -> bool:
    """Return True for the path of a file that is gone; a damaged row may hold any value."""
    if not isinstance(path, str) or not path.isprintable() or not is_kept(path):
        return False
    try:
        return not vault.exists(path)
    except (InvalidInput, OSError):
        return False


def _nodes(connection: apsw.Connection, path: str) -> tuple[NodeId, ...]:
    try:
        return tuple(row[0] for row in connection.execute("SELECT node_id FROM node WHERE path = ?", (path,)))
    except apsw.Error:
        return ()


def _image(connection: apsw.Connection, path: str) -> bytes | None:
    try:
        return Images(lambda: connection).of(path)
    except apsw.Error:
        return None

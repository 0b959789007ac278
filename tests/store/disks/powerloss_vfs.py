"""SQLite's view of a disk that forgets, at a power cut, what was not synced."""

from __future__ import annotations

import itertools
from pathlib import Path

import apsw

from tests.store.disks.power import Power, PowerCut

SECTOR_BYTES = 512
_numbers = itertools.count(1)


class _Durable:
    """What is known of one file: its bytes at the last sync, and the writes since (data None: cut to that size)."""

    def __init__(self, path: str | None) -> None:
        self.exists = path is not None and Path(path).exists()
        self.content = Path(path).read_bytes() if path is not None and self.exists else b""
        self.unsynced: list[tuple[int, bytes | None]] = []


class PowerLossVFS(apsw.VFS):
    """Passes everything on to the system's own VFS and notes what was synced; shared memory is never durable."""

    layer = "ledger"

    def __init__(self, power: Power) -> None:
        self.name = f"powerloss-{next(_numbers)}"
        self.power = power
        self.files: dict[str, _Durable] = {}
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        if not self.power.is_aftermath:
            self.files.pop(filename, None)

    def known(self, filename: str | None) -> _Durable:
        """The record of a file; what is there when it is first opened is durable."""
        if filename is None:
            return _Durable(None)
        if filename not in self.files:
            self.files[filename] = _Durable(filename)
        return self.files[filename]

    def materialise(self, path: Path, target: Path) -> None:
        """Write what is left of a database and its WAL, whose path was `path`, to `target`."""
        for suffix in ("", "-wal"):
            durable = self.files.get(f"{path}{suffix}")
            if durable is not None and (durable.exists or self.power.keeps()):
                target.with_name(target.name + suffix).write_bytes(self._left_of(durable))

    def _left_of(self, durable: _Durable) -> bytes:
        content = bytearray(durable.content)
        for offset, data in durable.unsynced:
            if data is None:
                if self.power.keeps():
                    del content[offset:]
                continue
            for start in range(0, len(data), SECTOR_BYTES):
                if self.power.keeps():
                    _write_into(content, offset + start, data[start : start + SECTOR_BYTES])
        return bytes(content)


class _File(apsw.VFSFile):
    def __init__(self, vfs: PowerLossVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._durable = vfs.known(filename)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        cut = self._vfs.power.fails()
        super().xWrite(data, offset)
        if not self._vfs.power.is_aftermath:
            self._durable.unsynced.append((offset, bytes(data)))
        if cut:
            raise PowerCut

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        cut = self._vfs.power.fails()
        super().xTruncate(newsize)
        if not self._vfs.power.is_aftermath:
            self._durable.unsynced.append((newsize, None))
        if cut:
            raise PowerCut

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._vfs.power.fails():
            raise PowerCut
        if self._vfs.layer in self._vfs.power.lying or self._vfs.power.is_aftermath:
            return
        content = bytearray(self._durable.content)
        for offset, data in self._durable.unsynced:
            if data is None:
                del content[offset:]
            else:
                _write_into(content, offset, data)
        self._durable.content, self._durable.exists = bytes(content), True
        self._durable.unsynced.clear()


def _write_into(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data

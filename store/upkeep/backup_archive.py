"""The archive of a backup: a `.tar.gz` with `manifest.json` first, which names every file with its size and hash."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Final, NamedTuple

from ..model import Corrupt, InvalidInput
from ..vault.disk import FILE_MODE, opened

FORMAT: Final = 1
MANIFEST, LEDGER, VAULT, SETTINGS = "manifest.json", "ledger.db", "vault", "settings.toml"

BLOCK: Final = 2**20
LARGEST_MANIFEST: Final = 2**28
_COMPRESSION: Final = 3

OTHER: Final = "Take another backup; nothing was changed."

Progress = Callable[[str, int, int], None]


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report no progress."""


class Member(NamedTuple):
    """One file of an archive, and its hash."""

    path: str
    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an archive: of which moment and which version it is, and its files."""

    dreamd: str
    made_at: str
    vault_id: str | None
    files: Sequence[Member]
    left_out: Sequence[str] = ()
    format: int = FORMAT

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps({**asdict(self), "files": [one._asdict() for one in self.files]}, indent=1).encode()

    @classmethod
    def of(cls, data: bytes) -> Manifest:
        """Parse a manifest. Raises Corrupt for anything else."""
        try:
            read = json.loads(data)
            if read["format"] != FORMAT:
                raise Corrupt(f"its format is {read['format']}, and this dreamd reads {FORMAT}", hint="Update dreamd.")
            return cls(**{**read, "files": [Member(**one) for one in read["files"]]})
        except (ValueError, TypeError, KeyError) as error:
            raise Corrupt("its manifest cannot be read", hint=OTHER) from error


def pack(packed: Path, manifest: Manifest, room: Path, progress: Progress) -> None:
    """Write the manifest and the files that it names, which lie in `room`."""
    with gzip.open(packed, "wb", _COMPRESSION) as out, tarfile.open(fileobj=out, mode="w|") as tar:
        encoded = manifest.encode()
        _add(tar, Member(MANIFEST, len(encoded), "", 0), BytesIO(encoded))
        for number, member in enumerate(manifest.files):
            progress("pack", number, len(manifest.files))
            with (room / member.path).open("rb") as file:
                _add(tar, member, file)
    packed.chmod(FILE_MODE)


def _add(tar: tarfile.TarFile, member: Member, file: IO[bytes]) -> None:
    entry = tarfile.TarInfo(member.path)
    entry.size, entry.mode, entry.mtime = member.size, FILE_MODE, member.mtime_ns // 10**9
    tar.addfile(entry, file)


def member_of(path: str, file: Path) -> Member:
    """Return the entry of a file as it is."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(BLOCK):
            digest.update(block)
        status = os.fstat(content.fileno())
    return Member(path, status.st_size, digest.hexdigest(), status.st_mtime_ns)


Sink = Callable[[Member], "contextlib.AbstractContextManager[IO[bytes] | None]"]


def read_archive(
    archive: Path, progress: Progress = silent, sink: Sink = lambda _: contextlib.nullcontext()
) -> Manifest:
    """Read every file of an archive, and write it into `sink`; return the manifest. Raises Corrupt."""
    try:
        with opened(Path(os.path.realpath(archive))) as raw, gzip.GzipFile(fileobj=raw) as packed:
            with tarfile.open(fileobj=packed, mode="r|") as tar:
                manifest = _read_members(tar, progress, sink)
            while packed.read(BLOCK):  # to the end, where the checksum of it all stands
                pass
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {archive}", hint="`dreamctl backup FILE` makes one.") from None
    except (EOFError, zlib.error, tarfile.TarError, gzip.BadGzipFile, ValueError) as error:
        raise Corrupt(f"{archive} is torn, or no backup of dreamd ({error})", hint=OTHER) from error
    except Corrupt as error:
        raise Corrupt(f"{archive} cannot be used: {error}", hint=error.hint) from error
    return manifest


def _read_members(tar: tarfile.TarFile, progress: Progress, sink: Sink) -> Manifest:
    first = tar.next()
    if first is None or first.name != MANIFEST or first.size > LARGEST_MANIFEST:
        raise Corrupt("it has no manifest", hint="It is no backup of dreamd, or an altered one.")
    manifest = Manifest.of(_content(tar, first).read())
    for number, member in enumerate(manifest.files):
        progress("verify", number, len(manifest.files))
        entry = tar.next()
        if entry is None or entry.name != member.path or not entry.isreg() or not _is_ours(member.path):
            raise Corrupt(f"{member.path} is missing", hint=OTHER)
        digest, size, content = hashlib.sha256(), 0, _content(tar, entry)
        with sink(member) as target:
            while block := content.read(BLOCK):
                digest.update(block)
                size += len(block)
                if target is not None:
                    target.write(block)
        if size != member.size or digest.hexdigest() != member.sha256:
            raise Corrupt(f"{member.path} is not as it was saved", hint=OTHER)
    if tar.next() is not None:
        raise Corrupt("it holds more than its manifest says", hint=OTHER)
    return manifest


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(entry)
    if content is None:
        raise Corrupt(f"{entry.name} is no file", hint=OTHER)
    return content


def _is_ours(path: str) -> bool:
    """Return True for the ledger, the settings, and a path that stays within the vault."""
    parts = path.split("/")
    inside = len(parts) > 1 and parts[0] == VAULT and not {"", ".", ".."} & {*parts}
    return inside or path in (LEDGER, SETTINGS)

"""Connecting and disconnecting: a plan of edits, shown before it is carried out, and a record of what was there before.

A file's bytes from before are kept, so that it is given back byte for byte as long as nobody else has written into it;
otherwise our entries alone are taken out of what it says now. Claude Code, for one, rewrites its state all the time.
"""

from __future__ import annotations

import base64
import contextlib
import difflib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from .config_files import ConfigFile, NotToml, Unwritable
from .json_text import NotJson
from .programs import Command, Program, UserEnvironment

PRIVATE = 0o600


class ConnectError(Exception):
    """A program that cannot be connected or disconnected; nothing was changed. `hint` says what to do instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file's change. `before` is what it holds, None where it is not there; `after` None: it is removed.

    `original` is what it held before it was ever ours, to be given back.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    original: bytes | None = None

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old, new = (_lines(content) for content in (self.before, self.after))
        names = (str(self.path) if self.before is not None else "/dev/null", str(self.path))
        return "".join(difflib.unified_diff(old, new, *names))


class Records:
    """The contents that files had before they were ours, in a folder of our own: one record for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def original(self, path: Path, content: bytes | None) -> tuple[bool, bytes | None]:
        """Return whether a file holds what we wrote last, and what it held before that."""
        file = self._file(path)
        if content is None or not file.exists():
            return False, None
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if record["written_sha256"] != sha256(content).hexdigest():
            return False, None
        original = record["original"]
        return True, None if original is None else base64.b64decode(original)

    def keep(self, path: Path, written: bytes, original: bytes | None) -> None:
        """Note what we are about to write into a file, and what it held before."""
        make_private(self._folder)
        record = {
            "path": str(path),
            "written_sha256": sha256(written).hexdigest(),
            "original": None if original is None else base64.b64encode(original).decode("ascii"),
        }
        _write(self._file(path), json.dumps(record, indent=1).encode() + b"\n", PRIVATE)

    def follow(self, path: Path, before: bytes | None) -> None:
        """Note that a program has changed what we wrote, because we had it do so; before that it held `before`."""
        is_ours, original = self.original(path, before)
        if is_ours and (now := _read(path)) is not None:
            self.keep(path, now, original)

    def forget(self, path: Path) -> None:
        """Drop what was noted: the file is as it was."""
        self._file(path).unlink(missing_ok=True)

    def _file(self, path: Path) -> Path:
        return self._folder / f"{path.name}-{sha256(str(path).encode()).hexdigest()[:12]}.json"


class AgentConnection:
    """The edits that connect one program, in one of its folders, or disconnect it."""

    def __init__(
        self, program: Program, folder: Path, places: UserEnvironment, command: Command, records: Records
    ) -> None:
        self.program = program
        self.folder = folder
        self._files = tuple(program.files(folder, places, command))
        self._records = records

    def connecting(self) -> list[FileEdit]:
        """Return the edits that put ours in; none where all of it is there already. Raises ConnectError."""
        return list(self._edits(wanted=True))

    def disconnecting(self) -> list[FileEdit]:
        """Return the edits that take ours out. Raises ConnectError."""
        return list(self._edits(wanted=False))

    def missing(self) -> list[Path]:
        """Return the files that do not hold what they should."""
        return [edit.path for edit in self.connecting()]

    @contextlib.contextmanager
    def letting_it_write(self) -> Iterator[None]:
        """Let the program itself write into the files inside; what it writes there is given back with ours."""
        before = {real: _read(real) for real in (file.path.resolve() for file in self._files)}
        yield
        for real, content in before.items():
            if content is not None and _read(real) != content:
                self._records.follow(real, content)

    def apply(self, edits: Iterable[FileEdit]) -> None:
        """Carry edits out, each at once or not at all. Raises ConnectError where a file has changed since it was read.

        A crash between two files leaves a program half connected: connecting again does the rest.
        """
        for edit in edits:
            real = edit.path.resolve()
            if _read(real) != edit.before:
                raise ConnectError(f"{edit.path} was changed meanwhile.", "Run it again.")
            if edit.after is None:
                real.unlink()
                _remove_empty(real.parent, self.folder)
            else:
                if edit.original != edit.after:
                    self._records.keep(real, edit.after, edit.original)
                make_private(real.parent)
                _write(real, edit.after, _mode(real))
            if edit.after is None or edit.original == edit.after:
                self._records.forget(real)

    def _edits(self, *, wanted: bool) -> Iterable[FileEdit]:
        for file in self._files:
            before = _read(file.path.resolve())
            text = _decoded(file.path, before)
            try:
                if wanted and before is not None and file.holds_ours(text):
                    continue
                original = self._original(file, before, text)
                after = _encoded(file.with_ours(_decoded(file.path, original))) if wanted else original
            except (NotJson, NotToml) as error:
                raise ConnectError(f"{file.path} cannot be read: {error}.", "Mend it, and run this again.") from None
            except Unwritable as error:
                raise ConnectError(str(error), error.hint) from None
            if after != before:
                yield FileEdit(file.path, before, after, original)

    def _original(self, file: ConfigFile, before: bytes | None, text: str) -> bytes | None:
        """Return a file without ours: what it was, else, where others wrote since, what it is but for our entries."""
        if before is None:
            return None
        is_ours, original = self._records.original(file.path.resolve(), before)
        if is_ours:
            return original
        left = file.without_ours(text)
        if left == text:
            return before
        return None if file.is_empty(left) else _encoded(left)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConnectError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from None


def _decoded(path: Path, content: bytes | None) -> str:
    try:
        return "" if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConnectError(f"{path} is not UTF-8.", "Mend it, and run this again.") from None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8")


def _lines(content: bytes | None) -> Sequence[str]:
    text = "" if content is None else content.decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]


def make_private(folder: Path) -> None:
    """Make a folder and those missing above it, for this user alone whatever the umask says."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return PRIVATE


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file beside its place and move it there: a reader sees the old one or the new one."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove folders that only we needed, below the program's own."""
    while folder != top.resolve() and folder.is_relative_to(top.resolve()):
        with contextlib.suppress(OSError):
            folder.rmdir()
        folder = folder.parent

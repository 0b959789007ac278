"""Connecting and disconnecting a program: a plan of edits, shown before it is applied, and records of earlier contents.

A file's earlier bytes are recorded, so that it is restored byte for byte as long as no one else has changed it;
otherwise our entries alone are removed. Claude Code, for one, rewrites its state all the time.
"""

from __future__ import annotations

import base64
import contextlib
import difflib
import json
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...store import replace_file
from .. import HintedError
from .config_files import ConfigFile, NotToml, Unwritable
from .json_text import NotJson
from .programs import Command, Program, UserEnvironment

PRIVATE = 0o600


class ConnectError(HintedError):
    """A program that cannot be connected or disconnected; nothing was changed. `hint` says what to do."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The change of one file. `before` None: it does not exist; `after` None: it is removed.

    `original` is its content without ours, to be restored by disconnecting.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    original: bytes | None = None

    def adds(self, words: str) -> bool:
        """Return True if the words stand in the file more often afterwards."""
        before, after = ((content or b"").count(words.encode()) for content in (self.before, self.after))
        return after > before

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old, new = (_lines(content) for content in (self.before, self.after))
        names = (str(self.path) if self.before is not None else "/dev/null", str(self.path))
        return "".join(difflib.unified_diff(old, new, *names))


class OriginalContents:
    """OriginalContents of the contents of files before our edits, one for each, in a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def original(self, path: Path, content: bytes | None) -> tuple[bool, bytes | None]:
        """Return True if a file has the content that we wrote last, and its content before that."""
        record = self._record(path)
        if content is None or record is None:
            return False, None
        # Someone has changed the file since: its recorded original is not what disconnecting should restore.
        if record["written_sha256"] != sha256(content).hexdigest():
            return False, None
        original = record["original"]
        return True, None if original is None else base64.b64decode(original)

    def keep(self, path: Path, written: bytes, original: bytes | None) -> None:
        """Record the content that we are about to write into a file, the original, and the folders that it lacks."""
        make_private(self._folder)
        record = {
            "path": str(path),
            "written_sha256": sha256(written).hexdigest(),
            "original": None if original is None else base64.b64encode(original).decode("ascii"),
            "made": [*map(str, self.made_for(path) or _missing(path.parent))],
        }
        replace_file(self._file(path), json.dumps(record, indent=1).encode() + b"\n")

    def made_for(self, path: Path) -> list[Path]:
        """Return the folders that were made for a file of ours, the innermost first."""
        record = self._record(path)
        return [] if record is None else [*map(Path, record.get("made", ()))]  # none in one of before

    def follow(self, path: Path, before: bytes | None) -> None:
        """Record a program's own change, made on our behalf, of a file that had the content `before`."""
        is_ours, original = self.original(path, before)
        if is_ours and (now := _read(path)) is not None:
            self.keep(path, now, original)

    def forget(self, path: Path) -> None:
        """Remove the record of a file that has its original content again."""
        self._file(path).unlink(missing_ok=True)

    def _record(self, path: Path) -> dict[str, Any] | None:
        file = self._file(path)
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def _file(self, path: Path) -> Path:
        return self._folder / f"{path.name}-{sha256(str(path).encode()).hexdigest()[:12]}.json"


class AgentConnection:
    """The edits that connect one program, in one of its folders, or disconnect it."""

    def __init__(
        self, program: Program, folder: Path, places: UserEnvironment, command: Command, records: OriginalContents
    ) -> None:
        self.program = program
        self.folder = folder
        self._files = tuple(program.files(folder, places, command))
        self._records = records

    def connecting(self) -> list[FileEdit]:
        """Return the edits that add our entries; none if all are there already. Raises ConnectError."""
        return list(self._edits(wanted=True))

    def disconnecting(self) -> list[FileEdit]:
        """Return the edits that remove our entries. Raises ConnectError."""
        return list(self._edits(wanted=False))

    @contextlib.contextmanager
    def letting_it_write(self) -> Iterator[None]:
        """Let the program change its files inside the block: disconnecting takes back those changes with ours."""
        before = {real: _read(real) for real in (file.path.resolve() for file in self._files)}
        yield
        for real, content in before.items():
            if content is not None and _read(real) != content:
                self._records.follow(real, content)

    def apply(self, edits: Iterable[FileEdit]) -> None:
        """Apply edits, each atomically. Raises ConnectError where a file has changed since it was read.

        A crash between two files leaves a program half connected: connecting again does the rest. Folders that were
        made for files which go now go too, if nothing else is in them.
        """
        made: set[Path] = set()
        for edit in edits:
            real = edit.path.resolve()
            # The edit was shown to the person as a diff: it may not be applied to another content.
            if _read(real) != edit.before:
                raise ConnectError(f"{edit.path} was changed meanwhile.", "Run it again.")
            if edit.after is None:
                real.unlink()
                made.update(self._records.made_for(real))
            else:
                # Recorded first: after a crash in between, the record's hash does not match, and it is ignored.
                if edit.original != edit.after:
                    self._records.keep(real, edit.after, edit.original)
                make_private(real.parent)
                replace_file(real, edit.after, _mode(real))
            if edit.after is None or edit.original == edit.after:
                self._records.forget(real)
        for folder in sorted(made, key=lambda one: len(one.parts), reverse=True):
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()

    def _edits(self, *, wanted: bool) -> Iterable[FileEdit]:
        for file in self._files:
            before = _read(file.path.resolve())
            text = _decoded(file.path, before)
            try:
                # Connecting again must not move our entries: Codex trusts a hook by its position.
                if wanted and before is not None and file.holds_ours(text):
                    continue
                original = self._original(file, before, text)
                after = file.with_ours(_decoded(file.path, original)).encode() if wanted else original
            except (NotJson, NotToml) as error:
                raise ConnectError(f"{file.path} cannot be read: {error}.", "Mend it, and run this again.") from None
            except Unwritable as error:
                raise ConnectError(str(error), error.hint) from None
            if after != before:
                yield FileEdit(file.path, before, after, original)

    def _original(self, file: ConfigFile, before: bytes | None, text: str) -> bytes | None:
        """Return a file's recorded original; if others changed it since, its content without our entries."""
        if before is None:
            return None
        is_ours, original = self._records.original(file.path.resolve(), before)
        if is_ours:
            return original
        left = file.without_ours(text)
        if left == text:
            return before
        return None if file.is_empty(left) else left.encode()


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


def _lines(content: bytes | None) -> Sequence[str]:
    text = "" if content is None else content.decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(keepends=True)]


def make_private(folder: Path) -> None:
    """Make a folder and the missing ones above it, private whatever the umask."""
    for missing in reversed(_missing(folder)):
        missing.mkdir(mode=0o700, exist_ok=True)


def _missing(folder: Path) -> list[Path]:
    """Return the folder and those above it that do not exist, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return PRIVATE

"""Files that are made of others, as the catalogue is: ours while they are as we wrote them last, else a person's.

Each says so itself, in its last line, so that a new ledger and another version know it too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from .. import okf
from ..ledger import records
from ..ledger.journal import FileChange, sha256
from ..ledger.ledger import Ledger
from ..model import InvalidInput, NotFound
from ..results import Problem
from ..vault.vault import Vault, is_derived
from .pending import PendingFiles
from .writer import Planned, Writer

FLAG = "derived:"
"""The prefix of a path in the ledger's flags: its hash as last written by a version that did not mark its files."""

RUN = "derived"
"""The run id of these changes in the journal: of no recorded action, and of nothing that waits for a person's file."""

IS_YOURS = (
    "it is yours{}, or of a version that did not mark what it wrote: dreams do not write there; moved away or deleted,"
    " they do"
)

_MARK = re.compile(rb"<!-- Written by dreamd, and anew while nothing here is changed: ([0-9a-f]{64}) -->\n\Z")
"""The last line of a derived file (a comment in markdown and in HTML), with the hash of the text before it."""

_DAY = re.compile(r"^##[ \t]+\d{4}-\d{2}-\d{2}", re.MULTILINE)
_LISTED = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+.*\[")


def marked(page: bytes) -> bytes:
    """Return a derived file with the mark by which its text is known to be ours, whatever became of the ledger."""
    text = unmarked(page)
    # The hash covers the page with its last newline, which editors add by themselves.
    text += b"" if text.endswith(b"\n") else b"\n"
    digest = hashlib.sha256(text).hexdigest()
    return text + f"<!-- Written by dreamd, and anew while nothing here is changed: {digest} -->\n".encode()


def unmarked(page: bytes) -> bytes:
    """Return a derived file without its mark."""
    return _MARK.sub(b"", page)


def is_marked(page: bytes) -> bool:
    """Check for a derived file that we wrote once, changed since or not."""
    return _MARK.search(page) is not None


def is_as_marked(page: bytes) -> bool:
    """Check for a derived file that is as we wrote it last."""
    return is_marked(page) and marked(page) == page


class DerivedFiles:
    """Writes derived files through the journal, and overwrites only those that are as we wrote them last."""

    def __init__(self, vault: Vault, ledger: Ledger, writer: Writer) -> None:
        self._vault = vault
        self._ledger = ledger
        self._writer = writer

    def write(self, pages: Mapping[str, str | None]) -> tuple[str, ...]:
        """Write these texts into these files (None: delete); return the files that are a person's, and stay.

        Raises InvalidInput for a path that is not of a derived file, StoreError when nothing can be written.
        """
        for path in pages:
            if not is_derived(path):
                raise InvalidInput(f"{path} is not a derived file")
        wanted = {path: None if text is None else marked(text.encode()) for path, text in pages.items()}
        return self._writer.submit(lambda files: self._plan(files, wanted)).result()

    def ours(self) -> set[str]:
        """Return the paths that we wrote once, also those that a person has changed since."""
        flags = {name.removeprefix(FLAG) for name in self._ledger.flags(FLAG)}
        return flags | {path for path in self._vault.derived() if is_marked(self._vault.read_if_any(path) or b"")}

    def is_ours(self, path: str) -> bool:
        """Return True if a path may be written: no file is there, or one as we wrote it last."""
        try:
            found = self._vault.read_if_any(path)
            if found is None:
                return not os.path.lexists(self._vault.resolve(path))
        except InvalidInput:
            return False
        return _is_as_written(path, found, self._ledger.flags(FLAG))

    def foreign(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that have a derived file's name and are a person's, with their content."""
        hashes = self._ledger.flags(FLAG)
        for path in self._vault.derived():
            found = self._vault.read_if_any(path)
            if found is not None and not _is_as_written(path, found, hashes):
                yield path, found

    def _plan(self, files: PendingFiles, pages: Mapping[str, bytes | None]) -> Planned[tuple[str, ...]]:
        # In the writer's thread: no other write can come between this look and the change.
        hashes = self._ledger.flags(FLAG)
        changes: list[FileChange] = []
        foreign: list[str] = []
        for path, wanted in pages.items():
            try:
                found = files.read(path) if files.exists(path) else None
            except (InvalidInput, NotFound):  # something else has its name, or it leads out of the vault
                foreign.append(path)
                continue
            if found is not None and not _is_as_written(path, found, hashes):
                foreign.append(path)
            elif found != wanted:
                changes.append(_change(path, found, wanted))
        known = [records.clear_flag(FLAG + path) for path in pages if FLAG + path in hashes and path not in foreign]
        return Planned(tuple(foreign), changes, known)


def _is_as_written(path: str, found: bytes, hashes: Mapping[str, str]) -> bool:
    """Return True if a file is as we wrote it last; `hashes` are the ledger's, of files without a mark."""
    return is_as_marked(found) or sha256(found) == hashes.get(FLAG + path)


def _change(path: str, found: bytes | None, wanted: bytes | None) -> FileChange:
    before = None if found is None else sha256(found)
    if wanted is None:
        return FileChange("delete", path, b"", 0, before, RUN, 0)
    return FileChange("create" if found is None else "replace", path, wanted, 0, before, RUN, 0)


def notes_on(foreign: Iterable[tuple[str, bytes]]) -> list[Problem]:
    """Return notes on a person's files that have the name of a derived one.

    One note that dreamd does not overwrite them, and one for each that recall leaves out though it is no catalogue.
    """
    found = sorted(foreign, key=lambda each: (each[0].count("/"), each[0]))
    if not found:
        return []
    (path, _), *rest = found
    named = f", {len(rest)} more of such names ({', '.join(path for path, _ in rest[:3])})" if rest else ""
    notes = [Problem(path, IS_YOURS.format(named), "note")]
    return notes + [
        Problem(path, "recall leaves it out, since its name is reserved; by another name it is found", "note")
        for path, data in found
        if path.endswith(".md") and not is_catalogue(path, data)
    ]


def is_catalogue(path: str, data: bytes) -> bool:
    """Return True for a table of contents or a dated log, as the format has them (OKF v0.2, 8 and 9)."""
    body = okf.parse(data).body
    if path.rpartition("/")[2] == "log.md":
        return _DAY.search(body) is not None
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
    return 2 * sum(_LISTED.match(line) is not None for line in lines) >= len(lines)

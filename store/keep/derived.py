"""Files that are made of others, as the catalogue is: ours while they hold what we wrote last, else a person's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from ..model import InvalidInput, NotFound
from ..results import Problem
from . import okf
from .files.vault import Vault, is_derived
from .ledger import records
from .ledger.journal import FileChange, sha256
from .ledger.ledger import Ledger
from .ledger.records import Write
from .writer.pending import PendingFiles
from .writer.writer import Planned, Writer

FLAG = "derived:"
"""Before a path, in the ledger's flags: the hash of what we wrote there last."""

RUN = "derived"
"""The run id of these changes in the journal: of no recorded action, and of nothing that waits for a person's file."""

_DAY = re.compile(r"^##[ \t]+\d{4}-\d{2}-\d{2}", re.MULTILINE)
_LISTED = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+.*\[")


class DerivedFiles:
    """Writes them through the journal, as every file, and only over what we wrote last."""

    def __init__(self, vault: Vault, ledger: Ledger, writer: Writer) -> None:
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._planned: dict[str, str | None] = {}  # what is planned and may not be committed yet; the writer's thread

    def write(self, pages: Mapping[str, str | None]) -> tuple[str, ...]:
        """Let these files hold these texts (None: be gone); return those that are a person's, and stay.

        Raises InvalidInput for a path that is not of a derived file, StoreError when nothing can be written.
        """
        for path in pages:
            if not is_derived(path):
                raise InvalidInput(f"{path} is not a derived file")
        wanted = {path: None if text is None else text.encode() for path, text in pages.items()}
        return self._writer.submit(lambda files: self._plan(files, wanted)).result()

    def ours(self) -> set[str]:
        """Return the paths that we wrote last, whatever is there now."""
        return {name.removeprefix(FLAG) for name in self._ledger.flags(FLAG)}

    def is_ours(self, path: str) -> bool:
        """Tell whether a path may be written: nothing is there, or what we wrote last."""
        try:
            found = self._vault.read_if_any(path)
            if found is None:
                return not os.path.lexists(self._vault.resolve(path))
        except InvalidInput:
            return False
        return sha256(found) == self._ledger.flags(FLAG).get(FLAG + path)

    def foreign(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that have a derived file's name and are a person's, with what they hold."""
        hashes = self._ledger.flags(FLAG)
        for path in self._vault.derived():
            found = self._vault.read_if_any(path)
            if found is not None and sha256(found) != hashes.get(FLAG + path):
                yield path, found

    def _plan(self, files: PendingFiles, pages: Mapping[str, bytes | None]) -> Planned[tuple[str, ...]]:
        hashes = self._ledger.flags(FLAG)
        changes: list[FileChange] = []
        writes: list[Write] = []
        foreign: list[str] = []
        for path, wanted in pages.items():
            try:
                found = files.read(path) if files.exists(path) else None
            except (InvalidInput, NotFound):  # something else has its name, or it leads out of the vault
                foreign.append(path)
                continue
            known = {hashes.get(FLAG + path), self._planned.get(path)}
            if found is not None and sha256(found) not in known:
                foreign.append(path)
                continue
            if found != wanted:
                changes.append(_change(path, found, wanted))
                self._planned[path] = None if wanted is None else sha256(wanted)
            if found != wanted or wanted is None:
                writes.append(_remembered(path, wanted))
        return Planned(tuple(foreign), changes, writes)


def _change(path: str, found: bytes | None, wanted: bytes | None) -> FileChange:
    before = None if found is None else sha256(found)
    if wanted is None:
        return FileChange("delete", path, b"", 0, before, RUN, 0)
    return FileChange("create" if found is None else "replace", path, wanted, 0, before, RUN, 0)


def _remembered(path: str, wanted: bytes | None) -> Write:
    name = FLAG + path
    return records.clear_flag(name) if wanted is None else records.set_flag(name, sha256(wanted))


def notes_on(foreign: Iterable[tuple[str, bytes]]) -> list[Problem]:
    """Return notes on a person's files that have the name of a derived one.

    One note that dreamd does not overwrite them, and one for each that recall leaves out though it is no catalogue.
    """
    found = list(foreign)
    if not found:
        return []
    path = min((path for path, _ in found), key=lambda path: (path.count("/"), path))
    more = f", with {len(found) - 1} more of such names" if len(found) > 1 else ""
    notes = [Problem(path, f"it is yours{more}: dreams do not write there; moved away, they do", "note")]
    return notes + [
        Problem(path, "recall leaves it out, since its name is reserved; by another name it is found", "note")
        for path, data in found
        if path.endswith(".md") and not is_catalogue(path, data)
    ]


def is_catalogue(path: str, data: bytes) -> bool:
    """Tell whether a file is a table of contents or a dated log, as the format has them (OKF v0.2, 8 and 9)."""
    body = okf.parse(data).body
    if path.rpartition("/")[2] == "log.md":
        return _DAY.search(body) is not None
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
    return 2 * sum(_LISTED.match(line) is not None for line in lines) >= len(lines)

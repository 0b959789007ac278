"""The vault as it will be once everything acknowledged is written, which plans read; and the fit of blind entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ledger.journal import Entry, FileChange, sha256
from ..model import Conflict, NotFound
from ..okf import session
from ..vault.layout import SESSIONS_FOLDER
from ..vault.vault import Vault


class _Ahead:
    """A file that is ahead of the disk: the first `base` bytes of the file there (0: none), then `parts`."""

    __slots__ = ("base", "gone", "parts", "size", "waiting")

    def __init__(self, base: int) -> None:
        self.base = base
        self.parts: list[bytes] = []
        self.size = base
        self.gone = False
        self.waiting = 0


class PendingFiles:
    """Reads files as if all that was acknowledged, and the earlier plans of this batch, were on the disk already."""

    def __init__(self, vault: Vault, size_on_disk: Callable[[str], int | None]) -> None:
        self._vault = vault
        self._size_on_disk = size_on_disk
        self._ahead: dict[str, _Ahead] = {}
        self._absent: set[str] = set()

    def exists(self, path: str) -> bool:
        """Return True if there is a file."""
        return self.size(path) is not None

    def is_ahead(self, path: str) -> bool:
        """Return True if a file is ahead of the disk."""
        return path in self._ahead

    def size(self, path: str) -> int | None:
        """Return a file's size, None when there is no file."""
        ahead = self._ahead.get(path)
        if ahead is not None:
            return None if ahead.gone else ahead.size
        # A batch of new files asks for each name several times; one stat that found nothing is enough for a batch.
        if path in self._absent:
            return None
        size = self._size_on_disk(path)
        if size is None:
            self._absent.add(path)
        return size

    def read(self, path: str) -> bytes:
        """Return a file's content. Raises NotFound."""
        ahead = self._ahead.get(path)
        if ahead is None:
            return self._vault.read(path)
        if ahead.gone:
            raise NotFound(f"there is no {path} in the vault")
        base = self._vault.read(path)[: ahead.base] if ahead.base else b""
        return b"".join((base, *ahead.parts))

    def path_named(self, name: str, folder: str) -> str | None:
        """Return the path of a file of this name that is ahead of the disk, at any depth below a folder."""
        ahead = (path for path, state in self._ahead.items() if not state.gone and path.startswith(folder))
        return next((path for path in ahead if path.endswith(f"/{name}")), None)

    def under(self, prefix: str) -> dict[str, bytes | None]:
        """Return the files that are ahead of the disk below a folder: each with its content, None for one that goes."""
        ahead = ((path, state) for path, state in self._ahead.items() if path.startswith(prefix))
        return {path: None if state.gone else self.read(path) for path, state in ahead}

    # ---- the writer's side

    def new_batch(self) -> None:
        """Forget which files were absent on the disk."""
        self._absent.clear()

    def admit(self, change: FileChange) -> None:
        """Take a change as made. Raises Conflict when it does not fit the file that is there."""
        path = change.path
        if change.kind == "append":
            size = self.size(path) or 0
            if size != change.from_offset:
                raise Conflict(f"{path} has {size} bytes, not the {change.from_offset} that an append was planned for")
        elif change.kind == "create":
            if self.exists(path):
                raise Conflict(f"{path} exists already")
        # A file that lies on the disk alone is compared when it is placed: a person may change it until then.
        elif path in self._ahead and (not self.exists(path) or sha256(self.read(path)) != change.pre_sha256):
            raise Conflict(f"{path} is no longer what its change was planned against")
        self._take(change.kind, path, change.content, change.from_offset)

    def _take(self, kind: str, path: str, content: bytes, from_offset: int) -> None:
        ahead = self._ahead.get(path)
        if ahead is None:
            ahead = self._ahead[path] = _Ahead(from_offset if kind == "append" else 0)
        if kind == "append":
            ahead.parts.append(content)
            ahead.size += len(content)
        else:
            ahead.base = 0
            ahead.parts = [content]
            ahead.size = len(content)
        ahead.gone = kind == "delete"
        # Counted, since one file may have several entries, which are placed in several turns.
        ahead.waiting += 1

    def placed(self, entries: Iterable[Entry]) -> None:
        """Drop changes that are visible on the disk now."""
        for entry in entries:
            ahead = self._ahead.get(entry.path)
            if ahead is not None:
                ahead.waiting -= 1
                if ahead.waiting == 0:
                    del self._ahead[entry.path]

    def reset(self, entries: Iterable[Entry]) -> None:
        """Start over from the entries that are acknowledged and not yet visible."""
        self._ahead.clear()
        self._absent.clear()
        for entry in entries:
            self._take(entry.kind, entry.path, entry.content, entry.from_offset)


def fit(entry: Entry, files: PendingFiles) -> FileChange | None:
    """Return the change that brings an entry's content into the files that are there; None when they have it already.

    The entry was planned while the vault was away, so a file that it creates may exist: a session's turns then are
    appended to it (each once by its external id), and a memory with the same path is the same memory.
    """
    size = files.size(entry.path)
    fits = size is None if entry.kind == "create" else size == entry.from_offset
    if entry.kind not in {"create", "append"} or fits:
        return _as_planned(entry)
    if not entry.path.startswith(SESSIONS_FOLDER):
        return None
    return _append_turns(entry, files.read(entry.path) if size is not None else None)


def _as_planned(entry: Entry) -> FileChange:
    return FileChange(
        entry.kind, entry.path, entry.content, entry.from_offset, entry.pre_sha256, entry.run_id, entry.ordinal
    )


def _append_turns(entry: Entry, found: bytes | None) -> FileChange | None:
    there = session.parse(found or b"")
    known = {turn.external_id for turn in there.turns if turn.external_id is not None}
    fresh = [
        turn for turn in session.parse(entry.content).turns if turn.external_id is None or turn.external_id not in known
    ]
    if not fresh:
        return None
    content = session.continuation(there, fresh)
    if found is None:
        return FileChange("create", entry.path, content)
    return FileChange("append", entry.path, content, from_offset=len(found))

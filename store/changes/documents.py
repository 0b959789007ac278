"""Documents by key: put, read, listed, searched, renamed and deleted. A change is acknowledged once it is on the disk.

A read sees everything that was acknowledged before it, also changes that are not in the file yet; it needs no index.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from .. import okf
from ..core import Core
from ..door import Door
from ..embedding.embedding import ModelUnavailable
from ..index.index import COLLECTION
from ..ledger import records
from ..ledger.journal import FileChange, sha256
from ..ledger.records import Run, Write
from ..model import Action, ActionKind, Conflict, InvalidInput, NodeId, NotFound
from ..results import Document, Moved, Ranked, Stored
from ..text.words import query_terms, stems_of
from ..vault.vault import FileStamp
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from . import document_file
from .run_kinds import EDIT, FORGET, new_run_id

# Documents held in memory, and the bytes of their values; the least recently used are dropped.
MOST_DOCUMENTS: Final = 10_000
MOST_BYTES: Final = 16 * 2**20


# Between two documents: they are listed in the order in which they were made.
TICK: Final = timedelta(microseconds=1)

# The share of its time to live that must have passed before a use of a document is written into its file.
REFRESH_SHARE: Final = 0.1


class Documents:
    """Keeps documents. Every method may be called from any thread, but not the writer's."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._vault = core.vault
        self._writer = core.writer
        self._now = core.now
        self._door = core.door
        self._held = _ReadDocuments(core.door)
        self._last = datetime.min

    # ---- reading

    def get(self, space: Sequence[str], key: str, *, refresh: bool = False) -> Document | None:
        """Return a document, None where there is none. `refresh`: its time to live begins again."""
        self._core.calls.note()
        path = self._path(space, key)
        if (found := self._living(path, self._read(path), self._held.read)) is None:
            return None
        return self._refreshed(path, found) if refresh and found.ttl_minutes is not None else found

    def select(
        self,
        space: Sequence[str] = (),
        *,
        prefix: str = "",
        deep: bool = False,
        after: str | None = None,
    ) -> Iterator[tuple[str, Document]]:
        """Yield the documents of a space, the oldest first, each with the mark from which `after` goes on.

        `deep`: of the spaces within it too; no space at all is all of them. `prefix`: the beginning of their keys.
        """
        self._core.calls.note()
        wanted = document_file.clean_space(space, self._door) if space else ()
        for mark, found in self._listed(wanted, prefix, deep=deep or not wanted):
            if after is None or mark > after:
                yield mark, found

    # ---- changing

    def put(
        self,
        space: Sequence[str],
        key: str,
        value: Any,
        *,
        channel: str,
        if_version: str | None = None,
        ttl_minutes: float | None = None,
        searched: bool = True,
    ) -> Stored:
        """Keep a value under a key; it survives a power cut when this returns.

        `if_version`: only in the place of this version, of none where it is empty; else Conflict is raised. Raises
        InvalidInput for a name or a value that cannot be kept, and StoreReadOnly where nothing is learned.
        """
        self._core.calls.note()
        self._door.check_names(channel)
        self._core.switches.refuse_if_off(channel)
        space, key = document_file.clean_space(space, self._door), document_file.clean_key(key, self._door)
        document_file.check_size(value)
        value, redacted = document_file.clean_value(value, self._door)
        document_file.check_size(value)
        body, is_text = document_file.body_of(value)
        path = document_file.path_of(space, key)
        self._vault.raise_if_away()

        # The version is checked in the writer's thread: no other put can come in between.
        def plan(files: PendingFiles) -> Planned[Stored]:
            before = files.read(path) if files.exists(path) else None
            known = self._living(path, before, document_file.read_raw)
            _check_version(key, known, if_version)
            at = self._tick()
            created_at = known.created_at if known else at
            content = document_file.render(
                space, key, body, channel, created_at, at, ttl_minutes, is_text=is_text, searched=searched
            )
            if before is not None:
                content = document_file.replaced(path, before, content)
            expires_at = None if ttl_minutes is None else document_file.expiry(at, ttl_minutes)
            stored = Stored(
                document_file.node_id_of(space, key),
                document_file.version_of(content),
                created_at,
                at,
                expires_at,
                redacted,
            )
            return Planned(stored, (_change(path, before, content),))

        return self._writer.submit(plan).result()

    def delete(
        self, space: Sequence[str], key: str | None = None, *, tree: bool = False, if_version: str | None = None
    ) -> Moved:
        """Delete a document, as a run that `undo` reverts; without a key, all of a space.

        `tree`: those below it too, whose keys begin with it and a slash. Raises Conflict for another version.
        """
        self._core.calls.note()
        space = document_file.clean_space(space, self._door)
        found = self._tree(space, key, tree=tree)
        for each in found.values():
            self._core.switches.refuse_if_off(each.channel)
            _check_version(each.key, each, if_version)
        return self._delete(found, "deleted by its agent")

    def rename(self, space: Sequence[str], key: str, to: str, *, tree: bool = False) -> Moved:
        """Give a document another key, as a run; with `tree` those below it too: all of them, or none.

        Raises NotFound, and Conflict where something has that key already.
        """
        self._core.calls.note()
        space, key = document_file.clean_space(space, self._door), document_file.clean_key(key, self._door)
        to = document_file.clean_key(to, self._door)
        found = self._tree(space, key, tree=tree)
        if not found:
            raise NotFound(f"there is no document {key!r}", hint="`document_list` names those that are there.")
        if to == key or (tree and to.startswith(f"{key}/")):
            raise InvalidInput(f"{to!r} lies within {key!r}")
        if taken := self._tree(space, to, tree=True):
            raise Conflict(f"there is a document {next(iter(taken.values())).key!r} already")
        for each in found.values():
            self._core.switches.refuse_if_off(each.channel)
        named = {path: to + each.key.removeprefix(key) for path, each in found.items()}
        for name in named.values():
            document_file.clean_key(name, self._door)
        run_id = new_run_id(self._now(), EDIT)

        def plan(files: PendingFiles) -> Planned[Moved]:
            steps = _Steps(run_id, EDIT, self._tick(), f"renamed a document, {len(found)} in all")
            for path, each in found.items():
                data = _unchanged(files, path, each)
                target = document_file.path_of(space, named[path])
                if files.exists(target):
                    raise Conflict(f"there is a document {named[path]!r} already")
                steps.create(target, document_file.renamed(data, space, named[path], steps.at), each)
                steps.delete(path, data, each, records.RENAMED)
            return Planned(Moved(len(found), run_id), steps.changes, steps.rows(), awaited=True)

        return self._writer.submit(plan).result()

    def sweep(self) -> None:
        """Delete every expired document."""
        for _ in self._listed((), "", deep=True):
            pass

    # ---- inside

    def _path(self, space: Sequence[str], key: str) -> str:
        return document_file.path_of(
            document_file.clean_space(space, self._door), document_file.clean_key(key, self._door)
        )

    def _read(self, path: str) -> bytes | None:
        self._vault.raise_if_away()
        plan = self._writer.submit(lambda files: Planned(files.read(path) if files.exists(path) else None))
        data: bytes | None = plan.result()
        return data

    def _living(self, path: str, data: bytes | None, read: Callable[[str, bytes], Document | None]) -> Document | None:
        found = None if data is None else read(path, data)
        return None if found is None or self._is_over(found) else found

    def _is_over(self, found: Document) -> bool:
        return found.expires_at is not None and found.expires_at <= self._now()

    def _listed(self, space: tuple[str, ...], prefix: str, *, deep: bool) -> list[tuple[str, Document]]:
        """Read the documents of a space in their order; expired ones are deleted on the way."""
        listed, over = [], {}
        for path, found in self._below(space):
            if found.space[: len(space)] != space or not (deep or found.space == space):
                continue
            if self._is_over(found):
                over[path] = found
            elif found.key.startswith(prefix):
                listed.append((f"{found.created_at.isoformat()} {found.node_id}", found))
        if over:
            self._delete(over, "its time was over", moved_on_is_fine=True)
        return sorted(listed, key=lambda each: each[0])

    def _below(self, space: tuple[str, ...]) -> Iterator[tuple[str, Document]]:
        """Yield the documents below a space's folder, as they are on the disk and as they are about to be."""
        self._vault.raise_if_away()
        folder = document_file.folder_of(space)
        # Files of acknowledged puts may not be on the disk yet: those of the writer take precedence.
        ahead = self._writer.submit(lambda files: Planned(files.under(f"{folder}/"))).result()
        for path, data in ahead.items():
            if data is not None and (found := self._held.read(path, data)):
                yield path, found
        for stamp in self._vault.walk_folder(folder):
            if stamp.path not in ahead and (found := self._on_disk(stamp)):
                yield stamp.path, found

    def _on_disk(self, stamp: FileStamp) -> Document | None:
        if (held := self._held.of(stamp)) is not None:
            return held
        data = self._vault.read_if_any(stamp.path)
        return None if data is None else self._held.read(stamp.path, data, stamp)

    def _tree(self, space: tuple[str, ...], key: str | None, *, tree: bool) -> dict[str, Document]:
        """Return a document by its path, and with `tree` those below it; all of a space for no key."""
        if key is None:
            return {document_file.path_of(space, found.key): found for _, found in self._listed(space, "", deep=False)}
        key = document_file.clean_key(key, self._door)
        path = document_file.path_of(space, key)
        own = self._living(path, self._read(path), self._held.read)
        found = {path: own} if own is not None else {}
        if tree:
            below = (each for _, each in self._listed(space, f"{key}/", deep=False))
            found |= {document_file.path_of(space, each.key): each for each in below}
        return found

    def _delete(self, found: dict[str, Document], reason: str, *, moved_on_is_fine: bool = False) -> Moved:
        if not found:
            return Moved(0, None)
        run_id = new_run_id(self._now(), FORGET)

        def plan(files: PendingFiles) -> Planned[Moved]:
            steps = _Steps(run_id, FORGET, self._tick(), f"deleted documents, {len(found)} in all: {reason}")
            for path, each in found.items():
                try:
                    steps.delete(path, _unchanged(files, path, each), each, reason)
                except Conflict:
                    if not moved_on_is_fine:
                        raise
            return Planned(Moved(len(steps.changes), run_id), steps.changes, steps.rows(), awaited=True)

        return self._writer.submit(plan).result()

    def _refreshed(self, path: str, found: Document) -> Document:
        """Return a document with a new time to live; its file is written only after a share of the old time."""
        assert found.ttl_minutes is not None
        expires_at = document_file.expiry(self._now(), found.ttl_minutes)
        left = timedelta(minutes=found.ttl_minutes * REFRESH_SHARE)
        if found.expires_at is not None and expires_at - found.expires_at < left:
            return found

        def plan(files: PendingFiles) -> Planned[str]:
            data = _unchanged(files, path, found)
            content = okf.edit(data, {"stale_after": expires_at.isoformat()})
            return Planned(document_file.version_of(content), (_change(path, data, content),))

        try:
            version = self._writer.submit(plan).result()
        except Conflict:  # it was replaced meanwhile, and lives from then on
            return found
        return replace(found, expires_at=expires_at, version=version)

    def _tick(self) -> datetime:
        """Return an instant after that of every document before. Called in the writer's thread alone."""
        # Two puts within one microsecond would else have no order.
        now = self._now()
        self._last = max(now, self._last.replace(tzinfo=now.tzinfo) + TICK)
        return self._last


class _Steps:
    """The changes of one run, and its rows for the ledger."""

    def __init__(self, run_id: str, kind: str, at: datetime, note: str) -> None:
        self.at = at
        self.changes: list[FileChange] = []
        self._run = Run(run_id, kind, "applied", at, at, summary={"note": note})
        self._rows: list[Write] = []

    def create(self, path: str, content: bytes, of: Document) -> None:
        """Create a file."""
        action = Action(
            kind=ActionKind.CREATE,
            path=path,
            node_id=document_file.node_id_of(of.space, str(okf.parse(content).meta["key"])),
            stage=self._run.kind,
            reason=records.RENAMED,
            content=content,
        )
        self._add(FileChange("create", path, content, 0, None, self._run.run_id, len(self.changes)), action, None)

    def delete(self, path: str, data: bytes, of: Document, reason: str) -> None:
        """Delete a file; its content stays in the history."""
        action = Action(
            kind=ActionKind.DELETE,
            path=path,
            node_id=of.node_id,
            stage=self._run.kind,
            reason=reason,
            pre_sha256=sha256(data),
        )
        self._add(FileChange("delete", path, b"", 0, sha256(data), self._run.run_id, len(self.changes)), action, data)

    def rows(self) -> list[Write]:
        """Return the rows of the run and its actions; none where nothing is left to do."""
        return [records.record_run(self._run), *self._rows] if self._rows else []

    def _add(self, change: FileChange, action: Action, before: bytes | None) -> None:
        images = records.packed(before), records.packed(action.content)
        self._rows.append(records.record_action(self._run.run_id, len(self.changes), action, images, None))
        self.changes.append(change)


def _unchanged(files: PendingFiles, path: str, seen: Document) -> bytes:
    """Return the content of a document's file. Raises Conflict where it is not the version that was seen."""
    data = files.read(path) if files.exists(path) else None
    if data is None or document_file.version_of(data) != seen.version:
        raise Conflict(f"the document {seen.key!r} was changed in the meantime", hint="Read it, and try again.")
    return data


def _check_version(key: str, known: Document | None, wanted: str | None) -> None:
    if wanted is None or wanted == (known.version if known else ""):
        return
    if known is None:
        raise Conflict(f"the document {key!r} is not there any more", hint="Put it without `if_version`.")
    what = "was changed in the meantime" if wanted else "is there already"
    raise Conflict(f"the document {key!r} {what}", hint="Read it, and try again with its version.")


def _change(path: str, before: bytes | None, content: bytes) -> FileChange:
    if before is None:
        return FileChange("create", path, content)
    return FileChange("replace", path, content, 0, sha256(before))


# The longest wait for the index to hold documents put before.
WAIT_S = 10.0


class DocumentSearch:
    """Ranks the documents of a space for a question. Every method may be called from any thread.

    Unlike recall it looks at each of them, so that a small space is not lost among a large memory; where there is no
    vector for one yet, its words stand in: the share of the question's that it holds.
    """

    def __init__(self, core: Core, documents: Documents) -> None:
        self._core = core
        self._catalog = core.catalog
        self._backend = core.index.backend
        self._embedder = core.embedder
        self._documents = documents

    def search(self, space: Sequence[str], query: str, *, deep: bool = True) -> list[Ranked]:
        """Return the searched documents of a space, the nearest first; `deep`: those of the spaces within it too."""
        found = [each for _, each in self._documents.select(space, deep=deep) if each.searched]
        self._core.settle(WAIT_S)
        cosines = self._cosines([each.node_id for each in found], query)
        ranked = [Ranked(each, round(cosines.get(each.node_id) or _shared(each, query), 4)) for each in found]
        return sorted(ranked, key=lambda each: (-each.score, each.document.created_at))

    def _cosines(self, node_ids: Sequence[NodeId], query: str) -> dict[NodeId, float]:
        """Return the cosine of the nearest piece of each node that has a vector; {} without a model or vectors."""
        if not self._backend.capabilities().vector:
            return {}
        pieces = self._catalog.pieces(node_ids)
        try:
            vector = self._embedder.embed_query(query)
        except ModelUnavailable:
            return {}
        best: dict[NodeId, float] = {}
        for piece, cosine in self._backend.cosines(COLLECTION, vector, pieces).items():
            node_id = pieces[piece]
            best[node_id] = max(cosine, best.get(node_id, 0.0))
        return best


def _shared(found: Document, query: str) -> float:
    terms = stems_of(query_terms(query))
    return len(terms & stems_of(query_terms(str(found.value), limit=10_000))) / len(terms) if terms else 0.0


class _ReadDocuments:
    """Reads documents, and holds those on the disk, so that a space is listed again without reading its files.

    Every method may be called from any thread.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._gate = threading.Lock()
        self._held: OrderedDict[str, tuple[FileStamp, Document]] = OrderedDict()
        self._size_bytes = 0

    def of(self, stamp: FileStamp) -> Document | None:
        """Return the document of a file that is as it was when it was read."""
        with self._gate:
            held = self._held.get(stamp.path)
            if held is None or held[0] != stamp:
                return None
            self._held.move_to_end(stamp.path)
            return held[1]

    def read(self, path: str, data: bytes, stamp: FileStamp | None = None) -> Document | None:
        """Read a document's file; None for one that is no document. With its `stamp` it is held."""
        found = document_file.read(path, data, self._door)
        if found is not None and stamp is not None and stamp.size == len(data):
            self._hold(stamp, found)
        return found

    def _hold(self, stamp: FileStamp, found: Document) -> None:
        with self._gate:
            if (before := self._held.pop(stamp.path, None)) is not None:
                self._size_bytes -= before[1].size_bytes
            self._held[stamp.path] = (stamp, found)
            self._size_bytes += found.size_bytes
            while len(self._held) > MOST_DOCUMENTS or self._size_bytes > MOST_BYTES:
                _, (_, oldest) = self._held.popitem(last=False)
                self._size_bytes -= oldest.size_bytes

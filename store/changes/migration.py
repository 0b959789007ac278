"""The move of a flat vault into folders by project and kind: one run, which a crash resumes and `undo` takes back.

What a person wrote keeps every byte but the targets of its links. A file that is as dreamd wrote it gets its keys in
the new order too. Sessions and documents stay where they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from .. import okf
from ..core import Core
from ..index.projection import is_session
from ..index.tombstones import edit_key
from ..ledger import records
from ..ledger.journal import FileChange, sha256
from ..ledger.records import RecordedAction, Run, Write
from ..model import Action, ActionKind, InvalidInput, Kind, Level, NodeId, StoreBusy
from ..okf.memory_file import BY_HAND, body_hash, has_known_words, is_edited_page
from ..redaction import places_of_secrets
from ..results import Migrated
from ..vault.layout import LAYOUT, Layout, in_flat_folder, is_flat, path_for
from ..vault.vault import FileStamp, is_digest
from ..writer.derived import is_as_marked, marked, unmarked
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .run_kinds import HISTORY_DAYS, MIGRATE, UNDID, UNDO, Expired, Overtaken, SkippedAction, Undone, new_run_id

WRITTEN_WITHIN_S: Final = 600.0

TRIES: Final = 3
"""The attempts to plan, each from the files as they are then, while others write to them."""

MOST_SHOWN: Final = 20

_LINK = re.compile(rb"""(\]\(<?|^\[[^\]\n]{1,100}\]:[ ]?|\bhref=")([^)\s"<>#]{1,600})""", re.MULTILINE)
_WIKI_LINK = re.compile(rb"(\[\[)([^\]\[|#\n]{1,600})")
_RESOURCE = re.compile(rb"""((?:^|[ "'])/)([^\s"',}\])]{1,600}\.md)""", re.MULTILINE)
_HEAD = re.compile(rb"---[ \t]*\r?\n(?:.*\r?\n)*?---[ \t]*\r?\n")

_REASON: Final = "to the folder of its project"


class _FileAsRead(NamedTuple):
    """A file as it was read; by its stamp it is known to be so still."""

    stamp: FileStamp
    data: bytes


@dataclass(slots=True)
class _Changes:
    """The changes of files: `moves` leads from old paths to new ones, `after` has the content of each that changes."""

    files: Mapping[str, _FileAsRead]
    moves: dict[str, str]
    after: dict[str, bytes] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def node_id(self, path: str) -> NodeId:
        """Return the node of a file."""
        return okf.to_memory(path, okf.parse(self.files[path].data)).node_id


class LayoutMigration:
    """Moves the memories of a flat vault. Every method may be called from any thread but the writer's."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._vault = core.vault
        self._ledger = core.ledger
        self._writer = core.writer

    def migrate(self, *, dry_run: bool = False) -> Migrated:
        """Move every memory to its folder, and rewrite the links to it. Raises StoreBusy while others write a lot."""
        for _ in range(TRIES):
            self._settle()
            changes = self._forth()
            linked, left = len(changes.after) - len(changes.moves), tuple(sorted(changes.left.items()))
            found = Migrated(None, len(changes.moves), linked, left, tuple(sorted(changes.moves.items())[:MOST_SHOWN]))
            if dry_run or not (changes.after or self._core.layout is Layout.FLAT):
                return found
            now = self._core.now()
            note = f"{len(changes.moves)} memories moved to the folders of their projects"
            run = Run(new_run_id(now, MIGRATE), MIGRATE, "applied", now, now, summary={"note": note})
            rows = [records.record_run(run), *_rows(run, changes), records.set_flag(LAYOUT, Layout.FOLDERS.value)]
            try:
                self._write(changes, [*rows, *self._forbidden(changes.moves, run)], {run.run_id: _ordinals(changes)})
            except Overtaken:
                continue
            saved = [one.path for one in self._ledger.actions(run.run_id) if one.state == "conflict"]
            return replace(
                found, run_id=run.run_id, left=(*left, *((path, "it was saved meanwhile") for path in saved))
            )
        raise StoreBusy("the vault is being written", hint="Try again in a minute.")

    def undo(self, run: Run) -> Undone:
        """Move the memories back: each as it was where it is as the run left it, else with its later changes."""
        if run.expired:
            raise Expired(f"the history of run {run.run_id} has expired", hint=f"It is kept for {HISTORY_DAYS} days.")
        for _ in range(TRIES):
            self._settle()
            actions = [one for one in self._ledger.actions(run.run_id) if one.state == "applied"]
            changes = self._back(actions)
            now = self._core.now()
            ordinals = {one.path: one.ordinal for one in actions}
            others = _Changes(
                changes.files, {}, {path: new for path, new in changes.after.items() if path not in ordinals}
            )
            also = Run(
                new_run_id(now, UNDO),
                UNDO,
                "applied",
                now,
                now,
                summary={"note": f"undid {run.run_id}", UNDID: run.run_id},
            )
            rows = [
                records.action_state(run.run_id, one.ordinal, "undone")
                for one in actions
                if one.path not in changes.left
            ]
            rows += [records.run_undone(run.run_id, "partly_undone" if changes.left else "undone", now)]
            rows += [records.set_flag(LAYOUT, Layout.FLAT.value), *self._forbidden(changes.moves, run)]
            rows += [records.record_run(also), *_rows(also, others)] if others.after else []
            try:
                self._write(changes, rows, {run.run_id: ordinals, also.run_id: _ordinals(others)})
            except Overtaken:
                continue
            skipped = tuple(SkippedAction(path, changes.node_id(path), why) for path, why in changes.left.items())
            return Undone(run.run_id, len(changes.after) - len(others.after), skipped, left=len(skipped))
        raise StoreBusy("the vault is being written", hint="Try again in a minute.")

    # ---- planning

    def _forth(self) -> _Changes:
        """Plan the way from the flat layout."""
        files = dict(self._files())
        changes = _Changes(files, {})
        taken, seen = set(files), set[NodeId]()
        for path in sorted(files):
            if in_flat_folder(path):
                new = _new_path(path, files[path].data, taken, seen)
                if isinstance(new, _Stays):
                    changes.left |= {path: new.reason} if new.reason else {}
                else:
                    changes.moves[path] = new
                    taken.add(new)
        links = _Links(changes.moves, files)
        for path, file in files.items():
            new = changes.moves.get(path, path)
            after = _in_new_order(links.rewritten(path, file.data)) if new != path else links.rewritten(path, file.data)
            if new != path or after != file.data:
                changes.after[path] = after
        return changes

    def _back(self, actions: Sequence[RecordedAction]) -> _Changes:
        """Plan the way back to the flat layout."""
        files = dict(self._files())
        gone = {one.node_id: one for one in actions if one.kind is ActionKind.DELETE}
        made = {one.path: gone[one.node_id].path for one in actions if one.kind is ActionKind.CREATE}
        images = {one.path: one for one in actions if one.kind is not ActionKind.DELETE}
        before = {one.path: one for one in actions if one.kind is not ActionKind.CREATE}
        moves = {new: old for new, old in made.items() if new in files}
        left = {new: f"{old} is there already" for new, old in moves.items() if old in files}
        changes = _Changes(files, {new: old for new, old in moves.items() if new not in left}, left=left)
        links = _Links(changes.moves, files)
        for path, file in files.items():
            old = changes.moves.get(path, path)
            was = before.get(old)
            is_as_left = was is not None and path in images and sha256(file.data) == images[path].post_sha256
            # The history holds no secret: of a file that had one it cannot give every byte back.
            if is_as_left and was and was.pre_image is not None and sha256(was.pre_image) == was.pre_sha256:
                after = was.pre_image
            else:
                after = links.rewritten(path, file.data)
            if path not in left and (old != path or after != file.data):
                changes.after[path] = after
        return changes

    def _files(self) -> Iterator[tuple[str, _FileAsRead]]:
        """Yield the memories and notes, and the digests that are as we wrote them."""
        for stamp in self._vault.walk():
            if not is_session(stamp.path) and (data := self._vault.read_if_any(stamp.path)) is not None:
                yield stamp.path, _FileAsRead(stamp, data)
        for path in filter(is_digest, list(self._vault.derived())):
            found = self._vault.stamp(path)
            if found and (data := self._vault.read_if_any(path)) is not None and is_as_marked(data):
                yield path, _FileAsRead(found, data)

    def _forbidden(self, moves: Mapping[str, str], run: Run) -> Iterator[Write]:
        """Yield the tombstones of edits that were undone at the old paths, for the new ones."""
        known = self._ledger.tombstones()
        for path, before, after in self._ledger.undone_edits() if known else ():
            if path in moves and edit_key(path, before, after) in known:
                key = edit_key(moves[path], before, after)
                if key is not None:
                    yield records.leave_tombstone(key, run.run_id, self._core.now(), "undone")

    # ---- writing

    def _write(self, changes: _Changes, rows: Sequence[Write], ordinals: Mapping[str, Mapping[str, int]]) -> None:
        """Write all changes in one transaction, and wait for the files. Raises Overtaken if one has changed since."""
        self._writer.submit(partial(self._plan, changes, rows, ordinals)).result()
        self._core.forget_layout()
        self._settle()
        self._keep_times(changes)
        self._vault.remove_empty_folders(sorted(changes.moves))

    def _plan(
        self, changes: _Changes, rows: Sequence[Write], ordinals: Mapping[str, Mapping[str, int]], files: PendingFiles
    ) -> Planned[None]:
        # In the writer's thread: what is as it was read now is written, whole, before anything else is.
        for path, file in changes.files.items():
            if path in changes.after and (files.is_ahead(path) or self._vault.stamp(path) != file.stamp):
                raise Overtaken(f"{path} was changed meanwhile")
        if any(files.exists(new) for new in changes.moves.values()):
            raise Overtaken("a file has the place of another")
        named = {path: (run_id, ordinal) for run_id, of_run in ordinals.items() for path, ordinal in of_run.items()}
        planned: list[FileChange] = []
        for path, after in changes.after.items():
            change = partial(FileChange, pre_sha256=sha256(changes.files[path].data))
            new = changes.moves.get(path, path)
            if new == path:
                planned.append(_of_run(change("replace", path, after), named))
            else:  # side by side, so that a memory is away for no longer than a moment
                planned.append(_of_run(change("delete", path), named))
                planned.append(_of_run(FileChange("create", new, after), named))
                if not self._core.settings.redact_personal:  # looked through before: the index need not do it again
                    self._core.mask.note(hashlib.sha256(after).digest())
        return Planned(None, planned, rows)

    def _keep_times(self, changes: _Changes) -> None:
        """Let the files that a person wrote count as written when they were: by that their words are dated."""
        kept = []
        for path, file in changes.files.items():
            if path in changes.after and not is_digest(path) and not _is_machine_written(file.data):
                new = changes.moves.get(path, path)
                with contextlib.suppress(OSError, InvalidInput):  # gone since, or of a disk that keeps no times
                    self._vault.disk.set_written_at(self._vault.resolve(new), file.stamp.mtime_ns)
                    kept.append(new)
        if kept:
            index = self._core.opened.index
            self._core.indexer.submit(lambda: index.apply_all(kept)).result()

    def _settle(self) -> None:
        if not self._core.settle(WRITTEN_WITHIN_S):
            raise self._writer.trouble or StoreBusy("the vault is still being written", hint="Try again in a minute.")


def as_moved(
    actions: Iterable[RecordedAction], moves: Mapping[str, str], exists: Callable[[str], bool]
) -> Iterator[RecordedAction]:
    """Yield actions from before a move as they would be since: on their files' new paths, with the moved links."""
    links = _Links(moves, moves)
    for action in actions:
        if is_session(action.path) or (action.path in moves and exists(action.path)):
            yield action
            continue
        new = moves.get(action.path, action.path)
        was, left = (
            image and (_in_new_order if new != action.path else bytes)(links.rewritten(action.path, image))
            for image in (action.pre_image, action.post_image)
        )
        was_sha256, left_sha256 = (
            sha256(image) if image else known for image, known in ((was, action.pre_sha256), (left, action.post_sha256))
        )
        yield replace(action, path=new, pre_image=was, post_image=left, pre_sha256=was_sha256, post_sha256=left_sha256)


def _of_run(change: FileChange, named: Mapping[str, tuple[str, int]]) -> FileChange:
    """Return a change with the action that it carries out."""
    run_id, ordinal = named[change.path]
    return replace(change, run_id=run_id, ordinal=ordinal)


def _actions(changes: _Changes) -> Iterator[tuple[Action, bytes | None]]:
    """Yield the actions of a run, each with the file before it: deletions, then creations, then links."""
    action = partial(Action, stage=MIGRATE, reason=_REASON)
    for path in changes.moves:
        before = changes.files[path].data
        deleted = action(kind=ActionKind.DELETE, path=path, node_id=changes.node_id(path), pre_sha256=sha256(before))
        yield deleted, before
    for path, new in changes.moves.items():
        yield action(kind=ActionKind.CREATE, path=new, node_id=changes.node_id(path), content=changes.after[path]), None
    for path in [path for path in changes.after if path not in changes.moves]:
        before, reason = changes.files[path].data, "its links follow what was moved"
        yield (
            Action.replacing(path, changes.node_id(path), before, changes.after[path], stage=MIGRATE, reason=reason),
            before,
        )


def _rows(run: Run, changes: _Changes) -> list[Write]:
    moved = {*changes.moves, *changes.moves.values()}
    return [
        records.record_action(run.run_id, ordinal, action, _images(action, before, moved), None)
        for ordinal, (action, before) in enumerate(_actions(changes))
    ]


def _images(action: Action, before: bytes | None, moved: Collection[str]) -> tuple[bytes | None, bytes | None]:
    # Files that move were looked through for secrets; in notes that only link to them there may be some.
    is_clean = action.path in moved
    return records.packed(before, is_clean=is_clean), records.packed(action.content, is_clean=is_clean)


def _ordinals(changes: _Changes) -> dict[str, int]:
    return {action.path: ordinal for ordinal, (action, _) in enumerate(_actions(changes))}


class _Stays(NamedTuple):
    """A file that is not moved; a reason is told where a person may wonder."""

    reason: str = ""


def _new_path(path: str, data: bytes, taken: set[str], seen: set[NodeId]) -> str | _Stays:
    document = okf.parse(data)
    memory = okf.to_memory(path, document)
    if document.problem:
        return _Stays(document.problem)
    if document.meta.get("node_id") != memory.node_id:
        return _Stays("it is yours")
    if memory.level is Level.SESSION or memory.kind is Kind.DOCUMENT:
        return _Stays()
    if memory.node_id in seen:
        return _Stays("another file has its id")
    if places_of_secrets(data, path):
        return _Stays("it holds a secret, which the history may not: take that out first")
    seen.add(memory.node_id)
    new = path_for(memory.level, memory.title, memory.node_id, memory.channel, kind=memory.kind)
    if not is_flat(path):  # a person named it
        new = f"{new.rpartition('/')[0]}/{path.rpartition('/')[2]}"
    if new in taken:
        new = f"{new.removesuffix('.md')}-{memory.node_id}.md"
    return _Stays(f"{new} is there already") if new in taken else new


def _in_new_order(data: bytes) -> bytes:
    """Return a file with its keys in the present order if dreamd alone wrote its head, else as it is."""
    if not _is_machine_written(data):
        return data
    document = okf.parse(data)
    return okf.render(document.meta, document.body)


def _is_machine_written(data: bytes) -> bool:
    """Return True for a file as dreamd writes it, in the present order of keys or in that of before."""
    document = okf.parse(data)
    if document.problem or "node_id" not in document.meta or is_edited_page(data):
        return False
    return any(okf.render(document.meta, document.body, is_flat=is_flat) == data for is_flat in (True, False))


class _Links:
    """Rewrites the links of files to those that move, and the relative ones of those that move themselves."""

    def __init__(self, moves: Mapping[str, str], files: Collection[str]) -> None:
        self._moves = moves
        self._files = files
        named = Counter(map(_name, moves))
        self._names = {_name(old): old for old in moves if named[_name(old)] == 1}

    def rewritten(self, path: str, data: bytes) -> bytes:
        """Return a file whose links follow the moves; the words of a fact stay as they were said."""
        is_page = is_digest(path)
        text = unmarked(data) if is_page else data
        found = _HEAD.match(text)
        head, body = (text[: found.end()], text[found.end() :]) if found else (b"", text)
        after = _RESOURCE.sub(self._resource, head), _WIKI_LINK.sub(self._wiki_link, self._linked(path, body))
        if after == (head, body):
            return data
        if is_page:
            return marked(b"".join(after))
        is_quote = after[1] != body and _is_quote(path, data)
        return b"".join((after[0], body)) if is_quote else _known_again(data, b"".join(after))

    def _linked(self, path: str, body: bytes) -> bytes:
        return _LINK.sub(
            lambda found: found[1] + self._target(path, found[2].decode("utf-8", "replace"), found[2]), body
        )

    def _target(self, path: str, target: str, written: bytes) -> bytes:
        """Return a link's target after the moves, as it was written: from the vault's root or its file's folder."""
        if target.startswith("/"):
            return f"/{self._moves[target[1:]]}".encode() if target[1:] in self._moves else written
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        here = self._moves.get(path, path)
        place = self._moves.get(there, there if here != path and there in self._files else None)
        return written if place is None else posixpath.relpath(place, posixpath.dirname(here) or ".").encode()

    def _resource(self, found: re.Match[bytes]) -> bytes:
        place = self._moves.get(found[2].decode("utf-8", "replace"))
        return found[0] if place is None else found[1] + place.encode()

    def _wiki_link(self, found: re.Match[bytes]) -> bytes:
        target = found[2].decode("utf-8", "replace").strip()
        named = f"{target.removesuffix('.md')}.md"
        old = named if named in self._moves else self._names.get(named)
        if old is None:
            return found[0]
        place = self._moves[old] if "/" in named else _name(self._moves[old])
        return found[1] + (place if target.endswith(".md") else place.removesuffix(".md")).encode()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_quote(path: str, data: bytes) -> bool:
    """Return True for a fact with the words in which it was said."""
    memory = okf.to_memory(path, okf.parse(data))
    return memory.level is Level.FACT and has_known_words(memory)


def _known_again(before: bytes, after: bytes) -> bytes:
    """Return a page with the hash of its new body, if it had that of the old: else a person edited it."""
    old, new = okf.parse(before), okf.parse(after)
    if BY_HAND not in old.meta or old.body == new.body or old.meta[BY_HAND] != body_hash(old.body):
        return after
    return okf.edit(after, {BY_HAND: body_hash(new.body)})

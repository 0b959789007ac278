"""Deletions by hand: a file that vanishes becomes a run that `undo` reverts; too many at once are withheld.

The index unlearns a vanished file only after a run in the ledger holds its content. A withheld file stays known until
it is back, or until a person accepts that it is gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from .. import okf
from ..core import Core
from ..index.catalog import FileRow
from ..index.images import LostFile
from ..index.projection import is_session
from ..index.tombstones import fingerprint
from ..ledger import records
from ..ledger.journal import sha256
from ..ledger.records import Deleted, Run, Vanished, Write, leave_tombstone, packed, record_action, release, withhold
from ..model import Action, ActionKind, IndexDamaged, NodeId, StoreError
from ..okf import session
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .run_kinds import DELETED, LEARNED_FROM, new_run_id

logger = logging.getLogger(__name__)

# If at least so many files are gone, and more than this share of all, a folder was probably moved or not mounted:
# they are withheld.
VANISHED_SHARE: Final = 0.2
VANISHED_AT_LEAST: Final = 10

# A file that is still gone this long after the last one vanished was deleted: editors that remove and rewrite a file,
# and moves, which the watcher sees in two halves, are done by then.
SETTLE_S: Final = 1.0

# The longest wait while more files vanish, so that they become one run.
SETTLE_AT_MOST_S: Final = 10.0

# The key in a run's summary with the number of turns that each session lost, and the run's note.
RETRY_S: Final = 30.0
SHORTENED: Final = "shortened"
SHORTENED_NOTE: Final = "turns of sessions are gone from their files"

# Files in one transaction.
AT_ONCE: Final = 64


class Deletions:
    """Records, withholds or releases vanished files. Every method may be called from any thread but the writer's.

    `may_unlearn`, `may_shorten`, `is_there` and `suspect` are called by the index and never wait.
    """

    def __init__(self, core: Core) -> None:
        self._vault = core.vault
        self._ledger = core.ledger
        self._now = core.now
        self._opened = core.opened
        self._writer = core.writer
        self._tombstones = core.tombstones
        self._deciding = threading.Lock()
        self._gate = threading.Lock()
        self._withheld = frozenset(core.ledger.withheld())  # replaced, never changed: others read it meanwhile
        self._shortened: set[str] = set()
        self._suspects: dict[str, float] = {}  # by path: when it was first seen to be gone
        self._timer: threading.Timer | None = None
        self._closed = False
        self.is_purged: Callable[[str, bytes], bool] = lambda path, image: False
        """Returns True for a file that is purged: nothing of it is kept. A purge sets this while it runs."""

    def stop(self) -> None:
        """Stop; files that are not decided yet are found again at the next start."""
        with self._gate:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
        with self._deciding:  # a decision that has begun ends
            pass

    # ---- called by the index

    def may_unlearn(self, file: FileRow, image: bytes | None) -> bool:
        """Return True if a run has recorded this file's deletion: files that we delete are unlearned at once."""
        if image is not None and self.is_purged(file.path, image):
            return True
        if image is not None and file.path not in self._withheld:
            try:
                if self._is_recorded(file.path, image, file.since_ns):
                    return True
            except StoreError as error:
                logger.warning(
                    "a file that is gone stays in the index: the ledger cannot be read (%s)", type(error).__name__
                )
        self.suspect([file.path])
        return False

    def is_there(self, path: str) -> None:
        """Note that a file is there: one that was withheld is back."""
        if path in self._withheld:
            self._look_in(0.0)

    def may_shorten(self, path: str, image: bytes) -> bool:
        """Return True if a session's file lost no turn, or a run holds its old content; else have that recorded soon.

        Turns are lost, for example, when an older copy of the vault is put in its place.
        """
        try:
            left = self._vault.read_if_any(path)
            if not (left and turns_gone(image, left)) or self._ledger.change_is_recorded(path, image):
                return True
        except StoreError as error:
            logger.warning("a session that lost turns stays as it was read (%s)", type(error).__name__)
        with self._gate:
            self._shortened.add(path)
        self._look_in(SETTLE_S)
        return False

    def before_anew(self, path: str) -> Vanished:
        """Return the old content of a vanished file that is about to be created. Runs in the writer's thread."""
        if self._vault.look() is not None:
            return Vanished()
        try:
            image = self._image(path)
        except IndexDamaged:  # an acknowledgement never needs the index
            return Vanished()
        if image is not None and self.is_purged(path, image):
            return Vanished()
        if image is None or path in self._withheld:
            return Vanished(withheld=image)
        run = Run(new_run_id(self._now(), DELETED), DELETED, "applied", self._now(), self._now(), summary=_summary(1))
        return Vanished(recording=self._rows(run, [(path, image)], 0))

    def suspect(self, paths: Iterable[str]) -> None:
        """Look at these vanished files again after SETTLE_S."""
        # The first sighting counts: a later one must not put the decision off again.
        seen_s = time.monotonic()
        with self._gate:
            fresh = {path: seen_s for path in paths if path not in self._suspects and path not in self._withheld}
            self._suspects |= fresh
        if fresh:
            self._look_in(SETTLE_S)

    # ---- called for requests

    @property
    def withheld(self) -> tuple[str, ...]:
        """The vanished files that stay in the index until they are back or a person accepts their loss."""
        return tuple(sorted(self._withheld))

    def is_withheld(self, path: str) -> bool:
        """Return True if a file is withheld, or was until a moment ago."""
        return path in self._withheld

    def reload(self) -> None:
        """Read again from the ledger which files are withheld."""
        self._withheld = frozenset(self._ledger.withheld())

    def find(self, node_id: NodeId) -> Deleted | None:
        """Return the file of a memory that is withheld or was deleted by hand, also before the index has followed."""
        path, deleted = self._opened.catalog.path_of(node_id), self._ledger.last_deletion(node_id, DELETED)
        if path is None:
            return deleted
        if self._vault.exists(path) or (image := self._image(path)) is None:
            return None
        return deleted if deleted and (deleted.path, deleted.image) == (path, image) else Deleted(path, image, None)

    def recall(self, lost: Iterable[LostFile]) -> None:
        """Add vanished files that only a discarded index knew to this one, so that they are decided like any other."""
        for file in lost:
            known = self._opened.catalog.known_files([file.path])
            if known or file.path in self._withheld or self._vault.exists(file.path):
                continue
            if file.image is None and self._opened.catalog.nodes(file.node_ids):
                continue  # it was moved
            if file.image is None:
                self._writer.write(withhold(file.path, self._now(), None)).result()
                self._withheld |= {file.path}
            elif not self._is_recorded(file.path, file.image, file.seen_ns):
                self._opened.index.apply_held(file.path, file.image, file.mtime_ns)

    def relearn(self) -> None:
        """Add the withheld files to a rebuilt index, from the content in the ledger."""
        known = self._opened.catalog.known_files(self._withheld)
        since_ns = int(self._now().timestamp() * 1e9)
        for path in sorted(self._withheld - known):
            image = self._ledger.withheld_image(path)
            if image is not None and not self._vault.exists(path):
                self._opened.index.apply_held(path, image, since_ns)

    # ---- deciding

    def look(self, *, at_once: bool = False, accept: bool = False) -> None:
        """Release files that are back, withhold too many, record those gone for long enough, or all of them `at_once`.

        `accept` records all missing files as deleted on purpose, in one run that `undo` reverts. Raises StoreError
        while the ledger cannot be written; then all of them stay in the index.
        """
        # Example with 100 known files, SETTLE_S passed: 3 are gone, so one run records them. 25 are gone: all 25 are
        # withheld, in answers still, until they are back or `accept`. One of them is back: it is released.
        with self._deciding:
            if self._closed or self._vault.look() is not None:  # of a vault that is away every file is missing
                return
            self._release([path for path in self._withheld if self._vault.exists(path)])
            gone = self._without_moved(self._still_gone())
            if accept:
                self._record([*self.withheld, *gone], given_up=True)
            elif self._are_too_many(gone):
                self._withhold(gone)
            elif at_once or self._due_in_s() <= 0:
                self._record(gone)
            self._record_shortened()

    def _still_gone(self) -> list[str]:
        # A file that is there again, or that the index unlearned meanwhile, is no suspect any more.
        known = self._opened.catalog.known_files(self._suspects)
        gone = sorted(path for path in known if not self._vault.exists(path))
        self._clear_suspicion(self._suspects.keys() - set(gone))
        return gone

    def _are_too_many(self, gone: Sequence[str]) -> bool:
        if not gone:
            return False
        missing = len(gone) + len(self._withheld)
        return missing >= VANISHED_AT_LEAST and missing > VANISHED_SHARE * self._opened.catalog.counts()["files"]

    def _without_moved(self, gone: Collection[str]) -> list[str]:
        """Unlearn moved files, whose nodes all belong to other files by now; return the rest."""
        catalog = self._opened.catalog
        if gone or self._withheld:
            self._opened.index.reread_doubles()
        held = catalog.known_files(self._withheld)
        moved = {path for path in (*gone, *held) if not catalog.nodes_of_file(path)} | self._renamed(gone)
        if moved:
            self._release(moved & self._withheld)
            self._opened.index.unlearn(sorted(moved))
            self._clear_suspicion(moved)
        return [path for path in gone if path not in moved]

    def _renamed(self, gone: Collection[str]) -> set[str]:
        """Return the files whose id comes from their path and whose bytes now lie at another path."""
        # Compared by size first: only files of an equal size are read.
        nameless: dict[int, list[str]] = {}
        for path in gone:
            image = self._opened.images.of(path)
            if image is not None and has_id_of_path(path, image):
                nameless.setdefault(len(image), []).append(path)
        others = [row.path for row in self._opened.catalog.files().values() if row.size in nameless] if nameless else []
        there = {data for path in others if path not in gone and (data := self._vault.read_if_any(path)) is not None}
        return {path for paths in nameless.values() for path in paths if self._opened.images.of(path) in there}

    def _withhold(self, gone: Sequence[str]) -> None:
        for paths in _slices(gone):
            images = [(path, self._opened.images.of(path)) for path in paths]
            self._writer.write(*(withhold(path, self._now(), image) for path, image in images)).result()
            self._withheld |= set(paths)
            self._clear_suspicion(paths)

    def _release(self, paths: Collection[str]) -> None:
        if paths:
            self._writer.write(*release(paths)).result()
            self._withheld -= set(paths)

    def _record(self, gone: Sequence[str], *, given_up: bool = False) -> None:
        """Record these deletions as one run. A file whose whole content is not known is withheld, unless `given_up`."""
        run: Run | None = None
        for paths in _slices(gone):
            images = {path: self._image(path) for path in paths}
            if unknown := [path for path, image in images.items() if image is None]:
                self._give_up(unknown) if given_up else self._withhold(unknown)
            known = [(path, image) for path, image in images.items() if image is not None]
            if known:
                run = run or Run(
                    new_run_id(self._now(), DELETED), DELETED, "applied", self._now(), summary={"deleted": 0}
                )
                run, recorded = self._writer.submit(partial(self._plan, run, known)).result()
                self._unlearn(recorded)
                self._clear_suspicion(paths)
        if run is not None:
            self._tombstones.read()

    def _plan(
        self, run: Run, files: Sequence[tuple[str, bytes]], pending: PendingFiles
    ) -> Planned[tuple[Run, list[str]]]:
        """Plan the rows of these deletions, for the files that are still gone in the writer's thread."""
        # One run may take several transactions: its actions are numbered on from those recorded before.
        first = run.summary["deleted"]
        gone = [(path, image) for path, image in files if not pending.exists(path)]
        if not gone:
            return Planned((run, []))
        run = replace(run, ended_at=self._now(), summary=_summary(first + len(gone)))
        return Planned((run, [path for path, _ in gone]), (), self._rows(run, gone, first))

    @staticmethod
    def _rows(run: Run, files: Sequence[tuple[str, bytes]], first: int) -> list[Write]:
        writes = [records.record_run(run)]
        for ordinal, (path, image) in enumerate(files, first):
            action = deletion(path, image, is_session=is_session(path), now=run.started_at)
            writes += record_deletion(run.run_id, ordinal, action, image, run.started_at)
        return writes

    def _record_shortened(self) -> None:
        """Record the turns that sessions lost as one run, unless they are back, and have the index read the files."""
        with self._gate:
            paths = sorted(self._shortened)
        if not paths:
            return
        images = {path: image for path in paths if (image := self._opened.images.of(path)) is not None}
        if self._writer.submit(partial(self._plan_shortened, images)).result():
            self._tombstones.read()
        with self._gate:
            self._shortened.difference_update(paths)
        self._opened.index.apply_all(paths)

    def _plan_shortened(self, images: Mapping[str, bytes], files: PendingFiles) -> Planned[bool]:
        """Plan the rows of the run, for the files as they are in the writer's thread."""
        cut = [(path, image, files.read(path)) for path, image in images.items() if files.exists(path)]
        turns = {path: gone for path, image, left in cut if (gone := turns_gone(image, left))}
        actions = [(shortening(path, image, left), image, left) for path, image, left in cut if path in turns]
        if not actions:
            return Planned(False)
        lost = {action.node_id: turns[action.path] for action, _, _ in actions}
        summary = {"replaced": len(actions), "note": SHORTENED_NOTE, SHORTENED: lost}
        run = Run(new_run_id(self._now(), DELETED), DELETED, "applied", self._now(), self._now(), summary=summary)
        rows = [
            records.record_action(run.run_id, ordinal, action, (records.packed(image), records.packed(left)), None)
            for ordinal, (action, image, left) in enumerate(actions)
        ]
        return Planned(True, (), [records.record_run(run), *rows, *self._cursors(actions)])

    def _cursors(self, actions: Sequence[tuple[Action, bytes, bytes]]) -> Iterator[Write]:
        """Yield the rows that move the dreams' cursors back to where these sessions end: new turns are numbered on."""
        read = self._ledger.cursors(LEARNED_FROM)
        for action, _, left in actions:
            last = session.parse(left).next_ordinal - 1
            if read.get(action.node_id, 0) > last:
                yield records.move_cursor(LEARNED_FROM, action.node_id, last)

    def _give_up(self, paths: Collection[str]) -> None:
        self._release(paths)
        self._unlearn(paths)

    def _unlearn(self, paths: Collection[str]) -> None:
        self._withheld -= set(paths)
        self._opened.index.unlearn(paths)
        self._clear_suspicion(paths)

    def _image(self, path: str) -> bytes | None:
        held = self._ledger.withheld_image(path) if path in self._withheld else None
        return self._opened.images.of(path) if held is None else held

    def _is_recorded(self, path: str, image: bytes, since_ns: int) -> bool:
        return self._ledger.deletion_is_recorded(path, image, datetime.fromtimestamp(since_ns / 1e9, UTC))

    # ---- the timer

    def _clear_suspicion(self, paths: Iterable[str]) -> None:
        with self._gate:
            for path in paths:
                self._suspects.pop(path, None)

    def _due_in_s(self) -> float:
        with self._gate:
            seen_s = self._suspects.values()
            if not seen_s:
                return 0.0
            return min(max(seen_s) + SETTLE_S, min(seen_s) + SETTLE_AT_MOST_S) - time.monotonic()

    def _look_in(self, seconds: float) -> None:
        with self._gate:
            if not self._closed and self._timer is None:
                self._timer = threading.Timer(seconds, self._on_time)
                self._timer.daemon = True
                self._timer.name = "dreamd-deletions"
                self._timer.start()

    def _on_time(self) -> None:
        with self._gate:
            self._timer = None
        # RETRY_S unless the decision succeeds: the ledger may be busy, or its disk full.
        again_s = RETRY_S
        try:
            self.look()
            again_s = max(self._due_in_s(), SETTLE_S)
        except Exception as error:  # the thread's boundary: the files stay known and are looked at again
            logger.warning("deletions by hand could not be recorded yet (%s)", type(error).__name__)
        if self._suspects or self._shortened:
            self._look_in(again_s)


def _summary(deleted: int) -> dict[str, Any]:
    return {"deleted": deleted, "note": f"{deleted} {'file was' if deleted == 1 else 'files were'} deleted by hand"}


def bringing_back(node_id: NodeId, deleted: Deleted) -> Action:
    """Return the action that restores a deleted file."""
    return Action(
        kind=ActionKind.CREATE,
        path=deleted.path,
        node_id=node_id,
        stage="restore",
        reason="restored by a person",
        content=deleted.image,
    )


def _slices(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE))


def deletion(path: str, image: bytes, *, is_session: bool, now: datetime) -> Action:
    """Return the action for a file deleted by hand; as after `forget`, no dream proposes its memory again."""
    document = okf.parse(image)
    memory = okf.to_memory(path, document, now)
    return Action(
        kind=ActionKind.DELETE,
        path=path,
        node_id=session.head_of(path, document).session_id if is_session else memory.node_id,
        stage=DELETED,
        reason="deleted by hand",
        pre_sha256=sha256(image),
        fingerprint=None if is_session else fingerprint(memory),
    )


def shortening(path: str, image: bytes, left: bytes) -> Action:
    """Return the action for a session that lost turns from its file."""
    return Action(
        kind=ActionKind.REPLACE,
        path=path,
        node_id=session.head_of(path, okf.parse(image)).session_id,
        stage=DELETED,
        reason="turns are gone from its file",
        pre_sha256=sha256(image),
        content=left,
    )


def turns_gone(image: bytes, left: bytes) -> int:
    """Return the number of turns that are gone from a session's file; a reworded turn is not gone."""
    if left.startswith(image):
        return 0
    held = {turn.external_id or turn.ordinal for turn in session.parse(left).turns}
    gone = sum((turn.external_id or turn.ordinal) not in held for turn in session.parse(image).turns)
    return gone or int(image.startswith(left))  # the file was cut within its last turn


def record_deletion(run_id: str, ordinal: int, action: Action, image: bytes, now: datetime) -> list[Write]:
    """Record a deletion that has happened, with the content of the file."""
    writes = [record_action(run_id, ordinal, action, (packed(image), None), None), *release([action.path])]
    if action.fingerprint:
        writes.append(leave_tombstone(action.fingerprint, run_id, now, action.reason))
    return writes


def has_id_of_path(path: str, image: bytes) -> bool:
    """Return True if a file's node id is derived from its path, so that a move changes it."""
    return okf.to_memory(path, okf.parse(image)).node_id == okf.node_id_of_path(path)

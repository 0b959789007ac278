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

from ..index.catalog import FileRow
from ..index.images import LostFile
from ..index.opening import OpenIndex
from ..index.projection import is_session
from ..ledger import records
from ..ledger.ledger import Ledger
from ..ledger.records import Run, Write
from ..ledger.withheld import Deleted, Vanished, release, withhold
from ..model import Action, ActionKind, IndexDamaged, NodeId, StoreError
from ..okf import session
from ..vault.vault import Vault
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .deletion_action import deletion, has_id_of_path, record_deletion, shortening, turns_gone
from .runs import DELETED, LEARNED_FROM, new_run_id

logger = logging.getLogger(__name__)

VANISHED_SHARE: Final = 0.2
VANISHED_AT_LEAST: Final = 10
"""At least so many files gone, and more than this share, mean a folder that was moved or not mounted: withheld."""

SETTLE_S: Final = 1.0
"""A file that is still gone this long after the last one vanished was deleted: editors that remove and rewrite a file,
and moves, which the watcher sees in two halves, are done by then."""

SETTLE_AT_MOST_S: Final = 10.0
"""The longest wait while more files vanish, so that they become one run."""

RETRY_S: Final = 30.0
SHORTENED: Final = "shortened"
SHORTENED_NOTE: Final = "turns of sessions are gone from their files"
"""The key in the summary of a run of how many turns each session lost, and its note."""

AT_ONCE: Final = 64
"""Files in one transaction."""


class Deletions:
    """Records, withholds or releases vanished files. Every method may be called from any thread but the writer's.

    `may_unlearn`, `may_shorten`, `is_there` and `suspect` are called by the index and never wait. `recorded` is called
    after a run.
    """

    def __init__(self, vault: Vault, ledger: Ledger, now: Callable[[], datetime], recorded: Callable[[], None]) -> None:
        self._vault = vault
        self._ledger = ledger
        self._now = now
        self._recorded = recorded
        self._opened: OpenIndex
        self._writer: Writer
        self._deciding = threading.Lock()
        self._gate = threading.Lock()
        self._withheld = frozenset(ledger.withheld())  # replaced, never changed: others read it meanwhile
        self._shortened: set[str] = set()
        self._suspects: dict[str, float] = {}  # and when each was seen to be gone
        self._timer: threading.Timer | None = None
        self._closed = False
        self.is_purged: Callable[[str, bytes], bool] = lambda path, image: False
        """Says that a file of this content goes for good: nothing of it is kept. A purge sets it while it runs."""

    def start(self, opened: OpenIndex, writer: Writer) -> None:
        """Take the index and the writer, which are opened later; call this before any other method."""
        self._opened, self._writer = opened, writer

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
        """Return True if a session's file lost no turn, or a run holds what it was; else have that recorded soon.

        So it is with the turns since an older copy of the vault that was put in its place.
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
        """Return what must be kept of a vanished file that is about to be created. Runs in the writer's thread."""
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
        """Add vanished files that only an older index knew to this one, so that they are decided like any other."""
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
        with self._deciding:
            if self._closed or self._vault.look() is not None:  # no file of a vault that is away can be judged
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
        """Unlearn moved files, whose nodes all belong to other files now; return the rest."""
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
        """Record these deletions as one run. A file whose content is not held whole is withheld, unless `given_up`."""
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
            self._recorded()

    def _plan(
        self, run: Run, files: Sequence[tuple[str, bytes]], pending: PendingFiles
    ) -> Planned[tuple[Run, list[str]]]:
        """Plan the rows of these deletions, for the files that are still gone in the writer's thread."""
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
        """Record as one run what sessions lost, unless it is back by now, and have the index read them."""
        with self._gate:
            paths = sorted(self._shortened)
        if not paths:
            return
        images = {path: image for path in paths if (image := self._opened.images.of(path)) is not None}
        if self._writer.submit(partial(self._plan_shortened, images)).result():
            self._recorded()
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
        """Yield the rows by which dreams read on where these sessions end now: from there new turns are numbered."""
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

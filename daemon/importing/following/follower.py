"""The follower: what agents write is taken in as they write it, and what they wrote before when nothing else is to do.

Everything is read by one thread, a step of about a megabyte at a time, so a large file holds up nothing and needs no
more memory than a small one. A step is: read, keep, and only then move on; a crash in between has it read again, and
its turns are known.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from ....store.model import InvalidInput, NewTurn, SessionHead
from ..formats.opencode_db import NAME as DATABASE_NAME
from ..reading.items import SessionRead
from .database import Database
from .events import LOOK_AGAIN_S, Events
from .places import LINES, Place, Places
from .sessions import LiveSessions
from .survey import Found, Survey, files_of, survey
from .tail import Items, Tail
from .waiting import Waiting

if TYPE_CHECKING:
    from ....store import MemoryStore
    from ...settings import TranscriptSettings

OPEN_SOURCES = 32
KEEP_TIMEOUT_S = 60.0
RETRY_S = 5.0
GIVES_WAY_S = 0.25
"""The quiet that the backlog waits for, at most `HELD_UP_S` before each step: it is slow on a busy day, and ends."""
HELD_UP_S = 2.0
FRESH_S = 60.0
"""A file that changed so short a time ago, and was not there before, is being written."""
FLOOD = 4_000
OBSERVERS = frozenset({".claude-mem"})
"""Folders in which other memories run agents of their own, which repeat what was said."""


@dataclass(slots=True)
class Taken:
    """Counts of what was taken in since the start."""

    turns: int = 0
    skipped: int = 0
    bytes_of_backlog: int = 0
    seconds_of_backlog: float = 0.0


class Follower:
    """Follows the places of its list. `start` begins, the others may be called from any thread.

    `own` are folders of dreamd: a session that was held there is not learned. `grew` is called when an agent is seen
    at work, `quiet_s` returns for how long none was.
    """

    def __init__(
        self,
        store: MemoryStore,
        settings: TranscriptSettings,
        own: Sequence[Path],
        now: Callable[[], datetime],
        grew: Callable[[], None],
        quiet_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._own = [str(folder) for folder in own]
        self._now = now
        self._grew = grew
        self._quiet_s = quiet_s
        self.places = Places(store, settings.watch)
        self.sessions = LiveSessions(timedelta(minutes=settings.quiet_minutes))
        self.waiting = Waiting()
        self.taken = Taken()
        self.problem = ""
        self._listed: Sequence[Place] = ()
        self._events = Events(
            lambda: [place.folder for place in self._listed], self._is_ours, self._on_burst, self.scan
        )
        self._sources: OrderedDict[Path, Tail | Database] = OrderedDict()
        self._compared: set[Path] = set()
        self._must_scan = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transcripts", daemon=True)

    # ---- its life

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()
        self._events.start()

    def stop(self) -> None:
        """End after the step that is under way."""
        self._stop.set()
        self._events.stop()
        self.waiting.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=KEEP_TIMEOUT_S)

    # ---- what is followed

    def preview(self, place: Place) -> Survey:
        """Estimate what is there already."""
        return survey(list(files_of(place)))

    def watch(self, place: Place) -> None:
        """Follow a place from now on, also after a restart."""
        self.places.add(place)
        self._again()

    def unwatch(self, what: str) -> Place:
        """Follow it no more; what was learned stays. Raises NotFound or InvalidInput."""
        place = self.places.remove(what)
        self._again()
        self.waiting.drop(lambda path: self._place_of(path) is None)
        return place

    def state_of(self, place: Place) -> str:
        """Say in a word how it is with a place."""
        if not place.folder.is_dir():
            return "not there yet"
        return self._events.problem or "on"

    @property
    def listed(self) -> Sequence[Place]:
        """Return the places that are followed."""
        return self._listed

    def scan(self) -> None:
        """Have every file compared with what was read of it."""
        self._must_scan.set()
        self.waiting.wake()

    def _again(self) -> None:
        self._listed = self.places.all()
        self._events.restart()
        self.scan()

    # ---- news

    def _is_ours(self, path: str) -> bool:
        """Keep files by their names, and what may be a folder. A first sieve, called for every event."""
        name = path.rpartition("/")[2]
        return name.endswith((LINES, ".db", ".db-wal")) or "." not in name

    def _on_burst(self, paths: Collection[str]) -> None:
        if len(paths) >= FLOOD:
            self.scan()
            return
        files = {Path(path.removesuffix("-wal")) for path in paths if path.endswith((LINES, ".db", ".db-wal"))}
        if len(files) < len(paths) and any(Path(path).is_dir() for path in paths):
            self.scan()
        self.waiting.add_live(path for path in files if self._place_of(path) is not None and path.is_file())

    def _place_of(self, path: Path) -> Place | None:
        for place in self._listed:
            if path.is_relative_to(place.folder) and place.holds(path):
                return place
        return None

    # ---- the thread

    def _run(self) -> None:
        self._listed = self.places.all()
        self.scan()
        self._events.restart()
        while not self._stop.is_set():
            try:
                self._turn()
                self.problem = ""
            except Exception as error:
                self.problem = f"sessions wait to be taken in ({type(error).__name__})"
                logger.warning("sessions wait to be taken in ({}); trying again", type(error).__name__)
                self._stop.wait(RETRY_S)
                self.scan()

    def _turn(self) -> None:
        if self._must_scan.is_set():
            self._must_scan.clear()
            self._scan()
        if (path := self.waiting.take_live()) is not None:
            if self._step(path, live=True):
                self.waiting.add_live([path])
            return
        path = None if self._store.paused else self.waiting.newest_of_backlog()
        if path is None:
            self.sessions.sweep(self._now())
            self.waiting.wait(LOOK_AGAIN_S)
        elif self._gives_way():
            return
        elif not self._step(path, live=False):
            self.waiting.done(path)

    def _gives_way(self) -> bool:
        """Wait until no agent asks; True where a live file came meanwhile."""
        ends_s = time.monotonic() + HELD_UP_S
        while self._quiet_s() < GIVES_WAY_S and time.monotonic() < ends_s and not self._stop.is_set():
            self.waiting.wait(GIVES_WAY_S)
        return self._stop.is_set() or self.waiting.has_live

    def _scan(self) -> None:
        """Compare every file with what was read of it; what differs waits to be read."""
        fresh_s = self._now().timestamp() - FRESH_S
        known = self._compared & {place.folder for place in self._listed}
        live: list[Found] = []
        old: list[Found] = []
        for place in self._listed:
            for found in files_of(place):
                if self._must_read(found, place):
                    is_new = (
                        place.folder in known and found.changed_s >= fresh_s and not self.waiting.is_old(found.path)
                    )
                    (live if is_new else old).append(found)
        self._compared = {place.folder for place in self._listed}
        self.waiting.add_live(one.path for one in live)
        self.waiting.add_backlog(old)

    def _must_read(self, found: Found, place: Place) -> bool:
        if self._place_of(found.path) is not place or _is_within(str(found.path), self._own):
            return False
        read = self._store.followed.read_up_to(str(found.path))
        if read is None:  # of a place without its past, files that were there before are not even opened
            return place.since is None or found.changed_s >= place.since.timestamp()
        return DATABASE_NAME.fullmatch(found.path.name) is not None or read.size_bytes != found.size_bytes

    # ---- a step

    def _step(self, path: Path, *, live: bool) -> bool:
        """Take in about a megabyte of a file; return whether more is there."""
        place = self._place_of(path)
        if place is None:
            return False
        began_s = time.monotonic()
        source = self._source(path)
        before = source.read_up_to
        try:
            items, more = source.step()
            added = self._take(items, place, live=live)
        except OSError:  # gone, or not readable any more
            self._sources.pop(path, None)
            return False
        except BaseException:  # nothing is moved on: it is read again from where the ledger says
            self._sources.pop(path, None)
            self.waiting.add_live([path] if live else [])
            raise
        if source.read_up_to != before:
            self._store.followed.move(str(path), source.read_up_to)
        if live and added:
            self._grew()
        elif not live:
            self.taken.bytes_of_backlog += max(0, source.read_up_to.size_bytes - before.size_bytes)
            self.taken.seconds_of_backlog += time.monotonic() - began_s
        return more

    def _source(self, path: Path) -> Tail | Database:
        source = self._sources.pop(path, None)
        if source is None:
            read = self._store.followed.read_up_to(str(path))
            source = Tail(path, read) if path.suffix.lower() == LINES else Database(path, read)
        self._sources[path] = source
        while len(self._sources) > OPEN_SOURCES:
            self._sources.popitem(last=False)
        return source

    def _take(self, items: Items, place: Place, *, live: bool) -> int:
        """Keep what was read; return how many turns were new. Raises StoreError where nothing can be kept now."""
        kept = []
        for head, turns in self._learnable(items, place):
            try:
                kept.append((head, self._store.observe(head, turns)))
            except InvalidInput:
                self.taken.skipped += 1
        added = 0
        for head, future in kept:
            try:
                observed = future.result(KEEP_TIMEOUT_S)
            except InvalidInput:
                self.taken.skipped += 1
                continue
            added += observed.added
            if live and observed.added:
                self.sessions.grew(head, self._now())
        self.taken.turns += added
        return added

    def _learnable(self, items: Items, place: Place) -> Iterator[tuple[SessionHead, tuple[NewTurn, ...]]]:
        for item in items:
            if not isinstance(item, SessionRead):
                self.taken.skipped += 1
            elif self._is_own(item.head):
                continue
            elif place.since is None:
                yield item.head, item.turns
            elif said := tuple(turn for turn in item.turns if turn.at is None or turn.at >= place.since):
                yield replace(item.head, started_at=item.head.started_at or said[0].at), said

    def _is_own(self, head: SessionHead) -> bool:
        """Say whether a session was held by dreamd, or by another memory about what was said."""
        cwd = head.cwd or ""
        return _is_within(cwd, self._own) or not OBSERVERS.isdisjoint(Path(cwd).parts)


def _is_within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)

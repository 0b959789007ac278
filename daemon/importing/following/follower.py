"""The follower: what agents write is taken in as they write it, and what they wrote before when nothing else is to do.

Everything is read by one thread, a step of about a megabyte at a time, so a large file holds up nothing and needs no
more memory than a small one. A step is: read, keep, and only then move on; a crash in between has it read again, and
its turns are known.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from errno import EINVAL, ELOOP, ENOENT, ENOTDIR, ENXIO
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from ....store.model import NodeId, SessionHead, StoreError
from ..formats.opencode import DATABASE_NAME
from ..items import Skipped
from .events import LOOK_AGAIN_S, Events
from .followed_places import LINES, FollowedPlace, FollowedPlaces
from .learning import KEEP_TIMEOUT_S, Learning
from .live_sessions import LiveSessions
from .named_transcripts import NamedTranscripts
from .read_queue import Faults, ReadQueue
from .survey import FoundFile, Survey, files_of, survey
from .tail import Database, Tail, was_changed

if TYPE_CHECKING:
    from ....store import MemoryStore
    from ...settings import TranscriptSettings

OPEN_SOURCES = 32
RETRY_S = 5.0
GIVES_WAY_S = 0.25
"""The quiet that the backlog waits for, at most `HELD_UP_S` before each step: it is slow on a busy day, and ends."""
HELD_UP_S = 2.0
FRESH_S = 60.0
"""A file that changed so short a time ago, and was not there before, is being written."""
FLOOD = 4_000
_NO_FILE = frozenset({ENOENT, ENOTDIR, ELOOP, EINVAL, ENXIO})
"""The errors of a file that is gone since it was seen, or is a link, a pipe or a device, which are not followed."""


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
        self._learning = Learning(store, own)
        self._now = now
        self._grew = grew
        self._quiet_s = quiet_s
        self.places = FollowedPlaces(store, settings.watch)
        self.sessions = LiveSessions(timedelta(minutes=settings.quiet_minutes))
        self.waiting = ReadQueue()
        self.taken = self._learning.taken
        self.problem = ""
        self.faults = Faults()
        self._listed: Sequence[FollowedPlace] = ()
        self._named = NamedTranscripts(store)
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

    def preview(self, place: FollowedPlace) -> Survey:
        """Estimate what is there already."""
        return survey(list(files_of(place)))

    def watch(self, place: FollowedPlace) -> None:
        """Follow a place from now on, also after a restart."""
        self.places.add(place)
        self._again()

    def unwatch(self, what: str) -> FollowedPlace:
        """Follow it no more; what was learned stays. Raises NotFound or InvalidInput."""
        place = self.places.remove(what)
        self._again()
        self.waiting.drop(lambda path: self._place_of(path) is None)
        return place

    def take(self, path: Path, agent: str) -> bool:
        """Have a transcript that a hook names read on, followed or not; False for a file that is none.

        The first time it is read from its start, from then on from where it was read to, also after a restart.
        """
        if not self._named.add(path, agent, self._now(), time.monotonic()):
            return False
        self.waiting.add_live([path])
        return True

    def end(self, session_id: NodeId) -> None:
        """Note that an agent said that a session is over: what is written down of it only now does not revive it."""
        self.sessions.end(session_id, self._now())
        self._store.end_session(session_id)

    def state_of(self, place: FollowedPlace) -> str:
        """Say in a word how it is with a place."""
        if not place.folder.is_dir():
            return "not there yet"
        return self._events.problem or "on"

    @property
    def listed(self) -> Sequence[FollowedPlace]:
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
        """Keep files by their names, and folders. A first sieve, called for every event."""
        name = path.rpartition("/")[2]
        return name.endswith((LINES, ".db", ".db-wal")) or "." not in name or Path(path).is_dir()

    def _on_burst(self, paths: Collection[str]) -> None:
        if len(paths) >= FLOOD:
            self.scan()
            return
        files = {Path(path.removesuffix("-wal")) for path in paths if path.endswith((LINES, ".db", ".db-wal"))}
        if len(files) < len(paths) and any(Path(path).is_dir() for path in paths):
            self.scan()
        self.waiting.add_live(path for path in files if self._place_of(path) is not None and path.is_file())

    def _place_of(self, path: Path) -> FollowedPlace | None:
        for place in self._listed:
            if path.is_relative_to(place.folder) and place.holds(path):
                return place
        return self._named.place_of(path)

    # ---- the thread

    def _run(self) -> None:
        self._listed = self.places.all()
        self._named.restore(self._now(), time.monotonic())
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
        self.waiting.add_live(self._named.due(time.monotonic()))
        if self.faults.due(time.monotonic()):
            self._must_scan.set()
        if (path := self.waiting.take_live()) is not None:
            if self._step(path, live=True):
                self.waiting.add_live([path])
            return
        path = None if self._store.paused else self.waiting.newest_of_backlog()
        if path is None:
            self.sessions.sweep(self._now())
            for session_id in self.sessions.lost(self._now()):
                self._store.end_session(session_id)
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
        live: list[FoundFile] = []
        old: list[FoundFile] = []
        for place in self._listed:
            for found in files_of(place):
                if self._must_read(found, place):
                    is_new = (
                        place.folder in known and found.changed_s >= fresh_s and not self.waiting.is_old(found.path)
                    )
                    (live if is_new else old).append(found)
        live += [found for found, place in self._named.found() if self._must_read(found, place)]
        self._compared = {place.folder for place in self._listed}
        self.waiting.add_live(one.path for one in live)
        self.waiting.add_backlog(old)

    def _must_read(self, found: FoundFile, place: FollowedPlace) -> bool:
        if self._place_of(found.path) is not place or self._learning.is_own(str(found.path)):
            return False
        if self.faults.is_aside(found.path, time.monotonic()):
            return False
        read = self._store.followed.read_up_to(str(found.path))
        if read is None:  # of a place without its past, files that were there before are not even opened
            return place.since is None or found.changed_s >= place.since.timestamp()
        is_database = DATABASE_NAME.fullmatch(found.path.name) is not None
        return is_database or was_changed(read, found.size_bytes, found.changed_ns)

    # ---- a step

    def _step(self, path: Path, *, live: bool) -> bool:
        """Take in about a megabyte of a file; return whether more is there.

        What goes wrong with a file is its own: it is set aside, named, and tried again later, from where the ledger
        says. Raises StoreError where nothing can be kept now.
        """
        place = self._place_of(path)
        if place is None:
            return False
        try:
            more = self._take_in(path, place, live=live)
        except (StoreError, TimeoutError):
            self._sources.pop(path, None)
            self.waiting.add_live([path] if live else [])
            raise
        except Exception as error:
            self._sources.pop(path, None)
            if isinstance(error, OSError) and error.errno in _NO_FILE:
                self.faults.taken(path)
            else:
                self.faults.set_aside(path, error, time.monotonic())
                logger.warning("a session's file cannot be taken in ({}); trying again", type(error).__name__)
            return False
        self.faults.taken(path)
        return more

    def _take_in(self, path: Path, place: FollowedPlace, *, live: bool) -> bool:
        began_s = time.monotonic()
        source = self._source(path)
        before = source.read_up_to
        items, more = source.step()
        for item in items:
            if isinstance(item, Skipped) and item.is_fault:
                self.faults.left_out(item)
        followed = live and place in self._listed  # a file that hooks name is read when they do, not as it grows
        added = self._learning.keep(
            items,
            place,
            self._note if live else lambda head: None,
            live=followed,
            rewritten=source.is_rewritten,
            written_at=None if more else datetime.fromtimestamp(source.changed_ns / 1e9, UTC),
        )
        if source.read_up_to != before:
            self._store.followed.move(str(path), source.read_up_to)
        if live and added:
            self._grew()
        elif not live:
            self.taken.bytes_of_backlog += max(0, source.read_up_to.size_bytes - before.size_bytes)
            self.taken.seconds_of_backlog += time.monotonic() - began_s
        return more

    def _note(self, head: SessionHead) -> None:
        self.sessions.grew(head, self._now())

    def _source(self, path: Path) -> Tail | Database:
        source = self._sources.pop(path, None)
        if source is None:
            read = self._store.followed.read_up_to(str(path))
            source = Tail(path, read) if path.suffix.lower() == LINES else Database(path, read)
        self._sources[path] = source
        while len(self._sources) > OPEN_SOURCES:
            self._sources.popitem(last=False)
        return source

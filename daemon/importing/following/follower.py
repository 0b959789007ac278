"""The follower: agents' sessions are imported as they are written, and older ones while nothing else is to do.

One thread reads everything, in steps of about a megabyte, so that a large file delays no other one and needs no more
memory than a small one. A step reads, keeps, and only then moves the position: after a crash in between the part is
read again, and its turns are known.
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

from ....store.model import NodeId, StoreError
from ...host.folder_watch import LOOK_AGAIN_S, SessionsWatch
from ..detect import agents_writing, database_named
from ..items import Skipped
from .followed_places import FollowedPlace, FollowedPlaces, FoundFile, Survey, files_of, survey
from .learning import KEEP_TIMEOUT_S, Learning, LiveSessions
from .named_transcripts import NamedTranscripts
from .read_queue import Faults, ReadQueue
from .tail import Database, Tail, WholeFile, source_of, was_changed

if TYPE_CHECKING:
    from ....store import MemoryStore
    from ...settings import TranscriptSettings

OPEN_SOURCES = 32
RETRY_S = 5.0
# The quiet that the backlog waits for, at most `LONGEST_WAIT_S` before each step: a busy day only slows it down.
GIVES_WAY_S = 0.25
LONGEST_WAIT_S = 2.0
# A new file with so recent a change is being written now.
FRESH_S = 60.0
FLOOD = 4_000
# The ending of a database's write-ahead log, which changes where the database itself does not yet.
_LOG = "-wal"
# The errors of a file that has vanished, or is a link, a pipe or a device, which are not followed.
_NO_FILE = frozenset({ENOENT, ENOTDIR, ELOOP, EINVAL, ENXIO})


class Follower:
    """Follows the places of its list. All methods may be called from any thread.

    `own` are dreamd's folders, whose sessions are not learned. `grew` is called when an agent is seen at work, and
    `quiet_s` returns the seconds since one was.
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
        self._watch = SessionsWatch(
            lambda: [place.folder for place in self._listed], self._is_ours, self._on_burst, self.scan
        )
        self._sources: OrderedDict[Path, Tail | Database | WholeFile] = OrderedDict()
        self._compared: set[Path] = set()
        self._must_scan = threading.Event()
        self._knows_named = threading.Event()
        self._awaiting = threading.Lock()
        self._awaited: dict[Path, list[threading.Event]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transcripts", daemon=True)

    # ---- start and stop

    def start(self) -> None:
        """Start the threads; returns at once."""
        self._thread.start()
        self._watch.start()

    def stop(self) -> None:
        """Stop after the current step."""
        self._stop.set()
        self._watch.stop()
        self.waiting.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=KEEP_TIMEOUT_S)

    # ---- the places

    def preview(self, *places: FollowedPlace) -> Survey:
        """Estimate the sessions that places hold already."""
        return survey([found for place in places for found in files_of(place)])

    def watch(self, *places: FollowedPlace) -> None:
        """Follow places, also after a restart."""
        for place in places:
            self.places.add(place)
        self._relist()

    def follows(self, agent: str) -> bool:
        """Return True if a place of an agent's own sessions is followed."""
        return any(place.agent == agent for place in self._listed)

    def unwatch(self, what: str) -> FollowedPlace:
        """Stop following a place; its memories stay. Raises NotFound or InvalidInput."""
        place = self.places.remove(what)
        self._relist()
        self.waiting.drop(lambda path: self._place_of(path) is None)
        return place

    def take(self, path: Path, agent: str) -> bool:
        """Read on in a transcript that a hook names, in a followed place or not; return False for another file.

        The first time it is read from its start, then from its position, also after a restart.
        """
        if not self._named.add(path, agent, self._now(), time.monotonic()):
            return False
        self.waiting.add_live([path])
        return True

    def read_on(self, agent: str, timeout_s: float) -> bool:
        """Read the transcripts that a program's hooks named lately up to now; False if that was not done in time."""
        ends_s = time.monotonic() + timeout_s
        if not self._knows_named.wait(timeout_s):
            return False
        paths = self._named.of_program(agent, time.monotonic())
        read = [threading.Event() for _ in paths]
        with self._awaiting:
            for path, event in zip(paths, read, strict=True):
                self._awaited.setdefault(path, []).append(event)
        self.waiting.add_live(paths)
        in_time = all(event.wait(max(0.0, ends_s - time.monotonic())) for event in read)
        return in_time and not any(self.faults.is_aside(path, time.monotonic()) or not path.is_file() for path in paths)

    def end(self, session_id: NodeId) -> None:
        """Note that an agent reported a session's end: turns that are written shortly after it do not revive it."""
        self.sessions.end(session_id, self._now())
        self._store.end_session(session_id)

    def state_of(self, place: FollowedPlace) -> str:
        """Return the state of a place in a few words."""
        if not place.folder.is_dir():
            return "not there yet"
        return self._watch.problem or "on"

    @property
    def listed(self) -> Sequence[FollowedPlace]:
        """The places that are followed."""
        return self._listed

    def scan(self) -> None:
        """Have every file compared with its last reading."""
        self._must_scan.set()
        self.waiting.wake()

    def _relist(self) -> None:
        self._listed = self.places.all()
        self._watch.restart()
        self.scan()

    # ---- events

    def _is_ours(self, path: str) -> bool:
        """Return True for the names of session files, and for folders. Called for every event."""
        name = path.rpartition("/")[2]
        return bool(agents_writing(name.removesuffix(_LOG))) or "." not in name or Path(path).is_dir()

    def _on_burst(self, paths: Collection[str]) -> None:
        if len(paths) >= FLOOD:
            self.scan()
            return
        named = [path.removesuffix(_LOG) for path in paths]
        files = {Path(path) for path in named if agents_writing(path.rpartition("/")[2])}
        # A new folder may have been filled before it was watched.
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
        self._knows_named.set()
        self.scan()
        self._watch.restart()
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
        if self.step_live():
            return
        # Live files are read on while learning is paused: the store drops their turns, and the position moves.
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
        """Wait until no agent is at work; return True if a live file came meanwhile."""
        ends_s = time.monotonic() + LONGEST_WAIT_S
        while self._quiet_s() < GIVES_WAY_S and time.monotonic() < ends_s and not self._stop.is_set():
            self.waiting.wait(GIVES_WAY_S)
        return self._stop.is_set() or self.waiting.has_live

    def _scan(self) -> None:
        """Compare every file with its last reading, and queue those that differ."""
        fresh_s = self._now().timestamp() - FRESH_S
        known = self._compared & {place.folder for place in self._listed}
        live: list[FoundFile] = []
        old: list[FoundFile] = []
        for place in self._listed:
            for found in files_of(place):
                if self._must_read(found, place):
                    is_new = (
                        place.folder in known
                        and found.changed_s >= fresh_s
                        and not self.waiting.is_in_backlog(found.path)
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
        # Of a place that is followed from a time on, older files are not even opened.
        if read is None:
            return place.since is None or found.changed_s >= place.since.timestamp()
        return database_named(found.path) is not None or was_changed(read, found.size_bytes, found.changed_ns)

    # ---- one step

    def step_live(self) -> bool:
        """Read on in one of the files that are written now; return False if none waits. Called by one thread."""
        if (path := self.waiting.take_live()) is None:
            return False
        # Only a step that begins after it was asked for reads all that was there then.
        with self._awaiting:
            awaited = self._awaited.pop(path, [])
        # Behind the other live files, so that one that grows fast does not hold up the rest.
        if self._step(path, live=True):
            self.waiting.add_live([path])
            with self._awaiting:
                self._awaited.setdefault(path, []).extend(awaited)
            return True
        for event in awaited:
            event.set()
        return True

    def _step(self, path: Path, *, live: bool) -> bool:
        """Import about a megabyte of a file; return True if more follows.

        An error concerns one file: it is set aside, named, and tried again later, from the position in the ledger.
        Raises StoreError where nothing can be kept now.
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
                self.faults.resolved(path)
            else:
                self.faults.set_aside(path, error, time.monotonic())
                logger.warning("a session's file cannot be taken in ({}); trying again", type(error).__name__)
            return False
        self.faults.resolved(path)
        return more

    def _take_in(self, path: Path, place: FollowedPlace, *, live: bool) -> bool:
        began_s = time.monotonic()
        source = self._source(path)
        before = source.read_up_to
        items, more = source.step()
        for item in items:
            if isinstance(item, Skipped) and item.is_fault:
                self.faults.left_out(item)
        added = self._learning.keep(
            items,
            place,
            (lambda head: self.sessions.grew(head, self._now())) if live else (lambda head: None),
            live=live and place in self._listed,
            # A file that hooks name is read at each of them, and before a statement of its agent, not as it grows.
            named=live and place not in self._listed,
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

    def _source(self, path: Path) -> Tail | Database | WholeFile:
        source = self._sources.pop(path, None)
        if source is None:
            source = source_of(path, self._store.followed.read_up_to(str(path)))
        self._sources[path] = source
        # A reader holds the state of open calls; reading it again from the file takes a moment.
        while len(self._sources) > OPEN_SOURCES:
            self._sources.popitem(last=False)
        return source

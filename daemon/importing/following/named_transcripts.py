"""The transcripts that agents' hooks name: read on at each hook, and a few times shortly after it."""

from __future__ import annotations

import json
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ....store import redact
from ..detect import BY_LINE, LINES, detect_format
from ..sanitize import instant
from .followed_places import FollowedPlace, FoundFile

if TYPE_CHECKING:
    from ....store import MemoryStore

MOST = 256
# Claude Code calls the hook of an answer before it writes the answer down.
LOOKS_AFTER_S = (1.0, 3.0, 9.0)

# The time after its last hook for which a file is compared at the daemon's start, to read on what was added.
KEPT = timedelta(days=3)
_NOTED_AGAIN = timedelta(hours=1)


@dataclass(slots=True)
class _NamedFile:
    place: FollowedPlace
    at_s: float
    noted_at: datetime
    looks: int = 0


class NamedTranscripts:
    """The transcripts that hooks named last. Every method may be called from any thread; `now_s` is monotonic.

    A file is noted in the ledger when it is first named, since the daemon may end before it has read it again.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._followed = store.followed
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, _NamedFile] = OrderedDict()

    def add(self, path: Path, agent: str, now: datetime, now_s: float) -> bool:
        """Add a transcript, noted durably; return False for an unreadable file, or one that is no transcript."""
        known = self._files.get(path)
        if known is None and not _is_transcript(path):
            return False
        is_noted = known is not None and now - known.noted_at < _NOTED_AGAIN
        with self._lock:
            noted_at = known.noted_at if known and is_noted else now
            self._files[path] = _NamedFile(FollowedPlace(path.parent, agent), now_s, noted_at)
            self._files.move_to_end(path)
            gone = [self._files.popitem(last=False)[0] for _ in range(len(self._files) - MOST)]
        # A path that holds a secret is written nowhere.
        if not is_noted and redact(str(path)).text == str(path):
            self._followed.name(str(path), json.dumps({"agent": agent, "at": now.isoformat()}))
        for one in gone:
            self._followed.unname(str(one))
        return True

    def restore(self, now: datetime, now_s: float) -> None:
        """Load the transcripts that were named before the daemon started, without those of long ago."""
        noted = {path: json.loads(note) for path, note in self._followed.named().items()}
        for path, note in sorted(noted.items(), key=lambda one: str(one[1].get("at"))):
            at = instant(note.get("at"))
            if at is None or now - at > KEPT:
                self._followed.unname(path)
                continue
            # A hook of the last hours may have been followed by more than was read; older ones were read to the end.
            looks = 0 if now - at <= 2 * _NOTED_AGAIN else len(LOOKS_AFTER_S)
            with self._lock:
                named = _NamedFile(FollowedPlace(Path(path).parent, str(note.get("agent") or "")), now_s, at, looks)
                self._files.setdefault(Path(path), named)

    def found(self) -> Iterator[tuple[FoundFile, FollowedPlace]]:
        """Yield the files that exist, each with the place that it forms by itself."""
        for path, named in list(self._files.items()):
            try:
                known = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(known.st_mode):
                yield FoundFile(path, known.st_size, known.st_mtime_ns), named.place

    def place_of(self, path: Path) -> FollowedPlace | None:
        """Return the place that a named file forms by itself; None for another file."""
        named = self._files.get(path)
        return named.place if named else None

    def of_program(self, agent: str, now_s: float) -> list[Path]:
        """Return the files that a program's hooks named within the last hour; `agent` begins with its name."""
        since_s = now_s - _NOTED_AGAIN.total_seconds()
        with self._lock:
            return [
                path
                for path, named in self._files.items()
                if named.at_s >= since_s and agent.startswith(named.place.agent)
            ]

    def due(self, now_s: float) -> Sequence[Path]:
        """Return the files that are due to be read again, and count that reading as done."""
        with self._lock:
            found = [
                path
                for path, named in self._files.items()
                if named.looks < len(LOOKS_AFTER_S) and now_s - named.at_s >= LOOKS_AFTER_S[named.looks]
            ]
            for path in found:
                self._files[path].looks += 1
            return found


def _is_transcript(path: Path) -> bool:
    """Return True if a file is empty, or begins as an agent's transcript does: a hook may name no other file."""
    if not path.is_absolute() or path.suffix.lower() != LINES:
        return False
    try:
        return not path.stat().st_size or detect_format(path) in BY_LINE
    except Exception:  # whatever is wrong with it, it is not recognised
        return False

"""A survey of what is there before watching begins: how much it is, and how long it will take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..formats import opencode
from ..items import SessionRead
from .followed_places import LINES, FollowedPlace
from .tail import Tail

SAMPLED = 12
"""Files of which the beginning is read."""
TURNS_A_SECOND = 100
"""A laptop's rate of taking in and embedding; by words a turn is found long before."""
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "snapshot", "subagents", "tool-results"})


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a place."""

    path: Path
    size_bytes: int
    changed_ns: int

    @property
    def changed_s(self) -> float:
        """Return the time at which its content changed, in seconds since the epoch."""
        return self.changed_ns / 1e9


@dataclass(frozen=True, slots=True)
class Survey:
    """An estimate: files, and the sessions and turns in them."""

    files: int
    sessions: int
    turns: int

    @property
    def minutes(self) -> float:
        """Return how long it takes until all of it is found, by meaning too."""
        return round(self.turns / TURNS_A_SECOND / 60, 1)


def files_of(place: FollowedPlace) -> Iterator[FoundFile]:
    """Yield every file of a place that is followed. No link is."""
    for folder, folders, files in os.walk(place.folder):
        folders[:] = [name for name in folders if name not in _NOT_ENTERED and not Path(folder, name).is_symlink()]
        for name in files:
            path = Path(folder, name)
            if not place.holds(path) or path.is_symlink():
                continue
            try:
                known = path.stat()
            except OSError:  # gone since it was listed
                continue
            yield FoundFile(path, known.st_size, known.st_mtime_ns)


def survey(files: Sequence[FoundFile]) -> Survey:
    """Estimate from a sample how much there is."""
    lines = sorted((one for one in files if one.path.suffix.lower() == LINES), key=lambda one: one.size_bytes)
    sessions, turns = 0, 0
    for database in (one for one in files if one.path.suffix.lower() != LINES):
        held, messages = _counts(database.path)
        sessions, turns = sessions + held, turns + messages
    step = max(1, len(lines) // SAMPLED)
    sampled = [_sample(one) for one in lines[step // 2 :: step]]
    read = sum(size for _, _, size in sampled)
    if read:
        everything = sum(one.size_bytes for one in lines)
        sessions += round(len(lines) * sum(1 for found, _, _ in sampled if found) / len(sampled))
        turns += round(everything * sum(said for _, said, _ in sampled) / read)
    return Survey(len(files), sessions, turns)


def _counts(path: Path) -> tuple[int, int]:
    try:
        return opencode.counts(path)
    except OSError:
        return 0, 0


def _sample(file: FoundFile) -> tuple[int, int, int]:
    """Return sessions, turns and bytes of a file's first megabyte."""
    tail = Tail(file.path, None)
    try:
        items, _ = tail.step()
    except Exception:  # it is named when it is read
        return 0, 0, 0
    read = [item for item in items if isinstance(item, SessionRead)]
    return (
        len({item.head.session_id for item in read}),
        sum(len(item.turns) for item in read),
        tail.read_up_to.size_bytes,
    )

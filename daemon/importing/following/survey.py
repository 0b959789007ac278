"""A survey of a place before it is followed: its amount of sessions, and the time that importing them will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..formats import opencode
from ..items import SessionRead
from .followed_places import LINES, FoundFile
from .tail import Tail

# Files whose beginning is read.
SAMPLED = 12
# A laptop's rate of importing and embedding; a turn is found by its words long before.
TURNS_A_SECOND = 100


@dataclass(frozen=True, slots=True)
class Survey:
    """An estimate: files, and the sessions and turns in them."""

    files: int
    sessions: int
    turns: int

    @property
    def minutes(self) -> float:
        """Return the time until every turn is found by meaning too."""
        return round(self.turns / TURNS_A_SECOND / 60, 1)


def survey(files: Sequence[FoundFile]) -> Survey:
    """Estimate the sessions and turns of files from a sample of them."""
    lines = sorted((one for one in files if one.path.suffix.lower() == LINES), key=lambda one: one.size_bytes)
    sessions, turns = 0, 0
    for database in (one for one in files if one.path.suffix.lower() != LINES):
        in_database, messages = _counts(database.path)
        sessions, turns = sessions + in_database, turns + messages
    step = max(1, len(lines) // SAMPLED)
    # Sorted by size, so that the sample has short and long files in proportion.
    sampled = [_sample(one) for one in lines[step // 2 :: step]]
    read = sum(size for _, _, size in sampled)
    if read:
        total = sum(one.size_bytes for one in lines)
        sessions += round(len(lines) * sum(1 for found, _, _ in sampled if found) / len(sampled))
        turns += round(total * sum(found for _, found, _ in sampled) / read)
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
    except Exception:  # the follower reports it when it reads the file
        return 0, 0, 0
    read = [item for item in items if isinstance(item, SessionRead)]
    return (
        len({item.head.session_id for item in read}),
        sum(len(item.turns) for item in read),
        tail.read_up_to.size_bytes,
    )

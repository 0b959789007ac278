"""What the store answers when it is asked about itself and its memories, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .model import Evidence, Kind, Level, NodeId


@dataclass(frozen=True, slots=True)
class Shown:
    """One memory, session or turn, whole, with what it rests on and what rests on it.

    `superseded_by` took its place, it took that of those that it `supersedes`, and those that it `contradicts` say
    otherwise. All of its own channel or the global one.
    """

    node_id: NodeId
    level: Level
    kind: Kind
    title: str
    text: str
    channel: str
    path: str
    created_at: datetime | None
    live: bool
    tags: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    cited_by: tuple[NodeId, ...]
    superseded_by: NodeId | None = None
    supersedes: tuple[NodeId, ...] = ()
    contradicts: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a list."""

    node_id: NodeId
    level: Level
    kind: Kind
    title: str
    channel: str
    created_at: datetime | None
    live: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A memory that was taken back, by which run, and what only rested on it and went with it."""

    node_id: NodeId
    run_id: str
    also: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """A memory that was brought back, by which run."""

    node_id: NodeId
    run_id: str
    path: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What a person decided, and by which run it is done."""

    decision_id: str
    run_id: str
    choice: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a person should know of. `severity` is `error`, `warning`, or `note` where nothing is wrong."""

    path: str
    problem: str
    severity: str = "warning"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild made. `embedded` counts the chunks that the model had to read: those never seen before."""

    files: int
    nodes: int
    chunks: int
    embedded: int
    seconds: float

"""The view: the copy that a dream works on, with an overlay of this run's proposals.

Later stages see what earlier ones propose; the person's memory is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...llm.budget import Asker
from ...store import okf
from ...store.changes.tombstone_keys import edit_key
from ...store.ledger.ledger import Reinforced, Usage
from ...store.ledger.questions import Gap, Probe
from ...store.model import Action, FittedRanking, Level, Memory, NodeId, Turn
from ...store.redaction import places_of_secrets
from ..settings import PipelineSettings
from ..steps import Steps
from .checkpoint import Memo

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as the copy holds it. `last_ordinal` is that of its last turn."""

    session_id: NodeId
    channel: str
    path: str
    last_ordinal: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """The parts of the ledger that stages need."""

    tombstones: frozenset[str] = frozenset()
    cursors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    paused: bool = False
    channels_off: frozenset[str] = frozenset()
    usage: Mapping[NodeId, Usage] = field(default_factory=dict)
    probes: Sequence[Probe] = ()
    gaps: Sequence[Gap] = ()
    feedback: Mapping[NodeId, Mapping[str, int]] = field(default_factory=dict)
    reinforced: Mapping[NodeId, Reinforced] = field(default_factory=dict)
    ranking: FittedRanking | None = None
    ranking_undone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a question in the copy: their features by name, and which of them are its gold."""

    features: Mapping[str, NDArray[np.float64]]
    gold: NDArray[np.bool_]


class Source(Protocol):
    """The memory as it was when the dream began."""

    def sessions(self) -> list[SessionState]:
        """Return every session, by id."""
        ...

    def turns(self, session_id: NodeId) -> list[Turn]:
        """Return the turns of a session that were not forgotten, in order."""
        ...

    def folders(self, channel: str) -> list[Path]:
        """Return the existing folders of a channel's project in which its newest sessions ran."""
        ...

    def memories(self) -> list[Memory]:
        """Return every memory above L0, by id; fields that the index does not hold have their defaults."""
        ...

    def read(self, path: str) -> bytes | None:
        """Return a file of the vault, or None."""
        ...

    def written_at(self, path: str) -> datetime | None:
        """Return when a file of the vault was last written, None where there is none."""
        ...

    def paths(self) -> Collection[str]:
        """Return the path of every kept file of the vault."""
        ...

    def indexed_paths(self) -> Mapping[str, str | None]:
        """Return every file that the index has seen, with its problem if it has one."""
        ...

    def unembedded(self) -> int:
        """Count the chunks without a vector."""
        ...


class Embed(Protocol):
    """A function from texts to vectors of unit length."""

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text."""
        ...


class View:
    """Reads the copy as the proposals of this run so far would leave it."""

    def __init__(
        self,
        source: Source,
        history: History,
        embed: Embed,
        run_id: str,
        settings: PipelineSettings = PipelineSettings(),  # noqa: B008  (frozen)
    ) -> None:
        self._source = source
        self.settings = settings
        self._embed = embed
        self.history = history
        self.run_id = run_id
        self.memo: Memo | None = None
        self.model: Asker | None = None
        self.steps = Steps(lambda at: None)
        self.candidates: Callable[[Probe], Candidates | None] | None = None
        """Finds the candidates of a past question; None where the learned scorer does not rank."""
        self.ranking: FittedRanking | None = None
        self.actions: list[Action] = []
        self.held: set[NodeId] = set()
        """Pages that a stage would have rewritten, had no person edited them."""
        self.cursors: dict[tuple[str, str], int] = {}
        self._files: dict[str, bytes | None] = {}
        self._memories = {memory.node_id: memory for memory in source.memories()}

    # ---- reading

    def sessions(self) -> list[SessionState]:
        """Return every session in which learning is on."""
        if self.history.paused:
            return []
        return [session for session in self._source.sessions() if session.channel not in self.history.channels_off]

    def turns(self, session_id: NodeId) -> list[Turn]:
        """Return all turns of a session, in order."""
        return self._source.turns(session_id)

    def folders(self, channel: str) -> list[Path]:
        """Return the existing folders of a channel's project in which its newest sessions ran."""
        return self._source.folders(channel)

    def cursor(self, stage: str, key: str) -> int:
        """Return the last ordinal that a stage consumed of a session, in this run or before; 0 for none."""
        return self.cursors.get((stage, key), self.history.cursors.get((stage, key), 0))

    def memories(self, level: Level | None = None, channel: str | None = None) -> list[Memory]:
        """Return the memories that are neither archived nor superseded, nor wait for review, by id."""
        found = (
            memory
            for memory in self._memories.values()
            if (level is None or memory.level is level)
            and (channel is None or memory.channel == channel)
            and memory.is_live
            and not memory.is_waiting
        )
        return sorted(found, key=lambda memory: memory.node_id)

    def memory(self, node_id: NodeId) -> Memory | None:
        """Return one memory with every field, from its file."""
        known = self._memories.get(node_id)
        data = self.read(known.path) if known else None
        return okf.to_memory(known.path, okf.parse(data), known.created_at) if known and data is not None else known

    def whole(self, level: Level, channel: str) -> list[Memory]:
        """Return the memories of a channel with every field, from their files, living or not, by id.

        Nothing is built on those that wait for review: they are left out.
        """
        named = (m.node_id for m in self._memories.values() if m.level is level and m.channel == channel)
        found = (self.memory(node_id) for node_id in sorted(named))
        return [memory for memory in found if memory is not None and not memory.is_waiting]

    def waiting(self) -> list[Memory]:
        """Return the memories that wait for review."""
        return [memory for memory in self._memories.values() if memory.is_live and memory.is_waiting]

    def fingerprint(self, level: Level, channel: str) -> int:
        """Hash the files of a channel's memories, living or not, to a number that can be kept as a cursor."""
        digest = sha256()
        for memory in sorted(self._memories.values(), key=lambda memory: memory.node_id):
            if memory.level is level and memory.channel == channel:
                digest.update(memory.node_id.encode() + b"\0" + (self.read(memory.path) or b""))
        return int.from_bytes(digest.digest()[:6], "big")

    def holds(self, node_id: NodeId) -> bool:
        """Return True if there is such a memory, living or archived."""
        return node_id in self._memories

    def read(self, path: str) -> bytes | None:
        """Return a file as this run would leave it, None if there is none."""
        return self._files[path] if path in self._files else self._source.read(path)

    def written_at(self, path: str) -> datetime | None:
        """Return when a file was last written, before this run; None for one that was not there."""
        return self._source.written_at(path)

    def paths(self) -> set[str]:
        """Return the path of every kept file as this run would leave them."""
        gone = {path for path, data in self._files.items() if data is None}
        return (set(self._source.paths()) | self._files.keys()) - gone

    def indexed_paths(self) -> Mapping[str, str | None]:
        """Return every file that the index had seen when the dream began, with its problem if it has one."""
        return self._source.indexed_paths()

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the embeddings of texts, one row each, of unit length."""
        return self._embed(texts)

    def unembedded(self) -> int:
        """Count the chunks that had no vector when the dream began."""
        return self._source.unembedded()

    def is_live(self, node_id: NodeId) -> bool:
        """Return True if there is such a memory, neither archived nor superseded."""
        memory = self._memories.get(node_id)
        return memory is not None and memory.is_live

    def memory_paths(self) -> dict[NodeId, str]:
        """Return the path of each memory, living or archived."""
        return {node_id: memory.path for node_id, memory in self._memories.items()}

    def session_paths(self) -> dict[NodeId, str]:
        """Return the path of each session."""
        return {session.session_id: session.path for session in self._source.sessions()}

    # ---- proposing

    def is_forbidden(self, fingerprint: str | None) -> bool:
        """Return True if a person undid, forgot or rejected what this fingerprint stands for."""
        return fingerprint in self.history.tombstones

    def allowed(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions that may be applied: no edit that a person undid, and none of a file that holds a secret.

        Later edits of the same files are left out with them.
        """
        seen: dict[str, bytes | None] = {}
        left_out: set[str] = set()
        allowed = []
        for action in actions:
            before = seen[action.path] if action.path in seen else self.read(action.path)
            if action.path in left_out or self._is_refused(action, before):
                left_out.add(action.path)
                continue
            seen[action.path] = action.content
            allowed.append(action)
        return allowed

    def _is_refused(self, action: Action, before: bytes | None) -> bool:
        undone = bool(self.history.tombstones) and self.is_forbidden(edit_key(action.path, before, action.content))
        return undone or (action.content is not None and bool(places_of_secrets(action.content)))

    def apply(self, actions: Iterable[Action], cursors: Mapping[tuple[str, str], int] | None = None) -> None:
        """Add what a stage proposed, so that later stages see it."""
        for action in actions:
            self.actions.append(action)
            self._files[action.path] = action.content
            if action.content is None:
                self._memories.pop(action.node_id, None)
                continue
            memory = okf.to_memory(action.path, okf.parse(action.content))
            self._memories[memory.node_id] = memory
        self.cursors.update(cursors or {})

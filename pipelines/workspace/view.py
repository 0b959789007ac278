"""The view: the copy that a dream works on, with an overlay of this run's proposals.

Stages see the proposals of earlier stages; the person's memory is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from ...llm.budget import Asker
from ...store import okf
from ...store.channel import is_of_session
from ...store.index.tombstones import edit_key
from ...store.model import Action, Kind, Level, Memory, NodeId, Turn
from ...store.redaction import places_of_secrets
from ..pipe import StepProgress
from ..settings import PipelineSettings
from .memo import Memo, Vectors
from .snapshot import History, SessionState, Snapshot


class Embed(Protocol):
    """A function from texts to vectors of unit length."""

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text."""
        ...


class View:
    """Reads the copy with this run's proposals so far applied."""

    def __init__(
        self,
        snapshot: Snapshot,
        history: History,
        embed: Embed,
        run_id: str,
        settings: PipelineSettings = PipelineSettings(),  # noqa: B008  (frozen)
    ) -> None:
        self._snapshot = snapshot
        self.settings = settings
        self._embed = embed
        self.history = history
        self.run_id = run_id
        self.memo: Memo | None = None
        self.model: Asker | None = None
        self.steps = StepProgress(lambda at: None)
        self.actions: list[Action] = []
        self.learns: frozenset[NodeId] | None = None
        """The sessions that this run alone reads for new facts; None for all."""
        self.left_alone: set[NodeId] = set()
        """Pages that a stage left because a person edited them."""
        self.cursors: dict[tuple[str, str], int] = {}
        self._files: dict[str, bytes | None] = {}
        self._memories = {memory.node_id: memory for memory in snapshot.memories()}

    # ---- reading

    def sessions(self) -> list[SessionState]:
        """Return every session in which learning is on."""
        if self.history.paused:
            return []
        return [session for session in self._snapshot.sessions() if session.channel not in self.history.channels_off]

    def turns(self, session_id: NodeId) -> list[Turn]:
        """Return all turns of a session, in order."""
        return self._snapshot.turns(session_id)

    def folders(self, channel: str) -> list[Path]:
        """Return the existing folders of a channel's project in which its newest sessions ran."""
        return self._snapshot.folders(channel)

    def cursor(self, stage: str, key: str) -> int:
        """Return the last ordinal that a stage consumed of a session, in this run or before; 0 for none."""
        return self.cursors.get((stage, key), self.history.cursors.get((stage, key), 0))

    def memories(self, level: Level | None = None, channel: str | None = None) -> list[Memory]:
        """Return the live memories that do not wait for review, nor end with a session, by id."""
        found = (
            memory
            for memory in self._memories.values()
            if (level is None or memory.level is level)
            and (channel is None or memory.channel == channel)
            and memory.is_live
            and not memory.is_waiting
            and not is_of_session(memory.channel)
        )
        return sorted(found, key=lambda memory: memory.node_id)

    def memory(self, node_id: NodeId) -> Memory | None:
        """Return one memory with every field, from its file."""
        known = self._memories.get(node_id)
        data = self.read(known.path) if known else None
        return okf.to_memory(known.path, okf.parse(data), known.created_at) if known and data is not None else known

    def whole(self, level: Level, channel: str) -> list[Memory]:
        """Return the memories of a channel with every field, from their files, live or not, by id.

        Those that wait for review are left out: nothing may be built on them.
        """
        named = (m.node_id for m in self._memories.values() if m.level is level and m.channel == channel)
        found = (self.memory(node_id) for node_id in sorted(named))
        return [memory for memory in found if memory is not None and not memory.is_waiting]

    def waiting(self) -> list[Memory]:
        """Return the memories that wait for review."""
        return [memory for memory in self._memories.values() if memory.is_live and memory.is_waiting]

    def every(self, level: Level) -> list[Memory]:
        """Return all memories of a level, also those that are archived or wait for review."""
        return [memory for memory in self._memories.values() if memory.level is level]

    def fingerprint(self, level: Level, channel: str) -> int:
        """Hash the files of a channel's memories, live or not, to a number that can be kept as a cursor."""
        digest = sha256()
        for memory in sorted(self._memories.values(), key=lambda memory: memory.node_id):
            if memory.level is level and memory.channel == channel:
                digest.update(memory.node_id.encode() + b"\0" + (self.read(memory.path) or b""))
        return int.from_bytes(digest.digest()[:6], "big")

    def exists(self, node_id: NodeId) -> bool:
        """Return True if there is such a memory, live or archived."""
        return node_id in self._memories

    def read(self, path: str) -> bytes | None:
        """Return a file with this run's proposals applied, None if there is none."""
        return self._files[path] if path in self._files else self._snapshot.read(path)

    def written_at(self, path: str) -> datetime | None:
        """Return when a file was last written, before this run; None for one that was not there."""
        return self._snapshot.written_at(path)

    def paths(self) -> set[str]:
        """Return the path of every kept file with this run's proposals applied."""
        gone = {path for path, data in self._files.items() if data is None}
        return (set(self._snapshot.paths()) | self._files.keys()) - gone

    def indexed_paths(self) -> Mapping[str, str | None]:
        """Return every file that the index had seen when the dream began, with its problem if it has one."""
        return self._snapshot.indexed_paths()

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the embeddings of texts, one row each, of unit length."""
        return self._embed(texts)

    def unembedded(self) -> int:
        """Count the chunks that had no vector when the dream began."""
        return self._snapshot.unembedded()

    def is_live(self, node_id: NodeId) -> bool:
        """Return True if there is such a memory, neither archived nor superseded."""
        memory = self._memories.get(node_id)
        return memory is not None and memory.is_live

    def memory_paths(self) -> dict[NodeId, str]:
        """Return the path of each memory, live or archived."""
        return {node_id: memory.path for node_id, memory in self._memories.items()}

    def session_paths(self) -> dict[NodeId, str]:
        """Return the path of each session."""
        return {session.session_id: session.path for session in self._snapshot.sessions()}

    def path_for(self, level: Level, kind: Kind, title: str, node_id: NodeId, channel: str) -> str:
        """Return where a new memory lies in this vault."""
        return okf.path_for(level, title, node_id, channel, kind=kind, layout=self.history.layout)

    # ---- proposing

    def is_forbidden(self, fingerprint: str | None) -> bool:
        """Return True if a person undid, forgot or rejected the change with this fingerprint."""
        return fingerprint in self.history.tombstones

    def allowed(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions without edits that a person undid, and without files that contain a secret.

        Later edits of the same files are left out with them.
        """
        seen: dict[str, bytes | None] = {}
        left_out: set[str] = set()
        allowed = []
        for action in actions:
            # Each edit is compared with the state that the one before it leaves.
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
        """Add a stage's proposals to the overlay, for later stages to see."""
        for action in actions:
            self.actions.append(action)
            self._files[action.path] = action.content
            if action.content is None:
                self._memories.pop(action.node_id, None)
                continue
            memory = okf.to_memory(action.path, okf.parse(action.content))
            if memory.level is not Level.SESSION:  # the copy of a file is no memory of a dream
                self._memories[memory.node_id] = memory
        self.cursors.update(cursors or {})

"""A memory that fits in a test: sessions and files in dictionaries, embeddings without a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from dreamd.llm.language_model import Answer, LlmError
from dreamd.pipelines import dream as run
from dreamd.pipelines.messages import RunRequest
from dreamd.pipelines.settings import DreamStep, Stage
from dreamd.pipelines.workspace.memo import Vectors
from dreamd.pipelines.workspace.proposals import Proposals
from dreamd.pipelines.workspace.snapshot import History, SessionState, Snapshot
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import Memory, NodeId, Turn
from dreamd.store.settings import EmbeddingSettings, StorePaths, StoreSettings

Planner = Callable[[View, datetime], Proposals]

MAY_8 = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SETTINGS = StoreSettings(embedding=EmbeddingSettings(model="stub"))


def request_of(paths: StorePaths, run_id: str, now: datetime = NOW, **others: Any) -> RunRequest:
    """A request for a dream of a real store, whose folder is there."""
    request = RunRequest.of(paths, run_id, now, store=SETTINGS, **others)
    request.folder.mkdir(parents=True)
    return request


def plant_steps(monkeypatch: pytest.MonkeyPatch, *steps: tuple[Stage, str, Planner]) -> None:
    """Have a run take these functions, each under its switch and name, instead of the stages."""
    for _, name, plan in steps:
        module = cast(ModuleType, SimpleNamespace(plan=plan))
        monkeypatch.setitem(sys.modules, f"dreamd.pipelines.stages.{name}", module)
    monkeypatch.setattr(run, "STEPS", tuple(DreamStep(switch, name, name) for switch, name, _ in steps))


def turns(*said: tuple[str, str], session_id: str = "s1", at: datetime | None = MAY_8) -> list[Turn]:
    """Turns of one session, half a minute apart."""
    return [
        Turn(session_id, n, role, text, at + timedelta(seconds=30 * n) if at else None, f"x{n}")
        for n, (role, text) in enumerate(said, start=1)
    ]


class FakeSource(Snapshot):
    """A snapshot in memory."""

    def __init__(self, channel: str = "proj") -> None:
        self.channel = channel
        self.channels: dict[NodeId, str] = {}
        self.titles: dict[NodeId, str] = {}
        self.said: dict[NodeId, list[Turn]] = {}
        self.files: dict[str, bytes] = {}
        self.written: dict[str, datetime] = {}
        self.problems: dict[str, str | None] = {}
        self.failing: set[NodeId] = set()
        self.waiting = 0
        self.ran_in: dict[str, list[Path]] = {}

    def add(self, session_id: NodeId, *said: tuple[str, str], channel: str | None = None, at: datetime = MAY_8) -> None:
        self.said[session_id] = turns(*said, session_id=session_id, at=at)
        self.channels[session_id] = channel or self.channel

    def keep(self, *memories: Memory) -> None:
        """Lay memories down as files."""
        for memory in memories:
            self.files[memory.path] = okf.from_memory(memory)

    def sessions(self) -> list[SessionState]:
        return [
            SessionState(name, self.channels[name], f"sessions/2023/05/08/{name}.md", last, self.titles.get(name, ""))
            for name, said in sorted(self.said.items())
            for last in [said[-1].ordinal if said else 0]
        ]

    def turns(self, session_id: NodeId) -> list[Turn]:
        if session_id in self.failing:
            raise ValueError(session_id)
        return self.said[session_id]

    def folders(self, channel: str) -> list[Path]:
        return self.ran_in.get(channel, [])

    def memories(self) -> list[Memory]:
        return [okf.to_memory(path, okf.parse(data)) for path, data in self.files.items()]

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def written_at(self, path: str) -> datetime | None:
        return self.written.get(path)

    def reword(self, old: str, new: str, at: datetime) -> None:
        """Change words of a memory's file as its person does in an editor."""
        for path, data in self.files.items():
            if old.encode() in data:
                head, fence, body = data.rpartition(b"---\n")
                self.files[path] = head + fence + body.replace(old.encode(), new.encode())
                self.written[path] = at

    def paths(self) -> Collection[str]:
        return [*self.files, *(session.path for session in self.sessions())]

    def indexed_paths(self) -> Mapping[str, str | None]:
        return {path: self.problems.get(path) for path in self.paths()} | self.problems

    def unembedded(self) -> int:
        return self.waiting

    def view(self, history: History | None = None, run_id: str = "run-1") -> View:
        return View(self, history or History(), embed, run_id)

    def take(self, view: View) -> History:
        """Let the proposals of a view become true, as the daemon would; the history that the next dream sees."""
        for action in view.actions:
            assert view.history is not None
            if action.content is None:
                del self.files[action.path]
            else:
                self.files[action.path] = action.content
        return History(view.history.tombstones, {**view.history.cursors, **view.cursors})


def embed(texts: Sequence[str]) -> Vectors:
    """The stub's vectors as rows."""
    embedder = StubEmbedder()
    return np.stack(embedder.embed_passages(texts)) if texts else np.empty((0, embedder.dimension), np.float32)


class FakeModel:
    """A language model that says what a function of the prompt makes up; an error is raised."""

    name = "fake/model"

    def __init__(self, say: Callable[[str], dict[str, Any] | LlmError]) -> None:
        self.say = say
        self.prompts: list[str] = []
        self.schemas: list[Mapping[str, Any]] = []

    def check(self, deadline_s: float) -> None:
        pass

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> Answer:
        self.prompts.append(prompt)
        self.schemas.append(schema)
        said = self.say(prompt)
        if isinstance(said, LlmError):
            raise said
        return Answer(said)

    def abort(self) -> None:
        pass

    def release(self, deadline_s: float) -> None:
        pass

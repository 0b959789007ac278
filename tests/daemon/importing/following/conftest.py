from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.following.followed_places import FollowedPlace, place_of
from dreamd.daemon.importing.following.follower import Follower
from dreamd.daemon.settings import TranscriptSettings
from dreamd.store import MemoryStore, StorePaths
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.okf import session as session_file
from dreamd.store.settings import StoreSettings

from tests.system.waiting import until

_numbers = itertools.count()


def line(text: str, uuid: str = "", session: str = "s1", role: str = "user", **more: Any) -> bytes:
    """Make a line as Claude Code writes it."""
    value = {
        "type": role,
        "uuid": uuid or f"u{next(_numbers)}",
        "sessionId": session,
        "cwd": "/nowhere/kettle",
        "timestamp": (datetime.now(UTC) + timedelta(seconds=1)).isoformat(),
        "message": {"role": role, "content": text},
    }
    return json.dumps(value | more).encode() + b"\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    paths = StorePaths(
        vault=tmp_path / "vault",
        ledger=tmp_path / "ledger.db",
        index=tmp_path / "index" / "index.db",
        embeddings=tmp_path / "index" / "embeddings.db",
        runs=tmp_path / "runs",
    )
    one = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), _now)
    yield one
    one.close()


def _now() -> datetime:
    return datetime.now(UTC)


class Followed:
    """A follower of one folder, and what it learned."""

    def __init__(self, store: MemoryStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.grown = 0
        self.quiet_s = 1e9
        self.follower = self.make()

    def make(self) -> Follower:
        own = (self.store.paths.vault,)
        return Follower(self.store, TranscriptSettings(), own, _now, self._grew, lambda: self.quiet_s)

    def _grew(self) -> None:
        self.grown += 1

    def start(self, since: datetime | None = None) -> None:
        """Start, and wait until the folder is watched and what was in it is taken in."""
        self.follower.start()
        self.follower.watch(FollowedPlace(self.folder, since=since) if since else place_of(str(self.folder)))
        self.settle()

    def restart(self) -> None:
        self.follower.stop()
        self.follower = self.make()
        self.follower.start()
        self.settle()

    def settle(self) -> None:
        """Wait until a file that is written now was read: then everything before it was."""
        name = f"mark-{next(_numbers)}"
        (self.folder / f"{name}.jsonl").write_bytes(line("A mark.", session=name))
        until(lambda: self.said(name))
        until(lambda: not self.follower.waiting.has_live and not self.follower.waiting.backlog()[0])

    def said(self, session: str = "s1") -> list[str]:
        """Return the turns of a session as they lie in the vault, in their order."""
        found = list(self.store.paths.vault.glob(f"sessions/**/{session}.md"))
        parsed = session_file.parse(found[0].read_bytes(), session_id=session) if found else None
        return [turn.text for turn in parsed.turns] if parsed else []

    def wait_for(self, *texts: str, session: str = "s1") -> None:
        """Wait until a session holds these turns and no others."""
        until(lambda: self.said(session) == list(texts))


@pytest.fixture
def followed(store: MemoryStore, tmp_path: Path) -> Iterator[Followed]:
    folder = tmp_path / "sessions"
    folder.mkdir()
    one = Followed(store, folder)
    yield one
    one.follower.stop()

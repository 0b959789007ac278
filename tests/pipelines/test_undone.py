"""Real dreams of a fortnight, edits between them, undone in any order: every byte comes back, none is dreamt twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import SessionRead
from dreamd.pipelines.dream import dream
from dreamd.pipelines.messages import read_changeset
from dreamd.pipelines.settings import GateSettings, PipelineSettings
from dreamd.store.changes.run_kinds import AppliedRun
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.tombstones import edit_key
from dreamd.store.memory import MemoryStore
from dreamd.store.settings import StorePaths

from tests.pipelines.fakes import NOW, SETTINGS, request_of

SESSIONS = [
    item
    for path in sorted((Path(__file__).parents[2] / "examples" / "fortnight").glob("*.jsonl"))
    for item in read(path, None)
    if isinstance(item, SessionRead)
]


class Nights:
    """A store that takes in sessions and dreams of them."""

    def __init__(self, root: Path) -> None:
        self.paths = StorePaths(root / "vault", root / "l.db", root / "i.db", root / "e.db", root / "runs")
        self.store = MemoryStore.open(self.paths, SETTINGS, StubEmbedder(), lambda: NOW)

    def hear(self, sessions: list[SessionRead]) -> None:
        for item in sessions:
            self.store.observe(replace(item.head, channel="spokes"), item.turns).result()
        self.store.settle(60)

    def dream(self, number: int) -> AppliedRun | None:
        now, few = NOW + timedelta(days=number), PipelineSettings(gate=GateSettings(probes=20))
        request = request_of(self.paths, f"run-{number}", now, pipelines=few)
        done = dream(request, lambda _: None)
        if done.changeset_path is None:
            return None
        return self.store.apply(read_changeset(done.changeset_path))

    def did(self, run_id: str) -> set[str | None]:
        """What a run did, by the names that a tombstone would give it."""
        actions = self.store.ledger.actions(run_id)
        return {action.fingerprint or edit_key(action.path, action.pre_image, action.post_image) for action in actions}

    def files(self) -> dict[str, bytes]:
        self.store.settle(60)
        root = self.paths.vault
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    made = Nights(tmp_path)
    yield made
    made.store.close()


def test_two_dreams_are_undone_backwards_to_the_byte_and_not_proposed_again(nights: Nights) -> None:
    nights.hear(SESSIONS[:2])
    nights.dream(1)
    nights.hear(SESSIONS[2:4])
    before = nights.files()
    second = nights.dream(2)
    assert second is not None
    assert second.skipped == ()
    assert nights.store.undo("run-2").skipped == ()
    assert nights.files() == before
    nights.dream(3)  # it may make other pages of what is left
    assert not nights.did("run-3") & nights.did("run-2")
    assert not any(b"level: L1" in nights.files()[path] for path in nights.files().keys() - before.keys())
    nights.store.undo("run-3")
    assert nights.files() == before
    assert nights.store.undo("run-1").skipped == ()
    assert {path for path in nights.files() if not path.startswith("sessions/")} == set()
    assert nights.dream(4) is None


def test_undoing_an_earlier_dream_keeps_what_later_edits_rest_on(nights: Nights) -> None:
    nights.hear(SESSIONS[:2])
    nights.dream(1)
    fact = next(path for path in sorted(nights.files()) if b"level: L1" in nights.files()[path])
    full = nights.paths.vault / fact
    full.write_bytes(full.read_bytes() + b"\nA line of mine.\n")
    nights.store.file_changed([fact])
    nights.hear(SESSIONS[2:4])
    nights.dream(2)
    before = nights.files()
    undone = nights.store.undo("run-1")
    left = {refusal.path: refusal.reason for refusal in undone.skipped}
    assert fact in left
    after = nights.files()
    assert all(after[path] == before[path] for path in left)
    assert len(before) - len(after) <= undone.restored
    nights.store.undo("run-2")
    assert b"A line of mine." in nights.files()[fact]
    nights.store.undo("run-1")
    assert {path for path in nights.files() if not path.startswith("sessions/")} == {fact}

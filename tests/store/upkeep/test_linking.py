"""What was remembered is set beside what is known; a disk that refuses costs that, and nothing else."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import InvalidInput, StoreError
from dreamd.store.settings import StoreSettings
from dreamd.store.vault.disk import Disk

from tests.store.conftest import NOW

OLDER = "The deadline of the peer review draft is April 20."
NEWER = "The deadline of the peer review draft was extended to April 25."


class Replacing(Disk):
    """A disk that refuses to replace files, once it is told to."""

    refuses = False

    def exchange(self, a: Path, b: Path) -> bool:
        if self.refuses:
            raise OSError(errno.EROFS, "read-only", str(a))
        return super().exchange(a, b)


@pytest.fixture
def disk() -> Replacing:
    return Replacing()


@pytest.fixture
def sick(paths: StorePaths, disk: Replacing) -> Iterator[MemoryStore]:
    store = MemoryStore(paths, StoreSettings(), StubEmbedder(), lambda: NOW, disk)
    yield store
    store.close()


@pytest.mark.timeout(50)  # nobody waits for the time that was given
def test_a_full_disk_ends_no_thread_and_blocks_no_caller(sick: MemoryStore, disk: Replacing) -> None:
    sick.remember(OLDER, channel="shop").result()
    assert sick.settle_links()
    disk.refuses = True
    newer = sick.remember(NEWER, channel="shop").result()
    assert sick.operations.linker.settle(60)
    assert sick.operations.linker._work.failed == 1
    assert not sick.settle_links(60)
    assert sick.core.writer.trouble is not None
    assert newer in {hit.node_id for hit in sick.recall("peer review draft deadline", channel="shop").hits}
    sick.operations.linker.on_remembered(newer)
    assert sick.operations.linker.settle(60)


def test_a_full_disk_loses_one_link_and_the_next_is_made(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.remember(OLDER, channel="shop").result()
    older = store.remember("The API timeout is 30 seconds.", channel="shop").result()
    assert store.settle_links()
    with monkeypatch.context() as full:
        full.setattr(store.operations.runs.changes, "apply", _is_full)
        store.remember(NEWER, channel="shop").result()
        assert store.settle_links()
    assert store.operations.linker._work.failed == 1
    newest = store.remember("The API timeout is 60 seconds now.", channel="shop").result()
    assert store.settle_links()
    assert store.show(older).superseded_by == newest


def test_what_is_not_indexed_yet_is_linked_all_the_same(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.core.indexer, "_is_writing", lambda within_s: True)  # it rests while others write
    older = store.remember(OLDER, channel="shop").result()
    newer = store.remember(NEWER, channel="shop").result()
    assert store.settle_links()
    assert store.show(older).superseded_by == newer


def _is_full(*args: object, **kwargs: object) -> None:
    raise StoreError("the disk is full", hint="Make room.")


def test_a_statement_is_compared_with_those_of_other_clones_of_its_project(store: MemoryStore) -> None:
    own, other, strange = channels = ("shop-1a2b3c", "shop-4d5e6f", "shop-9a8b7c")
    older, apart = (store.remember(OLDER, channel=channel).result() for channel in channels[1:])
    for channel in (own, other):
        store.replica.link("0" * 32, channel)
    newer = store.remember(NEWER, channel=own).result()
    assert store.settle_links()
    assert [store.show(node_id).superseded_by for node_id in (older, apart)] == [newer, None]
    assert store.show(newer).supersedes == (older,)
    store.link(newer, older, "RelatesTo")
    with pytest.raises(InvalidInput, match=f"is of {own} and {apart} of {strange}"):
        store.link(newer, apart, "RelatesTo")

"""A store whose engine is a file of lines: words alone, no model, and nothing lost where file and catalogue differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine.interface import Vector
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Kind
from dreamd.store.purge.plan import Selection
from dreamd.store.settings import StoreSettings

from tests.store.conftest import NOW

Opened = Callable[..., MemoryStore]

FILES = StoreSettings(backend="files")


class Unasked(StubEmbedder):
    """An embedder that nobody may ask."""

    def embed_query(self, text: str) -> Vector:
        raise AssertionError("a question was embedded")


@pytest.fixture
def opened(paths: StorePaths) -> Iterator[Opened]:
    with ExitStack() as stack:

        def open_(settings: StoreSettings = FILES) -> MemoryStore:
            store = MemoryStore.open(paths, settings, Unasked() if settings is FILES else StubEmbedder(), lambda: NOW)
            stack.callback(store.close)
            assert store.settle(5.0)
            return store

        yield open_


def kept(store: MemoryStore, *texts: str) -> None:
    for text in texts:
        store.remember(text, kind=Kind.FACT, channel="demo").result()
    assert store.settle(5.0)


def found(store: MemoryStore, question: str) -> list[str]:
    return [hit.text for hit in store.recall(question, channel="demo").hits]


def lines_of(paths: StorePaths) -> Path:
    file = paths.index.resolve()
    return file.with_name(f"{file.name}-chunks.jsonl")


def test_words_find_and_no_model_is_asked(opened: Opened) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor")
    assert found(store, "which jenkins deploys") == ["Deploys go through Jenkins"]
    assert store.status().pending_embeddings == 0
    assert (store.status().embedding.model, store.status().embedding.ready) == ("none", True)
    store.close()
    assert found(opened(), "printer floor") == ["The printer is on the second floor"]


@pytest.mark.parametrize("damage", ["its last commit is lost", "it is gone", "it is of zeros"])
def test_a_file_that_lost_something_is_made_anew(opened: Opened, paths: StorePaths, damage: str) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor")
    store.close()
    file = lines_of(paths)
    if damage == "it is gone":
        file.unlink()
    elif damage == "it is of zeros":
        file.write_bytes(bytes(file.stat().st_size - 1) + b"\n")
    else:
        kept_lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(kept_lines[:-3]))
    again = opened()
    again.wait_until_caught_up(5.0)
    assert found(again, "jenkins deploys") == ["Deploys go through Jenkins"]
    assert found(again, "printer floor") == ["The printer is on the second floor"]


def test_another_engine_of_the_settings_makes_the_index_anew(opened: Opened, paths: StorePaths) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    store.close()
    other = opened(StoreSettings())
    other.wait_until_caught_up(5.0)
    assert found(other, "jenkins deploys") == ["Deploys go through Jenkins"]
    assert not lines_of(paths).exists()


def test_a_rebuild_takes_a_file_of_its_own_and_purge_leaves_nothing(opened: Opened, paths: StorePaths) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor")
    store.rebuild()
    assert [file.name for file in paths.index.parent.glob("*.jsonl")] == [lines_of(paths).name]
    node_id = store.recall("jenkins", channel="demo").hits[0].node_id
    assert store.purge(Selection(nodes=(node_id,))).traces == ()
    assert b"Jenkins" not in lines_of(paths).read_bytes()
    assert found(store, "printer floor") == ["The printer is on the second floor"]

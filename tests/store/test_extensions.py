"""Extensions of another package: each hook, a slow one, one that raises, one that cannot be loaded, and the switch."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.store import extensions
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.extensions import HookThread
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead, StoreError
from dreamd.store.settings import ExtensionSettings, StoreSettings

from tests import extension_package
from tests.store.conftest import NOW
from tests.system.waiting import until

Opened = Callable[..., MemoryStore]
Notes = Callable[[], list[list[Any]]]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    """Install the package for this test; give what its hooks noted."""
    file = tmp_path / "notes"
    file.touch()
    extension_package.install(tmp_path / "packages")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setenv("ACME_NOTES", str(file))
    yield lambda: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for name in [name for name in sys.modules if name.endswith("_memory") and "." not in name]:
        if (one := getattr(sys.modules[name], "HELD", None)) is not None:
            one.set()
        del sys.modules[name]
    monkeypatch.setattr(extensions, "_current", extensions.Extensions())


@pytest.fixture
def opened(paths: StorePaths) -> Iterator[Opened]:
    """Open a store with the installed extensions."""
    stores: list[MemoryStore] = []

    def open_(backend: str = "sqlite-vec", **settings: Any) -> MemoryStore:
        chosen = StoreSettings(backend=backend, extensions=ExtensionSettings(**settings))
        extensions.use(chosen.extensions)
        stores.append(MemoryStore.open(paths, chosen, StubEmbedder(), lambda: NOW))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def unhurried(store: MemoryStore) -> MemoryStore:
    """Let a filter take longer than a setting may: it is to be asked on a busy machine too."""
    for extension in extensions.current()._extensions.values():
        extension.questions._deadline_s = 60.0
    return store


def state() -> Any:
    (one,) = extensions.current().status()
    return one


def test_what_is_kept_is_told_after_it_was_acknowledged_and_a_rebuild_tells_nothing(
    notes: Notes, opened: Opened
) -> None:
    store = opened()
    node_id = store.remember("The blue boat leaks.").result()
    head = SessionHead("s1", "harbour")
    store.observe(head, [NewTurn("user", "The key is AKIAIOSFODNN7EXAMPLE.", NOW, "1")]).result()
    assert until(lambda: len(notes()) == 2)
    told = {one[1]: one for one in notes()}
    assert told[node_id] == ["created", node_id, "note", "_global", "The blue boat leaks."]
    assert told["s1#1"][2:4] == ["turn", "harbour"]
    assert "AKIA" not in told["s1#1"][4]
    store.rebuild()
    store.end_session("s1")
    assert until(lambda: len(notes()) == 3)
    assert notes()[2] == ["ended", "s1", "harbour"]


def test_a_filter_leaves_hits_out_of_recall_and_context_and_says_so(notes: Notes, opened: Opened) -> None:
    store = unhurried(opened())
    store.remember("The blue house is confidential.").result()
    store.remember("The blue boat is for all.").result()
    store.remember("The blue safe is confidential.", curated=1).result()
    found = store.recall("the blue house, boat or safe")
    assert [hit.text for hit in found.hits] == ["The blue boat is for all."]
    assert "left out by extensions: 2" in found.notes
    envelope = store.context("the blue house, boat or safe")
    assert "boat" in envelope.text
    assert "confidential" not in envelope.text
    assert "confidential" not in store.context("the house that is confidential").text


def test_a_slow_filter_is_cut_off_at_its_deadline_and_left_out_for_a_while(
    notes: Notes, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(deadline_ms=20)
    store.remember("The blue house is confidential.").result()
    assert len(store.recall("the held blue house").hits) == 1
    assert (state().slow, state().dropped) == (1, 0)
    assert len(store.recall("the blue house").hits) == 1
    assert (state().slow, state().dropped) == (1, 1)
    sys.modules["acme_memory"].HELD.set()
    thread = extensions.current()._extensions["acme"].questions
    monkeypatch.setattr(thread, "_deadline_s", 10.0)
    monkeypatch.setattr(thread, "_rests_until_s", 0.0)
    assert until(lambda: not store.recall("the blue house").hits)


def test_an_event_that_takes_too_long_costs_the_extension_the_next_and_nobody_else_anything(
    notes: Notes, opened: Opened
) -> None:
    store = opened(event_deadline_s=0.05)
    store.remember("The held boat.").result()
    numbers = iter(range(1000))
    assert until(lambda: store.remember(f"Boat {next(numbers)} is afloat.").result() and state().slow == 1)
    assert until(lambda: store.remember(f"Boat {next(numbers)} is afloat.").result() and state().dropped > 1)
    assert len(store.recall("the held boat").hits) > 1


def test_a_hook_that_raises_costs_nothing_and_is_logged_by_name_without_a_word(
    notes: Notes, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    store = unhurried(opened())
    with caplog.at_level(logging.WARNING):
        node_id = store.remember("The broken vase is confidential.").result()
        assert [hit.node_id for hit in store.recall("the broken vase").hits] == [node_id]
        assert until(lambda: state().failed == 2)
    said = [record.getMessage() for record in caplog.records]
    assert "the extension acme failed: on_memory_retrieved raised ValueError" in said
    assert not [one for one in said if "vase" in one]
    store.remember("The jug is whole.").result()
    assert until(lambda: [one[4] for one in notes()] == ["The jug is whole."])


def test_an_engine_of_an_extension_is_opened_by_its_name(notes: Notes, opened: Opened) -> None:
    store = opened("acme.words")
    node_id = store.remember("The blue boat leaks.").result()
    assert [hit.node_id for hit in store.recall("boat").hits] == [node_id]
    assert {"sqlite-vec", "files", "acme.words"} <= set(extensions.current().table("backends"))


def test_an_engine_that_is_not_installed_is_refused_with_those_that_are(opened: Opened) -> None:
    with pytest.raises(StoreError, match=r"no search backend acme\.words") as raised:
        opened("acme.words")
    assert "sqlite-vec, files" in raised.value.hint or "files, sqlite-vec" in raised.value.hint


@pytest.mark.parametrize("settings", [{"enabled": False}, {"off": ("acme",)}])
def test_a_setting_turns_extensions_off(notes: Notes, opened: Opened, settings: dict[str, Any]) -> None:
    store = opened(**settings)
    store.remember("The blue house is confidential.").result()
    assert len(store.recall("the blue house").hits) == 1
    assert extensions.current().status() == []


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("raise RuntimeError('secret words')", "it cannot be loaded (RuntimeError)"),
        ("raise SystemExit(1)", "it cannot be loaded (SystemExit)"),
        (
            "import pluggy\n@pluggy.HookimplMarker('dreamd')\ndef importers(): return {'a b': print}\n",
            "it cannot be loaded (TypeError)",
        ),
        (
            "import pluggy\n@pluggy.HookimplMarker('dreamd')\ndef on_session_end(wrong): pass\n",
            "it cannot be loaded (PluginValidationError)",
        ),
        (
            "import pluggy\n@pluggy.HookimplMarker('dreamd')\ndef on_memory_lost(): pass\n",
            "it fills hooks that are not there: on_memory_lost",
        ),
    ],
)
def test_one_that_cannot_be_loaded_is_named_and_the_others_are(
    notes: Notes, opened: Opened, tmp_path: Path, source: str, problem: str
) -> None:
    extension_package.install(tmp_path / "packages", "bad", source)
    opened()
    problems = {one.name: one.problem for one in extensions.current().status()}
    assert problems == {"acme": "", "bad": problem}


def test_a_thread_takes_no_more_while_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "MOST_WAITING", 2)
    thread, held, begun = HookThread("acme", 60), threading.Event(), threading.Event()
    thread.put("on_session_end", begun.set)
    thread.put("on_session_end", held.wait)
    begun.wait(10)
    assert until(thread._waiting.empty)
    assert [thread.put("on_session_end", print) is not None for _ in range(3)] == [True, True, False]
    assert thread.dropped == 1
    held.set()


def test_what_is_no_collection_of_ids_leaves_nothing_out(notes: Notes, opened: Opened, tmp_path: Path) -> None:
    source = "import pluggy\n@pluggy.HookimplMarker('dreamd')\ndef on_memory_retrieved(hits): return hits[0].node_id\n"
    extension_package.install(tmp_path / "packages", "bad", source)
    store = unhurried(opened())
    store.remember("The blue boat leaks.").result()
    assert len(store.recall("the blue boat").hits) == 1
    assert {one.name: one.failed for one in extensions.current().status()} == {"acme": 0, "bad": 1}

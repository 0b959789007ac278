"""Documents: kept by key, replaced, renamed and deleted, by whoever asks first; and what a crash leaves of them."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from dreamd.store.changes import document_file as document
from dreamd.store.core import Core
from dreamd.store.index.index import Index, Reconciled
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Conflict, InvalidInput, Kind, NewTurn, NotFound, SessionHead, StoreBusy, StoreReadOnly
from dreamd.store.names import key_complaint
from dreamd.store.purge.plan import Selection
from dreamd.store.search.question import Question
from dreamd.store.settings import StorePaths
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.clock import Clock
from tests.examples import examples
from tests.store.conftest import NOW, OpenStore

SPACE = ("tests", "one")
CHANNEL = "kitchen"


def put(store: MemoryStore, key: str, value: Any, space: tuple[str, ...] = SPACE, **more: Any) -> Any:
    return store.put_document(space, key, value, channel=CHANNEL, **more)


def keys(store: MemoryStore, space: tuple[str, ...] = SPACE, **more: Any) -> list[str]:
    return [found.key for _, found in store.documents(space, **more)]


def value(store: MemoryStore, key: str, space: tuple[str, ...] = SPACE) -> Any:
    found = store.document(space, key)
    return None if found is None else found.value


# ---- keeping


def test_a_text_is_the_body_of_a_file_that_a_person_can_read(store: MemoryStore) -> None:
    stored = put(store, "/memories/bread.md", "Bread is baked on Saturdays.\n")
    store.settle()
    path = next(store.vault.root.glob("documents/tests/one/memories-bread-md--*.md"))
    assert path.name.endswith(f"--{stored.node_id}.md")
    assert path.read_text().endswith("---\n\nBread is baked on Saturdays.\n\n")
    assert value(store, "/memories/bread.md") == "Bread is baked on Saturdays.\n"


def test_an_edit_by_hand_is_the_documents_value(store: MemoryStore) -> None:
    put(store, "bread", "Bread is baked on Saturdays.")
    put(store, "plan", {"day": "Saturday"})
    store.settle()
    for path in store.vault.root.glob("documents/tests/one/*.md"):
        path.write_text(path.read_text().replace("Saturday", "Sunday"))
    assert value(store, "bread") == "Bread is baked on Sundays."
    assert value(store, "plan") == {"day": "Sunday"}
    assert [each.value for _, each in store.documents(SPACE)] == ["Bread is baked on Sundays.", {"day": "Sunday"}]


def test_a_replaced_document_keeps_its_file_and_its_birth(store: MemoryStore) -> None:
    first, second = put(store, "bread", "one"), put(store, "bread", "two")
    assert (first.node_id, first.created_at) == (second.node_id, second.created_at)
    assert first.version != second.version
    assert second.updated_at > first.updated_at
    assert value(store, "bread") == "two"
    store.settle()
    assert len(list(store.vault.root.glob("documents/**/*.md"))) == 1


def test_a_secret_is_taken_out_of_every_field(store: MemoryStore) -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"
    assert put(store, f"key {secret}", {"note": f"the key is {secret}", "all": [secret]}).redacted >= 2
    assert secret not in str(store.document(SPACE, f"key {secret}"))
    store.settle()
    assert not [path for path in store.vault.root.rglob("*.md") if secret in path.read_text() or secret in path.name]


@pytest.mark.parametrize("key", ["", "two\nlines", "k" * 1025])
def test_what_is_no_key_is_refused(store: MemoryStore, key: str) -> None:
    with pytest.raises(InvalidInput):
        put(store, key, "x")


def test_what_a_line_cannot_hold_is_refused(store: MemoryStore) -> None:
    put(store, "fits", "x" * (document.MOST_VALUE_BYTES - 2))
    with pytest.raises(InvalidInput, match="bytes"):
        put(store, "long", "x" * (document.MOST_VALUE_BYTES - 1))


def test_where_nothing_is_learned_nothing_is_put_or_deleted(store: MemoryStore) -> None:
    put(store, "bread", "one")
    store.set_channel(CHANNEL, False)
    with pytest.raises(StoreReadOnly):
        put(store, "bread", "two")
    with pytest.raises(StoreReadOnly):
        store.delete_document(SPACE, "bread")
    assert value(store, "bread") == "one"


# ---- guards


def test_a_put_against_another_version_is_refused(store: MemoryStore) -> None:
    first = put(store, "bread", "one", if_version="")
    put(store, "bread", "two")
    with pytest.raises(Conflict, match="changed in the meantime"):
        put(store, "bread", "three", if_version=first.version)
    with pytest.raises(Conflict, match="is there already"):
        put(store, "bread", "three", if_version="")
    with pytest.raises(Conflict, match="not there any more"):
        put(store, "cake", "three", if_version=first.version)
    assert value(store, "bread") == "two"


def test_an_edit_by_hand_is_another_version(store: MemoryStore) -> None:
    first = put(store, "bread", "Saturday")
    store.settle()
    path = next(store.vault.root.glob("documents/tests/one/*.md"))
    path.write_text(path.read_text().replace("Saturday", "by hand"))
    with pytest.raises(Conflict):
        put(store, "bread", "two", if_version=first.version)
    assert value(store, "bread") == "by hand"


def test_what_a_person_added_to_a_documents_file_stays(store: MemoryStore) -> None:
    first = put(store, "bread", {"day": "Saturday"}, ttl_minutes=10)
    store.tag(first.node_id, ["baking"])
    store.settle()
    path = next(store.vault.root.glob("documents/tests/one/*.md"))
    path.write_text(path.read_text().replace("space:", "mine: kept  # a note\nspace:"))
    put(store, "bread", "Sunday.")
    store.settle()
    text = path.read_text()
    assert "mine: kept  # a note\n" in text
    assert "ttl_minutes" not in text
    assert text.endswith("---\n\nSunday.\n")
    assert store.show(first.node_id).tags == ("baking",)
    assert value(store, "bread") == "Sunday."


def test_a_file_that_is_no_document_any_more_is_not_overwritten(store: MemoryStore) -> None:
    put(store, "bread", "Saturday")
    store.settle()
    path = next(store.vault.root.glob("documents/tests/one/*.md"))
    path.write_text("A person's own words.\n")
    assert value(store, "bread") is None
    with pytest.raises(Conflict, match="cannot be read"):
        put(store, "bread", "Sunday", if_version="")
    assert path.read_text() == "A person's own words.\n"


def test_an_archived_document_holds_again_when_it_is_put(store: MemoryStore) -> None:
    put(store, "bread", "The sourdough rests for nineteen hours.")
    store.settle()
    path = next(store.vault.root.glob("documents/tests/one/*.md"))
    path.write_text(path.read_text().replace("status: stable", "status: deprecated\narchived_at: 2026-11-01"))
    put(store, "bread", "The sourdough rests for twenty hours.")
    assert store.recall("How long does the sourdough rest?", channel=CHANNEL).hits


# ---- renaming and deleting


def test_a_tree_is_renamed_whole(store: MemoryStore) -> None:
    for key in ("a/one", "a/two/three", "ab", "b"):
        put(store, key, key)
    moved = store.rename_document(SPACE, "a", "c", tree=True)
    assert moved.documents == 2
    assert sorted(keys(store)) == ["ab", "b", "c/one", "c/two/three"]
    assert value(store, "c/two/three") == "a/two/three"
    store.undo(moved.run_id or "")
    assert sorted(keys(store)) == ["a/one", "a/two/three", "ab", "b"]


def test_nothing_is_renamed_onto_another_document(store: MemoryStore) -> None:
    put(store, "a/one", "1")
    put(store, "b/two", "2")
    with pytest.raises(Conflict):
        store.rename_document(SPACE, "a", "b", tree=True)
    with pytest.raises(NotFound):
        store.rename_document(SPACE, "nowhere", "c")
    with pytest.raises(InvalidInput):
        store.rename_document(SPACE, "a", "a/b", tree=True)
    assert sorted(keys(store)) == ["a/one", "b/two"]


def test_a_deletion_can_be_undone(store: MemoryStore) -> None:
    put(store, "bread", {"day": "Saturday"})
    deleted = store.delete_document(SPACE, "bread")
    assert value(store, "bread") is None
    again = store.delete_document(SPACE, "bread")
    assert (again.documents, again.run_id) == (0, None)
    store.settle()
    assert not list(store.vault.root.glob("documents/**/*.md"))
    store.undo(deleted.run_id or "")
    assert value(store, "bread") == {"day": "Saturday"}


def test_a_space_is_emptied_and_the_spaces_within_it_are_not(store: MemoryStore) -> None:
    for space in (SPACE, (*SPACE, "within"), ("tests",)):
        put(store, "bread", "one", space)
    assert store.delete_document(SPACE).documents == 1
    assert [found.space for _, found in store.documents()] == [(*SPACE, "within"), ("tests",)]


def test_a_deleted_document_can_be_put_again(store: MemoryStore) -> None:
    put(store, "bread", "one")
    store.delete_document(SPACE, "bread")
    put(store, "bread", "one", if_version="")
    assert value(store, "bread") == "one"
    assert [hit.text for hit in store.recall("one", channel=CHANNEL).hits] == ["one"]


# ---- time to live


@pytest.fixture
def clock(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(NOW)
    monkeypatch.setattr(store.operations.documents, "_now", clock)
    return clock


def test_a_document_is_gone_when_its_time_is_over(store: MemoryStore, clock: Clock) -> None:
    put(store, "bread", "one", ttl_minutes=10)
    clock.now += timedelta(minutes=9)
    assert value(store, "bread") == "one"
    clock.now += timedelta(minutes=2)
    assert value(store, "bread") is None
    assert put(store, "bread", "two", if_version="").created_at > NOW + timedelta(minutes=10)


def test_a_use_gives_a_document_its_time_again(store: MemoryStore, clock: Clock) -> None:
    put(store, "bread", "one", ttl_minutes=10)
    clock.now += timedelta(minutes=9)
    assert store.document(SPACE, "bread", refresh=True) is not None
    clock.now += timedelta(minutes=9)
    assert value(store, "bread") == "one"


def test_a_listing_deletes_what_expired(store: MemoryStore, clock: Clock) -> None:
    put(store, "bread", "one", ttl_minutes=10)
    put(store, "cake", "two")
    clock.now += timedelta(minutes=11)
    assert keys(store) == ["cake"]
    store.settle()
    assert len(list(store.vault.root.glob("documents/**/*.md"))) == 1


def test_what_expired_goes_with_the_upkeep(store: MemoryStore, clock: Clock) -> None:
    put(store, "bread", "one", ttl_minutes=10)
    clock.now += timedelta(minutes=11)
    store.tidy()
    store.settle()
    assert not list(store.vault.root.glob("documents/**/*.md"))


# ---- finding


def test_a_document_is_recalled_as_an_assistants_words(store: MemoryStore) -> None:
    put(store, "bread", "The sourdough rests for nineteen hours in the cellar.")
    hit = store.recall("How long does the sourdough rest?", channel=CHANNEL).hits[0]
    assert (hit.kind, hit.text) == (Kind.DOCUMENT, "The sourdough rests for nineteen hours in the cellar.")
    ranked = store.rank(Question(text="How long does the sourdough rest?", channel=CHANNEL)).candidates
    assert store.catalog.roles([ranked[0].unit]) == {hit.node_id: "assistant"}
    told = store.context("How long does the sourdough rest?", channel=CHANNEL).text
    assert "assistant" in told
    assert store.recall("How long does the sourdough rest?", channel="garden").abstained


def test_what_is_not_searched_is_not_recalled(store: MemoryStore) -> None:
    put(store, "bread", "The sourdough rests for nineteen hours.", searched=False)
    assert store.recall("How long does the sourdough rest?", channel=CHANNEL).abstained


def test_a_space_is_searched_without_the_others(store: MemoryStore) -> None:
    put(store, "bread", {"text": "The sourdough rests for nineteen hours."})
    put(store, "garden", {"text": "The wisteria was pruned in February."})
    put(store, "bread", {"text": "The sourdough rests for nine hours."}, ("tests", "other"))
    found = store.search_documents(SPACE, "the sourdough rests")
    assert [each.document.key for each in found] == ["bread", "garden"]
    assert found[0].document.value == {"text": "The sourdough rests for nineteen hours."}
    assert found[0].score > found[1].score


def test_a_purge_erases_a_document_and_its_history(store: MemoryStore) -> None:
    put(store, "bread", "The sourdough rests for nineteen hours.")
    put(store, "cake", "The cake of quinces is for Miriam.")
    put(store, "cake", "The cake of medlars is for Miriam.")
    store.delete_document(SPACE, "bread")
    purged = store.purge(Selection(channel=CHANNEL))
    assert not purged.traces
    assert keys(store) == []
    places = [path for path in store.paths.vault.parent.rglob("*") if path.is_file()]
    assert not [path for path in places for word in (b"sourdough", b"medlars", b"quinces") if word in path.read_bytes()]


def test_a_purge_finds_a_document_by_its_words(store: MemoryStore) -> None:
    put(store, "bread", "The sourdough rests for nineteen hours.", searched=False)
    put(store, "cake", {"for": "Miriam"})
    assert not store.purge(Selection(matching="sourdough")).traces
    assert keys(store) == ["cake"]


def test_a_document_is_no_problem_of_a_check(store: MemoryStore) -> None:
    put(store, "links.md", "[nowhere](/facts/none.md) and [^t1]")
    put(store, "plan", {"day": "Saturday"}, ttl_minutes=5, searched=False)
    assert store.settle(60)
    assert store.check() == []


def test_a_dream_sees_no_documents(store: MemoryStore) -> None:
    put(store, "bread", "I prefer the sourdough to rest for nineteen hours.")
    store.settle()
    assert store.catalog.sessions() == {}
    counts = store.catalog.counts()
    assert (counts["sessions"], counts["facts"]) == (0, 0)


# ---- any value, any order


SIMPLE = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=60)
VALUES = st.recursive(
    SIMPLE | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


@given(key=st.text(min_size=1, max_size=80).filter(lambda key: not key_complaint(key)), kept=TEXTS | VALUES)
def test_what_is_written_is_read(key: str, kept: Any) -> None:
    body, is_text = document.body_of(kept)
    content = document.render(SPACE, key, body, CHANNEL, NOW, NOW, None, is_text=is_text, searched=True)
    found = document.read_raw(document.path_of(SPACE, key), content)
    assert found is not None
    assert (found.key, found.value, found.space, found.created_at) == (key, kept, SPACE, NOW)


KEYS = ["a", "a/b", "a/c", "b"]


def like_a_dictionary(open_store: OpenStore) -> type[RuleBasedStateMachine]:
    """Return a machine that does the same to a space and to a dictionary, and closes and opens the store between."""
    spaces = count()

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.space = ("machine", str(next(spaces)))
            self.model: dict[str, Any] = {}
            self.runs: list[tuple[str, dict[str, Any]]] = []

        @rule(key=st.sampled_from(KEYS), kept=TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=2))
        def put(self, key: str, kept: Any) -> None:
            put(opened[0], key, kept, self.space)
            self.model[key] = kept

        @rule(key=st.sampled_from(KEYS), tree=st.booleans())
        def delete(self, key: str, tree: bool) -> None:
            gone = [each for each in self.model if each == key or (tree and each.startswith(f"{key}/"))]
            assert opened[0].delete_document(self.space, key, tree=tree).documents == len(gone)
            for each in gone:
                del self.model[each]

        @rule(key=st.sampled_from(KEYS), to=st.sampled_from(KEYS), tree=st.booleans())
        def rename(self, key: str, to: str, tree: bool) -> None:
            moved = [each for each in self.model if each == key or (tree and each.startswith(f"{key}/"))]
            taken = [each for each in self.model if each == to or each.startswith(f"{to}/")]
            try:
                opened[0].rename_document(self.space, key, to, tree=tree)
            except (NotFound, Conflict, InvalidInput):
                assert not moved or taken or to == key or (tree and to.startswith(f"{key}/"))
                return
            assert moved
            assert not taken
            for each in moved:
                self.model[to + each.removeprefix(key)] = self.model.pop(each)

        @rule()
        def open_again(self) -> None:
            opened[0].close()
            opened[0] = open_store()

        @rule()
        def compare(self) -> None:
            listed = {found.key: found.value for _, found in opened[0].documents(self.space)}
            assert listed == self.model
            for key in KEYS:
                assert value(opened[0], key, self.space) == self.model.get(key)

        def teardown(self) -> None:
            self.compare()

    opened = [open_store()]
    return Machine


@pytest.mark.hypothesis
def test_a_space_is_like_a_dictionary(open_store: OpenStore) -> None:
    machine = like_a_dictionary(open_store)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(15), stateful_step_count=20, deadline=None)
    )


# ---- what is gone is told no more


class Blocked:
    """An index that nobody may write to meanwhile, so that it follows nothing."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._held, self._done = threading.Event(), threading.Event()
        self._holder = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._store.index.still():
            self._held.set()
            self._done.wait()

    def __enter__(self) -> None:
        self._holder.start()
        self._held.wait()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._holder.join()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no question wait for the index."""
    monkeypatch.setattr(Core.settle, "__defaults__", (0.0,))


def told_of(store: MemoryStore, node_id: str) -> bool:
    """Ask for a memory in every way."""
    answers: list[Any] = [store.recall("zorro hotel", channel=CHANNEL).hits]
    answers += [store.context("zorro hotel", channel=CHANNEL).slots, store.list(channel=CHANNEL, kind=Kind.DOCUMENT)]
    answers += [store.list(channel=CHANNEL)]
    with suppress(NotFound, StoreBusy):
        answers.append(store.show(node_id))
    return "zorro" in str(answers)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("way", ["delete", "rename", "expire", "forget", "forget a turn"])
def test_what_is_gone_is_told_no_more_though_the_index_has_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    node_id, clock, said = "s1#1", Clock(NOW), "The zorro hotel is in Oak street."
    monkeypatch.setattr(store.core.withdrawn, "_now", clock)
    if way == "forget":
        node_id = store.remember(said, channel=CHANNEL).result()
    elif way == "forget a turn":
        store.observe(SessionHead("s1", CHANNEL, "A chat"), [NewTurn("user", said)]).result()
    else:
        node_id = put(
            store, "inn", "The zorro hotel is in Oak street.", ttl_minutes=5 if way == "expire" else None
        ).node_id
    assert store.settle(60)
    assert told_of(store, node_id)
    with Blocked(store):
        if way == "delete":
            store.delete_document(SPACE, "inn")
        elif way == "rename":
            store.rename_document(SPACE, "inn", "moved")
        elif way == "expire":
            clock.now += timedelta(minutes=6)
        else:
            store.forget(node_id)
        assert not told_of(store, node_id)
    assert store.settle(60)
    assert told_of(store, node_id) == (way == "rename")


@pytest.mark.usefixtures("at_once")
def test_a_deletion_that_a_crash_kept_from_the_index_is_not_told_by_the_next_start(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_id = put(store, "inn", "The zorro hotel is in Oak street.").node_id
    assert store.settle(60)
    store.close()
    shutil.copytree(paths.index.parent, paths.runs.with_name("kept"))
    store = open_store()
    store.delete_document(SPACE, "inn")
    assert store.settle(60)
    store.close()
    shutil.rmtree(paths.index.parent)
    shutil.copytree(paths.runs.with_name("kept"), paths.index.parent)
    monkeypatch.setattr(Index, "reconcile", lambda self, progress=None: Reconciled())
    store = open_store()
    assert store.catalog.path_of(node_id) is not None
    assert not told_of(store, node_id)

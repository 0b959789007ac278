"""The watcher tells of what we wrote ourselves as well: that is not read again, and what others wrote is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from dreamd.store.index.index import Index
from dreamd.store.ledger.journal import Appended
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.redaction import redaction

from tests.store.conftest import OpenStore

SETTLED_S = 60.0
KEY = "gh" + "p_" + "aB3dE5fG7h" * 4


def say(store: MemoryStore, *texts: str) -> None:
    """Let turns be observed and found."""
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", text, external_id=text) for text in texts]).result()
    assert store.settle(SETTLED_S)


def session(store: MemoryStore) -> Path:
    return store.paths.vault / store.show("s1").path


def told(store: MemoryStore, path: Path) -> None:
    """Tell of a change as the watcher does."""
    store.file_changed([str(path.relative_to(store.paths.vault))])


@pytest.fixture
def reads(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often files are applied, whole or by their tails."""
    counted: Counter[str] = Counter()
    for name in ("_apply_whole", "_apply_tail"):

        def counting(index: Index, *args: object, name: str = name, was: object = getattr(Index, name)) -> None:
            counted[name.removeprefix("_apply_")] += 1
            was(index, *args)  # type: ignore[operator]

        monkeypatch.setattr(Index, name, counting)
    return counted


def test_a_session_that_grows_is_read_once_by_its_tails(store: MemoryStore, reads: Counter[str]) -> None:
    say(store, *(f"Turn {n} of a long talk" for n in range(50)))
    told(store, session(store))
    for n in range(5):
        say(store, f"And one more, the {n}th")
        told(store, session(store))
    assert reads == {"whole": 1, "tail": 5}
    assert len(store.catalog.turns("s1")) == 55


def test_it_is_so_after_a_restart_too(store: MemoryStore, open_store: OpenStore, reads: Counter[str]) -> None:
    say(store, "The ferry leaves at nine")
    store.close()
    again = open_store()
    assert again.settle(60)
    reads.clear()
    say(again, "And comes back at ten")
    told(again, session(again))
    assert reads == {"tail": 1}


def test_what_is_remembered_is_read_once(store: MemoryStore, reads: Counter[str]) -> None:
    node_id = store.remember("The boat is green").result()
    told(store, store.paths.vault / store.show(node_id).path)
    assert reads == {"whole": 1}


def test_what_somebody_else_wrote_is_read(store: MemoryStore, reads: Counter[str]) -> None:
    node_id = store.remember("The boat is green").result()
    path = store.paths.vault / store.show(node_id).path
    path.write_text(path.read_text().replace("green", "black"))
    told(store, path)
    assert reads == {"whole": 2}
    assert store.show(node_id).text == "The boat is black"


def test_an_edit_before_an_append_of_ours_is_found(store: MemoryStore) -> None:
    say(store, "The ferry leaves at nine")
    path = session(store)
    path.write_bytes(
        path.read_bytes().replace(b"title: ", b"title: Boats, ").replace(b"channel: shop", b"channel: pier")
    )
    say(store, "And comes back at ten")  # placed before the watcher has told of the edit
    told(store, path)
    assert {turn.channel for turn in store.catalog.turns("s1")} == {"pier"}


def test_an_edit_between_an_append_of_ours_and_its_reading_is_found(store: MemoryStore) -> None:
    say(store, "The ferry leaves at nine")
    path = session(store)
    name = str(path.relative_to(store.paths.vault))
    before = store.vault.stamp(name)
    turn = path.read_bytes()[path.read_bytes().index(b"<!--") :].replace(b"nine", b"five")
    with path.open("ab") as file:
        file.write(turn)
    after = store.vault.stamp(name)
    path.write_bytes(path.read_bytes().replace(b"channel: shop", b"channel: pier"))
    assert before is not None
    assert after is not None
    store.index.apply(name, before.size, Appended(before, after))
    told(store, path)
    assert {turn.channel for turn in store.catalog.turns("s1")} == {"pier"}


def test_an_append_behind_somebody_elses_is_read_with_it(store: MemoryStore, reads: Counter[str]) -> None:
    say(store, "The ferry leaves at nine")
    with session(store).open("ab") as file:
        file.write(b"\nA person wrote this below.\n")
    say(store, "And comes back at ten")
    assert reads == {"whole": 2}


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect what is looked through for secrets when it is read for the index."""
    looked_at: list[bytes] = []
    original = redaction.masked

    def masked(data: bytes, *, personal: bool = False) -> bytes:
        looked_at.append(data)
        return original(data, personal=personal)

    monkeypatch.setattr(redaction, "masked", masked)
    return looked_at


def test_a_session_of_redacted_turns_is_not_looked_through_again(store: MemoryStore, masks: list[bytes]) -> None:
    store.observe(SessionHead("s2", "shop"), [NewTurn("user", "first"), NewTurn("user", f"it is {KEY}")])
    store.observe(SessionHead("s2", "shop"), [NewTurn("user", "third")]).result()
    assert store.settle(SETTLED_S)
    assert [turn.text for turn in store.catalog.turns("s2")] == ["first", "it is [redacted:github]", "third"]
    assert masks == []


def test_of_what_a_person_changed_in_it_every_byte_is(store: MemoryStore, masks: list[bytes]) -> None:
    say(store, f"The ferry leaves at {'n' * len(KEY)}")
    path = session(store)
    path.write_bytes(path.read_bytes().replace(b"n" * len(KEY), KEY.encode()))  # as long as it was
    told(store, path)
    assert masks == [path.read_bytes()]
    say(store, "And comes back at ten")
    assert KEY not in "".join(turn.text for turn in store.catalog.turns("s1"))


def test_after_a_restart_a_session_that_was_ours_is_looked_through(
    store: MemoryStore, open_store: OpenStore, masks: list[bytes]
) -> None:
    say(store, "The ferry leaves at nine")
    path = session(store)
    assert masks == []
    store.close()
    again = open_store()
    again.rebuild()
    assert again.settle(SETTLED_S)
    assert path.read_bytes() in masks


def test_a_session_that_goes_on_behind_a_persons_lines_is_looked_through(
    store: MemoryStore, masks: list[bytes]
) -> None:
    say(store, "The ferry leaves at nine")
    with session(store).open("a") as file:
        file.write(f"\nA person wrote {KEY} below.\n")
    say(store, "And comes back at ten", "Or at noon")
    assert session(store).read_bytes() in masks
    assert KEY not in "".join(turn.text for turn in store.catalog.turns("s1"))

"""Proposals: what a person edited, put there or forbade is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dreamd.pipelines.workspace import proposals
from dreamd.pipelines.workspace.proposals import Difference, MemoryChange, cursor_of, is_curated, is_edited
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.model import Action, ActionKind, Level, Memory, Status
from dreamd.store.okf.memory_file import BY_HAND, body_hash

from tests.memories import fact
from tests.pipelines.fakes import NOW, FakeSource

TEXT = "- Marek keeps the ladder."
PAGE = fact(TEXT, level=Level.SCENARIO, path="scenarios/ladder--p.md", extra={BY_HAND: body_hash(TEXT)})


def source_of(*memories: Memory) -> FakeSource:
    source = FakeSource()
    source.files = {memory.path: okf.from_memory(memory) for memory in memories}
    return source


def test_a_page_is_edited_if_its_body_is_not_the_one_that_was_written() -> None:
    data = okf.from_memory(PAGE)
    assert not is_edited(data)
    assert not is_edited(okf.edit(data, {"tags": ["mine"]}))
    assert is_edited(data.replace(b"ladder.", b"blue ladder."))


@pytest.mark.parametrize(
    ("memory", "curated"),
    [
        (fact("It is red."), False),
        (fact("It is red.", extra={"curated": True}), True),
        (fact("It is red.", run=None), True),
        (fact("It is red.", run=None, extra={"agent_id": "claude"}), False),
        (replace(fact("It is red."), text="It is blue."), True),
    ],
    ids=["a dream's", "marked", "by hand", "an agent's", "reworded"],
)
def test_a_memory_is_curated_if_a_person_wrote_marked_or_edited_it(memory: Memory, curated: bool) -> None:
    assert is_curated(memory) is curated


def test_a_page_that_a_person_edited_is_neither_rewritten_nor_archived() -> None:
    source = source_of(PAGE)
    changed = replace(PAGE, text="- Marek sold it.", extra={BY_HAND: body_hash("- Marek sold it.")})
    assert proposals.replace_text(source.view(), changed, "s", "r", {}) is not None
    assert proposals.archive(source.view(), PAGE, "s", "r", NOW) is not None
    source.files[PAGE.path] = source.files[PAGE.path].replace(b"ladder.", b"blue ladder.")
    assert proposals.replace_text(source.view(), changed, "s", "r", {}) is None
    assert proposals.archive(source.view(), PAGE, "s", "r", NOW) is None


def test_a_forbidden_memory_is_not_created() -> None:
    view = source_of().view()
    action = proposals.create(view, PAGE, "s", "r", {})
    assert action is not None
    assert action.fingerprint is not None
    forbidding = source_of().view(History(tombstones=frozenset({action.fingerprint})))
    assert proposals.create(forbidding, PAGE, "s", "r", {}) is None


def test_a_cursor_depends_on_the_set_alone() -> None:
    assert cursor_of(["a", "b"]) == cursor_of(["b", "a"]) != cursor_of(["ab"])
    assert 0 <= cursor_of([]) < 2**48


def test_archived_superseded_and_touched_memories_are_told_apart() -> None:
    faded, old, kept = fact("One."), fact("Two.", sources=("s1#4", "s1#5")), fact("Three.")
    view = source_of(faded, old, kept).view()
    after = [
        replace(faded, status=Status.DEPRECATED, archived_at=NOW),
        replace(old, superseded_by=kept.node_id),
        replace(kept, tags=("x",)),
    ]
    actions = [
        Action(
            kind=ActionKind.REPLACE, path=m.path, node_id=m.node_id, stage="s", reason="r", content=okf.from_memory(m)
        )
        for m in after
    ]
    difference = Difference.of(view, actions)
    assert difference.archived == {faded.node_id}
    assert difference.touched == {"s1#4": ("Two.", "Three."), kept.node_id: None}


def test_a_change_without_a_file_before_is_nobodys_edit() -> None:
    change = MemoryChange.of(PAGE.path, None, okf.from_memory(PAGE))
    assert (change.before, change.is_by_hand) == (None, False)
    assert change.after is not None


def test_no_change_of_a_file_that_holds_a_secret_is_proposed() -> None:
    """It would be refused when it is applied, and the digest would tell of what did not happen."""
    said, told = fact("The ladder is red."), fact("The code is ghp_" + "a1B2" * 9)
    view = source_of(said, told).view()
    tagged = []
    for memory in (said, told):
        before = okf.from_memory(memory)
        after = okf.edit(before, {"tags": ["red"]})
        tagged.append(Action.replacing(memory.path, memory.node_id, before, after, stage="drift", reason="a test"))
    assert view.allowed(tagged) == tagged[:1]
    repaired = replace(tagged[1], content=b"It is gone.")
    assert view.allowed([repaired]) == [repaired]

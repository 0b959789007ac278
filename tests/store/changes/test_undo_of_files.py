"""What a run changed is put back; links that were made since stay, anything else since is a conflict."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from dreamd.store import okf
from dreamd.store.changes.undo import LINKS, reverted
from dreamd.store.model import Conflict
from hypothesis import given


def file(body: str = "It is red.", **meta: Any) -> bytes:
    return okf.render({"type": "Fact", "node_id": "a", **meta}, f"\n{body}\n")


def meta_of(data: bytes | None) -> dict[str, Any]:
    assert data is not None
    return {key: value for key, value in okf.parse(data).meta.items() if key not in {"type", "node_id"}}


def test_what_nobody_touched_is_as_it_was_to_the_byte() -> None:
    assert reverted(file(tags=["x"]), file("It is blue."), file("It is blue.")) == file(tags=["x"])


@pytest.mark.parametrize(
    ("before", "after", "current", "wanted"),
    [
        ({"tags": ["x"]}, {}, {"superseded_by": "n"}, {"tags": ["x"], "superseded_by": "n"}),
        ({}, {"supersedes": ["b"]}, {"supersedes": ["b", "c"]}, {"supersedes": ["c"]}),
        ({"contradicts": ["b"]}, {}, {"contradicts": ["c"]}, {"contradicts": ["b", "c"]}),
        ({}, {"superseded_by": "n", "valid_to": "t1"}, {"valid_from": "t2"}, {"valid_from": "t2"}),
        ({}, {"superseded_by": "n"}, {"superseded_by": "n", "contradicts": ["c"]}, {"contradicts": ["c"]}),
        ({}, {"tags": ["y"]}, {"tags": ["y"], "reinforced": [{"at": "t"}]}, {"reinforced": [{"at": "t"}]}),
    ],
)  # fmt: skip
def test_links_that_were_made_since_stay(
    before: dict[str, Any], after: dict[str, Any], current: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert meta_of(reverted(file(**before), file(**after), file(**current))) == wanted


def test_a_body_that_the_run_changed_is_put_back_under_the_links_made_since() -> None:
    found = reverted(file(), file("It is blue.", tags=["y"]), file("It is blue.", tags=["y"], contradicts=["c"]))
    assert found == file(contradicts=["c"])


def test_a_file_that_the_run_made_goes_though_it_was_linked_since() -> None:
    assert reverted(None, file(), file(supersedes=["b"])) is None


@pytest.mark.parametrize(
    ("before", "after", "current"),
    [
        (file(), file(tags=["y"]), file("Somebody wrote this.", tags=["y"])),
        (file(), file(superseded_by="n"), file(superseded_by="m")),
        (file(), file(tags=["y"]), file(tags=["z"])),
        (file(), file(tags=["y"]), file(tags=["y"], title="Renamed")),
        (file(), file(tags=["y"]), None),
        (file(), None, file()),
        (None, file(), b"only words\n"),
        (b"only words\n", file(), file(contradicts=["c"])),
    ],
)
def test_what_changed_otherwise_is_a_conflict(before: bytes, after: bytes, current: bytes | None) -> None:
    with pytest.raises(Conflict):
        reverted(before, after, current)


names = st.lists(st.sampled_from("abcd"), unique=True, min_size=1)
metas = st.fixed_dictionaries(
    {},
    optional={
        "tags": names,
        "status": st.sampled_from(["stable", "deprecated"]),
        "supersedes": names,
        "contradicts": names,
        "superseded_by": st.sampled_from("abc"),
        "valid_to": st.sampled_from(["t1", "t2"]),
    },
)


@given(before=metas, after=metas, links=metas)
def test_undoing_and_linking_come_to_the_same_in_either_order(
    before: dict[str, Any], after: dict[str, Any], links: dict[str, Any]
) -> None:
    """As long as no link was set both by the run and since."""
    mine = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    links = {key: value for key, value in links.items() if key in LINKS - mine}
    assert meta_of(reverted(file(**before), file(**after), file(**(after | links)))) == before | links

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from dreamd.store import okf
from dreamd.store.changes.links import LinkEdits
from dreamd.store.ledger.journal import sha256
from dreamd.store.model import Level, Memory

MAY_8 = datetime(2026, 5, 8, tzinfo=UTC)


def fact(name: str, **others: object) -> Memory:
    return okf.to_memory(f"facts/{name}.md", okf.parse(written(name, **others)))


def written(name: str, **others: object) -> bytes:
    meta = {"type": "Fact", "node_id": name, "level": Level.FACT, "generated": {"at": MAY_8.isoformat()}}
    return okf.render(meta | others, f"\n{name}\n")


@pytest.fixture
def files() -> dict[str, bytes]:
    return {f"facts/{name}.md": written(name) for name in ("a", "b", "c")}


def after(edits: LinkEdits) -> dict[str, Memory]:
    return {action.node_id: okf.to_memory(action.path, okf.parse(action.content or b"")) for action in edits.actions()}


def test_a_file_is_written_once_however_many_links_it_has(files: dict[str, bytes]) -> None:
    edits = LinkEdits(files.get, "link")
    edits.supersede(fact("a"), fact("c"), "pair:a+c")
    edits.supersede(fact("b"), fact("c"), "pair:b+c")
    edits.contradict(fact("a"), fact("c"), "pair:a+c")
    found = after(edits)
    assert (found["a"].superseded_by, found["a"].valid_to, found["a"].contradicts) == ("c", MAY_8, ("c",))
    assert (found["c"].supersedes, found["c"].contradicts) == (("a", "b"), ("a",))
    assert [(action.fingerprint, action.reason) for action in edits.actions()] == [
        ("pair:a+c", "a newer fact changes it"),
        ("pair:a+c\npair:b+c", "it changes an older fact"),
        ("pair:b+c", "a newer fact changes it"),
    ]
    assert all(action.pre_sha256 == sha256(files[action.path]) for action in edits.actions())


def test_what_a_file_lists_already_stays_and_is_not_listed_twice(files: dict[str, bytes]) -> None:
    files["facts/a.md"] = written("a", contradicts=["x", "b"])
    edits = LinkEdits(files.get, "link")
    edits.contradict(fact("a"), fact("b"), "pair:a+b")
    assert {name: memory.contradicts for name, memory in after(edits).items()} == {"b": ("a",)}


def test_a_file_that_is_gone_or_has_no_frontmatter_stays_as_it_is(files: dict[str, bytes]) -> None:
    a, b, c = fact("a"), fact("b"), fact("c")
    files["facts/a.md"] = b"only words\n"
    del files["facts/b.md"]
    edits = LinkEdits(files.get, "link")
    edits.supersede(a, c, "pair:a+c")
    edits.supersede(b, c, "pair:b+c")
    assert after(edits).keys() == {"c"}

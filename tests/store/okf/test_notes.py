"""Title and date of notes that another program wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.okf import notes
from hypothesis import given
from hypothesis import strategies as st

MTIME = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)


def read(path: str, content: str) -> Any:
    return okf.to_memory(path, okf.parse(content.encode()), MTIME)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("---\ntitle: Über Straße\n---\n# Other\n", "Über Straße"),
        ("---\ntitle: 2026\n---\ntext", "2026"),
        ("---\ntitle: |\n  two\n  lines\n---\ntext", "two lines"),
        ("---\ntitle:\n---\n# Tea #\n", "Tea"),
        ("intro\n\n## Deploy\n\n# Tea time\n\n# Later", "Tea time"),
        ("Tea time\n========\n\ntext", "Tea time"),
        ("## Deploy\n\nMake it so.", "2026-11-20"),
        ("```sh\n# install it\nmake\n```\n", "2026-11-20"),
        ("~~~~\n```\n# no\n~~~~\n# Yes", "Yes"),
        ("#hashtag is no heading", "2026-11-20"),
        ("#\n\ntext", "2026-11-20"),
        ("---\ntitle: [broken\n---\n# Tea", "Tea"),
    ],
)
def test_titles(content: str, title: str) -> None:
    assert read("Daily Notes/2026-11-20.md", content).title == title


@pytest.mark.parametrize(
    ("path", "head", "at"),
    [
        ("a.md", "date: 2024-03-01", "2024-03-01T00:00:00+00:00"),
        ("a.md", "created: 2024-03-01T10:00:00+02:00\nupdated: 2025-01-01", "2024-03-01T10:00:00+02:00"),
        ("a.md", "updated: 2025-01-01 08:30", "2025-01-01T08:30:00+00:00"),
        ("a.md", "timestamp: 2024-03-01T10:00:00Z\ngenerated: {at: 2026-01-01}", "2024-03-01T10:00:00+00:00"),
        ("a.md", "generated: {at: 2026-01-01}", "2026-01-01T00:00:00+00:00"),
        ("a.md", "date: 2024/3/1", "2024-03-01T00:00:00+00:00"),
        ("a.md", "date: 20240301", "2024-03-01T00:00:00+00:00"),
        ("a.md", "date: 1709251200", "2024-03-01T00:00:00+00:00"),
        ("2026-11-20.md", "date: soon", "2026-11-20T00:00:00+00:00"),
        ("Daily Notes/2026-11-20 Friday.md", "x: 1", "2026-11-20T00:00:00+00:00"),
        ("2026-02-31.md", "x: 1", MTIME.isoformat()),
        ("12026-11-20.md", "x: 1", MTIME.isoformat()),
        ("a.md", "x: 1", MTIME.isoformat()),
    ],
)
def test_dates(path: str, head: str, at: str) -> None:
    assert read(path, f"---\n{head}\n---\ntext\n").created_at.isoformat() == at


def test_our_own_memories_keep_what_they_say() -> None:
    head = "---\nnode_id: abc\ntitle: '  as it is '\ntimestamp: 2024-03-01\ndate: 1999-01-01\n---\n# Other\n"
    memory = read("facts/2026-11-20.md", head)
    assert (memory.title, memory.created_at) == ("  as it is ", datetime(2024, 3, 1, tzinfo=UTC))


@given(st.dictionaries(st.sampled_from(notes.DATE_KEYS), st.none() | st.text() | st.floats() | st.integers()))
def test_no_frontmatter_is_too_odd_for_a_date(meta: dict[str, Any]) -> None:
    notes.date_of("a.md", meta)
    notes.has_unreadable_date(meta)


@given(st.text())
def test_every_note_has_a_title_of_one_line(body: str) -> None:
    title = notes.title_of("x.md", {}, body)
    assert title
    assert len(title) <= notes.TITLE_CHARS
    assert title.splitlines() == [title]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See [[Oven]], [[Oven|the oven]] and [[Oven#Heat|it]].", ["[[Oven]]"]),
        ("![[Plan]] and [[plans/Plan.md]], in a table [[Rye\\|rye]]", ["[[Plan]]", "[[plans/Plan]]", "[[Rye]]"]),
        ("[one](/facts/a.md#top), [two](../b%20c.md), [other](https://x.org/d.md)", ["/facts/a.md", "../b c.md"]),
        ("![shot](/facts/a.md) [page](a.html) [[1, 2], [3]] [[ -f x ]] [[]]", []),
        ("`[[a]]` ``[[b]] ` `` <!-- [[c]] -->\n\n```sh\n[[d]]\n```\n\n~~~\n[[e]]\n~~~\n[[f]]", ["[[f]]"]),
        ("an open fence\n````\n[[a]]\n```\n[[b]]", []),
        ("a single ` mark\n\nbefore [[a]]", ["[[a]]"]),
    ],
)
def test_links_outside_of_code(text: str, found: list[str]) -> None:
    assert [str(one) for one in notes.references_in(text)] == found


@given(st.text("[]|`~#()\n<!-> a/.md", max_size=300))
def test_links_of_any_text(text: str) -> None:
    assert all(one.target for one in notes.references_in(text))


RECORD = b"""+++
id = "rec-17"
name = "The ferry"
date = 2024-03-02T10:00:00Z
categories = ["travel", "sea"]
weight = 3
[extra]
seen = 2024-03-01
+++
The ferry leaves at nine.

+++
A line of plus signs is text.
"""


def test_a_record_with_toml_is_read_and_keeps_what_is_not_known() -> None:
    memory = okf.to_memory("old/ferry.md", okf.parse(RECORD))
    assert (memory.title, memory.tags) == ("The ferry", ("travel", "sea"))
    assert memory.created_at == datetime(2024, 3, 2, 10, tzinfo=UTC)
    assert memory.text == "The ferry leaves at nine.\n\n+++\nA line of plus signs is text."
    kept = {"id": "rec-17", "weight": 3, "extra": {"seen": "2024-03-01"}}
    assert kept.items() <= memory.extra.items()
    edited = okf.parse(okf.edit(RECORD, {"tags": ["sea"]}))
    assert edited.body == okf.parse(RECORD).body
    assert edited.meta == {**okf.parse(RECORD).meta, "tags": ["sea"]}


@pytest.mark.parametrize(
    "toml", [b"no toml", b"a = 1\na = 2", b"a = '\xff'", b"a = [" * 9000, b"a = 1 #" + b"x" * 2**16]
)
def test_toml_that_cannot_be_read_is_text(toml: bytes) -> None:
    data = b"+++\n" + toml + b"\n+++\nThe rest.\n"
    found = okf.parse(data)
    assert (found.meta, found.problem) == ({}, "its frontmatter in TOML cannot be read")
    assert found.body == data.decode("utf-8", "replace")


@pytest.mark.parametrize("data", [b"+++ a/file.py\n@@ -1 +1 @@\n", b"+++\nnever closed\n", b"a\n+++\nb = 1\n+++\n"])
def test_other_lines_of_plus_signs_are_text(data: bytes) -> None:
    assert okf.parse(data) == okf.OkfFile({}, data.decode())


def test_a_record_whose_text_is_a_key_has_that_text() -> None:
    assert okf.to_memory("a.md", okf.parse(b'+++\ncontent = "The owl is back."\n+++\n')).text == "The owl is back."

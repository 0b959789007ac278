from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dreamd.daemon.importing.formats.markdown import BROKEN, UNDATED, read, read_entries
from dreamd.daemon.importing.items import Remark
from dreamd.store.model import Kind

from tests.daemon.importing.conftest import notes, sessions, skipped


def note(tmp_path: Path, content: str | bytes, name: str = "buying tea.md") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_frontmatter_is_honoured(tmp_path: Path) -> None:
    head = "---\ntitle: Tea\ntags: [home, shop]\nkind: preference\nchannel: kitchen\n"
    head += "timestamp: 2026-01-02T03:04:05Z\n---\n"
    (found,) = notes(read(note(tmp_path, head + "Assam, loose.\n")))
    assert (found.title, found.tags, found.kind, found.channel) == ("Tea", ("home", "shop"), Kind.PREFERENCE, "kitchen")
    assert found.text == "# Tea\n\nAssam, loose."
    assert found.created_at is not None
    assert found.created_at.isoformat() == "2026-01-02T03:04:05+00:00"


def test_a_record_with_toml_is_a_note_without_its_keys(tmp_path: Path) -> None:
    head = '+++\ntitle = "Tea"\ndate = 2024-03-01\n[taxonomies]\ntags = ["home"]\n+++\n'
    (found,) = notes(read(note(tmp_path, head + "Assam, loose.\n")))
    assert (found.title, found.tags, found.text) == ("Tea", ("home",), "# Tea\n\nAssam, loose.")
    assert found.created_at == datetime(2024, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("# Tea\n\nAssam.", "Tea", "# Tea\n\nAssam."),
        ("Assam.", "buying tea", "# buying tea\n\nAssam."),
        ("---\nx: [broken\n---\nAssam.", "buying tea", "Assam."),
    ],
)
def test_a_note_s_title_is_found_in_its_frontmatter_or_text(
    tmp_path: Path, content: str, title: str, text: str
) -> None:
    (found,) = notes(read(note(tmp_path, content)))
    assert found.title == title
    assert found.text.endswith(text[-6:])
    assert title in found.text
    assert (found.channel, found.kind) == (None, None)
    assert found.created_at is not None


def test_title_and_day_are_obsidians(tmp_path: Path) -> None:
    (found,) = notes(read(note(tmp_path, "## Deploy\n\nTuesday.", "2026-11-20.md")))
    assert (found.title, found.created_at) == ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC))
    (found,) = notes(read(note(tmp_path, "---\ndate: 2024-03-01\n---\nIntro\n\n# Tea time\n\nx", "2026-11-20.md")))
    assert (found.title, found.created_at) == ("Tea time", datetime(2024, 3, 1, tzinfo=UTC))
    assert found.text == "Intro\n\n# Tea time\n\nx"
    path = note(tmp_path, "Assam.")
    os.utime(path, (0, 86400))
    (found,) = notes(read(path))
    assert found.created_at == datetime(1970, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("head", "said"), [("x: [broken", BROKEN), ("date: soon", UNDATED), ("date: 2026-01-01", ""), ("x: 1", "")]
)
def test_what_cannot_be_read_of_the_frontmatter_is_said_and_the_note_taken(
    tmp_path: Path, head: str, said: str
) -> None:
    items = list(read(note(tmp_path, f"---\n{head}\n---\nAssam.")))
    assert len(notes(items)) == 1
    assert [item.text for item in items if isinstance(item, Remark)] == ([said] if said else [])


@pytest.mark.parametrize("kind", ["session", "turn", "nonsense", "[a]"])
def test_a_kind_that_no_note_can_be_is_not_asked_for(tmp_path: Path, kind: str) -> None:
    (found,) = notes(read(note(tmp_path, f"---\nkind: {kind}\n---\ntext")))
    assert found.kind is None


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "a.md"),
        (b"---\ntitle: x\n---\n", "a.md"),
        (b"\xff\xfe#", "a.md"),
        (b"# all", "index.md"),
        (b"x" * 2**21, "a.md"),
    ],
)
def test_what_is_no_note_says_why(tmp_path: Path, content: bytes, name: str) -> None:
    (only,) = skipped(read(note(tmp_path, content, name)))
    assert only.reason


def test_whole_bundles(data: Path) -> None:
    for path in sorted((data / "okf").rglob("*.md")):
        items = list(read(path))
        assert len(notes(items)) + len(skipped(items)) == 1
        assert bool(notes(items)) == (path.name not in {"index.md", "log.md"}), path


def entries(path: Path) -> list[tuple[str, str]]:
    """The day and words of each entry of a note that was last changed on 31 March 2026."""
    os.utime(path, (1_775_000_000, 1_775_000_000))
    return [(f"{turn.at:%m-%d}", turn.text) for read in sessions(read_entries(path)) for turn in read.turns]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Assam, loose.", [("03-31", "Assam, loose.")]),
        ("---\ndate: 2026-02-01\n---\n# Tea\n\nAssam.\n\nGreen.", [("02-01", "Assam."), ("02-01", "Green.")]),
        ("2026-03-02: Assam.\n\nGreen.", [("03-02", "Assam."), ("03-02", "Green.")]),
        ("2026-03-02 Assam,\nloose.\n2026-03-03 Green.", [("03-02", "Assam,\nloose."), ("03-03", "Green.")]),
        ("2026-03-02 14:30 Assam.", [("03-02", "Assam.")]),
        ("- **2 March 2026** – Assam.\n- Green.", [("03-02", "Assam."), ("03-31", "Green.")]),
        ("2. März 2026: Assam.", [("03-02", "Assam.")]),
        ("Monday, 2 March 2026\n\nAssam.\n\nGreen.", [("03-02", "Assam."), ("03-02", "Green.")]),
        ("## 2026-03-02\n\nAssam.\n\n## 3 March 2026\n\nGreen.", [("03-02", "Assam."), ("03-03", "Green.")]),
        ("## 2026-03-02 Tea\n\nAssam.\n## B\n\nNone.", [("03-02", "## Tea\nAssam."), ("03-31", "## B\nNone.")]),
        ("- Assam.\n  - Loose.\n  Now.\n- Green.", [("03-31", "Assam.\n  - Loose.\n  Now."), ("03-31", "Green.")]),
        ("Brew:\n```sh\n# boil\n\nb\n```\n\nOk.", [("03-31", "Brew:\n```sh\n# boil\n\nb\n```"), ("03-31", "Ok.")]),
        # What is said of a day, and a day to come, are no days of saying.
        ("Until 2 March 2026: Assam.", [("03-31", "Until 2 March 2026: Assam.")]),
        ("2027-03-02: The lease ends.", [("03-31", "2027-03-02: The lease ends.")]),
        ("Yesterday: Assam.", [("03-31", "Yesterday: Assam.")]),
    ],
)  # fmt: skip
def test_a_note_s_entries_are_of_the_days_that_it_names(
    tmp_path: Path, content: str, found: list[tuple[str, str]]
) -> None:
    assert entries(note(tmp_path, content)) == found


def test_an_entry_is_known_by_its_day_and_words(tmp_path: Path) -> None:
    path = note(tmp_path, "2026-03-02: Assam.\n\nGreen.\n\nGreen.")
    (before,) = sessions(read_entries(path))
    (after,) = sessions(read_entries(note(tmp_path, "2026-03-03: Oolong.\n\n2026-03-02: Assam.\n\nGreen.")))
    assert len({turn.external_id for turn in before.turns}) == 3
    assert after.head.session_id == before.head.session_id
    assert after.turns[1].external_id == before.turns[0].external_id
    (empty,) = skipped(read_entries(note(tmp_path, "# Tea\n")))
    assert empty.reason == "no turn in it"

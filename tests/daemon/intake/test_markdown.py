from __future__ import annotations

from pathlib import Path

import pytest
from dreamd.daemon.intake.markdown import read
from dreamd.store.model import GLOBAL_CHANNEL, Kind

from .conftest import notes, skipped


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


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("# Tea\n\nAssam.", "Tea", "# Tea\n\nAssam."),
        ("Assam.", "buying tea", "# buying tea\n\nAssam."),
        ("---\nx: [broken\n---\nAssam.", "buying tea", "Assam."),
    ],
)
def test_titles(tmp_path: Path, content: str, title: str, text: str) -> None:
    (found,) = notes(read(note(tmp_path, content)))
    assert found.title == title
    assert found.text.endswith(text[-6:])
    assert title in found.text
    assert (found.channel, found.kind) == (GLOBAL_CHANNEL, Kind.NOTE)
    assert found.created_at is not None


@pytest.mark.parametrize("kind", ["session", "turn", "nonsense", "[a]"])
def test_a_kind_that_no_note_can_be_is_a_note(tmp_path: Path, kind: str) -> None:
    (found,) = notes(read(note(tmp_path, f"---\nkind: {kind}\n---\ntext")))
    assert found.kind is Kind.NOTE


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
        assert len(items) == 1
        assert bool(notes(items)) == (path.name not in {"index.md", "log.md"}), path

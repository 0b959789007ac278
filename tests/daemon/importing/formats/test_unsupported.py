"""What cannot be read yet is called by its name."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import UnsupportedFile

from tests.daemon.importing.conftest import skipped

OLD_CODEX = [
    {"id": "x", "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
]


def as_lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@pytest.mark.parametrize(
    ("name", "content", "is_a"),
    [
        ("rollout-2025-05-01.jsonl", as_lines(OLD_CODEX), "a Codex rollout of 2025"),
        ("checkpoint.json", b'[{"role": "user", "parts": [{"text": "hi"}]}]', "a Gemini CLI log"),
        ("export.zip", b"PK\x03\x04", "an archive"),
    ],
)
def test_each_unsupported_format_is_named(tmp_path: Path, name: str, content: bytes, is_a: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnsupportedFile) as raised:
        read(tmp_path / name)
    assert str(raised.value) == f"{tmp_path / name} is {is_a}; dreamd cannot read those yet."


@pytest.mark.parametrize(
    ("name", "is_a"),
    [
        ("state.vscdb", "an SQLite database"),
        ("x.db", "an SQLite database"),
    ],
)
def test_databases_are_named(tmp_path: Path, name: str, is_a: str) -> None:
    database = sqlite3.connect(tmp_path / name)
    database.execute("CREATE TABLE message (id)")
    database.close()
    with pytest.raises(UnsupportedFile, match=is_a):
        read(tmp_path / name)


def test_a_whole_archive_is_unpacked_first(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", "[]")
    with pytest.raises(UnsupportedFile) as raised:
        read(tmp_path / "export.zip")
    assert "Unpack" in raised.value.hint


def test_in_a_folder_they_are_counted_by_name(tmp_path: Path) -> None:
    for day in range(3):
        (tmp_path / f"rollout-{day}.jsonl").write_bytes(as_lines(OLD_CODEX))
    (tmp_path / "sessions.db").write_bytes(b"SQLite format 3\0")
    assert [item.reason for item in skipped(read(tmp_path))] == [
        "3 × Codex rollouts of 2025, which dreamd cannot read yet",
        "1 × SQLite databases, which dreamd cannot read yet",
    ]

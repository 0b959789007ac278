from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.items import Item, NoteRead, SessionRead, Skipped


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write values, or raw bytes, a line each."""

    def write(*lines: Any, name: str = "session.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )
        return path

    return write


def sessions(items: Iterable[Item]) -> list[SessionRead]:
    return [item for item in items if isinstance(item, SessionRead)]


def notes(items: Iterable[Item]) -> list[NoteRead]:
    return [item for item in items if isinstance(item, NoteRead)]


def skipped(items: Iterable[Item]) -> list[Skipped]:
    return [item for item in items if isinstance(item, Skipped)]


def texts(items: Iterable[Item]) -> list[str]:
    return [turn.text for session in sessions(items) for turn in session.turns]

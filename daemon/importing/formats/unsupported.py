"""Formats that are known by sight and cannot be read yet, so that a person hears what it is that was passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....store import beginning

_SNIFFED_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format by its name; `instead` says what can be done, where something can."""

    name: str
    names: str
    instead: str = ""


CODEX = Foreign("a Codex rollout of 2025", "Codex rollouts of 2025")
GEMINI = Foreign("a Gemini CLI log", "Gemini CLI logs")
CURSOR_DB = Foreign("a Cursor database", "Cursor databases")
DATABASE = Foreign("an SQLite database", "SQLite databases")
ARCHIVE = Foreign("an archive", "archives", "Unpack it, and import the folder.")


def by_name(path: Path) -> Foreign | None:
    """Recognise a file by its name alone."""
    return CURSOR_DB if path.name.lower() == "state.vscdb" else None


def by_line(value: object) -> Foreign | None:
    """Recognise a file by one of its lines."""
    return CODEX if isinstance(value, dict) and _is_codex(value) else None


def by_document(document: object) -> Foreign | None:
    """Recognise a file by its whole value."""
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return None
    if isinstance(document, list) and "role" in first and isinstance(first.get("parts"), list):
        return GEMINI
    if isinstance(document, list) and {"sessionId", "messageId", "message"} <= first.keys():
        return GEMINI
    return by_line(first)


def by_beginning(path: Path) -> Foreign | None:
    """Recognise a file by its first bytes: one that is no JSON, or too long to be read whole."""
    head = beginning(path, _SNIFFED_BYTES)
    if head.startswith(b"SQLite format 3\0"):
        return by_name(path) or DATABASE
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b")):
        return ARCHIVE
    return None


def _is_codex(value: Mapping[str, Any]) -> bool:
    """Say whether it is a line of the first rollouts, which began with a line of instructions."""
    return value.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= value.keys()

"""A project on the disk, for the stages that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project: a source file, a makefile, a package list."""
    root = tmp_path / "proj"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("")
    (root / "Makefile").write_text("CC := gcc\nlint: deps\n\truff check\ndeps:\n\ttrue\n")
    (root / "package.json").write_text('{"scripts": {"build": "vite"}}')
    return root

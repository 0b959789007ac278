"""A project that two machines know by channels of their own."""

from __future__ import annotations

import pytest
from dreamd.store import channel


@pytest.fixture
def one_project(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Link the channels of two clones of a project, and return them."""
    clones = ("proj-1a2b3c", "proj-4d5e6f")
    projects = channel.Projects()
    projects.know({"0" * 32: clones}, clones)
    monkeypatch.setattr(channel, "_PROJECTS", projects)
    return clones

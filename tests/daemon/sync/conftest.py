"""Machines of one person that share a remote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dreamd.daemon.sync.segments import Sealer

from tests.daemon.sync.machines import Clock, Machine

NewMachine = Callable[..., Machine]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[NewMachine]:
    """Make machines that share a remote and a key; `key=None` for none."""
    shared, clock = Sealer.new_key(), Clock()
    with ExitStack() as stack:

        def new(name: str, key: str | None = shared) -> Machine:
            made = Machine(tmp_path / name, tmp_path / "remote.git", key, clock)
            stack.callback(made.close)
            return made

        yield new

"""What every test starts from: no home but a temporary one, and data to read."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import freezegun
import pytest
from hypothesis import settings

from tests.examples import examples
from tests.stand_ins import PLACES

if TYPE_CHECKING:
    from tests.servers import PostgresServer

# Freezing the clock reads every name of each loaded module: the lazy ones of these would be loaded while it is frozen.
freezegun.configure(extend_ignore_list=["langchain_core", "langgraph", "langsmith"])

# Two workers on a busy machine: a slow example is no failure, and the same examples are tried everywhere.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=examples(100))
settings.load_profile("house")


MARKS = ("DREAMD_", "XDG_", "CLAUDE", "CODEX_", "GEMINI_", "OPENCODE", "CURSOR_")
"""The beginnings of variables that say where a person's memory is, or that an agent runs this."""


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep every test away from the person's own memory, settings and socket."""
    for name in [name for name in os.environ if name.startswith(MARKS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))


def pytest_configure() -> None:
    """Let SIGTERM, which a time limit sends, end the tests as Ctrl-C does: what they made is taken away."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """Give a folder with a short path: a socket's may have 103 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session", params=PLACES)
def data(request: pytest.FixtureRequest) -> Path:
    """Give a folder of data: our stand-ins, and once more the real sets where they are."""
    return PLACES[request.param]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Give a Postgres with pgvector, started for the first test that asks; skips where none can be had."""
    from tests.servers import PostgresServer

    server = PostgresServer()
    yield server
    server.close()

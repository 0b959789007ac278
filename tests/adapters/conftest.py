"""A real daemon, and the packages that `make test-adapters` installs; without them these tests are skipped."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.ipc.client import Client

from tests.bench.daemon_under_test import DaemonUnderTest

INSTALLED = Path(os.environ.get("ADAPTERS_INSTALLED", Path(__file__).parents[2] / ".adapters"))

if INSTALLED.is_dir() and str(INSTALLED) not in sys.path:
    sys.path.append(str(INSTALLED))  # after the environment's own packages, which stay themselves


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonUnderTest]:
    """Give one daemon for a whole module; each test keeps to spaces of its own."""
    folder = tmp_path_factory.mktemp("shared")
    with DaemonUnderTest(folder, {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as one:
        yield one


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonUnderTest]:
    """Give a daemon that a test may kill."""
    with DaemonUnderTest(tmp_path / "own", {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as one:
        yield one


CLIENTS: dict[tuple[str, int], Client] = {}


def client_of(daemon: DaemonUnderTest) -> Client:
    """Return the client of this thread, which is closed when the test is over."""
    place = (daemon.socket_path, threading.get_ident())
    return CLIENTS.setdefault(place, Client(daemon.socket_path, timeout_s=60))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while CLIENTS:
        CLIENTS.popitem()[1].close()

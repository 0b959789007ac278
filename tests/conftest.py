"""What every test starts from: no home but a temporary one, and the real data where it is."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

SHARED_DATA = Path(os.environ.get("SHARED_DATA_DIR", Path(__file__).resolve().parents[2] / "shared" / "data"))

# Two workers on a busy machine: a slow example is no failure, and the same examples are tried everywhere.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep every test away from the person's own memory, settings and socket."""
    for name in [name for name in os.environ if name.startswith(("DREAMD_", "XDG_"))]:
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


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Give the folder of real data, or skip: it is beside the project on a developer's machine and never part of it."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the real data is not at {SHARED_DATA}")
    return SHARED_DATA

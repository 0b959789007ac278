"""The real daemon in a temporary folder, with the stub embedder unless a test asks for the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest

Make = Callable[..., DaemonUnderTest]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make daemons that are not started yet; `name` distinguishes their folders, the rest is their environment."""
    made: list[DaemonUnderTest] = []

    def make_one(name: str = "one", **environ: str) -> DaemonUnderTest:
        made.append(DaemonUnderTest(tmp_path / name, {"DREAMD_STORE__EMBEDDING__MODEL": "stub"} | environ))
        return made[-1]

    yield make_one
    for daemon in made:
        daemon.__exit__()


@pytest.fixture
def daemon(make: Make) -> DaemonUnderTest:
    """One that answers."""
    one = make()
    one.start()
    one.wait_until_it_answers()
    return one


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonUnderTest]:
    """One for a whole module, for tests that keep to channels and words of their own."""
    folder = tmp_path_factory.mktemp("shared")
    with DaemonUnderTest(folder, {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as one:
        yield one

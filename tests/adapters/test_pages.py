"""The example of each adapter's page: it runs as it stands, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.conftest import INSTALLED
from tests.bench.daemon_under_test import DaemonUnderTest

pytestmark = pytest.mark.adapters

PAGES = {page.stem: page for page in sorted((Path(__file__).parents[2] / "docs" / "adapters").glob("*.md"))}
PACKAGES = {
    "anthropic-memory": "anthropic",
    "langgraph-store": "langgraph.store.base",
    "openai-session": "agents.memory",
}


def test_each_page_is_run() -> None:
    assert PAGES.keys() <= PACKAGES.keys()


@pytest.mark.parametrize("page", PAGES)
def test_the_example_prints_what_the_page_says(shared: DaemonUnderTest, tmp_path: Path, page: str) -> None:
    pytest.importorskip(PACKAGES[page], reason="`make test-adapters` installs the packages that have adapters")
    text = PAGES[page].read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    expected = re.search(r"```\n(.*?)```", text.partition("\nprints\n")[2], re.DOTALL)
    assert example
    assert expected
    paths = f"import sys; sys.path.append({str(INSTALLED)!r})\n"
    environ = {**os.environ, "DREAMD_SOCKET": shared.socket_path}
    done = subprocess.run(
        [sys.executable, "-c", paths + example[1]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert [line.rstrip() for line in done.stdout.splitlines()] == [line.rstrip() for line in expected[1].splitlines()]

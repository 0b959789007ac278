"""Exit codes that a script goes by, of the real command on a real daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import typed

pytestmark = pytest.mark.system

Make = Callable[..., DaemonUnderTest]


@pytest.mark.parametrize("limit", ["0", "abc", "1001", "-1", ""])
def test_a_bound_that_cannot_be_meant_is_2_with_a_daemon_and_without(
    shared: DaemonUnderTest, make: Make, limit: str
) -> None:
    for daemon in (shared, make()):
        done = typed(daemon, "recall", "x", f"--limit={limit}")
        assert done.returncode == 2
        assert "--limit" in done.stderr


def test_undo_twice_says_so_and_is_4(shared: DaemonUnderTest) -> None:
    node = json.loads(typed(shared, "remember", "The wheelbarrow is in the shed.", "--json").stdout)["node_id"]
    run = json.loads(typed(shared, "forget", node, "--json").stdout)["run_id"]
    first, second = typed(shared, "undo", run), typed(shared, "undo", run)
    assert (first.returncode, first.stdout) == (0, f"Run {run} is undone: 1 file as before.\n")
    assert (second.returncode, second.stdout) == (4, f"Run {run} was undone before; nothing was changed.\n")
    assert typed(shared, "undo", "no-such-run").returncode == 4


def test_a_dry_run_is_0_whether_there_is_something_to_do_or_not(make: Make, tmp_path: Path) -> None:
    with make() as daemon:
        empty = typed(daemon, "dream", "--dry-run")
        assert (empty.returncode, empty.stdout) == (0, "A dream would change nothing now.\n")
        turns = ["I prefer pnpm over npm in this repository.", "We decided to use Postgres 16 for the billing service."]
        lines = [json.dumps({"role": "user", "content": turn, "session": "s"}) for turn in turns]
        (tmp_path / "chat.jsonl").write_text("\n".join(lines))
        assert typed(daemon, "import", tmp_path / "chat.jsonl").returncode == 0
        planned = typed(daemon, "dream", "--dry-run")
        assert planned.returncode == 0
        assert "nothing was changed" in planned.stdout
        typed(daemon, "pause")
        assert typed(daemon, "dream", "--dry-run").returncode == 0

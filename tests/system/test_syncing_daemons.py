"""Two real daemons of one person, a folder between them, and the person's commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.conftest import Make
from tests.system.waiting import until

pytestmark = pytest.mark.system


def type_in(daemon: DaemonUnderTest, *words: str) -> str:
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *words]
    done = subprocess.run(command, env=daemon.environ, cwd=daemon.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(daemon: DaemonUnderTest, *words: str) -> Any:
    return json.loads(type_in(daemon, *words, "--json"))


def begun(make: Make, name: str) -> DaemonUnderTest:
    daemon = make(name)
    daemon.start()
    daemon.wait_until_it_answers()
    return daemon


def texts(daemon: DaemonUnderTest) -> set[str]:
    return {one["title"] for one in daemon.call("list", level="L1", limit=100)["memories"]}


def test_two_daemons_share_one_memory(make: Make, tmp_path: Path) -> None:
    one, other, remote = begun(make, "one"), begun(make, "other"), str(tmp_path / "stick" / "memory.git")
    Path(remote).parent.mkdir()
    type_in(one, "remember", "We deploy on Thursdays.", "--channel", "_global")
    first = answer(one, "sync", "init", remote)
    assert Path(first["key_file"]).stat().st_mode & 0o777 == 0o600
    (tmp_path / "carried").write_text(first["key"])
    second = answer(other, "sync", "init", remote, "--key", str(tmp_path / "carried"))
    assert len(second["machines"]) == 1
    until(lambda: texts(other) == {"We deploy on Thursdays."})
    run = answer(other, "runs", "--kind", "sync")["runs"][0]
    assert run["state"] == "applied"
    node = other.call("list", level="L1")["memories"][0]["node_id"]
    other.call("forget", node_id=node)
    assert answer(other, "sync")["written"]
    assert answer(one, "sync")["changed"] == 1
    assert texts(one) == set()
    status = answer(one, "sync", "status")
    assert (status["state"], status["encrypted"], status["trouble"], len(status["machines"])) == ("on", True, None, 2)


def test_a_remote_that_is_in_use_needs_its_key(make: Make, tmp_path: Path) -> None:
    one, other, remote = begun(make, "one"), begun(make, "other"), str(tmp_path / "memory.git")
    type_in(one, "remember", "We deploy on Thursdays.")
    type_in(one, "sync", "init", remote)
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", "sync", "init", remote]
    done = subprocess.run(command, env=other.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Name the key of the first machine" in done.stderr
    assert answer(other, "sync", "status")["state"] == "off"


def test_a_remote_that_is_away_is_a_state(make: Make, tmp_path: Path) -> None:
    one, remote = begun(make, "one"), tmp_path / "memory.git"
    type_in(one, "sync", "init", str(remote))
    remote.rename(tmp_path / "unplugged")
    type_in(one, "remember", "We deploy on Thursdays.")
    said = "".join(type_in(one, "sync").split())  # a long path is cut at the edge of the terminal
    assert "waits" in said
    assert f"`gitinit--bare{remote}`makesanemptyone" in said
    status = answer(one, "sync", "status")
    assert status["trouble"]
    assert status["trouble_since"]
    (tmp_path / "unplugged").rename(remote)
    assert answer(one, "sync")["trouble"] is None
    assert answer(one, "sync", "status")["trouble"] is None


def test_a_purge_here_is_carried_out_there_and_a_kill_in_between_loses_nothing(make: Make, tmp_path: Path) -> None:
    one, other, remote = begun(make, "one"), begun(make, "other"), str(tmp_path / "memory.git")
    type_in(one, "remember", "The safe opens with marzipan.")
    type_in(one, "remember", "We deploy on Thursdays.")
    first = answer(one, "sync", "init", remote)
    (tmp_path / "carried").write_text(first["key"])
    type_in(other, "sync", "init", remote, "--key", str(tmp_path / "carried"))
    type_in(one, "purge", "--matching", "marzipan", "--yes")
    one.kill()
    one.start()
    one.wait_until_it_answers()
    type_in(one, "sync")
    assert answer(one, "sync", "status")["unfetched"]
    type_in(other, "sync")
    type_in(one, "sync")
    assert answer(one, "sync", "status")["unfetched"] == []
    assert texts(one) == texts(other) == {"We deploy on Thursdays."}


def test_a_key_that_is_lost_is_named_in_the_state(make: Make, tmp_path: Path) -> None:
    one = begun(make, "one")
    key = Path(answer(one, "sync", "init", str(tmp_path / "memory.git"))["key_file"])
    one.kill()
    key.rename(tmp_path / "carried")
    one.start()
    one.wait_until_it_answers()
    status = answer(one, "sync", "status")
    assert status["state"] == "on"
    assert "The key of the sync is gone" in status["trouble"]
    type_in(one, "sync", "off")
    type_in(one, "sync", "init", str(tmp_path / "memory.git"), "--key", str(tmp_path / "carried"))
    assert answer(one, "sync", "status")["trouble"] is None

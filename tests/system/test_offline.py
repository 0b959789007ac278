"""What a person types when no daemon runs, or none can: check, rebuild and salvage work by themselves."""

from __future__ import annotations

import json
import random
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.servers import QdrantServer
from tests.system.commands import typed
from tests.system.conftest import Make

pytestmark = pytest.mark.system

PAGE_BYTES = 4096


@pytest.fixture
def stopped(daemon: DaemonUnderTest) -> DaemonUnderTest:
    """Return a daemon that learned something, forgot something, and was stopped."""
    daemon.call("remember", text="The heron nests behind the mill.")
    node_id = daemon.call("remember", text="The stork nests on the church.")["node_id"]
    daemon.call("forget", node_id=node_id)
    daemon.call("rebuild")
    daemon.stop()
    return daemon


def data(daemon: DaemonUnderTest) -> Path:
    return daemon.folder / "data"


def noise_over(path: Path, *pages: int) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE_BYTES)
            file.write(random.Random(page).randbytes(PAGE_BYTES))


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def restart(daemon: DaemonUnderTest) -> None:
    daemon.start()
    daemon.wait_until_it_answers()


def knows(daemon: DaemonUnderTest) -> bool:
    return any("heron" in hit["text"] for hit in daemon.call("recall", query="where does the heron nest?")["hits"])


def test_check_looks_at_the_databases_and_says_what_it_did_not_look_at(stopped: DaemonUnderTest) -> None:
    done = typed(stopped, "check")
    assert (done.returncode, done.stdout) == (0, "No problems.\n")
    assert "not looked at" in done.stderr
    noise_over(data(stopped) / "index" / "index.db", 3, 4, 5)
    done = typed(stopped, "check")
    assert done.returncode == 1
    assert "index.db" in done.stdout
    assert "rebuild" in done.stdout
    assert answer(typed(stopped, "check", "--json"))["problems"]


def test_a_rebuild_needs_no_daemon_and_no_sound_index(stopped: DaemonUnderTest) -> None:
    index = data(stopped) / "index" / "index.db"
    noise_over(index, *range(index.stat().st_size // PAGE_BYTES))
    done = typed(stopped, "rebuild", "--json")
    assert (done.returncode, answer(done)["files"]) == (0, 1)
    assert typed(stopped, "check").returncode == 0
    restart(stopped)
    assert knows(stopped)


def test_a_damaged_ledger_is_brought_back_by_the_command_that_is_named(stopped: DaemonUnderTest) -> None:
    forgotten = "stork"
    noise_over(data(stopped) / "ledger.db", 0)
    restart(stopped)
    assert knows(stopped)
    problems = " ".join(stopped.call("status")["problems"])
    assert "dreamctl salvage" in problems
    assert typed(stopped, "check").returncode == 1
    stopped.call("remember", text="The owl lives in the barn.")
    refused = typed(stopped, "salvage")
    assert refused.returncode == 1
    assert "dreamctl stop" in refused.stderr
    assert typed(stopped, "dream", "daily", "--dry-run", "--wait").returncode == 1
    stopped.stop()
    assert typed(stopped, "check").returncode == 1
    salvaged = answer(typed(stopped, "salvage", "--json"))["salvaged"]
    assert [one["file"] for one in salvaged] == ["ledger.damaged-1.db"]
    assert salvaged[0]["rows"]["run"] >= 1
    assert typed(stopped, "check").returncode == 0
    restart(stopped)
    assert knows(stopped)
    (run_id,) = [one["run_id"] for one in stopped.call("runs")["runs"] if one["kind"] == "forget"]
    stopped.call("undo", run_id=run_id)
    assert any(forgotten in hit["text"] for hit in stopped.call("recall", query="where does the stork nest?")["hits"])


def test_a_lost_ledger_is_reported_until_it_is_accepted(stopped: DaemonUnderTest) -> None:
    for file in data(stopped).glob("ledger.db*"):
        file.unlink()
    assert typed(stopped, "check").returncode == 1
    restart(stopped)
    assert knows(stopped)
    assert "dreamctl salvage --discard" in " ".join(stopped.call("status")["problems"])
    stopped.stop()
    assert typed(stopped, "salvage", "--discard").returncode == 0
    restart(stopped)
    assert stopped.call("status")["problems"] == []


def test_the_index_moves_to_a_server_and_back_and_only_then_the_settings_say_so(stopped: DaemonUnderTest) -> None:
    config = stopped.folder / "config" / "dreamd" / "dreamd.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("# mine\n[store]\ncapacity_mb = 400\n")
    done = typed(stopped, "migrate", "--to", "qdrant")
    assert done.returncode == 1
    assert "store.dsn" in done.stderr
    assert "backend" not in config.read_text()
    server = QdrantServer()
    try:
        dsn = stopped.folder / "data" / "store.dsn"
        dsn.write_text(server.dsn)
        dsn.chmod(0o600)
        there = json.loads(typed(stopped, "migrate", "--to", "qdrant", "--json").stdout)
        assert len(server.texts()) > 0
        away = typed(stopped, "migrate", "--to", "sqlite-vec")
        assert "no purge reaches it" in " ".join(away.stdout.split())
        gone = json.loads(typed(stopped, "migrate", "--to", "sqlite-vec", "--drop", "--json").stdout)
        assert (gone["dropped"], gone["problem"]) == (True, "")
        assert len(server.texts()) == 0
        assert json.loads(typed(stopped, "migrate", "--to", "sqlite-vec", "--json").stdout)["copy"] == ""
        there = json.loads(typed(stopped, "migrate", "--to", "qdrant", "--json").stdout)
    finally:
        server.close()
    assert (there["backend"], there["compared"]) == ("qdrant", True)
    assert config.read_text() == '# mine\n[store]\nbackend = "qdrant"\ncapacity_mb = 400\n'
    for backend in ("files", "sqlite-vec"):
        back = json.loads(typed(stopped, "migrate", "--to", backend, "--json").stdout)
        assert (back["backend"], back["chunks"], back["compared"]) == (backend, there["chunks"], False)
    assert tomllib.loads(config.read_text())["store"]["backend"] == "sqlite-vec"


def test_a_memory_is_made_of_a_bundle_and_of_a_vault(daemon: DaemonUnderTest, make: Make, tmp_path: Path) -> None:
    bundle = tmp_path / "memory.ocf"
    daemon.call("remember", text="The heron nests behind the mill.", channel="birds")
    done = typed(daemon, "export", bundle, "--sessions")
    assert done.returncode == 0, done.stderr
    daemon.stop()
    assert typed(daemon, "check", bundle).returncode == 0
    for name, source in (("of-bundle", bundle), ("of-vault", data(daemon) / "vault")):
        new = make(name)
        assert answer(typed(new, "rebuild", "--from", source, "--json"))["differences"] == []
        assert "holds memories" in typed(new, "rebuild", "--from", source).stderr
        exposed = [path for path in data(new).rglob("*") if path.stat().st_mode & 0o077]
        assert exposed == [], "private, whatever the shell's umask"
        restart(new)
        assert any("heron" in hit["text"] for hit in new.call("recall", query="heron nests", channel="birds")["hits"])
        assert new.call("check")["problems"] == []
    bundle.write_bytes(bundle.read_bytes().replace(b"mill", b"hill", 1))
    altered = typed(daemon, "check", bundle)
    assert altered.returncode == 1
    assert "not as it was written" in altered.stderr

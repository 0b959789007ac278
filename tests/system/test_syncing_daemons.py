"""Two real daemons and what they share: a folder of one person's machines, a server of two people's project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.bench.team import git, join_team
from tests.servers import PostgresServer
from tests.system.conftest import Make
from tests.system.waiting import until

pytestmark = pytest.mark.system


def type_in(daemon: DaemonUnderTest, *words: str, cwd: Path | None = None, code: int = 0) -> str:
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *words]
    folder = cwd or daemon.folder
    done = subprocess.run(command, env=daemon.environ, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def answer(daemon: DaemonUnderTest, *words: str, cwd: Path | None = None) -> Any:
    return json.loads(type_in(daemon, *words, "--json", cwd=cwd))


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


def clone_of_shop(folder: Path) -> Path:
    """Make a repository that is a clone of the shop's remote, which need not be there."""
    shop = folder / "shop"
    shop.mkdir(parents=True)
    git(shop, "init", "-q")
    git(shop, "remote", "add", "origin", "git@git.example.org:ana/shop.git")
    return shop


def carry_key(one: DaemonUnderTest, other: DaemonUnderTest, folder: Path) -> None:
    """Sync two machines through a new remote."""
    first = answer(one, "sync", "init", str(folder / "memory.git"))
    (folder / "carried").write_text(first["key"])
    type_in(other, "sync", "init", str(folder / "memory.git"), "--key", str(folder / "carried"))


RULE, PORT = "Never deploy the shop on a Friday.", "The port of the shop is 8080."


def test_a_project_is_one_on_two_machines_whatever_the_paths_of_its_clones(make: Make, tmp_path: Path) -> None:
    one, other = begun(make, "one"), begun(make, "other")
    here, there = clone_of_shop(tmp_path / "a"), clone_of_shop(tmp_path / "b" / "code")
    kept = answer(one, "remember", RULE, "--kind", "preference", cwd=here)
    carry_key(one, other, tmp_path)
    until(lambda: texts(other) == {RULE})
    assert RULE in type_in(other, "brief", cwd=there)
    assert RULE in other.call("context", query="When may the shop be deployed?", cwd=str(there))["text"]
    found = other.call("recall", query="When may the shop be deployed?", cwd=str(there))
    assert ([hit["node_id"] for hit in found["hits"]], found["elsewhere"]) == ([kept["node_id"]], [])
    assert answer(other, "remember", PORT, cwd=there)["channel"] == kept["channel"]
    type_in(other, "sync")
    type_in(one, "sync")
    assert PORT in one.call("context", query="Which port has the shop?", cwd=str(here))["text"]
    assert [name for name in one.call("status")["channels"] if name.startswith("shop-")] == [kept["channel"]]
    written = b"".join(path.read_bytes() for path in other.folder.rglob("*.db*"))
    assert b"git.example.org" not in written
    assert kept["channel"].encode() in written


def test_what_two_machines_knew_of_a_project_before_they_synced_is_found_from_both(make: Make, tmp_path: Path) -> None:
    one, other = begun(make, "one"), begun(make, "other")
    here, there = clone_of_shop(tmp_path / "a"), clone_of_shop(tmp_path / "b" / "code")
    kept = answer(one, "remember", RULE, "--kind", "preference", cwd=here)["channel"]
    own = answer(other, "remember", PORT, cwd=there)["channel"]
    carry_key(one, other, tmp_path)
    type_in(one, "sync")
    until(lambda: texts(one) == texts(other) == {RULE, PORT})
    assert kept != own
    for daemon, clone, channel in ((one, here, kept), (other, there, own)):
        assert RULE in type_in(daemon, "brief", cwd=clone)
        assert PORT in daemon.call("context", query="Which port has the shop?", cwd=str(clone))["text"]
        # The one that was linked first stays, whatever another machine says.
        said = answer(daemon, "remember", f"The shop is built on {daemon.folder.name}.", cwd=clone)
        assert said["channel"] == channel
        # Its name alone means that one, also from elsewhere, and what is known of the project is in both.
        assert answer(daemon, "recall", "which port has the shop?", "--channel", "shop")["channel"] == channel
        assert PORT in type_in(daemon, "context", "Which port has the shop?", "--channel", "shop")
        assert RULE in type_in(daemon, "brief", "--channel", "shop")
        listed = answer(daemon, "list", "--channel", "shop", "--level", "L1")["memories"]
        assert {one["channel"] for one in listed} == {kept, own}
        refused = type_in(daemon, "purge", "--channel", "shop", "--dry-run", code=4)
        assert kept in refused
        assert own in refused
    changed = "The port of the shop is 9090 now."
    newer = answer(one, "remember", changed, "--channel", "shop")
    until(lambda: one.call("show", node_id=newer["node_id"], linked=True)["supersedes"])
    type_in(one, "sync")
    type_in(other, "sync")
    marks = {mark["title"]: mark.get("state") for mark in answer(other, "list", "--channel", "shop")["memories"]}
    assert (marks[PORT], marks[changed]) == ("replaced", None)


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
    said = "".join(type_in(one, "sync", code=1).split())  # a long path is cut at the edge of the terminal
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


def test_two_people_of_a_project_share_by_a_server(make: Make, tmp_path: Path, postgres: PostgresServer) -> None:
    port, remote = "The port of the shop is 8080.", tmp_path / "shop.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    postgres.make_team()
    clones = {}
    for name in ("ana", "ben"):
        clones[name] = tmp_path / f"of-{name}" / "shop"
        git(tmp_path, "clone", "-q", str(remote), str(clones[name]))
        git(clones[name], "config", "user.name", name.title())
        git(clones[name], "config", "user.email", f"{name}@shop.example")
        join_team(clones[name], postgres.dsn_of(name))
    ana, ben = begun(make, "ana"), begun(make, "ben")
    node = answer(ana, "remember", port, "--kind", "decision", cwd=clones["ana"])["node_id"]
    shown = type_in(ana, "review", "--share", node, cwd=clones["ana"])
    assert f"to all who can read the Postgres {postgres.folder}/postgres" in " ".join(shown.split())
    type_in(ana, "review", "--share", node, "--yes", cwd=clones["ana"])
    assert postgres.ask("SELECT count(*) FROM dreamd.team") == [(0,)]
    ana.kill()
    ana.start()
    ana.wait_until_it_answers()
    postgres.stop()
    away = type_in(ana, "sync", "team", cwd=clones["ana"], code=1)
    assert "Nothing is lost" in away
    postgres.start()
    assert answer(ana, "sync", "team", cwd=clones["ana"])["pushed"]
    assert postgres.ask("SELECT login::text FROM dreamd.team") == [("ana",)]
    assert answer(ben, "sync", "team", cwd=clones["ben"])["came"] == 1
    (waiting,) = ben.call("review_list")["waiting"]
    assert (waiting["text"], waiting["author"]) == (port, "Ana <ana@shop.example>")
    type_in(ben, "review", waiting["node_id"], "--accept", cwd=clones["ben"])
    until(lambda: "colleague Ana: " + port in ben.call("context", query="Which port?", cwd=str(clones["ben"]))["text"])
    type_in(ana, "review", "--unshare", node, cwd=clones["ana"])
    assert answer(ana, "sync", "team", cwd=clones["ana"])["pushed"]
    assert port.encode() not in b"".join(bytes(line) for (line,) in postgres.ask("SELECT line FROM dreamd.team"))
    told = answer(ben, "sync", "team", cwd=clones["ben"])
    assert (told["went"], "colleague Ana withdrew" in told["notes"][0]) == (0, True)
    assert answer(ben, "review", "--shared", cwd=clones["ben"])["colleagues"] == []

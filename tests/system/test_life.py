"""The daemon's own life: starting, being killed, being told to stop, and everything that may be wrong at the start."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from tests.bench.daemon_under_test import DaemonUnderTest, request
from tests.system.conftest import Make
from tests.system.waiting import until

pytestmark = pytest.mark.system

EXIT_STORE, EXIT_ALREADY_RUNNING, EXIT_CONFIG, EXIT_FORCED = 65, 75, 78, 70


def refusal(daemon: DaemonUnderTest, *arguments: str, code: int) -> str:
    """Return the message of a daemon that does not start."""
    command = [sys.executable, "-P", "-m", "dreamd.daemon", *arguments]
    done = subprocess.run(command, env=daemon.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def restart(daemon: DaemonUnderTest) -> None:
    daemon.start()
    daemon.wait_until_it_answers()


# ---- ends


def test_what_was_acknowledged_survives_kill_9(daemon: DaemonUnderTest) -> None:
    acknowledged: list[str] = []

    def write(writer: int) -> None:
        wire = daemon.wire()
        try:
            for number in range(10_000):
                text = f"Writer {writer} counted to {number}."
                wire.call("remember", text=text)
                acknowledged.append(text)
        except OSError:
            wire.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    until(lambda: len(acknowledged) > 150)
    daemon.kill()
    for writer in writers:
        writer.join()
    restart(daemon)
    assert len(acknowledged) > 150
    for text in acknowledged[::7] + acknowledged[-5:]:
        assert text in [hit["text"] for hit in daemon.call("recall", query=text)["hits"]]
    kept = "".join(path.read_text() for path in (daemon.folder / "data" / "vault").rglob("*.md"))
    assert [text for text in acknowledged if text not in kept] == []


def test_sigterm_finishes_what_was_promised_and_leaves_the_socket_free(daemon: DaemonUnderTest) -> None:
    daemon.call("remember", text="The last word.")
    daemon.stop()
    assert not Path(daemon.socket_path).exists()
    assert "dreamd has stopped" in daemon.log.read_text()
    kept = [path.read_text() for path in (daemon.folder / "data" / "vault").rglob("*.md")]
    assert any("The last word." in text for text in kept)
    with apsw.Connection(str(daemon.folder / "data" / "ledger.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM journal WHERE state = ''").fetchall() == [(0,)]


def test_sigint_stops_like_sigterm(daemon: DaemonUnderTest) -> None:
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(30) == 0


def test_stop_over_the_wire(daemon: DaemonUnderTest) -> None:
    assert daemon.process is not None
    assert daemon.call("stop") == {"stopping": True}
    assert daemon.process.wait(30) == 0


def test_a_second_signal_forces(daemon: DaemonUnderTest, tmp_path: Path) -> None:
    assert daemon.process is not None
    wire = daemon.wire()  # an import that takes long keeps the first from being quick
    big = tmp_path / "big.jsonl"
    big.write_text("".join(f'{{"role": "user", "content": "line {number} of many"}}\n' for number in range(60_000)))
    wire._socket.sendall(request("import", paths=[str(big)]))
    until(lambda: daemon.call("status")["turns"] > 0)
    daemon.process.send_signal(signal.SIGTERM)
    until(lambda: "finishing what was acknowledged" in daemon.log.read_text())
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(30) in (EXIT_FORCED, 0)  # 0: it was quicker than the second signal
    wire.close()
    restart(daemon)
    assert daemon.call("status")["turns"] > 0


# ---- starts


def test_a_second_daemon_on_the_same_folder_is_refused_with_the_pid_of_the_first(daemon: DaemonUnderTest) -> None:
    assert daemon.process is not None
    other = daemon.environ | {"DREAMD_SOCKET": daemon.socket_path + "2"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dreamd.daemon"], env=other, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == EXIT_ALREADY_RUNNING
    assert f"pid {daemon.process.pid}" in done.stderr
    assert daemon.call("ping") == {}


def test_a_second_daemon_on_the_same_vault_or_socket_is_refused(daemon: DaemonUnderTest, make: Make) -> None:
    vault = make("two", DREAMD_VAULT_DIR=str(daemon.folder / "data" / "vault"))
    assert "already serves the vault" in refusal(vault, code=EXIT_ALREADY_RUNNING)
    same_socket = make("three", DREAMD_SOCKET=daemon.socket_path)
    assert "already answers" in refusal(same_socket, code=EXIT_ALREADY_RUNNING)
    assert daemon.call("ping") == {}


def test_a_stale_socket_is_replaced(make: Make) -> None:
    daemon = make()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(daemon.socket_path)
    restart(daemon)
    assert Path(daemon.socket_path).stat().st_mode & 0o777 == 0o600


def test_a_path_too_long_for_a_socket_is_refused(make: Make) -> None:
    daemon = make(DREAMD_SOCKET="/tmp/" + "x" * 120)
    assert "103" in refusal(daemon, code=EXIT_STORE)


def test_clients_that_come_before_it_is_ready_wait_instead_of_failing(make: Make) -> None:
    daemon = make()
    daemon.start()
    until(lambda: Path(daemon.socket_path).exists())
    assert daemon.call("ping") == {}


def test_settings_that_are_wrong_are_named(make: Make, tmp_path: Path) -> None:
    daemon = make()
    config = tmp_path / "my.toml"
    config.write_text("[store]\nfusoin = 'rrf'\n")
    said = refusal(daemon, "--config", str(config), code=EXIT_CONFIG)
    assert f"{config}: store.fusoin is no setting" in said
    assert "fusion" in said
    daemon.environ["DREAMD_STORE__EMBEDING__MODEL"] = "stub"
    assert "DREAMD_STORE__EMBEDING__MODEL" in refusal(daemon, code=EXIT_CONFIG)


def test_check_validates_settings_that_were_changed_meanwhile(daemon: DaemonUnderTest) -> None:
    assert daemon.call("check")["settings_problems"] == []
    config = Path(daemon.environ["XDG_CONFIG_HOME"]) / "dreamd" / "dreamd.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[llm]\nprovider = 'ollama'\nmodell = 'x'\n")
    (problem,) = daemon.call("check")["settings_problems"]
    assert "llm.modell" in problem
    assert "llm.model?" in problem


def test_a_model_that_is_configured_and_absent_is_said(make: Make) -> None:
    url = "http://127.0.0.1:9"
    daemon = make(DREAMD_LLM__PROVIDER="ollama", DREAMD_LLM__MODEL="tiny", DREAMD_LLM__BASE_URL=url)
    restart(daemon)
    status = daemon.call("status")
    assert url in status["llm"]["problem"]
    assert any(url in problem for problem in status["problems"])
    assert any(url in problem for problem in daemon.call("check")["settings_problems"])


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a daemon that learned something and was stopped."""
    with DaemonUnderTest(tmp_path_factory.mktemp("taught"), {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as daemon:
        daemon.call("remember", text="The heron nests behind the mill.")
        daemon.stop()
    return daemon.folder / "data"


@pytest.fixture
def with_a_memory(taught: Path, make: Make) -> DaemonUnderTest:
    """Return a daemon that knows this and is not started."""
    daemon = make()
    shutil.copytree(taught, daemon.folder / "data", symlinks=True)
    return daemon


def knows(daemon: DaemonUnderTest) -> bool:
    return any("heron" in hit["text"] for hit in daemon.call("recall", query="where does the heron nest?")["hits"])


def test_a_missing_index_is_made_anew(with_a_memory: DaemonUnderTest) -> None:
    shutil.rmtree(with_a_memory.folder / "data" / "index")
    restart(with_a_memory)
    assert knows(with_a_memory)


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty"])
def test_a_corrupt_index_is_made_anew_and_the_vault_is_untouched(with_a_memory: DaemonUnderTest, damage: str) -> None:
    data = with_a_memory.folder / "data"
    before = {path: path.read_bytes() for path in (data / "vault").rglob("*.md")}
    index = data / "index" / "index.db"
    whole = index.read_bytes()
    for sidecar in index.parent.glob("index.db-*"):
        sidecar.unlink()
    index.write_bytes({"garbage": os.urandom(8192), "truncated": whole[: len(whole) // 2], "empty": b""}[damage])
    restart(with_a_memory)
    assert knows(with_a_memory)
    assert {path: path.read_bytes() for path in (data / "vault").rglob("*.md")} == before


def test_a_newer_index_is_made_anew_or_refused_in_words(with_a_memory: DaemonUnderTest) -> None:
    index = with_a_memory.folder / "data" / "index" / "index.db"
    with apsw.Connection(str(index)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    restart(with_a_memory)
    assert knows(with_a_memory)


def test_a_newer_ledger_is_refused_in_words(with_a_memory: DaemonUnderTest) -> None:
    ledger = with_a_memory.folder / "data" / "ledger.db"
    with apsw.Connection(str(ledger)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    assert "newer" in refusal(with_a_memory, code=EXIT_STORE)


def test_a_vault_that_is_gone_at_the_start_unlearns_nothing(with_a_memory: DaemonUnderTest) -> None:
    vault = with_a_memory.folder / "data" / "vault"
    vault.rename(vault.with_name("away"))
    restart(with_a_memory)
    assert with_a_memory.call("status")["problems"]
    assert with_a_memory.call("check")["problems"]
    assert knows(with_a_memory)
    waits = with_a_memory.call("remember", text="The vault is on a disk of its own")["node_id"]
    assert not vault.exists()
    vault.with_name("away").rename(vault)
    until(lambda: not with_a_memory.call("status")["problems"])
    assert with_a_memory.call("show", node_id=waits)["path"]
    with_a_memory.stop()
    restart(with_a_memory)
    assert knows(with_a_memory)
    assert with_a_memory.call("show", node_id=waits)["path"]
    assert not [text for text in with_a_memory.call("status")["problems"] if "gone" in text]


def test_nothing_it_makes_can_be_read_by_others_or_lies_elsewhere(daemon: DaemonUnderTest) -> None:
    daemon.call("remember", text="For my eyes only.")
    daemon.stop()
    data = daemon.folder / "data"
    assert {path for path in daemon.folder.iterdir() if path != daemon.log} == {data}
    assert data.stat().st_mode & 0o077 == 0
    for place in (data / "ledger.db", data / "index" / "index.db", *(data / "vault").rglob("*.md")):
        assert place.stat().st_mode & 0o077 == 0, place


# ---- the network

LISTENING = """
import os, sys
def heard(event, arguments):
    asked = event == "socket.getaddrinfo" or event == "socket.connect" and isinstance(arguments[1], tuple)
    if asked or event == "listening":
        with open(os.environ["HEARD"], "a") as file:
            print(os.getpid(), event, file=file)
sys.addaudithook(heard)
sys.audit("listening")
"""


def test_neither_the_daemon_nor_a_dream_uses_the_network(make: Make, tmp_path: Path) -> None:
    """Of the shipped model, and with both processes heard."""
    (tmp_path / "sitecustomize.py").write_text(LISTENING)
    heard = tmp_path / "heard"
    model = {"DREAMD_STORE__EMBEDDING__MODEL": "minilm", "PYTHONPATH": str(tmp_path), "HEARD": str(heard)}
    with make(**model) as daemon:
        turn = {"role": "user", "text": "We decided to keep the bookings in Postgres 16."}
        daemon.call("observe", session={"session_id": "s1", "channel": "shop"}, turns=[turn])
        daemon.wait_until_embedded(60)
        assert daemon.call("recall", query="Which database has the bookings?", channel="shop")["hits"]
        assert daemon.call("dream", wait=True)["state"] == "applied"
    lines = [line.split() for line in heard.read_text().splitlines()]
    assert {event for _, event in lines} == {"listening"}
    assert len({pid for pid, _ in lines}) >= 2

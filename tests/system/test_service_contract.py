"""What the unit file relies on, held on the real daemon by a manager of a few lines: no systemd is needed for it."""

from __future__ import annotations

import configparser
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest, Wire

pytestmark = pytest.mark.system

UNITS = Path(__file__).resolve().parents[2] / "systemd"
FIRST_PASSED = 3
WITHIN_S = 60.0

Make = Callable[..., DaemonUnderTest]


def unit(name: str, section: str) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser[section]


class Manager:
    """Listens in the daemon's place, starts it as the unit says, and hears what it notifies."""

    def __init__(self, daemon: DaemonUnderTest) -> None:
        self.daemon = daemon
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(daemon.socket_path)
        Path(daemon.socket_path).chmod(int(str(unit("dreamd.socket", "Socket")["SocketMode"]), 8))
        self.listener.listen()
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(f"{daemon.socket_path}-notify")
        self.notices.settimeout(WITHIN_S)

    def start(self, **environ: str) -> subprocess.Popen[bytes]:
        """Execute the unit's command with the socket as its first descriptor, and its own pid in the environment."""
        command = shlex.split(unit("dreamd.service", "Service")["ExecStart"].replace("@PYTHON@", sys.executable))
        passing = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
            "os.environ['WATCHDOG_PID'] = str(os.getpid()); os.execvp(sys.argv[2], sys.argv[2:])"
        )
        heard = {"NOTIFY_SOCKET": f"{self.daemon.socket_path}-notify", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "dreamd"}
        with self.daemon.log.open("ab") as log:
            self.daemon.process = subprocess.Popen(
                [sys.executable, "-c", passing, str(self.listener.fileno()), *command],
                env=self.daemon.environ | heard | environ,
                pass_fds=(self.listener.fileno(),),
                stdout=log,
                stderr=log,
            )
        return self.daemon.process

    def wait_for(self, message: str) -> list[str]:
        """Hear until a message comes; return what came before it."""
        before: list[str] = []
        while (said := self.notices.recv(4096).decode()) != message:
            before.append(said)
        return before

    def ask(self, method: str, **params: object) -> object:
        wire = Wire(self.daemon.socket_path, WITHIN_S)
        try:
            return wire.call(method, **params)
        finally:
            wire.close()

    def close(self) -> None:
        self.listener.close()
        self.notices.close()


@pytest.fixture
def manager(make: Make) -> Iterator[Manager]:
    one = Manager(make())
    yield one
    one.close()


def test_it_is_type_notify_and_watched() -> None:
    service = unit("dreamd.service", "Service")
    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert int(service["WatchdogSec"]) >= 30
    assert service["Restart"] == "on-failure"


def test_early_clients_are_answered_and_ready_is_sent_when_it_serves(manager: Manager) -> None:
    early = Wire(manager.daemon.socket_path, WITHIN_S)  # taken by the listening socket, as the first question is
    process = manager.start()
    manager.wait_for("READY=1")
    kept = early.call("remember", text="The spare key hangs behind the clock.")
    early.close()
    process.send_signal(signal.SIGTERM)
    manager.wait_for("STOPPING=1")
    assert process.wait(WITHIN_S) == 0
    assert Path(manager.daemon.socket_path).exists()  # it is the manager's: the next question starts the daemon again
    manager.start()
    manager.wait_for("READY=1")
    assert manager.ask("show", node_id=kept["node_id"])


def test_what_it_kept_is_there_when_it_is_started_again_after_a_kill(manager: Manager) -> None:
    process = manager.start()
    manager.wait_for("READY=1")
    kept = manager.ask("remember", text="The ladder is in the boathouse.")
    process.kill()
    process.wait()
    manager.start()
    manager.wait_for("READY=1")
    assert isinstance(kept, dict)
    assert manager.ask("show", node_id=kept["node_id"])


def test_the_watchdog_is_fed(manager: Manager) -> None:
    manager.start(WATCHDOG_USEC="2000000")
    manager.wait_for("READY=1")
    for _ in range(3):
        manager.wait_for("WATCHDOG=1")


def test_lasting_errors_end_with_a_code_that_is_not_restarted(manager: Manager, make: Make) -> None:
    not_tried_again = unit("dreamd.service", "Service")["RestartPreventExitStatus"].split()
    process = manager.start(DREAMD_LOG__LEVEL="NONSENSE")
    settings_code = process.wait(WITHIN_S)
    manager.start()
    manager.wait_for("READY=1")
    second = make("second", DREAMD_DATA_DIR=manager.daemon.environ["DREAMD_DATA_DIR"])
    second.start()
    assert second.process is not None
    second_code = second.process.wait(WITHIN_S)
    assert (settings_code, second_code) == (78, 75)
    assert {str(settings_code), str(second_code)} <= set(not_tried_again)

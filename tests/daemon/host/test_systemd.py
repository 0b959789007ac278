"""What systemd hears and passes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from dreamd.daemon.host.service_manager import Notifier, passed_descriptors


def test_messages_reach_the_manager_and_the_variables_are_taken_out(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "n"))
        manager.settimeout(5)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "n"), "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
        notifier = Notifier(environ)
        assert environ == {}
        assert notifier.watchdog_every_s == 1.5
        notifier.ready()
        notifier.watchdog()
        notifier.stopping()
        notifier.extend_start(1.5)
        said = [manager.recv(100) for _ in range(4)]
    assert said == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1", b"EXTEND_TIMEOUT_USEC=1500000"]
    notifier.watchdog()  # the manager is gone: no error


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="abstract sockets are Linux's")
def test_messages_reach_an_abstract_address() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0dreamd-test-{os.getpid()}")
        manager.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@dreamd-test-{os.getpid()}"}).ready()
        assert manager.recv(100) == b"READY=1"


def test_without_a_manager_nothing_happens() -> None:
    notifier = Notifier({})
    assert notifier.watchdog_every_s is None
    notifier.ready()


def test_a_watchdog_for_another_process_is_not_ours() -> None:
    assert Notifier({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_every_s is None
    assert Notifier({"WATCHDOG_USEC": "soon"}).watchdog_every_s is None


def test_sockets_passed_to_another_process_are_not_ours() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x"}
    assert passed_descriptors(environ) == []
    assert environ == {}

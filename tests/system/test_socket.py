"""The real daemon's socket under what happens to sockets: a cleaner of temporary files, a limit of open files."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import psutil
import pytest
from dreamd.daemon.app import WANTED_FILES

from tests.bench.daemon_under_test import DaemonUnderTest, Refused, Wire
from tests.system.waiting import until

pytestmark = pytest.mark.system


def test_a_socket_file_removed_under_a_living_daemon_is_made_again(daemon: DaemonUnderTest) -> None:
    for _ in range(2):
        Path(daemon.socket_path).unlink()
        until(lambda: Path(daemon.socket_path).exists())
        assert daemon.call("status")["problems"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_the_soft_limit_of_open_files_is_raised(daemon: DaemonUnderTest) -> None:
    assert daemon.process is not None
    soft, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    assert soft >= min(WANTED_FILES, hard)


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_at_the_limit_of_open_files_each_client_is_served_or_told_why_not(daemon: DaemonUnderTest) -> None:
    assert daemon.process is not None
    daemon.call("recall", query="anything")
    served = daemon.wire()
    process = psutil.Process(daemon.process.pid)
    room = process.num_fds() + 4
    resource.prlimit(
        process.pid, resource.RLIMIT_NOFILE, (room, resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1])
    )
    lines_before = len(daemon.log.read_text().splitlines())
    told: list[str] = []
    wires: list[Wire] = []
    for _ in range(40):
        wires.append(daemon.wire())
        try:
            assert wires[-1].call("ping") == {}
        except Refused as error:
            told.append(str(error))
    assert len(told) >= 30
    assert all("no file descriptor" in reason for reason in told)
    assert served.call("ping") == {}
    assert len(daemon.log.read_text().splitlines()) - lines_before <= 5
    for wire in wires:
        wire.close()
    until(lambda: process.num_fds() < room - 2)
    assert daemon.call("ping") == {}
    assert json.dumps(served.call("status"))
    served.close()

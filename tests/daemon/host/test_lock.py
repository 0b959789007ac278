"""One daemon a vault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dreamd.daemon.host.lock import AlreadyRunning, DaemonLock


def test_a_second_daemon_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    first, second = (DaemonLock(tmp_path / "data", tmp_path / "data" / "vault") for _ in range(2))
    first.acquire()
    with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_two_data_folders_cannot_share_a_vault(tmp_path: Path) -> None:
    first = DaemonLock(tmp_path / "one", tmp_path / "vault")
    second = DaemonLock(tmp_path / "two", tmp_path / "vault")
    (tmp_path / "vault").mkdir()
    first.acquire()
    with pytest.raises(AlreadyRunning, match="already serves the vault"):
        second.acquire()
    third = DaemonLock(tmp_path / "two", tmp_path / "other")
    third.acquire()  # the failed try let go of its own folder
    third.release()
    first.release()


def test_a_killed_daemon_leaves_no_lock(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib; from dreamd.daemon.host.lock import DaemonLock;"
        "p = pathlib.Path(sys.argv[1]); DaemonLock(p, p / 'vault').acquire(); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lock = DaemonLock(tmp_path, tmp_path / "vault")
        with pytest.raises(AlreadyRunning):
            lock.acquire()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        lock.acquire()
        lock.release()


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = DaemonLock(tmp_path, tmp_path / "vault")
    lock.acquire()
    program = "print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        lock.release()
        lock.acquire()
        lock.release()
        child.communicate(b"\n")


def test_a_vault_that_is_not_there_is_not_made_and_is_claimed_when_it_is(tmp_path: Path) -> None:
    first, second = (DaemonLock(tmp_path / name, tmp_path / "vault") for name in ("one", "two"))
    first.acquire()
    second.acquire()
    assert not (tmp_path / "vault").exists()
    (tmp_path / "vault").mkdir()
    assert first.claim_vault()
    assert first.claim_vault()
    assert not second.claim_vault()
    (tmp_path / "vault").rename(tmp_path / "away")
    (tmp_path / "vault").mkdir()
    assert second.claim_vault()  # another folder at the same path
    first.release()
    second.release()

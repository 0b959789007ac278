from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.ipc.server import listener
from dreamd.ipc.server.listener import AddressInUse, Listener, ListenerError, adopt_listener, open_listener, peer_uid
from dreamd.ipc.socket_path import MAX_SOCKET_PATH_BYTES, default_socket_path


@pytest.fixture
def path(socket_folder: Path) -> Path:
    return socket_folder / "dreamd" / "dreamd.sock"


@pytest.fixture
def opened(path: Path) -> Iterator[Listener]:
    made = open_listener(path)
    yield made
    made.close()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folder_and_socket_are_the_owner_s_alone(opened: Listener, path: Path) -> None:
    assert mode_of(path.parent) == 0o700
    assert mode_of(path) == 0o600
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_a_socket_that_is_seen_can_be_connected_to(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen_before_it_listens: list[bool] = []

    class SlowToListen(socket.socket):
        def listen(self, backlog: int = 0, /) -> None:
            seen_before_it_listens.append(path.exists())
            super().listen(backlog)

    monkeypatch.setattr(socket, "socket", SlowToListen)
    open_listener(path).close()
    assert seen_before_it_listens == [False]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name + ".lock"]


def test_our_own_folder_is_made_narrow_again(path: Path) -> None:
    path.parent.mkdir(mode=0o755)
    path.parent.chmod(0o755)
    open_listener(path).close()
    assert mode_of(path.parent) == 0o700


def test_a_folder_that_others_may_write_to_is_refused(socket_folder: Path) -> None:
    open_folder = socket_folder / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    with pytest.raises(ListenerError, match="others may write") as caught:
        open_listener(open_folder / "dreamd.sock")
    assert "DREAMD_SOCKET" in caught.value.hint
    assert mode_of(open_folder) == 0o777


def test_a_path_too_long_is_refused_with_what_to_do(socket_folder: Path) -> None:
    longest = socket_folder / ("x" * (MAX_SOCKET_PATH_BYTES - len(os.fsencode(socket_folder)) - 1))
    open_listener(longest).close()
    with pytest.raises(ListenerError, match="104 bytes") as caught:
        open_listener(longest.with_name(longest.name + "x"))
    assert "DREAMD_SOCKET" in caught.value.hint


def test_a_client_that_connects_before_accept_waits(opened: Listener, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"early\n")
        opened.socket.setblocking(True)
        accepted, _ = opened.socket.accept()
        with accepted:
            assert accepted.recv(16) == b"early\n"
            assert peer_uid(accepted) == os.geteuid()


def test_the_socket_of_a_living_daemon_is_not_replaced(opened: Listener, path: Path) -> None:
    with pytest.raises(AddressInUse) as caught:
        open_listener(path)
    assert "dreamctl stop" in caught.value.hint
    assert path.exists()


def test_a_living_socket_without_our_lock_is_not_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        with pytest.raises(AddressInUse):
            open_listener(path)
        assert path.exists()


def test_a_living_socket_whose_queue_is_full_is_alive(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PROBE_TIMEOUT_S", 0.1)
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.bind(str(path))
        other.listen(0)
        waiting.setblocking(False)
        waiting.connect(str(path))
        with pytest.raises(AddressInUse):
            open_listener(path)


def test_a_stale_socket_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    open_listener(path).close()
    assert not path.exists()


def test_the_socket_of_a_killed_daemon_is_replaced(path: Path) -> None:
    listens = f"from dreamd.ipc.server.listener import open_listener; open_listener({str(path)!r})"
    code = f"{listens}; print(flush=True); input()"
    with subprocess.Popen((sys.executable, "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        with pytest.raises(AddressInUse):
            open_listener(path)
        daemon.kill()
    open_listener(path).close()


def test_a_file_that_is_no_socket_is_left_and_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("a person's file")
    with pytest.raises(ListenerError, match="no socket"):
        open_listener(path)
    assert path.read_text() == "a person's file"


def test_of_two_daemons_that_start_at_once_one_wins(path: Path) -> None:
    won: list[Listener] = []
    lost: list[AddressInUse] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        try:
            won.append(open_listener(path))
        except AddressInUse as error:
            lost.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    won[0].close()


def test_closing_leaves_the_socket_of_a_successor(path: Path) -> None:
    first = open_listener(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(path))
        first.close()
        assert path.exists()


def test_a_passed_socket_is_listened_on_and_left(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(path))
        passed.listen(1)
        adopted = adopt_listener(os.dup(passed.fileno()))
        assert adopted.path is None
        adopted.close()
        assert path.exists()


def test_a_passed_descriptor_that_is_no_such_socket_is_refused() -> None:
    with socket.socket(socket.AF_INET) as passed, pytest.raises(ListenerError, match="no Unix stream socket"):
        adopt_listener(os.dup(passed.fileno()))
    with Path(os.devnull).open() as file, pytest.raises(ListenerError, match="no Unix stream socket"):
        adopt_listener(os.dup(file.fileno()))


def test_where_the_socket_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_socket_path({"DREAMD_SOCKET": "/a/b", "XDG_RUNTIME_DIR": "/run/user/1"}) == "/a/b"
    assert default_socket_path({"XDG_RUNTIME_DIR": "/run/user/1"}) == "/run/user/1/dreamd/dreamd.sock"
    assert default_socket_path({"XDG_RUNTIME_DIR": "relative", "HOME": "/h"}) == "/h/.local/state/dreamd/dreamd.sock"
    assert default_socket_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == "/s/dreamd/dreamd.sock"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_socket_path({"HOME": "/h"}) == "/h/Library/Application Support/dreamd/dreamd.sock"

"""A socket file that is removed, descriptors that run out, clients for whom there is no room."""

from __future__ import annotations

import errno
import os
import select
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.client import DaemonError
from dreamd.ipc.params import NoParams
from dreamd.ipc.protocol import BUSY, encode_request
from dreamd.ipc.server import listener, server
from dreamd.ipc.server.listener import Listener, adopt_listener, open_listener
from loguru import logger

from tests.ipc.conftest import Serve, Serving
from tests.ipc.methods import method

PING = {"ping": method(NoParams, lambda params, call: {})}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SOCKET_CHECK_S", 0.02)
    monkeypatch.setattr(listener, "PAUSE_S", 0.02)


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """Give what is logged."""
    said: list[str] = []
    sink = logger.add(lambda message: said.append(message.record["message"]), level="WARNING")
    yield said
    logger.remove(sink)


def until_it_answers(serving: Serving) -> None:
    """Wait inside the client, which waits for a daemon that is just starting."""
    client = serving.client()
    client._wait_s = 10.0
    with client:
        assert client.call("ping") == {}


def remove_file(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("remove", [remove_file, remove_folder])
def test_a_socket_file_that_is_removed_is_made_again(
    serve: Serve, socket_folder: Path, warnings: list[str], remove: Callable[[Path], None]
) -> None:
    path = socket_folder / "dreamd" / "dreamd.sock"
    serving = serve(PING, listener=open_listener(path))
    serving.path = path
    before = serving.connect()
    for _ in range(2):
        remove(path)
        until_it_answers(serving)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    before.call(1, "ping")
    assert before.receive()["result"] == {}
    assert serving.server.socket_problem == ""
    assert len(warnings) == 2
    serving.stop()
    assert not path.exists()


def test_a_service_manager_s_socket_is_made_again_and_reported(serve: Serve, socket_folder: Path) -> None:
    path = socket_folder / "manager.sock"
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    serving = serve(PING, listener=adopt_listener(made.detach()))
    serving.path = path
    until_it_answers(serving)
    assert serving.server.socket_problem == ""
    path.unlink()
    until_it_answers(serving)
    assert "systemctl --user restart dreamd.socket" in serving.server.socket_problem


def test_a_taken_path_is_logged_once_and_tried_again(serve: Serve, socket_folder: Path, warnings: list[str]) -> None:
    serving = serve(PING)
    before = serving.connect()
    serving.path.unlink()
    serving.path.mkdir()
    looks = threading.Semaphore(0)
    look = serving.server._check_socket

    def counted() -> None:
        look()
        looks.release()

    serving.server._check_socket = counted  # type: ignore[method-assign]
    for _ in range(4):
        assert looks.acquire(timeout=10)
    assert "cannot be made again" in serving.server.socket_problem
    assert len(warnings) == 1
    before.call(1, "ping")
    assert before.receive()["result"] == {}
    serving.path.rmdir()
    until_it_answers(serving)
    assert serving.server.socket_problem == ""


class Scarce:
    """A listening socket for whose waiting client there is no descriptor left, `short` times."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.short = 0

    def accept(self) -> Any:
        # A look that finds nobody (after the client before was accepted) uses up none of them.
        if self.short and select.select([self._real], [], [], 0)[0]:
            self.short -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def scarce(serve: Serve, socket_folder: Path) -> tuple[Serving, Scarce]:
    opened = open_listener(socket_folder / "dreamd.sock")
    scarce = Scarce(opened.socket)
    opened.socket = scarce  # type: ignore[assignment]
    return serve(PING, listener=opened), scarce


def test_without_a_descriptor_a_client_is_refused_with_a_reason(
    scarce: tuple[Serving, Scarce], warnings: list[str]
) -> None:
    serving, listening = scarce
    for _ in range(3):
        listening.short = 1  # the reserve makes room for the second try
        with serving.client() as client, pytest.raises(DaemonError, match="no file descriptor") as caught:
            client.call("ping")
        assert caught.value.code == BUSY
        assert "ulimit" in caught.value.hint
    assert len(warnings) == 1
    assert serving.ask("ping") == {}


def test_when_no_client_can_even_be_refused_clients_wait(
    scarce: tuple[Serving, Scarce], warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving, listening = scarce
    for held in serving.server._acceptors:
        monkeypatch.setattr(held, "_keep_reserve", lambda: False)
        held._let_reserve_go()
    listening.short = 5
    assert serving.ask("ping") == {}
    assert listening.short == 0
    assert len(warnings) == 1


def test_one_client_too_many_is_refused_even_if_it_has_written(serve: Serve) -> None:
    serving = serve(PING, max_connections=1)
    first = serving.connect()
    first.call(1, "ping")
    first.receive()
    held = threading.Event()
    serving.loop.call_soon_threadsafe(held.wait, 10)
    wires = [serving.connect() for _ in range(40)]  # more than are waited for
    for wire in wires[:32]:
        wire.send(*(encode_request(n, "ping", {}) for n in range(1000)))
    held.set()
    for wire in wires[:32]:
        assert wire.receive()["error"]["code"] == BUSY
    for _ in range(20):
        with serving.client() as client, pytest.raises(DaemonError) as caught:
            client.call("ping")
        assert caught.value.code == BUSY


def test_a_socket_with_an_abstract_name_is_never_lost() -> None:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"\0dreamd-test-{os.getpid()}")
    sock.listen()
    listening = Listener(sock)
    assert listening.place is None
    assert not listening.is_lost()
    listening.close()

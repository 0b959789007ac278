"""Clients that wait for a daemon which cannot start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.daemon.host.service_manager import turn_away
from dreamd.ipc.client import Absent, Client

AGES_S = 1e6


class Unfit(Exception):
    hint = "mend it"


@pytest.fixture
def listener(socket_folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(socket_folder / "s"))
        sock.listen()
        yield sock


def waiting(listener: socket.socket) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(listener.getsockname())
    client.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n' * 100)
    return client


def test_without_waiting_clients_a_refusal_ends_at_once(listener: socket.socket) -> None:
    assert turn_away(listener.dup().detach(), Unfit("no"), lambda: True, AGES_S) == 0


def test_every_waiting_client_gets_the_reason_and_the_socket_stays(listener: socket.socket) -> None:
    clients = [waiting(listener) for _ in range(3)]
    assert turn_away(listener.dup().detach(), Unfit("a.toml is not TOML."), lambda: True, 0.0) == 3
    for client in clients:
        with client:
            assert client.recv(2**16) == (
                b'{"jsonrpc":"2.0","id":null,"error":{"code":-32010,'
                b'"message":"dreamd could not start: a.toml is not TOML.","data":{"hint":"mend it"}}}\n'
            )
    waiting(listener).close()  # it still listens


def test_a_client_after_the_repair_is_left_for_the_next_start(listener: socket.socket) -> None:
    with waiting(listener) as client:
        assert turn_away(listener.dup().detach(), Unfit("no"), lambda: False, AGES_S) == 0
        with listener.accept()[0] as left:
            assert left.recv(2**16)
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)


def test_a_client_that_left_costs_nothing(listener: socket.socket) -> None:
    waiting(listener).close()
    with waiting(listener) as client:
        turn_away(listener.dup().detach(), Unfit("no"), lambda: True, 0.0)
        assert b"could not start" in client.recv(2**16)


def test_the_client_takes_it_for_an_absent_daemon(listener: socket.socket) -> None:
    import threading

    answers = [True]  # the first only: then it is mended, and the thread ends
    with waiting(listener):
        thread = threading.Thread(
            target=turn_away, args=(listener.dup().detach(), Unfit("no"), lambda: bool(answers), AGES_S)
        )
        thread.start()
        with (
            Client(str(listener.getsockname())) as client,
            pytest.raises(Absent, match="could not start: no") as raised,
        ):
            client.call("ping")
        assert raised.value.hint == "mend it"
        answers.clear()
        waiting(listener).close()
        thread.join(10)
        assert not thread.is_alive()

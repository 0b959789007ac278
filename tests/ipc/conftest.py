"""A server in a thread of its own, on a socket whose path is short enough."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.client import Client
from dreamd.ipc.server.listener import Listener, open_listener
from dreamd.ipc.server.server import Attach, Server
from dreamd.ipc.settings import IpcSettings

from tests.ipc.methods import AnyMethod, named


class Serving:
    """A server that runs, and ways to talk to it with and without the client."""

    def __init__(
        self,
        path: Path,
        handlers: Mapping[str, AnyMethod],
        settings: IpcSettings,
        listener: Listener | None = None,
        protocols: Mapping[str, Attach] | None = None,
    ) -> None:
        self.path = path
        self.active: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.server = Server(named(dict(handlers)), settings, self.active.append, protocols)
        self._wires: list[Wire] = []
        self._stopped = False
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.run(self.server.start(listener or open_listener(path)))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def client(self, timeout_s: float | None = 10.0) -> Client:
        return Client(str(self.path), timeout_s, wait_s=0.0)

    def connect(self) -> Wire:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        try:
            sock.connect(str(self.path))
        except OSError:
            sock.close()
            raise
        self._wires.append(Wire(sock))
        return self._wires[-1]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        with self.client() as client:
            return client.call(method, params)

    def stop(self, grace_s: float | None = None) -> None:
        if not self._stopped:
            self._stopped = True
            self.run(self.server.stop(grace_s))

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self.stop(0.2)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class Wire:
    """A connection spoken by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._file = sock.makefile("rb")

    def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        lines = [
            message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n" for message in messages
        ]
        self.socket.sendall(b"".join(lines))

    def call(self, request_id: object, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    def receive(self) -> dict[str, Any]:
        line = self._file.readline()
        assert line.endswith(b"\n"), "the connection was closed"
        message: dict[str, Any] = json.loads(line)
        return message

    def is_closed(self) -> bool:
        try:
            return self._file.readline() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()


Serve = Callable[..., Serving]


@pytest.fixture
def serve(socket_folder: Path) -> Iterator[Serve]:
    started: list[Serving] = []

    def start(
        handlers: Mapping[str, AnyMethod],
        listener: Listener | None = None,
        protocols: Mapping[str, Attach] | None = None,
        **settings: Any,
    ) -> Serving:
        path = socket_folder / "dreamd.sock"
        started.append(Serving(path, handlers, IpcSettings(**settings), listener, protocols))
        return started[-1]

    yield start
    for serving in started:
        serving.close()

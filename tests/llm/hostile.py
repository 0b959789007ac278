"""A server that misbehaves on the wire: it is told, byte by byte, what to say to a question."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nConnection: close\r\n"
Misbehaviour = Callable[["Peer"], None]


class Peer:
    """The one who asked. `gone` is set once it hung up."""

    def __init__(self, connection: socket.socket, kind: bytes, stop: threading.Event) -> None:
        self.connection = connection
        self.kind = kind
        self.stop = stop

    def say(self, data: bytes) -> bool:
        """Send bytes; False once nobody is there."""
        try:
            self.connection.sendall(data)
        except OSError:
            return False
        return True

    def head(self, *more: bytes) -> None:
        self.say(HEAD % self.kind + b"".join(line + b"\r\n" for line in more) + b"\r\n")

    def wait_until_gone(self) -> bool:
        """Whether the other side hung up before the test ended."""
        if self.connection.fileno() < 0:
            return False
        self.connection.settimeout(0.05)
        while not self.stop.is_set():
            try:
                if not self.connection.recv(4096):
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
        return False


class HostileServer:
    """Answers what it is asked for presence, and misbehaves at every question."""

    def __init__(self, misbehave: Misbehaviour, kind: str = "application/x-ndjson") -> None:
        self.misbehave = misbehave
        self.stop = threading.Event()
        self.asked = threading.Event()
        self.left = threading.Event()
        self.questions = 0
        self._kind = kind.encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def close(self) -> None:
        self.stop.set()
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=1).close()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self.stop.is_set():
            connection, _ = self._listener.accept()
            thread = threading.Thread(target=self._answer, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            path = _path_of(connection)
            if path.endswith(("/ps", "/tags", "/models")):
                listed = json.dumps({"models": [], "data": []}).encode()
                connection.sendall(HEAD % b"application/json" + b"Content-Length: %d\r\n\r\n" % len(listed) + listed)
            elif path:
                self.questions += 1
                self.asked.set()
                peer = Peer(connection, self._kind, self.stop)
                self.misbehave(peer)
                if not self.stop.is_set() and peer.wait_until_gone():
                    self.left.set()


def _path_of(connection: socket.socket) -> str:
    """Read one request whole; "" if there is none."""
    connection.settimeout(5)
    data = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                return ""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        wanted = _length(head)
        while len(body) < wanted:
            body += connection.recv(65536)
        return head.split(b" ")[1].decode()
    return ""


def _length(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


@contextlib.contextmanager
def hostile(misbehave: Misbehaviour, kind: str) -> Iterator[HostileServer]:
    """Run a server that misbehaves in one way."""
    server = HostileServer(misbehave, kind)
    try:
        yield server
    finally:
        server.close()

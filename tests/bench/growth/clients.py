"""Many clients that ask at once, each its next question as soon as the last is answered."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

READ_BYTES = 2**18


def per_second(path: str, clients: int, lines: Sequence[bytes]) -> float:
    """Return the questions answered a second. Raises RuntimeError for one that is refused."""
    with ExitStack() as stack:
        ready = stack.enter_context(selectors.DefaultSelector())
        for _ in range(clients):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.connect(path)
            ready.register(connection, selectors.EVENT_READ, bytearray())
        began = time.perf_counter()
        _drive(ready, iter(lines), len(lines))
        return len(lines) / (time.perf_counter() - began)


def _drive(ready: selectors.BaseSelector, lines: Iterator[bytes], waiting: int) -> None:
    for key in list(ready.get_map().values()):
        _send(key, lines)
    while waiting:
        for key, _ in ready.select():
            key.data.extend(_connection(key).recv(READ_BYTES))
            if key.data.endswith(b"\n"):
                if b'"result"' not in key.data:
                    raise RuntimeError(f"a question was refused: {bytes(key.data[:500])!r}")
                key.data.clear()
                waiting -= 1
                _send(key, lines)


def _send(key: selectors.SelectorKey, lines: Iterator[bytes]) -> None:
    if line := next(lines, None):
        _connection(key).sendall(line)


def _connection(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj

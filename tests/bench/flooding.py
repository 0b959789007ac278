"""Clients that ask more than their share: `python -m tests.bench.flooding SOCKET KIND`, until its input is closed.

A process of its own, so that it takes nothing from the client that is measured but what the daemon gives it.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARKS = "\"'(){}[]*?!.,:;/\\|=+-_~^%$#@&<>"
PAGE_CHARS = 65_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A flood: how many clients, how many requests each has open (0: as many as fit), and whether they read answers."""

    method: str
    clients: int
    open: int
    reads: bool
    params: Callable[[random.Random], dict[str, Any]]


def nothing(rng: random.Random) -> dict[str, Any]:
    """Ask without parameters."""
    return {}


def page_of_marks(rng: random.Random) -> dict[str, Any]:
    """Ask a page of punctuation; no two are alike."""
    return {"query": "".join(rng.choices(MARKS, k=PAGE_CHARS))}


def page_of_a_log(rng: random.Random) -> dict[str, Any]:
    """Ask a page of a build's log; no two are alike."""
    lines = []
    for number in range(PAGE_CHARS // 65):
        word = rng.choice(("error", "warning", "deploy", "database", "payment", "order", "customer", "backup"))
        lines.append(f"[{number:05}] {word}: {rng.getrandbits(48):012x} at line {rng.randrange(9999)} of the build")
    return {"query": "\n".join(lines)[:PAGE_CHARS]}


KINDS = {
    "list": Kind("list", clients=20, open=0, reads=False, params=nothing),
    "marks": Kind("recall", clients=3, open=4, reads=True, params=page_of_marks),
    "logs": Kind("recall", clients=3, open=4, reads=True, params=page_of_a_log),
    "ping": Kind("ping", clients=1, open=1000, reads=True, params=nothing),
}


@dataclass(slots=True)
class Counts:
    """What a flood came to: requests that the socket took, answers that were read, errors among them, connections."""

    sent: int = 0
    answered: int = 0
    errors: int = 0
    connections: int = 0


class Flooder:
    """Drives every client of one flood in one thread."""

    def __init__(self, path: str, kind: Kind, rng: random.Random) -> None:
        self.counts = Counts()
        self._path = path
        self._kind = kind
        self._rng = rng
        self._selector = selectors.DefaultSelector()
        for _ in range(kind.clients):
            self._connect()

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Flood, and look after each round whether to go on."""
        while goes_on():
            for key, events in self._selector.select(0.05):
                client = key.data
                try:
                    if events & selectors.EVENT_READ:
                        self._read(client)
                    if events & selectors.EVENT_WRITE:
                        self._write(client)
                except ConnectionError:  # dropped, as one that does not read must be
                    self._close(client)
                    self._connect()

    def close(self) -> None:
        """Leave, with everything open that was asked."""
        for key in list(self._selector.get_map().values()):
            self._close(key.data)
        self._selector.close()

    def _connect(self) -> None:
        client = Client(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        client.socket.connect(self._path)
        client.socket.setblocking(False)
        self.counts.connections += 1
        self._selector.register(client.socket, self._interest(client), client)

    def _close(self, client: Client) -> None:
        self._selector.unregister(client.socket)
        client.socket.close()

    def _interest(self, client: Client) -> int:
        wants = selectors.EVENT_READ if self._kind.reads else 0
        if client.rest or not self._kind.open or client.open < self._kind.open:
            wants |= selectors.EVENT_WRITE
        return wants

    def _read(self, client: Client) -> None:
        data = client.socket.recv(2**18)
        if not data:
            raise ConnectionResetError
        ends = data.count(b"\n")
        self.counts.answered += ends
        self.counts.errors += data.count(b'"error":{')
        client.open -= ends
        self._selector.modify(client.socket, self._interest(client), client)

    def _write(self, client: Client) -> None:
        if not client.rest:
            client.number += 1
            asked = {"jsonrpc": "2.0", "id": client.number, "method": self._kind.method}
            client.rest = json.dumps(asked | {"params": self._kind.params(self._rng)}).encode() + b"\n"
            client.open += 1
        with suppress(BlockingIOError):
            client.rest = client.rest[client.socket.send(client.rest) :]
        self.counts.sent += not client.rest
        self._selector.modify(client.socket, self._interest(client), client)


@dataclass(slots=True)
class Client:
    """One connection: the id of its last request, how many are open, and what is left to send of it."""

    socket: socket.socket
    number: int = 0
    open: int = 0
    rest: bytes = b""


@contextmanager
def flooding(path: str, name: str) -> Iterator[Counts]:
    """Have a process flood while the block runs, from its first requests on; the counts are there afterwards."""
    counts = Counts()
    command = [sys.executable, "-m", "tests.bench.flooding", path, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"begun\n":
                raise RuntimeError(f"the flood of {name} did not begin")
            yield counts
            process.stdin.close()
            for field, number in json.loads(process.stdout.readline()).items():
                setattr(counts, field, number)
        finally:
            process.kill()


def main() -> None:
    """Flood until standard input is closed, then print the counts."""
    path, name = sys.argv[1:]
    kind = KINDS[name]
    flooder = Flooder(path, kind, random.Random(name))
    watching = selectors.DefaultSelector()
    watching.register(sys.stdin, selectors.EVENT_READ)
    flooder.run(lambda: flooder.counts.sent < 2 * kind.clients)
    print("begun", flush=True)
    flooder.run(lambda: not watching.select(0))
    print(json.dumps(asdict(flooder.counts)), flush=True)


if __name__ == "__main__":
    main()

"""Deletes read back on many connections while others ask: how often one that was acknowledged is told still.

python -m tests.bench.deletes
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.bench.daemon_under_test import DaemonUnderTest, Refused, Wire

CONNECTIONS: Final = 16
ASKING: Final = 4
CHANNEL: Final = "inn"
SPACE: Final = ["inn"]
_numbers = count()
TTL_MINUTES: Final = 0.002
"""Of a document that expires: 120 ms."""


def told(wire: Wire, word: str, node_id: str) -> list[str]:
    """Return the methods whose answer on this connection still holds a word."""
    asked: dict[str, dict[str, Any]] = {
        "recall": {"query": f"{word} hotel", "channel": CHANNEL},
        "context": {"query": f"{word} hotel", "channel": CHANNEL},
        "list": {"channel": CHANNEL, "limit": 500},
        "show": {"node_id": node_id},
        "document_list": {"space": SPACE},
        "document_search": {"space": SPACE, "query": f"{word} hotel"},
    }
    found = []
    for method, params in asked.items():
        try:
            answer = wire.call(method, **params)
        except Refused:  # there is none of this id any more
            continue
        found += [method] if word in str({**answer, "query": "", "notes": ""}) else []
    return found


def _document(wire: Wire, word: str, **more: Any) -> str:
    params = {"space": SPACE, "key": word, "value": f"The {word} hotel is in Oak street.", "channel": CHANNEL}
    return str(wire.call("document_put", **params, **more)["node_id"])


def _delete(wire: Wire, word: str) -> tuple[str, Callable[[], None]]:
    return _document(wire, word), lambda: wire.call("document_delete", space=SPACE, key=word)


def _rename(wire: Wire, word: str) -> tuple[str, Callable[[], None]]:
    """Rename a document, and replace what it says: its first name and words are gone then."""

    def rename() -> None:
        wire.call("document_rename", space=SPACE, key=word, to="moved")
        wire.call("document_delete", space=SPACE, key="moved")

    return _document(wire, word), rename


def _expire(wire: Wire, word: str) -> tuple[str, Callable[[], None]]:
    def expire() -> None:
        while wire.call("document_get", space=SPACE, key=word)["document"] is not None:
            pass

    return _document(wire, word, ttl_minutes=TTL_MINUTES), expire


def _forget(wire: Wire, word: str) -> tuple[str, Callable[[], None]]:
    node_id = str(wire.call("remember", text=f"The {word} hotel is in Oak street.", channel=CHANNEL)["node_id"])
    return node_id, lambda: wire.call("forget", node_id=node_id)


def _turn(wire: Wire, word: str) -> str:
    turns = [{"role": "user", "text": text} for text in ("What about a room?", f"The {word} hotel is in Oak street.")]
    session_id = f"s{next(_numbers)}"
    wire.call("observe", session={"session_id": session_id, "channel": CHANNEL}, turns=turns)
    return f"{session_id}#2"


def _forget_turn(wire: Wire, word: str) -> tuple[str, Callable[[], None]]:
    node_id = _turn(wire, word)
    return node_id, lambda: wire.call("forget", node_id=node_id)


def _purge(wire: Wire, word: str) -> tuple[str, Callable[[], None]]:
    return _turn(wire, word), lambda: wire.call("purge", matching=word)


KINDS: Final[dict[str, Callable[[Wire, str], tuple[str, Callable[[], None]]]]] = {
    "delete": _delete,
    "rename": _rename,
    "expiry": _expire,
    "forget": _forget,
    "forget a turn": _forget_turn,
    "purge": _purge,
}


def stale(daemon: DaemonUnderTest, rounds: int, connections: int = CONNECTIONS) -> dict[str, Counter[str]]:
    """Return by kind of deletion how often which method told what was deleted, of `rounds` on each connection."""
    found: dict[str, Counter[str]] = {}
    wires = [daemon.wire() for _ in range(connections)]
    with ThreadPoolExecutor(connections) as pool, _others_asking(daemon):
        for kind, make in KINDS.items():
            found[kind] = Counter()
            for number in range(rounds):
                word = f"zorro{kind.replace(' ', '')}{number}"
                node_id, delete = make(wires[0], word)
                list(pool.map(told, wires, [word] * connections, [node_id] * connections))  # every cache has it
                delete()
                for methods in pool.map(told, wires, [word] * connections, [node_id] * connections):
                    found[kind].update(methods)
    for wire in wires:
        wire.close()
    return found


@contextmanager
def _others_asking(daemon: DaemonUnderTest) -> Iterator[None]:
    done = threading.Event()

    def ask(number: int) -> None:
        wire, times = daemon.wire(), 0
        while not done.is_set():
            times += 1
            wire.call("recall", query=f"what about hotel {number} {times}?", channel=CHANNEL)
        wire.close()

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(ASKING)]
    for thread in asking:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in asking:
            thread.join()


def main() -> None:
    """Print how often what was deleted is told."""
    rounds = 10
    with tempfile.TemporaryDirectory() as folder, DaemonUnderTest(Path(folder), {}) as daemon:
        for kind, methods in stale(daemon, rounds).items():
            print(f"{kind}: {sum(methods.values())} stale of {rounds * CONNECTIONS} times read back", dict(methods))


if __name__ == "__main__":
    main()

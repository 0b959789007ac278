"""The floods of the benchmark on the real daemon: another client is answered, and long before the flood is through.

By counts and by order: what it takes says nothing on a busy machine.
"""

from __future__ import annotations

import contextlib
import json
import random

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest, Wire
from tests.bench.flooding import KINDS, Flooder, flooding

pytestmark = pytest.mark.system

RECALLS = 10


@pytest.fixture(scope="module")
def stocked(shared: DaemonUnderTest) -> DaemonUnderTest:
    """Give a daemon that has something to list and to find."""
    turns = [{"role": "user", "text": f"Order {n} was delivered by courier {n % 7}."} for n in range(300)]
    shared.call("observe", session={"session_id": "orders", "channel": "orders"}, turns=turns)
    shared.call("list")
    return shared


@pytest.mark.parametrize("name", KINDS)
def test_another_client_is_answered_beside_a_flood(stocked: DaemonUnderTest, name: str) -> None:
    mine = stocked.wire()
    with flooding(stocked.socket_path, name) as flood:
        for number in range(RECALLS):
            assert mine.call("recall", query=f"courier of order {number}", channel="orders")["hits"]
    mine.close()
    assert flood.sent >= 2 * KINDS[name].clients  # it was one
    assert flood.errors == 0
    assert stocked.call("status")["problems"] == []


def test_recalls_are_answered_long_before_the_lists_that_others_asked_first(stocked: DaemonUnderTest) -> None:
    """Twenty clients have 100 lists open each, and read; ten recalls need not wait for half of them."""
    kind = KINDS["list"]
    asked = 100 * kind.clients
    wires = [stocked.wire() for _ in range(kind.clients)]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": "list"}).encode() + b"\n" for n in range(100)]
    for wire in wires:
        wire._socket.sendall(b"".join(lines))
    mine = stocked.wire()
    for number in range(RECALLS):
        assert mine.call("recall", query=f"courier of order {number}", channel="orders")["hits"]
    assert sum(map(answers_so_far, wires)) < asked / 2
    for wire in (*wires, mine):
        wire.close()


def answers_so_far(wire: Wire) -> int:
    answered = 0
    wire._socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while data := wire._socket.recv(2**18):
            answered += data.count(b"\n")
    return answered


def test_a_flood_that_is_dropped_comes_again_and_is_counted(stocked: DaemonUnderTest) -> None:
    flooder = Flooder(stocked.socket_path, KINDS["ping"], random.Random(0))
    flooder.run(lambda: flooder.counts.answered < 3000)
    flooder.close()
    assert flooder.counts.sent >= flooder.counts.answered >= 3000
    assert (flooder.counts.errors, flooder.counts.connections) == (0, 1)

"""What one client may cost another, by what is answered before what; the clock says nothing here."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from dreamd.ipc.call import Call
from dreamd.ipc.client import DaemonError
from dreamd.ipc.params import NoParams
from dreamd.ipc.protocol import BUSY, encode_notification, encode_request
from dreamd.ipc.server import lanes

from tests.ipc.conftest import Serve, Serving, Wire
from tests.ipc.methods import method
from tests.ipc.server.test_server import Echo, wait_for


class Worked:
    """A blocking handler that notes what it began, and lets one call through for each permit."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.permits = threading.Semaphore(0)

    def __call__(self, params: Echo, call: Call) -> dict[str, Any]:
        self.texts.append(params.text)
        assert self.permits.acquire(timeout=20)
        return {"text": params.text}


def flood(serving: Serving, method: str, clients: int, requests: int) -> list[Wire]:
    """Clients that ask and do not read."""
    wires = [serving.connect() for _ in range(clients)]
    for number, wire in enumerate(wires):
        wire.send(*(encode_request(n, method, {"text": f"flood {number}"}) for n in range(requests)))
    return wires


def test_a_recall_is_answered_before_what_others_list(serve: Serve) -> None:
    listed, recalled = Worked(), Worked()
    recalled.permits.release(100)
    handlers = {"list": method(Echo, listed, blocking=True), "recall": method(Echo, recalled, True, first=True)}
    serving = serve(handlers)
    flood(serving, "list", clients=20, requests=50)
    wait_for(serving, lambda: len(serving.server.connections) == 20 and listed.texts)
    for number in range(10):
        assert serving.ask("recall", text=f"mine {number}")["text"] == f"mine {number}"
    assert len(listed.texts) <= 2  # no list was let through, and a recall needed none of their threads
    listed.permits.release(10_000)


def test_the_same_kind_of_request_is_shared_out_by_connection(serve: Serve) -> None:
    recalled = Worked()
    serving = serve({"recall": method(Echo, recalled, blocking=True, first=True)})
    flood(serving, "recall", clients=3, requests=30)
    wait_for(serving, lambda: len(recalled.texts) == 4)
    mine = serving.connect()
    mine.call(1, "recall", text="mine")
    wait_for(serving, lambda: len(serving.server.connections) == 4)
    wait_for(serving, lambda: sorted(len(c.requests) for c in serving.server.connections) == [1, 30, 30, 30])
    recalled.permits.release(12)
    assert mine.receive()["result"]["text"] == "mine"
    assert "mine" in recalled.texts[:12]  # two rounds over four connections, beyond the four that had begun
    recalled.permits.release(10_000)


def test_requests_of_a_client_that_left_are_not_begun(serve: Serve) -> None:
    listed = Worked()
    serving = serve({"list": method(Echo, listed, blocking=True)}, threads=1)
    [gone] = flood(serving, "list", clients=1, requests=200)
    wait_for(serving, lambda: listed.texts)
    gone.close()
    wait_for(serving, lambda: not serving.server.connections)
    listed.permits.release(10_000)
    assert serving.ask("list", text="mine") == {"text": "mine"}
    assert len(listed.texts) <= 3


def test_what_outlives_its_client_is_done_once_it_has_left(serve: Serve) -> None:
    listed, kept = Worked(), Worked()
    kept.permits.release(100)
    handlers = {
        "list": method(Echo, listed, blocking=True),
        "keep": replace(method(Echo, kept, blocking=True), outlives=True),
    }
    serving = serve(handlers, threads=1)
    [other] = flood(serving, "list", clients=1, requests=1)
    wait_for(serving, lambda: listed.texts)
    for number in range(5):
        gone = serving.connect()
        gone.call(number, "keep", text=str(number))
        gone.close()
    wait_for(serving, lambda: len(serving.server.connections) <= 6)
    listed.permits.release(1)
    wait_for(serving, lambda: len(kept.texts) == 5)
    assert sorted(kept.texts) == [str(number) for number in range(5)]
    other.close()


def test_notifications_of_a_client_that_has_left_are_done_all_the_same(serve: Serve) -> None:
    done: list[str] = []
    listed = Worked()
    handlers = {
        "list": method(Echo, listed, blocking=True),
        "note": method(Echo, lambda params, call: done.append(params.text)),
    }
    serving = serve(handlers, max_in_flight=4)
    [gone] = flood(serving, "list", clients=1, requests=20)
    gone.send(*(encode_notification("note", {"text": str(n)}) for n in range(100)))
    gone.close()
    wait_for(serving, lambda: len(done) == 100)
    assert done == [str(n) for n in range(100)]
    assert len(listed.texts) <= 2
    listed.permits.release(100)


def test_a_flood_of_pings_is_handled_a_few_at_a_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SHARE_S", 60.0)  # by count alone: every machine has another speed
    order: list[str] = []

    def note(params: Echo, call: Call) -> dict[str, Any]:
        order.append(params.text)
        return {}

    serving = serve({"ping": method(Echo, note)})
    quiet = serving.connect()
    quiet.call(0, "ping", text="first")
    quiet.receive()
    held = threading.Event()
    serving.loop.call_soon_threadsafe(held.wait, 20)
    [noisy] = flood(serving, "ping", clients=1, requests=500)
    quiet.call(1, "ping", text="quiet")
    held.set()
    assert quiet.receive()["id"] == 1
    assert order.index("quiet") <= 2 * lanes.MESSAGES_A_TURN + 1
    for _ in range(500):
        noisy.receive()


def test_while_an_agent_s_request_is_worked_on_a_flood_leaves_it_most_of_the_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Worked()
    rested: list[float] = []
    handlers = {
        "recall": method(Echo, gate, blocking=True, first=True),
        "ping": method(NoParams, lambda params, call: {}),
    }
    serving = serve(handlers)
    mine = serving.connect()
    mine.call(1, "recall", text="mine")
    wait_for(serving, lambda: gate.texts)
    call_at = serving.loop.call_at

    def rest(when: float, *rest: Any, **options: Any) -> Any:
        rested.append(when)
        return call_at(when, *rest, **options)

    monkeypatch.setattr(serving.loop, "call_at", rest)
    noisy = serving.connect()
    noisy.send(*(encode_request(n, "ping", {}) for n in range(3000)))
    for _ in range(3000):
        noisy.receive()
    assert rested
    gate.permits.release()
    assert mine.receive()["id"] == 1


def test_a_request_past_its_deadline_is_answered_busy(serve: Serve) -> None:
    slow = Worked()
    serving = serve({"slow": method(Echo, slow, blocking=True)}, threads=1, deadline_s=0.1)
    first = serving.connect()
    first.call(1, "slow", text="works")
    wait_for(serving, lambda: slow.texts)
    with pytest.raises(DaemonError) as caught:
        serving.ask("slow", text="waits")
    assert (caught.value.code, slow.texts) == (BUSY, ["works"])
    assert "try again" in caught.value.hint
    assert first.receive()["error"]["code"] == BUSY
    slow.permits.release(3)
    wait_for(serving, lambda: serving.server._lanes._at_work.total() == 0)
    assert serving.ask("slow", text="again") == {"text": "again"}

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import socket
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from dreamd.ipc.call import Call
from dreamd.ipc.params import NoParams, Params
from dreamd.ipc.protocol import (
    ANSWER_TOO_LARGE,
    BUSY,
    CANCELLED,
    CONFLICT,
    CORRUPT,
    FAILED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    PARSE_ERROR,
    READ_ONLY,
    REFUSED,
    SCHEMA_TOO_NEW,
    STOPPING,
    Refused,
)
from dreamd.ipc.server import connection as connection_module
from dreamd.ipc.server.server import BULKY_BYTES
from dreamd.store import model
from loguru import logger

from tests.ipc.conftest import Serve, Wire
from tests.ipc.methods import AnyMethod, method


@dataclass(frozen=True)
class Said:
    text: str


class Echo(Params):
    text: str = ""
    number: int = 0
    cwd: str = ""


def echo(**options: Any) -> dict[str, AnyMethod]:
    return {"echo": method(Echo, lambda params, call: {"text": params.text}, **options)}


class Gate:
    """A blocking handler that waits to be let through, and says when it has begun and how it ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()
        self.ended = threading.Event()
        self.calls: list[Call] = []

    def __call__(self, params: Echo, call: Call) -> dict[str, Any]:
        self.calls.append(call)
        self.begun.set()
        assert self.open.wait(20)
        self.ended.set()
        return {"text": params.text, "cancelled": call.cancelled}


def wait_until_cancelled(began: threading.Event, ended: threading.Event) -> AnyMethod:
    def run(params: Echo, call: Call) -> dict[str, Any]:
        told = threading.Event()
        call.on_cancel(told.set)
        began.set()
        assert told.wait(20)
        ended.set()
        call.raise_if_cancelled()
        return {}

    return method(Echo, run, long=True)


def test_answers_carry_ids_and_the_quick_does_not_wait_for_the_slow(serve: Serve) -> None:
    gate = Gate()
    wire = serve({**echo(), "slow": method(Echo, gate, blocking=True)}).connect()
    wire.call(1, "slow", text="a")
    wire.call("two", "echo", text="b")
    assert wire.receive() == {"jsonrpc": "2.0", "id": "two", "result": {"text": "b"}}
    gate.open.set()
    assert wire.receive()["id"] == 1


@pytest.mark.parametrize("request_id", [0, "", -1, 2**60, "ü"])
def test_odd_ids_come_back_as_they_were(serve: Serve, request_id: int | str) -> None:
    wire = serve(echo()).connect()
    wire.call(request_id, "echo", text="a")
    assert wire.receive() == {"jsonrpc": "2.0", "id": request_id, "result": {"text": "a"}}


def test_every_way_to_a_result_ends_in_an_answer(serve: Serve) -> None:
    def said(params: Echo, call: Call) -> Said:
        return Said(params.text)

    def promise(params: Echo, call: Call) -> Future[Said]:
        future: Future[Said] = Future()
        threading.Timer(0.01, future.set_result, (Said(params.text),)).start()
        return future

    async def coroutine(params: Echo, call: Call) -> Said:
        await asyncio.sleep(0)
        return Said(params.text)

    handlers = {
        "plain": method(Echo, said),
        "thread": method(Echo, said, blocking=True),
        "long": method(Echo, said, long=True),
        "promise": method(Echo, promise),
        "promise-in-thread": method(Echo, promise, blocking=True),
        "coroutine": method(Echo, coroutine),
        "long-coroutine": method(Echo, coroutine, long=True),
    }
    with serve(handlers).client() as client:
        for name in handlers:
            assert client.call(name, {"text": name}) == {"text": name}


def test_a_hundred_connections_get_their_own_answers(serve: Serve) -> None:
    serving = serve({**echo(), "slow": method(Echo, lambda params, call: {"text": params.text}, blocking=True)})
    wires = [serving.connect() for _ in range(100)]
    for number, (wire, repeat) in itertools.product(range(5), zip(wires, range(100), strict=True)):
        wire.call(number, "slow" if number % 2 else "echo", text=f"{repeat}/{number}")
    for repeat, wire in enumerate(wires):
        answers = {answer["id"]: answer["result"]["text"] for answer in (wire.receive() for _ in range(5))}
        assert answers == {number: f"{repeat}/{number}" for number in range(5)}


def test_after_a_bad_line_the_connection_goes_on(serve: Serve) -> None:
    serving = serve(echo())
    wire, other = serving.connect(), serving.connect()
    wire.send(b"not json\n", b"\xff\n", b"[]\n")
    assert [wire.receive()["error"]["code"] for _ in range(3)] == [PARSE_ERROR, PARSE_ERROR, INVALID_REQUEST]
    for each in (wire, other):
        each.call(1, "echo", text="still here")
        assert each.receive()["result"] == {"text": "still here"}


def test_an_endless_line_is_an_error_and_closes_the_connection(serve: Serve) -> None:
    serving = serve(echo())
    wire = serving.connect()
    wire.call(1, "echo", text="a")
    try:
        for _ in range(64):
            wire.send(b"x" * 2**16)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert wire.receive()["result"] == {"text": "a"}
    answer = wire.receive()
    assert answer["id"] is None
    assert answer["error"]["code"] == INVALID_REQUEST
    assert wire.is_closed()
    assert serving.ask("echo", text="b") == {"text": "b"}


def test_unknown_methods_and_parameters_are_named(serve: Serve) -> None:
    wire = serve(echo()).connect()
    wire.call(1, "ecko")
    error = wire.receive()["error"]
    assert error["code"] == METHOD_NOT_FOUND
    assert error["data"]["hint"] == "did you mean echo?"
    wire.call(2, "echo", txt="a", number="many")
    error = wire.receive()["error"]
    assert error["code"] == INVALID_PARAMS
    assert "'txt'" in error["message"]
    assert "'number'" in error["message"]
    assert "many" not in error["message"]
    assert "text" in error["data"]["hint"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (model.NotFound("gone", "look"), NOT_FOUND),
        (model.InvalidInput("bad", "mend"), INVALID_PARAMS),
        (model.StoreBusy("busy", "wait"), BUSY),
        (model.StoreReadOnly("full", "space"), READ_ONLY),
        (model.SchemaTooNew("new", "upgrade"), SCHEMA_TOO_NEW),
        (model.Corrupt("broken", "rebuild"), CORRUPT),
        (model.Conflict("changed", "look"), CONFLICT),
        (model.StoreError("no", "why"), FAILED),
        (Refused("not now", "later"), REFUSED),
    ],
)
@pytest.mark.parametrize("blocking", [False, True])
def test_the_store_s_errors_have_codes_and_keep_their_hints(
    serve: Serve, error: Exception, code: int, blocking: bool
) -> None:
    def fail(params: Echo, call: Call) -> None:
        raise error

    wire = serve({"fail": method(Echo, fail, blocking=blocking)}).connect()
    wire.call(1, "fail")
    assert wire.receive()["error"] == {
        "code": code,
        "message": str(error),
        "data": {"hint": getattr(error, "hint", None)},
    }


def test_a_fault_inside_is_answered_and_logged_without_the_person_s_words(serve: Serve) -> None:
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)))

    def fail(params: Echo, call: Call) -> None:
        raise KeyError(params.text)

    wire = serve({"fail": method(Echo, fail), **echo()}).connect()
    wire.call(1, "fail", text="my secret")
    error = wire.receive()["error"]
    logger.remove(sink)
    assert error["code"] == INTERNAL_ERROR
    assert "KeyError" in error["message"]
    assert "fail failed with KeyError at test_server.py" in said[-1]
    assert "my secret" not in "".join(said) + error["message"]
    wire.call(2, "echo", text="on")
    assert wire.receive()["result"] == {"text": "on"}


def test_an_answer_that_is_no_json_or_too_long_is_an_error(serve: Serve) -> None:
    handlers = {
        "odd": method(Echo, lambda params, call: {"at": object()}),
        "huge": method(Echo, lambda params, call: {"text": "x" * 2**21}),
    }
    wire = serve(handlers).connect()
    wire.call(1, "odd")
    assert wire.receive()["error"]["code"] == INTERNAL_ERROR
    wire.call(2, "huge")
    assert wire.receive()["error"]["code"] == ANSWER_TOO_LARGE


def test_an_id_that_is_open_is_refused_and_may_be_used_again_later(serve: Serve) -> None:
    gate = Gate()
    wire = serve({"slow": method(Echo, gate, blocking=True)}).connect()
    wire.call(1, "slow", text="first")
    wire.call(1, "slow", text="second")
    assert wire.receive()["error"]["code"] == INVALID_REQUEST
    gate.open.set()
    assert wire.receive()["result"]["text"] == "first"
    wire.call(1, "slow", text="third")
    assert wire.receive()["result"]["text"] == "third"


def test_notifications_are_done_and_not_answered(serve: Serve) -> None:
    done: list[str] = []
    handlers = {**echo(), "note": method(Echo, lambda params, call: done.append(params.text))}
    wire = serve(handlers).connect()
    wire.send({"jsonrpc": "2.0", "method": "note", "params": {"text": "a"}})
    wire.send({"jsonrpc": "2.0", "method": "no-such-method"})
    wire.call(1, "echo", text="b")
    assert wire.receive()["id"] == 1
    assert done == ["a"]


def test_progress_comes_before_its_answer_and_names_its_request(serve: Serve) -> None:
    def work(params: Echo, call: Call) -> dict[str, Any]:
        for done in range(1000):
            call.progress("read", done + 1, 1000, "x")
        return {}

    wire = serve({"work": method(Echo, work, long=True)}).connect()
    wire.call(9, "work")
    messages = [wire.receive()]
    while "result" not in messages[-1]:
        messages.append(wire.receive())
    *progress, answer = messages
    assert answer["id"] == 9
    assert progress[-1]["params"] == {"request": 9, "stage": "read", "done": 1000, "total": 1000, "note": "x"}
    assert all(message["method"] == "progress" for message in progress)
    assert len(progress) < 100


def test_cancel_reaches_a_thread_that_asks(serve: Serve) -> None:
    began, ended = threading.Event(), threading.Event()
    wire = serve({"wait": wait_until_cancelled(began, ended)}).connect()
    wire.call(1, "wait")
    assert began.wait(10)
    wire.send({"jsonrpc": "2.0", "id": 2, "method": "cancel", "params": {"id": 1}})
    answers = {answer["id"]: answer for answer in (wire.receive(), wire.receive())}
    assert answers[2]["result"] == {"cancelled": True}
    assert answers[1]["error"]["code"] == CANCELLED
    wire.send({"jsonrpc": "2.0", "id": 3, "method": "cancel", "params": {"id": 1}})
    assert wire.receive()["result"] == {"cancelled": False}
    wire.send({"jsonrpc": "2.0", "id": 4, "method": "cancel", "params": {"id": [1]}})
    assert wire.receive()["error"]["code"] == INVALID_PARAMS


def test_cancel_ends_a_coroutine_and_what_waits_for_a_thread(serve: Serve) -> None:
    async def forever(params: Echo, call: Call) -> None:
        await asyncio.Event().wait()

    gate = Gate()
    handlers = {"forever": method(Echo, forever), "slow": method(Echo, gate, blocking=True)}
    wire = serve(handlers, threads=1).connect()
    wire.call(1, "forever")
    wire.call(2, "slow")
    assert gate.begun.wait(10)
    wire.call(3, "slow")
    for request_id in (2, 1, 3):
        wire.send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": request_id}})
    assert {(answer["id"], answer["error"]["code"]) for answer in (wire.receive(), wire.receive())} == {
        (1, CANCELLED),
        (3, CANCELLED),
    }
    gate.open.set()
    assert wire.receive()["result"] == {"text": "", "cancelled": True}
    assert len(gate.calls) == 1


def test_a_client_that_goes_away_lets_its_request_end_in_order(serve: Serve) -> None:
    began, ended = threading.Event(), threading.Event()

    async def work(params: Echo, call: Call) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):  # what an ending takes; a second cancellation would break it off
                await asyncio.sleep(0)
            ended.set()

    serving = serve({"work": method(Echo, work, long=True)})
    wire = serving.connect()
    wire.call(1, "work")
    assert began.wait(10)
    wire.close()
    assert ended.wait(10)


@pytest.mark.parametrize("half_first", [False, True])
def test_a_client_that_goes_away_takes_its_requests_with_it(serve: Serve, half_first: bool) -> None:
    began, ended = threading.Event(), threading.Event()
    serving = serve({"wait": wait_until_cancelled(began, ended), **echo()})
    wire = serving.connect()
    wire.call(1, "wait")
    assert began.wait(10)
    if half_first:
        wire.socket.shutdown(socket.SHUT_WR)
        assert not ended.wait(2 * connection_module.HANGUP_INTERVAL_S)
    wire.close()
    assert ended.wait(10)
    assert serving.ask("echo", text="a") == {"text": "a"}


def test_a_client_that_shut_down_writing_still_gets_its_answers(serve: Serve) -> None:
    gate = Gate()
    wire = serve({"slow": method(Echo, gate, blocking=True), **echo()}).connect()
    wire.call(1, "slow", text="a")
    wire.call(2, "echo", text="b")
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.receive()["id"] == 2
    gate.open.set()
    assert wire.receive()["id"] == 1
    assert wire.is_closed()


def test_the_store_s_promises_are_not_cancelled_with_their_client(serve: Serve) -> None:
    promised: list[Future[str]] = []
    began = threading.Event()

    def promise(params: Echo, call: Call) -> Future[str]:
        promised.append(Future())
        began.set()
        return promised[-1]

    serving = serve({"promise": method(Echo, promise), **echo()})
    wire = serving.connect()
    wire.call(1, "promise")
    assert began.wait(10)
    wire.send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": 1}})
    wire.close()
    serving.ask("echo")
    assert promised[0].set_running_or_notify_cancel()
    promised[0].set_result("kept")
    assert serving.ask("echo", text="a") == {"text": "a"}


def test_a_reader_that_is_slow_is_answered_as_fast_as_it_reads(serve: Serve) -> None:
    big = {"text": "x" * 500_000}
    handlers = {"big": method(Echo, lambda params, call: big), **echo()}
    serving = serve(handlers, stalled_output_bytes=2**20, max_output_bytes=4 * 2**20, stalled_s=60)
    wire = serving.connect()
    for request_id in range(40):
        wire.call(request_id, "big")
    assert serving.ask("echo", text="a") == {"text": "a"}
    assert [wire.receive()["id"] for _ in range(40)] == list(range(40))


def test_a_client_that_stops_reading_is_dropped_after_a_while(serve: Serve) -> None:
    big = {"text": "x" * 500_000}
    serving = serve({"big": method(Echo, lambda params, call: big)}, stalled_output_bytes=2**20, stalled_s=0.2)
    wire = serving.connect()
    gone = threading.Event()
    serving.loop.call_soon_threadsafe(lambda: watch_for_loss(serving, gone))
    for request_id in range(40):
        wire.call(request_id, "big")
    assert gone.wait(10)


def test_answers_that_pile_up_behind_a_stopped_reader_are_dropped_with_it(serve: Serve) -> None:
    gate = Gate()

    def big(params: Echo, call: Call) -> dict[str, str]:
        gate(params, call)
        return {"text": "x" * 500_000}

    serving = serve({"big": method(Echo, big, blocking=True)}, threads=8, max_output_bytes=2**21)
    wire = serving.connect()
    gone = threading.Event()
    for request_id in range(60):
        wire.call(request_id, "big")
    assert gate.begun.wait(10)
    serving.loop.call_soon_threadsafe(lambda: watch_for_loss(serving, gone))
    gate.open.set()
    assert gone.wait(10)


def watch_for_loss(serving: Any, gone: threading.Event) -> None:
    """Set `gone` when the one connection of the server is lost."""
    if serving.server.connections:
        serving.loop.call_later(0.01, watch_for_loss, serving, gone)
    else:
        gone.set()


def test_only_so_many_requests_of_a_connection_are_worked_on(serve: Serve) -> None:
    gate = Gate()
    serving = serve({"slow": method(Echo, gate, blocking=True)}, max_in_flight=4, max_at_work=3, threads=32)
    wire = serving.connect()
    for request_id in range(20):
        wire.call(request_id, "slow")
    [connection] = wait_for(serving, lambda: [c for c in serving.server.connections if len(c.requests) == 4])
    wait_for(serving, lambda: len(gate.calls) == 3)
    assert len(connection.requests) == 4
    gate.open.set()
    assert {wire.receive()["id"] for _ in range(20)} == set(range(20))


def test_one_client_too_many_is_refused_with_a_reason(serve: Serve) -> None:
    serving = serve(echo(), max_connections=2)
    first, second = serving.connect(), serving.connect()
    for wire in (first, second):
        wire.call(1, "echo")
        wire.receive()
    third = serving.connect()
    assert third.receive()["error"]["code"] == BUSY
    assert third.is_closed()
    first.close()
    wait_for(serving, lambda: len(serving.server.connections) == 1)
    fourth = serving.connect()
    fourth.call(1, "echo", text="a")
    assert fourth.receive()["result"] == {"text": "a"}


def wait_for(serving: Any, true: Any) -> Any:
    async def wait() -> Any:
        while not (found := true()):
            await asyncio.sleep(0.01)
        return found

    return serving.run(asyncio.wait_for(wait(), 10))


def test_another_user_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "peer_uid", lambda sock: os.geteuid() + 1)
    wire = serve(echo()).connect()
    assert wire.receive()["error"]["code"] == REFUSED
    assert wire.is_closed()


def test_only_agents_methods_count_as_activity(serve: Serve) -> None:
    handlers = {"work": method(Echo, lambda params, call: {}, activity=True), **echo()}
    serving = serve(handlers)
    with serving.client() as client:
        client.call("echo")
        client.call("work")
        with pytest.raises(Exception, match="txt"):
            client.call("work", {"txt": 1})
    assert serving.active == ["work"]


def test_large_messages_leave_the_loop_and_keep_their_order(serve: Serve) -> None:
    threads: list[str] = []
    order: list[int] = []

    def keep(params: Echo, call: Call) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        order.append(params.number)
        return {}

    wire = serve({"keep": method(Echo, keep)}).connect()
    for number in range(6):
        wire.call(number, "keep", number=number, text="x" * (BULKY_BYTES if number % 2 == 0 else 1))
    assert [wire.receive()["id"] for _ in range(6)] == list(range(6))
    assert order == list(range(6))
    assert [name.startswith("answer") for name in threads] == [True, False] * 3


def test_a_stop_finishes_what_is_being_answered_and_refuses_the_rest(serve: Serve) -> None:
    gate = Gate()
    serving = serve({"slow": method(Echo, gate, blocking=True), **echo()})
    wire = serving.connect()
    wire.call(1, "slow", text="kept")
    assert gate.begun.wait(10)
    stopping = asyncio.run_coroutine_threadsafe(serving.server.stop(10), serving.loop)
    wait_for(serving, lambda: serving.server.stopping)
    wire.call(2, "echo")
    assert wire.receive()["error"]["code"] == STOPPING
    with pytest.raises(OSError):
        serving.connect()
    gate.open.set()
    assert wire.receive()["result"]["text"] == "kept"
    assert wire.is_closed()
    stopping.result(10)
    assert not serving.path.exists()


def test_a_stop_does_not_wait_for_the_long_and_the_hung(serve: Serve) -> None:
    began, ended = threading.Event(), threading.Event()
    gate = Gate()
    serving = serve({"wait": wait_until_cancelled(began, ended), "hung": method(Echo, gate, blocking=True)})
    wire = serving.connect()
    wire.call(1, "wait")
    wire.call(2, "hung")
    assert began.wait(10)
    assert gate.begun.wait(10)
    serving.stop(0.1)
    assert ended.is_set()
    assert wire.receive()["error"]["code"] == CANCELLED
    assert wire.is_closed()
    gate.open.set()
    assert gate.ended.wait(10)


def test_a_finished_request_leaves_nothing_to_the_collector(serve: Serve) -> None:
    seen: list[weakref.ref[Any]] = []

    def handler(params: NoParams, call: Call) -> dict[str, Any]:
        seen.append(weakref.ref(params))
        return {}

    with serve({"weak": method(NoParams, handler)}).client() as client:
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                client.call("weak")
            client.call("weak")
            assert [ref() for ref in seen[:-1]] == [None] * 5
        finally:
            gc.enable()


def test_random_bytes_on_many_connections_leave_the_server_well(serve: Serve) -> None:
    import random

    rng = random.Random(7)
    serving = serve(echo())
    valid = b'{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"text": "\xc3\xa4"}}\n'
    for _ in range(60):
        wire: Wire = serving.connect()
        line = bytearray(valid * rng.randint(1, 4))
        for _ in range(rng.randint(0, 12)):
            line[rng.randrange(len(line))] = rng.randrange(256)
        wire.send(bytes(line[: rng.randint(1, len(line))]))
        wire.close()
    assert serving.ask("echo", text="a") == {"text": "a"}

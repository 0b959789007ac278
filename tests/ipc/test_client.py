from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.call import Call
from dreamd.ipc.client import Client, ClientError, DaemonError, Unreachable, context_or_empty, recall_or_empty
from dreamd.ipc.params import Params
from dreamd.ipc.protocol import MAX_LINE_BYTES, METHOD_NOT_FOUND

from tests.ipc.conftest import Serve
from tests.ipc.methods import method


class AnyQuery(Params):
    query: str = ""
    budget_tokens: int = 0
    limit: int = 0
    channel: str | None = None
    cwd: str | None = None


Talk = Callable[[socket.socket], None]
Fake = Callable[[Talk], str]


@pytest.fixture
def fake(socket_folder: Path) -> Iterator[Fake]:
    """Start a daemon of one connection that behaves as a test has it behave."""
    ends: list[Callable[[], None]] = []

    def start(talk: Talk) -> str:
        path = socket_folder / "fake.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)

        def run() -> None:
            accepted, _ = listener.accept()
            with accepted:
                talk(accepted)

        thread = threading.Thread(target=run)
        thread.start()
        ends.extend((thread.join, listener.close))
        return str(path)

    yield start
    for end in ends:
        end()


def test_calls_share_one_connection_and_hello_names_the_daemon(serve: Serve) -> None:
    hello = method(Params, lambda params, call: {})
    answering = {
        "ping": hello,
        "hello": method(
            type("Hello", (Params,), {"__annotations__": {"client": str, "protocol": int}}),
            lambda params, call: {"version": "9", "client": params.client},
        ),
    }
    serving = serve(answering)
    with Client(str(serving.path), name="me") as client:
        assert client.call("ping") == {}
        assert client.call("ping") == {}
        assert client.server == {"version": "9", "client": "me"}
        assert len(serving.server.connections) == 1


def test_an_error_has_message_hint_and_code(serve: Serve) -> None:
    with serve({}).client() as client, pytest.raises(DaemonError) as caught:
        client.call("nothing")
    assert caught.value.code == METHOD_NOT_FOUND
    assert caught.value.hint


def test_progress_is_handed_on(serve: Serve) -> None:
    def work(params: AnyQuery, call: Call) -> dict[str, Any]:
        call.progress("read", 3, 4)
        return {"done": True}

    seen: list[dict[str, Any]] = []
    with serve({"work": method(AnyQuery, work, long=True)}).client() as client:
        assert client.call("work", {}, seen.append) == {"done": True}
    assert [(progress["stage"], progress["done"], progress["total"]) for progress in seen] == [("read", 3, 4)]


def test_a_cancel_reaches_the_daemon(serve: Serve) -> None:
    began, told = threading.Event(), threading.Event()

    def wait(params: AnyQuery, call: Call) -> dict[str, Any]:
        call.on_cancel(told.set)
        call.progress("begun")
        began.set()
        assert told.wait(10)
        return {}

    def interrupt(progress: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with serve({"wait": method(AnyQuery, wait, long=True)}).client() as client:
        with pytest.raises(KeyboardInterrupt):
            client.call("wait", {}, interrupt)
        client.cancel()
    assert told.wait(10)


def test_without_a_daemon_the_error_says_how_to_start_one(socket_folder: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        Client(str(socket_folder / "none.sock"), wait_s=0.05).call("status")
    assert "dreamd" in caught.value.hint
    assert time.monotonic() - began < 5


def test_a_daemon_that_is_starting_is_waited_for(serve: Serve, socket_folder: Path) -> None:
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        with Client(str(socket_folder / "dreamd.sock"), wait_s=10) as client:
            answers.append(client.call("ping"))

    thread = threading.Thread(target=ask)
    thread.start()
    serve({"ping": method(Params, lambda params, call: {})})
    thread.join()
    assert answers == [{}]


def hang(sock: socket.socket) -> None:
    while sock.recv(4096):
        pass


def drip(sock: socket.socket) -> None:
    try:
        while True:
            sock.sendall(b" ")
            time.sleep(0.01)
    except OSError:
        pass


@pytest.mark.parametrize("talk", [hang, drip])
def test_a_hung_daemon_costs_no_more_than_the_deadline(fake: Fake, talk: Talk) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"within 0\.2 s"), Client(fake(talk), timeout_s=0.2) as client:
        client.call("status")
    assert 0.2 <= time.monotonic() - began < 5


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\n",
        b"[]\n",
        b"7\n",
        b'{"id": 1, "error": 7}\n',
        b"x" * 2**22,
    ],
)
def test_whatever_else_answers_is_an_error_and_no_crash(fake: Fake, said: bytes) -> None:
    def talk(sock: socket.socket) -> None:
        try:
            sock.recv(4096)
            sock.sendall(said)
        except OSError:
            pass

    with pytest.raises(ClientError), Client(fake(talk), timeout_s=5) as client:
        client.call("status")


def test_a_question_too_long_for_a_line_is_not_sent(serve: Serve) -> None:
    with serve({"ping": method(AnyQuery, lambda params, call: {})}).client() as client:
        with pytest.raises(ClientError, match="that a line may have"):
            client.call("ping", {"query": "x" * MAX_LINE_BYTES})
        assert client.call("ping") == {}


def test_an_agent_gets_an_empty_answer_that_says_why(socket_folder: Path, fake: Fake) -> None:
    path = str(socket_folder / "none.sock")
    recalled = recall_or_empty("anything", path=path)
    assert (recalled["hits"], recalled["abstained"]) == ([], True)
    assert "dreamd" in recalled["notes"][0]
    envelope = context_or_empty("anything", path=path)
    assert (envelope["text"], envelope["tokens"], envelope["slots"]) == ("", 0, [])
    assert "no daemon answers" in envelope["failed"]
    assert "within 0.1 s" in recall_or_empty("anything", 0.1, path=fake(hang))["failed"]
    assert "bytes" in recall_or_empty("anything", path="/x" * 100)["failed"]
    assert "failed" in recall_or_empty("anything", path=str(socket_folder))


def test_an_agent_gets_the_answer_when_there_is_one(serve: Serve) -> None:
    def answer(params: AnyQuery, call: Call) -> dict[str, Any]:
        return {"hits": [params.query], "limit": params.limit, "text": params.query, "budget": params.budget_tokens}

    path = str(serve({"recall": method(AnyQuery, answer), "context": method(AnyQuery, answer)}).path)
    assert recall_or_empty("a", path=path, limit=3) == {"hits": ["a"], "limit": 3, "text": "a", "budget": 0}
    assert context_or_empty("a", 77, path=path)["budget"] == 77


class AnySession(Params):
    session: dict[str, Any]


def test_without_a_channel_the_working_directory_decides(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def note(params: Any, call: Call) -> dict[str, Any]:
        asked.append(params.model_dump(include={"channel", "cwd", "session"}, exclude_none=True))
        return {}

    handlers = {"recall": method(AnyQuery, note), "context": method(AnyQuery, note)}
    path = str(serve(handlers | {"observe": method(AnySession, note)}).path)
    monkeypatch.chdir(tmp_path)
    here = {"cwd": str(tmp_path)}
    recall_or_empty("a", path=path)
    context_or_empty("a", path=path)
    with Client(path) as client:
        client.call("recall", {"query": "a"})
        client.call("observe", {"session": {}})
    assert asked == [here, here, here, {"session": here}]
    asked.clear()
    recall_or_empty("a", path=path, channel="*")
    recall_or_empty("a", path=path, cwd="/elsewhere")
    assert asked == [{"channel": "*"}, {"cwd": "/elsewhere"}]


def test_the_client_imports_nothing_heavy() -> None:
    code = "import sys, dreamd.ipc.client; print(*sys.modules)"
    loaded = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "asyncio",
        "pydantic",
        "numpy",
        "apsw",
        "loguru",
        "typing_extensions",
        "inspect",
        "dataclasses",
        "argparse",
    }
    assert not heavy & set(loaded)


def listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    return listener


def answer(accepted: socket.socket, request_id: int) -> None:
    accepted.sendall(b'{"jsonrpc": "2.0", "id": %d, "result": {}}\n' % request_id)


def test_the_first_call_after_a_restart_works(serve: Serve) -> None:
    first = serve({"remember": method(AnyQuery, lambda params, call: {"by": "first"})})
    with first.client() as client:
        assert client.call("remember") == {"by": "first"}
        first.stop(0.2)
        serve({"remember": method(AnyQuery, lambda params, call: {"by": "second"})})
        assert client.call("remember") == {"by": "second"}


@pytest.mark.parametrize(
    ("method", "params", "is_repeated"),
    [("remember", {}, False), ("remember", {"idempotency_key": "k"}, True), ("recall", {}, True)],
)
def test_what_may_have_been_carried_out_is_sent_again_only_where_that_is_safe(
    socket_folder: Path, method: str, params: dict[str, Any], is_repeated: bool
) -> None:
    """The daemon takes a request whole and goes away without an answer."""
    listener = listening(str(socket_folder / "fake.sock"))
    asked: list[bytes] = []

    def serve_twice() -> None:
        first, _ = listener.accept()
        with first:
            first.recv(4096)
            answer(first, 1)
            asked.append(first.recv(4096))
        again, _ = listener.accept()
        with again:
            asked.append(again.recv(4096))
            answer(again, 2 if is_repeated else 3)

    thread = threading.Thread(target=serve_twice)
    thread.start()
    with listener, Client(str(socket_folder / "fake.sock")) as client:
        client.call("ping")
        if is_repeated:
            assert client.call(method, params) == {}
        else:
            with pytest.raises(Unreachable):
                client.call(method, params)
            client.call("ping")
        thread.join()
    assert method.encode() in asked[0]
    assert (method.encode() in asked[1]) is is_repeated

"""The asynchronous client against a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from dreamd.ipc.async_client import AsyncClient, context_or_empty, recall_or_empty
from dreamd.ipc.call import Call
from dreamd.ipc.client import Absent, ClientError, DaemonError, Unreachable
from dreamd.ipc.params import Params
from dreamd.ipc.protocol import MAX_LINE_BYTES, METHOD_NOT_FOUND

from tests.ipc.conftest import Serve, Serving
from tests.ipc.methods import method

T = TypeVar("T")


class Asked(Params):
    query: str = ""
    budget_tokens: int = 0
    channel: str | None = None
    cwd: str | None = None


def run(talk: Callable[[AsyncClient], Awaitable[T]], serving: Serving, timeout_s: float | None = 10.0) -> T:
    async def within() -> T:
        async with AsyncClient(str(serving.path), timeout_s, wait_s=0.0) as client:
            return await talk(client)

    return asyncio.run(within())


def hello(params: Params, call: Call) -> dict[str, Any]:
    return {"version": "9", "pid": 1, "protocol": 1}


class Hello(Params):
    client: str = ""
    protocol: int = 1


def test_calls_run_at_once_on_one_connection(serve: Serve) -> None:
    arrived, let_go = threading.Barrier(2, timeout=10), threading.Event()

    def wait(params: Asked, call: Call) -> dict[str, Any]:
        arrived.wait()
        let_go.set()
        return {"said": params.query}

    serving = serve({"wait": method(Asked, wait, blocking=True), "hello": method(Hello, hello)})

    async def both(client: AsyncClient) -> list[Any]:
        found = await asyncio.gather(*(client.call("wait", {"query": word}) for word in ("one", "two")))
        assert client.server["version"] == "9"
        return found

    assert run(both, serving) == [{"said": "one"}, {"said": "two"}]
    assert let_go.is_set()


def test_an_error_has_message_hint_and_code(serve: Serve) -> None:
    serving = serve({"ping": method(Params, lambda params, call: {})})
    with pytest.raises(DaemonError, match="no method") as caught:
        run(lambda client: client.call("pong"), serving)
    assert (caught.value.code, caught.value.hint) == (METHOD_NOT_FOUND, "did you mean ping?")


def test_progress_is_handed_on(serve: Serve) -> None:
    def work(params: Params, call: Call) -> dict[str, Any]:
        call.progress("embed", 1, 2)
        return {}

    seen: list[dict[str, Any]] = []
    serving = serve({"work": method(Params, work, blocking=True)})
    run(lambda client: client.call("work", None, seen.append), serving)
    assert [(one["stage"], one["done"], one["total"]) for one in seen] == [("embed", 1, 2)]


def test_a_cancelled_call_is_taken_back_and_the_connection_lives_on(serve: Serve) -> None:
    began, cancelled = threading.Event(), threading.Event()

    def work(params: Params, call: Call) -> dict[str, Any]:
        call.on_cancel(cancelled.set)
        began.set()
        assert cancelled.wait(10)
        return {}

    serving = serve({"work": method(Params, work, long=True), "ping": method(Params, lambda params, call: {})})

    async def talk(client: AsyncClient) -> dict[str, Any]:
        task = asyncio.ensure_future(client.call("work"))
        await asyncio.to_thread(began.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return dict(await client.call("ping"))

    assert run(talk, serving) == {}
    assert cancelled.wait(10)


def test_a_slow_daemon_costs_no_more_than_the_deadline_and_is_told(serve: Serve) -> None:
    cancelled = threading.Event()

    def work(params: Params, call: Call) -> dict[str, Any]:
        call.on_cancel(cancelled.set)
        assert cancelled.wait(10)
        return {}

    serving = serve({"work": method(Params, work, long=True)})
    with pytest.raises(Unreachable, match=r"within 0\.2 s"):
        run(lambda client: client.call("work"), serving, timeout_s=0.2)
    assert cancelled.wait(10)


def test_without_a_daemon_the_error_says_how_to_start_one(socket_folder: Path) -> None:
    async def ask() -> None:
        async with AsyncClient(str(socket_folder / "none.sock"), wait_s=0.0) as client:
            await client.call("ping")

    with pytest.raises(Absent, match="no daemon answers") as caught:
        asyncio.run(ask())
    assert "dreamctl install" in caught.value.hint


def test_after_the_daemon_went_the_next_call_connects_again(serve: Serve, socket_folder: Path) -> None:
    async def talk() -> list[str]:
        said: list[str] = []
        handlers = {"ping": method(Params, lambda params, call: {})}
        serving = await asyncio.to_thread(serve, handlers)
        async with AsyncClient(str(serving.path), wait_s=2.0) as client:
            await client.call("ping")
            await asyncio.to_thread(serving.stop)
            with pytest.raises(Absent):
                await client.call("ping")
            await asyncio.to_thread(serve, handlers)
            said.append(str(await client.call("ping")))
        return said

    assert asyncio.run(talk()) == ["{}"]


def test_a_question_too_long_for_a_line_is_not_sent(serve: Serve) -> None:
    serving = serve({"recall": method(Asked, lambda params, call: {})})
    with pytest.raises(ClientError, match="line"):
        run(lambda client: client.call("recall", {"query": "x" * MAX_LINE_BYTES}), serving)


def test_what_is_no_daemon_is_an_error_and_no_crash(socket_folder: Path) -> None:
    async def talk() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\n")
            await reader.read()
            writer.close()

        path = str(socket_folder / "http.sock")
        server = await asyncio.start_unix_server(answer, path)
        async with AsyncClient(path) as client:
            with pytest.raises(Absent, match="not dreamd"):
                await client.call("ping")
        server.close()
        await server.wait_closed()

    asyncio.run(talk())


def test_an_agent_gets_an_empty_answer_that_says_why(socket_folder: Path) -> None:
    path = str(socket_folder / "none.sock")
    found = asyncio.run(recall_or_empty("where?", 0.2, path))
    assert (found["hits"], found["abstained"]) == ([], True)
    assert "no daemon answers" in found["notes"][0]
    assert asyncio.run(context_or_empty("where?", deadline_s=0.2, path=path))["text"] == ""


def test_the_working_folder_is_named_where_no_channel_is(serve: Serve) -> None:
    serving = serve({"recall": method(Asked, lambda params, call: {"cwd": params.cwd, "channel": params.channel})})
    here: object = run(lambda client: client.call("recall", {"query": "a"}), serving)
    named: object = run(lambda client: client.call("recall", {"channel": "shop"}), serving)
    assert (here, named) == ({"cwd": str(Path.cwd()), "channel": None}, {"cwd": None, "channel": "shop"})

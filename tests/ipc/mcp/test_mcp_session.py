"""MCP over the daemon's socket: both eras, a line of the wire as the opening, and the bounds of a session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from dreamd.ipc.call import Call
from dreamd.ipc.mcp.mcp_session import ATTACH, attach
from dreamd.ipc.params import ContextParams, FeedbackParams, RecallParams, RememberParams, ShowParams
from dreamd.ipc.protocol import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, PARSE_ERROR, ProtocolError

from tests.ipc.conftest import Serve, Serving, Wire
from tests.ipc.mcp import messages
from tests.ipc.mcp.messages import INITIALIZED, called, called_modern, initialize, modern
from tests.ipc.mcp.test_render import hit, recall
from tests.ipc.methods import AnyMethod, method
from tests.system.waiting import until


class Memory:
    """Handlers of the wire that note what they were asked, and may be held."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.calls: list[Call] = []
        self.held = threading.Event()
        self.held.set()

    def handlers(self) -> dict[str, AnyMethod]:
        return {
            "recall": method(RecallParams, self.recall, blocking=True, activity=True, first=True),
            "remember": method(RememberParams, self.remember, activity=True, first=True),
            "context": method(ContextParams, self.context, blocking=True, activity=True, first=True),
            "show": method(ShowParams, self.show, blocking=True),
            "feedback": method(FeedbackParams, self.show, blocking=True),
        }

    def recall(self, params: RecallParams, call: Call) -> Any:
        self.asked.append(params)
        self.calls.append(call)
        self.held.wait(10)
        return recall(hit("n1", f"About {params.query}."))

    def remember(self, params: RememberParams, call: Call) -> Any:
        self.asked.append(params)
        return {"node_id": "n1", "channel": "shop", "novelty": "new", "redacted": 0, "waits": False}

    def context(self, params: ContextParams, call: Call) -> Any:
        self.asked.append(params)
        return {"text": "", "notes": []}

    def show(self, params: ShowParams, call: Call) -> Any:
        raise ProtocolError(f"there is no memory {params.node_id}", "recall names them", NOT_FOUND)


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory()
    yield memory
    memory.held.set()


@pytest.fixture
def serving(serve: Serve, memory: Memory) -> Serving:
    return serve(memory.handlers(), protocols={ATTACH: attach}, max_in_flight=4)


@pytest.fixture
def agent(serving: Serving) -> Wire:
    """One of the new era."""
    wire = serving.connect()
    wire.send(messages.attach(cwd="/work/shop", agent="an-agent", session="s1", relay="r1"))
    return wire


def text_of(answer: dict[str, Any]) -> str:
    (content,) = answer["result"]["content"]
    assert content["type"] == "text"
    text: str = content["text"]
    return text


@pytest.mark.parametrize("version", messages.HANDSHAKES)
def test_an_agent_of_the_old_era_opens_lists_and_calls(serving: Serving, memory: Memory, version: str) -> None:
    wire = serving.connect()
    wire.send(messages.attach(cwd="/work/shop"), initialize(0, version), INITIALIZED)
    opened = wire.receive()["result"]
    assert opened["protocolVersion"] == version
    assert opened["serverInfo"]["name"] == "dreamd"
    assert opened["instructions"]
    assert set(opened["capabilities"]) == {"tools", "resources"}
    wire.send(messages.asked(1, "tools/list"), called(2, "recall", query="ports"))
    answers = {answer["id"]: answer for answer in (wire.receive(), wire.receive())}
    assert {tool["name"] for tool in answers[1]["result"]["tools"]} >= {"recall", "remember"}
    assert "ttlMs" not in answers[1]["result"]
    assert "About ports." in text_of(answers[2])
    assert memory.asked[0].cwd == "/work/shop"


def test_an_agent_of_the_new_era_needs_no_handshake(agent: Wire) -> None:
    agent.send(modern("server-discover-probe-1", "server/discover"))
    found = agent.receive()
    assert found["id"] == "server-discover-probe-1"
    assert found["result"]["supportedVersions"] == [messages.MODERN]
    assert found["result"]["resultType"] == "complete"
    agent.send(modern(1, "tools/list"), modern(2, "resources/list"), modern(3, "resources/templates/list"))
    lists = {answer["id"]: answer["result"] for answer in (agent.receive(), agent.receive(), agent.receive())}
    for result in lists.values():
        assert result["resultType"] == "complete"
        assert result["ttlMs"] > 0
        assert result["cacheScope"] == "private"
    assert [tool["name"] for tool in lists[1]["tools"] if tool.get("_meta")] == ["recall", "remember"]


def test_what_listens_stays_open_and_is_owed_nothing(serving: Serving, agent: Wire) -> None:
    agent.send(modern("listen:0", "subscriptions/listen", notifications={"toolsListChanged": True}))
    acknowledged = agent.receive()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    agent.send(called_modern(1, "recall", query="ports"))
    assert agent.receive()["id"] == 1
    serving.stop(grace_s=20)
    assert agent.is_closed()


def test_a_tool_call_goes_the_way_of_every_request(serving: Serving, agent: Wire, memory: Memory) -> None:
    agent.send(called_modern(1, "remember", text="We deploy on Thursdays.", kind="decision"))
    assert text_of(agent.receive()) == "Kept as n1 in shop."
    assert serving.active == ["remember"]
    asked = memory.asked[0].model_dump(exclude_defaults=True)
    assert asked.pop("idempotency_key").startswith("mcp:")
    assert asked == {
        "text": "We deploy on Thursdays.",
        "kind": "decision",
        "cwd": "/work/shop",
        "agent_id": "an-agent",
        "session": "s1",
    }


def test_the_session_of_a_call_is_codexs_own_where_it_says_one(agent: Wire, memory: Memory) -> None:
    agent.send(called_modern(1, "context", query="ports"))
    agent.receive()
    call = called_modern(2, "context", query="ports")
    call["params"]["_meta"] = messages.ENVELOPE | {"x-codex-turn-metadata": {"session_id": "codex-7"}}
    agent.send(call)
    agent.receive()
    assert [params.session for params in memory.asked] == ["s1", "codex-7"]


def test_a_repeated_call_has_the_same_key_on_another_connection(serving: Serving, memory: Memory) -> None:
    calls = [called_modern(1, "remember", text="a")] * 2 + [
        called_modern("1", "remember", text="a"),
        called_modern(1, "remember", text="b"),
    ]
    for call in calls:
        wire = serving.connect()
        wire.send(messages.attach(relay="r1"), call)
        wire.receive()
        wire.close()
    keys = [params.idempotency_key for params in memory.asked]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("show", {"node_id": "x"}, "there is no memory x. recall names them."),
        (
            "recall",
            {"question": "x"},
            "recall takes no question; its arguments are: query, limit, min_score, channel, since, kind",
        ),
        ("recall", {"query": 7}, "'query': should be a string."),
        ("remember", {"text": "x", "kind": "rumour"}, "'kind': input should be 'note', 'fact', 'preference', "),
        ("look", {}, "There is no tool 'look'; there are: recall, "),
    ],
)
def test_an_error_is_a_sentence_for_the_model(agent: Wire, tool: str, arguments: Any, said: str) -> None:
    agent.send(called_modern(1, tool, **arguments))
    answer = agent.receive()
    assert answer["result"]["isError"] is True
    assert text_of(answer).startswith(said)


def test_a_cancelled_call_is_not_answered_and_its_work_is_told(agent: Wire, memory: Memory) -> None:
    memory.held.clear()
    agent.send(called_modern(1, "recall", query="slow"))
    until(lambda: memory.calls)
    agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    agent.send(modern(2, "tools/list"))
    assert agent.receive()["id"] == 2
    until(lambda: memory.calls[0].cancelled)


def test_a_client_that_left_takes_its_calls_back(agent: Wire, memory: Memory) -> None:
    memory.held.clear()
    agent.send(called_modern(1, "recall", query="slow"))
    until(lambda: memory.calls)
    agent.close()
    until(lambda: memory.calls[0].cancelled)


def test_no_more_calls_are_open_than_a_connection_may_have(agent: Wire, memory: Memory) -> None:
    memory.held.clear()
    agent.send(*(called_modern(number, "recall", query=f"q{number}") for number in range(40)))
    until(lambda: len(memory.asked) == 2)
    memory.held.set()
    assert {agent.receive()["id"] for _ in range(40)} == set(range(40))


def test_the_answers_of_one_that_has_asked_everything_are_still_sent(agent: Wire) -> None:
    agent.send(called_modern(1, "recall", query="last"))
    agent.socket.shutdown(1)
    assert agent.receive()["id"] == 1
    assert agent.is_closed()


def test_an_attach_with_an_id_is_answered_with_the_daemons_version(serving: Serving) -> None:
    wire = serving.connect()
    wire.send(messages.attach(cwd="/") | {"id": "a"})
    assert wire.receive()["result"]["pid"] > 0


def test_what_a_newer_relay_says_beside_is_passed_over(serving: Serving, memory: Memory) -> None:
    wire = serving.connect()
    wire.send(messages.attach(cwd="/work/shop", colour="blue"), called_modern(1, "recall", query="ports"))
    assert "About ports." in text_of(wire.receive())
    assert memory.asked[0].cwd == "/work/shop"


def test_a_ping_is_answered_while_every_thread_is_at_work(serving: Serving, agent: Wire, memory: Memory) -> None:
    memory.held.clear()
    threads = serving.server.settings.threads
    others = [serving.connect() for _ in range(threads - 1)]  # one whose second call took the last thread would wait
    for wire in (agent, *others):  # held, as a connection that closes takes its calls back
        wire.send(*([] if wire is agent else [messages.attach()]), called_modern(1, "recall", query="q"))
    until(lambda: len(memory.asked) == threads)
    agent.send({"jsonrpc": "2.0", "id": "p", "method": "mcp.ping"})
    assert agent.receive() == {"jsonrpc": "2.0", "id": "p", "result": {}}


def test_only_the_first_line_attaches(serving: Serving) -> None:
    wire = serving.connect()
    wire.call(1, "context", query="x")
    wire.receive()
    wire.send(messages.attach() | {"id": 2})
    assert wire.receive()["error"]["code"] == INVALID_REQUEST


@pytest.mark.parametrize(("name", "bad"), [("session", "no\nname"), ("relay", "r" * 65)])
def test_an_attach_that_cannot_be_is_refused_and_closed(serving: Serving, name: str, bad: str) -> None:
    wire = serving.connect()
    wire.send(messages.attach(**{name: bad}))
    answer = wire.receive()
    assert answer["error"]["code"] == INVALID_PARAMS
    assert name in answer["error"]["message"]
    assert wire.is_closed()


def test_lines_that_are_no_messages_are_refused_one_by_one(agent: Wire) -> None:
    agent.send(b"no json\n", b"[]\n", b'{"jsonrpc": "1.0"}\n')
    codes = [agent.receive()["error"]["code"] for _ in range(3)]
    assert codes == [PARSE_ERROR, INVALID_REQUEST, INVALID_REQUEST]
    agent.send({"jsonrpc": "2.0", "id": [1], "method": "tools/list"})
    assert agent.receive()["error"]["code"] == INVALID_REQUEST
    agent.send(called_modern(1, "recall", query="on"))
    assert agent.receive()["id"] == 1


def test_what_is_not_served_is_unknown(agent: Wire) -> None:
    unknown = ("prompts/list", "roots/list", "sampling/createMessage", "logging/setLevel", "elicitation/create")
    agent.send(*(modern(number, method) for number, method in enumerate((*unknown, "resources/subscribe"), 10)))
    assert [agent.receive()["error"]["code"] for _ in range(6)] == [-32601] * 6
    agent.send(modern(3, "resources/read", uri="dreamd://nothing"))
    assert agent.receive()["error"]["code"] == INVALID_PARAMS


def test_so_many_may_listen_and_no_more(agent: Wire) -> None:
    filters = {"toolsListChanged": True}
    agent.send(*(modern(f"l{number}", "subscriptions/listen", notifications=filters) for number in range(17)))
    answers = [agent.receive() for _ in range(17)]
    assert sum("error" in answer for answer in answers) == 1

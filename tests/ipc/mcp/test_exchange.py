"""The relay's three kinds of request, over restarts and silences of the daemon, without I/O."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dreamd.ipc.mcp import exchange as module
from dreamd.ipc.mcp.exchange import AttachRefused, Exchange, Opening

from tests.ipc.mcp.messages import INITIALIZED, MODERN, called, called_modern, initialize, modern

LISTEN = modern("listen:0", "subscriptions/listen", notifications={"toolsListChanged": True})


class Side:
    """An exchange, spoken to in messages."""

    def __init__(self) -> None:
        self.exchange = Exchange(Opening(), {"relay": "r1", "cwd": "/work"})
        self.now = 100.0

    def agent(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.exchange.from_agent(json.dumps(message).encode(), self.now)

    def daemon(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.exchange.from_daemon(json.dumps(message).encode(), self.now)

    def attach(self) -> list[Any]:
        self.exchange.connected(self.now)
        self.daemon({"jsonrpc": "2.0", "id": "r1:attach", "result": {"version": "1"}})
        return self.to_daemon()

    def to_agent(self) -> list[Any]:
        return taken(self.exchange.to_agent)

    def to_daemon(self) -> list[Any]:
        return taken(self.exchange.to_daemon)

    def wait(self, seconds: float) -> None:
        """Let time pass, ticking when a tick is due."""
        end = self.now + seconds
        while (due := self.exchange.next_tick(self.now)) is not None and due <= end:
            self.now = max(self.now, due)
            self.exchange.tick(self.now)
        self.now = end


def taken(lines: list[bytes]) -> list[Any]:
    messages = [json.loads(line) for line in lines]
    assert all(line.endswith(b"\n") for line in lines)
    lines.clear()
    return messages


def answered(request_id: object, text: str = "yes") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"type": "text", "text": text}]}}


def methods(messages: list[Any]) -> list[Any]:
    return [message.get("method") for message in messages]


@pytest.fixture
def side() -> Side:
    return Side()


def test_the_opening_is_answered_without_a_daemon(side: Side) -> None:
    side.agent(initialize(0, "2025-11-25"), INITIALIZED, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert [answer["id"] for answer in side.to_agent()] == [0, 1]


def test_the_new_eras_opening_and_its_listening_are_answered_without_a_daemon(side: Side) -> None:
    side.agent(modern("probe", "server/discover"), LISTEN, modern(1, "resources/list"))
    said = side.to_agent()
    assert [message.get("id") for message in said] == ["probe", None, 1]
    assert said[1]["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "listen:0"}
    assert said[1]["params"]["notifications"] == {"toolsListChanged": True}


def test_a_handshake_is_replayed_on_every_connection_and_its_answer_kept_back(side: Side) -> None:
    side.agent(initialize(0, "2025-06-18"), INITIALIZED)
    side.to_agent()
    for _ in range(2):
        sent = side.attach()
        assert methods(sent) == ["mcp.attach", "initialize", "notifications/initialized"]
        assert sent[1]["params"]["protocolVersion"] == "2025-06-18"
        side.daemon({"jsonrpc": "2.0", "id": sent[1]["id"], "result": {}})
        side.exchange.lost(side.now)
    assert side.to_agent() == []


def test_an_agent_that_opens_late_opens_the_connection_that_is_there(side: Side) -> None:
    side.attach()
    side.agent(initialize(0, "2025-11-25"))
    assert methods(side.to_daemon()) == ["initialize", "notifications/initialized"]
    assert not side.exchange.wants_to_begin_anew


def test_an_agent_that_falls_back_to_the_handshake_gets_a_fresh_connection(side: Side) -> None:
    side.attach()
    side.agent(LISTEN, initialize(0, "2025-11-25"))
    assert side.exchange.wants_to_begin_anew
    side.exchange.lost(side.now)
    assert methods(side.attach())[:2] == ["mcp.attach", "initialize"]


def test_what_was_not_answered_is_sent_again_and_what_was_is_not(side: Side) -> None:
    side.attach()
    side.agent(called_modern(1, "recall", query="a"), called_modern("1", "remember", text="b"))
    side.daemon(answered(1))
    side.to_daemon()
    side.exchange.lost(side.now)
    resent = side.attach()
    assert [message["id"] for message in resent] == ["r1:attach", "1"]
    assert resent[1] == called_modern("1", "remember", text="b")
    side.daemon(answered("1"))
    assert [answer["id"] for answer in side.to_agent()] == [1, "1"]
    assert not side.exchange.owes_answers


def test_what_listens_listens_again_and_is_never_late(side: Side) -> None:
    side.attach()
    side.agent(LISTEN)
    side.to_agent()
    side.wait(3600)
    side.exchange.lost(side.now)
    assert side.attach()[1] == LISTEN
    acknowledged = {"_meta": {"io.modelcontextprotocol/subscriptionId": "listen:0"}, "notifications": {}}
    side.daemon({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": acknowledged})
    assert side.to_agent() == []
    assert not side.exchange.owes_answers


def test_a_cancelled_request_is_forgotten(side: Side) -> None:
    side.attach()
    side.agent(called(1, "recall", query="a"))
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    side.agent(cancel, cancel)
    assert methods(side.to_daemon()) == ["tools/call", "notifications/cancelled"]
    side.exchange.lost(side.now)
    assert methods(side.attach()) == ["mcp.attach"]
    side.daemon(answered(1))
    assert side.to_agent() == []


def test_without_a_daemon_a_call_is_a_sentence_at_once(side: Side) -> None:
    side.agent(called_modern(1, "recall", query="a"), modern(2, "resources/read", uri="dreamd://profile"))
    side.wait(module.ABSENT_S)
    tool, resource = side.to_agent()
    assert tool["result"]["isError"] is True
    assert tool["result"]["resultType"] == "complete"
    assert "dreamd is not running" in tool["result"]["content"][0]["text"]
    assert "dreamd is not running" in resource["error"]["message"]


def test_an_old_agent_gets_the_sentence_in_its_era(side: Side) -> None:
    side.agent(called(1, "recall", query="a"))
    side.wait(module.ABSENT_S)
    (tool,) = side.to_agent()
    assert set(tool["result"]) == {"content", "isError"}


def test_a_daemon_that_is_just_gone_is_waited_for(side: Side) -> None:
    side.attach()
    side.agent(called(1, "recall", query="a"))
    side.exchange.lost(side.now)
    side.wait(module.STARTING_S - 1)
    assert side.to_agent() == []
    assert methods(side.attach()) == ["mcp.attach", "tools/call"]
    side.daemon(answered(1))
    assert side.to_agent() == [answered(1)]


def test_a_daemon_that_is_starting_is_said_to_be(side: Side) -> None:
    side.exchange.connected(side.now)
    side.agent(called(1, "recall", query="a"))
    side.wait(module.STARTING_S)
    assert "dreamd is starting" in side.to_agent()[0]["result"]["content"][0]["text"]


def test_a_daemon_that_hangs_is_probed_and_its_call_given_up(side: Side) -> None:
    side.attach()
    side.agent(called(1, "recall", query="a"))
    side.wait(module.SILENT_S + module.PROBED_S)
    assert methods(side.to_daemon()) == ["tools/call", "mcp.ping", "notifications/cancelled"]
    assert "dreamd does not answer" in side.to_agent()[0]["result"]["content"][0]["text"]
    side.daemon(answered(1))
    assert side.to_agent() == []


def test_a_daemon_that_works_long_and_answers_probes_has_its_time(side: Side) -> None:
    side.attach()
    side.agent(called(1, "recall", query="a"))
    for number in range(5):
        side.wait(module.SILENT_S)
        assert module.PROBE in methods(side.to_daemon()), number
        side.daemon({"jsonrpc": "2.0", "id": "r1:ping", "result": {}})
    assert side.to_agent() == []
    side.daemon(answered(1))
    assert side.to_agent() == [answered(1)]


def test_what_holds_the_socket_says_why_there_is_no_daemon(side: Side) -> None:
    side.exchange.connected(side.now)
    reason = "the settings cannot be followed"
    with pytest.raises(AttachRefused, match=reason) as refused:
        side.daemon({"jsonrpc": "2.0", "id": None, "error": {"code": -32010, "message": reason}})
    side.exchange.lost(side.now, str(refused.value))
    side.agent(called(1, "recall", query="a"))
    side.wait(module.STARTING_S)
    assert reason in side.to_agent()[0]["result"]["content"][0]["text"]


def test_lines_that_are_no_messages(side: Side) -> None:
    side.exchange.from_agent(b"no json", side.now)
    assert side.to_agent()[0]["error"]["code"] == -32700
    side.agent({"jsonrpc": "2.0", "id": 4, "result": {}}, {"jsonrpc": "2.0", "id": [4], "method": "x"})
    assert side.to_agent() == []
    with pytest.raises(ValueError):
        side.exchange.from_daemon(b"[]", side.now)


def test_an_unknown_version_is_refused_with_those_that_are_served(side: Side) -> None:
    call = called_modern(1, "recall", query="a")
    call["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    side.agent(call)
    assert side.to_agent()[0]["error"]["data"] == {"supported": [MODERN], "requested": "2031-01-01"}

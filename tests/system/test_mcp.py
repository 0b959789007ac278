"""MCP as an agent has it: the real relay beside the real daemon, over restarts, hangs and ends of either."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
from dreamd.ipc.mcp.exchange import PROBED_S, SILENT_S
from mcp import Client, StdioServerParameters

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.ipc.mcp import messages
from tests.ipc.mcp.messages import INITIALIZED, asked, called, called_modern, initialize, modern
from tests.system.conftest import Make
from tests.system.waiting import until

pytestmark = pytest.mark.system

RELAY = (str(Path(sys.executable).with_name("dreamctl")), "mcp")


class Relay:
    """A relay, spoken to over its stdio."""

    def __init__(self, daemon: DaemonUnderTest, **environ: str) -> None:
        self.process = subprocess.Popen(
            RELAY,
            env=daemon.environ | environ,
            cwd=daemon.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def send(self, *sent: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        for message in sent:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the relay has ended"
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        answer = self.receive()
        assert answer["id"] == message["id"]
        return answer

    def call(self, request_id: int, tool: str, **arguments: Any) -> str:
        answer = self.ask(called_modern(request_id, tool, **arguments))
        (content,) = answer["result"]["content"]
        text: str = content["text"]
        return text

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait(10)


StartRelay = Callable[..., Relay]


@pytest.fixture
def start_relay() -> Iterator[StartRelay]:
    started: list[Relay] = []

    def start(daemon: DaemonUnderTest, **environ: str) -> Relay:
        started.append(Relay(daemon, **environ))
        return started[-1]

    yield start
    for relay in started:
        relay.close()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_own_client_uses_the_memory(shared: DaemonUnderTest, mode: Literal["auto", "legacy"]) -> None:
    async def talk() -> tuple[list[str], str, str]:
        command = StdioServerParameters(
            command=RELAY[0], args=list(RELAY[1:]), env=dict(shared.environ), cwd=shared.folder
        )
        async with Client(command, mode=mode, read_timeout_seconds=60) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            await client.list_resources()
            await client.call_tool("remember", {"text": "Deploys happen on Thursdays.", "kind": "decision"})
            found = await client.call_tool("recall", {"query": "when do deploys happen?"})
            profile = await client.read_resource("dreamd://profile")
            assert not found.is_error
            return tools, str(found.content[0]), str(profile.contents[0])

    tools, found, profile = asyncio.run(talk())
    assert {"recall", "remember", "context", "anchor_get"} <= set(tools)
    assert "Deploys happen on Thursdays." in found
    assert "no profile of this project yet" in profile


def test_every_tool_works_on_a_real_store(shared: DaemonUnderTest, start_relay: StartRelay) -> None:
    relay = start_relay(shared, CLAUDE_CODE_SESSION_ID="session-7")
    one = re.search(r"Kept as (\w+)", relay.call(1, "remember", text="The port is 8080.", kind="fact"))
    two = re.search(r"Kept as (\w+)", relay.call(2, "remember", text="Backups go to the blue disk.", kind="decision"))
    assert one
    assert two
    assert "The port is 8080." in relay.call(3, "recall", query="which port?")
    assert relay.call(4, "context", query="which port?").startswith("<dreamd-memory ")
    assert "The port is 8080." in relay.call(5, "show", node_id=one[1])
    assert relay.call(6, "feedback", node_id=one[1], verdict="useful") == f"Noted: {one[1]} was useful."
    assert relay.call(7, "link", **{"from": one[1], "to": two[1]}).startswith(f"{one[1]} RelatesTo {two[1]}")
    assert relay.call(8, "tag", node_id=one[1], add=["net"]) == f"{one[1]} has the tags: net."
    assert "write the docs" in relay.call(9, "anchor_set", task="write the docs")
    assert "write the docs" in relay.call(10, "anchor_get")
    assert relay.call(14, "find_strategy", query="release it") == "No way of doing this was seen to work twice here."
    offered = [{"name": "mail", "description": "Send a mail"}, {"name": "draw", "annotations": {}}]
    assert "mail" in relay.call(15, "select_tools", query="send a mail to Ana", tools=offered, k=1)
    assert relay.call(11, "reflect", outcome="The docs are written.").startswith("Kept as ")
    assert relay.call(12, "forget", node_id=two[1]).startswith(f"Forgot {two[1]}")
    assert "there is no nothing." in relay.call(13, "show", node_id="nothing")
    sessions = shared.call("anchor_get", session="session-7")
    assert sessions["anchor"]["task"] == "write the docs"


def test_every_resource_is_read(daemon: DaemonUnderTest, start_relay: StartRelay) -> None:
    said = ("Never push on Fridays.", "We decided to use Postgres 16 for billing.", "I prefer pnpm over npm here.")
    session = {"session_id": "talk", "cwd": str(daemon.folder)}
    daemon.call("observe", session=session, turns=[{"role": "user", "text": text} for text in said])
    daemon.wait_until_embedded(60)
    assert daemon.call("dream", wait=True)["state"] == "applied"
    relay = start_relay(daemon)

    def read(number: int, uri: str) -> str:
        (content,) = relay.ask(modern(number, "resources/read", uri=uri))["result"]["contents"]
        return str(content["text"])

    profile, digest = read(1, "dreamd://profile"), read(2, "dreamd://digest")
    assert all(text.rstrip(".") in profile for text in said)
    date = daemon.call("digest")["date"]
    assert read(3, f"dreamd://digest/{date}").partition(">")[2] == digest.partition(">")[2] != ""
    assert said[1] in read(4, "dreamd://node/talk%232")


def test_the_opening_needs_no_daemon_and_a_call_says_why_there_is_none(make: Make, start_relay: StartRelay) -> None:
    relay = start_relay(make())
    opened = relay.ask(initialize(0, "2025-06-18"))
    assert opened["result"]["serverInfo"]["name"] == "dreamd"
    relay.send(INITIALIZED)
    assert len(relay.ask(asked(1, "tools/list"))["result"]["tools"]) >= 11
    answer = relay.ask(called(2, "recall", query="ports"))
    assert answer["result"]["isError"] is True
    assert "dreamd is not running" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", messages.HANDSHAKES)
def test_a_restart_is_unseen_by_an_agent_of_the_old_era(
    daemon: DaemonUnderTest, start_relay: StartRelay, version: str
) -> None:
    relay = start_relay(daemon)
    relay.ask(initialize(0, version))
    relay.send(INITIALIZED)
    relay.ask(called(1, "remember", text="Deploys happen on Thursdays."))
    daemon.kill()
    daemon.start()
    daemon.wait_until_it_answers()
    answer = relay.ask(called(2, "recall", query="when do deploys happen?"))
    assert "Thursdays" in answer["result"]["content"][0]["text"]


def test_a_call_over_a_restart_is_answered_once(daemon: DaemonUnderTest, start_relay: StartRelay) -> None:
    relay = start_relay(daemon)
    relay.call(1, "recall", query="x")
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    relay.send(called_modern(2, "remember", text="Deploys happen on Thursdays."))
    daemon.kill()
    daemon.start()
    daemon.wait_until_it_answers()
    assert relay.receive()["id"] == 2
    assert len(daemon.call("list")["memories"]) == 1


def test_what_listens_listens_on_after_a_restart(daemon: DaemonUnderTest, start_relay: StartRelay) -> None:
    relay = start_relay(daemon)
    relay.send(modern("listen:0", "subscriptions/listen", notifications={"toolsListChanged": True}))
    assert relay.receive()["method"] == "notifications/subscriptions/acknowledged"
    relay.call(1, "recall", query="x")
    daemon.kill()
    daemon.start()
    daemon.wait_until_it_answers()
    assert relay.call(2, "recall", query="x")
    assert relay.ask(modern(3, "tools/list"))["id"] == 3  # and nothing of the stream's came in between


def test_a_remember_that_was_stored_and_not_answered_is_one_memory(daemon: DaemonUnderTest) -> None:
    daemon.call("remember", text="Backups go to the blue disk.")
    resent = called_modern(2, "remember", text="Deploys happen on Thursdays.", kind="decision")
    wire = attached(daemon, "r1")
    wire.sendall(line(resent))
    until(lambda: len(daemon.call("list")["memories"]) == 2)
    daemon.kill()  # stored; that connection's answer is read by nobody
    wire.close()
    daemon.start()
    daemon.wait_until_it_answers()
    wire = attached(daemon, "r1")
    wire.sendall(line(resent))
    answer = json.loads(wire.makefile("rb").readline())
    wire.close()
    assert answer["id"] == 2
    assert answer["result"]["isError"] is False
    assert len(daemon.call("list")["memories"]) == 2
    assert daemon.call("runs", kind="remember", all=True)["runs"] == []  # and it was not counted as said again


def attached(daemon: DaemonUnderTest, relay: str) -> socket.socket:
    """Connect as a relay of that name does."""
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(60)
    wire.connect(daemon.socket_path)
    wire.sendall(line(messages.attach(relay=relay)))
    return wire


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_a_daemon_that_hangs_costs_a_call_its_deadline(daemon: DaemonUnderTest, start_relay: StartRelay) -> None:
    relay = start_relay(daemon)
    relay.call(1, "recall", query="x")
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    said = relay.call(2, "recall", query="x")
    took = time.monotonic() - began
    daemon.process.send_signal(signal.SIGCONT)
    assert "dreamd does not answer" in said
    assert took >= SILENT_S + PROBED_S
    assert "Nothing that is remembered" in until(lambda: (text := relay.call(3, "recall", query="x")) and text)


def test_a_relay_ends_with_its_stdin_and_by_sigterm(make: Make, start_relay: StartRelay) -> None:
    relay = start_relay(make())
    assert relay.process.stdin is not None
    relay.process.stdin.close()
    assert relay.process.wait(10) == 0
    other = start_relay(make("two"))
    other.ask(modern(1, "server/discover"))
    other.process.terminate()
    assert other.process.wait(10) == -signal.SIGTERM


def test_a_relay_ends_with_its_parent_even_if_another_holds_its_stdin(make: Make) -> None:
    daemon = make()
    opening = json.dumps(modern(1, "server/discover")).encode() + b"\n"
    parents, stdins, relays = [], [], []
    for _ in range(3):
        reading, writing = os.pipe()
        os.write(writing, opening)
        stdins += [reading, writing]
        code = (
            f"import subprocess; p = subprocess.Popen({RELAY!r}, stdin={reading}); print(p.pid, flush=True); p.wait()"
        )
        command = [sys.executable, "-c", code]
        parents.append(subprocess.Popen(command, env=daemon.environ, stdout=subprocess.PIPE, pass_fds=[reading]))
    for parent in parents:
        assert parent.stdout is not None
        relays.append(int(parent.stdout.readline()))
        assert b"supportedVersions" in parent.stdout.readline()
    for parent in parents:
        parent.kill()
    until(lambda: not any(is_alive(pid) for pid in relays))
    for parent in parents:
        parent.wait(10)
        assert parent.stdout is not None
        parent.stdout.close()
    for descriptor in stdins:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

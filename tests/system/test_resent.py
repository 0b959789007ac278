"""A call that an agent's relay sends again, since the daemon died before it answered: done once, and answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest, Wire
from tests.ipc.mcp.messages import attach, called_modern

pytestmark = pytest.mark.system

SESSION = "a-session"


@dataclass
class Agent:
    """An agent whose relay connects anew for every message, as it does after a crash."""

    daemon: DaemonUnderTest
    nodes: dict[str, str]

    def call(self, number: int, tool: str, **arguments: Any) -> tuple[str, bool]:
        """Call a tool under an id; return its text, and whether it failed."""
        wire = Wire(self.daemon.socket_path, timeout_s=30)
        lines = attach(relay="r1", session=SESSION, agent="claude-code"), called_modern(number, tool, **arguments)
        try:
            result = json.loads(wire.ask(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))["result"]
        finally:
            wire.close()
        return str(result["content"][0]["text"]), bool(result.get("isError"))

    def state(self) -> object:
        """Return everything that a repeated call could have changed."""
        memories = self.daemon.call("list", channel="*", limit=100)["memories"]
        shown = [self.daemon.call("show", node_id=one["node_id"]) for one in memories]
        runs = [run["run_id"] for run in self.daemon.call("runs", limit=100)["runs"]]
        anchor = self.daemon.call("anchor_get", session=SESSION)["text"]
        return sorted(json.dumps(one, sort_keys=True) for one in shown), sorted(runs), anchor


@pytest.fixture
def agent(daemon: DaemonUnderTest) -> Agent:
    texts = {"one": "The cellar key hangs on the left hook.", "other": "The attic is locked on Sundays."}
    kept = {name: daemon.call("remember", text=text)["node_id"] for name, text in texts.items()}
    turns = [{"role": "user", "text": "The barn has a blue door.", "external_id": "u1"}]
    daemon.call("observe", session={"session_id": "talk"}, turns=turns)
    daemon.call("list")
    return Agent(daemon, {**kept, "turn": "talk#1"})


Arguments = Callable[[dict[str, str]], dict[str, Any]]
CALLS: dict[str, tuple[str, Arguments]] = {
    "remember": ("remember", lambda node: {"text": "The well is dry."}),
    "feedback": ("feedback", lambda node: {"node_id": node["one"], "verdict": "useful"}),
    "forget": ("forget", lambda node: {"node_id": node["one"]}),
    "forget a turn": ("forget", lambda node: {"node_id": node["turn"]}),
    "link": ("link", lambda node: {"from": node["one"], "to": node["other"]}),
    "supersede": ("link", lambda node: {"from": node["one"], "to": node["other"], "relation": "Supersedes"}),
    "contradict": ("link", lambda node: {"from": node["one"], "to": node["other"], "relation": "Contradicts"}),
    "tag": ("tag", lambda node: {"node_id": node["one"], "add": ["keys", "cellar"]}),
    "anchor_set": ("anchor_set", lambda node: {"task": "oil the locks", "decisions": ["with graphite", "not today"]}),
    "reflect": (
        "reflect",
        lambda node: {"learned": [{"text": "Oil freezes in the attic lock.", "kind": "negative"}], "outcome": "Done."},
    ),
}


ALWAYS = ("remember", "forget")
"""One call that makes and one that takes away; the others are tried in the night."""


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.nightly) for name in CALLS]
)
def test_what_is_sent_again_is_done_once(agent: Agent, name: str) -> None:
    tool, arguments = CALLS[name]
    first, failed = agent.call(7, tool, **arguments(agent.nodes))
    assert not failed, first
    agent.daemon.call("list")
    before = agent.state()
    agent.daemon.kill()
    agent.daemon.start()
    agent.daemon.wait_until_it_answers()
    again, failed = agent.call(7, tool, **arguments(agent.nodes))
    assert not failed, again
    assert again.removesuffix(" It was so already.") == first
    agent.daemon.call("list")
    assert agent.state() == before


def test_what_was_forgotten_and_brought_back_can_be_forgotten_again(agent: Agent) -> None:
    forgotten = agent.daemon.call("forget", node_id=agent.nodes["one"])
    assert agent.daemon.call("forget", node_id=agent.nodes["one"]) == forgotten
    agent.daemon.call("undo", run_id=forgotten["run_id"])
    again = agent.daemon.call("forget", node_id=agent.nodes["one"])
    assert again["run_id"] != forgotten["run_id"]
    assert agent.call(1, "forget", node_id="no-such-memory")[1]

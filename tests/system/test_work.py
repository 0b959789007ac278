"""Work under way, by a real daemon: what a killed one had acknowledged is there again."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dreamd.ipc.async_client import AsyncClient, context_or_empty

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import plain, typed

pytestmark = pytest.mark.system


def test_an_anchor_and_goals_survive_kill_9(daemon: DaemonUnderTest) -> None:
    daemon.call("anchor_set", session="s1", channel="shop", task="move the orders", next_step="dump them")
    goal = daemon.call("goal_set", session="s1", channel="shop", text="the orders are moved")
    daemon.kill()
    daemon.start()
    daemon.wait_until_it_answers()
    lost = daemon.call("anchor_recover", session="s2", channel="shop")
    assert (lost["anchor"]["task"], lost["anchor"]["session_id"]) == ("move the orders", "s1")
    assert lost["text"].startswith("<dreamd-memory ")
    assert "may still be at work" in lost["notes"][0]
    assert [one["goal_id"] for one in daemon.call("goals", session="s1", channel="shop")["goals"]] == [goal["goal_id"]]


def test_a_person_sees_what_was_left_open_and_closes_it(daemon: DaemonUnderTest) -> None:
    daemon.call("anchor_set", session="s1", channel="shop", task="move the orders")
    goal = daemon.call("goal_set", session="s1", channel="shop", text="the orders are moved")
    daemon.call("session_end", session="s1")
    shown = plain(typed(daemon, "anchor", "--channel", "shop").stdout)
    assert shown.startswith("Session s1 (ended) in shop")
    assert "move the orders" in shown
    assert typed(daemon, "anchor", "--channel", "garden").returncode == 4
    assert goal["goal_id"] in plain(typed(daemon, "goals", "--channel", "shop").stdout)
    done = typed(daemon, "goals", "--channel", "shop", "--complete", goal["goal_id"])
    assert plain(done.stdout) == "Completed: the orders are moved"
    assert daemon.call("goals", channel="shop")["threads"] == []


def test_an_asynchronous_agent_asks_many_things_at_once(daemon: DaemonUnderTest) -> None:
    async def talk() -> tuple[list[str], str]:
        async with AsyncClient(daemon.socket_path) as client:
            texts = [f"Shelf {number} holds the jars of plum jam." for number in range(20)]
            kept = await asyncio.gather(*(client.call("remember", {"text": text}) for text in texts))
            found = await client.call("recall", {"query": "Shelf 7 plum jam", "channel": "*", "limit": 20})
            assert {hit["node_id"] for hit in found["hits"]} <= {one["node_id"] for one in kept}
            return [one["node_id"] for one in kept], (await context_or_empty("plum jam", path=client.path))["text"]

    kept, text = asyncio.run(talk())
    assert len(set(kept)) == 20
    assert "plum jam" in text


def test_a_person_sees_what_agents_were_told_and_what_was_lost(daemon: DaemonUnderTest) -> None:
    """A hook that the daemon did not answer in time is counted with the next question about it."""
    folder = daemon.folder / "shop"
    folder.mkdir()
    daemon.call("remember", text="Never push on Fridays.", kind="preference", channel="_global")
    daemon.call("list")
    given = {"session_id": "told-1", "cwd": str(folder), "source": "startup"}
    answer = daemon.call("hook", agent="claude-code", event="SessionStart", given=given)
    assert "Fridays" in answer["output"]
    started = [str(Path(sys.executable).with_name("dreamctl")), "hook", "claude-code", "SessionStart"]
    lost = json.dumps(given | {"session_id": "told-2"}).encode()
    daemon.pause()
    subprocess.run(started, input=lost, env=daemon.environ, capture_output=True, check=True)
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGCONT)
    told = daemon.call("told", session="told-1")
    assert [(one["moment"], one["lost"]) for one in told["texts"]] == [("start", "")]
    shown = plain(typed(daemon, "told", "--today").stdout)
    assert "claude-code at the start" in shown
    assert "Never push on Fridays." in shown
    assert "lost: too late" in shown
    assert "1 start lost." in shown
    assert "1 text to 1 session" in plain(typed(daemon, "status").stdout)
    assert typed(daemon, "told", "--session", "none-such").returncode == 4
    assert typed(daemon, "told", "--channel", "none-such").returncode == 4

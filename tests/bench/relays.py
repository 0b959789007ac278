"""What do fifty agents cost? Their relays' memory, the daemon's growth, and what is left of them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from dreamd.ipc.mcp.tools import INSTRUCTIONS, TOOLS, Tool
from dreamd.store import estimate_tokens

from .daemon_under_test import MIB, DaemonUnderTest
from .options import Options
from .scratch import own_folder
from .table import Row, say

RELAYS = 50
RELAY = (str(Path(sys.executable).with_name("dreamctl")), "mcp")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
PARENT = f"import subprocess, sys; p = subprocess.Popen({RELAY!r}); print(p.pid, file=sys.stderr, flush=True); p.wait()"
LAST_S = 10.0


class Agent:
    """A process that starts a relay, as an agent does, and is killed."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            env=environ,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        self.relay = psutil.Process(int(self.process.stderr.readline()))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request of the new era and return its answer."""
        return ask(self.process, method, {"_meta": ENVELOPE, **params})

    def kill(self) -> None:
        """End the agent, and not its relay."""
        self.process.kill()

    def close(self) -> None:
        """Let go of it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def ask(process: subprocess.Popen[bytes], method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask a relay one thing, in the manner of the new era unless `params` say otherwise."""
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {"_meta": ENVELOPE}}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def measure(options: Options) -> Iterator[Row]:
    """Start them beside one daemon, have each recall, and kill their parents."""
    yield from _tokens()
    with own_folder("relays") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        daemon.call("remember", text="Deploys happen on Thursdays.")
        daemon.wait_until_embedded()
        daemon.call("recall", query="when do deploys happen?")
        before = daemon.rss_bytes()
        count = options.of(RELAYS, 5)
        say(f"starting {count} relays")
        agents = [Agent(daemon.environ, daemon.folder) for _ in range(count)]
        try:
            for agent in agents:
                recalled = agent.ask("tools/call", name="recall", arguments={"query": "when do deploys happen?"})
                assert "Thursdays" in recalled["result"]["content"][0]["text"]
            grown = (daemon.rss_bytes() - before) / MIB
            sizes = [agent.relay.memory_info().rss / MIB for agent in agents]
            yield Row(
                f"a relay's resident memory, {count} of them",
                f"{max(sizes):.1f} MiB",
                "≤ 15 MiB",
                max(sizes) <= 15,
                f"the largest; median {statistics.median(sizes):.1f}",
            )
            yield Row(
                f"growth of the daemon with {count} relays that recalled",
                f"{grown:.0f} MiB",
                "≤ 60 MiB",
                grown <= 60,
                "the SDK's import among it",
            )
            yield _orphans(agents)
        finally:
            for agent in agents:
                agent.close()


def _tokens() -> Iterator[Row]:
    always = [tool for tool in TOOLS.values() if tool.always_loaded]
    few = estimate_tokens(INSTRUCTIONS) + sum(map(_tokens_of, always))
    every = estimate_tokens(INSTRUCTIONS) + sum(map(_tokens_of, TOOLS.values()))
    how = "an upper estimate; name, description and schema as compact JSON, and the instructions"
    yield Row("tokens of a session that recalls nothing: always loaded", f"{few}", "≤ 350", few <= 350, how)
    yield Row("the same where every tool is loaded", f"{every}", "≤ 1,500", every <= 1500, how)


def _tokens_of(tool: Tool) -> int:
    entry = tool.listed()
    seen = {key: entry[key] for key in ("name", "description", "inputSchema")}
    return estimate_tokens(json.dumps(seen, separators=(",", ":")))


def _orphans(agents: list[Agent]) -> Row:
    """Kill every agent at once and look for their relays."""
    began = time.monotonic()
    for agent in agents:
        agent.kill()
    while (left := [agent for agent in agents if _lives(agent.relay)]) and time.monotonic() - began < LAST_S:
        time.sleep(0.02)
    took = time.monotonic() - began
    return Row(
        f"relays that are left of {len(agents)} whose agents were killed",
        f"{len(left)} after {took:.1f} s",
        "0 after 2 s",
        not left and took <= 2,
        "kill -9 of the agents, all at once",
    )


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

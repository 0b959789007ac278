"""Checks of a connection: the entries, the daemon, and hooks and tools started as the agent starts them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ipc.client import Client, ClientError
from .agent_connection import AgentConnection, ConnectError
from .programs import Command

TOOLS_WITHIN_S = 5.0
SESSION = "dreamctl-check"
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "dreamctl-check", "version": "1"},
    },
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, and what was seen. `hint` says what to do where it failed."""

    check: str
    ok: bool
    seen: str
    hint: str = ""


def check_results(connection: AgentConnection, command: Command, events: Sequence[str]) -> Iterator[CheckResult]:
    """Yield the results of the checks of a program's connection."""
    name = connection.program.name
    try:
        missing = connection.missing()
    except ConnectError as error:
        yield CheckResult("settings", False, str(error), error.hint)
        return
    again = f"`dreamctl connect {name}` writes them"
    absent = ", ".join(map(str, missing))
    yield CheckResult("settings", not missing, f"not as they should be: {absent}" if missing else "in place", again)
    yield _daemon(command)
    for event in events:
        yield _hook(command, name, event)
    yield _tools(command)


def _daemon(command: Command) -> CheckResult:
    try:
        with Client(command.variables.get("DREAMD_SOCKET"), timeout_s=2.0, name=SESSION) as client:
            answer = client.call("hello", {"client": SESSION})
    except ClientError as error:
        return CheckResult("daemon", False, str(error), error.hint)
    return CheckResult("daemon", True, f"dreamd {answer['version']} answers")


def _hook(command: Command, agent: str, event: str) -> CheckResult:
    """Start a hook as the agent does: by a shell, with a minimal environment."""
    # An empty prompt: the hook runs to its end, and nothing is remembered of it.
    given = json.dumps({"session_id": SESSION, "cwd": "/", "hook_event_name": event, "prompt": ""})
    began = time.perf_counter()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command.hook(agent, event)],
            input=given.encode(),
            env=_bare_environment(),
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(f"hook {event}", False, str(error))
    took = f"{1e3 * (time.perf_counter() - began):.0f} ms"
    output = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    if done.returncode or (done.stdout and not _is_json(done.stdout)):
        return CheckResult(f"hook {event}", False, f"exit {done.returncode} after {took}: {output[:200]}")
    return CheckResult(f"hook {event}", True, f"answers in {took}")


def _tools(command: Command) -> CheckResult:
    """Send our MCP server a client's `initialize`, and read the answer."""
    try:
        done = subprocess.run(
            [command.path, "mcp"],
            input=json.dumps(OPENING).encode() + b"\n",
            env=_bare_environment() | dict(command.variables),
            capture_output=True,
            timeout=TOOLS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult("tools", False, f"`dreamctl mcp` did not end: {error}")
    line = done.stdout.partition(b"\n")[0]
    if _is_json(line) and "result" in json.loads(line):
        return CheckResult("tools", True, "the MCP server answers")
    output = done.stderr.decode("utf-8", "replace").strip()[:200]
    return CheckResult("tools", False, f"`dreamctl mcp` gave no answer: {output or f'exit {done.returncode}'}")


def _bare_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that every agent passes on."""
    return {name: environ[name] for name in ("HOME", "PATH", "XDG_RUNTIME_DIR", "XDG_STATE_HOME") if name in environ}


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

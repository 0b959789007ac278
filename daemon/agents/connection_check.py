"""Checks of a connection: the entries, the daemon, and hooks and tools started as the agent starts them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...ipc.client import Client, ClientError
from ...ipc.mcp.tools import PROFILE
from .agent_connection import AgentConnection, ConnectError
from .hook_formats import FORMATS
from .programs import Command

# Longer than the relay waits for a daemon that is starting.
TOOLS_WITHIN_S = 10.0
SESSION = "dreamctl-check"
# The relay answers the first by itself; the second needs the daemon, and changes nothing there.
REQUESTS = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": SESSION, "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": PROFILE}},
)
ABSENT = "not installed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, and what was seen. `hint` says what to do where it failed."""

    check: str
    ok: bool
    seen: str
    hint: str = ""


def check_results(
    connection: AgentConnection, command: Command, environ: Mapping[str, str] = os.environ
) -> Iterator[CheckResult]:
    """Yield the results of the checks of a program's connection, for a program that is started with `environ`."""
    name = connection.program.name
    try:
        missing = connection.connecting()
    except ConnectError as error:
        yield CheckResult("settings", False, str(error), error.hint)
        return
    again = f"`dreamctl connect {name}` writes them"
    absent = ", ".join(str(edit.path) for edit in missing)

    def is_absent(*called: str) -> bool:
        return any(edit.adds(words) for edit in missing for words in called)

    yield CheckResult("settings", not missing, f"not as they should be: {absent}" if missing else "in place", again)
    yield _daemon(command)
    for event in FORMATS[name].moments:
        # As a command for the shell, or called by our plugin for all events.
        if is_absent(f"hook {name} {event}", f'"hook", "{name}"'):
            yield CheckResult(f"hook {event}", False, ABSENT)
        else:
            yield _hook(command, name, event, environ)
    if is_absent('"mcp"'):  # the argument of `dreamctl` in the entry of our tools
        yield CheckResult("tools", False, ABSENT)
    else:
        yield _tools(command, connection.program.environment_of_tools(environ, command))


def _daemon(command: Command) -> CheckResult:
    try:
        with Client(command.variables.get("DREAMD_SOCKET"), timeout_s=2.0, name=SESSION) as client:
            answer = client.call("hello", {"client": SESSION})
    except ClientError as error:
        return CheckResult("daemon", False, str(error), error.hint)
    return CheckResult("daemon", True, f"dreamd {answer['version']} answers")


def _hook(command: Command, agent: str, event: str, environ: Mapping[str, str]) -> CheckResult:
    """Start a hook as the agent does: by a shell, in the agent's own environment."""
    # An empty prompt: the hook runs to its end, and nothing is remembered of it.
    given = json.dumps({"session_id": SESSION, "cwd": "/", "hook_event_name": event, "prompt": ""})
    began = time.perf_counter()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command.hook(agent, event)],
            input=given.encode(),
            env=environ,
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


def _tools(command: Command, environ: Mapping[str, str]) -> CheckResult:
    """Send our MCP server a client's opening and a question for the daemon, and read the answers."""
    try:
        done = subprocess.run(
            [command.path, "mcp"],
            input=b"".join(json.dumps(request).encode() + b"\n" for request in REQUESTS),
            env=environ,
            capture_output=True,
            timeout=TOOLS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult("tools", False, f"`dreamctl mcp` did not end: {error}")
    answers = [json.loads(line) for line in done.stdout.splitlines() if _is_json(line)]
    if len(answers) == len(REQUESTS) and all("result" in answer for answer in answers):
        return CheckResult("tools", True, "the MCP server answers")
    refusals = [answer["error"]["message"] for answer in answers if "error" in answer]
    output = done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit {done.returncode}"
    return CheckResult("tools", False, f"`dreamctl mcp` gave no answer: {'; '.join(refusals) or output}")


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

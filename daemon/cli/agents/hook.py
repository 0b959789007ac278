"""`dreamctl hook AGENT EVENT`: what an agent starts at a moment of its session. It fails open.

An agent waits for its hooks, and one that exits with 2 keeps a prompt from being sent. So this command takes 150 ms at
most, the interpreter's start included, exits with 0 whatever happens, and prints JSON or nothing. Only the light parts
of the standard library are imported: `typing` alone would take as long as the question.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

from ....ipc.socket_path import default_socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..terminal import Terminal

DEADLINE_S = 0.13
"""From the start of the process to the answer: of 150 ms the rest is the interpreter's, to end."""

LEAST_S, USUAL_START_S = 0.05, 0.03
"""The time that is left to the daemon however long the interpreter took to start, and what it takes to start where the
system does not say it."""

AWAITED = frozenset({"SessionStart", "UserPromptSubmit", "BeforeAgent", "sessionStart", "start", "prompt"})
"""The events, of all agents, at which something may be handed over. Others are told and not waited for: notifications
are done although their sender has left, also by a daemon that is busy, or stopped, just then."""

MOST_INPUT_BYTES = 2**24
MOST_LINE_BYTES = 2**20
LONGEST, SHORTENED = 200_000, 20_000
"""Characters of one text of the input, and of one where the whole does not fit into a line of the wire."""


def hook_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of hook."""
    parser.add_argument("agent", nargs="?", default="", help="the agent's name, as `connect` knows it")
    parser.add_argument("event", nargs="?", default="", help="the agent's own name of the event")


def hook(options: Namespace, terminal: Terminal) -> int:
    """Answer a hook, as `answer_hook` does."""
    return answer_hook([options.agent, options.event])


def answer_hook(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print what the daemon has to say at this moment, if anything, and return 0."""
    deadline = time.monotonic() + max(LEAST_S, DEADLINE_S - _age_s())
    if len(words) < 2 or environ.get("DREAMD_NO_HOOKS") == "1":
        return 0
    # Whatever is wrong here (no daemon, a full pipe, nonsense on stdin) must not reach the agent: it would stop it.
    try:
        given = _read_input(deadline)
        request = _request(words[0], words[1], given)
        output = _send(request, default_socket_path(environ), deadline, wait=words[1] in AWAITED)
        if output:
            sys.stdout.write(output + "\n")
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt):  # the boundary of a job: an agent's hook has nowhere to report to
        _close_stdout()
    return 0


def _age_s() -> float:
    """Return for how long this process has lived: on a busy machine most of its time passes before the first line."""
    try:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123  (pathlib is a tenth of a thin command's time)
            started = stat.read().rpartition(b")")[2].split()[19]  # field 22 of proc(5), in ticks since the boot
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):  # not Linux
        return USUAL_START_S


def _read_input(deadline: float) -> dict[str, Any]:
    """Read the agent's JSON from stdin. Raises ValueError for anything else, and when it does not end in time."""
    pieces: list[bytes] = []
    size = 0
    while size < MOST_INPUT_BYTES:
        if not select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        piece = os.read(0, 2**16)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    given = json.loads(b"".join(pieces))
    if type(given) is not dict:
        raise ValueError("no object")
    return given


def _request(agent: str, event: str, given: dict[str, Any]) -> bytes:
    """Return the line of the wire that asks, or tells; long texts are cut where it would be too long."""
    for longest in (LONGEST, SHORTENED):
        params = {"agent": agent, "event": event, "given": _plain(given, longest), "cwd": _folder(given)}
        request = {"jsonrpc": "2.0", "method": "hook", "params": params} | ({"id": 1} if event in AWAITED else {})
        line = json.dumps(request).encode() + b"\n"
        if len(line) <= MOST_LINE_BYTES:
            return line
    raise ValueError("too long")


def _plain(given: dict[str, Any], longest: int) -> dict[str, Any]:
    """Keep what a moment is told by: texts, numbers, and lists of texts."""
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, str):
            kept[name] = value[:longest]
        elif isinstance(value, int | float):
            kept[name] = value
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            kept[name] = [one[:4096] for one in value[:16]]
    return kept


def _folder(given: dict[str, Any]) -> str | None:
    cwd = given.get("cwd")
    if isinstance(cwd, str) and 0 < len(cwd) <= 4096:
        return cwd
    return os.getcwd()  # noqa: PTH109  (pathlib is a tenth of a thin command's time)


def _send(line: bytes, path: str, deadline: float, *, wait: bool) -> str:
    """Send a line, and return the daemon's output if it is waited for. Raises OSError without a daemon, or too late."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.settimeout(_left(deadline))
        wire.connect(path)
        wire.sendall(line)
        if not wait:
            return ""
        answer = b""
        while not answer.endswith(b"\n"):
            wire.settimeout(_left(deadline))
            piece = wire.recv(2**16)
            if not piece or len(answer) > MOST_LINE_BYTES:
                raise ConnectionResetError
            answer += piece
    output = json.loads(answer)["result"]["output"]
    return output if isinstance(output, str) else ""


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _close_stdout() -> None:
    """Let nothing be written at exit: the reader may have left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

"""The entry point of `dreamctl`, with the commands that agents start: hook and mcp. A hook fails open.

An agent waits for its hooks, and one that exits with 2 keeps a prompt from being sent. So `dreamctl hook AGENT EVENT`
takes 150 ms at most, the interpreter's start included, and 1.5 s at a session's start; it exits with 0 whatever
happens, and prints JSON or nothing. Only light parts of the standard library are imported: `typing` alone would take as
long as the question.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

from ...ipc.socket_path import default_socket_path, path_of_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .terminal import Terminal

# From the start of the process to the answer; the interpreter needs the rest of the 150 ms to end.
DEADLINE_S = 0.13

# The same at a session's start: its text matters most of all, there is one, and a busy machine needs longer.
START_DEADLINE_S = 1.5

# Time left to the daemon even if the interpreter started slowly.
LEAST_S = 0.05

# The interpreter's start, where the system does not report the age of a process.
USUAL_START_S = 0.03

# Events, of all agents, whose answer may hold text for the agent. Others are sent as notifications: the daemon handles
# them although their sender has left, also one that was busy or stopped just then.
STARTS = frozenset({"SessionStart", "sessionStart", "start"})
ACTS = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "AfterTool", "before", "after"})
AWAITED = STARTS | {"UserPromptSubmit", "BeforeAgent", "prompt"} | ACTS

MOST_INPUT_BYTES = 2**24
MOST_LINE_BYTES = 2**20
# Characters kept of each text of the input; the second where the first does not fit into a line of the wire.
LONGEST, SHORTENED = 200_000, 20_000

# The file of moments without an answer; the daemon reads and removes it.
MOST_LOST_BYTES = 2**16


class Undelivered(TimeoutError):
    """The daemon did not take a request before the deadline, so it knows nothing of it."""


def main() -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:]
    if words[:1] == ["hook"] and not {"-h", "--help"} & {*words[1:2]}:
        return answer_hook(words[1:])
    if words[:1] == ["mcp"]:
        return _relay(words[1:])
    from .main import main as run

    return run()


def mcp_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of mcp."""
    parser.add_argument("--agent", default="", metavar="NAME", help="the agent's name, where it does not say it")


def mcp(options: Namespace, terminal: Terminal) -> int:
    """Relay MCP between stdio and the daemon."""
    return _relay(["--agent", options.agent] if options.agent else [])


def _relay(words: list[str]) -> int:
    from ...ipc.mcp.relay import main as relay

    return relay(words)


def hook_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of hook."""
    parser.add_argument("agent", nargs="?", default="", help="the agent's name, as `connect` knows it")
    parser.add_argument("event", nargs="?", default="", help="the agent's own name of the event")


def hook(options: Namespace, terminal: Terminal) -> int:
    """Answer a hook, as `answer_hook` does."""
    return answer_hook([options.agent, options.event])


def answer_hook(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print the daemon's answer to an event, if there is one, and return 0."""
    event = words[1] if len(words) > 1 else ""
    deadline = _deadline(START_DEADLINE_S if event in STARTS else DEADLINE_S)
    if not event or environ.get("DREAMD_NO_HOOKS") == "1":
        return 0
    # No error (no daemon, a full pipe, nonsense on stdin) may reach the agent: it would stop the prompt.
    try:
        given = _read_input(deadline)
        if event == "BeforeAgent" and _is_first(given):
            deadline = _deadline(START_DEADLINE_S)
        output = _answer(words[0], event, given, default_socket_path(environ), deadline)
        if output:
            sys.stdout.write(output + "\n")
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt):  # the boundary of a job: an agent's hook has nowhere to report to
        # The reader may have left: Python's flush at exit would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _answer(agent: str, event: str, given: dict[str, Any], path: str, deadline: float) -> str:
    """Return the daemon's output. A failure is noted for the daemon, which cannot know of it, and raised."""
    began_s = time.time()
    request = _request(agent, event, given, began_s)
    if event not in AWAITED:
        return _send(request, path, deadline, wait=False)
    try:
        return _send(request, path, deadline, wait=True)
    except Exception as error:
        _note_lost(path_of_lost(path), agent, event, given, began_s, error)
        raise


def _note_lost(path: str, agent: str, event: str, given: dict[str, Any], began_s: float, error: Exception) -> None:
    """Append a line about a moment without an answer: when, whose, and why; nothing of the input's texts.

    Its time is that of the request, which the daemon may answer late.
    """
    session = given.get("conversation_id") or given.get("session_id")
    if not isinstance(session, str) or given.get("agent_id"):  # the daemon answers no sub-agent
        return
    texts = agent[:64], event[:64], session[:256], _folder(given), type(error).__name__
    line = json.dumps([began_s, *texts]) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:  # no daemon since the machine's start
        os.mkdir(path.rpartition("/")[0], 0o700)  # noqa: PTH102  (pathlib is a tenth of a thin command's time)
        descriptor = os.open(path, flags, 0o600)
    try:
        if os.fstat(descriptor).st_size < MOST_LOST_BYTES:
            os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _deadline(limit_s: float) -> float:
    return time.monotonic() + max(LEAST_S, limit_s - _age_s())


def _is_first(given: dict[str, Any]) -> bool:
    """Return True for the first prompt of Gemini CLI's session, which brings the text of its start."""
    try:
        with open(given["transcript_path"], "rb") as chat:  # noqa: PTH123  (pathlib is a tenth of a thin command's time)
            return b'"type":"gemini"' not in chat.read(2**16)
    except (OSError, KeyError, TypeError, ValueError):
        return True


def _age_s() -> float:
    """Return the age of this process: on a busy machine most of its time passes before its first line."""
    try:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123  (pathlib is a tenth of a thin command's time)
            # Field 22 of proc(5), in ticks since the boot.
            started = stat.read().rpartition(b")")[2].split()[19]
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):  # not Linux
        return USUAL_START_S


def _read_input(deadline: float) -> dict[str, Any]:
    """Read the agent's JSON object from stdin. Raises ValueError for other input, or if it does not end in time."""
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


def _request(agent: str, event: str, given: dict[str, Any], at_s: float) -> bytes:
    """Return the request's line, or the notification's; long texts are cut where it would exceed the wire's bound."""
    for longest in (LONGEST, SHORTENED):
        params = {"agent": agent, "event": event, "given": _plain(given, longest), "cwd": _folder(given), "at": at_s}
        if user := os.environ.get("DREAMD_USER"):
            params["user_id"] = user
        request = {"jsonrpc": "2.0", "method": "hook", "params": params} | ({"id": 1} if event in AWAITED else {})
        line = json.dumps(request).encode() + b"\n"
        if len(line) <= MOST_LINE_BYTES:
            return line
    raise ValueError("too long")


def _plain(given: dict[str, Any], longest: int, deep: int = 3) -> dict[str, Any]:
    """Keep the texts, numbers, lists of texts and objects of these of an input: the daemon reads nothing else."""
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, str):
            kept[name] = value[:longest]
        elif isinstance(value, int | float):
            kept[name] = value
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            kept[name] = [one[:4096] for one in value[:16]]
        elif isinstance(value, dict) and deep:
            kept[name] = _plain(value, longest, deep - 1)
    return kept


def _folder(given: dict[str, Any]) -> str | None:
    cwd = given.get("cwd")
    if isinstance(cwd, str) and 0 < len(cwd) <= 4096:
        return cwd
    return os.getcwd()  # noqa: PTH109  (pathlib is a tenth of a thin command's time)


def _send(line: bytes, path: str, deadline: float, *, wait: bool) -> str:
    """Send a line; with `wait` return the daemon's output. Raises OSError without a daemon, or after the deadline."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        try:
            wire.settimeout(_left(deadline))
            wire.connect(path)
            wire.sendall(line)
        except (TimeoutError, BlockingIOError):  # the latter where too many wait to be accepted
            raise Undelivered from None
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


if __name__ == "__main__":
    sys.exit(main())

"""`dreamctl mcp`: passes an agent's MCP between its stdio and the daemon, and answers the opening itself.

One relay runs for every agent, so it is small: the standard library, no asyncio, one thread in `select`.
It ends with its agent: at the end of its stdin, with its parent, or by SIGTERM.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from ..protocol import MAX_LINE_BYTES, Json, LineBuffer
from ..socket_path import default_socket_path, too_long
from .exchange import AttachRefused, Exchange, Opening

POLL_S = 1.0
"""The interval of polling for the parent, where the kernel does not report its end."""


class Parent:
    """The process that started this one. `descriptor` becomes readable at its end; None: polling alone sees it.

    The whole process is meant. PR_SET_PDEATHSIG fires when the thread that forked ends, and agents fork from threads
    of a pool.
    """

    def __init__(self) -> None:
        self._pid = os.getppid()
        self.descriptor: int | None = None
        try:
            self.descriptor = self._watch()
        except OSError:  # an old kernel, a sandbox that forbids it, or it is gone: `is_gone` knows
            return

    def is_gone(self) -> bool:
        """Return True once it has ended: its children have another parent then."""
        return os.getppid() != self._pid

    def _watch(self) -> int:
        if sys.platform == "linux":
            return os.pidfd_open(self._pid)
        self._queue = select.kqueue()
        ended = select.kevent(self._pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        self._queue.control([ended], 0)
        return self._queue.fileno()


USAGE = """usage: dreamctl mcp [--agent NAME]

Speak MCP on stdin and stdout for the memory that dreamd keeps; an agent starts this by itself.

  --agent NAME  the agent's name, where it does not say it"""

STDIN, STDOUT = 0, 1
READ_BYTES = 2**16
MOST_WAITING_BYTES = 2**20
"""The bytes that wait for a side that does not read; more is not read for it."""
LONGEST_PATH = 4096
LONGEST_LINE = 2 * 2**20
LAST_ANSWERS_S = 1.0
RETRY_S, LONGEST_RETRY_S, RETRY_FOR_A_CALL_S = 0.05, 30.0, 0.1


def main(words: list[str]) -> int:
    """Relay until the agent is gone."""
    if words and (len(words) != 2 or words[0] != "--agent"):
        wants_help = words[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if wants_help else sys.stderr)
        return 0 if wants_help else 2
    attach = parties(os.environ, words[1] if words else "")
    return Relay(Exchange(Opening(), attach), default_socket_path()).run()


def parties(environ: Mapping[str, str], agent: str) -> Json:
    """Return the parameters of `mcp.attach`, as far as they are in the environment."""
    session = environ.get("CLAUDE_CODE_SESSION_ID", "")
    if not agent and session:
        agent = "claude-code"
    cwd = environ.get("CLAUDE_PROJECT_DIR") or _cwd()
    # A name that the daemon would refuse is left out: the session is worth more than its name.
    named = ("agent", agent), ("session", session)
    names = {name: value for name, value in named if _is_name(value)}
    if user := environ.get("DREAMD_USER"):  # never left out: without it the owner would be asked for
        names["user"] = user
    return {"relay": os.urandom(8).hex(), **names} | ({"cwd": cwd} if 0 < len(cwd) <= LONGEST_PATH else {})


class Relay:
    """The loop between three descriptors: the agent's two, and the daemon's."""

    def __init__(self, exchange: Exchange, path: str) -> None:
        self._exchange = exchange
        self._path = path
        self._parent = Parent()
        self._from_agent = AgentLines()
        self._from_daemon = LineBuffer(LONGEST_LINE)
        self._to_agent = self._to_daemon = b""
        self._daemon: socket.socket | None = None
        self._retry_s, self._retry_at = RETRY_S, 0.0
        self._ends_at: float | None = None
        if complaint := too_long(path):
            exchange.lost(0.0, complaint)
            self._retry_at = float("inf")

    def run(self) -> int:
        """Pass lines on until one side ends; return the exit code."""
        try:
            while self._turn(time.monotonic()):
                pass
        except BrokenPipeError:  # the agent reads no more
            pass
        return 0

    def _turn(self, now: float) -> bool:
        if self._daemon is None and now >= self._retry_at:
            self._connect(now)
        self._exchange.tick(now)
        self._collect()
        if self._parent.is_gone() or self._is_done(now):
            return False
        readable, writable = self._wait(now)
        now = time.monotonic()
        if STDOUT in writable:
            # At most PIPE_BUF bytes: `select` promises room for so many, and a blocking write would stop the relay.
            self._to_agent = self._to_agent[os.write(STDOUT, self._to_agent[: select.PIPE_BUF]) :]
        if self._daemon is not None:
            self._exchange_with_daemon(self._daemon, readable, writable, now)
        if STDIN in readable:
            self._read_agent(now)
        return True

    def _wait(self, now: float) -> tuple[list[Any], list[Any]]:
        reads: list[Any] = [] if self._parent.descriptor is None else [self._parent.descriptor]
        writes: list[Any] = [STDOUT] if self._to_agent else []
        # Reading stops while the other side is slow: the pressure reaches the agent through its full pipe.
        if self._ends_at is None and self._exchange.has_room and len(self._to_daemon) < MOST_WAITING_BYTES:
            reads.append(STDIN)
        if self._daemon is not None:
            if len(self._to_agent) < MOST_WAITING_BYTES:
                reads.append(self._daemon)
            if self._to_daemon:
                writes.append(self._daemon)
        return select.select(reads, writes, [], self._patience(now))[:2]

    def _patience(self, now: float) -> float | None:
        """Return the seconds until something is due without input; None for ever."""
        due = [self._exchange.next_tick(now), self._ends_at]
        if self._daemon is None and self._retry_at != float("inf"):
            # While an agent waits, a starting daemon is looked for often; otherwise with growing pauses.
            soon = now + RETRY_FOR_A_CALL_S if self._exchange.owes_answers else self._retry_at
            self._retry_at = min(self._retry_at, soon)
            due.append(self._retry_at)
        if self._parent.descriptor is None:
            due.append(now + POLL_S)
        times = [at for at in due if at is not None]
        return max(0.0, min(times) - now) if times else None

    def _is_done(self, now: float) -> bool:
        """Return True once the agent has closed its input and has every answer, or is out of time."""
        if self._ends_at is None:
            return False
        return now >= self._ends_at or not (self._exchange.owes_answers or self._to_agent)

    def _collect(self) -> None:
        """Collect the lines that the exchange has for both sides."""
        if self._exchange.to_agent:
            self._to_agent += b"".join(self._exchange.to_agent)
            self._exchange.to_agent.clear()
        if self._exchange.to_daemon:
            self._to_daemon += b"".join(self._exchange.to_daemon)
            self._exchange.to_daemon.clear()

    def _read_agent(self, now: float) -> None:
        data = os.read(STDIN, READ_BYTES)
        for line in self._from_agent.lines(data):
            if isinstance(line, Outline):
                self._exchange.refuse_too_long(line.message())
            elif line and not line.isspace():
                self._exchange.from_agent(line, now)
        if self._exchange.wants_to_begin_anew:
            self._lose(now)
            self._retry_at = now
        # The agent has closed its input: the open answers get a moment, then the relay ends.
        if not data:
            self._ends_at = now + LAST_ANSWERS_S

    def _connect(self, now: float) -> None:
        daemon = socket.socket(socket.AF_UNIX)
        daemon.setblocking(False)
        try:
            daemon.connect(self._path)
        except OSError as error:
            daemon.close()
            refused = isinstance(error, PermissionError)
            self._exchange.lost(now, f"{self._path} belongs to another user" if refused else "")
            self._back_off(now)
            return
        self._daemon = daemon
        self._from_daemon = LineBuffer(LONGEST_LINE)
        self._to_daemon = b""
        self._exchange.connected(now)

    def _exchange_with_daemon(
        self, daemon: socket.socket, readable: list[Any], writable: list[Any], now: float
    ) -> None:
        try:
            if daemon in writable:
                self._to_daemon = self._to_daemon[daemon.send(self._to_daemon) :]
            if daemon in readable:
                self._read_daemon(daemon, now)
        except BlockingIOError:
            return
        except (OSError, ValueError, AttachRefused) as error:
            self._lose(now, str(error) if isinstance(error, AttachRefused) else "")

    def _read_daemon(self, daemon: socket.socket, now: float) -> None:
        data = daemon.recv(READ_BYTES)
        for line in self._from_daemon.lines(data):
            self._exchange.from_daemon(line, now)
            self._retry_s = RETRY_S
        # An end-of-file, or a line that no daemon sends: the connection is of no further use.
        if not data or self._from_daemon.overflowed:
            self._lose(now)

    def _lose(self, now: float, problem: str = "") -> None:
        if self._daemon is not None:
            self._daemon.close()
        self._daemon = None
        self._to_daemon = b""
        self._exchange.lost(now, problem)
        self._back_off(now)

    def _back_off(self, now: float) -> None:
        self._retry_at = now + self._retry_s
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)


# ---- the lines of an agent

LONGEST_OUTLINE = 4096
"""More than the names and the id of a request need."""

_MARK = re.compile(rb'["\\{}\[\]]')


class Outline:
    """The outer object of a JSON text that is read in pieces, each nested value replaced by null.

    Example: of `{"id": 7, "params": {"text": "…"}}` it keeps `{"id": 7, "params": null}`.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._depth = 0
        self._read_bytes = 0
        self._in_string = False
        self._escaped_at = -1  # the byte after a backslash, which may come with the next piece

    def read(self, piece: bytes) -> None:
        """Take in the next bytes."""
        start = 0
        # Brackets and quotes are counted, nothing is parsed: the line may be of any length, and never is in memory.
        for found in _MARK.finditer(piece):
            at, mark = self._read_bytes + found.start(), found[0]
            if at == self._escaped_at:
                continue
            if mark == b"\\":
                self._escaped_at = at + 1
            elif mark == b'"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._keep(piece[start : found.start()])
                self._bracket(mark)
                start = found.end()
        self._keep(piece[start:])
        self._read_bytes += len(piece)

    def message(self) -> Json | None:
        """Return the object without its nested values; None for another value, and for long texts outside of them."""
        try:
            found = json.loads(self._kept) if len(self._kept) < LONGEST_OUTLINE else None
        except ValueError:
            return None
        return found if type(found) is dict else None

    def _bracket(self, mark: bytes) -> None:
        if mark in b"{[":
            self._depth += 1
            self._keep(mark if self._depth == 1 else b"")
            self._kept += b"null" if self._depth == 2 and len(self._kept) < LONGEST_OUTLINE else b""
        else:
            self._keep(mark if self._depth == 1 else b"")
            self._depth -= 1

    def _keep(self, piece: bytes) -> None:
        if self._depth == 1:
            self._kept += piece[: LONGEST_OUTLINE - len(self._kept)]


class AgentLines:
    """Cuts a stream into lines; holds at most one line that the daemon takes, or the outline of a longer one."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._outline: Outline | None = None

    def lines(self, data: bytes) -> list[bytes | Outline]:
        """Return the lines that these bytes complete, without newlines."""
        *ends, rest = data.split(b"\n")
        found = [self._completed(end) for end in ends]
        self._add(rest)
        return found

    def _completed(self, end: bytes) -> bytes | Outline:
        self._add(end)
        line = self._outline or b"".join(self._parts)
        self._parts.clear()
        self._held_bytes, self._outline = 0, None
        return line

    def _add(self, piece: bytes) -> None:
        if self._outline is None:
            self._parts.append(piece)
            self._held_bytes += len(piece)
            if self._held_bytes < MAX_LINE_BYTES:
                return
            self._outline = Outline()
            piece = b"".join(self._parts)
            self._parts.clear()
        self._outline.read(piece)


# ---- the environment


def _cwd() -> str:
    try:
        cwd = os.getcwd()  # noqa: PTH109  (pathlib is a tenth of a thin command's time)
        cwd.encode()
    except (OSError, UnicodeEncodeError):  # the folder is gone, or has a name that JSON cannot spell
        return ""
    return cwd


def _is_name(value: str) -> bool:
    return 0 < len(value) <= 256 and value.isprintable() and value[0] not in ". "


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

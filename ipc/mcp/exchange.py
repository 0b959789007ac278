"""The relay without I/O: lines of an agent and of the daemon in, lines for both out.

A request is of one of three kinds. One with a single answer waits here until then; after a restart of the daemon it is
sent again (the daemon knows a repeated write by its key). One that listens stays open, and is sent again too. One that
was cancelled is dropped. A request without an answer in time is answered here, with a sentence.

The opening and the lists are answered from a file, to which `python -m dreamd.ipc.mcp.tools` writes the table of tools.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ... import __version__
from ..protocol import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR, Json, line_too_long

# ---- the opening of a session, answered without the daemon

FILE = os.path.join(os.path.dirname(__file__), "opening.json")  # noqa: PTH118, PTH120  (pathlib is a tenth of its time)

MODERN = "2026-07-28"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The SDK's own: the first two differ from the others in nothing that is served here."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
UNSUPPORTED_VERSION = -32022
FRESH_MS = 300_000
"""Lists change with the version of the daemon alone."""

SERVER = {"name": "dreamd", "version": __version__}
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def is_modern(message: Json) -> bool:
    """Return True for a request in the form of the protocol of 2026-07-28."""
    return VERSION_KEY in _meta(message)


def complete(result: Json) -> Json:
    """Return a result in the form of the protocol of 2026-07-28."""
    return {**result, "resultType": "complete", "_meta": {SERVER_KEY: SERVER, **result.get("_meta", {})}}


class Opening:
    """The answers to `initialize`, `server/discover`, `ping` and the lists."""

    def __init__(self, path: str = FILE) -> None:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            self._lists: Json = json.load(file)

    def answer(self, message: Json) -> Json | None:
        """Return the answer to a request as a message; None for a request that needs the daemon."""
        method, modern = message["method"], is_modern(message)
        if modern and (version := _meta(message)[VERSION_KEY]) != MODERN:
            data = {"supported": [MODERN], "requested": version}
            return _failed(message, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        if method == "initialize" and not modern:
            return _answered(message, self._initialized(message.get("params") or {}))
        if method == "server/discover":
            return (
                _answered(message, self._discovered())
                if modern
                else _failed(message, METHOD_NOT_FOUND, "Method not found", method)
            )
        if method == "ping" and not modern:
            return _answered(message, {})
        if (key := LISTS.get(method)) is not None:
            listed = {key: self._lists[key]}
            return _answered(message, complete({**listed, **_FRESH}) if modern else listed)
        return None

    def _initialized(self, params: Json) -> Json:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in HANDSHAKES else HANDSHAKES[-1],
            "capabilities": _capabilities(changes=False),
            "serverInfo": SERVER,
            "instructions": self._lists["instructions"],
        }

    def _discovered(self) -> Json:
        found = {
            "supportedVersions": [MODERN],
            "capabilities": _capabilities(changes=True),
            "instructions": self._lists["instructions"],
        }
        return complete({**found, **_FRESH})


_FRESH = {"ttlMs": FRESH_MS, "cacheScope": "private"}


def _capabilities(*, changes: bool) -> Json:
    return {"tools": {"listChanged": changes}, "resources": {"listChanged": changes, "subscribe": changes}}


def _answered(message: Json, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _failed(message: Json, code: int, sentence: str, data: Any) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": sentence, "data": data}}


def _meta(message: Json) -> Json:
    params = message.get("params")
    meta = params.get("_meta") if type(params) is dict else None
    return meta if type(meta) is dict else {}


# ---- the requests that need the daemon

ABSENT_S, STARTING_S = 0.5, 6.0
"""The patience of a call without a daemon; while one starts, or has just ended."""
SILENT_S, PROBED_S = 2.0, 3.0
"""While a call is open, the daemon is probed after SILENT_S without a line; PROBED_S later the call fails."""
LONGEST_S = 30.0
"""Longer than the daemon's own deadline of 20 s, so that its own error arrives first."""
RECENT_S = 10.0
MOST_PENDING, MOST_PENDING_BYTES = 1000, 8 * 2**20

NOT_THERE = "dreamd is not running; the person can start it with `dreamd`, or for good with `dreamctl install`"
STARTING = "dreamd is starting"
NO_ANSWER = "dreamd does not answer"

PROBE = "mcp.ping"
"""The daemon's loop answers it, however busy its threads are."""


class AttachRefused(Exception):
    """The daemon, or the service manager that owns its socket, refuses a session; the message is the reason."""


class PendingRequest:
    """A request of the agent's that the daemon has to answer. `at`: when it came."""

    __slots__ = ("at", "id", "is_modern", "line", "listens", "method")

    def __init__(self, message: Json, line: bytes, at: float) -> None:
        self.id = message["id"]
        self.method = message["method"]
        self.is_modern = is_modern(message)
        self.listens = self.method == "subscriptions/listen"
        self.line = line
        self.at = at


class Exchange:
    """One agent's conversation. `to_agent` and `to_daemon` are lines to be written, newline included.

    `attach` are the parameters of `mcp.attach`, of which `relay` begins the ids of our own requests.
    `wants_to_begin_anew`: a new connection is needed, since the agent opened it with the other protocol. `problem` is
    the reason of the daemon, or of its service manager, why it is absent.
    """

    def __init__(self, opening: Opening, attach: Json) -> None:
        self.to_agent: list[bytes] = []
        self.to_daemon: list[bytes] = []
        self.wants_to_begin_anew = False
        self.problem = ""
        self._opening = opening
        self._attach = attach
        self._own = attach["relay"]
        self._handshake: Json | None = None
        self._pending: dict[str, PendingRequest] = {}
        self._connected = self._attached = self._used = False
        self._lost_at = float("-inf")
        self._last_line_at = 0.0
        self._probed_at: float | None = None

    @property
    def has_room(self) -> bool:
        """Return True while more of the agent's requests are taken."""
        held_bytes = sum(len(pending.line) for pending in self._pending.values())
        return len(self._pending) < MOST_PENDING and held_bytes < MOST_PENDING_BYTES

    @property
    def owes_answers(self) -> bool:
        """Return True while the agent waits for an answer."""
        return any(not pending.listens for pending in self._pending.values())

    def from_agent(self, line: bytes, now: float) -> None:
        """Take in a line of the agent's."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if type(message) is not dict:
            self._send_to_agent(
                {"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": "no message of MCP"}}
            )
            return
        method, request_id = message.get("method"), message.get("id")
        if type(method) is not str or type(request_id) not in (int, str, type(None)):
            return  # an answer, of which we have asked for none
        if request_id is None:
            self._notified(method, message, line)
        elif (answer := self._opening.answer(message)) is not None:
            if method == "initialize" and "result" in answer:
                self._opened(message)
            self._send_to_agent(answer)
        else:
            self._asked(PendingRequest(message, line, now))

    def refuse_too_long(self, message: Json | None) -> None:
        """Answer a request whose line is too long for the daemon; None: its id could not be read."""
        request_id = None if message is None else message.get("id")
        if message is not None and ("method" not in message or type(request_id) not in (int, str)):
            return  # a notification, or an answer: neither is answered
        error = line_too_long()
        body = {"code": error.code, "message": f"{error}; {error.hint}"}
        self._send_to_agent({"jsonrpc": "2.0", "id": request_id, "error": body})

    def from_daemon(self, line: bytes, now: float) -> None:
        """Take in a line of the daemon's. Raises AttachRefused, and ValueError for a line that is no message."""
        self._last_line_at, self._probed_at = now, None
        message = json.loads(line)
        if type(message) is not dict:
            raise ValueError("no message of MCP")
        request_id = message.get("id")
        # The acknowledgement of a stream was sent from here already, when the agent asked for it.
        if "method" in message:
            if not (message["method"] == "notifications/subscriptions/acknowledged" and self._is_listening(message)):
                self.to_agent.append(line + b"\n")
        elif request_id is None or request_id == f"{self._own}:attach":
            if "result" not in message:
                raise AttachRefused(str((message.get("error") or {}).get("message", "")))
            self._attached, self.problem = True, ""
        elif (key := _key(request_id)) in self._pending:
            del self._pending[key]
            self.to_agent.append(line + b"\n")
        # otherwise the answer to a request of ours, or to one that was given up or cancelled

    def connected(self, now: float) -> None:
        """Open a new connection with the agent's own handshake, and send the requests that wait."""
        self._connected, self._attached, self._used = True, False, False
        self.wants_to_begin_anew = False
        self._last_line_at, self._probed_at = now, None
        self.to_daemon.clear()
        self._send_to_daemon(
            {"jsonrpc": "2.0", "id": f"{self._own}:attach", "method": "mcp.attach", "params": self._attach}
        )
        self._send_handshake()
        # Sent again unchanged, so that a write has the same id and arguments, and the daemon knows its key.
        for pending in self._pending.values():
            self._send_line(pending.line)

    def lost(self, now: float, problem: str = "") -> None:
        """Note that there is no connection."""
        if self._connected and self._attached:
            self._lost_at = now
        self._connected = self._attached = False
        self.problem = problem or self.problem
        self.to_daemon.clear()

    def tick(self, now: float) -> None:
        """Answer the requests that are out of time; probe a silent daemon."""
        silent = self._attached and self._waits_since(now) >= SILENT_S
        if silent and self._probed_at is None:
            self._probed_at = now
            self._send_to_daemon({"jsonrpc": "2.0", "id": f"{self._own}:ping", "method": PROBE})
        for key, pending in list(self._pending.items()):
            if not pending.listens and now >= self._deadline(pending):
                self._give_up(key, pending)

    def next_tick(self, now: float) -> float | None:
        """Return the time of the next `tick`; None while no request waits."""
        due = [self._deadline(pending) for pending in self._pending.values() if not pending.listens]
        if not due:
            return None
        if self._attached and self._probed_at is None:
            due.append(now - self._waits_since(now) + SILENT_S)
        return min(due)

    def _opened(self, message: Json) -> None:
        """Keep the handshake for every connection to come, and open this one with it."""
        self._handshake = {**message, "id": f"{self._own}:open"}
        # The daemon's SDK takes one handshake a connection, and none after a request of the newer protocol.
        if self._used:
            self.wants_to_begin_anew = True
        elif self._connected:
            self._send_handshake()

    def _notified(self, method: str, message: Json, line: bytes) -> None:
        if method == "notifications/initialized":
            return  # ours was sent with the handshake
        if method == "notifications/cancelled":
            params = message.get("params")
            key = _key(params.get("requestId") if type(params) is dict else None)
            if key not in self._pending:
                return
            del self._pending[key]
        if self._connected:
            self._send_line(line)

    def _asked(self, pending: PendingRequest) -> None:
        self._pending[_key(pending.id)] = pending
        if self._connected:
            self._send_line(pending.line)
        if pending.listens:
            self._send_to_agent(_acknowledgement(pending))

    def _is_listening(self, message: Json) -> bool:
        """Return True for the acknowledgement of a request that was acknowledged here."""
        params = message.get("params") or {}
        return _key((params.get("_meta") or {}).get(SUBSCRIPTION_KEY)) in self._pending

    def _waits_since(self, now: float) -> float:
        """Return for how many seconds a call has waited without a line from the daemon."""
        oldest = min((pending.at for pending in self._pending.values() if not pending.listens), default=now)
        return now - max(oldest, self._last_line_at)

    def _deadline(self, pending: PendingRequest) -> float:
        if self._attached:
            if self._probed_at is None:
                return pending.at + LONGEST_S
            return max(self._probed_at + PROBED_S, pending.at + ABSENT_S)
        # A daemon that ended a moment ago is probably being restarted, so its calls wait as if it were starting.
        since = max(pending.at, self._lost_at)
        is_starting = self._connected or since < self._lost_at + RECENT_S
        return since + (STARTING_S if is_starting else ABSENT_S)

    def _give_up(self, key: str, pending: PendingRequest) -> None:
        reason = NO_ANSWER if self._attached else self.problem or (STARTING if self._connected else NOT_THERE)
        sentence = f"The memory is not available now ({reason}). Go on without it, and try again later."
        if self._connected:
            # The daemon may still be at it: an answer to a call that was given up must not reach the agent.
            gone = {"requestId": pending.id, "reason": "no answer in time"}
            self._send_to_daemon({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
        del self._pending[key]
        if pending.method == "tools/call":
            result: Json = {"content": [{"type": "text", "text": sentence}], "isError": True}
            self._send_to_agent(
                {"jsonrpc": "2.0", "id": pending.id, "result": complete(result) if pending.is_modern else result}
            )
        else:
            error = {"code": INTERNAL_ERROR, "message": sentence}
            self._send_to_agent({"jsonrpc": "2.0", "id": pending.id, "error": error})

    def _send_handshake(self) -> None:
        if self._handshake is not None:
            self._used = True
            self._send_to_daemon(self._handshake)
            self._send_to_daemon({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send_to_daemon(self, message: Json) -> None:
        self.to_daemon.append(json.dumps(message).encode() + b"\n")

    def _send_line(self, line: bytes) -> None:
        self._used = True
        self.to_daemon.append(line + b"\n")

    def _send_to_agent(self, message: Json) -> None:
        self.to_agent.append(json.dumps(message).encode() + b"\n")


def _acknowledgement(pending: PendingRequest) -> Json:
    """Return the first message of a stream, for which the agent waits. Every subscription is granted."""
    filters = ((json.loads(pending.line).get("params") or {}).get("notifications")) or {}
    granted = {name: value for name, value in filters.items() if value}
    params = {"_meta": {SUBSCRIPTION_KEY: pending.id}, "notifications": granted}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def _key(request_id: object) -> str:
    """Return a request's name: 1 and "1" are two requests."""
    return json.dumps(request_id)

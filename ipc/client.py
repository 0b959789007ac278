"""The thin client: standard library only, no asyncio. It costs an agent at most its deadline."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from .protocol import (
    MAX_LINE_BYTES,
    NOT_STARTED,
    PROTOCOL_VERSION,
    Json,
    LineBuffer,
    encode_notification,
    encode_request,
    line_too_long,
)
from .socket_path import default_socket_path, too_long

__all__ = [
    "Absent",
    "Client",
    "DaemonError",
    "Unreachable",
    "context_or_empty",
    "default_socket_path",
    "recall_or_empty",
]

# An answer may fill a line; a little more, so that a bound of the other side is reported and not guessed.
MAX_ANSWER_BYTES = 2 * 2**20
RETRY_S = 0.02

# Both tables are of methods in `daemon/methods/table.py`, which would cost this client pydantic; a test compares them.
_OF_A_CHANNEL = (
    *("recall", "context", "brief", "recent", "remember", "reflect", "about", "entities"),
    "entity_deny",
    *("anchor_set", "anchor_get", "anchor_recover", "goal_set", "goals"),
    *("find_strategy", "select_tools", "tools"),
    *("document_put", "team_share", "team_unshare", "team_list", "team_sync"),
)
"""The methods that belong to the working folder's channel where neither channel nor folder is named."""

_READING = frozenset(
    (
        *(
            "ping",
            "status",
            "told",
            "recall",
            "brief",
            "recent",
            "show",
            "history",
            "list",
            "runs",
            "run",
            "digest",
            "review_list",
            "decay_preview",
        ),
        *("anchor_get", "goals", "document_get", "document_list", "document_search"),
    )
)
"""Methods that change nothing."""

OnProgress = Callable[[Json], None]


class ClientError(Exception):
    """A call without a result. `hint` is the next thing to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Unreachable(ClientError):
    """No daemon answers, or none in time."""


class Absent(Unreachable):
    """There is no daemon, it ended, or it could not start."""


class DaemonError(ClientError):
    """The daemon answered with an error."""

    def __init__(self, message: str, hint: str = "", code: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code


class _Restarted(Exception):
    """The connection was closed before a request was sent whole, so it was not carried out."""


class Client:
    """One connection to the daemon, for one thread; made at the first call, and again after the daemon left it.

    A call that the daemon may have carried out before it went away is sent again only if it reads, or has an
    idempotency key.

    `timeout_s` bounds every call, None waits for ever; `wait_s` is how long a daemon that is just starting is waited
    for, inside the timeout. `server` holds the daemon's answer to `hello` after the first call. A question or
    session that names no channel belongs to the working directory's.
    """

    def __init__(
        self, path: str | None = None, timeout_s: float | None = 10.0, wait_s: float = 0.5, name: str = "python"
    ) -> None:
        self.path = path or default_socket_path()
        self.server: Json = {}
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._name = name
        self._socket: socket.socket | None = None
        self._buffer = LineBuffer(MAX_ANSWER_BYTES)
        self._lines: list[bytes] = []
        self._last_id = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(self, method: str, params: Json | None = None, on_progress: OnProgress | None = None) -> Json:
        """Return the method's result. Raises DaemonError, or Unreachable after the timeout or without a daemon."""
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        self._last_id += 1
        request = request_line(self._last_id, method, params or {})
        try:
            if self._socket is not None:
                try:
                    return self._ask_again_on_the_same(request, deadline, on_progress)
                except _Restarted:
                    self.close()
                # The request was sent whole, so a daemon that is gone now may have carried it out: sent twice, a
                # write without a key would be done twice.
                except (BrokenPipeError, ConnectionResetError):
                    if not _may_be_repeated(method, params or {}):
                        raise
                    self.close()
            return self._ask_anew(request, deadline, on_progress)
        except OSError as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise Unreachable(f"the daemon did not answer within {self._timeout_s:g} s", HINT_SLOW) from None
            raise Absent(f"the connection to the daemon broke: {error}", HINT_LOG) from None

    def _ask_again_on_the_same(self, request: bytes, deadline: float | None, on_progress: OnProgress | None) -> Json:
        """Ask on the connection that is open. Raises _Restarted if the daemon has left it before the whole request."""
        try:
            self._send(request, deadline)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _Restarted from error
        return self._wait(self._last_id, deadline, on_progress)

    def _ask_anew(self, request: bytes, deadline: float | None, on_progress: OnProgress | None) -> Json:
        self._connect(deadline)
        # Both lines go in one write: a new connection costs one round trip, not two.
        hello = hello_line(self._name)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # turned away: why is there to be read
            self._send(hello + request, deadline)
        return self._wait(self._last_id, deadline, on_progress)

    def cancel(self) -> None:
        """Cancel the last request; its answer is not read."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._send(encode_notification("cancel", {"id": self._last_id}), time.monotonic() + 0.2)
            self.close()

    def close(self) -> None:
        """Close the connection; the next call makes a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._buffer = LineBuffer(MAX_ANSWER_BYTES)
        self._lines = []

    def _connect(self, deadline: float | None) -> None:
        refuse_long_path(self.path)
        patience = time.monotonic() + self._wait_s
        if deadline is not None:
            patience = min(patience, deadline)
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(_remaining(deadline))
                sock.connect(self.path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                # No socket, or one without a listener: the daemon may be starting. EAGAIN: its queue is full.
                sock.close()
                if time.monotonic() + RETRY_S >= patience:
                    raise no_daemon(self.path) from None
                time.sleep(RETRY_S)
            except PermissionError:
                sock.close()
                raise of_another_user(self.path) from None
            except BaseException:
                sock.close()
                raise
            else:
                self._socket = sock
                return

    def _send(self, data: bytes, deadline: float | None) -> None:
        assert self._socket is not None
        self._socket.settimeout(_remaining(deadline))
        self._socket.sendall(data)

    def _wait(self, request_id: int, deadline: float | None, on_progress: OnProgress | None) -> Json:
        while True:
            message = self._next(deadline)
            if message.get("method") == "progress":
                progress = message.get("params") or {}
                if on_progress is not None and progress.get("request") == request_id:
                    on_progress(progress)
            elif message.get("id") == "hello":
                self.server = message.get("result") or {}
            # An error without an id is about the connection: no room, or a line that could not be parsed.
            elif message.get("id") == request_id or message.get("id") is None:
                return result_of(message)

    def _next(self, deadline: float | None) -> Json:
        assert self._socket is not None
        while not self._lines:
            self._socket.settimeout(_remaining(deadline))
            data = self._socket.recv(2**16)
            if not data:
                raise ConnectionResetError("it was closed before the answer came")
            self._lines = self._buffer.lines(data)
            if self._buffer.overflowed:
                raise ConnectionResetError("an answer is longer than a line may be")
        try:
            message = json.loads(self._lines.pop(0))
        except ValueError:
            raise ConnectionResetError("what answers is not dreamd") from None
        if type(message) is not dict:
            raise ConnectionResetError("what answers is not dreamd")
        return message


def request_line(request_id: int, method: str, params: Json) -> bytes:
    """Return a call as its line, with the working folder. Raises ClientError for a line that is too long."""
    line = encode_request(request_id, method, with_cwd(method, params))
    if len(line) > MAX_LINE_BYTES:
        error = line_too_long()
        raise ClientError(str(error), error.hint)
    return line


def hello_line(name: str) -> bytes:
    """Return the first line of a connection."""
    return encode_request("hello", "hello", {"client": name, "protocol": PROTOCOL_VERSION})


def refuse_long_path(path: str) -> None:
    """Raise Unreachable for a path that no socket can have."""
    if complaint := too_long(path):
        raise Unreachable(complaint, "set DREAMD_SOCKET to a shorter path")


def no_daemon(path: str) -> Absent:
    """Build the error for a socket without a daemon."""
    return Absent(f"no daemon answers at {path}", HINT_START)


def of_another_user(path: str) -> Unreachable:
    """Build the error for a socket without permission."""
    return Unreachable(f"{path} belongs to another user", "set DREAMD_SOCKET to your own")


def _may_be_repeated(method: str, params: Json) -> bool:
    """Return True if a second call changes nothing: it reads, or the daemon knows it by its key."""
    return method in _READING or params.get("idempotency_key") is not None


def result_of(answer: Json) -> Json:
    """Return the result of an answer. Raises DaemonError, Absent from one that could not start, or OSError."""
    result, error = answer.get("result"), answer.get("error")
    if type(error) is dict:
        data = error.get("data")
        hint = data.get("hint", "") if type(data) is dict else ""
        if error.get("code") == NOT_STARTED:
            raise Absent(str(error.get("message")), str(hint))
        raise DaemonError(str(error.get("message")), str(hint), error.get("code", 0))
    if type(result) is not dict:
        raise ConnectionResetError("what answers is not dreamd")
    return result


HINT_START = "start it with `dreamd`, or for good with `dreamctl install`"
HINT_LOG = "`dreamctl log` shows what it said"
HINT_SLOW = "see `dreamctl status`, and `dreamctl log`"


def recall_or_empty(query: str, deadline_s: float = 1.0, path: str | None = None, **params: Any) -> Json:
    """Return `recall`'s answer, or an empty one with the reason: an absent daemon must not stop an agent."""
    return _or_empty("recall", {"query": query, **params}, deadline_s, path)


def context_or_empty(
    query: str, budget_tokens: int = 1000, deadline_s: float = 1.0, path: str | None = None, **params: Any
) -> Json:
    """Return `context`'s envelope, or an empty one with the reason."""
    return _or_empty("context", {"query": query, "budget_tokens": budget_tokens, **params}, deadline_s, path)


def _or_empty(method: str, params: Json, deadline_s: float, path: str | None) -> Json:
    try:
        with Client(path, deadline_s, wait_s=min(0.1, deadline_s)) as client:
            return client.call(method, params)
    except ClientError as error:
        return empty_answer(method, error)


def empty_answer(method: str, error: ClientError) -> Json:
    """Return the answer of `recall` or `context` that has found nothing, with the reason."""
    reason = f"{error}; {error.hint}" if error.hint else str(error)
    notes = [f"nothing was recalled: {reason}"]
    if method == "recall":
        nothing = {"hits": [], "abstained": True, "notes": notes, "channel": "", "confidence": 0.0, "elsewhere": []}
    else:
        nothing = {
            "text": "",
            "tokens": 0,
            "slots": [],
            "abstained": True,
            "notes": notes,
            "confidence": 0.0,
            "channel": "",
        }
    return {**nothing, "incomplete": True, "failed": reason}


def _remaining(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    if (left := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def with_cwd(method: str, params: Json) -> Json:
    """Add the working folder to parameters that name neither channel nor folder."""
    if method == "observe" and isinstance(session := params.get("session"), dict):
        return {**params, "session": _here(session)}
    return _here(params) if method in _OF_A_CHANNEL else params


def _here(params: Json) -> Json:
    if params.get("channel") is None and params.get("cwd") is None:
        with contextlib.suppress(OSError):  # the folder is gone
            return {**params, "cwd": os.getcwd()}  # noqa: PTH109  (pathlib is a tenth of a thin command's time)
    return params

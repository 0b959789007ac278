"""The protocol without I/O: bytes in, messages out. JSON-RPC 2.0, one message a line, UTF-8, at most 1 MiB a line.

The thin client reads this module too, so it imports the standard library's lightest parts alone.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Final, Literal, get_args

PROTOCOL_VERSION = 1
MAX_LINE_BYTES = 2**20
MAX_ID_CHARACTERS = 128

# JSON-RPC 2.0, section 5.1
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# ours, in the range that the specification leaves to servers
FAILED = -32000
NOT_FOUND = -32001
BUSY = -32002
READ_ONLY = -32003
SCHEMA_TOO_NEW = -32004
CORRUPT = -32005
CONFLICT = -32006
ANSWER_TOO_LARGE = -32007
STOPPING = -32008
REFUSED = -32009
NOT_STARTED = -32010
# the Language Server Protocol's number for the same thing
CANCELLED = -32800

KeptKind = Literal[
    "note",
    "fact",
    "preference",
    "procedure",
    "correction",
    "negative",
    "decision",
    "pitfall",
    "person",
    "event",
    "value",
    "finding",
    "episode",
]
KEPT_KINDS: Final[tuple[KeptKind, ...]] = get_args(KeptKind)
"""The kinds of memories that `remember` takes."""

RequestId = int | str
Json = dict[str, Any]
"""An object of JSON."""


class ProtocolError(Exception):
    """An error on the wire: a number for programs, a sentence for people, a hint at the next thing to do."""

    code = FAILED

    def __init__(self, message: str, hint: str = "", code: int | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if code is not None:
            self.code = code


class Refused(ProtocolError):
    """A request that is understood and cannot be carried out now."""

    code = REFUSED


class _Message:
    """Equal by its `repr`. Written by hand: the thin client has no time to import `dataclasses`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(self) == repr(other)


class Request(_Message):
    """A call that wants an answer."""

    __slots__ = ("id", "method", "params", "size_bytes")

    def __init__(self, request_id: RequestId, method: str, params: Json, size_bytes: int = 0) -> None:
        self.id = request_id
        self.method = method
        self.params = params
        self.size_bytes = size_bytes

    def __repr__(self) -> str:
        return f"Request({self.id!r}, {self.method!r}, {self.params!r})"


class Notification(_Message):
    """A call that wants none."""

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: Json) -> None:
        self.method = method
        self.params = params

    def __repr__(self) -> str:
        return f"Notification({self.method!r}, {self.params!r})"


class MalformedLine(_Message):
    """A line that is no message: answer `error` under `id`, and close the connection when it is `fatal`."""

    __slots__ = ("error", "fatal", "id")

    def __init__(self, error: ProtocolError, request_id: RequestId | None = None, fatal: bool = False) -> None:
        self.error = error
        self.id = request_id
        self.fatal = fatal

    def __repr__(self) -> str:
        return f"MalformedLine({self.error.code}, {str(self.error)!r}, {self.id!r}, {self.fatal!r})"


Message = Request | Notification | MalformedLine


class LineBuffer:
    """Cuts a stream into lines, however it arrives; holds at most one unfinished line of `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self.overflowed = False

    def lines(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete, without newlines. After a line too long, none."""
        if self.overflowed:
            return []
        # The parts of an unfinished line are joined once, when it ends: a line of 1 MiB that comes in pieces of 64 KiB
        # costs one copy, where appending to a bytes object would cost sixteen.
        *complete, rest = data.split(b"\n")
        if complete and self._parts:
            self._parts.append(complete[0])
            complete[0] = b"".join(self._parts)
            self._parts.clear()
            self._held_bytes = 0
        for number, line in enumerate(complete):
            # The bound counts the newline, which is split off here.
            if len(line) >= self._max_bytes:
                return self._overflow(complete[:number])
        if rest:
            self._parts.append(rest)
            self._held_bytes += len(rest)
            if self._held_bytes >= self._max_bytes:
                return self._overflow(complete)
        return complete

    def _overflow(self, complete: list[bytes]) -> list[bytes]:
        self.overflowed = True
        self._parts.clear()
        self._held_bytes = 0
        return complete


class Inbox:
    """Bytes in, messages out, each parsed when it is taken: a flood costs its reader no more than it takes of it.

    Empty lines are no messages; `size_bytes` waits to be taken. After a line that is too long comes an
    error, and nothing more.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._buffer = LineBuffer(max_bytes)
        self._max_bytes = max_bytes
        self._lines: deque[bytes | MalformedLine] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    def receive(self, data: bytes) -> None:
        """Take in bytes."""
        if self._buffer.overflowed:
            return
        for line in self._buffer.lines(data):
            if line and not line.isspace():
                self._lines.append(line)
                self.size_bytes += len(line)
        if self._buffer.overflowed:
            self._lines.append(MalformedLine(line_too_long(self._max_bytes), fatal=True))

    def take(self) -> Message:
        """Parse the next message; raises IndexError when there is none."""
        line = self.take_line()
        return line if isinstance(line, MalformedLine) else parse(line)

    def take_line(self) -> bytes | MalformedLine:
        """Return the next line unparsed, or the error of one that is too long; raises IndexError when there is none."""
        line = self._lines.popleft()
        if not isinstance(line, MalformedLine):
            self.size_bytes -= len(line)
        return line

    def clear(self) -> None:
        """Drop the lines that were not taken."""
        self._lines.clear()
        self.size_bytes = 0


def line_too_long(max_bytes: int = MAX_LINE_BYTES) -> ProtocolError:
    """Build the error that is sent before the connection is closed."""
    return ProtocolError(
        f"this is longer than the {max_bytes} bytes that a line may have",
        "send less at once: turns in parts, a text as a file for import",
        INVALID_REQUEST,
    )


def parse(line: bytes) -> Message:
    """Return the message of one line. Never raises."""
    try:
        message = _load(line.decode())
    except UnicodeDecodeError as error:
        return _unparsed(f"the line is not UTF-8: byte {error.start}")
    except json.JSONDecodeError as error:
        return MalformedLine(
            ProtocolError(f"the line is not JSON: {error.msg} at character {error.pos}", code=PARSE_ERROR)
        )
    except (ValueError, RecursionError):  # an integer of thousands of digits; brackets nested by the thousand
        return _unparsed("the line is not JSON that can be read")
    # JSON-RPC 2.0, section 6, leaves batches to the server; pipelined lines do the same without a bound on their size.
    if type(message) is not dict:
        if type(message) is list:
            return _invalid("batches are not spoken here", "send one message a line; answers may overlap")
        return _invalid("a message is an object", 'like {"jsonrpc": "2.0", "id": 1, "method": "status"}')
    request_id = message.get("id")
    known_id: RequestId | None = request_id if _is_id(request_id) else None
    # From here on the id is known, so that every further error reaches the call that caused it.
    if message.get("jsonrpc") != "2.0":
        return _invalid('"jsonrpc" must be "2.0"', request_id=known_id)
    if "id" in message and known_id is None:
        return _invalid(f'"id" must be an integer or a string of at most {MAX_ID_CHARACTERS} characters')
    method = message.get("method")
    if type(method) is not str or not method:
        return _invalid('"method" must be a name', request_id=known_id)
    params = message.get("params")
    if params is None:
        params = {}
    elif type(params) is not dict:
        return MalformedLine(
            ProtocolError("parameters go by name", 'send "params" as an object', INVALID_PARAMS), known_id
        )
    if known_id is None:
        return Notification(method, params)
    return Request(known_id, method, params, len(line))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Python reads NaN and Infinity, which are no JSON and which no other side could read back.
_load = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _is_id(request_id: object) -> bool:
    kind = type(request_id)
    # Wider integers do not fit the 64 bits of the numbers of most clients.
    if kind is int:
        return -(2**63) <= request_id < 2**64  # type: ignore[operator]
    return kind is str and len(request_id) <= MAX_ID_CHARACTERS  # type: ignore[arg-type]


def _unparsed(message: str) -> MalformedLine:
    return MalformedLine(ProtocolError(message, code=PARSE_ERROR))


def _invalid(
    message: str, hint: str = "", request_id: RequestId | None = None, code: int = INVALID_REQUEST
) -> MalformedLine:
    return MalformedLine(ProtocolError(message, hint, code), request_id)


def as_json(value: Any) -> Any:
    """Return a value that JSON has no form for in JSON's types: the one mapping of answers onto the wire.

    A dataclass becomes the object of its fields, an instant ISO 8601, a set a sorted list, a path its text. A field
    says by its metadata if it is not sent: `{"sent": False}` never, `{"sent": "unless None"}` where it is None. Raises
    TypeError for anything else.
    """
    # Enumerations of text (`StrEnum`) never come here: for the encoder they are texts.
    kind = type(value)
    if (fields := _FIELDS.get(kind)) is None and hasattr(kind, "__dataclass_fields__"):
        fields = _FIELDS[kind] = tuple(
            (name, field.metadata.get("sent", True) == "unless None")
            for name, field in kind.__dataclass_fields__.items()
            if field.metadata.get("sent", True)
        )
    if fields is not None:
        return {name: sent for name, optional in fields if (sent := getattr(value, name)) is not None or not optional}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "__fspath__"):
        return str(value)
    if hasattr(value, "keys"):
        return dict(value)
    raise TypeError(f"JSON has no form for a {kind.__name__}")


_FIELDS: dict[type, tuple[tuple[str, bool], ...]] = {}
"""The fields of each dataclass that are sent, and whether one is left out where it is None: worked out once a class."""

# The C encoder walks lists, tables and texts by itself and calls `as_json` for the rest: a recall of ten hits takes
# 0.13 ms, where a walk in Python that copies the answer takes 0.27 ms.
_dump = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), default=as_json
).encode
_dump_ascii = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"), default=as_json).encode


def encode(message: Json) -> bytes:
    """Return one line, newline included. Raises TypeError or ValueError for a value without a form in JSON."""
    try:
        return _dump(message).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair: JSON's escapes can carry what UTF-8 cannot
        return _dump_ascii(message).encode() + b"\n"


def encode_request(request_id: RequestId, method: str, params: Json) -> bytes:
    """Return a call as its line."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def encode_notification(method: str, params: Json) -> bytes:
    """Return a call without an answer as its line."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def encode_answer(request_id: RequestId, result: Any) -> bytes:
    """Return an answer as its line; an answer over the bound becomes an error."""
    line = encode({"jsonrpc": "2.0", "id": request_id, "result": result})
    # Checked after encoding: escapes and names make the size of a line hard to predict.
    if len(line) <= MAX_LINE_BYTES:
        return line
    error = ProtocolError(
        f"the answer has {len(line)} bytes, more than a line may have ({MAX_LINE_BYTES})",
        "ask for less: a smaller limit or budget, or the next page with offset",
        ANSWER_TOO_LARGE,
    )
    return encode_error(request_id, error)


def encode_error(request_id: RequestId | None, error: ProtocolError) -> bytes:
    """Return an error as its line."""
    body = {"code": error.code, "message": str(error), "data": {"hint": error.hint}}
    return encode({"jsonrpc": "2.0", "id": request_id, "error": body})

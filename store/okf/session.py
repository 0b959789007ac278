r"""The L0 file: a session's turns, appended one by one and never rewritten.

    <!-- turn n=3 role="user" at="2026-11-21T09:00:00+00:00" id="D1:3" bytes=11 sha256="0123456789abcdef" named -->
    **User** · 2026-11-21 09:00

    hello there

A turn is a comment line, a line that tells people who speaks, exactly `bytes` bytes of text, and an empty line. Turns
of before have no such line, and their comment does not end in `named`. A line of text that looks like such a comment
begins with a backslash more. So every turn can be found from its length, and, where a person changed the text, still
from the next comment line. A turn that a crash cut short is closed by a line of its own (`<!-- turn torn n=4 -->`); its
number is never given again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from ..model import GLOBAL_CHANNEL, Kind, Level, NewTurn, NodeId, SessionHead, Turn
from ..names import as_channel
from ..roles import role_of
from ..vault.layout import SESSIONS_FOLDER
from .file import OkfFile, render
from .memory_file import PRODUCER, instant

MAX_ID_BYTES = 80
_ID_TAIL = 12  # hex digits of the hash that a changed id ends in

ERASED = "[erased]"
"""The text of a turn whose own was purged: its number, role, time and external id stay."""

_MARK = b"<!-- turn "
_MARK_LINE = re.compile(rb"^<!-- turn ", re.MULTILINE)
_LOOKALIKE = re.compile(rb"^(\\*<!-- turn )", re.MULTILINE)
_ESCAPED = re.compile(rb"^\\(\\*<!-- turn )", re.MULTILINE)
_HEADER = re.compile(
    rb'<!-- turn n=(\d{1,9}) role="((?:[^"\\\n]|\\.)*)"(?: at="([^"\n]*)")?(?: id="((?:[^"\\\n]|\\.)*)")?'
    rb' bytes=(\d{1,12}) sha256="([0-9a-f]{16})"( named)? -->\r?\n'
)
_NAME_LINE = re.compile(rb"\*\*[^\n]{0,200}\n\r?\n")
"""A line that says who speaks, also one that a person changed."""

_NAME_CHARS = 60
_TORN = re.compile(rb"<!-- turn torn n=(\d{1,9}) -->\r?\n")
# The closing line itself may have been cut short, and closed in its turn.
_TORN_AT_LAST = re.compile(rb"(?:<!-- turn [^\n]*(?<!-->)\n+)*(<!-- turn torn n=\d{1,9} -->\r?\n)")
_NEWLINES = re.compile(rb"[\r\n]+")
_TURN_END = re.compile(rb"(?:\r?\n){0,2}")
_HEAD = re.compile(rb"---\r?\n(?:.*\r?\n)*?---[ \t]*\r?\n(\r?\n)?")
_HEAD_END = b"\n---\n\n"
_TERMINATOR_PARTS = (b"", b"\n")
_UNSAFE_IN_ID = re.compile(r"[^A-Za-z0-9._-]+")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The turns read, and how the file ends.

    `torn` says that the file was cut short; a turn with an incomplete text is not among `turns`. `closing` is to
    be written before the next turn, which then has the number `next_ordinal`. A later parse goes on from `end`
    with `resume_ordinal`, which is smaller when a torn turn has a number of its own: it may still be made whole.
    """

    turns: tuple[Turn, ...]
    end: int
    torn: bool
    next_ordinal: int
    resume_ordinal: int
    closing: bytes = b""


def session_id(raw: str) -> NodeId:
    """Make an id that is safe in paths, links and node ids out of any outside one; a safe one stays as it is."""
    safe = _UNSAFE_IN_ID.sub("-", raw).lstrip(".-")[:MAX_ID_BYTES]
    if safe == raw and safe not in {"", "index", "log"}:
        return safe
    tail = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_TAIL]
    return f"{safe[: MAX_ID_BYTES - _ID_TAIL - 1] or 'session'}-{tail}"


def path_of(head: SessionHead) -> str:
    """Return where a session lies: under the UTC day on which it began."""
    if head.started_at is None:
        return f"{SESSIONS_FOLDER}undated/{head.session_id}.md"
    return f"{SESSIONS_FOLDER}{_utc(head.started_at):%Y/%m/%d}/{head.session_id}.md"


def open_file(head: SessionHead) -> bytes:
    """Return the first bytes of a session's file: its frontmatter."""
    at = None if head.started_at is None else _utc(head.started_at)
    meta: dict[str, object] = {"type": "Session", "title": head.title or head.session_id}
    if at is not None:
        meta |= {"timestamp": at, "generated": {"by": head.agent_id or PRODUCER, "at": at}}
    meta |= {
        "node_id": head.session_id,
        "level": Level.SESSION,
        "kind": Kind.SESSION,
        "channel": head.channel,
        "agent_id": head.agent_id,
        "task_id": head.task_id,
        "user_id": head.user_id,
        "cwd": head.cwd,
    }
    return render({key: value for key, value in meta.items() if value is not None}, "\n")


def head_of(path: str, document: OkfFile) -> SessionHead:
    """Read a session's head; fields that a broken frontmatter lacks come from the path."""
    meta = document.meta
    own = _text(meta.get("node_id"))
    channel = as_channel(_text(meta.get("channel")) or "")
    return SessionHead(
        session_id=own if own and session_id(own) == own else session_id(path.rpartition("/")[2].removesuffix(".md")),
        channel=channel or GLOBAL_CHANNEL,
        title=_text(meta.get("title")) or "",
        started_at=instant(meta.get("timestamp")),
        agent_id=_text(meta.get("agent_id")),
        task_id=_text(meta.get("task_id")),
        user_id=_text(meta.get("user_id")),
        cwd=_text(meta.get("cwd")),
    )


def encode_turn(turn: NewTurn, ordinal: int) -> bytes:
    """Return a turn's bytes. Half of a surrogate pair, which no UTF-8 can hold, becomes U+FFFD."""
    text = _LOOKALIKE.sub(rb"\\\1", _encode(turn.text))
    parts = [f'<!-- turn n={ordinal} role="{_quote(turn.role)}"']
    if turn.at is not None:
        parts.append(f'at="{_aware(turn.at).isoformat()}"')
    if turn.external_id is not None:
        parts.append(f'id="{_quote(turn.external_id)}"')
    parts.append(f'bytes={len(text)} sha256="{_digest(text)}" named -->\n')
    return b"".join((" ".join(parts).encode(), _name_line(turn.role, turn.at), text, b"\n\n"))


def identity(turn: Turn) -> object:
    """Return the identity of a turn, equal in two files of its session: its words, and its external id or time."""
    return turn.external_id or turn.at, turn.role, turn.text


def continuation(there: Parsed, turns: Iterable[Turn]) -> bytes:
    """Return the bytes to append to a session's file for the turns of another file."""
    fresh = (NewTurn(turn.role, turn.text, turn.at, turn.external_id) for turn in turns)
    return there.closing + encode_turns(fresh, there.next_ordinal)


def encode_turns(turns: Iterable[NewTurn], first_ordinal: int) -> bytes:
    """Return several turns' bytes, numbered from `first_ordinal`."""
    return b"".join(encode_turn(turn, ordinal) for ordinal, turn in enumerate(turns, first_ordinal))


def parts(data: bytes, at_least: int) -> Iterator[bytes]:
    """Yield a session's bytes in parts of whole turns, each of `at_least` bytes but for the last."""
    start = 0
    while (mark := _MARK_LINE.search(data, start + at_least)) is not None:
        yield data[start : mark.start()]
        start = mark.start()
    yield data[start:]


def with_texts(
    data: bytes, changed: Callable[[Turn], str], role_of: Callable[[Turn], str] = lambda turn: turn.role
) -> bytes:
    """Return a session's file in which turns have other texts, or roles; every byte outside of those turns stays.

    The header of a turn that changes is rewritten: number, time and external id are as they were.
    """
    pieces, position = [], 0
    for turn in parse(data).turns:
        text, role = changed(turn), role_of(turn)
        if (text, role) != (turn.text, turn.role):
            fresh = encode_turn(NewTurn(role, text, turn.at, turn.external_id), turn.ordinal)
            pieces += [data[position : turn.offset], fresh]
            ended = _TURN_END.match(data, turn.end)
            position = ended.end() if ended else turn.end
    return b"".join((*pieces, data[position:])) if pieces else data


def parse(data: bytes, from_offset: int = 0, session_id: NodeId = "", next_ordinal: int = 1) -> Parsed:
    """Read the turns from an offset that lies between turns (0: from the file's beginning).

    Numbers only grow: a turn whose own number was given before (a copy made by hand) gets the next one. Text
    between turns that is none (a note by hand, damage) is skipped.
    """
    turns: list[Turn] = []
    size = len(data)
    position = from_offset
    if from_offset == 0:
        head = _head_end(data)
        if head is None:
            return Parsed((), 0, True, next_ordinal, next_ordinal, _HEAD_END)
        position = head
    while True:
        found = _HEADER.match(data, position)
        if found is None:
            position = _after_newlines(data, position)
            mark = _MARK_LINE.search(data, position)
            if mark is None:
                return _ended(data, position, turns, next_ordinal)
            torn = _TORN.match(data, mark.start())
            if torn is not None:
                next_ordinal = max(next_ordinal, int(torn[1]) + 1)
                position = _after_newlines(data, torn.end())
                continue
            found = _HEADER.match(data, mark.start())
            if found is None:
                if _is_unfinished(data, mark.start()):
                    return _torn(data, mark.start(), turns, next_ordinal, next_ordinal)
                position = mark.end()
                continue
        # A header that repeats a number (a copied turn) must not give two turns one id.
        ordinal = max(next_ordinal, int(found[1]))
        start, is_cut = _text_start(data, found)
        if is_cut:
            return _torn(data, found.start(), turns, next_ordinal, ordinal, found)
        end = start + int(found[5])
        raw = data[start:end]
        # The hash fits: the text is as we wrote it, whatever looks like a comment line in it.
        if hashlib.sha256(raw).hexdigest()[:16] == found[6].decode() and end <= size:
            position = end + 2
            if data[end:position] != b"\n\n":
                rest = data[end:position]
                if end + len(rest) == size and rest in _TERMINATOR_PARTS:
                    turns.append(_turn(session_id, ordinal, found, raw, end))
                    return Parsed(tuple(turns), size, True, ordinal + 1, ordinal + 1, b"\n\n"[len(rest) :])
                # Text was added behind the turn by hand, so the turn is all up to the next comment line.
                raw, position = _edited(data, start)
                end = start + len(raw)
        else:
            # The hash does not fit: either a crash cut the turn short, or a person edited it.
            mark = _MARK_LINE.search(data, start)
            if mark is None:
                if end > size or b"\0" in raw or _ends_in_part_of_mark(data):
                    return _torn(data, found.start(), turns, next_ordinal, ordinal, found)
            elif closed := _TORN_AT_LAST.match(data, mark.start()):
                position = closed.start(1)
                continue
            elif _is_unfinished(data, mark.start()):
                return _torn(data, found.start(), turns, next_ordinal, ordinal, found)
            raw, position = _edited(data, start)
            end = start + len(raw)
        turns.append(_turn(session_id, ordinal, found, raw, end))
        next_ordinal = ordinal + 1


def _turn(session: NodeId, ordinal: int, found: re.Match[bytes], raw: bytes, end: int) -> Turn:
    _, role, at, external_id, *_ = found.groups()
    return Turn(
        session,
        ordinal,
        role_of(_unquote(role)),
        _decode(raw),
        None if at is None else instant(at.decode("utf-8", "replace")),
        None if external_id is None else _unquote(external_id),
        found.start(),
        end,
    )


def _name_line(role: str, at: datetime | None) -> bytes:
    """Return the line that says who speaks, and when; made of the header alone, it is known again."""
    name = " ".join(_SURROGATES.sub("\ufffd", role).replace("*", "").split())[:_NAME_CHARS]
    when = f" · {_aware(at):%Y-%m-%d %H:%M}" if at is not None else ""
    return f"**{name[:1].upper()}{name[1:]}**{when}\n\n".encode()


def _text_start(data: bytes, found: re.Match[bytes]) -> tuple[int, bool]:
    """Return where a turn's text begins, and True if a crash cut the line before it."""
    start = found.end()
    if found[7] is None:
        return start, False
    line = _name_line(_unquote(found[2]), None if found[3] is None else instant(found[3].decode("utf-8", "replace")))
    if data.startswith(line, start):
        return start + len(line), False
    tail = data[start : start + len(line)]
    if len(tail) < len(line) or b"\0" in tail:
        may_be = all(byte in (0, wanted) for byte, wanted in zip(tail, line, strict=False))
        if may_be and _MARK_LINE.search(data, start) is None:
            return start, True
    # A person changed that line, or removed it.
    if _digest(data[start : start + int(found[5])]) == found[6].decode():
        return start, False
    other = _NAME_LINE.match(data, start)
    return (other.end() if other else start), False


def _head_end(data: bytes) -> int | None:
    """Where the turns may begin; None when the frontmatter itself is cut short."""
    mark = _MARK_LINE.search(data)
    limit = len(data) if mark is None else mark.start()
    if not data.startswith(b"---") and (not data or not b"---".startswith(data)):
        return 0
    head = _HEAD.match(data, 0, limit)
    if head is None or (head[1] is None and head.end() == len(data)):
        return None if mark is None else limit
    return head.end()


def _edited(data: bytes, start: int) -> tuple[bytes, int]:
    """Return the text up to the next comment line, whatever its header says, and the position of that line."""
    mark = _MARK_LINE.search(data, start)
    end = len(data) if mark is None else mark.start()
    raw = data[start:end]
    for terminator in (b"\r\n\r\n", b"\n\n", b"\r\n", b"\n"):
        if raw.endswith(terminator):
            return raw[: -len(terminator)], end
    return raw, end


def _is_unfinished(data: bytes, start: int) -> bool:
    """Return True if the comment line that begins here was never ended."""
    return data.find(b"\n", start) < 0


def _ended(data: bytes, position: int, turns: list[Turn], next_ordinal: int) -> Parsed:
    """Return the end of a file after whose last comment line only `data[position:]` is left."""
    tail = data[position:]
    if tail and (_MARK.startswith(tail) or b"\0" in tail):
        return _torn(data, position, turns, next_ordinal, next_ordinal)
    closing = b"" if not data or data.endswith(b"\n") else b"\n\n"
    return Parsed(tuple(turns), len(data), False, next_ordinal, next_ordinal, closing)


def _torn(
    data: bytes,
    start: int,
    turns: list[Turn],
    resume_ordinal: int,
    torn_ordinal: int,
    header: re.Match[bytes] | None = None,
) -> Parsed:
    closing = f"\n<!-- turn torn n={torn_ordinal} -->\n\n".encode()
    # What closes a turn must not be what it lacked: the end of its comment line, or the last bytes of its text.
    if header is None:
        closing = b"~" + closing
    else:
        start, is_cut = _text_start(data, header)
        missing = start + int(header[5]) - len(data)
        if is_cut or (missing > 0 and _digest(data[start:] + closing[:missing]).encode() == header[6]):
            closing = b"~" + closing
    return Parsed(tuple(turns), start, True, torn_ordinal + 1, resume_ordinal, closing)


def _ends_in_part_of_mark(data: bytes) -> bool:
    """Return True if the last line, unended, may be the beginning of a comment line."""
    last = data[data.rfind(b"\n") + 1 :]
    return last != b"" and _MARK.startswith(last)


def _after_newlines(data: bytes, position: int) -> int:
    found = _NEWLINES.match(data, position)
    return position if found is None else found.end()


def _quote(value: str) -> str:
    quoted = json.dumps(_SURROGATES.sub("\ufffd", value), ensure_ascii=False)[1:-1]
    return quoted.replace(">", "\\u003e")


def _unquote(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def _decode(raw: bytes) -> str:
    return (_ESCAPED.sub(rb"\1", raw) if b"\\" + _MARK in raw else raw).decode("utf-8", "replace")


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _utc(at: datetime) -> datetime:
    return _aware(at).astimezone(UTC)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

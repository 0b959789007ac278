"""An agent's stream cut into lines; of a line that the daemon would refuse for its length, only the outline is kept."""

from __future__ import annotations

import json
import re
from typing import Any

from ..protocol import MAX_LINE_BYTES

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

    def message(self) -> dict[str, Any] | None:
        """Return the object without its nested values; None for what is none, or has a long text outside of them."""
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

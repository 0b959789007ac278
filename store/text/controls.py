"""Control characters: what commands a terminal is no part of what was said, and comes into the memory nowhere."""

from __future__ import annotations

import re

_SEQUENCE = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
"""A colour or a move of the cursor (CSI); a title or a link of a terminal's window (OSC), up to its end."""

_CONTROL = re.compile(_SEQUENCE + r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates (UAX #9): with them a line shows other than it reads."""


def without_controls(text: str) -> str:
    """Drop terminal sequences and control characters but newline and tab; a return is a newline.

    A lone surrogate, which JSON can spell and UTF-8 cannot, becomes U+FFFD.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(text: str) -> str:
    """Drop what may change how the lines around a text are shown, too: for pages that are made of others' words."""
    return _DIRECTION.sub("", without_controls(text))

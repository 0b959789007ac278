"""Control characters: what commands a terminal is no part of what was said, and comes into the memory nowhere."""

from __future__ import annotations

import re

_SEQUENCE = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
"""A colour or a move of the cursor (CSI); a title or a link of a terminal's window (OSC), up to its end."""

_CONTROL = re.compile(_SEQUENCE + r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNSEEN = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
"""Marks of direction (UAX #9), with which a line shows other than it reads, and what does not show at all.

The joiners U+200C and U+200D stay: Persian and emoji need them.
"""


def without_controls(text: str) -> str:
    """Drop terminal sequences and control characters but newline and tab; a return is a newline.

    A lone surrogate, which JSON can spell and UTF-8 cannot, becomes U+FFFD.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(text: str) -> str:
    """Drop what does not show, or changes how the lines around show, too: for what is made of others' words."""
    return _UNSEEN.sub("", without_controls(text))

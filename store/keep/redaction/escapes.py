"""Escapes as the characters that they stand for, in a text of the same length: an escape is no part of a word."""

from __future__ import annotations

import re
from typing import Final

from .prefilter import has_any

_MARKS: Final = ("\\", "&", "\x1b", "[0", "[1", "[3", "[9")
_ESCAPE = re.compile(
    r"\\{1,4}(?P<letter>[nrt])|\\{1,4}u00(?P<unicode>[2-7][0-9a-fA-F])|\\{1,4}u001[bB](?:\[[0-9;]{0,12}m)?"
    r"|&(?P<entity>quot|amp|lt|gt|apos|#34|#39|#x27|#x22);|\x1b?\[[0-9;]{1,12}m"
)
_LETTERS: Final = {"n": "\n", "r": "\n", "t": "\t"}
_ENTITIES: Final = {"quot": '"', "#34": '"', "#x22": '"', "amp": "&", "lt": "<", "gt": ">"}
_PERCENT = re.compile(r"%([2-7][0-9a-fA-F])")


def without_percents(text: str) -> str:
    """Return a text with each escape of a URL as two spaces and the character that it stands for."""
    return _PERCENT.sub(lambda escape: chr(int(escape[1], 16)).rjust(3), text) if "%" in text else text


def without_escapes(text: str) -> str:
    """Return a text with each escape of JSON, HTML and terminals as spaces and the character that it stands for.

    Positions stay: `{"out":"a\\nAIza…"}` has a line end before the key, which would else stand behind the letter n.
    """
    return _ESCAPE.sub(_plain, text) if has_any(text, _MARKS) else text


def _plain(escape: re.Match[str]) -> str:
    if letter := escape["letter"]:
        plain = _LETTERS[letter]
    elif code := escape["unicode"]:
        plain = chr(int(code, 16))
    elif entity := escape["entity"]:
        plain = _ENTITIES.get(entity, "'")
    else:
        plain = ""
    return plain.rjust(len(escape[0]))

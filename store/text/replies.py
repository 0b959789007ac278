"""Replies: the form of a fact that accepts, refuses or answers: above its words, a quotation of what it replies to."""

from __future__ import annotations

import re

_MARK = "> "
_MARKS = re.compile(r"^> ?", re.MULTILINE)
_BETWEEN = "\n\n"


def write_reply(words: str, to: str) -> str:
    """Return the text of a reply: "> shall we …", an empty line, "yes, do that"."""
    return f"{_MARK}{f'{chr(10)}{_MARK}'.join(to.splitlines())}{_BETWEEN}{words}"


def read_reply(text: str) -> tuple[str, str]:
    """Return the words of a text, and what they reply to; "" where it is no reply."""
    to, _, words = text.partition(_BETWEEN)
    if not (to.startswith(_MARK) and words.strip()):
        return text, ""
    return words, _MARKS.sub("", to)

"""Rules for the names of channels, sessions, agents, memories and tags, for every entrance to the store.

A name is part of paths, of frontmatter, of a terminal's lines and of commands that a person types: one line, of bounded
length, that does not begin with a dot. A label (a tag, an outside id, a speaker) may begin with one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

MAX_CHARACTERS = 256
TAIL_DIGITS = 6

MOST_KEY_CHARACTERS = 1024
"""The length of a document's key: it may be a path."""

# Controls (C0, DEL, C1), line separators, marks of writing direction, the byte order mark, halves of surrogate pairs.
_NOT_IN_A_LINE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+"
)


def complaint(text: str) -> str:
    """Say why a text is no name, as the end of a sentence; "" for one that is."""
    return label_complaint(text) or ("begins with a dot" if text.startswith(".") else "")


def label_complaint(text: str) -> str:
    """Say why a text is no label, as the end of a sentence; "" for one that is."""
    if not text.strip():
        return "is empty"
    if len(text) > MAX_CHARACTERS:
        return f"has more than {MAX_CHARACTERS} characters"
    if _NOT_IN_A_LINE.search(text):
        return "holds a line break or a control character"
    return "begins or ends with a space" if text != text.strip() else ""


def channel_complaint(text: str) -> str:
    """Say why a channel to keep something in cannot have this name, as the end of a sentence; "" if it can."""
    return "means all channels, and here it takes one" if text == "*" else complaint(text)


def as_name(text: str) -> str:
    """Make a name out of any outside text; one that had to be changed ends in six hex digits of its hash.

    The tail keeps two texts apart, so that no text becomes another's name. "" when nothing is left.
    """
    return _made(text.lstrip(" ."), text)


def as_channel(text: str) -> str:
    """Make the name of a channel to keep something in, as `as_name` does."""
    return "" if channel_complaint(name := as_name(text)) else name


def as_reference(given: object) -> object:
    """Return an id without the brackets, quotes and spaces that it was copied with; anything else as it is."""
    if not isinstance(given, str):
        return given
    bare = given.strip()
    if bare.startswith("[") and "]" in bare:  # as at the beginning of a hit's line
        bare = bare[1 : bare.index("]")].strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "`\"'":
        bare = bare[1:-1].strip()
    session, mark, ordinal = bare.partition("#")
    return f"{session.rstrip()}#{ordinal.lstrip()}" if mark else bare


def as_label(text: str) -> str:
    """Make a label out of any outside text, as `as_name` does; a leading dot stays."""
    return _made(text, text)


def _made(text: str, given: str) -> str:
    line = _NOT_IN_A_LINE.sub(" ", text).strip()
    # Only a changed text gets the tail, so that ordinary names stay as they are.
    if line == given.strip(" ") and len(line) <= MAX_CHARACTERS:
        return line
    if not line:
        return ""
    tail = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:TAIL_DIGITS]
    return f"{line[: MAX_CHARACTERS - TAIL_DIGITS - 1].rstrip()}-{tail}"


def _checked_by(complaint_of: Callable[[str], str]) -> AfterValidator:
    def check(text: str) -> str:
        if said := complaint_of(text):
            raise PydanticCustomError("name", "{complaint}", {"complaint": f"it {said}"})
        return text

    return AfterValidator(check)


def key_complaint(text: str) -> str:
    """Say why a text cannot name a document, as the end of a sentence; "" if it can."""
    if not text:
        return "is empty"
    if len(text) > MOST_KEY_CHARACTERS:
        return f"has more than {MOST_KEY_CHARACTERS} characters"
    return "holds a line break or a control character" if _NOT_IN_A_LINE.search(text) else ""


_Bounded = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]

Name = Annotated[_Bounded, _checked_by(complaint)]
"""The name of a session, an agent or a memory; or of a channel to search."""

User = Annotated[Name, AfterValidator(str.casefold)]
"""The name of one of several users: Ana and ana are one."""

NodeRef = Annotated[_Bounded, BeforeValidator(lambda given: as_reference(given)), _checked_by(complaint)]
"""The id of a memory, session or turn, also as answers print it: `[ID]`, `SESSION #3`."""

Channel = Annotated[_Bounded, _checked_by(channel_complaint)]
"""The name of a channel to keep something in: not `*`, which means all of them."""

Label = Annotated[_Bounded, _checked_by(label_complaint)]
"""A tag, an outside id, a speaker."""

DocumentKey = Annotated[str, Field(min_length=1, max_length=MOST_KEY_CHARACTERS), _checked_by(key_complaint)]
"""The key of a document in its space."""

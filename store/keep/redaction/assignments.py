"""Passwords with their names, as code, settings and listings assign them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .judging import (
    classes,
    entropy,
    is_password,
    is_phrase,
    is_placeholder,
    is_random,
    is_reference,
    is_strong_password,
    is_term,
    is_wordy,
)
from .prefilter import folded, matches_at, starts_of
from .shapes import Span

NAMES: Final = ("pass", "pw", "psk", "kennwort", "contrase", "secret", "token", "key", "cred")
"""The beginnings of the names that `_NAME` matches."""

_NAME = re.compile(
    r"(?i)(?P<password>pass(?:word|wd|phrase|code)|pwd|pass(?![a-z])|(?<![a-z])pw(?![a-z])|passwort|kennwort|contrase[nñ]a|psk)|secret|token|key|credential"
)
_VALUE = re.compile(
    r"(?i)(?P<suffix>[a-z0-9_-]{0,32})[\"'`\\]{0,3}\]?[ \t]{0,3}"
    r"(?P<op>:=|=>|==?|:|,(?=[ \t]{0,16}[\"'])|\((?=[\"'])|(?<=[a-z])[ \t])(?P<gap>[ \t]{0,16})"
    r"[\[{]{0,2}(?:\\?(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{4,256}?)\\?(?P=quote)|(?P<bare>(?:[^\s\"'`,;<>(){}\[\]&]|&(?![\w.-]{1,40}=)){4,256}))"
)
FEWEST_OF_SALT: Final = 40
MOST_CLASSES: Final = 4
FEWEST_BITS_OF_SALT: Final = 4.8
"""Forty characters drawn from ninety have 5 or more; a line of code has 4.3."""

_FLAG = re.compile(r"(?<![\w-])--?[a-z]{0,20}(?:[_-][a-z]{1,20}){0,4}[_-]?\Z")
_PART = re.compile(r"[.$:!]+")
_IN_PARTS = re.compile(r"[A-Za-z0-9_-]{2,40}(?:[.$:!]{1,2}[A-Za-z0-9_/+=-]{3,512}){1,6}")
"""A key of several parts, each of which alone may look like a word: dt0c01.ST2EY72K.G3DFPBEJ…"""

_REST = re.compile(
    r"[^\s\"'`,;<>(){}\[\]&]*+(?:[<>(){}\[\]&](?=[A-Za-z0-9!@#$%^*])(?!&[\w.-]{1,40}=)[^\s\"'`,;<>(){}\[\]&]++){0,20}"
)


def find_assigned(text: str) -> Iterator[Span]:
    """Find `password = X`, `--password X`, `"passwd": "X"`, and quoted keys with marks in them that no issuer's has."""
    looked_to = 0
    for name in matches_at(starts_of(NAMES, folded(text)), _NAME, text):
        if name.start() < looked_to or (found := _VALUE.match(text, name.end())) is None:
            continue
        quoted = found["quoted"] is not None
        start, end = found.span("quoted" if quoted else "bare")
        is_flag = found["op"].isspace() and _FLAG.search(text, max(0, name.start() - 60), name.start())
        if found["op"].isspace() and not is_flag and not (quoted and is_strong_password(text[start:end])):
            continue
        if not quoted:
            end = start + len(text[start:end].rstrip(".:!?"))
            if text[end : end + 1] in ("(", "[", "{"):
                continue
        value = text[start:end]
        if is_placeholder(value) and not _is_salt(value):
            continue
        is_pass = name["password"] is not None
        if _is_assigned_password(value, name, found) if is_pass else _is_assigned_key(value, quoted=quoted):
            if not quoted and (rest := _REST.match(text, end)) is not None:
                end = rest.end()
            yield start, end, "password" if is_pass else "token"
            looked_to = end


def _is_assigned_password(value: str, name: re.Match[str], found: re.Match[str]) -> bool:
    if any(map(str.isspace, value)):
        return name[0].lower() in ("passphrase", "psk") and len(value) >= 12
    if found["op"] in (",", "("):
        return is_strong_password(value) if found["op"] == "," else is_password(value)
    if found["quoted"] is not None:
        is_name = is_wordy(value) and not any(map(str.isdigit, value)) and (value[0].islower() or not value.isalpha())
        return classes(value) > 1 and not (is_reference(value) or is_term(value) or (is_name and not is_phrase(value)))
    if found["suffix"] and found["op"] == ":":
        return False
    return is_password(value, 4 if found["op"] == "=" and not found["gap"] else 6)


def _is_assigned_key(value: str, *, quoted: bool) -> bool:
    if not quoted:
        return _IN_PARTS.fullmatch(value) is not None and any(map(is_random, _PART.split(value)[1:]))
    if _is_salt(value):
        return True
    has_marks = any(not c.isalnum() and c not in "-_./: " for c in value)
    return has_marks and " " not in value and is_random(value) and not is_reference(value)


def _is_salt(value: str) -> bool:
    """Return True for what frameworks draw from all of ASCII, as WordPress does: it may begin or read as code does."""
    sorts = classes(value) if len(value) >= FEWEST_OF_SALT else 0
    return sorts == MOST_CLASSES and value.count(" ") * 8 < len(value) and entropy(value) >= FEWEST_BITS_OF_SALT

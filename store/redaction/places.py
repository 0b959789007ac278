"""Secrets in the places where programs keep them, without a name: in addresses, files of their own, prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from .judging import (
    FEWEST_BITS,
    classes,
    entropy,
    is_password,
    is_placeholder,
    is_random,
    is_reference,
    is_uuid,
    is_wordy,
)
from .prefilter import has_any
from .shapes import Span

_PGPASS = re.compile(
    r"(?<![\w.*:/-])[\w.*-]{1,128}:(?:\d{2,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:(?P<secret>[^\s:]{4,128})(?!\S)"
)
_DIRECTIVE = re.compile(
    r"(?m)^[ \t]{0,8}(?:requirepass|masterauth|auth_pass|bindpw|rootpw|r[ow]community"
    r"|\S{0,24}password)[ \t]{1,8}[\"']?(?P<secret>[^\s\"']{4,128})"
)
_SECURE_STRING = re.compile(
    r"(?i)ConvertTo-SecureString[ \t]{1,4}(?:-String[ \t]{1,4})?[\"'](?P<secret>[^\"'\n]{4,128})"
)
_ANSWERED = re.compile(
    r"(?i)assword:?[^\n]{0,20}\n[ \t]{0,16}send(?:_user)?[ \t]{1,4}(?:--[ \t])?\"(?P<secret>[^\"\n\\]{4,128})"
)
_ORACLE = re.compile(
    r"(?i)(?:\bthin:|\bsqlplus (?:-[a-z]{1,2} ){0,2}|\bconnect )[\w.-]{1,40}/(?P<secret>[^\s@/\"']{4,64})@"
)


def find_placed(text: str) -> Iterator[Span]:
    """Find passwords in their places: `.pgpass`, a daemon's directives, answers to prompts."""
    for pattern, marks, judge in _PLACED:
        if has_any(text, marks):
            for found in pattern.finditer(text):
                if judge(found["secret"]):
                    yield *found.span("secret"), "password"


def _is_no_stand_in(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value) and classes(value) >= 2


_PLACED: Final[tuple[tuple[re.Pattern[str], tuple[str, ...], Callable[[str], bool]], ...]] = (
    (_PGPASS, (":54", ":64", ":*:"), is_password),
    (
        _DIRECTIVE,
        ("requirepass", "masterauth", "auth_pass", "bindpw", "rootpw", "community", "assword"),
        _is_no_stand_in,
    ),
    (_SECURE_STRING, ("SecureString",), _is_no_stand_in),
    (_ANSWERED, ("assword",), _is_no_stand_in),
    (_ORACLE, ("thin:", "sqlplus", "connect ", "CONNECT "), _is_no_stand_in),
)


# ---- addresses

_URL = re.compile(r"://(?:[^\s/:@\"'<>]{0,64}:)?(?P<secret>[^\s/:\"'<>][^\s/\"'<>]{1,255})@(?P<host>[\w.-]?)")
_IN_PATH = re.compile(
    r"(?i)/(?:bot(?=\d)|private-|hooks?/|reset[\w-]{0,16}/|magic[\w-]{0,10}/|invite/|verify[\w-]{0,12}/|confirm[\w-]{0,12}/|login/|live2/|api/|services/|webhooks?/)"
    r"(?:[\w.-]{1,24}/){0,3}?(?P<secret>[A-Za-z0-9_:~.-]{20,256})(?![A-Za-z0-9])"
)
_GO = re.compile(r"(?P<user>[\w.-]{1,60}):(?P<secret>[^\s\"'`]{4,128})@(?:tcp|unix)\(")
_FILE = re.compile(r"\.[a-z]{1,5}$")


def find_url_passwords(text: str) -> Iterator[Span]:
    """Find `scheme://user:X@host`, and the drawn parts of a path to which only who knows it has access."""
    for found in _URL.finditer(text):
        is_alone = text[found.start("secret") - 1] == "/"
        if text.startswith(".ingest", found.end() + 1) or "sentry" in text[found.end() : found.end() + 40]:
            continue  # the public half of an address to report errors to
        if is_random(found["secret"]) if is_alone else not is_placeholder(found["secret"]):
            yield *found.span("secret"), "url"
    for found in _IN_PATH.finditer(text):
        if _is_drawn(found["secret"]) and not is_uuid(found["secret"]) and not _FILE.search(found["secret"]):
            yield *found.span("secret"), "url"


def _is_drawn(value: str) -> bool:
    """Return True for what is no word, has letters and digits, and varies as drawn values do."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return has_both and not is_placeholder(value) and not is_wordy(value) and entropy(value) >= FEWEST_BITS


def find_go_passwords(text: str) -> Iterator[Span]:
    """Find `user:X@tcp(host)`."""
    for found in _GO.finditer(text):
        if not is_placeholder(found["secret"]):
            yield *found.span("secret"), "url"

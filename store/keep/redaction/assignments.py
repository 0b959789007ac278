"""Passwords with their names: in code, settings, listings, and the files that programs keep them in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .judging import classes, is_password, is_placeholder, is_random, is_reference, is_strong_password
from .shapes import Span

_NAME = re.compile(
    r"(?i)(?P<password>pass(?:word|wd|phrase|code)|pwd|pass(?![a-z])|passwort|kennwort|contrase[nñ]a|psk)|secret|token|key|credential"
)
_VALUE = re.compile(
    r"(?i)(?P<suffix>[a-z0-9_-]{0,32})[\"'`\\]{0,3}\]?[ \t]{0,3}"
    r"(?P<op>:=|=>|==?|:|,(?= ?[\"'])|\((?=[\"'])|(?<=[a-z])[ \t])(?P<gap>[ \t]{0,3})"
    r"(?:\\?(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{4,256}?)\\?(?P=quote)|(?P<bare>(?:[^\s\"'`,;<>(){}\[\]&]|&(?![\w.-]{1,40}=)){4,256}))"
)
_FLAG = re.compile(r"(?<![\w-])--?[a-z]{0,20}(?:[_-][a-z]{1,20}){0,4}[_-]?\Z")
_REST = re.compile(
    r"[^\s\"'`,;<>(){}\[\]&]*+(?:[<>(){}\[\]&](?=[A-Za-z0-9!@#$%^*])(?!&[\w.-]{1,40}=)[^\s\"'`,;<>(){}\[\]&]++){0,20}"
)


def find_assigned(text: str) -> Iterator[Span]:
    """Find `password = X`, `--password X`, `"passwd": "X"`, and quoted keys with marks in them that no issuer's has."""
    looked_to = 0
    for name in _NAME.finditer(text):
        if name.start() < looked_to or (found := _VALUE.match(text, name.end())) is None:
            continue
        quoted = found["quoted"] is not None
        start, end = found.span("quoted" if quoted else "bare")
        if found["op"].isspace() and not _FLAG.search(text, max(0, name.start() - 60), name.start()):
            continue
        if not quoted:
            end = start + len(text[start:end].rstrip(".:!?"))
            if text[end : end + 1] in ("(", "[", "{"):
                continue
        value = text[start:end]
        if is_placeholder(value):
            continue
        is_pass = name["password"] is not None
        if _is_assigned_password(value, name, found) if is_pass else quoted and _is_assigned_key(value):
            if not quoted and (rest := _REST.match(text, end)) is not None:
                end = rest.end()
            yield start, end, "password" if is_pass else "token"
            looked_to = end


def _is_assigned_password(value: str, name: re.Match[str], found: re.Match[str]) -> bool:
    if any(map(str.isspace, value)):
        return name[0].lower() == "passphrase" and len(value) >= 12
    if found["op"] in (",", "("):
        return is_strong_password(value) if found["op"] == "," else is_password(value)
    if found["quoted"] is not None:
        return classes(value) > 1 and not is_reference(value)
    if found["suffix"] and found["op"] == ":":
        return False
    return is_password(value, 4 if found["op"] == "=" and not found["gap"] else 6)


def _is_assigned_key(value: str) -> bool:
    has_marks = any(not c.isalnum() and c not in "-_./: " for c in value)
    return has_marks and " " not in value and is_random(value) and not is_reference(value)


_XML = re.compile(
    r"(?i)<(?P<tag>(?:\w{1,30}[:._-])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|api-?key)\w{0,12})>\s{0,8}(?P<secret>[^<\s]{4,256})\s{0,8}</"
)
_SQL = re.compile(
    r"(?i)\b(?:identified (?:with \w{1,40} )?by|password)[ \t]{1,3}(?:=[ \t]{0,3})?'(?P<secret>[^'\n]{4,128})'"
)
_NETRC = re.compile(r"\b(?:machine|login|account)\s{1,8}\S{1,128}\s{1,16}password\s{1,8}(?P<secret>[^\s\"']{4,128})")
_PGPASS = re.compile(
    r"(?<![\w.*:/-])[\w.*-]{1,128}:(?:\d{2,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:(?P<secret>[^\s:]{4,128})(?!\S)"
)
_DIRECTIVE = re.compile(
    r"(?m)^[ \t]{0,8}(?:requirepass|masterauth|auth_pass|bindpw|rootpw)[ \t]{1,8}[\"']?(?P<secret>[^\s\"']{4,128})"
)
_SECURE_STRING = re.compile(
    r"(?i)ConvertTo-SecureString[ \t]{1,4}(?:-String[ \t]{1,4})?[\"'](?P<secret>[^\"'\n]{4,128})"
)
_BELOW = re.compile(
    r"(?im)\b(?:pass(?:word|wd|phrase|code)|passwort|contraseña)[^\n:]{0,40}:[ \t]{0,4}\n"
    r"[ \t]{0,8}(?P<secret>[^\s\"'`]{6,64})[ \t]{0,4}$"
)


def find_placed(text: str) -> Iterator[Span]:
    """Find passwords in their places: XML, SQL, `.netrc`, `.pgpass`, the line below `Password:`."""
    for pattern, marks, judge in _PLACED:
        if any(mark in text for mark in marks):
            for found in pattern.finditer(text):
                if judge(found["secret"]):
                    yield *found.span("secret"), "password"


def _is_no_stand_in(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value) and classes(value) >= 2


_PLACED: tuple[tuple[re.Pattern[str], tuple[str, ...], Callable[[str], bool]], ...] = (
    (_XML, ("</",), _is_no_stand_in),
    (_SQL, ("'",), _is_no_stand_in),
    (_NETRC, ("password",), _is_no_stand_in),
    (_PGPASS, (":54", ":64", ":*:"), is_password),
    (_DIRECTIVE, ("requirepass", "masterauth", "auth_pass", "bindpw", "rootpw"), _is_no_stand_in),
    (_SECURE_STRING, ("SecureString",), _is_no_stand_in),
    (_BELOW, (":\n", ": \n"), is_password),
)

"""Passwords in the places where programs keep them: files of their own, statements, prompts, tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from .judging import classes, is_password, is_placeholder, is_reference
from .prefilter import has_any
from .shapes import Span

_XML = re.compile(
    r"(?i)<(?P<tag>(?:\w{1,30}[:._-])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|api-?key)\w{0,12})>\s{0,8}(?P<secret>[^<\s]{4,256})\s{0,8}</"
)
_SQL = re.compile(
    r"(?i)\b(?:identified (?:with \w{1,40} )?by|password)[ \t]{1,3}(?:=[ \t]{0,3})?N?'(?P<secret>[^'\n]{4,128})'"
)
_NETRC = re.compile(
    r"\b(?:machine|login|account|username)\s{1,8}\S{1,128}\s{1,16}password\s{1,8}(?P<secret>[^\s\"']{4,128})"
)
_PGPASS = re.compile(
    r"(?<![\w.*:/-])[\w.*-]{1,128}:(?:\d{2,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:(?P<secret>[^\s:]{4,128})(?!\S)"
)
_DIRECTIVE = re.compile(
    r"(?m)^[ \t]{0,8}(?:requirepass|masterauth|auth_pass|bindpw|rootpw)[ \t]{1,8}[\"']?(?P<secret>[^\s\"']{4,128})"
)
_SECURE_STRING = re.compile(
    r"(?i)ConvertTo-SecureString[ \t]{1,4}(?:-String[ \t]{1,4})?[\"'](?P<secret>[^\"'\n]{4,128})"
)
_IPSEC = re.compile(r"(?m):[ \t]{1,4}(?:PSK|EAP|XAUTH)[ \t]{1,4}\"(?P<secret>[^\"\n]{4,128})\"")
_CHAT = re.compile(r"(?i)\bnickserv[ \t:]{1,3}(?:identify|register)[ \t]{1,3}(?P<secret>[^\s\"']{6,64})")
_AUTH_PAIR = re.compile(
    r"(?i)\bauth[ \t]{0,3}[=:][ \t]{0,3}[(\[][\"'][^\"'\n]{1,80}[\"'],[ \t]{0,3}"
    r"[\"'](?P<secret>[^\"'\n]{4,128})[\"'][)\]]"
)
_ANSWERED = re.compile(
    r"(?i)assword:?[^\n]{0,20}\n[ \t]{0,16}send(?:_user)?[ \t]{1,4}(?:--[ \t])?\"(?P<secret>[^\"\n\\]{4,128})"
)
_ORACLE = re.compile(
    r"(?i)(?:\bthin:|\bsqlplus (?:-[a-z]{1,2} ){0,2}|\bconnect )[\w.-]{1,40}/(?P<secret>[^\s@/\"']{4,64})@"
)
_BELOW = re.compile(
    r"(?im)\b(?:pass(?:word|wd|phrase|code)|passwort|contraseña)[^\n:]{0,40}:[ \t]{0,4}\n"
    r"[ \t]{0,8}(?P<secret>[^\s\"'`]{6,64})[ \t]{0,4}$"
)


def find_elements(text: str) -> Iterator[Span]:
    """Find passwords and keys in the elements of XML that are named so."""
    for found in _XML.finditer(text):
        if _is_no_stand_in(found["secret"]):
            yield *found.span("secret"), "password"


def find_placed(text: str) -> Iterator[Span]:
    """Find passwords in their places: SQL, `.netrc`, `.pgpass`, answers to prompts, the line below `Password:`."""
    for pattern, marks, judge in _PLACED:
        if has_any(text, marks):
            for found in pattern.finditer(text):
                if judge(found["secret"]):
                    yield *found.span("secret"), "password"


def _is_no_stand_in(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value) and classes(value) >= 2


_PLACED: tuple[tuple[re.Pattern[str], tuple[str, ...], Callable[[str], bool]], ...] = (
    (_SQL, ("dentified", "IDENTIFIED", "assword", "ASSWORD"), _is_no_stand_in),
    (_NETRC, ("password",), _is_no_stand_in),
    (_PGPASS, (":54", ":64", ":*:"), is_password),
    (_DIRECTIVE, ("requirepass", "masterauth", "auth_pass", "bindpw", "rootpw"), _is_no_stand_in),
    (_SECURE_STRING, ("SecureString",), _is_no_stand_in),
    (_IPSEC, ("PSK", "EAP", "XAUTH"), _is_no_stand_in),
    (_CHAT, ("NickServ", "nickserv"), _is_no_stand_in),
    (_AUTH_PAIR, ("auth",), _is_no_stand_in),
    (_ANSWERED, ("assword",), _is_no_stand_in),
    (_ORACLE, ("thin:", "sqlplus", "connect ", "CONNECT "), _is_no_stand_in),
    (_BELOW, (":\n", ": \n"), is_password),
)


_HEADING = re.compile(
    r"(?i)[*_`\"' ]{0,4}(?:[a-z]{1,16}[ _-])?(?:password|passwd|passwort|kennwort|contraseña)[*_`\"' ]{0,4}"
)
MOST_ROWS: Final = 200


def find_in_tables(text: str) -> Iterator[Span]:
    """Find what stands in the column `password` of a table that markdown or a database's shell has drawn."""
    position, column, rows = 0, None, 0
    for line in text.splitlines(keepends=True):
        cells = line.split("|")
        if len(cells) < 2 or rows > MOST_ROWS:
            column = column if "-+-" in line else None
        elif column is None:
            column, rows = next((at for at, cell in enumerate(cells) if _HEADING.fullmatch(cell.strip())), None), 0
        elif column < len(cells):
            rows += 1
            value = cells[column].strip(" `*\r\n")
            if is_password(value):
                start = position + len("|".join(cells[:column])) + bool(column) + cells[column].index(value)
                yield start, start + len(value), "password"
        position += len(line)

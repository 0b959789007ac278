"""Passwords in the places where programs keep them: files of their own, statements, prompts, tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from .judging import classes, is_hash_like, is_password, is_placeholder, is_random, is_reference, is_strong_password
from .prefilter import folded, has_any, matches_at, starts_of
from .shapes import Span

_XML = re.compile(
    r"(?i)<(?P<tag>(?:\w{1,30}[:._-])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|api-?key)\w{0,12})>\s{0,8}(?P<secret>[^<\s]{4,256})\s{0,8}</"
)
_SQL = re.compile(
    r"(?i)\b(?:identified (?:with \w{1,40} )?by|password)[ \t]{1,3}(?:=[ \t]{0,3})?N?[\"']"
    r"(?P<secret>[^\"'\n]{4,128})[\"']"
)
_NETRC = re.compile(
    r"\b(?:machine|login|account|username)\s{1,8}\S{1,128}\s{1,16}password\s{1,8}(?P<secret>[^\s\"']{4,128})"
)
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
_NAMED_VALUE = re.compile(
    r"(?i)(?P<name>pass(?:word|wd|phrase)?|pwd|secret)\w{0,12}[\"'&;]{0,6}\]?(?:[^\n\"'=:]{0,24}\n)?[^\n=:]{0,24}?\b(?:value|text|string\(\d{1,4}\)|result)[\"']{0,2}\s{0,4}[=:]?>?\s{0,4}[\"'](?P<secret>[^\"'\n]{4,256})[\"']"
)
_VERB = re.compile(
    r"(?m)(?:^|[>\s])(?:PASS|AUTH PLAIN|LOGIN \S{1,80})[ \t]{1,3}\"?(?P<secret>[^\s\"]{6,128})[ \t]{0,3}\"?$"
)
_CISCO = re.compile(r"(?i)(?:password|secret) [05] (?P<secret>\S{6,64})")
_GENERATED = re.compile(
    r"(?i)password\b[^\n]{0,80}?(?:generated|proceed|created)[^\n]{0,40}?(?::|\n)\s{0,4}"
    r"(?:\w{1,20}@\w{1,20}: )?(?P<secret>[^\s]{8,64})"
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


def find_values(text: str) -> Iterator[Span]:
    """Find what a field, a router's setting or a notice gives as the value of a password that it names."""
    starts = starts_of(("pass", "pwd", "secret"), folded(text))
    for pattern in (_NAMED_VALUE, _CISCO, _GENERATED):
        for found in matches_at(starts, pattern, text):
            if is_password(found["secret"]):
                yield *found.span("secret"), "password"


def _is_no_stand_in(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value) and classes(value) >= 2


_PLACED: tuple[tuple[re.Pattern[str], tuple[str, ...], Callable[[str], bool]], ...] = (
    (_SQL, ("dentified", "IDENTIFIED", "assword", "ASSWORD"), _is_no_stand_in),
    (_NETRC, ("password",), _is_no_stand_in),
    (_PGPASS, (":54", ":64", ":*:"), is_password),
    (
        _DIRECTIVE,
        ("requirepass", "masterauth", "auth_pass", "bindpw", "rootpw", "community", "assword"),
        _is_no_stand_in,
    ),
    (_SECURE_STRING, ("SecureString",), _is_no_stand_in),
    (_IPSEC, ("PSK", "EAP", "XAUTH"), _is_no_stand_in),
    (_CHAT, ("NickServ", "nickserv"), _is_no_stand_in),
    (_AUTH_PAIR, ("auth",), _is_no_stand_in),
    (_ANSWERED, ("assword",), _is_no_stand_in),
    (_ORACLE, ("thin:", "sqlplus", "connect ", "CONNECT "), _is_no_stand_in),
    (_BELOW, (":\n", ": \n"), is_password),
    (_VERB, ("PASS", "LOGIN", "AUTH"), is_password),
)

CALLED: Final = tuple(
    "client credential translator auth api( sdk init connect login setup begin pass getprofile pw".split()
)
_CALL = re.compile(
    r"(?i)(?P<name>client|credentials?|translator|auth\w{0,10}|api|sdk|init\w{0,7}|connect|login|setup|begin|getprofile)"
    r"\((?P<given>(?:[^\n()]|\([^\n()]{0,80}\)){8,600})"
)
_TYPED_IN = re.compile(
    r"(?i)(?:pass|pw)\w{0,12}[\"'\])]{1,5},?\s{0,4}(?:\.?(?:type|fill|send_keys)\()?(?:[\"']?(?:text|value)[\"']?\s{0,2}[:=]\s{0,2})?[\"'](?P<secret>[^\"'\n]{6,64})[\"']"
)
_GIVEN = re.compile(r"[\"'`](?P<secret>[^\"'`\n]{6,512})[\"'`]")


def find_in_calls(text: str) -> Iterator[Span]:
    """Find drawn values and passwords among what a call is given that logs in, or types a password."""
    starts = starts_of(CALLED, folded(text))
    for call in matches_at(starts, _CALL, text):
        for given in _GIVEN.finditer(text, *call.span("given")):
            value = given["secret"]
            if "://" in value:
                continue
            if is_random(value) or _is_hex_key(value) or (_LOGS_IN.search(call["name"]) and is_strong_password(value)):
                yield *given.span("secret"), "token"
    for found in matches_at(starts, _TYPED_IN, text):
        if is_password(found["secret"]):
            yield *found.span("secret"), "password"


_LOGS_IN = re.compile(r"(?i)(?:connect|login|auth\w{0,10}|credentials?|begin|setup)$")


def _is_hex_key(value: str) -> bool:
    return len(value) >= 32 and is_hash_like(value)


_HEADING = re.compile(
    r"(?i)[*_`\"' ]{0,4}(?:[a-z]{1,16}[ _-])?(?:password|passwd|passwort|kennwort|contraseña|senha"
    r"|mot[ _]de[ _]passe|passord|secret|pwd|pass|pw)"
    r"(?:[ _-](?:plain|hash|value))?[*_`\"' ]{0,4}"
)
MOST_ROWS: Final = 200
_SEPARATORS: Final = ("|", ",", ";", "\t")


def find_in_tables(text: str) -> Iterator[Span]:
    """Find what stands in the column `password` of a table: markdown's, a database shell's, an exported list's."""
    for separator in _SEPARATORS:
        if separator in text:
            yield from _in_column(text, separator)


def _in_column(text: str, separator: str) -> Iterator[Span]:
    position, column, rows = 0, None, 0
    for line in text.splitlines(keepends=True):
        cells = _cells(line, separator)
        if len(cells) < 2 or rows > MOST_ROWS:
            column = column if "-+-" in line else None
        elif column is None:
            column, rows = next((at for at, cell in enumerate(cells) if _HEADING.fullmatch(cell.strip())), None), 0
        elif column < len(cells):
            rows += 1
            value = cells[column].strip(" `*\"'\r\n")
            if is_password(value, 4):
                start = position + line.index(value, len(separator.join(cells[:column])) if column else 0)
                yield start, start + len(value), "password"
        position += len(line)


def _cells(line: str, separator: str) -> list[str]:
    """Split a line of a table; a separator within quotation marks is none."""
    if '"' not in line or separator == "|":
        return line.split(separator)
    return [
        cell[0]
        for cell in re.finditer(rf'(?:"[^"\n]*"|[^{re.escape(separator)}"\n])*', line)
        if cell[0] or cell.start() == 0
    ]

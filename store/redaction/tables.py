"""Passwords in tables and lists: below the head of a column, or one pair of a login and its password a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .candidates import kind_of, words_of
from .judging import is_filler, is_password, is_placeholder, is_strong_password
from .prefilter import folded, starts_of
from .shapes import Span

HEADINGS: Final = (
    "pass pw kennw contrase senha clave mdp secret wachtw hasł парол şifre sifre lösen adgang hesl jelsz parol"
    " salasan pin puk wpa psk パスワード 密码 密碼 비밀번호"
).split()
MOST_ROWS: Final = 200
LONGEST_LINE: Final = 2000
FEWEST_CHARS: Final = 4
_CELLS: Final = (
    ("|", re.compile(r"[^|│\n]+")),
    ("│", re.compile(r"[^|│\n]+")),
    ("</t", re.compile(r"(?<=>)[^<>\n]*(?=</t[dh]>)")),
    ("\t", re.compile(r"[^\t\n]+")),
    (";", re.compile(r'(?m)"[^"\n]*"|[^;\n]+|(?:(?<=;)|^)(?=;)')),
    (",", re.compile(r'(?m)"[^"\n]*"|[^,\n]+|(?:(?<=,)|^)(?=,)')),
    ("  ", re.compile(r"\S+(?: \S+)*")),
)
_HEADING = re.compile(r"[*_`\"' ]{0,4}(?P<name>[^\W\d_]++(?:[ _-]{1,3}[^\W\d_]++){0,3}+)[*_`\"' ]{0,4}")
_RULE = re.compile(r"[\s|+:=─┼├┤│-]*")
_ROW_END = re.compile(r"\n|</tr>")
_PAIR = re.compile(
    r"(?m)^[ \t>*-]{0,6}[\w.+-]{1,64}@[\w-]{1,40}(?:\.[\w-]{2,24}){1,4}[ \t]?[:;|/,][ \t]?(?P<secret>\S{6,64})$"
)


def find_in_tables(text: str) -> Iterator[Span]:
    """Find what stands in the column `password` of a table: markdown's, a database shell's, an exported list's."""
    ended = 0
    for at in starts_of(HEADINGS, folded(text)):
        if at < ended:
            continue
        first = max(ended, at - LONGEST_LINE)
        start = max(text.rfind("\n", first, at), text.rfind("<tr", first, at), first - 1) + 1
        found = _ROW_END.search(text, at, at + LONGEST_LINE)
        ended = found.start() if found else at + LONGEST_LINE
        if found is None:
            continue
        for sign, cell in _CELLS:
            if text.find(sign, start, ended) >= 0 and (column := _column(text, start, ended, cell)) >= 0:
                spans, ended = _in_column(text, found.end(), cell, column)
                yield from spans
                break


def _column(text: str, start: int, end: int, cell: re.Pattern[str]) -> int:
    """Return the number of the column whose head names a password, -1 where the line is no head of a table."""
    cells = [found[0].strip() for found in cell.finditer(text, start, end)]
    if sum(map(bool, cells)) < 2:
        return -1
    return next((at for at, head in enumerate(cells) if _names_a_password(head)), -1)


def _names_a_password(head: str) -> bool:
    found = _HEADING.fullmatch(head)
    if found is None:
        return False
    words = words_of(found["name"])
    return len(words) < 5 and any(kind_of(word) in ("password", "pin") or word == "secret" for word in words)


def _in_column(text: str, position: int, cell: re.Pattern[str], column: int) -> tuple[list[Span], int]:
    """Return the passwords in a column, and where the table ends."""
    spans: list[Span] = []
    for _ in range(MOST_ROWS):
        found = _ROW_END.search(text, position, position + LONGEST_LINE)
        stop = found.start() if found else min(len(text), position + LONGEST_LINE)
        if _RULE.fullmatch(text, position, stop) is None:
            cells = list(cell.finditer(text, position, stop))
            if len(cells) <= max(column, 1):
                break
            value = cells[column][0].strip(" `*\"'\r\t\\")
            start = cells[column].start() + cells[column][0].index(value)
            spans.append((start, start + len(value), "password"))
        if found is None:
            break
        position = found.end()
    return _of_column(text, spans), position


def _of_column(text: str, cells: Sequence[Span]) -> list[Span]:
    """Return the cells of a column that are passwords: all but the empty ones, where one of them looks like one."""
    told = [cell for cell in cells if _may_be_password(text[cell[0] : cell[1]])]
    return told if any(_looks_like_one(text[start:end]) for start, end, _ in told) else []


def _may_be_password(value: str) -> bool:
    return len(value) >= FEWEST_CHARS and not (is_placeholder(value) or is_filler(value))


def _looks_like_one(value: str) -> bool:
    return is_password(value, FEWEST_CHARS) or (any(map(str.isdigit, value)) and not any(map(str.isspace, value)))


def find_pairs(text: str) -> Iterator[Span]:
    """Find lines of an address and a password: a list of accounts."""
    for found in _PAIR.finditer(text):
        value = found["secret"]
        if is_strong_password(value) or (is_password(value, 8) and any(map(str.isdigit, value))):
            yield *found.span("secret"), "password"

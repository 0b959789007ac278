"""Tables of markdown: each row on one line, behind the head without which it cannot be understood."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .sentences import GAP, Sentence, on_one_line

_ROW = re.compile(r"^[^\S\n]*\|.*\|[^\S\n]*$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")


def rows_in(text: str) -> list[Sentence]:
    r"""Return the rows of the tables in a text, each behind the head of its table, as both are written.

    `text[start:end]` is the row. Rules and heads are no rows; without a rule a table has no head.

    >>> [row.text for row in rows_in("| room | key |\n|---|---|\n| attic | 17 |")]
    ['room | key … attic | 17']
    """
    return [row for table in _tables(text) for row in _rows_of(table)] if "|" in text else []


def _tables(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield the lines of each table: rows right below each other."""
    table: list[re.Match[str]] = []
    for line in _ROW.finditer(text):
        if table and line.start() != table[-1].end() + 1:
            yield table
            table = []
        table.append(line)
    if table:
        yield table


def _rows_of(table: list[re.Match[str]]) -> Iterator[Sentence]:
    has_head = len(table) > 1 and all(map(_RULE.fullmatch, _cells(table[1])))
    head = f"{_inner(table[0])} {GAP} " if has_head else ""
    for line in table[2 if has_head else 0 :]:
        if any(_cells(line)):
            yield Sentence(f"{head}{_inner(line)}", line.start(), line.end(), "row")


def _cells(line: re.Match[str]) -> list[str]:
    return [cell.strip() for cell in _CELL.split(line.group().strip())[1:-1]]


def _inner(line: re.Match[str]) -> str:
    """Return a row without the marks around it."""
    return on_one_line(line.group().strip().removeprefix("|").removesuffix("|"))

"""Tables of markdown: each row as one line that can be understood without its table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .sentences import Sentence

_ROW = re.compile(r"^[^\S\n]*\|.*\|[^\S\n]*$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")


def rows_in(text: str) -> list[Sentence]:
    r"""Return the rows of the tables in a text, each cell behind the head of its column: "room: attic; key: 17."

    `text[start:end]` is the row as it is written. Rules and heads are no rows; without a rule a table has no head.

    >>> [row.text for row in rows_in("| room | key |\n|---|---|\n| attic | 17 |")]
    ['room: attic; key: 17.']
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
    cells = [[" ".join(cell.split()) for cell in _CELL.split(line.group().strip())[1:-1]] for line in table]
    has_head = len(cells) > 1 and all(map(_RULE.fullmatch, cells[1]))
    heads = cells[0] if has_head else []
    for line, row in list(zip(table, cells, strict=True))[2 if has_head else 0 :]:
        named = (
            f"{head}: {cell}" if head else cell for head, cell in zip(_padded(heads, row), row, strict=True) if cell
        )
        if said := "; ".join(named):
            yield Sentence(f"{said}.", line.start(), line.end(), "row")


def _padded(heads: list[str], row: list[str]) -> list[str]:
    """Return a head for each cell, "" where there is none."""
    return [*heads, *[""] * len(row)][: len(row)]

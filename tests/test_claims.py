"""Every sentence of the documents is in `claims.toml`: with the test that proves it, or as one that promises nothing.

`python -m tests.test_claims` prints what is missing there and what is stale.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "claims.toml"
KEY_CHARACTERS = 60
UNPROVEN, MOST_UNPROVEN = "unproven", 0
"""A promise that no test is named for yet, and how many of them there may be."""
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s+[A-Z`*\[])")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a document, without code blocks, headings and numbers of lists; a table row is one."""
    prose = re.sub(r"^(    |\t).*$", "", _FENCE.sub("", text), flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=[|\-#] ?|\d+\. )", prose):
        whole = re.sub(r"^\d+\. ", "", " ".join(block.split()))
        if whole.startswith("|"):
            if not set(whole) <= set("|-: "):
                yield whole.strip("| ")
        elif not whole.startswith("#"):
            yield from (one.strip() for one in _SENTENCE_END.split(whole) if one.strip())


def keys(document: str) -> list[str]:
    """Return the first words of every sentence of a document; they name it in the table."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return list(dict.fromkeys(one[:KEY_CHARACTERS].rstrip() for one in sentences(text)))


def differences() -> list[str]:
    """Return a line for each sentence that is not in the table, and for each entry whose sentence is gone."""
    lines = []
    for document, entries in _table().items():
        there = keys(document)
        lines += [
            f'{document}: add    {_quoted(key)} = ""  # or "tests/…py::test_…"' for key in there if key not in entries
        ]
        lines += [f"{document}: delete {_quoted(key)}" for key in entries if key not in there]
    return lines


def test_every_sentence_has_an_entry_and_every_entry_a_sentence() -> None:
    assert _table()
    assert not differences(), "\n".join(differences())


def test_every_test_that_proves_a_sentence_is_there() -> None:
    named = {test for entries in _table().values() for test in entries.values() if test not in ("", UNPROVEN)}
    assert named
    assert not {test for test in named if test.partition("::")[2] not in _tests_of(test.partition("::")[0])}


def test_the_promises_without_a_test_become_no_more() -> None:
    unproven = [key for entries in _table().values() for key, test in entries.items() if test == UNPROVEN]
    assert len(unproven) <= MOST_UNPROVEN, "\n".join(unproven)


def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return table


@cache
def _tests_of(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    sys.exit("\n".join(differences()) or 0)

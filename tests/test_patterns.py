"""Every regular expression of the project takes time in proportion to the text, whatever the text is."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import dreamd
import pytest
from dreamd.store.keep.redaction.shapes import SHAPES

AnyPattern = re.Pattern[str] | re.Pattern[bytes]
ROOMS = ("daemon", "ipc", "llm", "pipelines", "store")
SHORT_CHARS, LONG_CHARS = 10_000, 100_000

PIECES = (
    *(
        " ",
        "\n",
        "\t",
        "a",
        "A",
        "0",
        ".",
        "-",
        "_",
        "/",
        "\\",
        '"',
        "'",
        "`",
        "<",
        "[",
        "(",
        "{",
        "=",
        ":",
        ",",
        "#",
        "*",
    ),
    *(
        "a ",
        "a.",
        "a, ",
        "A a ",
        "ab1",
        "a-",
        "a=",
        "a: ",
        "1,",
        "1 ",
        "- ",
        "\n\n",
        "a\n",
        "1.\n",
        "…",
        "ä",
        "é ",
        "→",
    ),
    *(
        "](/",
        "[^t",
        "<a ",
        "</",
        "://a:",
        "@a.",
        "aA1.",
        "\x1b[",
        "x" * 30 + " ",
        "password is a ",
        "key: a\n",
        "12 May ",
    ),
)
"""What is repeated: marks and pieces that rules begin with, and that a rule's repetition may eat in two ways."""

ON_SHORT_TEXTS = frozenset(
    {
        "pipelines.pages.quotes._ITEM.0",
        "pipelines.pages.titles._CLAUSE_END.0",
        "pipelines.pages.titles._NO_WORDS.0",
        "store.text.state.reading._CODE.0",
    }
)
"""Searched for in a title, a line or a sentence, which those who call them have cut."""

PATIENCE_S = 0.15
"""Less is never asked about: 100 KB at 1 MB/s."""

MOST_GROWTH = 40
"""The most that ten times the text may take, on a machine that does other things: linear is 10, quadratic 100."""


@cache
def patterns() -> dict[str, AnyPattern]:
    """Return every compiled pattern of every module, by where it is first found."""
    found: dict[int, tuple[str, AnyPattern]] = {}
    for room in ROOMS:
        package = importlib.import_module(f"dreamd.{room}")
        names = [package.__name__]
        names += [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        for name in names:
            if name.endswith("__main__"):
                continue
            for key, value in vars(importlib.import_module(name)).items():
                for number, pattern in enumerate(_in(value)):
                    found.setdefault(id(pattern), (f"{name}.{key}.{number}".removeprefix("dreamd."), pattern))
    for shape in SHAPES:
        found[id(shape.pattern)] = (f"shape {shape.form}", shape.pattern)
    return dict(found.values())


@cache
def sources() -> str:
    """Return the source of all rooms."""
    root = Path(dreamd.__file__).parent
    return "\n".join(file.read_text() for room in ROOMS for file in sorted((root / room).rglob("*.py")))


@cache
def is_matched_alone(name: str) -> bool:
    """Return True if a pattern is only ever tried at one place, never searched for through a text."""
    variable = name.split(".")[-2] if "." in name else name
    used = set(re.findall(rf"\b{re.escape(variable)}\.(\w+)\(", sources()))
    return bool(used) and used <= {"match", "fullmatch"}


def _in(value: object, depth: int = 0) -> Iterator[AnyPattern]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, dict):
        for inner in value.values():
            yield from _in(inner, depth + 1)
    elif depth < 3 and isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _in(inner, depth + 1)


def test_the_patterns_are_found() -> None:
    assert len(patterns()) > 300
    assert dreamd.__file__


@pytest.mark.timeout(300)
@pytest.mark.parametrize("piece", PIECES)
def test_ten_times_the_text_takes_about_ten_times_as_long(piece: str) -> None:
    slow = {}
    for name, pattern in patterns().items():
        if name in ON_SHORT_TEXTS:
            continue
        short_s = seconds(name, pattern, piece * (SHORT_CHARS // len(piece)))
        assert short_s < 1, f"{name} takes {short_s:.1f} s for 10 KB of {piece!r}"
        if short_s * 100 < PATIENCE_S:  # were it quadratic, the long text would still take no time to speak of
            continue
        long_s = seconds(name, pattern, piece * (LONG_CHARS // len(piece)))
        if long_s > max(PATIENCE_S, MOST_GROWTH * short_s):
            slow[name] = f"{short_s:.3f} s, then {long_s:.3f} s"
    assert not slow


def seconds(name: str, pattern: AnyPattern, text: str) -> float:
    """Return the processor's time to find all of a pattern in a text, or to try it where it is only tried."""
    told: Any = text if isinstance(pattern.pattern, str) else text.encode()
    began = time.process_time()
    if is_matched_alone(name):
        pattern.match(told)
        pattern.fullmatch(told)
    else:
        for _ in pattern.finditer(told):
            pass
    return time.process_time() - began

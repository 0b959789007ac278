"""Every regular expression of the project takes time in proportion to the text, whatever the text is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import dreamd
import pytest
from dreamd.store.redaction.key_forms import SHAPES

from tests.modules import ROOMS, modules

AnyPattern = re.Pattern[str] | re.Pattern[bytes]

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

SHORT_CHARS, LONG_CHARS = 2_000, 16_000

LONGEST_S = {100: 0.01, 500: 0.1}
"""By the characters of a tiny text: what is cubic or worse ends here, before it is tried on more."""

TAIL = "\N{SECTION SIGN}"
"""Ends each text, so that a pattern that takes all of the pieces has to give up in the end."""

PATIENCE_S = 0.01
"""For the long text. What is quadratic takes twelve times as long at the least, 16,000² / 2 steps of a nanosecond."""

MOST_GROWTH = 20
"""The most that eight times the text may take, on a machine that does other things: linear is 8, quadratic 64."""


@cache
def patterns() -> dict[str, AnyPattern]:
    """Return every compiled pattern of every module, by where it is first found."""
    found: dict[int, tuple[str, AnyPattern]] = {}
    for module in modules():
        for key, value in vars(module).items():
            for number, pattern in enumerate(_in(value)):
                where = f"{module.__name__}.{key}.{number}".removeprefix("dreamd.")
                found.setdefault(id(pattern), (where, pattern))
    for shape in SHAPES:
        found[id(shape.pattern)] = (f"shape {shape.form}", shape.pattern)
    return dict(found.values())


@cache
def uses() -> dict[tuple[str, str], set[str]]:
    """Return by module and variable the methods that are called of it: `_X.fullmatch(` in `store.text.x`."""
    root = Path(dreamd.__file__).parent
    called: dict[tuple[str, str], set[str]] = {}
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            for variable, method in re.findall(r"\b(\w+)\.(\w+)\(", file.read_text()):
                for where in (module, "") if not variable.startswith("_") else (module,):
                    called.setdefault((where, variable), set()).add(method)
    return called


@cache
def matched_alone(name: str) -> set[str]:
    """Return the methods by which a pattern is tried at one place, none where it is searched for through a text."""
    module, _, variable = name.rpartition(".")[0].rpartition(".")
    used = uses().get((module if variable.startswith("_") else "", variable), set())
    return used if used <= {"match", "fullmatch"} else set()


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
def test_eight_times_the_text_takes_about_eight_times_as_long(piece: str) -> None:
    assert not slow(patterns(), piece)


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [(r"\s+$", " "), (r"[\w.-]*/", "a."), (r"a.*b", "a"), (r"(?m)^\s*-", "\n"), (r"\w+ ?\w+ ?\w+:", "a")],
)
def test_one_that_takes_more_is_found(pattern: str, piece: str) -> None:
    tried = {"bounded": re.compile(r"a{1,20}b"), "planted": re.compile(pattern)}
    assert list(slow(tried, piece)) == ["planted"]


def slow(tried: Mapping[str, AnyPattern], piece: str) -> dict[str, str]:
    """Return the patterns whose time grows faster than a text of one repeated piece."""
    tiny = {size: repeated(piece, size) for size in LONGEST_S}
    short, long = repeated(piece, SHORT_CHARS), repeated(piece, LONG_CHARS)
    found = {}
    for name, pattern in tried.items():
        if too_long := next((size for size in tiny if is_over(LONGEST_S[size], name, pattern, tiny[size])), 0):
            found[name] = f"more than {LONGEST_S[too_long]} s for {too_long} characters"
        elif (long_s := seconds(name, pattern, long)) > PATIENCE_S:
            long_s = min(long_s, seconds(name, pattern, long))
            short_s = min(seconds(name, pattern, short) for _ in range(3))
            if long_s > max(PATIENCE_S, MOST_GROWTH * short_s):
                found[name] = f"{short_s:.3f} s, then {long_s:.3f} s"
    return found


def repeated(piece: str, size: int) -> str:
    return piece * (size // len(piece)) + TAIL


def is_over(limit_s: float, name: str, pattern: AnyPattern, text: str) -> bool:
    """Whether a pattern takes longer than that, twice: the first time may hold a pause of the machine."""
    return seconds(name, pattern, text) > limit_s and seconds(name, pattern, text) > limit_s


def seconds(name: str, pattern: AnyPattern, text: str) -> float:
    """Return the processor's time to find all of a pattern in a text, or to try it where it is only tried."""
    told: Any = text if isinstance(pattern.pattern, str) else text.encode()
    began = time.process_time()
    methods = matched_alone(name)
    for method in methods:
        getattr(pattern, method)(told)
    if not methods:
        for _ in pattern.finditer(told):
            pass
    return time.process_time() - began

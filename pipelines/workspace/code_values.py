"""Values that a fact shares with its project's code: where they stand, and if they still do.

A value is a number, a version, an option or an identifier. A fact that was said when its value stood in the code keeps
the place: the file, and the line around the value. When the line holds another value, or the value is nowhere any more,
the fact is about the past. Files are read, and nothing of them is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...store import beginning
from ...store.redaction import places_of_secrets
from ...store.search.code_places import GAP, LARGEST_BYTES, LONGEST_LINE, TOKEN, CodePlace, value_in
from ...store.text.words import content_stems, without_joints

MOST_FILES = 5_000

# Lines on which a value may stand; one of more lines is everywhere, and says nothing about the fact.
MOST_LINES: Final = 6

# Places that a fact keeps, and values of one fact that are looked for.
MOST_PLACES, MOST_VALUES = 3, 8

# Folders that hold what was built or fetched. Other folders with a dot in front are skipped too, but for settings.
_SKIPPED: Final = frozenset({"node_modules", "target", "dist", "build", "vendor", "__pycache__", "venv"})
_SETTINGS: Final = frozenset({".github", ".gitlab", ".circleci", ".cargo", ".config"})

# A number of four digits or more, a version, an option or an identifier is rare enough to be known by itself; a
# shorter number only beside a word of the fact.
_VALUE = re.compile(
    r"(?<![\w.:/-])(?:--[a-z][\w-]{2,40}|v?\d{1,5}(?:\.\d{1,5}){1,3}|\d{2,6}"
    r"|[A-Za-z][^\W_]{0,40}_\w{1,60}|[a-z]{1,40}[A-Z]\w{2,60}|[A-Z][a-z]{1,40}[A-Z]\w{2,60})(?![\w/-]|\.\d|:\d)"
)
# Days and times of the clock are no values of code.
_TIME = re.compile(r"\b\d{1,2}:\d{2}\b|\b\d{4}-\d{2}-\d{2}\b|\b(?:19|20)\d{2}\b|\b\d{1,2}\.\d{1,2}\.\d{2,4}\b")


def values_in(text: str) -> list[str]:
    """Return the values that a text names, each once."""
    plain = _TIME.sub(" ", text)
    return list(dict.fromkeys(match[0] for match in _VALUE.finditer(plain)))[:MOST_VALUES]


class CodeLines:
    """The lines of a project's files that hold one of some values, or have the frame of a kept place."""

    def __init__(self, root: Path, values: Collection[str], kept: Collection[CodePlace] = ()) -> None:
        """Read the project once. `kept` are the places whose frames are looked for as well."""
        self._of_value: dict[str, list[CodePlace]] = {}
        self._framed: set[tuple[str, str]] = set()
        wanted = {*values, *(place.value for place in kept)}
        frames = _by_file_name(kept)
        self.is_whole = True
        """False where not all files could be read: then nothing is known to be gone."""
        for path, text in self._files(root):
            expected = frames.get(_name_of(path), ())
            for line in text.splitlines():
                self._note(path, line.strip()[:LONGEST_LINE], wanted, expected)

    def found(self, fact: str, value: str) -> list[CodePlace]:
        """Return the places at which a value stands that a fact names, those first that share most words with it.

        [] for a value that is everywhere, or that means another thing.
        """
        stems = frozenset(content_stems(fact))
        shared = {one: len(stems & _stems_of_code(f"{one.frame} {one.path}")) for one in self._of_value.get(value, [])}
        places = [one for one in sorted(shared, key=lambda one: -shared[one]) if shared[one] or _is_rare(value)]
        return places if len(places) <= MOST_LINES else []

    def changed(self, kept: Sequence[CodePlace]) -> list[str]:
        """Return the values of a fact's kept places that stood in the code and do not any more.

        Where the line of a kept place holds another value, the fact's is of the past though it may stand elsewhere by
        chance; where the line is gone, only a value that stands nowhere is.
        """
        gone: dict[str, None] = {}
        for value in dict.fromkeys(place.value for place in kept):
            places = [place for place in kept if place.value == value]
            stands = {one.mark for one in self._of_value.get(value, [])}
            if any(place.mark in stands for place in places):
                continue
            others = [place for place in places if place.mark in self._framed]
            if others or (self.is_whole and not stands):
                gone[f"{value} ({(others or places)[0].path})"] = None
        return list(gone)

    def _note(self, path: str, line: str, wanted: Collection[str], expected: Sequence[tuple[str, str]]) -> None:
        for token in dict.fromkeys(TOKEN.findall(line)):
            if token in wanted:
                self._of_value.setdefault(token, []).append(CodePlace(token, path, _frame(line, token)))
        for before, after in expected:
            if value_in(line, (before, after)) is not None:
                self._framed.add((_name_of(path), f"{before}{GAP}{after}"))

    def _files(self, root: Path) -> Iterator[tuple[str, str]]:
        """Yield the text files below a folder by their path in it; no symbolic link is followed."""
        read = 0
        for folder, names, files in os.walk(root):
            names[:] = sorted(name for name in names if name not in _SKIPPED and (name[0] != "." or name in _SETTINGS))
            for name in sorted(files):
                if read >= MOST_FILES:
                    self.is_whole = False
                    return
                place = Path(folder, name)
                try:
                    data = beginning(place, LARGEST_BYTES + 1)
                except OSError:
                    continue
                if len(data) > LARGEST_BYTES or b"\0" in data[:1024]:
                    continue
                read += 1
                yield str(place.relative_to(root)), data.decode("utf-8", "replace")


def _name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _frame(line: str, value: str) -> str:
    return line.replace(value, GAP, 1)


def _stems_of_code(line: str) -> frozenset[str]:
    """Return the stems of a line of code."""
    return frozenset(content_stems(re.sub(r"\W+", " ", without_joints(line))))


def _is_rare(value: str) -> bool:
    return not (value.isdigit() and len(value) < 4)


def _by_file_name(kept: Collection[CodePlace]) -> dict[str, list[tuple[str, str]]]:
    """Return the two parts of each frame around its gap, by the name of the file: a file may have moved."""
    found: dict[str, list[tuple[str, str]]] = {}
    for place in kept:
        if place.around is not None:
            found.setdefault(_name_of(place.path), []).append(place.around)
    return found


def kept_places(fact: str, lines: CodeLines) -> list[dict[str, Any]]:
    """Return the places to keep in a new fact's file: the best of each value, none with a secret."""
    found = [places[0] for value in values_in(fact) if (places := lines.found(fact, value))]
    return [place.as_key() for place in found[:MOST_PLACES] if not places_of_secrets(place.frame.encode())]

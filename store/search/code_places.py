"""The places in a project's code at which the values of a fact stood, and if other values stand there now."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from .. import okf
from ..channel import project_root
from ..index.catalog import Catalog
from ..model import Hit, NodeId
from ..vault.disk import beginning
from ..vault.vault import Vault

HELD_AT: Final = "held_at"
"""The frontmatter key of the places in the code at which the values of a fact stood."""

# The most bytes of a file that is read: sources and settings, no data.
LARGEST_BYTES: Final = 1 << 18
LONGEST_LINE: Final = 300
SHORTEST_FRAME: Final = 3
GAP: Final = "…"

TOKEN: Final = re.compile(r"--[a-z][\w-]+|v?\d+(?:\.\d+)+|\w+")
"""A word of code, as a value is one."""


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A line of a file that holds a value; `frame` is the line with a gap in the value's place."""

    value: str
    path: str
    frame: str

    @property
    def mark(self) -> tuple[str, str]:
        """The name of its file and its frame, by which it is known again where the file has moved."""
        return self.path.rsplit("/", 1)[-1], self.frame

    @property
    def around(self) -> tuple[str, str] | None:
        """The two parts of the line around the value; None where they are too short to know it by."""
        before, gap, after = self.frame.partition(GAP)
        return (before, after) if gap and len(before.strip()) + len(after.strip()) >= SHORTEST_FRAME else None

    def as_key(self) -> dict[str, str]:
        """Return it as it is kept in a fact's file."""
        return {"value": self.value, "path": self.path, "line": self.frame}


def places_of(value: object) -> list[CodePlace]:
    """Read the places that a fact's file keeps; what is no place is left out."""
    entries = value if isinstance(value, list) else []
    return [
        CodePlace(one["value"], one["path"], one["line"])
        for one in entries
        if isinstance(one, Mapping) and all(isinstance(one.get(key), str) for key in ("value", "path", "line"))
    ]


def value_in(line: str, around: tuple[str, str]) -> str | None:
    """Return the word between the two parts of a line; None where it is another line."""
    before, after = around
    if not (line.startswith(before) and line.endswith(after) and len(line) > len(before) + len(after)):
        return None
    value = line[len(before) : len(line) - len(after)]
    return value if TOKEN.fullmatch(value) else None


def has_changed(places: Sequence[CodePlace], root: Path) -> bool:
    """Return True if at the place of some value another one stands, and that value at none of its places.

    Only the files of the places are read: where a file or a line is gone, a dream looks for it in the whole project.
    """
    by_value: dict[str, list[set[str]]] = {}
    for place in places:
        by_value.setdefault(place.value, []).append(_values_at(place, root))
    return any(any(found) and all(value not in one for one in found) for value, found in by_value.items())


def _values_at(place: CodePlace, root: Path) -> set[str]:
    """Return the values that stand in the frame of a place, in its own file."""
    around, parts = place.around, Path(place.path).parts
    if around is None or Path(place.path).is_absolute() or ".." in parts:
        return set()
    try:
        data = beginning(root / place.path, LARGEST_BYTES)
    except (OSError, ValueError):
        return set()
    lines = (line.strip()[:LONGEST_LINE] for line in data.decode("utf-8", "replace").splitlines())
    return {value for line in lines if (value := value_in(line, around)) is not None}


class CodeChecks:
    """Looks values up in the code of the folder that is asked from, before they are told. Any thread may call."""

    def __init__(self, catalog: Catalog, vault: Vault, now: Callable[[], datetime]) -> None:
        self._catalog = catalog
        self._vault = vault
        self._now = now

    def changed(self, node_ids: Collection[NodeId], folder: str | None) -> set[NodeId]:
        """Return those facts, and turns with such facts, whose values' places in a folder's project hold others now."""
        if not node_ids or not folder:
            return set()
        kept = [(named, self._places_of(path)) for named, path in self._catalog.files_of_facts(node_ids)]
        looked_for = [(named, places) for named, places in kept if places]
        root = project_root(Path(folder)) if looked_for else Path()
        return {named for named, places in looked_for if has_changed(places, root)}

    def looked_up(self, hits: Sequence[Hit], folder: str | None) -> list[Hit]:
        """Return hits, each that the code of a folder's project contradicts marked as out of date."""
        changed = self.changed([hit.node_id for hit in hits], folder)
        return [
            replace(hit, stale_after=hit.stale_after or self._now()) if hit.node_id in changed else hit for hit in hits
        ]

    def _places_of(self, path: str) -> list[CodePlace]:
        data = self._vault.read_if_any(path)
        # Most facts have none, and need no parsing.
        return places_of(okf.parse(data).meta.get(HELD_AT)) if data is not None and HELD_AT.encode() in data else []

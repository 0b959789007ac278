"""Staleness, a step of drift: outdated facts are marked as such, each only once, and keep their words.

These are facts about a file or command that the project no longer has, facts whose `stale_after` has passed, and facts
about a future date that has come. None is archived for it, and one whose file exists again is unmarked. Facts that a
person wrote, reviewed or unmarked are not changed. The project's folder is read; nothing of it is run.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from ...store import beginning, okf
from ...store.changes.decisions import is_reviewed
from ...store.channel import project_root
from ...store.model import Action, Level, Memory
from ...store.search.code_places import HELD_AT, places_of
from ...store.text.dates import format_date, last_named
from ..workspace.code_values import CodeLines, kept_places, values_in
from ..workspace.proposals import Proposals, cursor_of, is_curated
from ..workspace.view import View

STAGE = "staleness"
GONE = "gone"
"""The frontmatter key that lists the files and commands that a fact names and the project lacks."""

# Largest number of marks of a run: a project with another branch checked out for a day should not rewrite a memory.
MOST_MARKED = 200

# Quick tests, which spare most files a parse: for anything that `Project.missing` looks for, and for dates.
_MAY_NAME = re.compile(r"[`/]|\b(?:make|run) [a-z]")
_MAY_BE_DATED = re.compile(rb"\b(?:stale_after:|tense: *[\"']?future)")

# Files looked up in one project in a run; those beyond count as existing.
MOST_LOOKS = 20_000

MOST_SUBFOLDERS = 64
LARGEST_LIST_BYTES = 1 << 20
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = re.compile(r"^([A-Za-z0-9_./ \t-]{1,1000}?)::?(?!=)", re.MULTILINE)
# Lines by which a makefile may have targets that it does not list: includes, defines, patterns, variables.
_UNKNOWABLE = re.compile(r"^[^\S\n]*(?:-?include|sinclude|define)\b|^[^\t#\n=]*[%$][^\n=]*:(?!=)", re.MULTILINE)
_SEGMENT = r"[\w@+-][\w.@+-]*|\.[A-Za-z][\w.-]*"
_PATH = re.compile(rf"/?(?:(?:{_SEGMENT})/)+(?:{_SEGMENT})?")
_ENDS_AS_FILE = re.compile(r"[\w)-]\.[A-Za-z][A-Za-z0-9]{0,5}$")
_QUOTED = re.compile(r"`([^`\n]{2,200})`")
# Without backticks only a path with a folder and an extension counts: "and/or" is none. Addresses, options and
# patterns are excluded by the characters around.
_BARE = re.compile(r"(?<![\w/:.@~`$%\\-])(/?(?:[\w@+.-]+/)+[\w@+.-]*\.[A-Za-z][A-Za-z0-9]{0,5})(?![\w/*`{<])")

# "make sure" is no command; without backticks a verb must introduce one.
_MAKE = re.compile(
    r"`(?:\$ )?make ([a-z][\w.-]{1,40})(?=`| )"
    r"|\b(?:[Rr]un|[Uu]se|[Uu]sing|[Rr]unning|with|via) make (?!sure\b)([a-z][\w-]{1,40})\b"
)

_SCRIPT = re.compile(r"\b(?:npm|pnpm|yarn|bun) run ([a-z][\w:-]{0,40})(?![\w/])")


@dataclass(frozen=True, slots=True)
class _StaleMark:
    """The keys to set in one file, the reason, and the cursor that keeps it from being set twice."""

    changes: Mapping[str, Any]
    reason: str
    counted: str
    cursor: int


def plan(view: View, now: datetime) -> Proposals:
    """Propose a mark for every fact that became stale since the last check."""
    planned = Proposals()
    if view.history.paused:
        return planned
    for channel in sorted({fact.channel for fact in view.memories(Level.FACT)} - view.history.channels_off):
        folders = view.folders(channel)
        facts = view.memories(Level.FACT, channel)
        with_values = [fact for fact in facts if folders and values_in(fact.text)]
        whole = [known for fact in with_values if (known := view.memory(fact.node_id)) is not None]
        project = Project(folders, whole) if folders else None
        for fact in view.steps.counted(facts, "facts"):
            if len(planned.actions) >= MOST_MARKED:
                planned.count("left for another night")
                return planned
            _check(view, fact, project if project and project.is_there else None, now, planned)
    return planned


def _check(view: View, fact: Memory, project: Project | None, now: datetime, planned: Proposals) -> None:
    missing = project.missing(fact.text) if project and _MAY_NAME.search(fact.text) else ()
    data = view.read(fact.path)
    was_marked = view.cursor(STAGE, fact.node_id) != 0
    values = bool(project and fact.tense != "past" and values_in(fact.text))
    if data is None or not (missing or was_marked or values or _MAY_BE_DATED.search(data)):
        return
    document = okf.parse(data)
    whole = okf.to_memory(fact.path, document, fact.created_at)
    if document.problem or "node_id" not in document.meta or is_curated(whole) or is_reviewed(whole.extra):
        return
    kept = places_of(whole.extra.get(HELD_AT))
    if project and kept:
        missing = (*missing, *project.code.changed(kept))
    change = _of_project(view, whole, missing, now) if project else None
    change = change or _of_time(view, whole, now)
    if change is None and project and values and not kept and (places := kept_places(whole.text, project.code)):
        change = _StaleMark({HELD_AT: places}, "where its values stand in the code", "values found in code", 0)
    if change is None:
        return
    tombstone_key = f"stale:{fact.node_id}:{change.cursor}"
    if view.is_forbidden(tombstone_key):
        return
    if change.cursor or was_marked:
        planned.cursors[STAGE, fact.node_id] = change.cursor
    if action := _action(view, whole, data, change, tombstone_key):
        planned.actions.append(action)
        planned.count(change.counted)


def _of_project(view: View, fact: Memory, missing: Sequence[str], now: datetime) -> _StaleMark | None:
    """Return the change for the files that a fact names; None for past and future facts, whose files need not exist."""
    marked = GONE in fact.extra
    cursor = view.cursor(STAGE, fact.node_id)
    if not missing:
        if not marked:
            return None
        tense = {"tense": "current"} if fact.tense == "past" else {}
        return _StaleMark({GONE: None, "stale_after": None, **tense}, "what it names exists again", "files back", 0)
    if marked or cursor == cursor_of(missing) or fact.tense in {"past", "future"} or "stale_after" in fact.extra:
        return None
    changes: dict[str, Any] = {"stale_after": now.isoformat(), GONE: list(missing)}
    if fact.tense:
        changes["tense"] = "past"
    return _StaleMark(
        changes, f"{', '.join(missing[:3])} is not in the project any more", "files gone", cursor_of(missing)
    )


def _of_time(view: View, fact: Memory, now: datetime) -> _StaleMark | None:
    if fact.tense == "past" or GONE in fact.extra:
        return None
    cursor = view.cursor(STAGE, fact.node_id)
    until = okf.instant(fact.extra.get("stale_after"))
    if until and until <= now and cursor != cursor_of([until.isoformat()]):
        cursor = cursor_of([until.isoformat()])
        return _StaleMark({"tense": "past"}, f"it held until {format_date(until.date())}", "expired", cursor)
    said = fact.valid_from or fact.created_at
    day = last_named(fact.text, said.date()) if said else None
    if until or fact.tense != "future" or day is None or cursor == cursor_of([str(day)]):
        return None
    # Two days later the day has ended in every time zone.
    if datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=2) > now:
        return None
    return _StaleMark({"tense": "past"}, f"{format_date(day)} has passed", "dates passed", cursor_of([str(day)]))


def _action(view: View, fact: Memory, data: bytes, change: _StaleMark, tombstone_key: str) -> Action | None:
    content = okf.edit(data, change.changes)
    if content == data:
        return None
    return Action.replacing(
        fact.path, fact.node_id, data, content, stage=STAGE, reason=change.reason, fingerprint=tombstone_key
    )


class Project:
    """The present state of one channel's project on this disk."""

    def __init__(self, folders: Sequence[Path], facts: Sequence[Memory] = ()) -> None:
        """`folders` are the existing ones in which its sessions ran; `facts` are those that may name values."""
        self._root = project_root(folders[0])
        within = (real for folder in folders if (real := folder.resolve()).is_relative_to(self._root))
        self._bases = list(dict.fromkeys([self._root, *within]))
        self._looks = 0
        self._facts = facts

    @cached_property
    def code(self) -> CodeLines:
        """The lines of its files with the values that its facts name or kept."""
        kept = [place for fact in self._facts for place in places_of(fact.extra.get(HELD_AT))]
        return CodeLines(self._root, {value for fact in self._facts for value in values_in(fact.text)}, kept)

    @cached_property
    def is_there(self) -> bool:
        """True if the folder is not empty: an empty one is not mounted, or not checked out."""
        return self._root != Path(self._root.anchor) and any(name != ".git" for name in self._names(self._root))

    def missing(self, text: str) -> tuple[str, ...]:
        """Return the files and commands that a text names and the project does not have, as the text names them."""
        gone = [name for name in paths_in(text) if not self._has_path(name)]
        gone += [f"make {n}" for n in _named(_MAKE, text) if self._targets is not None and n not in self._targets]
        gone += [f"npm run {n}" for n in _named(_SCRIPT, text) if self._scripts is not None and n not in self._scripts]
        return tuple(dict.fromkeys(gone))

    def _has_path(self, name: str) -> bool:
        """Return True if a path exists, or cannot be checked: outside the folder, behind a link, after MOST_LOOKS."""
        parts = self._relative(name)
        if parts is None:
            return True
        return any(self._is_below(base, parts) for base in (*self._bases, *self._subfolders))

    def _relative(self, name: str) -> tuple[str, ...] | None:
        if not name.startswith("/"):
            return tuple(part for part in name.split("/") if part)
        full = Path(name)
        return full.relative_to(self._root).parts or None if full.is_relative_to(self._root) else None

    def _is_below(self, base: Path, parts: Sequence[str]) -> bool:
        place = str(base)
        for part in parts:
            self._looks += 1
            place = f"{place}/{part}"
            # Whatever cannot be checked counts as existing: a wrong mark is worse than a missing one.
            if self._looks > MOST_LOOKS:
                return True
            try:
                mode = os.lstat(place).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return False
            except (OSError, ValueError):
                return True
            if stat.S_ISLNK(mode):
                return True
        return True

    @cached_property
    def _subfolders(self) -> list[Path]:
        """The folders within the project: a person who works in one names files from there."""
        return [folder for name in self._names(self._root) if not (folder := self._root / name).is_symlink()]

    def _names(self, folder: Path) -> list[str]:
        try:
            with os.scandir(folder) as scan:
                return sorted(entry.name for entry, _ in zip(scan, range(MOST_SUBFOLDERS), strict=False))
        except OSError:
            return []

    @cached_property
    def _targets(self) -> set[str] | None:
        """The targets that the makefiles name; None without one, or if targets may come from elsewhere."""
        texts = [text for base in self._bases for name in _MAKEFILES if (text := _read(base / name)) is not None]
        if not texts or any(_UNKNOWABLE.search(text) for text in texts):
            return None
        return {target for text in texts for names in _TARGET.findall(text) for target in names.split()}

    @cached_property
    def _scripts(self) -> set[str] | None:
        found: set[str] = set()
        lists = [text for base in self._bases if (text := _read(base / "package.json")) is not None]
        for text in lists:
            try:
                scripts = json.loads(text).get("scripts", {})
            except (ValueError, AttributeError, RecursionError):
                return None
            found |= set(scripts) if isinstance(scripts, dict) else set()
        return found if lists else None


def paths_in(text: str) -> list[str]:
    """Return the files and folders that a text names with their folder or in backticks, so that they can be checked."""
    found = [name for name in _QUOTED.findall(text) if _PATH.fullmatch(name)]
    found = [name for name in found if name.endswith("/") or name.startswith("/") or _ENDS_AS_FILE.search(name)]
    found += [name for name in _BARE.findall(text) if _PATH.fullmatch(name)]
    return [name for name in dict.fromkeys(found) if not {".", ".."} & set(name.split("/"))]


def _named(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield every group that matched, of every match of a pattern."""
    for match in pattern.finditer(text):
        yield from (name for name in match.groups() if name)


def _read(path: Path) -> str | None:
    """Read a small regular file that is no symbolic link; None for anything else."""
    try:
        data = beginning(path, LARGEST_LIST_BYTES + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if len(data) <= LARGEST_LIST_BYTES else None

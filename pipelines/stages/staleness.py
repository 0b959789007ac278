"""Staleness, a step of drift: facts that no longer hold are marked as such, each only once, and keep their words.

These are facts about a file or command of the project that no longer exists, facts whose `stale_after` has passed, and
facts about a future date that has come. None is archived for it, and one whose file comes back is unmarked. Facts
that a person wrote, settled or unmarked are not touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ...store import okf
from ...store.changes.decisions import is_reviewed
from ...store.model import Action, Level, Memory
from ...store.text.dates import format_date, last_named
from ..workspace.proposals import Planned, cursor_of, is_curated
from ..workspace.view import View
from .project_files import Project

STAGE = "staleness"
GONE = "gone"
"""The frontmatter key that lists the files and commands that a fact names and the project lacks."""

MOST_MARKED = 200
"""The most marks of a run: a project with another branch checked out for a day should not rewrite a memory."""

_MAY_NAME = re.compile(r"[`/]|\b(?:make|run) [a-z]")  # what `Project.missing` looks for, read quickly
_MAY_BE_DATED = re.compile(rb"^(?:stale_after:|tense: *[\"']?future)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Change:
    """The keys to set in one file, the reason, and the cursor that keeps it from being set twice."""

    changes: Mapping[str, Any]
    reason: str
    counted: str
    cursor: int


def plan(view: View, now: datetime) -> Planned:
    """Propose a mark for every fact that has gone stale since it was last checked."""
    planned = Planned()
    if view.history.paused:
        return planned
    for channel in sorted({fact.channel for fact in view.memories(Level.FACT)} - view.history.channels_off):
        folders = view.folders(channel)
        project = Project(folders) if folders else None
        for fact in view.steps.counted(view.memories(Level.FACT, channel), "facts"):
            if len(planned.actions) >= MOST_MARKED:
                planned.count("left for another night")
                return planned
            _check(view, fact, project if project and project.is_there else None, now, planned)
    return planned


def _check(view: View, fact: Memory, project: Project | None, now: datetime, planned: Planned) -> None:
    missing = project.missing(fact.text) if project and _MAY_NAME.search(fact.text) else ()
    data = view.read(fact.path)
    was_marked = view.cursor(STAGE, fact.node_id) != 0
    if data is None or not (missing or was_marked or _MAY_BE_DATED.search(data)):
        return
    document = okf.parse(data)
    whole = okf.to_memory(fact.path, document, fact.created_at)
    if document.problem or "node_id" not in document.meta or is_curated(whole) or is_reviewed(whole.extra):
        return
    change = _of_project(view, whole, missing, now) if project else None
    change = change or _of_time(view, whole, now)
    if change is None:
        return
    tombstone_key = f"stale:{fact.node_id}:{change.cursor}"
    if view.is_forbidden(tombstone_key):
        return
    planned.cursors[STAGE, fact.node_id] = change.cursor
    if action := _action(view, whole, data, change, tombstone_key):
        planned.actions.append(action)
        planned.count(change.counted)


def _of_project(view: View, fact: Memory, missing: Sequence[str], now: datetime) -> _Change | None:
    """Return the change for the files that a fact names; None for past and future facts, whose files need not exist."""
    marked = GONE in fact.extra
    cursor = view.cursor(STAGE, fact.node_id)
    if not missing:
        if not marked:
            return None
        tense = {"tense": "current"} if fact.tense == "past" else {}
        return _Change({GONE: None, "stale_after": None, **tense}, "what it names exists again", "files back", 0)
    if marked or cursor == cursor_of(missing) or fact.tense in {"past", "future"} or "stale_after" in fact.extra:
        return None
    changes: dict[str, Any] = {"stale_after": now.isoformat(), GONE: list(missing)}
    if fact.tense:
        changes["tense"] = "past"
    return _Change(
        changes, f"{', '.join(missing[:3])} is not in the project any more", "files gone", cursor_of(missing)
    )


def _of_time(view: View, fact: Memory, now: datetime) -> _Change | None:
    if fact.tense == "past" or GONE in fact.extra:
        return None
    cursor = view.cursor(STAGE, fact.node_id)
    until = okf.instant(fact.extra.get("stale_after"))
    if until and until <= now and cursor != cursor_of([until.isoformat()]):
        cursor = cursor_of([until.isoformat()])
        return _Change({"tense": "past"}, f"it held until {format_date(until.date())}", "expired", cursor)
    said = fact.valid_from or fact.created_at
    day = last_named(fact.text, said.date()) if said else None
    if until or fact.tense != "future" or day is None or cursor == cursor_of([str(day)]):
        return None
    if datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=2) > now:  # in whatever time zone
        return None
    return _Change({"tense": "past"}, f"{format_date(day)} has passed", "dates passed", cursor_of([str(day)]))


def _action(view: View, fact: Memory, data: bytes, change: _Change, tombstone_key: str) -> Action | None:
    content = okf.edit(data, change.changes)
    if content == data:
        return None
    return Action.replacing(
        fact.path, fact.node_id, data, content, stage=STAGE, reason=change.reason, fingerprint=tombstone_key
    )

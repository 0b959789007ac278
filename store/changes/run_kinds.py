"""Runs as values: their kinds and ids, the reasons for skipped actions, the outcomes of an apply and an undo."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..ledger.records import LINK
from ..model import Conflict, NodeId, StoreError

# The kinds of run that a person starts: each leaves its tombstones when applied and lifts them when undone.
FORGET: Final = "forget"
REVIEW: Final = "review"
DELETED: Final = "deleted"
EDIT: Final = "edit"
RESTORE: Final = "restore"

# The key in the summary of a run that hides a turn, which has no file of its own.
TURN_FORGOTTEN: Final = "turn"

# The kind and note of a run that removes the second file of a session, after its turns went into the first.
JOINED: Final = "joined"
JOINED_NOTE: Final = "a second file of one session was joined to the first"

# The stage of the cursors of a session: the last turn that dreams have learned from.
LEARNED_FROM: Final = "consolidate"

# The kind of run that moves a flat vault into folders by project.
MIGRATE: Final = "migrate"

# The kind of run that records a purge, without its content.
PURGE: Final = "purge"

# The kind of run that lets in what came from other machines.
SYNC: Final = "sync"

# The key in the summary of such a run that names a session some of whose turns became one of their own.
FORKED: Final = "forked"

# The kind of run for the files that an undo changes beside those of the undone run.
UNDO: Final = "undo"

# The key in the summary of such a run that names the undone one.
UNDID: Final = "undid"

# The key of a copy of a program's own file: the hash of that file, which a review run may change.
FILE_SHA256: Final = "file_sha256"

# The reason by which a statement that waited for review was forgotten.
REJECTED: Final = "its person rejected it"

# The reason by which a colleague's memory went, or was marked.
WITHDREW: Final = "its author withdrew it"

# The reasons for a skipped action.
FORBIDDEN: Final = "it was undone, forgotten or rejected before"
CHANGED: Final = "the file was changed in the meantime"
UNSAFE: Final = "it holds a secret, which the history may not: take that out first"

PERSONAL: Final = frozenset({FORGET, REVIEW, DELETED, EDIT})

# The kinds of run that the pages of dreams follow at once: a person's, and the links of what was remembered.
FOLLOWED: Final = frozenset({FORGET, REVIEW, EDIT, RESTORE, LINK})

# The time for which images are kept, so that a run can be undone.
HISTORY_DAYS: Final = 90


class Expired(StoreError):
    """The images that an undo needs are older than the history that is kept."""


class Overtaken(Conflict):
    """Another run of dreamd changed a file since a changeset was planned; nothing of the changeset was applied."""


@dataclass(frozen=True, slots=True)
class SkippedAction:
    """An action that was not carried out, and the reason as a sentence."""

    path: str
    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class AppliedRun:
    """The outcome of a changeset: the number of applied actions, and those that were skipped.

    `undone`: the run was undone at once.
    """

    run_id: str
    applied: int
    skipped: tuple[SkippedAction, ...] = ()
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """The outcome of an undo: the number of restored files, and those that stay as they are.

    `turns`: the number of turns that are found again. `forbidden`: tombstones keep dreams from proposing it again.
    `left`: the number of files of the run that are as they were before the call. Of a redo the same the other way.
    """

    run_id: str
    restored: int
    skipped: tuple[SkippedAction, ...] = ()
    turns: int = 0
    forbidden: bool = False
    left: int = 0


# Starts at random: two processes in the same microsecond hardly make the same id.
_run_numbers = itertools.count(secrets.randbelow(2**16))


def new_run_id(now: datetime, kind: str) -> str:
    """Return the id of a run: it sorts by time, and differs for two runs of the same instant."""
    return f"{now:%Y%m%d-%H%M%S-%f}-{kind}-{next(_run_numbers) % 2**16:04x}"

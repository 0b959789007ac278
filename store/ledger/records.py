"""Rows of the ledger and the statements that write them: runs, actions, tombstones, vanished files, answers."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple

from ..model import Action, ActionKind, NodeId
from ..redaction import masked
from .journal import sha256

RENAMED = "renamed by its agent"
"""The reason of the two actions by which a document gets another key, the new one first."""

LINK: Final = "link"
"""The kind of run that links a new memory to known ones; there are many, and few are of interest."""

LANDED: Final = ("applied", "nothing", "undone", "partly_undone")
"""The states of a run that was applied, even if it changed nothing or was undone since."""

PURGED: Final = "purged"
"""The state of an action of which only its number is left: no undo carries it out."""

MOST_EVENTS: Final = 200_000
"""Events of nodes that are kept, the newest; a day of a busy agent makes some thousand where answers are noted."""

RUN_COLUMNS: Final = "run_id, kind, state, started_at, ended_at, undone_at, expired, summary"


class Write(NamedTuple):
    """One statement with its values, to be run inside the writer's next transaction."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run in the history: a dream, a forgetting.

    `state` is one of applied, undone, partly_undone, nothing, failed, preempted, cancelled. `summary` is the run's own
    account, in JSON's types.
    """

    run_id: str
    kind: str
    state: str
    started_at: datetime
    ended_at: datetime | None = None
    undone_at: datetime | None = None
    expired: bool = False
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """One action of a run as the ledger keeps it; `state` is applied, conflict (`refusal` may say why) or undone.

    The images are the whole file before and after, None where there was no file (or where history has expired).
    """

    SELECT: ClassVar[str] = (
        "SELECT ordinal, kind, path, node_id, stage, reason, fingerprint, state, refusal, pre_sha256, post_sha256,"
        " pre_image, post_image FROM action WHERE run_id = ? ORDER BY ordinal"
    )

    ordinal: int
    kind: ActionKind
    path: str
    node_id: NodeId
    stage: str
    reason: str
    fingerprint: str | None
    state: str
    refusal: str | None
    pre_sha256: str | None
    post_sha256: str | None
    pre_image: bytes | None
    post_image: bytes | None


def stored(at: datetime) -> str:
    """Format an instant for the ledger: ISO 8601, UTC, so that text order is time order."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def packed(image: bytes | None, *, is_clean: bool = False) -> bytes | None:
    """Return an image as the ledger keeps it: without a secret that a person wrote into it, which `undo` then lacks.

    One that `is_clean` was looked through before.
    """
    # Level 1: images are written while a client waits, and higher levels save little on short texts.
    return None if image is None else zlib.compress(image if is_clean else masked(image), 1)


def unpacked(image: bytes | None) -> bytes | None:
    """Return an image as it was."""
    return None if image is None else zlib.decompress(image)


def run_of_row(row: Sequence[Any]) -> Run:
    """Return the run of a row of RUN_COLUMNS."""
    run_id, kind, state, started_at, ended_at, undone_at, expired, summary = row
    return Run(
        run_id,
        kind,
        state,
        datetime.fromisoformat(started_at),
        _instant(ended_at),
        _instant(undone_at),
        bool(expired),
        json.loads(summary),
    )


def action_of_row(row: Sequence[Any]) -> RecordedAction:
    """Return the action of a row of RecordedAction.SELECT."""
    ordinal, kind, path, node_id, stage, reason, fingerprint, state, refusal, pre, post, pre_image, post_image = row
    return RecordedAction(
        ordinal,
        ActionKind(kind),
        path,
        node_id,
        stage,
        reason,
        fingerprint,
        state,
        refusal,
        pre,
        post,
        unpacked(pre_image),
        unpacked(post_image),
    )


# ---- runs and actions


def record_run(run: Run) -> Write:
    """Write a run, or its new state."""
    return Write(
        f"INSERT INTO run ({RUN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id) DO UPDATE SET kind = excluded.kind, state = excluded.state,"
        " started_at = excluded.started_at, ended_at = excluded.ended_at, undone_at = excluded.undone_at,"
        " summary = excluded.summary",
        (
            run.run_id,
            run.kind,
            run.state,
            stored(run.started_at),
            None if run.ended_at is None else stored(run.ended_at),
            None if run.undone_at is None else stored(run.undone_at),
            int(run.expired),
            json.dumps(dict(run.summary), ensure_ascii=False, sort_keys=True),
        ),
    )


def record_action(
    run_id: str, ordinal: int, action: Action, images: tuple[bytes | None, bytes | None], refusal: str | None
) -> Write:
    """Write one action with its packed images; `refusal` says why it is not carried out."""
    return Write(
        "INSERT INTO action (run_id, ordinal, kind, path, node_id, stage, reason, fingerprint, state, refusal,"
        " pre_sha256, post_sha256, pre_image, post_image) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run_id,
            ordinal,
            action.kind.value,
            action.path,
            action.node_id,
            action.stage,
            action.reason,
            action.fingerprint,
            "applied" if refusal is None else "conflict",
            refusal,
            action.pre_sha256,
            None if action.content is None else sha256(action.content),
            *images,
        ),
    )


def action_state(run_id: str, ordinal: int, state: str) -> Write:
    """Mark an action as undone, or as applied again."""
    return Write("UPDATE action SET state = ? WHERE run_id = ? AND ordinal = ?", (state, run_id, ordinal))


def run_undone(run_id: str, state: str, at: datetime) -> Write:
    """Mark a run as undone, wholly or partly."""
    return Write("UPDATE run SET state = ?, undone_at = ? WHERE run_id = ?", (state, stored(at), run_id))


def run_redone(run_id: str, *, is_partial: bool) -> Write:
    """Mark an undone run as applied again; one of which a part stays undone keeps the time of that."""
    if is_partial:
        return Write("UPDATE run SET state = 'partly_undone' WHERE run_id = ?", (run_id,))
    return Write("UPDATE run SET state = 'applied', undone_at = NULL WHERE run_id = ?", (run_id,))


# ---- tombstones, cursors, flags, counts


def leave_tombstone(fingerprint: str, run_id: str, at: datetime, reason: str) -> Write:
    """Forbid every later dream to propose this again."""
    return Write("INSERT OR REPLACE INTO tombstone VALUES (?, ?, ?, ?)", (fingerprint, run_id, stored(at), reason))


def keep_in_mind(tombstones: Iterable[str], flags: Iterable[str], at: datetime) -> list[Write]:
    """Write known tombstones and flags into a ledger that replaces a damaged one, where they are missing."""
    forbid = "INSERT OR IGNORE INTO tombstone VALUES (?, '', ?, 'known when the ledger was damaged')"
    switch = "INSERT OR IGNORE INTO flag VALUES (?, '1')"
    return [
        # IGNORE: a row that could be copied from the damaged ledger knows more (its run, its reason).
        *(Write(forbid, (fingerprint, stored(at))) for fingerprint in tombstones),
        *(Write(switch, (name,)) for name in flags),
    ]


def lift_tombstone(fingerprint: str) -> Write:
    """Allow it again."""
    return Write("DELETE FROM tombstone WHERE fingerprint = ?", (fingerprint,))


def move_cursor(stage: str, session_id: str, ordinal: int) -> Write:
    """Store the last ordinal that a stage consumed of a session."""
    return Write("INSERT OR REPLACE INTO cursor VALUES (?, ?, ?)", (stage, session_id, ordinal))


def follow(key: str, size: int, lines: int, head: str) -> Write:
    """Write how far a file of another program was read."""
    return Write("INSERT OR REPLACE INTO followed VALUES (?, ?, ?, ?)", (key, size, lines, head))


def set_flag(name: str, value: str = "1") -> Write:
    """Set a switch: `paused`, `off:CHANNEL`."""
    return Write("INSERT OR REPLACE INTO flag VALUES (?, ?)", (name, value))


def clear_flag(name: str) -> Write:
    """Clear a switch."""
    return Write("DELETE FROM flag WHERE name = ?", (name,))


def log_usage(node_ids: Iterable[NodeId], at: datetime) -> list[Write]:
    """Count that these memories were shown."""
    sql = (
        "INSERT INTO usage VALUES (?, 1, ?) ON CONFLICT (node_id) DO UPDATE"
        " SET shown = shown + 1, last_at = max(last_at, excluded.last_at)"
    )
    return [Write(sql, (node_id, stored(at))) for node_id in node_ids]


def reinforce(node_id: NodeId, at: datetime) -> Write:
    """Count that a memory was said again."""
    return Write(
        "INSERT INTO reinforcement VALUES (?, 1, ?) ON CONFLICT (node_id) DO UPDATE"
        " SET times = times + 1, last_at = max(last_at, excluded.last_at)",
        (node_id, stored(at)),
    )


def record_feedback(node_id: NodeId, verdict: str, at: datetime, query: str | None = None) -> Write:
    """Record feedback on a memory that was shown."""
    return Write(
        "INSERT INTO feedback (at, node_id, verdict, query) VALUES (?, ?, ?, ?)", (stored(at), node_id, verdict, query)
    )


def note_events(what: str, nodes: Iterable[NodeId], at: datetime, detail: Mapping[str, str]) -> list[Write]:
    """Note an event in the history of these nodes, each once."""
    sql = "INSERT INTO event (at, kind, node_id, detail) VALUES (?, ?, ?, ?)"
    text = json.dumps(detail, ensure_ascii=False)
    return [Write(sql, (stored(at), what, node_id, text)) for node_id in dict.fromkeys(nodes)]


def prune_events(cutoff: datetime) -> list[Write]:
    """Remove events that are too old or too many."""
    return [
        Write("DELETE FROM event WHERE at < ?", (stored(cutoff),)),
        Write("DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", (MOST_EVENTS,)),
    ]


def expire(run_ids: Iterable[str]) -> list[Write]:
    """Remove the images of these runs; their actions, with the reasons, stay."""
    images = "UPDATE action SET pre_image = NULL, post_image = NULL WHERE run_id = ?"
    run = "UPDATE run SET expired = 1 WHERE run_id = ?"
    ids = list(run_ids)
    return [Write(sql, (run_id,)) for sql in (images, run) for run_id in ids]


def forget_before(cutoff: datetime, now: datetime) -> list[Write]:
    """Remove contents that a person's file kept out, and runs that only linked, from before the cutoff."""
    return [
        Write("DELETE FROM run WHERE kind = ? AND started_at < ?", (LINK, stored(cutoff))),
        Write("DELETE FROM journal WHERE state = 'conflict' AND kept_at < ?", (stored(cutoff),)),
        Write("UPDATE journal SET kept_at = ? WHERE state = 'conflict' AND kept_at IS NULL", (stored(now),)),
    ]


# ---- files that vanished: withheld until a person decides, or recorded as deleted

WITHHELD: Final = "SELECT path FROM withheld ORDER BY path"
WITHHELD_IMAGE: Final = "SELECT image FROM withheld WHERE path = ?"

IS_RECORDED: Final = """
SELECT 1 FROM action JOIN run USING (run_id) WHERE path = ? AND (
    action.state = 'applied' AND post_sha256 IS NULL AND pre_image IS NOT NULL AND EXISTS (
        SELECT 1 FROM action AS first
        WHERE first.run_id = action.run_id AND first.path = action.path AND first.pre_sha256 = ?
    )
    OR action.state = 'undone' AND pre_sha256 IS NULL AND undone_at >= ? AND EXISTS (
        SELECT 1 FROM action AS last
        WHERE last.run_id = action.run_id AND last.path = action.path AND last.post_sha256 = ?
    )
) AND NOT EXISTS (
    SELECT 1 FROM action AS later WHERE later.path = action.path AND later.id > action.id AND later.state = 'applied'
)
"""
"""Find a run that deleted a file with this content and can restore it, or one whose undo deleted it.

The content is that of the file before the run's first action on it: the index never reads the states within a run.
"""

IS_CHANGED: Final = """
SELECT 1 FROM action WHERE path = ? AND pre_sha256 = ? AND state = 'applied' LIMIT 1
"""
"""Find an applied run that changed or deleted a file with this content."""

LAST_DELETION: Final = """
SELECT path, pre_image, action.fingerprint FROM action JOIN run USING (run_id)
WHERE node_id = ? AND run.kind = ? AND action.state = 'applied' AND pre_image IS NOT NULL
ORDER BY run.started_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A file that a person deleted, as it was; `fingerprint` is its tombstone's."""

    path: str
    image: bytes
    fingerprint: str | None


class Vanished(NamedTuple):
    """A vanished file: its content if it is withheld, else the rows that record its deletion."""

    withheld: bytes | None = None
    recording: Sequence[Write] = ()


def withhold(path: str, since: datetime, image: bytes | None) -> Write:
    """Withhold a file that vanished, with its content if known; one that is withheld already stays as it is."""
    return Write("INSERT OR IGNORE INTO withheld VALUES (?, ?, ?)", (path, stored(since), packed(image)))


def release(paths: Iterable[str]) -> list[Write]:
    """Stop to withhold these files."""
    return [Write("DELETE FROM withheld WHERE path = ?", (path,)) for path in paths]


# ---- answers to writes that a client may send again: kept in the transaction of the write itself

ANSWER: Final = "SELECT answer FROM answered WHERE key = ?"
ANSWERS_KEPT: Final = timedelta(days=1)
MOST_ANSWERS: Final = 10_000


def hashed(method: str, key: str) -> str:
    """Return the key under which the answer to a write is kept; the same key of two methods gives two."""
    return hashlib.sha256(f"{method}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def keep_answer(key: str, answer: str, now: datetime) -> list[Write]:
    """Keep an answer, and remove those that are too old or too many. The first under a key stays."""
    return [
        Write("INSERT OR IGNORE INTO answered VALUES (?, ?, ?)", (key, stored(now), answer)),
        Write("DELETE FROM answered WHERE at < ?", (stored(now - ANSWERS_KEPT),)),
        Write(
            "DELETE FROM answered WHERE key IN (SELECT key FROM answered ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MOST_ANSWERS,),
        ),
    ]


def forget_answers() -> Write:
    """Remove all answers."""
    return Write("DELETE FROM answered", ())

"""A deletion by hand as an action of a run: the file's content is the pre-image that `undo` restores."""

from __future__ import annotations

from datetime import datetime

from .. import okf
from ..ledger.journal import sha256
from ..ledger.records import Write, leave_tombstone, packed, record_action, release
from ..model import Action, ActionKind
from ..okf import session
from .runs import DELETED, fingerprint


def deletion(path: str, image: bytes, *, is_session: bool, now: datetime) -> Action:
    """Return the action for a file deleted by hand; as after `forget`, no dream proposes its memory again."""
    document = okf.parse(image)
    memory = okf.to_memory(path, document, now)
    return Action(
        kind=ActionKind.DELETE,
        path=path,
        node_id=session.head_of(path, document).session_id if is_session else memory.node_id,
        stage=DELETED,
        reason="deleted by hand",
        pre_sha256=sha256(image),
        fingerprint=None if is_session else fingerprint(memory),
    )


def shortening(path: str, image: bytes, left: bytes) -> Action:
    """Return the action for a session that lost turns from its file."""
    return Action(
        kind=ActionKind.REPLACE,
        path=path,
        node_id=session.head_of(path, okf.parse(image)).session_id,
        stage=DELETED,
        reason="turns are gone from its file",
        pre_sha256=sha256(image),
        content=left,
    )


def turns_gone(image: bytes, left: bytes) -> int:
    """Return the number of turns that a session's file held and holds no more; a reworded one is still there."""
    if left.startswith(image):
        return 0
    held = {turn.external_id or turn.ordinal for turn in session.parse(left).turns}
    gone = sum((turn.external_id or turn.ordinal) not in held for turn in session.parse(image).turns)
    return gone or int(image.startswith(left))  # cut within its last turn


def record_deletion(run_id: str, ordinal: int, action: Action, image: bytes, now: datetime) -> list[Write]:
    """Record a deletion that has happened, with the content of the file."""
    writes = [record_action(run_id, ordinal, action, (packed(image), None), None), *release([action.path])]
    if action.fingerprint:
        writes.append(leave_tombstone(action.fingerprint, run_id, now, action.reason))
    return writes


def has_id_of_path(path: str, image: bytes) -> bool:
    """Tell whether a file's node id comes from its path, so that a move changes it."""
    return okf.to_memory(path, okf.parse(image)).node_id == okf.node_id_of_path(path)

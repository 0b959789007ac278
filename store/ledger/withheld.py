"""Files that vanished and are not believed to be deleted, and deletions that are recorded, as the ledger holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from .records import Write, packed, stored

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
"""A run deleted a file that held so, before it or amid it, and can give it back; or was undone, which deleted what it
had made. A run that changed a file and then deleted it leaves no moment in which the index reads what was between."""

IS_CHANGED: Final = """
SELECT 1 FROM action WHERE path = ? AND pre_sha256 = ? AND state = 'applied' LIMIT 1
"""
"""A run that stands changed or deleted a file that was so."""

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
    """Keep a file that vanished, with its content as far as that is known; one that is withheld stays as it is."""
    return Write("INSERT OR IGNORE INTO withheld VALUES (?, ?, ?)", (path, stored(since), packed(image)))


def release(paths: Iterable[str]) -> list[Write]:
    """Withhold these no more."""
    return [Write("DELETE FROM withheld WHERE path = ?", (path,)) for path in paths]

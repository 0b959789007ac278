"""Revival of a superseded or archived memory that is said again: it holds again and supersedes its successor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from .. import okf
from ..ledger import records
from ..ledger.journal import FileChange
from ..ledger.records import Run
from ..model import Action, InvalidInput, NodeId
from ..redaction import places_of_secrets
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .standing import SAME_AS, is_over, last_successor, revival

REMEMBER: Final = "remember"
"""The kind of the run of a revival, and its stage."""


@dataclass(frozen=True, slots=True)
class Reviving:
    """Revives memories. `path_of` returns a memory's path as the index last saw it.

    `say_the_same` compares two texts: a live successor that says the same in other words is reinforced instead.
    """

    path_of: Callable[[NodeId], str | None]
    say_the_same: Callable[[str, str], bool]

    def plan(self, files: PendingFiles, node_id: NodeId, path: str, run_id: str, now: datetime) -> Planned[NodeId]:
        """Plan to revive the memory of a file from `now` on, as one run; one that holds is only reinforced.

        Its successor, if it is still there, becomes superseded by it. Raises InvalidInput where the frontmatter cannot
        be edited, NotFound where there is no file.
        """
        data = files.read(path)
        meta = okf.parse(data).meta
        if not is_over(meta):
            return Planned(node_id, writes=(records.reinforce(node_id, now),))
        newer = last_successor(node_id, lambda other: data if other == node_id else self._read(files, other))
        standing = self._read(files, newer) if newer else None
        if newer and standing and (meta.get(SAME_AS) == [newer] or self._is_repeated_by(standing, data)):
            return Planned(node_id, writes=(records.reinforce(newer, now),))
        edits = [_Edit(node_id, path, data, okf.edit(data, _holding_again(meta, newer, now)))]
        if newer and standing:
            ended = {"superseded_by": node_id, "valid_to": now.isoformat()}
            with contextlib.suppress(InvalidInput):  # a file whose frontmatter cannot be edited stays as it is
                edits.append(_Edit(newer, self.path_of(newer) or "", standing, okf.edit(standing, ended)))
        if any(places_of_secrets(edit.after) for edit in edits):  # a person's own file, which the ledger may not hold
            return Planned(node_id, writes=(records.reinforce(node_id, now),))
        return _as_run(node_id, edits, run_id, now)

    def _read(self, files: PendingFiles, node_id: NodeId) -> bytes | None:
        path = self.path_of(node_id)
        return files.read(path) if path and files.exists(path) else None

    def _is_repeated_by(self, newer: bytes, older: bytes) -> bool:
        """Return True if the newer file holds and says the same as the older."""
        document = okf.parse(newer)
        return not is_over(document.meta) and self.say_the_same(document.body, okf.parse(older).body)


class _Edit(NamedTuple):
    node_id: NodeId
    path: str
    before: bytes
    after: bytes


def _holding_again(meta: Mapping[str, Any], newer: NodeId | None, now: datetime) -> dict[str, Any]:
    changes = revival(meta)
    if meta.get("superseded_by") or meta.get("valid_to"):
        changes["valid_from"] = now.isoformat()
    if newer is not None:
        listed = meta.get("supersedes")
        known = listed if isinstance(listed, list) else [listed] if isinstance(listed, str) else []
        changes["supersedes"] = list(dict.fromkeys([*known, newer]))
    return changes


def _as_run(node_id: NodeId, edits: Sequence[_Edit], run_id: str, now: datetime) -> Planned[NodeId]:
    summary = {"note": f"{node_id} was said again and holds", "replaced": len(edits)}
    writes = [records.record_run(Run(run_id, REMEMBER, "applied", now, now, summary=summary))]
    changes: list[FileChange] = []
    for ordinal, edit in enumerate(edits):
        action = Action.replacing(
            edit.path, edit.node_id, edit.before, edit.after, stage=REMEMBER, reason="it was said again"
        )
        images = records.packed(edit.before), records.packed(edit.after)
        writes.append(records.record_action(run_id, ordinal, action, images, None))
        # The last one carries no run: it counts as promised, and the next question waits for it, and so for all.
        of_run = (None, None) if edit.node_id == node_id else (run_id, ordinal)
        changes.insert(0, FileChange("replace", edit.path, edit.after, 0, action.pre_sha256, *of_run))
    return Planned(node_id, changes, writes)

"""Plans for the writer that keep a statement: a new one as a file of its own, a known one reinforced or revived.

A superseded or archived memory that is stated again is live again, and supersedes its successor. A write with a known
key changes nothing, and is answered as the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .. import okf
from ..ledger import records
from ..ledger.journal import FileChange
from ..ledger.ledger import Ledger
from ..ledger.records import Run, hashed, keep_answer
from ..model import Action, InvalidInput, Memory, NodeId
from ..redaction import places_of_secrets
from ..results import Novelty
from ..text.words import normal_form
from ..vault.layout import with_id
from ..writer.pending import PendingFiles
from ..writer.writer import Plan, Planned
from .links import SAME_AS, is_over, last_successor, revival

# The kind of the run of a revival, and its stage.
REMEMBER: Final = "remember"


@dataclass(frozen=True, slots=True)
class Reviving:
    """Revives memories. `path_of` returns a memory's path as the index last saw it."""

    path_of: Callable[[NodeId], str | None]

    def plan(self, files: PendingFiles, node_id: NodeId, path: str, run_id: str, now: datetime) -> Planned[NodeId]:
        """Plan to revive the memory of a file from `now` on, as one run; a live one is only reinforced.

        Its successor, if it is still there, becomes superseded by it. Raises InvalidInput where the frontmatter cannot
        be edited, NotFound where there is no file.
        """
        data = files.read(path)
        meta = okf.parse(data).meta
        if not is_over(meta):
            return Planned(node_id, writes=(records.reinforce(node_id, now),))
        # Files are read as they will be once all acknowledged writes are placed, so the chain is the newest there is.
        newer = last_successor(node_id, lambda other: data if other == node_id else self._read(files, other))
        standing = self._read(files, newer) if newer else None
        if newer and standing and (meta.get(SAME_AS) == [newer] or self._is_repeated_by(standing, data)):
            return Planned(node_id, writes=(records.reinforce(newer, now),))
        edits = [_Replacement(node_id, path, data, okf.edit(data, _revived_keys(meta, newer, now)))]
        if newer and standing:
            ended = {"superseded_by": node_id, "valid_to": now.isoformat()}
            with contextlib.suppress(InvalidInput):  # a file whose frontmatter cannot be edited stays as it is
                edits.append(_Replacement(newer, self.path_of(newer) or "", standing, okf.edit(standing, ended)))
        if any(places_of_secrets(edit.after) for edit in edits):  # no image of it may be kept in the ledger
            return Planned(node_id, writes=(records.reinforce(node_id, now),))
        return _as_run(node_id, edits, run_id, now)

    def _read(self, files: PendingFiles, node_id: NodeId) -> bytes | None:
        path = self.path_of(node_id)
        return files.read(path) if path and files.exists(path) else None

    def _is_repeated_by(self, newer: bytes, older: bytes) -> bool:
        """Return True if the newer memory is live and has the words of the older."""
        document = okf.parse(newer)
        return not is_over(document.meta) and normal_form(document.body) == normal_form(okf.parse(older).body)


class _Replacement(NamedTuple):
    node_id: NodeId
    path: str
    before: bytes
    after: bytes


def _revived_keys(meta: Mapping[str, Any], newer: NodeId | None, now: datetime) -> dict[str, Any]:
    changes = revival(meta)
    if meta.get("superseded_by") or meta.get("valid_to"):
        changes["valid_from"] = now.isoformat()
    if newer is not None:
        listed = meta.get("supersedes")
        known = listed if isinstance(listed, list) else [listed] if isinstance(listed, str) else []
        changes["supersedes"] = list(dict.fromkeys([*known, newer]))
    return changes


def _as_run(node_id: NodeId, edits: Sequence[_Replacement], run_id: str, now: datetime) -> Planned[NodeId]:
    summary = {"note": f"{node_id} was said again and holds", "replaced": len(edits)}
    writes = [records.record_run(Run(run_id, REMEMBER, "applied", now, now, summary=summary))]
    changes: list[FileChange] = []
    for ordinal, edit in enumerate(edits):
        action = Action.replacing(
            edit.path, edit.node_id, edit.before, edit.after, stage=REMEMBER, reason="it was said again"
        )
        images = records.packed(edit.before), records.packed(edit.after)
        writes.append(records.record_action(run_id, ordinal, action, images, None))
        # The revived memory's change comes last and is of no run: questions wait for such a change, as for any
        # statement, and with it for the changes before it.
        of_run = (None, None) if edit.node_id == node_id else (run_id, ordinal)
        changes.insert(0, FileChange("replace", edit.path, edit.after, 0, action.pre_sha256, *of_run))
    return Planned(node_id, changes, writes)


class Remembering:
    """The plan to keep a memory. The same content in the same channel has the same id.

    A forgotten memory may be remembered again: its `tombstone` is lifted. A known one is reinforced, or revived if it
    is over; without `said_now` (an import) it is not touched. The plan sets `novelty`, `is_known` if it changes no
    file, and `found_waiting` if the known one waits for review.
    """

    def __init__(
        self,
        memory: Memory,
        reviving: Reviving,
        run_id: str,
        now: datetime,
        *,
        tombstone: str | None = None,
        said_now: bool = True,
    ) -> None:
        self.is_known = False
        self.found_waiting = False
        self.novelty: Novelty = "new"
        self._memory = memory
        self._content = okf.from_memory(memory)  # here, not in the writer's thread: all writes wait for that
        self._reviving = reviving
        self._run_id = run_id
        self._now = now
        self._tombstone = tombstone
        self._said_now = said_now

    def __call__(self, files: PendingFiles) -> Planned[NodeId]:
        """Create the memory's file, or reinforce the known memory. Runs in the writer's thread."""
        for memory in self._under_free_ids():
            path = self._reviving.path_of(memory.node_id) or memory.path
            path = path if files.exists(path) else memory.path
            if not files.exists(path):
                content = self._content if memory is self._memory else okf.from_memory(memory)
                lifted = (records.lift_tombstone(self._tombstone),) if self._tombstone else ()
                return Planned(memory.node_id, (FileChange("create", path, content),), lifted)
            if self._has_content(there := okf.to_memory(path, okf.parse(files.read(path)))):
                self.found_waiting = there.is_waiting
                planned = Planned(memory.node_id)
                if self._said_now:
                    planned = self._reviving.plan(files, memory.node_id, path, self._run_id, self._now)
                self.is_known = not planned.changes
                self.novelty = "known" if self.is_known else "again"
                return planned
        raise AssertionError("the ids never end")

    def _has_content(self, there: Memory) -> bool:
        return okf.fact_id(there.channel, there.text) == self._memory.node_id

    def _under_free_ids(self) -> Iterator[Memory]:
        """Yield the memory under its own id, then under others: the file of an id may hold another text by now."""
        memory = self._memory
        yield memory
        for node_id in islice(okf.fact_ids(memory.channel, memory.text), 1, None):
            yield replace(memory, node_id=node_id, path=with_id(memory.path, memory.node_id, node_id))


T = TypeVar("T")


class Once(Generic[T]):
    """A plan that is carried out once for each key. Runs in the writer's thread.

    Two of one key in one transaction are both carried out: neither was acknowledged before. The plan sets
    `was_repeated`.
    """

    def __init__(
        self,
        plan: Plan[T],
        ledger: Ledger,
        method: str,
        key: str,
        now: datetime,
        *,
        write: Callable[[T], str],
        read: Callable[[str], T],
    ) -> None:
        self.was_repeated = False
        self._plan = plan
        self._ledger = ledger
        self._key = hashed(method, key)
        self._now = now
        self._write = write
        self._read = read

    def __call__(self, files: PendingFiles) -> Planned[T]:
        """Answer as before, or plan and keep the answer beside the changes."""
        if (known := self._ledger.answered(self._key)) is not None:
            self.was_repeated = True
            return Planned(self._read(known))
        planned = self._plan(files)
        kept = keep_answer(self._key, self._write(planned.result), self._now)
        return replace(planned, writes=(*planned.writes, *kept))

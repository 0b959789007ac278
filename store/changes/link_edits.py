"""Edits of the keys that link two memories' files: one superseded the other or probably did, repeats or contradicts it.

Edits are gathered, so that a file with several links is written once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from .. import okf
from ..index.projection import Node
from ..model import Action, InvalidInput, Memory, NodeId, Status
from ..text.judging import Relation
from .decisions import pair_key
from .standing import SAME_AS, parted, released, revival

LATER_MOST: Final = 3
"""The newest memories that probably took a memory's place are listed in it, so many at most."""

Linked = Memory | Node
"""One of the two memories, as the caller has it; the links that its file lists are read from the file."""


@dataclass(slots=True)
class _File:
    """A file before and after its edits, with the keys of them all; `reason` is that of the first edit."""

    node_id: NodeId
    before: bytes
    after: bytes
    reason: str = ""
    tombstone_keys: dict[str, None] = field(default_factory=dict)


class LinkEdits:
    """Gathers changes to the frontmatter of files. `read` returns a file of the vault, None where it is gone.

    A file without frontmatter is a person's and is left as it is. `tombstone_key` names a change for the tombstone
    that an undo of it leaves.
    """

    def __init__(self, read: Callable[[str], bytes | None], stage: str) -> None:
        self._read = read
        self._stage = stage
        self._files: dict[str, _File] = {}

    def link(self, relation: Relation, older: Linked, newer: Linked, now: datetime) -> None:
        """Write a relation of the newer to the older into their files."""
        tombstone_key = pair_key(older.node_id, newer.node_id)
        match relation:
            case Relation.SAME:
                self.repeat(older, newer, tombstone_key, now)
            case Relation.UPDATES:
                self.supersede(older, newer, tombstone_key)
            case Relation.LATER:
                self.follow(older, newer, tombstone_key)
            case Relation.CONTRADICTS:
                self.contradict(older, newer, tombstone_key)

    def supersede(self, older: Linked, newer: Linked, tombstone_key: str) -> None:
        """Mark the older as superseded by the newer, from the time since which that one holds."""
        ended = {"superseded_by": newer.node_id} | ({"valid_to": newer.since.isoformat()} if newer.since else {})
        self.edit(older, ended, "a newer fact changes it", tombstone_key)
        listed = self.standing(newer).supersedes
        self.edit(newer, {"supersedes": _with(listed, older)}, "it changes an older fact", tombstone_key)

    def part(self, older: Linked, newer: Linked, tombstone_key: str) -> None:
        """Have a memory hold again beside one that has taken its place."""
        back = revival(self.meta(older)) | parted(self.standing(older), newer.node_id)
        self.edit(older, back, "it was restored", tombstone_key)
        left = parted(self.standing(newer), older.node_id)
        self.edit(newer, left, "a memory that it replaced was restored", tombstone_key)

    def follow(self, older: Linked, newer: Linked, tombstone_key: str) -> None:
        """Say in the older one that the newer probably took its place; both stay live."""
        listed = self.standing(older).later
        self.edit(
            older, {"later": _with(listed, newer)[-LATER_MOST:]}, "a newer fact probably changes it", tombstone_key
        )

    def repeat(self, older: Linked, newer: Linked, tombstone_key: str, now: datetime) -> None:
        """Archive the newer as one that says the same as the older, which stays."""
        gone = {"status": Status.DEPRECATED.value, "archived_at": now.isoformat(), SAME_AS: [older.node_id]}
        self.edit(newer, gone, "it repeats an older fact in other words", tombstone_key)

    def contradict(self, older: Linked, newer: Linked, tombstone_key: str | None) -> None:
        """Link two that cannot both hold; both stay live until a person decides."""
        for one, other, reason in (
            (older, newer, "another memory contradicts it"),
            (newer, older, "it contradicts another memory"),
        ):
            listed = self.standing(one).contradicts
            self.edit(one, {"contradicts": _with(listed, other)}, reason, tombstone_key)

    def relate(self, one: Linked, other: Linked, because: str) -> None:
        """Say in a memory that it is related to another node."""
        listed = okf.parse(self._file(one).after).meta.get("relates")
        entries = listed if isinstance(listed, list) else []
        if not any(isinstance(entry, Mapping) and entry.get("title") == other.node_id for entry in entries):
            entry = {"title": other.node_id, "weight": 1.0, "because": because}
            self.edit(one, {"relates": [*entries, entry]}, "it was related to another memory")

    def tag(self, one: Linked, add: Sequence[str], remove: Collection[str]) -> tuple[str, ...]:
        """Change a memory's tags and return them."""
        tags = self.standing(one).tags
        kept = tuple(dict.fromkeys(tag for tag in (*tags, *add) if tag not in remove))
        if kept != tags:
            self.edit(one, {"tags": list(kept) or None}, "its tags were changed")
        return kept

    def release(self, older: Linked, gone: Linked, heir: Linked | None) -> None:
        """Revive a memory whose successor `gone` is removed, or mark it as superseded by the `heir` of that one."""
        file = self._file(older)
        with contextlib.suppress(InvalidInput):  # a file that cannot be edited stays; nothing hides it
            file.after = released(file.after, heir.node_id if heir else None)
            file.reason = file.reason or "the memory that superseded it is removed"
        if heir is not None:
            listed = [node_id for node_id in self.standing(heir).supersedes if node_id != gone.node_id]
            self.edit(heir, {"supersedes": list(dict.fromkeys((*listed, older.node_id)))}, "it changes an older fact")

    def edit(self, one: Linked, changes: Mapping[str, Any], reason: str, tombstone_key: str | None = None) -> None:
        """Change keys of one memory's file."""
        file = self._file(one)
        if okf.parse(file.after).meta:
            file.after = okf.edit(file.after, changes)
            file.reason = file.reason or reason
            file.tombstone_keys |= {tombstone_key: None} if tombstone_key else {}

    def standing(self, one: Linked) -> Memory:
        """Return a memory as its file stands after the edits so far."""
        return okf.to_memory(one.path, okf.parse(self._file(one).after))

    def meta(self, one: Linked) -> Mapping[str, Any]:
        """Return a memory's frontmatter after the edits so far."""
        return okf.parse(self._file(one).after).meta

    def actions(self) -> list[Action]:
        """One replacement for each file that changes."""
        return [
            Action.replacing(
                path,
                file.node_id,
                file.before,
                file.after,
                stage=self._stage,
                reason=file.reason,
                fingerprint="\n".join(file.tombstone_keys) or None,
            )
            for path, file in self._files.items()
            if file.after != file.before
        ]

    def _file(self, one: Linked) -> _File:
        if one.path not in self._files:
            data = self._read(one.path) or b""
            self._files[one.path] = _File(one.node_id, data, data)
        return self._files[one.path]


def _with(listed: tuple[NodeId, ...], other: Linked) -> list[NodeId]:
    return list(dict.fromkeys((*listed, other.node_id)))

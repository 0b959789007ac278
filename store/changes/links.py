"""Links between memories, as their files state them: successors, repetitions, contradictions, and how they are edited.

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
from ..index.tombstones import pair_key
from ..model import Action, InvalidInput, Memory, NodeId, Status
from ..text.judging import Relation

# The key of an archived memory that lists the live one with the same statement.
SAME_AS: Final = "same_as"

# The reason for which a repetition is archived.
REPEATS: Final = "it repeats an older fact in other words"

# The keys of a memory that no longer holds.
ENDINGS: Final = ("superseded_by", "valid_to", "archived_at", SAME_AS)


def is_over(meta: Mapping[str, Any]) -> bool:
    """Return True if a memory's frontmatter says that it was archived or superseded."""
    return (
        bool(meta.get("superseded_by"))
        or meta.get("archived_at") is not None
        or meta.get("status") == Status.DEPRECATED.value
    )


def revival(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes to the keys that make a memory live again."""
    changes: dict[str, Any] = dict.fromkeys(ENDINGS)
    if meta.get("status") == Status.DEPRECATED.value:
        changes["status"] = Status.STABLE.value
    return changes


def parted(memory: Memory, other: NodeId) -> dict[str, Any]:
    """Return the changes to a memory's keys that remove every link to another: successor, predecessor or dispute."""
    links = {"contradicts": memory.contradicts, "later": memory.later, "supersedes": memory.supersedes}
    left = {key: [one for one in listed if one != other] or None for key, listed in links.items() if other in listed}
    status = {"status": memory.status.value}
    return left | (revival(status) if memory.superseded_by == other else {})


def released(data: bytes, heir: NodeId | None) -> bytes:
    """Return the file of a memory whose successor is removed: live again, or superseded by the `heir`.

    The `heir` is the removed one's own successor. Raises InvalidInput where the frontmatter cannot be edited.
    """
    if heir is not None:
        return okf.edit(data, {"superseded_by": heir})
    return okf.edit(data, revival(okf.parse(data).meta))


def successors(node_id: NodeId, read: Callable[[NodeId], bytes | None]) -> Sequence[NodeId]:
    """Return the chain of a memory's successors, the nearest first.

    A successor whose file is gone ends the chain, and so does a circle; both are in it.
    """
    chain: list[NodeId] = []
    data = read(node_id)
    while data is not None:
        successor = _successor(okf.parse(data).meta)
        if successor is None:
            break
        chain.append(successor)
        if successor == node_id or successor in chain[:-1]:
            break
        data = read(successor)
    return chain


def last_successor(
    node_id: NodeId, read: Callable[[NodeId], bytes | None], gone: Collection[NodeId] = ()
) -> NodeId | None:
    """Return the last of a memory's successors whose file is there.

    None if there is none, or if the successors form a circle. Those in `gone` are skipped.
    """
    chain = successors(node_id, read)
    if len({node_id, *chain}) <= len(chain):  # some id occurs twice: a circle
        return None
    return next((one for one in reversed(chain) if one not in gone and read(one) is not None), None)


def _successor(meta: Mapping[str, Any]) -> NodeId | None:
    """Return the successor in a memory's frontmatter, else the memory that it repeats."""
    named = meta.get("superseded_by") or meta.get(SAME_AS)
    named = named[0] if isinstance(named, list) and named else named
    return named if isinstance(named, str) else None


# The likely successors that a memory lists, the newest of them.
LATER_MOST: Final = 3

# One of two memories, as the caller has it; its links are read from its file.
Linked = Memory | Node


@dataclass(slots=True)
class _File:
    """A file before and after its edits, with the tombstone keys of all; `reason` is that of the first edit."""

    node_id: NodeId
    before: bytes
    after: bytes
    reason: str = ""
    tombstone_keys: dict[str, None] = field(default_factory=dict)


class LinkEdits:
    """Gathers changes to the frontmatter of files. `read` returns a file of the vault, None where it is gone.

    A file without frontmatter is a person's own and is not edited. `tombstone_key` is the key of the tombstone that an
    undo of the change leaves.
    """

    def __init__(self, read: Callable[[str], bytes | None], stage: str) -> None:
        self._read = read
        self._stage = stage
        self._files: dict[str, _File] = {}

    def link(
        self, relation: Relation, older: Linked, newer: Linked, now: datetime, *, leaves_tombstone: bool = True
    ) -> None:
        """Write a relation of the newer to the older into their files."""
        tombstone_key = pair_key(older.node_id, newer.node_id) if leaves_tombstone else None
        match relation:
            case Relation.SAME:
                self.repeat(older, newer, tombstone_key, now)
            case Relation.UPDATES:
                self.supersede(older, newer, tombstone_key)
            case Relation.LATER:
                self.follow(older, newer, tombstone_key)
            case Relation.CONTRADICTS:
                self.contradict(older, newer, tombstone_key)

    def supersede(self, older: Linked, newer: Linked, tombstone_key: str | None) -> None:
        """Mark the older as superseded by the newer, from the time that the newer holds from."""
        ended = {"superseded_by": newer.node_id} | ({"valid_to": newer.since.isoformat()} if newer.since else {})
        self.edit(older, ended, "a newer fact changes it", tombstone_key)
        listed = self.edited(newer).supersedes
        self.edit(newer, {"supersedes": _with(listed, older)}, "it changes an older fact", tombstone_key)

    def part(self, older: Linked, newer: Linked, tombstone_key: str) -> None:
        """Make a memory live again beside its successor."""
        back = revival(self.meta(older)) | parted(self.edited(older), newer.node_id)
        self.edit(older, back, "it was restored", tombstone_key)
        left = parted(self.edited(newer), older.node_id)
        self.edit(newer, left, "a memory that it replaced was restored", tombstone_key)

    def follow(self, older: Linked, newer: Linked, tombstone_key: str | None) -> None:
        """List the newer in the older as a likely successor; both stay live."""
        listed = self.edited(older).later
        self.edit(
            older, {"later": _with(listed, newer)[-LATER_MOST:]}, "a newer fact probably changes it", tombstone_key
        )

    def repeat(self, older: Linked, newer: Linked, tombstone_key: str | None, now: datetime) -> None:
        """Archive the newer as a repetition of the older, which stays."""
        gone = {"status": Status.DEPRECATED.value, "archived_at": now.isoformat(), SAME_AS: [older.node_id]}
        self.edit(newer, gone, REPEATS, tombstone_key)

    def contradict(self, older: Linked, newer: Linked, tombstone_key: str | None) -> None:
        """Link two contradictory memories; both stay live until a person decides."""
        for one, other, reason in (
            (older, newer, "another memory contradicts it"),
            (newer, older, "it contradicts another memory"),
        ):
            listed = self.edited(one).contradicts
            self.edit(one, {"contradicts": _with(listed, other)}, reason, tombstone_key)

    def relate(
        self, one: Linked, other: Linked, because: str, weight: float = 1.0, tombstone_key: str | None = None
    ) -> None:
        """List another node in a memory as related, or more closely related than it was."""
        listed = okf.parse(self._file(one).after).meta.get("relates")
        entries = listed if isinstance(listed, list) else []
        known = [entry for entry in entries if isinstance(entry, Mapping) and entry.get("title") == other.node_id]
        if not any(entry.get("weight", 1.0) >= weight for entry in known):
            entry = {"title": other.node_id, "weight": weight, "because": because}
            kept = [entry for entry in entries if entry not in known]
            self.edit(one, {"relates": [*kept, entry]}, "it was related to another memory", tombstone_key)

    def tag(self, one: Linked, add: Sequence[str], remove: Collection[str]) -> tuple[str, ...]:
        """Change a memory's tags and return them."""
        tags = self.edited(one).tags
        kept = tuple(dict.fromkeys(tag for tag in (*tags, *add) if tag not in remove))
        if kept != tags:
            self.edit(one, {"tags": list(kept) or None}, "its tags were changed")
        return kept

    def release(self, older: Linked, gone: Linked, heir: Linked | None) -> None:
        """Revive a memory whose successor `gone` is removed, or mark it as superseded by the `heir` of that one."""
        file = self._file(older)
        with contextlib.suppress(InvalidInput):  # a file that cannot be edited is a person's, and no answer hides it
            file.after = released(file.after, heir.node_id if heir else None)
            file.reason = file.reason or "the memory that superseded it is removed"
        if heir is not None:  # it now replaces what `gone` had replaced
            listed = [node_id for node_id in self.edited(heir).supersedes if node_id != gone.node_id]
            self.edit(heir, {"supersedes": list(dict.fromkeys((*listed, older.node_id)))}, "it changes an older fact")

    def edit(self, one: Linked, changes: Mapping[str, Any], reason: str, tombstone_key: str | None = None) -> None:
        """Change keys of one memory's file."""
        file = self._file(one)
        if okf.parse(file.after).meta:
            file.after = okf.edit(file.after, changes)
            file.reason = file.reason or reason
            file.tombstone_keys |= {tombstone_key: None} if tombstone_key else {}

    def edited(self, one: Linked) -> Memory:
        """Return a memory as its file is after the edits so far."""
        return okf.to_memory(one.path, okf.parse(self._file(one).after))

    def meta(self, one: Linked) -> Mapping[str, Any]:
        """Return a memory's frontmatter after the edits so far."""
        return okf.parse(self._file(one).after).meta

    def actions(self) -> list[Action]:
        """Return one replacement for each file that changes."""
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

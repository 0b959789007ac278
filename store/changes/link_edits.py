"""Ties: what two memories' files say of each other, that one took the other's place or that they disagree.

What changes is gathered, so that a file is written once however many ties it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..find.index.projection import Node
from ..keep import okf
from ..model import Action, InvalidInput, Memory, NodeId
from .standing import released

Linked = Memory | Node
"""One of the two, as it is known to whoever ties them; what its file lists by now is read from there."""


@dataclass(slots=True)
class _File:
    """A file before and after; why it changes, and what an undo forbids, are those of its first change."""

    node_id: NodeId
    before: bytes
    after: bytes
    reason: str = ""
    mark: str | None = None


class LinkEdits:
    """Gathers what changes in the frontmatter of each file. `read` gives a file of the vault, None where it is gone.

    A file without frontmatter is a person's and stays as it is.
    """

    def __init__(self, read: Callable[[str], bytes | None], stage: str) -> None:
        self._read = read
        self._stage = stage
        self._files: dict[str, _File] = {}

    def supersede(self, older: Linked, newer: Linked, mark: str) -> None:
        """Let the newer take the older's place, from when it holds."""
        ended = {"superseded_by": newer.node_id} | ({"valid_to": newer.since.isoformat()} if newer.since else {})
        self.edit(older, ended, "changed since", mark)
        listed = self.standing(newer).supersedes
        self.edit(newer, {"supersedes": _with(listed, older)}, "it changes an older fact", mark)

    def contradict(self, older: Linked, newer: Linked, mark: str) -> None:
        """Link two that cannot both hold; both stay, until a person decides."""
        for one, other, reason in (
            (older, newer, "something contradicts it"),
            (newer, older, "it contradicts another"),
        ):
            listed = self.standing(one).contradicts
            self.edit(one, {"contradicts": _with(listed, other)}, reason, mark)

    def release(self, older: Linked, gone: Linked, heir: Linked | None) -> None:
        """Let an older memory, whose successor goes away, hold again, or give way to the `heir` of its place."""
        file = self._file(older)
        with contextlib.suppress(InvalidInput):  # a file that cannot be edited stays; nothing hides it
            file.after = released(file.after, heir.node_id if heir else None)
            file.reason = file.reason or "what took its place goes away"
        if heir is not None:
            listed = [node_id for node_id in self.standing(heir).supersedes if node_id != gone.node_id]
            self.edit(heir, {"supersedes": list(dict.fromkeys((*listed, older.node_id)))}, "it changes an older fact")

    def edit(self, one: Linked, changes: Mapping[str, Any], reason: str, mark: str | None = None) -> None:
        """Change keys of one memory's file. `mark` is what a tombstone forbids once it was undone."""
        file = self._file(one)
        if okf.parse(file.after).meta:
            file.after = okf.edit(file.after, changes)
            file.reason, file.mark = file.reason or reason, file.mark or mark

    def standing(self, one: Linked) -> Memory:
        """A memory as its file says by now."""
        return okf.to_memory(one.path, okf.parse(self._file(one).after))

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
                fingerprint=file.mark,
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

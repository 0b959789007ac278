"""The difference that a stage makes: one file before and after, read as memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...store.keep import okf
from ...store.model import Action, Memory, NodeId
from .proposals import is_edited
from .view import View


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after an action, as memories; `is_by_hand` if a person wrote or edited the body."""

    path: str
    before: Memory | None
    after: Memory | None
    is_by_hand: bool

    @classmethod
    def of(cls, path: str, before: bytes | None, after: bytes | None) -> Change:
        """Parse both versions of a file."""
        read: Callable[[bytes | None], Memory | None] = lambda data: (  # noqa: E731
            None if data is None else okf.to_memory(path, okf.parse(data))
        )
        return cls(path, read(before), read(after), before is not None and is_edited(before))


def gave_way(view: View, actions: Iterable[Action]) -> tuple[set[NodeId], set[NodeId]]:
    """Return the memories that a stage would archive, and those that it would supersede."""
    archived, replaced = set[NodeId](), set[NodeId]()
    for action in actions:
        change = Change.of(action.path, view.read(action.path), action.content)
        if change.before and change.before.is_live and change.after and not change.after.is_live:
            (archived if change.after.superseded_by is None else replaced).add(change.before.node_id)
    return archived, replaced

"""The difference that a stage makes: one file before and after, read as memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...store import okf
from ...store.model import Action, Level, Memory, NodeId
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


class Replaced(NamedTuple):
    """The texts of a superseded fact and of the one that supersedes it."""

    older: str
    newer: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference that a stage makes to facts: those that it archives or supersedes, and what it touches of them.

    `touched` maps each turn, or a fact that rests on none, to what is superseded there, if anything.
    """

    archived: frozenset[NodeId]
    superseded: frozenset[NodeId]
    touched: Mapping[NodeId, Replaced | None]

    @classmethod
    def of(cls, view: View, actions: Iterable[Action]) -> Difference:
        """Read what a stage's actions change."""
        changes = [Change.of(action.path, view.read(action.path), action.content) for action in actions]
        after = {change.after.node_id: change.after for change in changes if change.after}
        archived, superseded = set[NodeId](), set[NodeId]()
        touched: dict[NodeId, Replaced | None] = {}
        for change in changes:
            old, new = change.before, change.after
            if new is None or new.level is not Level.FACT:
                continue
            unit = new.sources[0] if new.sources else new.node_id
            if new.is_live or old is None or not old.is_live:
                touched.setdefault(unit, None)
            elif new.superseded_by is None:
                archived.add(old.node_id)
            else:
                superseded.add(old.node_id)
                newer = after.get(new.superseded_by) or view.memory(new.superseded_by)
                touched[unit] = Replaced(old.text, newer.text if newer else "")
        return cls(frozenset(archived), frozenset(superseded), touched)

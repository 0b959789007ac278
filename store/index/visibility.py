"""Visibility: which nodes an answer may show, by the scope of a question and by what was withdrawn.

A filter is tested in two ways: on a node's payload (`Scope.admits`), and as SQL over the catalogue's nodes
(`node_filter`), so that a list is filtered as a search is. Deleted, forgotten and expired memories are withdrawn: the
index may have them for a moment still, and no answer shows them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

from ..channel import channels_in_reach
from ..filters import ALWAYS, FOREVER, OWN_FIELDS, Condition, Filter, Group, conditions_of, holds
from ..model import Kind, NodeId
from ..redaction import FileMask
from .projection import Node


@dataclass(frozen=True)
class Scope:
    """The memories that an answer may bring in or name beside those that the search found.

    `channels` None is all of them. With `as_of` they are those that held then, whatever holds now. `where` narrows it
    further.
    """

    channels: frozenset[str] | None = None
    as_of: datetime | None = None
    include_archived: bool = False
    where: Filter = ()

    @cached_property  # asked for each fact, and the same for one question
    def is_each_alone(self) -> bool:
        """True if the filter tests a field in which a fact differs from its turn: then each is judged by itself."""
        return any(condition.field in OWN_FIELDS for condition in conditions_of(self.where))

    def holds(self, channel: str) -> bool:
        """Return True if a channel is in scope."""
        return self.channels is None or channel in self.channels

    def admits(self, node: Node) -> bool:
        """Return True if a memory may be brought in, or a turn named."""
        if node.forgotten or not self.holds(node.channel) or (self.where and not holds(node.payload(), self.where)):
            return False
        if self.as_of is None:
            return node.live or self.include_archived
        until = aware(node.valid_to)
        return self.is_past(node.since) and (until is None or self.as_of < until)

    def is_past(self, at: datetime | None) -> bool:
        """Return True for a moment that is not later than `as_of`, and for an unknown one."""
        at = aware(at)
        return at is None or self.as_of is None or at <= self.as_of


# Live memories of all channels.
EVERYTHING: Final = Scope()


def scope_beside(channel: str) -> Scope:
    """Return the scope of the memories that may be named beside one of this channel, live or not."""
    return Scope(frozenset(channels_in_reach(channel)), include_archived=True)


def living_scope_beside(channel: str) -> Scope:
    """Return the scope of the live memories that may be named beside one of this channel."""
    return Scope(frozenset(channels_in_reach(channel)))


def aware(at: datetime | None) -> datetime | None:
    """Return a moment with its zone: UTC for one that a person wrote without."""
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)


# Where the values of a field are; those of any other are in the node's marks, null, one or a list.
_VALUES = {
    "level": "SELECT level AS value",
    "kind": "SELECT kind AS value",
    "channel": "SELECT channel AS value",
    "session": "SELECT session_id AS value",
    "time": "SELECT unixepoch(created_at) AS value",
    "valid_from": f"SELECT coalesce(unixepoch(valid_from), unixepoch(created_at), {ALWAYS}) AS value",
    "valid_to": f"SELECT coalesce(unixepoch(valid_to), {FOREVER}) AS value",
}

_COMPARED = {"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}


def node_filter(where: Filter) -> tuple[str, list[Any]]:
    """Return a test of the rows of `node` and its bindings."""
    return _all([_clause(clause) for clause in where])


def _clause(clause: Condition | Group) -> tuple[str, list[Any]]:
    if isinstance(clause, Condition):
        return _condition(clause)
    parts = [node_filter(clause.must)]
    if clause.should:
        some = [_clause(one) for one in clause.should]
        parts.append((f"({' OR '.join(sql for sql, _ in some)})", [value for _, bound in some for value in bound]))
    parts += [(f"NOT {sql}", bound) for sql, bound in map(_clause, clause.must_not)]
    return _all(parts)


def _all(parts: Sequence[tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
    if not parts:
        return "1", []
    return f"({' AND '.join(sql for sql, _ in parts)})", [value for _, bound in parts for value in bound]


def _condition(condition: Condition) -> tuple[str, list[Any]]:
    source, path = _VALUES.get(condition.field, "SELECT value FROM json_each(node.marks, ?)"), []
    if condition.field not in _VALUES:
        path = [f'$."{condition.field}"']
    null = f"NOT EXISTS (SELECT 1 FROM ({source}) WHERE value IS NOT NULL)"
    values: list[Any] = [value for value in condition.values if value is not None]
    if condition.op == "is_null":
        return null, path
    if condition.op in ("in", "not_in"):
        test = f"value IN ({', '.join('?' * len(values))})"
        bound = values
    else:
        first = condition.values[0]
        test = f"(typeof(value) = 'text') = ? AND value {_COMPARED[condition.op]} ?"
        bound = [isinstance(first, str), first]
    sql, bindings = f"EXISTS (SELECT 1 FROM ({source}) WHERE {test})", [*path, *bound]
    if None in condition.values:
        sql, bindings = f"({sql} OR {null})", [*bindings, *path]
    return (f"NOT {sql}" if condition.op == "not_in" else sql), bindings


class Withheld(NamedTuple):
    """The deleted files that the index still has, and the forgotten turns, at the moment `at`."""

    gone: Collection[str]
    hidden: AbstractSet[NodeId]
    at: datetime | None

    def shown(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield the nodes that may be shown, forgotten turns as hidden ones; those of deleted files are left out."""
        for node in nodes:
            if node.path in self.gone or (node.stale_after is not None and self._is_over(node.kind, node.stale_after)):
                continue
            yield node._replace(live=False, forgotten=True) if node.node_id in self.hidden else node

    def is_gone(self, path: str, kind: Kind, stale_after: datetime | None) -> bool:
        """Return True for a node of a deleted file, and for a document that has expired."""
        return path in self.gone or (stale_after is not None and self._is_over(kind, stale_after))

    def _is_over(self, kind: Kind, stale_after: datetime) -> bool:
        until = aware(stale_after) if kind is Kind.DOCUMENT else None
        return until is not None and self.at is not None and until <= self.at


class Withdrawn:
    """Withholds deleted files from their acknowledgement until the index has followed. Any thread may ask.

    `hidden` returns the forgotten turns. `has_indexed` says if the index has come to a number of the journal, and
    `has_followed`, of a path whose number it has come to, if it knows the deleted file no more. Without `now` no
    document has expired.
    """

    def __init__(
        self,
        hidden: Callable[[], AbstractSet[NodeId]] = frozenset,
        has_indexed: Callable[[int], bool] = lambda seq: True,
        has_followed: Callable[[str], bool] = lambda path: True,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._hidden = hidden
        self._has_indexed = has_indexed
        self._has_followed = has_followed
        self._now = now
        self._gone: Mapping[str, int] = {}  # replaced, never changed: other threads read it meanwhile
        self._lock = threading.Lock()
        self._mine = threading.local()
        self.version = 0
        """Another number after each deletion: what was ranked before may name what is withdrawn since."""

    def deleted(self, paths: Sequence[str], seq: int) -> None:
        """Take note of files whose deletion is acknowledged under this number of the journal."""
        with self._lock:
            later = dict.fromkeys(paths, seq)
            self._gone = {path: known for path, known in self._gone.items() if path not in later} | later
            self.version += 1

    def now(self) -> Withheld:
        """Return what is withdrawn from rows that are read after this call."""
        if (pinned := getattr(self._mine, "pinned", None)) is not None:
            return pinned  # type: ignore[no-any-return]
        self.let_go()
        return Withheld(self._gone, self._hidden(), self._now() if self._now else None)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Withhold throughout what is withdrawn now: around a read of one state of the index by this thread."""
        self._mine.pinned = self.now()
        try:
            yield
        finally:
            self._mine.pinned = None

    def let_go(self) -> None:
        """Drop the deletions that the index has followed."""
        gone, followed = self._gone, set()
        for path, seq in gone.items():  # in the order of their numbers
            if not self._has_indexed(seq):
                break
            if self._has_followed(path):
                followed.add(path)
        if followed:
            with self._lock:
                if self._gone is gone:  # else more was deleted meanwhile: the next call looks again
                    self._gone = {path: seq for path, seq in gone.items() if path not in followed}


@dataclass(frozen=True, slots=True)
class Concealment:
    """The content that an index does not show: forgotten turns, secrets in files, deletions not followed yet."""

    is_hidden: Callable[[NodeId], bool] = lambda node_id: False
    mask: FileMask = field(default_factory=FileMask)
    withdrawn: Withdrawn | None = None

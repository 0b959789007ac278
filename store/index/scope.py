"""Scope: which memories an answer may bring in or name, besides those that the search itself found.

A filter is tested in two ways: on a node's payload (`Scope.admits`), and as SQL over the catalogue's nodes
(`node_filter`), so that a list is filtered as a search is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from ..filters import OWN_FIELDS, Condition, Filter, Group, conditions_of, holds
from ..model import GLOBAL_CHANNEL
from .projection import Node


@dataclass(frozen=True)
class Scope:
    """The question's own filter. `channels` None is all of them; with `as_of` what held then, whatever holds now.

    `where` narrows it further; `is_each_alone`: a fact is then judged by itself, and not by the turn that it is from.
    """

    channels: frozenset[str] | None = None
    as_of: datetime | None = None
    include_archived: bool = False
    where: Filter = ()

    @cached_property  # asked for each fact, and the same for one question
    def is_each_alone(self) -> bool:
        """Return True if the filter tests a field in which a fact differs from its turn."""
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
        """Return True for a moment that is not later than the one that is asked of; an unknown one is none."""
        at = aware(at)
        return at is None or self.as_of is None or at <= self.as_of


EVERYTHING: Final = Scope()
"""Live memories of all channels."""


def beside(channel: str) -> Scope:
    """Return the scope of what may be named beside a memory of this channel, live or not."""
    return Scope(frozenset({channel, GLOBAL_CHANNEL}), include_archived=True)


def living_beside(channel: str) -> Scope:
    """Return the scope of what is live and may be named beside a memory of this channel."""
    return Scope(frozenset({channel, GLOBAL_CHANNEL}))


def aware(at: datetime | None) -> datetime | None:
    """Return a moment with its zone: UTC for one that a person wrote without."""
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)


_VALUES = {
    "level": "SELECT level AS value",
    "kind": "SELECT kind AS value",
    "channel": "SELECT channel AS value",
    "session": "SELECT session_id AS value",
    "time": "SELECT unixepoch(created_at) AS value",
}
"""Where the values of a field are; those of any other are in the node's marks, null, one or a list."""

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

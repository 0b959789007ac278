"""A filter as SQL over the catalogue's nodes, so that a list is filtered as a search is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..filters import Condition, Filter, Group

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

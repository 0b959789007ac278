"""Reverting of a run's change to a file, while links that were added since stay.

Links are the product's own: a later run that links a memory to another must not keep an earlier run from being undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .. import okf
from ..model import Conflict, InvalidInput
from ..okf import session

LISTS: Final = frozenset({"supersedes", "contradicts", "later", "reinforced"})
"""Keys whose entries are reverted one by one."""

LINKS: Final = LISTS | {"superseded_by", "valid_from", "valid_to"}
"""The keys that only link memories or revive one."""


def reverted(before: bytes | None, after: bytes | None, current: bytes | None) -> bytes | None:
    """Return the `current` file without the change from `before` to `after`; None for no file.

    Raises Conflict, with the reason, where anything but links has changed since, or the same link has.
    """
    if current == after:
        return before
    if current is None or after is None:
        raise Conflict("the file is no longer as the run left it")
    old, left, now = (okf.parse(data or b"") for data in (before, after, current))
    if not left.meta or now.problem or left.body != now.body or set(_changed(left.meta, now.meta)) - LINKS:
        raise Conflict("the file is no longer as the run left it")
    if before is None:
        return None
    changes = {key: _reverted_value(key, old.meta, left.meta, now.meta) for key in _changed(old.meta, left.meta)}
    try:
        content = okf.edit(current, changes)
        return content if old.body == now.body else okf.with_body_of(content, before)
    except InvalidInput as error:
        raise Conflict(str(error)) from error


def with_lost_turns(before: bytes, current: bytes) -> bytes:
    """Return a session with the turns that it lost: as it was, or, where it went on since, with them at its end.

    There they get other numbers: those that they had are of the turns that followed.
    """
    if before.startswith(current):
        return before
    there = session.parse(current)
    known = set(map(session.identity, there.turns))
    lost = [turn for turn in session.parse(before).turns if session.identity(turn) not in known]
    return current + session.continuation(there, lost)


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    return (key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _reverted_value(key: str, old: Mapping[str, Any], left: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
    """Return the reverted value of a key that the run changed."""
    if now.get(key) == left.get(key) or now.get(key) == old.get(key):
        return old.get(key)
    if key not in LISTS:
        raise Conflict(f"its {key} has changed since")
    was, set_, kept = _items(old.get(key)), _items(left.get(key)), _items(now.get(key))
    back = [item for item in was if item not in set_ and item not in kept]
    return [*back, *(item for item in kept if item in was or item not in set_)] or None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]

"""Standing: what a memory's file says of its own life: that it was put away, or what took its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from ..keep import okf
from ..model import NodeId, Status

ENDINGS: Final = ("superseded_by", "valid_to", "archived_at")
"""The keys that say that a memory does not hold any more."""


def is_over(meta: Mapping[str, Any]) -> bool:
    """Whether its own file says that a memory was put away, or that something took its place."""
    return (
        bool(meta.get("superseded_by"))
        or meta.get("archived_at") is not None
        or meta.get("status") == Status.DEPRECATED.value
    )


def revival(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The keys to change so that a memory lives again."""
    changes: dict[str, Any] = dict.fromkeys(ENDINGS)
    if meta.get("status") == Status.DEPRECATED.value:
        changes["status"] = Status.STABLE.value
    return changes


def released(data: bytes, heir: NodeId | None) -> bytes:
    """A file whose successor goes away: its memory lives again, or gives way to the `heir` that took that one's place.

    Raises InvalidInput where the frontmatter cannot be edited.
    """
    if heir is not None:
        return okf.edit(data, {"superseded_by": heir})
    return okf.edit(data, revival(okf.parse(data).meta))


def last_successor(
    node_id: NodeId, read: Callable[[NodeId], bytes | None], gone: Collection[NodeId] = ()
) -> NodeId | None:
    """The last of those that took a memory's place, one after the other, as far as their files are there.

    None where there is none, and where they go in a circle. Those that are `gone` count as passed through.
    """
    seen, last = {node_id}, None
    data = read(node_id)
    while data is not None:
        successor = okf.parse(data).meta.get("superseded_by")
        if not isinstance(successor, str):
            return last
        if successor in seen:
            return None
        seen.add(successor)
        data = read(successor)
        if data is not None and successor not in gone:
            last = successor
    return last

"""The standing of a memory as its file states it: archived, superseded or live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from .. import okf
from ..model import Memory, NodeId, Status

SAME_AS: Final = "same_as"
"""The key of an archived memory that lists the one that says the same, and holds."""

ENDINGS: Final = ("superseded_by", "valid_to", "archived_at", SAME_AS)
"""The keys of a memory that no longer holds."""


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
    """Return the changes to a memory's keys by which another took its place, disputes it, or gave way to it no more."""
    links = {"contradicts": memory.contradicts, "later": memory.later, "supersedes": memory.supersedes}
    left = {key: [one for one in listed if one != other] or None for key, listed in links.items() if other in listed}
    status = {"status": memory.status.value}
    return left | (revival(status) if memory.superseded_by == other else {})


def released(data: bytes, heir: NodeId | None) -> bytes:
    """Return a file whose successor is removed: live again, or superseded by the `heir`, that one's own successor.

    Raises InvalidInput where the frontmatter cannot be edited.
    """
    if heir is not None:
        return okf.edit(data, {"superseded_by": heir})
    return okf.edit(data, revival(okf.parse(data).meta))


def successors(node_id: NodeId, read: Callable[[NodeId], bytes | None]) -> Sequence[NodeId]:
    """Return the memory that has taken a memory's place, the one that has taken its place, and so on.

    A file that is gone ends the chain, and is in it; so does a circle.
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

    None where there is none, and where the successors form a circle. Those in `gone` are passed through.
    """
    chain = successors(node_id, read)
    if len({node_id, *chain}) <= len(chain):
        return None
    return next((one for one in reversed(chain) if one not in gone and read(one) is not None), None)


def _successor(meta: Mapping[str, Any]) -> NodeId | None:
    """Return the memory that superseded one, or else says the same."""
    named = meta.get("superseded_by") or meta.get(SAME_AS)
    named = named[0] if isinstance(named, list) and named else named
    return named if isinstance(named, str) else None

"""Decisions: two living memories that contradict each other wait for a person, who says which one holds.

What is decided is a run like any other: `undo` takes it back. Its tombstone keeps dreams from asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Literal

from ..find.index.catalog import Catalog
from ..find.index.projection import Node
from ..keep import okf
from ..keep.files.vault import Vault
from ..model import Action, InvalidInput, Memory, NodeId, NotFound, Status
from .runs import REVIEW
from .standing import is_over, revival

Choice = Literal["newer", "older", "both", "edit"]

MOST_TURNS: Final = 3
EXCERPT_CHARS: Final = 600


@dataclass(frozen=True, slots=True)
class Said:
    """A turn that a memory rests on."""

    node_id: NodeId
    role: str
    at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two memories. `since` is from when it holds, as far as that is known."""

    node_id: NodeId
    path: str
    title: str
    text: str
    channel: str
    since: datetime | None
    evidence: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A question that only a person can answer. `decision_id` is the same as long as the two memories are."""

    decision_id: str
    older: Side
    newer: Side


def pair_key(one: NodeId, other: NodeId) -> str:
    """What a tombstone forbids once a person has decided about two memories, whichever is named first."""
    return "pair:" + "+".join(sorted((one, other)))


def decision_id(one: NodeId, other: NodeId) -> str:
    """The short name of a decision about two memories."""
    return sha256(pair_key(one, other).encode()).hexdigest()[:8]


class Decisions:
    """Finds what is open, and plans what a person decides. `read` raises NotFound for a file that is gone."""

    def __init__(self, catalog: Catalog, vault: Vault, decided: Callable[[], Iterable[str]]) -> None:
        self._catalog = catalog
        self._vault = vault
        self._decided = decided

    def open(self) -> list[Decision]:
        """Every pair of living memories of which one says that it contradicts the other, the newest first."""
        closed = frozenset(self._decided())
        pairs = {tuple(sorted(pair)): pair for pair in self._catalog.conflicts()}
        found = [self._decision(*pair) for pair in pairs.values() if pair_key(*pair) not in closed]
        return sorted(
            (decision for decision in found if decision), key=lambda d: d.newer.since or _LONG_AGO, reverse=True
        )

    def find(self, name: str) -> Decision:
        """An open decision by its id, or by a memory that is part of no other. Raises NotFound, InvalidInput."""
        waiting = self.open()
        found = [d for d in waiting if d.decision_id == name] or [
            d for d in waiting if name in (d.older.node_id, d.newer.node_id)
        ]
        if not found:
            raise NotFound(f"no decision {name} waits", hint="`dreamctl review --list` shows those that do.")
        if len(found) > 1:
            raise InvalidInput(
                f"{name} is part of {len(found)} decisions",
                hint="Name one by its id: " + ", ".join(d.decision_id for d in found) + ".",
            )
        return found[0]

    def actions(
        self, decision: Decision, choice: Choice, by: str, now: datetime, text: str = "", title: str = ""
    ) -> tuple[Action, ...]:
        """What a choice does to the two files. `edit` gives the newer one a `text`, and lets it hold."""
        older, newer = self._memory(decision.older.path), self._memory(decision.newer.path)
        vouched = {"by": f"human:{by}", "at": now.isoformat()}
        if choice == "both":
            changes = (_settled(older, newer, vouched), _settled(newer, older, vouched))
            reason = "both hold, a person says"
        elif choice == "older":
            rejected = {
                "status": Status.DEPRECATED.value,
                "archived_at": now.isoformat(),
                "superseded_by": older.node_id,
            }
            changes = (_settled(older, newer, vouched), _settled(newer, older) | rejected)
            reason = "the older one holds, a person says"
        else:
            since = decision.newer.since or now
            ended = {"superseded_by": newer.node_id, "valid_to": since.isoformat()}
            begun = {
                "supersedes": list(dict.fromkeys((*newer.supersedes, older.node_id))),
                "valid_from": since.isoformat(),
            }
            begun |= {"title": title} if choice == "edit" else {}
            changes = (_settled(older, newer) | ended, _settled(newer, older, vouched) | begun)
            reason = "the newer one holds, a person says"
        mark = pair_key(older.node_id, newer.node_id)
        return (
            self._replace(older, changes[0], reason, mark),
            self._replace(newer, changes[1], reason, mark, text if choice == "edit" else None),
        )

    def _decision(self, one: NodeId, other: NodeId) -> Decision | None:
        nodes = self._catalog.nodes([one, other])
        try:
            sides = [self._memory(nodes[node_id].path) for node_id in (one, other)]
        except (KeyError, NotFound):
            return None
        if all(is_reviewed(side.extra) for side in sides):
            return None
        older, newer = sorted(sides, key=lambda side: (side.since or _LONG_AGO, side.node_id))
        return Decision(decision_id(one, other), self._side(older), self._side(newer))

    def _side(self, memory: Memory) -> Side:
        turns = [evidence.node_id for evidence in self._catalog.evidence([memory.node_id])[memory.node_id]]
        nodes = self._catalog.nodes(turns[:MOST_TURNS])
        said = tuple(_said(nodes[turn]) for turn in turns if turn in nodes and nodes[turn].live)
        return Side(memory.node_id, memory.path, memory.title, memory.text, memory.channel, memory.since, evidence=said)

    def _memory(self, path: str) -> Memory:
        return okf.to_memory(path, okf.parse(self._vault.read(path)))

    def _replace(
        self, memory: Memory, changes: Mapping[str, Any], reason: str, mark: str, text: str | None = None
    ) -> Action:
        data = self._vault.read(memory.path)
        content = okf.edit(data, changes)
        content = content if text is None else with_body(content, text)
        return Action.replacing(
            memory.path, memory.node_id, data, content, stage=REVIEW, reason=reason, fingerprint=mark
        )


def with_body(data: bytes, text: str) -> bytes:
    """A file with another body; its frontmatter stays byte for byte."""
    body = okf.parse(data).body.encode()
    if not data.endswith(body):
        raise InvalidInput("the file is not UTF-8", hint="Mend it by hand first.")
    return data[: len(data) - len(body)] + f"\n{text}\n".encode()


def restoring(node: Node, data: bytes, successor: NodeId | None) -> Action:
    """The action that brings an archived memory back, or one whose successor is gone.

    Raises InvalidInput for one that is neither; `successor` is the last that took its place, of those still there.
    """
    meta = okf.parse(data).meta
    if successor is not None:
        hint = f"`dreamctl forget {successor}` takes that one back, and so brings this one back."
        raise InvalidInput(f"{successor} has taken its place", hint=hint)
    if not is_over(meta):
        raise InvalidInput(f"{node.node_id} is not archived", hint=f"`dreamctl show {node.node_id}` says what it is.")
    content = okf.edit(data, revival(meta))
    reason = "brought back by its person"
    return Action.replacing(node.path, node.node_id, data, content, stage="restore", reason=reason)


def is_reviewed(meta: Mapping[str, object]) -> bool:
    """Whether a person has vouched for a memory (`verified: [{by: human:…}]`)."""
    listed = meta.get("verified")
    return isinstance(listed, list) and any(
        isinstance(entry, Mapping) and str(entry.get("by", "")).startswith("human:") for entry in listed
    )


def _settled(memory: Memory, other: Memory, vouched: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What every choice does: the two contradict each other no more, and what holds is vouched for."""
    left = [node_id for node_id in memory.contradicts if node_id != other.node_id]
    changes: dict[str, Any] = {"contradicts": left or None}
    if vouched is not None:
        listed = memory.extra.get("verified")
        changes["verified"] = [*(listed if isinstance(listed, list) else ()), dict(vouched)]
    return changes


def _said(turn: Node) -> Said:
    return Said(turn.node_id, turn.role, turn.created_at, turn.text[:EXCERPT_CHARS])


_LONG_AGO = datetime.min.replace(tzinfo=UTC)

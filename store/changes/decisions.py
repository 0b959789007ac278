"""Decisions about two memories: they contradict each other, or a dream marked one as replaced by the other.

A contradiction waits for a person; a mark stays until a person takes it back. A decision is applied as a run, so that
`undo` reverts it; its tombstone keeps dreams from raising it, or from marking the two, again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeVar

from .. import okf
from ..core import Core
from ..door import outgoing
from ..index.projection import SUCCESSOR, Node
from ..index.tombstones import edit_key, pair_key
from ..model import COLLEAGUE, Action, InvalidInput, Memory, NodeId, NotFound, Status
from .links import REPEATS, is_over, parted, revival
from .run_kinds import REVIEW

# The older memory of two is replaced by the newer, or likely changed by it; the newer was archived as the `same`; or
# one memory, which is both sides, faded and was archived.
Choice = Literal["newer", "older", "both", "edit"]
Mark = Literal["replaced", "likely", "same", "archived"]

# The stage of a dream that archives faded memories, and the most memories that are listed as archived.
DECAY, MOST_ARCHIVED = "decay", 300

_SAME_AS = re.compile(rb"\bsame_as:\s*(?:\[|-)?\s*[\"']?([\w.-]+)")

MOST_TURNS: Final = 3
EXCERPT_CHARS: Final = 600


@dataclass(frozen=True, slots=True)
class CitedTurn:
    """A turn that a memory cites."""

    node_id: NodeId
    role: str
    at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two memories. `since`: the time from which it holds, if known."""

    node_id: NodeId
    path: str
    title: str
    text: str
    channel: str
    since: datetime | None
    evidence: tuple[CitedTurn, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A question that only a person can answer, or a `mark` that they can take back.

    `decision_id` depends on the two memories alone.
    """

    decision_id: str
    older: Side
    newer: Side
    mark: Mark | None = None


class Marks(NamedTuple):
    """A page of the marks, and how many there are."""

    total: int
    marks: Sequence[Decision]


class _Marked(NamedTuple):
    """A marked pair as the index has it."""

    older: Node
    newer: Node
    mark: Mark

    @property
    def pair(self) -> tuple[NodeId, NodeId]:
        return self.older.node_id, self.newer.node_id

    @property
    def decision_id(self) -> str:
        return decision_id(*self.pair)

    def as_decision(self) -> Decision:
        """Return it for a client: both texts, without the turns that they cite."""
        older, newer = (
            Side(node.node_id, node.path, outgoing(node.title), outgoing(node.text), node.channel, node.since)
            for node in (self.older, self.newer)
        )
        return Decision(self.decision_id, older, newer, self.mark)


def decision_id(one: NodeId, other: NodeId) -> str:
    """Return the short id of a decision about two memories."""
    return sha256(pair_key(one, other).encode()).hexdigest()[:8]


class Decisions:
    """Lists open decisions and plans the actions of a choice."""

    def __init__(self, core: Core) -> None:
        self._catalog = core.catalog
        self._vault = core.vault
        self._tombstones = core.tombstones
        self._ledger = core.ledger

    def open(self) -> list[Decision]:
        """Return each pair of live memories that are linked as contradictory and not decided, newest first."""
        closed = frozenset(self._tombstones.names)
        # Each of two contradictory memories may name the other: the pair counts once.
        pairs = {tuple(sorted(pair)): pair for pair in self._catalog.conflicts()}
        found = [self._decision(*pair) for pair in pairs.values() if pair_key(*pair) not in closed]
        return sorted(
            (decision for decision in found if decision), key=lambda d: d.newer.since or _LONG_AGO, reverse=True
        )

    def marks(self, offset: int = 0, limit: int | None = None) -> Marks:
        """Return a page of the pairs that dreams or `remember` marked: the doubtful first, then the newest."""
        found = self._marked()
        return Marks(len(found), [one.as_decision() for one in found[offset:][:limit]])

    def _marked(self) -> list[_Marked]:
        closed = frozenset(self._tombstones.names)
        pairs = [pair for pair in self._catalog.marks() if pair_key(*pair[:2]) not in closed]
        nodes = self._catalog.nodes({name for pair in pairs for name in pair[:2]})
        found = [_Marked(nodes[old], nodes[new], mark) for old, new, mark in pairs if {old, new} <= nodes.keys()]
        found.sort(key=lambda one: (one.mark != "likely", -(one.newer.since or _LONG_AGO).timestamp()))
        return [*found, *(one for one in self._archived() if pair_key(*one.pair) not in closed)]

    def _archived(self) -> Iterator[_Marked]:
        """Yield the memories that dreams archived, the latest first: as repetitions of others, or as faded."""
        names = self._ledger.archived_by_runs(DECAY, REPEATS, MOST_ARCHIVED)
        nodes = self._catalog.nodes(names)
        for node in (nodes[name] for name in names if name in nodes):
            if node.live or node.forgotten or self._catalog.links(node.node_id, SUCCESSOR):
                continue
            data = self._vault.read_if_any(node.path)
            if data is None:
                continue
            found = _SAME_AS.search(
                data.partition(b"\n---")[0]
            )  # reading the YAML of hundreds of files would take seconds
            stands = self._catalog.nodes([name := found[1].decode()]).get(name) if found else None
            yield _Marked(stands or node, node, "same" if stands else "archived")

    def find(self, name: str) -> Decision:
        """Find an open decision, else a mark, by its id or by one of its memories.

        Raises NotFound; InvalidInput for several.
        """
        waiting = _named(self.open(), name)
        marked = [] if waiting else _named(self._marked(), name)
        names = [one.decision_id for one in waiting] + [one.decision_id for one in marked]
        if not names:
            raise NotFound(f"no decision {name} waits", hint="`dreamctl review --list` shows those that do.")
        if len(names) > 1:
            hint = f"Name one by its id: {', '.join(names)}."
            raise InvalidInput(f"{name} is part of {len(names)} decisions", hint=hint)
        return waiting[0] if waiting else marked[0].as_decision()

    def actions(
        self, decision: Decision, choice: Choice, by: str, now: datetime, text: str = "", title: str = ""
    ) -> tuple[Action, ...]:
        """Plan the changes of a choice to the two files. `edit` gives the newer one a new `text`, and lets it hold."""
        older, newer = self._memory(decision.older.path), self._memory(decision.newer.path)
        verified = {"by": f"human:{by}", "at": now.isoformat()}
        if decision.mark in ("same", "archived"):
            return self._of_archived(older, newer, choice, verified)
        if choice == "both" and decision.mark:  # neither is verified: a later memory may replace it
            changes = (parted(older, newer.node_id), parted(newer, older.node_id))
            reason = "a person decided that the newer one does not change the older"
        elif choice == "both":
            changes = (_settled(older, newer, verified), _settled(newer, older, verified))
            reason = "a person decided that both hold"
        elif choice == "older":
            rejected = {
                "status": Status.DEPRECATED.value,
                "archived_at": now.isoformat(),
                "superseded_by": older.node_id,
            }
            changes = (_settled(older, newer, verified), _settled(newer, older) | rejected)
            reason = "a person decided that the older one holds"
        else:
            since = decision.newer.since or now
            ended = {"superseded_by": newer.node_id, "valid_to": since.isoformat()}
            begun = {
                "supersedes": list(dict.fromkeys((*newer.supersedes, older.node_id))),
                "valid_from": since.isoformat(),
            }
            begun |= {"title": title} if choice == "edit" else {}
            changes = (_settled(older, newer) | ended, _settled(newer, older, verified) | begun)
            reason = "a person decided that the newer one holds"
        key = pair_key(older.node_id, newer.node_id)
        replaced = (
            self._replace(older, changes[0], reason, key),
            self._replace(newer, changes[1], reason, key, text if choice == "edit" else None),
        )
        return tuple(action for action, changed in zip(replaced, changes, strict=True) if changed)

    def _of_archived(
        self, stands: Memory, archived: Memory, choice: Choice, verified: Mapping[str, str]
    ) -> tuple[Action, ...]:
        """Plan a choice about an archived memory: `both` brings it back, for good; any other agrees."""
        if choice == "edit":
            raise InvalidInput(f"{archived.node_id} is archived", hint="Bring it back first (`both`), then edit it.")
        key = pair_key(stands.node_id, archived.node_id)
        if choice != "both":
            reason = "a person decided that it stays archived"
            return (self._replace(stands, _settled(stands, archived, verified), reason, key),)
        data = self._vault.read(archived.path)
        content = okf.edit(data, revival(okf.parse(data).meta))
        # Whatever a dream finds later, it does not make the same edit again.
        again = edit_key(archived.path, content, data)
        return (
            Action.replacing(
                archived.path,
                archived.node_id,
                data,
                content,
                stage=REVIEW,
                reason="a person decided that it still holds",
                fingerprint="\n".join(filter(None, (key, again))),
            ),
        )

    def _decision(self, one: NodeId, other: NodeId) -> Decision | None:
        nodes = self._catalog.nodes([one, other])
        try:
            sides = [self._memory(nodes[node_id].path) for node_id in (one, other)]
        except (KeyError, NotFound):
            return None
        # The acceptance of a colleague's word decides nothing about what it disputes.
        if all(is_reviewed(side.extra) and side.provenance != COLLEAGUE for side in sides):
            return None
        older, newer = sorted(sides, key=lambda side: (side.since or _LONG_AGO, side.node_id))
        return Decision(decision_id(one, other), self._side(older), self._side(newer))

    def _side(self, memory: Memory) -> Side:
        turns = [evidence.node_id for evidence in self._catalog.evidence([memory.node_id])[memory.node_id]]
        nodes = self._catalog.nodes(turns[:MOST_TURNS])
        said = tuple(_said(nodes[turn]) for turn in turns if turn in nodes and nodes[turn].live)
        title, text = outgoing(memory.title), outgoing(memory.text)
        return Side(memory.node_id, memory.path, title, text, memory.channel, memory.since, evidence=said)

    def _memory(self, path: str) -> Memory:
        return okf.to_memory(path, okf.parse(self._vault.read(path)))

    def _replace(
        self, memory: Memory, changes: Mapping[str, Any], reason: str, key: str, text: str | None = None
    ) -> Action:
        data = self._vault.read(memory.path)
        content = okf.edit(data, changes)
        content = content if text is None else with_body(content, text)
        return Action.replacing(
            memory.path, memory.node_id, data, content, stage=REVIEW, reason=reason, fingerprint=key
        )


def _named(pairs: Sequence[_Pair], name: str) -> list[_Pair]:
    by_memory = [one for one in pairs if name in (one.older.node_id, one.newer.node_id)]
    return [one for one in pairs if one.decision_id == name] or by_memory


def with_body(data: bytes, text: str) -> bytes:
    """Return a file with another body; its frontmatter stays byte for byte."""
    body = okf.parse(data).body.encode()
    if not data.endswith(body):
        raise InvalidInput("the file is not UTF-8", hint="Repair it by hand first.")
    return data[: len(data) - len(body)] + f"\n{text}\n".encode()


def restoring(node: Node, data: bytes) -> Action:
    """Return the action that restores an archived memory, or one whose successor is gone.

    Raises InvalidInput for any other memory.
    """
    meta = okf.parse(data).meta
    if not is_over(meta):
        raise InvalidInput(f"{node.node_id} is not archived", hint=f"`dreamctl show {node.node_id}` says what it is.")
    content = okf.edit(data, revival(meta))
    reason = "restored by a person"
    return Action.replacing(node.path, node.node_id, data, content, stage="restore", reason=reason)


def is_reviewed(meta: Mapping[str, object]) -> bool:
    """Return True if a person has verified a memory (`verified: [{by: human:…}]`)."""
    listed = meta.get("verified")
    return isinstance(listed, list) and any(
        isinstance(entry, Mapping) and str(entry.get("by", "")).startswith("human:") for entry in listed
    )


def _settled(memory: Memory, other: Memory, verified: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the changes of every choice: the links between the two go, and a memory that holds is verified."""
    changes = parted(memory, other.node_id)
    if verified is not None:
        listed = memory.extra.get("verified")
        changes["verified"] = [*(listed if isinstance(listed, list) else ()), dict(verified)]
    return changes


def _said(turn: Node) -> CitedTurn:
    return CitedTurn(turn.node_id, turn.role, turn.created_at, outgoing(turn.text)[:EXCERPT_CHARS])


_Pair = TypeVar("_Pair", Decision, _Marked)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

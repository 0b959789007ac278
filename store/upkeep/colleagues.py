"""The memories that a person shares with a project's colleagues, and theirs: quotes of them, apart until accepted.

A colleague's words lie in a channel of their own, `PROJECT/+team` (`store/channel.py`), as facts that wait for review.
Nothing reads that channel unasked: no hook, no dream, no page, no link of a memory of one's own. Recall asks it by
itself, after one's own memory and behind it. So a colleague's words can neither replace, contradict nor outrank one's
own; when their person accepts them they move to the project's channel, still with their author.

An entry says a text, its kind, its day and its evidence, and nothing else: channel, id, path, author and every key of
the file are given here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import Any, Final, Literal

from .. import okf
from ..changes.agent_statements import SHAREABLE
from ..changes.run_kinds import SYNC, WITHDREW, AppliedRun, new_run_id
from ..changes.runs import Runs
from ..channel import OF_USER, TEAM, WITHIN, team_of
from ..core import Core
from ..door import outgoing
from ..index.projection import FOOTNOTE, Node
from ..index.tombstones import fingerprint
from ..limits import INFERRED_CERTAINTY
from ..model import (
    AWAITS_REVIEW,
    COLLEAGUE,
    GLOBAL_CHANNEL,
    Action,
    ActionKind,
    Changeset,
    InvalidInput,
    Kind,
    Level,
    Memory,
    NodeId,
)
from ..okf.memory_file import BY_HAND, body_hash
from ..roles import MACHINES, Role
from ..text.fence import plain, speaker_name, unmarked, unmarked_lines
from ..text.quotes import title_of

SHARED, WITHDRAWN = "shared", "withdrawn"
"""The kinds of entry: a memory that its author shared, and one that they no longer do."""

MOST_CHARS, MOST_QUOTES, QUOTE_CHARS = 4000, 3, 600
"""Of an entry: the characters of its text, the quotes of its evidence, and the characters of each."""

MOST_OF_AUTHOR, MOST_WAITING = 200, 500
"""The memories of one colleague that are looked at, and those of a project that wait for review at once."""

TITLE_CHARS, MOST_AUTHOR_CHARS = 80, 120

ENTRY_DIGITS: Final = 12
"""Of an entry's hash in the file of its memory: a whole one looks like a token."""

FIRST_YEAR: Final = 2000
"""A day before it is no day on which something was said to an agent."""

_KEYS: Final = {SHARED: {"kind", "as", "text", "said_at", "quotes"}, WITHDRAWN: {"kind", "of"}}
_OF_A_QUOTE: Final = {"by", "at", "text"}

TeamState = Literal["waits", "accepted", "declined", "withdrawn", "yours", "not let in"]
"""The state of a colleague's entry here; `yours`: a memory of one's own says the same."""


@dataclass(frozen=True, slots=True)
class TeamEntry:
    """An entry of a colleague: its name in the segment `ref`, whose one writer is the `author`, and its body."""

    ref: str
    author: str
    entry_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LetIn:
    """The run that let in memories of colleagues, "" for none, its counts, and why others stay out.

    `kept` are those that their authors withdrew now, and that their person had accepted: they stay.
    """

    run_id: str
    came: int
    went: int
    refused: Sequence[str]
    kept: Sequence[Memory] = ()


class Colleagues:
    """Releases memories to a project's team, and lets in those of its colleagues. Any thread may call it."""

    def __init__(self, core: Core, runs: Runs) -> None:
        self._core = core
        self._runs = runs

    # ---- what leaves

    def body_of(self, node_id: NodeId, project: str, author: str) -> dict[str, Any]:
        """Return the entry by which a memory of a project is shared: redacted, with its evidence quoted.

        Raises NotFound, and InvalidInput for a memory of no project, no fact, rule or procedure, or a colleague's.
        """
        self._core.settle()
        node = self._core.node(node_id)
        path = self._core.lookup.path_of(node_id)
        data = self._core.vault.read_if_any(path) if path else None
        if data is None or node.kind not in SHAREABLE or node.level is Level.PROFILE:
            raise InvalidInput(f"{node_id} is a {node.kind}", hint="Share a fact, a rule or a procedure.")
        memory = okf.to_memory(path or "", okf.parse(data))
        if node.channel == GLOBAL_CHANNEL or f"{WITHIN}{OF_USER}" in node.channel:
            raise InvalidInput(f"{node_id} is of no project", hint="What holds for all of yours is yours alone.")
        if node.channel.partition(WITHIN)[0] != project:
            raise InvalidInput(f"{node_id} is of {node.channel}, not of {project}", hint="Go to that project's folder.")
        if not node.live:
            raise InvalidInput(f"{node_id} holds no longer", hint="`dreamctl restore` brings it back.")
        if memory.is_waiting or memory.provenance == COLLEAGUE:
            raise InvalidInput(f"{node_id} is not your word", hint="Colleagues share their own.")
        text = self._core.door.statement(FOOTNOTE.sub("", outgoing(memory.text)))
        if len(text) > MOST_CHARS:
            raise InvalidInput(f"{node_id} has {len(text)} characters", hint=f"{MOST_CHARS} are the most.")
        said_at = memory.created_at.astimezone(UTC).isoformat() if memory.created_at else None
        quotes = [self._quoted(turn, author) for turn in self._evidence(node_id)]
        return {"kind": SHARED, "as": memory.kind.value, "text": text, "said_at": said_at, "quotes": quotes}

    def _evidence(self, node_id: NodeId) -> list[Node]:
        cited = [one.node_id for one in self._core.catalog.evidence([node_id])[node_id]]
        nodes = self._core.catalog.nodes(cited[:MOST_QUOTES])
        return [nodes[name] for name in cited[:MOST_QUOTES] if name in nodes and nodes[name].live]

    def _quoted(self, turn: Node, author: str) -> dict[str, Any]:
        text = self._core.door.text(outgoing(turn.text)[:QUOTE_CHARS])
        by = speaker_name(author) if turn.role == Role.USER else turn.role
        return {"by": by, "at": turn.created_at.isoformat() if turn.created_at else None, "text": text}

    # ---- what comes in

    def let_in(self, project: str, entries: Sequence[TeamEntry], before_change: Callable[[], None]) -> LetIn:
        """Let in new memories of colleagues, and take out those that they withdrew and nobody accepted, as one run.

        An accepted one stays, and its file says from then on that it was withdrawn.
        One entry of each author in turn, so that no one of them takes the room of the others. `before_change` is called
        where there is anything to do.
        """
        self._core.settle()
        channel, actions, refused = team_of(project), list[Action](), list[str]()
        if not channel:
            raise InvalidInput(f"{project} is no project", hint="Go to the folder of a git repository.")
        withdrawn = {_node_of(channel, one.ref, str(one.body.get("of"))) for one in entries if _is(one, WITHDRAWN)}
        names = {_node_of(channel, one.ref, one.entry_id): one for one in entries if _is(one, SHARED)}
        there = self._core.catalog.nodes([*withdrawn, *names])
        gone = [self._withdrawing(there[name]) for name in sorted(withdrawn & there.keys())]
        actions += [action for action in gone if action is not None]
        waiting = sum(node.channel == channel for node in self._listed(channel)) - _number(actions, ActionKind.DELETE)
        seen: set[NodeId] = set()
        for one in _in_turn(entries):
            try:
                memory = self._memory(project, one)
            except InvalidInput as error:
                refused.append(f"{one.author}, entry {one.entry_id[:8]}: {error}")
                continue
            key = fingerprint(memory)
            is_known = memory.node_id in there or memory.node_id in withdrawn or key in self._core.tombstones.names
            if is_known or memory.node_id in seen or self._is_said_here(project, memory.text):
                continue
            if waiting >= MOST_WAITING:
                refused.append(f"{one.author}, entry {one.entry_id[:8]}: {MOST_WAITING} of colleagues wait already")
                continue
            waiting += 1
            seen.add(memory.node_id)
            actions.append(_creating(memory, key))
        if not actions:
            return LetIn("", 0, 0, refused)
        if any(action.kind is not ActionKind.REPLACE for action in actions):
            before_change()
        applied = self._apply(actions)
        refused += [f"{skipped.node_id}: {skipped.reason}" for skipped in applied.skipped]
        left_out = {skipped.node_id for skipped in applied.skipped}
        done = [action for action in actions if action.node_id not in left_out]
        marked = [
            okf.to_memory(one.path, okf.parse(one.content or b"")) for one in done if one.kind is ActionKind.REPLACE
        ]
        kept = [replace(memory, text=outgoing(memory.text)) for memory in marked]
        came, went = _number(done, ActionKind.CREATE), _number(done, ActionKind.DELETE)
        return LetIn(applied.run_id, came, went, refused, kept)

    def state_of(self, project: str, entry: TeamEntry) -> TeamState:
        """Return the state of a colleague's entry here."""
        channel = team_of(project)
        node = self._core.catalog.node(_node_of(channel, entry.ref, entry.entry_id))
        if node is not None:
            return "waits" if node.channel == channel else "accepted"
        try:
            memory = self._memory(project, entry)
        except InvalidInput:
            return "not let in"
        if fingerprint(memory) in self._core.tombstones.names:
            return "declined"
        return "yours" if self._is_said_here(project, memory.text) else "not let in"

    def _listed(self, channel: str) -> Sequence[Node]:
        return self._core.catalog.listing(channel, Level.FACT, None, MOST_WAITING + 1)

    def _is_said_here(self, project: str, text: str) -> bool:
        node = self._core.catalog.node(okf.fact_id(project, text))
        return node is not None and node.live

    def _withdrawing(self, node: Node) -> Action | None:
        """Return the action by which a withdrawn memory goes, or is marked where its person accepted it.

        None for one that is marked, or does not hold.
        """
        data = self._core.vault.read_if_any(node.path)
        if data is None:
            return None
        memory, why = okf.to_memory(node.path, okf.parse(data)), WITHDREW
        if memory.is_waiting:
            action = Action.replacing(node.path, node.node_id, data, b"", stage=SYNC, reason=why)
            return replace(action, kind=ActionKind.DELETE, content=None)
        origin = memory.extra.get(COLLEAGUE)
        if not node.live or not isinstance(origin, Mapping) or WITHDRAWN in origin:
            return None
        marked = okf.edit(data, {COLLEAGUE: {**origin, WITHDRAWN: True}})
        return Action.replacing(node.path, node.node_id, data, marked, stage=SYNC, reason=why)

    def _memory(self, project: str, entry: TeamEntry) -> Memory:
        """Return the memory of an entry. Raises InvalidInput for one that is not as entries are."""
        now, channel = self._core.now(), team_of(project)
        body = _checked(entry.body)
        text = _as_text(unmarked_lines(self._core.door.statement(plain(body["text"])))).strip()
        who = named(entry.author)
        said_at = _moment(body["said_at"], now)
        quotes = [self._line(one, now) for one in body["quotes"]]
        node_id = _node_of(channel, entry.ref, entry.entry_id)
        title = f"{who}: {title_of(text, TITLE_CHARS)}"
        author = self._core.door.title(entry.author)[:MOST_AUTHOR_CHARS]
        origin = {"author": author, "entry": entry.entry_id[:ENTRY_DIGITS], "quotes": quotes}
        return Memory(
            node_id=node_id,
            level=Level.FACT,
            kind=Kind.FACT,
            title=title,
            text=text,
            channel=channel,
            created_at=said_at or now,
            certainty=INFERRED_CERTAINTY,
            provenance=COLLEAGUE,
            said_by=who,
            path=okf.path_for(Level.FACT, title, node_id, channel, kind=Kind.FACT, layout=self._core.layout),
            extra={
                AWAITS_REVIEW: {"kind": body["as"], "because": f"{who} shared it"},
                COLLEAGUE: origin,
                BY_HAND: body_hash(text),
                "learned_at": now.isoformat(),
            },
        )

    def _line(self, quote: Mapping[str, Any], now: datetime) -> str:
        at = _moment(quote["at"], now)
        by = speaker_name(quote["by"]) if quote["by"] in MACHINES else named(quote["by"])
        said = unmarked(self._core.door.text(quote["text"][:QUOTE_CHARS]))
        return f"{f'{at:%-d %b %Y}, ' if at else ''}{by}: {said}"

    def _apply(self, actions: Sequence[Action]) -> AppliedRun:
        run_id = new_run_id(self._core.now(), SYNC)
        kinds = [action.kind for action in actions]
        counts = {name: kinds.count(kind) for name, kind in _COUNTED if kind in kinds}
        many = "1 memory" if len(actions) == 1 else f"{len(actions)} memories"
        summary = {"note": f"{many} of colleagues came for review, or went", **counts}
        return self._runs.apply(Changeset(run_id=run_id, actions=tuple(actions)), kind=SYNC, summary=summary)


_COUNTED: Final = (("created", ActionKind.CREATE), ("deleted", ActionKind.DELETE))


def named(author: str) -> str:
    """Return the speaker of a colleague's words: never a role, nor their name alone, which may be one's own."""
    return f"{COLLEAGUE} {speaker_name(author.partition('<')[0]) or 'unknown'}"[:40].rstrip()


def is_of_team(channel: str) -> bool:
    """Return True for a channel in which colleagues wait."""
    return channel.endswith(TEAM)


def _creating(memory: Memory, key: str) -> Action:
    return Action(
        kind=ActionKind.CREATE,
        path=memory.path,
        node_id=memory.node_id,
        stage=SYNC,
        reason="a colleague shared it",
        content=okf.from_memory(memory),
        fingerprint=key,
    )


def _node_of(channel: str, ref: str, entry_id: str) -> NodeId:
    """Return the id of an entry's memory: of its segment and its hash, so that no entry can claim another's."""
    return okf.fact_id(channel, f"{ref}\0{entry_id}")


def _number(actions: Sequence[Action], kind: ActionKind) -> int:
    return sum(action.kind is kind for action in actions)


def _is(entry: TeamEntry, kind: str) -> bool:
    return entry.body.get("kind") == kind


def _in_turn(entries: Sequence[TeamEntry]) -> Iterator[TeamEntry]:
    """Yield the first entry of each segment, then the second of each, MOST_OF_AUTHOR of one."""
    of_ref: dict[str, list[TeamEntry]] = {}
    for one in entries:
        if _is(one, SHARED):
            of_ref.setdefault(one.ref, []).append(one)
    rounds = zip_longest(*(some[:MOST_OF_AUTHOR] for some in of_ref.values()))
    return (one for one in chain.from_iterable(rounds) if one is not None)


def _checked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a shared memory. Raises InvalidInput for one with other keys, or values that are not so."""
    if others := sorted(map(str, body.keys() - _KEYS[SHARED])):
        raise InvalidInput(f"it claims {', '.join(others)[:80]}, which an entry cannot")
    text, quotes = body.get("text"), body.get("quotes", [])
    if not isinstance(text, str) or not 0 < len(text) <= MOST_CHARS:
        raise InvalidInput(f"its text is none of at most {MOST_CHARS} characters")
    if body.get("as") not in {kind.value for kind in SHAREABLE}:
        raise InvalidInput("it is of no kind that can be shared")
    if not isinstance(quotes, list) or len(quotes) > MOST_QUOTES or not all(map(_is_quote, quotes)):
        raise InvalidInput(f"its evidence is not at most {MOST_QUOTES} quotes")
    return {"as": body["as"], "text": text, "said_at": body.get("said_at"), "quotes": quotes}


def _as_text(text: str) -> str:
    """Break links and tags: an editor that shows the vault would load their addresses, and link to one's own notes."""
    return _LOADED.sub("‹", _LINKED.sub(" ", text))


_LINKED: Final = re.compile(r"(?<=\[)(?=\[)|(?<=\])(?=[(\[])")
_LOADED: Final = re.compile(
    r"<(?=[/!]?(?:a|audio|base|body|embed|form|iframe|img|input|link|meta|object|picture|script|source|style|svg|video)\b)",
    re.IGNORECASE,
)


def _is_quote(quote: object) -> bool:
    return (
        isinstance(quote, dict)
        and quote.keys() == _OF_A_QUOTE
        and isinstance(quote["by"], str)
        and isinstance(quote["text"], str)
    )


def _moment(said: object, now: datetime) -> datetime | None:
    """Return a moment of an entry, no later than now; None for none."""
    at = okf.instant(said) if isinstance(said, str) else None
    if at is None or at.tzinfo is None or at.year < FIRST_YEAR:
        return None
    return min(at.astimezone(UTC), now) if at.year < now.year + 2 else now

"""The method `learn`: the facts of files at once, by a run over their sessions, and an account of each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.channels import full_name
from ...ipc.params import Params
from ...ipc.protocol import Refused
from ...pipelines.messages import LEARN, ReadTurn
from ...store.model import Kind, NodeId
from ...store.names import Channel, Name
from ...store.roles import MACHINES
from ..dreaming.dreamer import Dreamer, DreamResult
from ..importing import FormatName
from ..importing.importer import Account, AddedFormat, Importer
from ..importing.items import Skipped
from .dream_methods import CAUGHT_UP_WITHIN_S, on_progress, refuse_if_paused

if TYPE_CHECKING:
    from ...store import MemoryStore

MOST_PASSAGES, LONGEST_PASSAGE = 200, 400
"""The passages of each list in one answer, and the characters of each."""

FORBIDDEN = "you undid, forgot or rejected it before"
NOTHING = "nothing in it is worth keeping for months"
REFUSED = "the test of the memory left it out: with it, recall would find less"


class LearnParams(Params):
    """The files to learn from, read as `import` does; `channel` is that of their notes, and of all of them if named.

    `agent_id`: an agent's shell asks, so that notes are its words and not its person's.
    """

    paths: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    format: FormatName | AddedFormat | None = None
    channel: Channel | None = None
    agent_id: Name | None = None


@dataclass(frozen=True, slots=True)
class LearnedFact:
    """A fact: its words, the day that it is of, and the memory's id."""

    node_id: NodeId
    kind: Kind
    text: str
    at: datetime | None
    channel: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A turn, or a note's passage, of which no fact was made, and why."""

    node_id: NodeId
    text: str
    at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class LearnAnswer:
    """The facts and the passages without one; `run_id` can be undone, and is null where there was nothing to read.

    `kept` and `known` are facts, `left` passages without one; each holds the first, and `_total` counts all. `changed`
    counts the older facts that the new ones replaced or dispute. `read_before` counts turns that a dream had read.
    """

    run_id: str | None
    state: str
    sessions: int
    turns: int
    read_before: int
    kept: Sequence[LearnedFact]
    kept_total: int
    known: Sequence[LearnedFact]
    known_total: int
    left: Sequence[PassedOver]
    left_total: int
    changed: int
    redacted: int
    skipped: Sequence[Skipped]
    skipped_total: int
    remarks: Sequence[str]
    channels: Sequence[str]
    note: str
    seconds: float


class LearnMethods:
    """The method. It imports in a thread, and its run is a dream's: one at a time, planned by a child."""

    def __init__(self, store: MemoryStore, dreamer: Dreamer) -> None:
        self._store = store
        self._dreamer = dreamer

    async def learn(self, params: LearnParams, call: Call) -> LearnAnswer:
        """Import files, and have their facts now."""
        refuse_if_paused(self._store)
        if relative := [path for path in params.paths if not Path(path).is_absolute()]:
            hint = "The daemon has another working folder; send absolute ones."
            raise Refused(f"{relative[0]} is a relative path.", hint)
        if self._dreamer.running is not None:
            raise Refused(f"The dream {self._dreamer.running} is running.", "`dreamctl runs` shows when it is over.")
        # Before anything is imported, for the run that follows would be refused.
        await asyncio.to_thread(self._store.wait_until_caught_up, CAUGHT_UP_WITHIN_S)
        self._store.refuse_to_dream()
        account = await asyncio.to_thread(self._import, params, call)
        unread = await asyncio.to_thread(self._unread, account)
        result = None
        if unread:
            result = await self._dreamer.dream(
                LEARN, sessions=unread, by_hand=True, awaited=True, progress=on_progress(call)
            )
        return await asyncio.to_thread(self._answer, account, sum(unread.values()), result)

    def _import(self, params: LearnParams, call: Call) -> Account:
        channel = params.channel and full_name(
            params.channel, self._store.channel_names_with(params.channel), beginning=False
        )
        importer = Importer(self._store, call, channel, to_learn=True, written_by=params.agent_id)
        account = importer.take(map(Path, params.paths), params.format)
        self._store.settle()
        return account

    def _unread(self, account: Account) -> dict[NodeId, int]:
        """Return the sessions with turns that no dream has read, and how many each has."""
        unread = {name: len(self._store.turns_of(name, self._store.dreamt_to(name))) for name in account.sessions}
        return {name: number for name, number in unread.items() if number}

    def _answer(self, account: Account, unread: int, result: DreamResult | None) -> LearnAnswer:
        turns = account.turns_added + account.turns_known - account.turns_purged
        read = result.turns if result else ()
        applied = _applied(result) if result else set()
        new = _facts_of(read, "new")
        kept = [fact for fact in new if fact in applied]
        known = [fact for fact in _facts_of(read, "known") if fact not in new]
        left = list(self._left(read, applied))
        return LearnAnswer(
            run_id=result.run_id if result else None,
            state=result.state if result else "nothing",
            sessions=len(account.sessions),
            turns=turns,
            read_before=max(0, turns - unread),
            kept=list(self._facts(kept[:MOST_PASSAGES])),
            kept_total=len(kept),
            known=list(self._facts(known[:MOST_PASSAGES])),
            known_total=len(known),
            left=left[:MOST_PASSAGES],
            left_total=len(left),
            changed=result.actions.get("drift", 0) if result and result.state == "applied" else 0,
            redacted=account.redacted,
            skipped=(*account.refused, *account.skipped)[:MOST_PASSAGES],
            skipped_total=account.skipped_total,
            remarks=account.answer().remarks,
            channels=sorted(account.channels),
            note=result.note if result else "",
            seconds=round(result.seconds, 3) if result else 0.0,
        )

    def _facts(self, node_ids: Iterable[NodeId]) -> Iterator[LearnedFact]:
        for node_id in node_ids:
            shown = self._store.show(node_id, wanted=False)
            yield LearnedFact(node_id, shown.kind, shown.text[:LONGEST_PASSAGE], shown.created_at, shown.channel)

    def _left(self, read: Sequence[ReadTurn], applied: set[NodeId]) -> Iterator[PassedOver]:
        """Yield the turns of people that made no fact, in the order of the files."""
        reasons: dict[NodeId, str] = {}
        for one in read:
            if one.outcome == "new" and one.fact not in applied:
                reasons[one.node_id] = REFUSED
            elif one.outcome in ("forbidden", "nothing"):
                reasons[one.node_id] = FORBIDDEN if one.outcome == "forbidden" else NOTHING
        for session in sorted({node_id.partition("#")[0] for node_id in reasons}):
            for turn in self._store.turns_of(session):
                if turn.node_id in reasons and turn.role not in MACHINES:
                    yield PassedOver(turn.node_id, turn.text[:LONGEST_PASSAGE], turn.created_at, reasons[turn.node_id])


def _facts_of(read: Sequence[ReadTurn], outcome: str) -> dict[NodeId, None]:
    return dict.fromkeys(one.fact for one in read if one.outcome == outcome)


def _applied(result: DreamResult) -> set[NodeId]:
    """Return the nodes that a run changed."""
    refused = {action.path for action in result.refused}
    actions = result.changeset.actions if result.state == "applied" else ()
    return {action.node_id for action in actions if action.path not in refused}


LEARN_METHODS: tuple[Method[Any, Any], ...] = (
    Method("learn", LearnParams, LearnAnswer, LearnMethods.learn, long=True),
)

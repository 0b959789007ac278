"""The table of methods that the store answers: parameters checked, results in the wire's own shape."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .. import __version__
from ..store.model import ALL_CHANNELS, GLOBAL_CHANNEL, Evidence, Hit, Kind, Level, NewTurn, SessionHead
from .call import Call, Handler
from .protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from ..store.memory import Forgotten, MemoryStore, Shown

__all__ = ["Call", "Handler", "Params", "store_handlers"]

# Half a line for the texts of an answer: escapes and everything beside the texts fit into the other half.
MAX_TEXT_BYTES = 2**19
LONGEST_ESCAPE = len("\\u0000")

Limit = Annotated[int, Field(strict=True, ge=1, le=1000)]
Offset = Annotated[int, Field(strict=True, ge=0, le=2**53)]
Query = Annotated[str, Field(max_length=2**16)]
Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Words = Annotated[str, Field(min_length=1, max_length=2**20)]


class Params(BaseModel):
    """Parameters of a method: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParams(Params):
    """A method that takes none."""


class HelloParams(Params):
    """Who calls, and the newest protocol that it speaks."""

    client: Annotated[str, Field(max_length=256)] = ""
    protocol: Annotated[int, Field(strict=True, ge=1)] = PROTOCOL_VERSION


class RecallParams(Params):
    """What to find. No channel: the caller's own and the global one; `*`: all of them."""

    query: Query
    limit: Limit = 10
    channel: Name | None = None
    levels: Annotated[tuple[Level, ...], Field(max_length=4)] = ()
    include_archived: bool = False
    as_of: datetime | None = None
    explain: bool = False
    why_not: Name | None = None


class ContextParams(Params):
    """What to find, and how many tokens an agent has for it."""

    query: Query
    budget_tokens: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    channel: Name | None = None
    session: Name | None = None


class RememberParams(Params):
    """One thing to keep."""

    text: Words
    kind: Literal["note", "fact", "preference", "procedure", "correction", "negative", "decision", "episode"] = "note"
    channel: Name = GLOBAL_CHANNEL
    tags: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    agent_id: Name | None = None


class SessionParams(Params):
    """What is known of a session besides its turns."""

    session_id: Name
    channel: Name = GLOBAL_CHANNEL
    title: Annotated[str, Field(max_length=1024)] = ""
    started_at: datetime | None = None
    agent_id: Name | None = None
    task_id: Name | None = None
    user_id: Name | None = None
    cwd: Annotated[str, Field(max_length=4096)] | None = None


class TurnParams(Params):
    """One message of a session."""

    role: Name
    text: Annotated[str, Field(max_length=2**20)]
    at: datetime | None = None
    external_id: Name | None = None


class ObserveParams(Params):
    """Turns of a session, in order. Sending one again adds nothing."""

    session: SessionParams
    turns: Annotated[tuple[TurnParams, ...], Field(max_length=10_000)]


class ShowParams(Params):
    """One memory or turn; a long text comes in pages, `offset` in characters."""

    node_id: Name
    offset: Offset = 0


class ListParams(Params):
    """A page of memories, newest first."""

    channel: Name | None = None
    level: Level | None = None
    kind: Kind | None = None
    limit: Limit = 50
    offset: Offset = 0


class ForgetParams(Params):
    """One memory to take back, as a run that `undo` can undo."""

    node_id: Name
    reason: Annotated[str, Field(max_length=1024)] = ""


def store_handlers(store: MemoryStore) -> dict[str, Handler]:
    """The methods that need nothing but the store."""

    def recall(params: RecallParams, call: Call) -> dict[str, Any]:
        found = store.recall(
            params.query,
            limit=params.limit,
            channel=params.channel,
            levels=params.levels,
            include_archived=params.include_archived,
            as_of=_aware(params.as_of),
            explain=params.explain or params.why_not is not None,
        )
        hits, left_out = _that_fit(found.hits)
        notes = list(found.notes)
        if left_out:
            notes.append(f"{left_out} more hits are too long for one answer; ask for fewer, or `show` them one by one")
        answer: dict[str, Any] = {"hits": hits, "abstained": found.abstained, "notes": notes}
        if params.explain:
            answer["trace"] = plain(found.trace)
        if params.why_not is not None:
            answer["why_not"] = why_not(store.show(params.why_not), params, found.trace)
        return answer

    def context(params: ContextParams, call: Call) -> dict[str, Any]:
        envelope = store.context(
            params.query, budget_tokens=params.budget_tokens, channel=params.channel, session=params.session
        )
        return {
            "text": envelope.text,
            "tokens": envelope.tokens,
            "slots": [
                {"node_id": slot.node_id, "text": slot.text, "tokens": slot.tokens, "evidence": evidence(slot.evidence)}
                for slot in envelope.slots
            ],
            "abstained": envelope.abstained,
        }

    def remember(params: RememberParams, call: Call) -> Any:
        return store.remember(
            params.text, kind=Kind(params.kind), channel=params.channel, tags=params.tags, agent_id=params.agent_id
        )

    def observe(params: ObserveParams, call: Call) -> Any:
        session = params.session
        head = SessionHead(
            session_id=session.session_id,
            channel=session.channel,
            title=session.title,
            started_at=_aware(session.started_at),
            agent_id=session.agent_id,
            task_id=session.task_id,
            user_id=session.user_id,
            cwd=session.cwd,
        )
        return store.observe(head, [NewTurn(t.role, t.text, _aware(t.at), t.external_id) for t in params.turns])

    def forget(params: ForgetParams, call: Call) -> Forgotten:
        return store.forget(params.node_id, params.reason)

    def show(params: ShowParams, call: Call) -> dict[str, Any]:
        shown = plain(store.show(params.node_id))
        text: str = shown["text"]
        page = cut_to_bytes(text[params.offset :], MAX_TEXT_BYTES)
        end = params.offset + len(page)
        return {**shown, "text": page, "offset": params.offset, "next": end if end < len(text) else None}

    def list_(params: ListParams, call: Call) -> dict[str, Any]:
        listed = store.list(
            channel=params.channel,
            level=params.level,
            kind=params.kind,
            limit=params.limit + 1,
            offset=params.offset,
        )
        more = len(listed) > params.limit
        memories = [plain(memory) for memory in listed[: params.limit]]
        return {"memories": memories, "next": params.offset + params.limit if more else None}

    def status(params: NoParams, call: Call) -> dict[str, Any]:
        return {**hello_answer(), **plain(store.status())}

    return {
        "hello": Handler(HelloParams, lambda params, call: hello_answer()),
        "ping": Handler(NoParams, lambda params, call: {}),
        "recall": Handler(RecallParams, recall, blocking=True, activity=True),
        "context": Handler(ContextParams, context, blocking=True, activity=True),
        "remember": Handler(RememberParams, remember, activity=True, shape=lambda node_id: {"node_id": node_id}),
        "observe": Handler(ObserveParams, observe, activity=True, shape=plain),
        "forget": Handler(ForgetParams, forget, blocking=True, shape=plain),
        "show": Handler(ShowParams, show, blocking=True),
        "list": Handler(ListParams, list_, blocking=True),
        "status": Handler(NoParams, status, blocking=True),
    }


def hello_answer() -> dict[str, Any]:
    """Which daemon answers: its version, process and protocol."""
    return {"version": __version__, "pid": os.getpid(), "protocol": PROTOCOL_VERSION}


def evidence(turns: Iterable[Evidence]) -> list[dict[str, str | None]]:
    """Turns as the wire names them."""
    return [{"node_id": turn.node_id, "external_id": turn.external_id} for turn in turns]


def hit_answer(hit: Hit) -> dict[str, Any]:
    """One hit as the wire says it."""
    return {
        "node_id": hit.node_id,
        "level": str(hit.level),
        "kind": str(hit.kind),
        "title": hit.title,
        "text": hit.text,
        "score": hit.score,
        "channel": hit.channel,
        "created_at": instant(hit.created_at),
        "evidence": evidence(hit.evidence),
    }


def why_not(node: Shown, asked: RecallParams, trace: Mapping[str, Any]) -> dict[str, Any]:
    """Where a memory came in the search, from 1, or why it was not in it."""
    candidates: Sequence[Mapping[str, Any]] = trace.get("candidates") or ()
    places = [
        i for i, candidate in enumerate(candidates, 1) if node.node_id in (candidate["unit"], *candidate["nodes"])
    ]
    if places:
        reason = "it is among the answers" if places[0] <= asked.limit else f"the limit was {asked.limit}"
    elif not node.live and not asked.include_archived:
        reason = "it is archived, or a newer one has taken its place (include_archived looks there too)"
    elif asked.levels and node.level not in asked.levels:
        reason = f"its level is {node.level}"
    elif asked.channel not in (None, ALL_CHANNELS, node.channel) and node.channel != GLOBAL_CHANNEL:
        reason = f"its channel is {node.channel}"
    else:
        reason = f"neither its words nor its meaning were among the nearest; {len(candidates)} others were looked at"
    return {"node_id": node.node_id, "place": places[0] if places else None, "reason": reason}


def instant(at: datetime | None) -> str | None:
    """ISO 8601 with its offset."""
    return at.isoformat() if at is not None else None


def plain(value: Any) -> Any:
    """A dataclass or container of them, in JSON's types: instants in ISO 8601, enums by value, sets sorted."""
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    if (fields := getattr(value, "__dataclass_fields__", None)) is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    return str(value)


def cut_to_bytes(text: str, size_bytes: int) -> str:
    """The longest beginning of a text that takes at most so many bytes inside a JSON string, to within a character."""
    if len(text) * LONGEST_ESCAPE <= size_bytes:
        return text
    size = 0
    for end, character in enumerate(text):
        size += (
            LONGEST_ESCAPE if character < " " else 2 if character in '"\\' else len(character.encode(errors="replace"))
        )
        if size > size_bytes:
            return text[:end]
    return text


def _that_fit(hits: Iterable[Hit]) -> tuple[list[dict[str, Any]], int]:
    """The hits whose texts fit into one answer, the first cut if it must be, and how many are left out."""
    fit: list[dict[str, Any]] = []
    left_out, left = 0, MAX_TEXT_BYTES
    for hit in hits:
        text = cut_to_bytes(hit.text, left)
        if left_out or (fit and len(text) < len(hit.text)):
            left_out += 1
            continue
        fit.append({**hit_answer(hit), "text": text})
        left -= len(text.encode(errors="replace"))
    return fit, left_out


def _aware(at: datetime | None) -> datetime | None:
    """An instant without an offset is taken as UTC."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at

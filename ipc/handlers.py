"""The table of methods that the store answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ..store.keep.deadline import within
from ..store.model import Kind, NewTurn, SessionHead
from ..store.names import Name
from .answers import cut_to_bytes, evidence, hello_answer, hits_that_fit, instant, plain, why_not
from .call import Call, Handler
from .params import (
    ContextParams,
    FeedbackParams,
    ForgetParams,
    HelloParams,
    ListParams,
    NoParams,
    ObserveParams,
    Params,
    PurgeParams,
    RecallParams,
    RememberParams,
    ShowParams,
)

ANSWER_S = 20.0
"""A search or a page that takes longer is broken off; its client was told before, or has left."""

if TYPE_CHECKING:
    from ..store.memory import MemoryStore
    from ..store.results import Forgotten

# What the daemon's own methods are made of, in one place.
AnyParams = TypeVar("AnyParams", bound=Params)

__all__ = ["Call", "Handler", "Name", "NoParams", "Params", "hello_answer", "instant", "plain", "store_handlers"]


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
        hits, left_out = hits_that_fit(found.hits)
        notes = list(found.notes)
        if left_out:
            notes.append(f"{left_out} more hits are too long for one answer; ask for fewer, or `show` them one by one")
        answer: dict[str, Any] = {"hits": hits, "abstained": found.abstained, "notes": notes}
        if params.explain:
            answer["trace"] = plain(found.trace)
        if params.why_not is not None:
            answer["why_not"] = why_not(store.show(params.why_not, wanted=False), params, found.trace)
        return answer

    def context(params: ContextParams, call: Call) -> dict[str, Any]:
        envelope = store.context(
            params.query, budget_tokens=params.budget_tokens, channel=params.channel, session=params.session
        )
        return {
            "text": envelope.text,
            "tokens": envelope.tokens,
            "slots": [
                {
                    "node_id": slot.node_id,
                    "text": slot.text,
                    "tokens": slot.tokens,
                    "evidence": evidence(slot.evidence),
                    "contradicts": list(slot.contradicts),
                }
                for slot in envelope.slots
            ],
            "abstained": envelope.abstained,
            "notes": list(envelope.notes),
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

    def feedback(params: FeedbackParams, call: Call) -> dict[str, Any]:
        store.feedback(params.node_id, params.verdict)
        return {"node_id": params.node_id, "verdict": params.verdict}

    def purge(params: PurgeParams, call: Call) -> dict[str, Any]:
        return {"questions": store.purge_questions() if params.probes else 0}

    def show(params: ShowParams, call: Call) -> dict[str, Any]:
        shown = plain(store.show(params.node_id))
        text: str = shown["text"]
        page = cut_to_bytes(text[params.offset :])
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
        "recall": Handler(RecallParams, bounded(recall), blocking=True, activity=True, first=True),
        "context": Handler(ContextParams, bounded(context), blocking=True, activity=True, first=True),
        "remember": Handler(
            RememberParams, remember, activity=True, first=True, shape=lambda node_id: {"node_id": node_id}
        ),
        "observe": Handler(ObserveParams, observe, activity=True, first=True, shape=plain),
        "forget": Handler(ForgetParams, forget, blocking=True, shape=plain),
        "feedback": Handler(FeedbackParams, feedback, blocking=True),
        "purge": Handler(PurgeParams, purge, blocking=True),
        "show": Handler(ShowParams, bounded(show), blocking=True),
        "list": Handler(ListParams, bounded(list_), blocking=True),
        "status": Handler(NoParams, status, blocking=True),
    }


def bounded(answer: Callable[[AnyParams, Call], Any]) -> Callable[[AnyParams, Call], Any]:
    """Break off a method that only reads when it is not done in time."""

    @wraps(answer)
    def answer_in_time(params: AnyParams, call: Call) -> Any:
        call.raise_if_cancelled()
        with within(ANSWER_S):
            return answer(params, call)

    return answer_in_time


def _aware(at: datetime | None) -> datetime | None:
    """An instant without an offset is taken as UTC."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at

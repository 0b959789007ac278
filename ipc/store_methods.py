"""The table of methods that the store answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ..store import within
from ..store.filters import Clause, Condition, Filter, Group
from ..store.model import ALL_CHANNELS, GLOBAL_CHANNEL, Kind, NewTurn, SessionHead
from ..store.names import Name
from .answers import ContextAnswer, FeedbackAnswer, LinkAnswer, ListAnswer, RecallAnswer, ShowAnswer
from .call import Call, Handler
from .channels import Names, channel_of, channel_of_repository, found_elsewhere, full_name, not_looked_in, nothing_there
from .filters import FilterParams
from .params import (
    ContextParams,
    FeedbackParams,
    ForgetParams,
    HelloParams,
    LinkParams,
    ListParams,
    NoParams,
    ObserveParams,
    Params,
    RecallParams,
    RememberParams,
    ShowParams,
    TagParams,
)
from .serialize import (
    elsewhere_that_fits,
    hello_answer,
    hits_that_fit,
    instant,
    plain,
    show_answer,
    slot_answer,
    trace_answer,
    why_not,
)

ANSWER_S = 20.0
"""A search or a page that takes longer is broken off; its client was answered before, or has left."""

LINKING_S = 2.0
"""The longest that a `show` waits for the background work of comparing what was remembered."""

FILTERED = "only what the filter lets pass was looked at"

if TYPE_CHECKING:
    from ..store import MemoryStore
    from ..store.results import Forgotten, Kept

AnyParams = TypeVar("AnyParams", bound=Params)

# What the daemon's own methods are made of, in one place.
__all__ = ["Call", "Handler", "Name", "NoParams", "Params", "hello_answer", "instant", "plain", "store_handlers"]


def store_handlers(store: MemoryStore) -> dict[str, Handler]:
    """Return the methods that need nothing but the store."""

    def recall(params: RecallParams, call: Call) -> RecallAnswer:
        channel = channel_of(params.channel, params.cwd, store.channel_names_with)
        session = params.session and store.session_name(params.session)
        found = store.recall(
            params.query,
            limit=params.limit,
            channel=channel,
            session=session,
            levels=params.levels,
            include_archived=params.include_archived,
            as_of=params.as_of,
            where=_where(params.filter, store.channel_names_with),
            explain=params.explain or params.why_not is not None,
        )
        hits, left_out = hits_that_fit(found.hits)
        answer: RecallAnswer = {
            "hits": hits,
            "abstained": found.abstained,
            "notes": list(found.notes),
            "channel": channel,
            "confidence": found.confidence,
            "elsewhere": [],
        }
        if left_out:
            more = f"{left_out} more hits are too long for one answer; ask for fewer, or `show` them one by one"
            answer["notes"].append(more)
        if found.abstained:
            held = store.channels()
            answer["notes"] += why_nothing(params, channel, held) + did_you_mean(store.meant(params.query, channel))
            if params.channel is None and not held.get(channel) and not (params.filter or params.as_of):
                answer["elsewhere"] = elsewhere_that_fits(store.elsewhere(params.query, params.limit, session))
        if params.explain:
            answer["trace"] = trace_answer(found.trace)
        if params.why_not is not None:
            node = store.show(params.why_not, wanted=False)
            ruled_out_by = store.ruled_out_by(params.why_not, _where(params.filter, store.channel_names_with))
            answer["why_not"] = why_not(node, params, answer, found.trace, ruled_out_by, session)
        return answer

    def context(params: ContextParams, call: Call) -> ContextAnswer:
        channel = channel_of(params.channel, params.cwd, store.channel_names_with)
        envelope = store.context(
            params.query,
            budget_tokens=params.budget_tokens,
            channel=channel,
            session=params.session and store.session_name(params.session),
            as_of=params.as_of,
            where=_where(params.filter, store.channel_names_with),
        )
        notes = list(envelope.notes)
        if envelope.abstained:
            held = store.channels()
            notes += why_nothing(params, channel, held) + did_you_mean(store.meant(params.query, channel))
            if params.channel is None and not held.get(channel) and not (params.filter or params.as_of):
                notes += found_elsewhere(store.elsewhere(params.query))
        return {
            "text": envelope.text,
            "tokens": envelope.tokens,
            "slots": [slot_answer(slot) for slot in envelope.slots],
            "abstained": envelope.abstained,
            "notes": notes,
            "confidence": envelope.confidence,
            "channel": channel,
        }

    def remember(params: RememberParams, call: Call) -> Any:
        kept = store.keep(
            params.text,
            kind=Kind(params.kind),
            channel=channel_of_repository(params.channel, params.cwd, lambda _: store.channel_names()),
            tags=params.tags,
            agent_id=params.agent_id,
            session=params.session,
            curated=params.priority if params.always else 0,
            idempotency_key=params.idempotency_key,
        )
        return _curated(kept, params.priority) if params.always else kept

    async def _curated(acknowledged: Future[Kept], priority: int) -> Kept:
        """Mark a memory that was known without being curated, which keeping it again does not change."""
        kept = await asyncio.wrap_future(acknowledged)
        if kept.novelty != "new" and not kept.waits:
            await asyncio.to_thread(store.curate, kept.node_id, priority)
        return kept

    def observe(params: ObserveParams, call: Call) -> Any:
        session = params.session
        head = SessionHead(
            session_id=session.session_id,
            channel=channel_of(session.channel, session.cwd),
            title=session.title,
            started_at=session.started_at,
            agent_id=session.agent_id,
            task_id=session.task_id,
            user_id=session.user_id,
            cwd=session.cwd,
        )
        turns = [NewTurn(t.role, t.text, t.at, t.external_id) for t in params.turns]
        return store.observe(head, turns, params.idempotency_key, live=True)

    def forget(params: ForgetParams, call: Call) -> Forgotten:
        return store.forget(params.node_id, params.reason)

    def feedback(params: FeedbackParams, call: Call) -> FeedbackAnswer:
        store.feedback(params.node_id, params.verdict, params.idempotency_key)
        return {"node_id": params.node_id, "verdict": params.verdict}

    def link(params: LinkParams, call: Call) -> LinkAnswer:
        if params.relation == "HasTag":
            tagged = store.tag(params.from_, [params.to])
            return {"source": params.from_, "target": params.to, "relation": "HasTag", "run_id": tagged.run_id}
        answer: LinkAnswer = plain(store.link(params.from_, params.to, params.relation))
        return answer

    def show(params: ShowParams, call: Call) -> ShowAnswer:
        if params.linked:
            store.settle_links(LINKING_S)
        return show_answer(store.show(params.node_id), params.offset)

    def list_(params: ListParams, call: Call) -> ListAnswer:
        channel, within_channels = _listed_in(params, store.channel_names_with)
        listed = store.list(
            channel=channel,
            level=params.level,
            kind=params.kind,
            always=params.always,
            limit=params.limit + 1,
            offset=params.offset,
            where=(*_where(params.filter, store.channel_names_with), *within_channels),
        )
        more = len(listed) > params.limit
        memories = [plain(memory) for memory in listed[: params.limit]]
        return {"memories": memories, "next": params.offset + params.limit if more else None}

    return {
        "hello": Handler(HelloParams, lambda params, call: hello_answer()),
        "ping": Handler(NoParams, lambda params, call: {}),
        "recall": Handler(RecallParams, bounded(recall), blocking=True, activity=True, first=True),
        "context": Handler(ContextParams, bounded(context), blocking=True, activity=True, first=True),
        "remember": Handler(RememberParams, remember, activity=True, first=True, shape=plain),
        "observe": Handler(ObserveParams, observe, activity=True, first=True, shape=plain),
        "forget": Handler(ForgetParams, forget, blocking=True, shape=plain),
        "feedback": Handler(FeedbackParams, feedback, blocking=True),
        "link": Handler(LinkParams, link, blocking=True, activity=True),
        "tag": Handler(
            TagParams,
            lambda params, call: store.tag(params.node_id, params.add, params.remove),
            blocking=True,
            activity=True,
            shape=plain,
        ),
        "show": Handler(ShowParams, bounded(show), blocking=True),
        "list": Handler(ListParams, bounded(list_), blocking=True),
    }


def why_nothing(params: RecallParams | ContextParams, channel: str, held: Mapping[str, int]) -> list[str]:
    """Return notes on why a question found nothing: its filter, an empty channel that it named, or where it looked."""
    if params.filter is not None:
        return [FILTERED]
    if params.channel is not None and (empty := nothing_there(channel, held)) and channel != ALL_CHANNELS:
        return empty
    return not_looked_in(channel, held)


def did_you_mean(words: Sequence[str]) -> list[str]:
    """Return a note that names the words that a question may have meant."""
    return [f"did you mean {' and '.join(words)}?"] if words else []


def bounded(answer: Callable[[AnyParams, Call], Any]) -> Callable[[AnyParams, Call], Any]:
    """Break off a method that only reads when it is not done in time."""

    @wraps(answer)
    def answer_in_time(params: AnyParams, call: Call) -> Any:
        call.raise_if_cancelled()
        with within(ANSWER_S):
            return answer(params, call)

    return answer_in_time


def _listed_in(params: ListParams, names: Names) -> tuple[str | None, Filter]:
    """Return the only channel to list, or None and a test of the channels that a question from the folder searches."""
    if params.channel is not None:
        channel = channel_of(params.channel, None, names)
        return (None if channel == ALL_CHANNELS else channel), ()
    if params.cwd is None:
        return None, ()
    return None, (Condition("channel", "in", (channel_of(None, params.cwd), GLOBAL_CHANNEL)),)


def _where(given: FilterParams | None, names: Names) -> Filter:
    return _with_full_names(given.normalised(), names) if given is not None else ()


def _with_full_names(clauses: Filter, names: Names) -> Filter:
    """Return a filter whose short names of channels are the whole ones."""

    def with_full_names(one: Clause) -> Clause:
        if isinstance(one, Group):
            return Group(*(_with_full_names(part, names) for part in (one.must, one.should, one.must_not)))
        if one.field != "channel" or one.op != "in":
            return one
        held = names(str(one.values[0]))
        return replace(one, values=tuple(full_name(str(name), held) for name in one.values))

    return tuple(map(with_full_names, clauses))

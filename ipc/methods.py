"""The store's methods: those that keep, list, show, relate and take back memories, and the table of the store's.

Questions, work under way and documents have files of their own; the table of all is `daemon/methods/table.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..store import Observed
from ..store.channel import channel_of_session, channels_in_reach, of_one_project, user_part
from ..store.filters import Condition, Filter
from ..store.model import ALL_CHANNELS, GLOBAL_CHANNEL, Edit, InvalidInput, Kind, NewTurn, SessionHead
from ..store.names import as_reference
from ..store.results import Edited, Forgotten, Kept, Linked, Named, Tagged
from .answers import (
    EmptyAnswer,
    FeedbackAnswer,
    HelloAnswer,
    HistoryAnswer,
    ListAnswer,
    ShowAnswer,
    hello_answer,
    widened,
)
from .call import Call, Method
from .channels import (
    channel_for,
    channel_of,
    channel_of_repository,
    node_of,
    readable_by,
    searched_by,
    session_of,
)
from .params import (
    EditParams,
    EntityDenyParams,
    EntityMergeParams,
    EntitySplitParams,
    FeedbackParams,
    ForgetParams,
    HelloParams,
    HistoryParams,
    LinkParams,
    ListParams,
    NoParams,
    ObserveParams,
    RememberParams,
    ShowParams,
    TagParams,
)
from .protocol import Json
from .question_methods import MAX_TEXT_BYTES, QUESTION_METHODS, bounded, cut_to_bytes, filter_of
from .work_methods import DOCUMENT_METHODS, WORK_METHODS

if TYPE_CHECKING:
    from ..store import MemoryStore

MOST_TEXTS = 100
"""The most memories of a list with their texts: what an answer of the wire can carry."""

LINKING_S = 2.0
"""The longest that a `show` waits until a new memory is compared with older ones."""


def hello(store: Any, params: HelloParams, call: Call) -> HelloAnswer:
    """Return the daemon's version, process and protocol."""
    return hello_answer()


def ping(store: Any, params: NoParams, call: Call) -> EmptyAnswer:
    """Return nothing, at once."""
    return EmptyAnswer()


def remember(store: MemoryStore, params: RememberParams, call: Call) -> Future[Kept] | Coroutine[Any, Any, Kept]:
    """Keep one statement; an agent's after its session is read up to now, by which it is trusted."""
    return _in_its_session(store, params, params.agent_id) if params.agent_id else _keep(store, params)


async def _in_its_session(store: MemoryStore, params: RememberParams, agent: str) -> Kept:
    await asyncio.to_thread(store.catch_up_with, agent)
    kept = _keep(store, params)
    return await (asyncio.wrap_future(kept) if isinstance(kept, Future) else kept)


def _keep(store: MemoryStore, params: RememberParams) -> Future[Kept] | Coroutine[Any, Any, Kept]:
    channel, session = _place_of(store, params)
    kept = store.keep(
        params.text,
        kind=Kind(params.kind),
        channel=channel,
        tags=params.tags,
        agent_id=params.agent_id,
        session=session,
        curated=params.priority if params.always else 0,
        idempotency_key=params.idempotency_key,
    )
    # The write is acknowledged by a future: the server answers when the ledger has it, without a thread that waits.
    return _curated(store, kept, params.priority) if params.always else kept


def _place_of(store: MemoryStore, params: RememberParams) -> tuple[str, str | None]:
    """Return the channel to keep a statement in, and its session. Raises InvalidInput where none is known to end."""
    named = GLOBAL_CHANNEL if params.scope == "global" else params.channel
    channel = channel_for(params.user_id, channel_of_repository(named, params.cwd, lambda _: store.channel_names()))
    if params.scope != "session":
        return channel, params.session
    at_work = store.session_at_work(params.session, params.agent_id, channel if params.channel is None else None)
    if at_work is None:
        raise InvalidInput("no session is known in which this holds", hint="Name it: `session`.")
    session_of(store, params.user_id, at_work)
    return channel_of_session(channel, at_work), at_work


async def _curated(store: MemoryStore, acknowledged: Future[Kept], priority: int) -> Kept:
    """Give a priority to a memory that was known without one, which keeping it again does not change."""
    kept = await asyncio.wrap_future(acknowledged)
    # A claim that waits for review gets no priority: it would steer before its person has accepted it.
    if kept.novelty != "new" and not kept.waits:
        await asyncio.to_thread(store.curate, kept.node_id, priority)
    return kept


def observe(store: MemoryStore, params: ObserveParams, call: Call) -> Future[Observed]:
    """Add turns to a session."""
    # The parameters have the fields of the store's values, bounded: only the channel is worked out here.
    session_of(store, params.session.user_id, params.session.session_id)
    channel = channel_for(params.session.user_id, channel_of(params.session.channel, params.session.cwd))
    head: Json = {**dict(params.session), "channel": channel}
    turns = [NewTurn(**dict(turn)) for turn in params.turns]
    # `live`: an agent is in this session now, so the store also keeps its turns in memory for what may help next.
    return store.observe(SessionHead(**head), turns, params.idempotency_key, live=True)


def forget(store: MemoryStore, params: ForgetParams, call: Call) -> Forgotten:
    """Take a memory back, as a run that `undo` can undo."""
    return store.forget(node_of(store, params.user_id, params.node_id, own=True), params.reason)


def feedback(store: MemoryStore, params: FeedbackParams, call: Call) -> FeedbackAnswer:
    """Note a verdict on a memory that was shown."""
    node_id = node_of(store, params.user_id, params.node_id, own=True)  # it moves the rank for all who see it
    store.feedback(node_id, params.verdict, params.idempotency_key)
    return FeedbackAnswer(node_id, params.verdict)


def link(store: MemoryStore, params: LinkParams, call: Call) -> Linked:
    """Relate two memories, or a memory and a tag."""
    source = node_of(store, params.user_id, params.from_, own=True)
    if params.relation == "HasTag":
        tagged = store.tag(source, [params.to])
        return Linked(source, params.to, "HasTag", tagged.run_id)
    is_written = params.relation != "RelatesTo"  # which the source's file alone says
    target = node_of(store, params.user_id, str(as_reference(params.to)), own=is_written)
    return store.link(source, target, params.relation)


def tag(store: MemoryStore, params: TagParams, call: Call) -> Tagged:
    """Add tags to a memory, and take some from it."""
    return store.tag(node_of(store, params.user_id, params.node_id, own=True), params.add, params.remove)


def edit(store: MemoryStore, params: EditParams, call: Call) -> Edited:
    """Change a memory by hand, as a run that `undo` takes back."""
    always = None if params.always is None else params.priority if params.always else 0
    change = Edit(params.text, params.title, params.kind and Kind(params.kind), params.tags, always)
    node_id = node_of(store, params.user_id, params.node_id, own=True)
    return store.edit(node_id, change, params.if_version or "", params.agent_id, params.session)


@bounded
def show(store: MemoryStore, params: ShowParams, call: Call) -> ShowAnswer:
    """Return one memory with as much of its text, from an offset, as a line can carry."""
    if params.linked:
        store.settle_links(LINKING_S)
    shown = store.show(node_of(store, params.user_id, params.node_id))
    # The offset counts characters, not bytes: it is the same in every client, and no page splits a character.
    page = cut_to_bytes(shown.text[params.offset :])
    end = params.offset + len(page)
    rest = end if end < len(shown.text) else None
    return widened(ShowAnswer, shown, text=page, offset=params.offset, next=rest)


@bounded
def history(store: MemoryStore, params: HistoryParams, call: Call) -> HistoryAnswer:
    """Return the events of a node, the oldest first."""
    node_id = node_of(store, params.user_id, params.node_id)
    events = store.history(node_id)[-params.limit :]
    if params.user_id is not None and not user_part(store.channel_of_node(node_id)):
        # Of what all share, the questions of other users stay theirs.
        events = [event if event.run_id else replace(event, why="") for event in events]
    left = MAX_TEXT_BYTES // max(1, len(events))
    return HistoryAnswer(node_id, [replace(event, why=cut_to_bytes(event.why, left)) for event in events])


@bounded
def list_(store: MemoryStore, params: ListParams, call: Call) -> ListAnswer:
    """Return a page of memories, newest first."""
    channel, within_channels = _listed_in(store, params)
    where = (*filter_of(params.filter, store.channel_names_with), *within_channels, *_held_at(params.as_of))
    if params.tags:
        counted = store.tags(channel=channel, level=params.level, kind=params.kind, where=where)
        return ListAnswer([], None, counted[params.offset : params.offset + params.limit])
    limit = min(params.limit, MOST_TEXTS) if params.texts else params.limit
    listed = store.list(
        channel=channel,
        level=params.level,
        kind=params.kind,
        always=params.always,
        limit=limit + 1,  # one more says whether there is another page
        offset=params.offset,
        texts=params.texts,
        where=where,
    )
    more = len(listed) > limit
    return ListAnswer(listed[:limit], params.offset + limit if more else None)


def _listed_in(store: MemoryStore, params: ListParams) -> tuple[str | None, Filter]:
    """Return the only channel to list, or None and a test of the channels.

    These are those of the project that is named, else those that a question from the folder searches.
    """
    if params.channel == ALL_CHANNELS or (params.channel is None and params.cwd is None):
        return None, readable_by(store, params.user_id)
    named = searched_by(store, params)
    channels = channels_in_reach(named) if params.channel is None else of_one_project(named)
    return (named, ()) if len(channels) == 1 else (None, (Condition("channel", "in", channels),))


def entity_merge(store: MemoryStore, params: EntityMergeParams, call: Call) -> Named:
    """Make one page of two of the same person or thing."""
    return store.merge_entities(
        *(node_of(store, params.user_id, one, own=True) for one in (params.node_id, params.other))
    )


def entity_split(store: MemoryStore, params: EntitySplitParams, call: Call) -> Named:
    """Take names away from the page of a person or thing, and give them their own."""
    return store.split_entity(node_of(store, params.user_id, params.node_id, own=True), params.names)


def entity_deny(store: MemoryStore, params: EntityDenyParams, call: Call) -> Named:
    """Take a relation that is not so off the page of a person or thing."""
    node_id = store.page_with_relation(params.node_id, params.relation, searched_by(store, params))
    return store.deny_relation(node_of(store, params.user_id, node_id, own=True), params.relation)


def _held_at(at: datetime | None) -> Filter:
    """Return the tests of what held at a moment; () for none."""
    if at is None:
        return ()
    at_s = int(at.timestamp())
    return (Condition("valid_from", "lte", (at_s,)), Condition("valid_to", "gt", (at_s,)))


STORE_METHODS: tuple[Method[Any, Any], ...] = (
    Method("hello", HelloParams, HelloAnswer, hello),
    Method("ping", NoParams, EmptyAnswer, ping),
    *QUESTION_METHODS,
    Method("remember", RememberParams, Kept, remember, activity=True, first=True),
    Method("observe", ObserveParams, Observed, observe, activity=True, first=True),
    Method("forget", ForgetParams, Forgotten, forget, blocking=True),
    Method("feedback", FeedbackParams, FeedbackAnswer, feedback, blocking=True),
    Method("link", LinkParams, Linked, link, blocking=True, activity=True),
    Method("tag", TagParams, Tagged, tag, blocking=True, activity=True),
    Method("edit", EditParams, Edited, edit, blocking=True, activity=True),
    Method("show", ShowParams, ShowAnswer, show, blocking=True),
    Method("history", HistoryParams, HistoryAnswer, history, blocking=True),
    Method("list", ListParams, ListAnswer, list_, blocking=True),
    Method("entity_merge", EntityMergeParams, Named, entity_merge, blocking=True),
    Method("entity_split", EntitySplitParams, Named, entity_split, blocking=True),
    Method("entity_deny", EntityDenyParams, Named, entity_deny, blocking=True),
    *WORK_METHODS,
    *DOCUMENT_METHODS,
)

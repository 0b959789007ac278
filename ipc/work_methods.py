"""The methods about work under way: anchors, goals, the lessons that an agent learned, and documents kept by key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..store.channel import part_of_user
from ..store.filters import Condition
from ..store.model import ALL_CHANNELS, STRATEGY, Kind, Level
from ..store.results import Document, FoundAnchor, Goal, Moved, OfferedTool, Stored
from .answers import (
    DocumentGetAnswer,
    DocumentHit,
    DocumentListAnswer,
    DocumentSearchAnswer,
    GoalsAnswer,
    ReflectAnswer,
    SelectToolsAnswer,
    SessionEndAnswer,
    StrategiesAnswer,
    Strategy,
    ToolsAnswer,
)
from .call import Call, Method
from .channels import kept_by, searched_by, session_of
from .params import (
    AnchorGetParams,
    AnchorRecoverParams,
    AnchorSetParams,
    DocumentDeleteParams,
    DocumentGetParams,
    DocumentListParams,
    DocumentPutParams,
    DocumentRenameParams,
    DocumentSearchParams,
    GoalSetParams,
    ReflectParams,
    SelectToolsParams,
    SessionIdParams,
    StrategyParams,
    ToolsParams,
    WorkParams,
)
from .protocol import as_json

if TYPE_CHECKING:
    from ..store import MemoryStore

    _InSpace = (
        DocumentPutParams
        | DocumentGetParams
        | DocumentListParams
        | DocumentSearchParams
        | DocumentRenameParams
        | DocumentDeleteParams
    )

LEAST_CONFIDENCE = 0.2
"""A procedure less likely to fit a task than that is not told."""

MOST_PAGE_BYTES = 2**20 - 2**12
"""The size of the documents in one answer, of which any one fits."""


def anchor_set(store: MemoryStore, params: AnchorSetParams, call: Call) -> FoundAnchor:
    """Change the anchor of a session."""
    channel = _channel_of(store, params)
    return store.set_anchor(
        store.session_at_work(params.session, params.agent_id, channel) or params.session,
        channel,
        task=params.task,
        plan=params.plan,
        decisions=params.decisions,
        next_step=params.next_step,
    )


def anchor_get(store: MemoryStore, params: AnchorGetParams, call: Call) -> FoundAnchor:
    """Return the anchor of a session, or the newest of a channel."""
    channel = _channel_of(store, params)
    return store.anchor_of_channel(channel) if params.session is None else store.anchor_of_session(params.session)


def anchor_recover(store: MemoryStore, params: AnchorRecoverParams, call: Call) -> FoundAnchor:
    """Return the anchor from which a session continues."""
    channel = _channel_of(store, params)
    return store.recover_anchor(channel, store.session_at_work(params.session, params.agent_id, channel))


def reflect(store: MemoryStore, params: ReflectParams, call: Call) -> ReflectAnswer:
    """Keep the lessons of an agent in a session; the outcome of its task is an episode."""
    channel = _channel_of(store, params)
    learned = [(Kind(one.kind), one.text) for one in params.learned]
    if params.outcome.strip():
        learned.append((Kind.EPISODE, params.outcome))
    if params.agent_id:
        store.catch_up_with(params.agent_id)
    # All lessons go in one call with one key, so that a repeated `reflect` keeps none of them twice.
    lessons = store.reflect(params.session, channel, learned, params.agent_id, params.idempotency_key)
    return ReflectAnswer(
        store.session_name(params.session),
        channel,
        kept=[lesson for lesson in lessons if not lesson.known],
        known=[lesson for lesson in lessons if lesson.known],
        goals=[goal for goal in store.goals(params.session) if goal.is_open],
    )


def goal_set(store: MemoryStore, params: GoalSetParams, call: Call) -> Goal:
    """Open or change a goal."""
    return store.set_goal(
        params.session,
        _channel_of(store, params),
        text=params.text,
        goal_id=params.goal_id,
        state=params.state,
        parent=params.parent,
    )


def goals(store: MemoryStore, params: WorkParams, call: Call) -> GoalsAnswer:
    """Return the goals of a session, and the open threads of the channel."""
    channel = _channel_of(store, params)
    return GoalsAnswer(channel, store.goals(params.session) if params.session else (), store.threads(channel))


def find_strategy(store: MemoryStore, params: StrategyParams, call: Call) -> StrategiesAnswer:
    """Find the procedures that fit a task, among those that worked several times."""
    channel = searched_by(store, params)
    is_strategy = Condition("tags", "in", (STRATEGY,))
    found = store.recall(
        params.query, limit=params.limit, channel=channel, levels=(Level.SCENARIO,), where=(is_strategy,)
    )
    fits = [hit for hit in found.hits if hit.confidence >= LEAST_CONFIDENCE and not found.abstained]
    return StrategiesAnswer(
        channel,
        [Strategy(hit.node_id, hit.title, store.show(hit.node_id).text, hit.channel, hit.confidence) for hit in fits],
    )


def select_tools(store: MemoryStore, params: SelectToolsParams, call: Call) -> SelectToolsAnswer:
    """Choose the tools that serve a request."""
    offered = [OfferedTool(tool.name, tool.description) for tool in params.tools]
    channel = searched_by(store, params)
    return SelectToolsAnswer(store.select_tools(params.query, offered, params.k, channel))


def tools(store: MemoryStore, params: ToolsParams, call: Call) -> ToolsAnswer:
    """Count the calls of tools."""
    channel = searched_by(store, params)
    return ToolsAnswer(store.tool_uses(None if channel == ALL_CHANNELS else channel))


def session_end(store: MemoryStore, params: SessionIdParams, call: Call) -> SessionEndAnswer:
    """Note that a session is over."""
    session_of(store, params.user_id, params.session)
    open_goals = store.end_session(params.session)
    return SessionEndAnswer(store.session_name(params.session), open_goals)


# ---- documents


def document_put(store: MemoryStore, params: DocumentPutParams, call: Call) -> Stored:
    """Keep a value under a key."""
    return store.put_document(
        _space_of(params),
        params.key,
        params.value,
        channel=kept_by(store, params),
        if_version=params.if_version,
        ttl_minutes=params.ttl_minutes,
        searched=params.searched,
    )


def get_document(store: MemoryStore, params: DocumentGetParams, call: Call) -> DocumentGetAnswer:
    """Return a document, null where there is none."""
    found = store.document(_space_of(params), params.key, refresh=params.refresh)
    return DocumentGetAnswer(found and replace(found, space=_named(params, found)))


def document_list(store: MemoryStore, params: DocumentListParams, call: Call) -> DocumentListAnswer:
    """Return the documents of a space that fit into one answer."""
    deep = params.deep or not params.space  # no space at all is all of the user's
    listed = store.documents(_space_of(params), prefix=params.prefix, deep=deep, after=params.after)
    named = ((mark, replace(found, space=_named(params, found))) for mark, found in listed)
    return _page_of_documents(named, params.limit, values=params.values)


def find_documents(store: MemoryStore, params: DocumentSearchParams, call: Call) -> DocumentSearchAnswer:
    """Return the places of the documents that are nearest to a question."""
    ranked = store.search_documents(_space_of(params), params.query)[: params.limit]
    return DocumentSearchAnswer(
        [DocumentHit(_named(params, each.document), each.document.key, each.score) for each in ranked]
    )


def document_rename(store: MemoryStore, params: DocumentRenameParams, call: Call) -> Moved:
    """Give documents other keys."""
    return store.rename_document(_space_of(params), params.key, params.to, tree=params.tree)


def document_delete(store: MemoryStore, params: DocumentDeleteParams, call: Call) -> Moved:
    """Delete documents."""
    return store.delete_document(_space_of(params), params.key, tree=params.tree, if_version=params.if_version)


def _space_of(params: _InSpace) -> tuple[str, ...]:
    """Return the space that a request means: a user's lie within their part, so that none names another's."""
    return params.space if params.user_id is None else (part_of_user(params.user_id), *params.space)


def _named(params: _InSpace, found: Document) -> tuple[str, ...]:
    """Return the space of a document as its user names it."""
    return found.space if params.user_id is None else found.space[1:]


def _page_of_documents(listed: Iterator[tuple[str, Document]], limit: int, *, values: bool) -> DocumentListAnswer:
    """Return the first documents with the mark of the last one, if others follow."""
    documents: list[Document] = []
    last, left_bytes = None, MOST_PAGE_BYTES
    for mark, found in listed:
        document = found if values else replace(found, value=None)
        # One document more than the page is read: only then is it known that another page follows.
        left_bytes -= len(json.dumps(document, ensure_ascii=False, default=as_json).encode())
        if documents and (len(documents) == limit or left_bytes < 0):
            return DocumentListAnswer(documents, last)
        documents.append(document)
        last = mark
    return DocumentListAnswer(documents, None)


def _channel_of(store: MemoryStore, params: WorkParams | AnchorSetParams | ReflectParams) -> str:
    """Return the channel of a session's work. Raises NotFound for another user's session."""
    session_of(store, params.user_id, params.session)
    return kept_by(store, params)


WORK_METHODS: tuple[Method[Any, Any], ...] = (
    Method("anchor_set", AnchorSetParams, FoundAnchor, anchor_set, blocking=True, activity=True, first=True),
    Method("anchor_get", AnchorGetParams, FoundAnchor, anchor_get, blocking=True, activity=True, first=True),
    Method(
        "anchor_recover", AnchorRecoverParams, FoundAnchor, anchor_recover, blocking=True, activity=True, first=True
    ),
    Method("reflect", ReflectParams, ReflectAnswer, reflect, blocking=True, activity=True),
    Method("goal_set", GoalSetParams, Goal, goal_set, blocking=True, activity=True),
    Method("goals", WorkParams, GoalsAnswer, goals, blocking=True, activity=True, first=True),
    Method("find_strategy", StrategyParams, StrategiesAnswer, find_strategy, blocking=True, activity=True, first=True),
    Method("select_tools", SelectToolsParams, SelectToolsAnswer, select_tools, blocking=True, activity=True),
    Method("tools", ToolsParams, ToolsAnswer, tools, blocking=True),
    Method("session_end", SessionIdParams, SessionEndAnswer, session_end, blocking=True),
)

DOCUMENT_METHODS: tuple[Method[Any, Any], ...] = (
    Method("document_put", DocumentPutParams, Stored, document_put, blocking=True, activity=True, first=True),
    Method(
        "document_get", DocumentGetParams, DocumentGetAnswer, get_document, blocking=True, activity=True, first=True
    ),
    Method("document_list", DocumentListParams, DocumentListAnswer, document_list, blocking=True, activity=True),
    Method("document_search", DocumentSearchParams, DocumentSearchAnswer, find_documents, blocking=True, activity=True),
    Method("document_rename", DocumentRenameParams, Moved, document_rename, blocking=True, activity=True),
    Method("document_delete", DocumentDeleteParams, Moved, document_delete, blocking=True, activity=True),
)

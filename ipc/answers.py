"""The answers of which the store has no dataclass. Where it has one, that is the type on the wire.

Every dataclass is encoded by `protocol.as_json`, field by field. `docs/protocol.md` describes the same fields, and a
test compares both with the table of methods.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from .. import __version__
from ..store.model import UNLESS_NONE, Envelope, Hit, NodeId, Verdict
from ..store.results import (
    ChosenTool,
    Document,
    Elsewhere,
    ExactAnswer,
    Goal,
    HistoryEvent,
    Lesson,
    ListedNode,
    RecentSession,
    Shown,
    TagCount,
    ToolUse,
)
from .protocol import PROTOCOL_VERSION

IF_ANY: Final = UNLESS_NONE

Widened = TypeVar("Widened")


def widened(kind: type[Widened], value: Any, **more: Any) -> Widened:
    """Return a store's answer as the wire's, which has its fields and more; `more` may replace some of them."""
    return kind(**({each.name: getattr(value, each.name) for each in fields(value)} | more))


@dataclass(frozen=True, slots=True)
class EmptyAnswer:
    """Done."""


@dataclass(frozen=True)
class HelloAnswer:
    """The daemon's version, process and protocol."""

    version: str
    pid: int
    protocol: int


def hello_answer() -> HelloAnswer:
    """Return this process as it answers `hello`."""
    return HelloAnswer(__version__, os.getpid(), PROTOCOL_VERSION)


# ---- questions


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """A unit that was ranked: its nodes that matched, and its rank and score in each arm of the search.

    `priors` are the parts of its score that do not come from its match with the question.
    """

    unit: NodeId
    nodes: Sequence[NodeId]
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]
    priors: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """The steps of a search."""

    timings_ms: Mapping[str, float]
    candidates: Sequence[CandidateAnswer]


@dataclass(frozen=True, slots=True)
class WhyNotAnswer:
    """The place of one memory in the search, from 1, or the reason why it has none."""

    node_id: NodeId
    place: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """The memories that were found in `channel` and the global one; `exact` is what a relation answers.

    `incomplete`: it abstains although not all that is remembered can be found yet; the notes say why.
    """

    hits: Sequence[Hit]
    abstained: bool
    notes: Sequence[str]
    channel: str
    confidence: float
    elsewhere: Sequence[Elsewhere] = ()
    exact: Sequence[ExactAnswer] = ()
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class RecallAnswer(PlainAnswer):
    """The answer to a question; to several, that to each is in `answers`, and there is nothing beside them."""

    trace: TraceAnswer | None = field(default=None, metadata=IF_ANY)
    why_not: WhyNotAnswer | None = field(default=None, metadata=IF_ANY)
    answers: Sequence[PlainAnswer] | None = field(default=None, metadata=IF_ANY)


@dataclass(frozen=True, slots=True)
class ContextAnswer(Envelope):
    """One text for a model, from `channel` and the global one."""

    channel: str = ""


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """The sessions of a channel, the newest first."""

    channel: str
    sessions: Sequence[RecentSession]


# ---- memories


@dataclass(frozen=True, slots=True)
class ShowAnswer(Shown):
    """One memory, session or turn; of a long text a page, which begins at `offset`. `next`: that of the next page."""

    offset: int = 0
    next: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """The events of a node, the oldest first."""

    node_id: NodeId
    events: Sequence[HistoryEvent]


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """A page of memories, or their `tags` alone; `next` is the offset of the next one."""

    memories: Sequence[ListedNode]
    next: int | None
    tags: Sequence[TagCount] | None = field(default=None, metadata=IF_ANY)


@dataclass(frozen=True, slots=True)
class FeedbackAnswer:
    """The verdict that was noted."""

    node_id: NodeId
    verdict: Verdict


# ---- work under way


@dataclass(frozen=True, slots=True)
class ReflectAnswer:
    """The memories that were kept, those that were known already, and the session's open goals."""

    session_id: NodeId
    channel: str
    kept: Sequence[Lesson]
    known: Sequence[Lesson]
    goals: Sequence[Goal]


@dataclass(frozen=True, slots=True)
class GoalsAnswer:
    """Goals of a session, and the open threads of its channel."""

    channel: str
    goals: Sequence[Goal]
    threads: Sequence[Goal]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A procedure that worked several times; `text` quotes each step with its turn."""

    node_id: NodeId
    title: str
    text: str
    channel: str
    confidence: float


@dataclass(frozen=True, slots=True)
class StrategiesAnswer:
    """The procedures that fit a task, the best first."""

    channel: str
    strategies: Sequence[Strategy]


@dataclass(frozen=True, slots=True)
class SelectToolsAnswer:
    """The tools that serve a request, the best first."""

    tools: Sequence[ChosenTool]


@dataclass(frozen=True, slots=True)
class ToolsAnswer:
    """The calls of each tool, the most called first."""

    tools: Sequence[ToolUse]


@dataclass(frozen=True, slots=True)
class SessionEndAnswer:
    """The goals that a session leaves open: threads of its channel from now on."""

    session_id: NodeId
    goals: Sequence[Goal]


# ---- documents


@dataclass(frozen=True, slots=True)
class DocumentGetAnswer:
    """The document, null where there is none."""

    document: Document | None


@dataclass(frozen=True, slots=True)
class DocumentListAnswer:
    """A page of documents, the oldest first; `next` is the `after` of the next page, null at the end."""

    documents: Sequence[Document]
    next: str | None


@dataclass(frozen=True, slots=True)
class DocumentHit:
    """The place of a document, and its nearness to the question, 0 to 1."""

    space: Sequence[str]
    key: str
    score: float


@dataclass(frozen=True, slots=True)
class DocumentSearchAnswer:
    """The nearest documents, the nearest first."""

    hits: Sequence[DocumentHit]

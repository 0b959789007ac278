"""The parameters of the store's methods: types and bounds, checked before anything is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ..store import in_calendar
from ..store.model import GLOBAL_CHANNEL, Kind, Level, Verdict
from ..store.names import Channel, DocumentKey, Label, Name, NodeRef, User
from ..store.results import GoalState
from .filter_params import BoundedFilter
from .protocol import PROTOCOL_VERSION, KeptKind


def _instant(at: datetime) -> datetime:
    aware = in_calendar(at if at.tzinfo else at.replace(tzinfo=UTC))
    # Within a day of year 1 or 9999 the same instant has no date in some zone, and arithmetic overflows.
    if aware is None:
        raise PydanticCustomError("instant", "it is too near to an end of the calendar")
    return aware


def _number(given: Any) -> Any:
    """Return the whole number that a text is, as models write them now and then; anything else as it is."""
    text = given.strip() if isinstance(given, str) else ""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else given


def _listed(given: Any) -> Any:
    """Return one text as a list of it; anything else as it is."""
    return [given] if isinstance(given, str) else given


NUMBER = BeforeValidator(_number)
LISTED = BeforeValidator(_listed)

Limit = Annotated[int, NUMBER, Field(strict=True, ge=1, le=1000)]
Offset = Annotated[int, NUMBER, Field(strict=True, ge=0, le=2**53)]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Query = Annotated[str, Field(max_length=2**16)]
Folder = Annotated[str, Field(min_length=1, max_length=4096)]
Key = Annotated[str, Field(min_length=1, max_length=128)]
Instant = Annotated[datetime, AfterValidator(_instant)]
"""A time that has a date in every zone; without an offset it is UTC."""

Words = Annotated[str, Field(min_length=1, max_length=2**20)]
Line = Annotated[str, Field(max_length=500)]
GoalId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w-]+$")]
Space = Annotated[tuple[Label, ...], Field(min_length=1, max_length=16)]
AnySpace = Annotated[tuple[Label, ...], Field(max_length=16)]
EntityKind = Literal["person", "organisation", "team", "project", "service", "tool", "place", "file", "event", "other"]
Version = Annotated[str, Field(max_length=64)]
Nodes = Annotated[tuple[NodeRef, ...], LISTED, Field(max_length=1000)]
Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 366 * 100, allow_inf_nan=False)]


MOST_QUERIES = 16
"""Questions in one call: each is searched for by itself, and all share the time of one."""

OTHER_NAMES: Mapping[str, KeptKind] = {"rule": "preference"}
"""Kinds by the words that our own instructions use for them."""


def kind_of(given: Any) -> Any:
    """Return a kind of memory as it is named, in any case and by its other name; anything else as it is."""
    word = given.strip().casefold() if isinstance(given, str) else given
    return OTHER_NAMES.get(word, word) if isinstance(word, str) else word


class Params(BaseModel):
    """Parameters of a method: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UserParams(Params):
    """Parameters of a method for one of several users: `user_id` sees the shared channels, and their own part.

    Shared memories are changed by the owner alone, who sends none.
    """

    user_id: User | None = None


class NoParams(Params):
    """A method that takes none."""


class HelloParams(Params):
    """The client's name, and the newest protocol that it speaks."""

    client: Annotated[str, Field(max_length=256)] = ""
    protocol: Annotated[int, Field(strict=True, ge=1)] = PROTOCOL_VERSION


class RecallParams(UserParams):
    """The question, or several, or the memory that others are to be `like`.

    No channel: that of the caller's working directory, `cwd`, or of that memory; `*`: all of them. Turns of the asking
    `session` are left out; of an agent (`agent_id`) that does not know it, those of the session that its hooks heard
    last.
    """

    query: Query
    limit: Limit = 10
    channel: Name | None = None
    cwd: Folder | None = None
    session: Name | None = None
    agent_id: Name | None = None
    levels: Annotated[tuple[Level, ...], Field(max_length=4)] = ()
    include_archived: bool = False
    as_of: Instant | None = None
    filter: BoundedFilter | None = None
    explain: bool = False
    why_not: NodeRef | None = None
    like: NodeRef | None = None
    min_score: Score = 0.0
    max_facts: Limit | None = None
    queries: Annotated[tuple[Query, ...], LISTED, Field(min_length=1, max_length=MOST_QUERIES)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_memory(cls, given: Any) -> Any:
        if isinstance(given, dict) and not {"like", "queries"}.isdisjoint(k for k, v in given.items() if v is not None):
            return {"query": "", **given}
        return given

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if self.like is not None and (self.query or self.as_of or self.explain or self.why_not):
            raise ValueError("`like` goes with neither query, as_of, explain nor why_not")
        if self.queries is not None and (self.query or self.like or self.explain or self.why_not):
            raise ValueError("`queries` goes with neither query, like, explain nor why_not")
        return self


class ContextParams(UserParams):
    """The question, and the budget of the answer: its tokens, its memories, and the least confidence of each."""

    query: Query
    budget_tokens: Annotated[int, NUMBER, Field(strict=True, ge=1, le=100_000)] = 1000
    channel: Name | None = None
    cwd: Folder | None = None
    session: Name | None = None
    agent_id: Name | None = None
    as_of: Instant | None = None
    filter: BoundedFilter | None = None
    min_score: Score = 0.0
    max_facts: Limit | None = None


class RecentParams(UserParams):
    """The sessions that are wanted: of a channel, of a day, with a change of a `file`, or one `session`.

    `agent_id`: the session that its hooks heard last is left out.
    """

    channel: Name | None = None
    cwd: Folder | None = None
    session: NodeRef | None = None
    day: date | None = None
    file: Annotated[str, Field(max_length=4096)] = ""
    limit: Annotated[int, NUMBER, Field(strict=True, ge=1, le=30)] = 5
    agent_id: Name | None = None


class RememberParams(UserParams):
    """One thing to keep. No channel: that of the git repository of the caller's working directory, `cwd`.

    `agent_id` names the agent that wrote it down, in its `session`; without one it is the person's own. `always`: it
    begins every envelope of its channel, the highest `priority` first. `scope` session: the session alone reads it, and
    it is archived when that is over; global: every project does.
    """

    text: Words
    kind: Annotated[KeptKind, BeforeValidator(kind_of)] = "note"
    channel: Channel | None = None
    cwd: Folder | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    agent_id: Name | None = None
    session: Name | None = None
    scope: Literal["session", "project", "global"] = "project"
    always: bool = False
    priority: Annotated[int, NUMBER, Field(strict=True, ge=1, le=10)] = 5
    idempotency_key: Key | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if self.scope == "global" and self.channel not in (None, GLOBAL_CHANNEL):
            raise ValueError("`scope` global and a channel name two places")
        if self.scope == "session" and self.session is None and self.agent_id is None:
            raise ValueError("`scope` session needs the `session`, or the `agent_id` whose hooks heard of one")
        return self


class SessionParams(Params):
    """A session, apart from its turns. No channel: that of its working directory, `cwd`."""

    session_id: Name
    channel: Channel | None = None
    title: Annotated[str, Field(max_length=1024)] = ""
    started_at: Instant | None = None
    agent_id: Name | None = None
    task_id: Name | None = None
    user_id: User | None = None
    cwd: Folder | None = None


class TurnParams(Params):
    """One message of a session."""

    role: Label
    text: Annotated[str, Field(max_length=2**20)]
    at: Instant | None = None
    external_id: Label | None = None


class ObserveParams(Params):
    """Turns of a session, in order. Sending one again adds nothing."""

    session: SessionParams
    turns: Annotated[tuple[TurnParams, ...], Field(max_length=10_000)]
    idempotency_key: Key | None = None


class ShowParams(UserParams):
    """One memory or turn; a long text comes in pages, `offset` in characters.

    `linked`: wait a moment until new memories are compared with older ones.
    """

    node_id: NodeRef
    offset: Offset = 0
    linked: Annotated[bool, Field(strict=True)] = False


class HistoryParams(UserParams):
    """The node whose history is wanted, and how many of its newest events."""

    node_id: NodeRef
    limit: Limit = 200


class ListParams(UserParams):
    """A page of memories, newest first. `always`: only those of every envelope. `as_of`: those that held then.

    `texts`: with the beginnings of their texts, and the times from and until which they hold. `tags`: the tags of
    all of them, counted, in place of the page.

    A channel: of that one alone. Else a `cwd`: of its channel and the global one, where `recall` looks too. Neither, or
    the channel `*`: of all.
    """

    channel: Name | None = None
    cwd: Folder | None = None
    level: Level | None = None
    kind: Kind | None = None
    always: bool = False
    as_of: Instant | None = None
    texts: bool = False
    tags: bool = False
    filter: BoundedFilter | None = None
    limit: Limit = 50
    offset: Offset = 0


class ForgetParams(UserParams):
    """One memory to take back, as a run that `undo` can undo."""

    node_id: NodeRef
    reason: Annotated[str, Field(max_length=1024)] = ""


class FeedbackParams(UserParams):
    """A verdict on a memory that was shown."""

    node_id: NodeRef
    verdict: Verdict
    idempotency_key: Key | None = None


class LinkParams(UserParams):
    """Two nodes and their relation; with `HasTag`, `to` is a tag."""

    from_: Annotated[NodeRef, Field(alias="from")]
    to: Name
    relation: Literal["RelatesTo", "Supersedes", "Contradicts", "HasTag"] = "RelatesTo"


class TagParams(UserParams):
    """The tags to add to a memory, and to take from it."""

    node_id: NodeRef
    add: Annotated[tuple[Label, ...], LISTED, Field(max_length=64)] = ()
    remove: Annotated[tuple[Label, ...], LISTED, Field(max_length=64)] = ()


class EditParams(UserParams):
    """The fields of a memory to change; one that is left out stays. `if_version`: only what `show` answered with it.

    `always` false takes it out of every envelope. `agent_id` names the agent that edits, in its `session`.
    """

    node_id: NodeRef
    text: Words | None = None
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    kind: Annotated[KeptKind, BeforeValidator(kind_of)] | None = None
    tags: Annotated[tuple[Label, ...], LISTED, Field(max_length=64)] | None = None
    always: bool | None = None
    priority: Annotated[int, NUMBER, Field(strict=True, ge=1, le=10)] = 5
    if_version: Version | None = None
    agent_id: Name | None = None
    session: Name | None = None


# ---- work under way


class AnchorSetParams(UserParams):
    """The change of a session's anchor; a field that is left out stays unchanged."""

    session: Name
    channel: Channel | None = None
    cwd: Folder | None = None
    agent_id: Name | None = None
    task: Line | None = None
    plan: Line | None = None
    decisions: Annotated[tuple[Line, ...], LISTED, Field(max_length=32)] = ()
    next_step: Line | None = None


class WorkParams(UserParams):
    """A session, new, known or not named, and its channel, where one is named."""

    session: Name | None = None
    channel: Channel | None = None
    cwd: Folder | None = None


class AnchorRecoverParams(WorkParams):
    """The session that goes on; of an agent (`agent_id`) that does not know it, the one that its hooks heard last."""

    agent_id: Name | None = None


class AnchorGetParams(WorkParams):
    """The session whose anchor is wanted, or the channel whose newest is."""

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if self.session is None and self.channel is None and self.cwd is None:
            raise ValueError("name a session, a channel or a folder")
        return self


class StrategyParams(UserParams):
    """A task, as its person or agent puts it."""

    query: Annotated[str, Field(min_length=1, max_length=2**16)]
    channel: Name | None = None
    cwd: Folder | None = None
    limit: Annotated[int, NUMBER, Field(strict=True, ge=1, le=10)] = 3


class OfferedParams(Params):
    """A tool that may be chosen; a plain text is its name. What else a list of tools has is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: Annotated[str, BeforeValidator(lambda given: given or ""), Field(max_length=2**14)] = ""

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class SelectToolsParams(UserParams):
    """A request, the tools to choose from, and how many."""

    query: Annotated[str, Field(min_length=1, max_length=2**14)]
    tools: Annotated[tuple[OfferedParams, ...], Field(min_length=1, max_length=1000)]
    k: Annotated[int, NUMBER, Field(strict=True, ge=1, le=100)] = 5
    channel: Name | None = None
    cwd: Folder | None = None


class ToolsParams(UserParams):
    """The channel whose calls are counted; `*`: all of them."""

    channel: Name | None = None
    cwd: Folder | None = None


class LearnedParams(Params):
    """One lesson: a working way (procedure), a failure with its reason (negative), a pitfall and its fix, a decision.

    A plain text is a working way.
    """

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    kind: Annotated[
        Literal["procedure", "negative", "pitfall", "decision", "fact", "preference"], BeforeValidator(kind_of)
    ] = "procedure"

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given


class ReflectParams(UserParams):
    """The lessons of an agent in a session, and the `outcome` of its task."""

    session: Name
    learned: Annotated[tuple[LearnedParams, ...], LISTED, Field(max_length=32)] = ()
    outcome: Annotated[str, Field(max_length=1000)] = ""
    channel: Channel | None = None
    cwd: Folder | None = None
    agent_id: Name | None = None
    idempotency_key: Key | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.learned and not self.outcome.strip():
            raise ValueError("give what was learned, or the outcome")
        return self


class GoalSetParams(WorkParams):
    """A goal to open, by its words, or to change, by its id. `parent`: the goal that it serves, empty for none."""

    text: Line = ""
    goal_id: GoalId | None = None
    state: GoalState | None = None
    parent: Annotated[str, Field(max_length=64)] | None = None


class SessionIdParams(UserParams):
    """A session."""

    session: Name


class AboutParams(UserParams):
    """The name of a person or a thing, and the token budget of the answer. `*`: of every channel."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    budget_tokens: Annotated[int, NUMBER, Field(strict=True, ge=50, le=100_000)] = 1000
    channel: Name | None = None
    cwd: Folder | None = None


class EntitiesParams(UserParams):
    """The people and things to list: of a channel, or of all; of one `type`."""

    type: EntityKind | None = None
    limit: Limit = 100
    offset: Offset = 0
    channel: Name | None = None
    cwd: Folder | None = None


class EntityMergeParams(UserParams):
    """Two pages of one person or thing: `node_id` stays, `other` goes into it."""

    node_id: NodeRef
    other: NodeRef


class EntitySplitParams(UserParams):
    """The page of a person or thing, and those of its names that are another's."""

    node_id: NodeRef
    names: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], LISTED, Field(min_length=1)]


class EntityDenyParams(UserParams):
    """The page of a person or thing, by its id or a name, and a relation that is not so, in the words of `about`."""

    node_id: NodeRef
    relation: Annotated[str, Field(min_length=1, max_length=1000)]
    channel: Name | None = None
    cwd: Folder | None = None


# ---- documents


MOST_NESTED = 100
"""Lists and objects within each other in a value."""


def _shallow(value: Any) -> Any:
    """Return a value of JSON. Raises ValueError where it is nested too deep to be written."""
    # Level by level instead of by recursion: the depth is bounded by memory here, not by Python's stack.
    inner, depth = [value], 0
    while inner := [one for outer in inner for one in _parts(outer)]:
        depth += 1
        if depth > MOST_NESTED:
            raise PydanticCustomError(
                "nested", "its lists and objects lie deeper than {most} within each other", {"most": MOST_NESTED}
            )
    return value


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class DocumentPutParams(UserParams):
    """A value to keep under a key. `if_version`: only in the place of this version, empty for none."""

    space: Space
    key: DocumentKey
    value: Annotated[Any, BeforeValidator(_shallow)]
    channel: Channel | None = None
    cwd: Folder | None = None
    if_version: Version | None = None
    ttl_minutes: Minutes | None = None
    searched: bool = True


class DocumentGetParams(UserParams):
    """The document to return. `refresh`: its time to live begins again."""

    space: Space
    key: DocumentKey
    refresh: bool = False


class DocumentListParams(UserParams):
    """The space whose documents are wanted, none for all. `deep`: those of the spaces within it too."""

    space: AnySpace = ()
    prefix: Annotated[str, Field(max_length=1024)] = ""
    deep: bool = False
    values: bool = True
    limit: Limit = 100
    after: Annotated[str, Field(max_length=256)] | None = None


class DocumentSearchParams(UserParams):
    """The question, and the space whose documents may answer it, with those of the spaces within it."""

    space: AnySpace = ()
    query: Annotated[str, Field(min_length=1, max_length=2**16)]
    limit: Limit = 10


class DocumentRenameParams(UserParams):
    """The document that gets another key. `tree`: those below it too, whose keys go on with a slash."""

    space: Space
    key: DocumentKey
    to: DocumentKey
    tree: bool = False


class DocumentDeleteParams(UserParams):
    """The document to delete; all of the space where no key is given."""

    space: Space
    key: DocumentKey | None = None
    tree: bool = False
    if_version: Version | None = None

"""The parameters of the store's methods: types and bounds, checked before anything is called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ..store import in_calendar
from ..store.model import Kind, Level, Verdict
from ..store.names import Channel, Label, Name
from .filters import BoundedFilter
from .protocol import PROTOCOL_VERSION, KeptKind


def _instant(at: datetime) -> datetime:
    aware = in_calendar(at if at.tzinfo else at.replace(tzinfo=UTC))
    if aware is None:
        raise PydanticCustomError("instant", "it is too near to an end of the calendar")
    return aware


Limit = Annotated[int, Field(strict=True, ge=1, le=1000)]
Offset = Annotated[int, Field(strict=True, ge=0, le=2**53)]
Query = Annotated[str, Field(max_length=2**16)]
Folder = Annotated[str, Field(min_length=1, max_length=4096)]
Key = Annotated[str, Field(min_length=1, max_length=128)]
Instant = Annotated[datetime, AfterValidator(_instant)]
"""A time that can be reckoned with in every zone; without an offset it is UTC."""

Words = Annotated[str, Field(min_length=1, max_length=2**20)]


class Params(BaseModel):
    """Parameters of a method: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParams(Params):
    """A method that takes none."""


class HelloParams(Params):
    """The client's name, and the newest protocol that it speaks."""

    client: Annotated[str, Field(max_length=256)] = ""
    protocol: Annotated[int, Field(strict=True, ge=1)] = PROTOCOL_VERSION


class RecallParams(Params):
    """The question. No channel: that of the caller's working directory, `cwd`; `*`: all of them.

    What was said in the `session` that asks is left out.
    """

    query: Query
    limit: Limit = 10
    channel: Name | None = None
    cwd: Folder | None = None
    session: Name | None = None
    levels: Annotated[tuple[Level, ...], Field(max_length=4)] = ()
    include_archived: bool = False
    as_of: Instant | None = None
    filter: BoundedFilter | None = None
    explain: bool = False
    why_not: Name | None = None


class ContextParams(Params):
    """The question, and how many tokens an agent has for the answer."""

    query: Query
    budget_tokens: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    channel: Name | None = None
    cwd: Folder | None = None
    session: Name | None = None
    as_of: Instant | None = None
    filter: BoundedFilter | None = None


class RememberParams(Params):
    """One thing to keep. No channel: that of the git repository of the caller's working directory, `cwd`.

    `agent_id` names the agent that wrote it down, in its `session`; without one it is the person's own. `always`: it
    stands in every envelope of its channel, the highest `priority` first.
    """

    text: Words
    kind: KeptKind = "note"
    channel: Channel | None = None
    cwd: Folder | None = None
    tags: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    agent_id: Name | None = None
    session: Name | None = None
    always: bool = False
    priority: Annotated[int, Field(strict=True, ge=1, le=10)] = 5
    idempotency_key: Key | None = None


class SessionParams(Params):
    """A session, apart from its turns. No channel: that of its working directory, `cwd`."""

    session_id: Name
    channel: Channel | None = None
    title: Annotated[str, Field(max_length=1024)] = ""
    started_at: Instant | None = None
    agent_id: Name | None = None
    task_id: Name | None = None
    user_id: Name | None = None
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


class ShowParams(Params):
    """One memory or turn; a long text comes in pages, `offset` in characters.

    `linked`: wait a moment until what was remembered is compared with what was known.
    """

    node_id: Name
    offset: Offset = 0
    linked: Annotated[bool, Field(strict=True)] = False


class ListParams(Params):
    """A page of memories, newest first. `always`: only those that stand in every envelope.

    A channel: of that one alone. Else a `cwd`: of its channel and the global one, where `recall` looks too. Neither, or
    the channel `*`: of all.
    """

    channel: Name | None = None
    cwd: Folder | None = None
    level: Level | None = None
    kind: Kind | None = None
    always: bool = False
    filter: BoundedFilter | None = None
    limit: Limit = 50
    offset: Offset = 0


class ForgetParams(Params):
    """One memory to take back, as a run that `undo` can undo."""

    node_id: Name
    reason: Annotated[str, Field(max_length=1024)] = ""


class FeedbackParams(Params):
    """A verdict on a memory that was shown."""

    node_id: Name
    verdict: Verdict
    idempotency_key: Key | None = None


class LinkParams(Params):
    """Two nodes and their relation; with `HasTag`, `to` is a tag."""

    from_: Annotated[Name, Field(alias="from")]
    to: Name
    relation: Literal["RelatesTo", "Supersedes", "Contradicts", "HasTag"] = "RelatesTo"


class TagParams(Params):
    """The tags to add to a memory, and to take from it."""

    node_id: Name
    add: Annotated[tuple[Label, ...], Field(max_length=64)] = ()
    remove: Annotated[tuple[Label, ...], Field(max_length=64)] = ()


class PurgeParams(Params):
    """The data to remove for good, named in one way; `dry_run` only says what that comes to.

    `nodes`: memories, turns or whole sessions. `matching`: all that says these words. `before`: all that is older.
    `secrets`: what today's rules take for secrets, and nothing around it. `probes`: every past question, with what
    was of use for it.
    """

    nodes: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    channel: Name | None = None
    matching: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    before: Instant | None = None
    secrets: bool = False
    probes: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _is_named_in_one_way(self) -> Self:
        named = (self.nodes, self.channel, self.matching, self.before, self.secrets, self.probes)
        if sum(bool(one) for one in named) != 1:
            raise ValueError("name what is to be purged in one way")
        if self.probes and self.dry_run:
            raise ValueError("questions are not looked at before they are purged")
        return self

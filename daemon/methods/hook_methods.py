"""The methods of agents' hooks: the answer to one, the briefing of a start, and the record of the texts handed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.channels import channel_for, full_id, searched_channel
from ...ipc.params import Folder, Instant, Limit, UserParams
from ...store.channel import may_read
from ...store.model import ALL_CHANNELS
from ...store.names import Channel, Name, NodeRef
from ...store.results import ToldCounts, ToldText
from ..agents.briefs import BriefSection
from ..agents.hooks import Hooks

Word = Annotated[str, Field(max_length=64)]


class HookParams(UserParams):
    """An agent's event with the data that the agent gives; the answer to an unknown event is empty.

    `at`: the time of the request, in seconds since the epoch, by which a hook may note that it got no answer.
    """

    agent: Word
    event: Word
    given: Annotated[Mapping[str, Any], Field(max_length=256)]
    cwd: Folder | None = None
    at: Annotated[float, Field(ge=0, le=2**33)] | None = None


class BriefParams(UserParams):
    """The channel whose briefing is wanted, else that of the working directory."""

    channel: Channel | None = None
    cwd: Folder | None = None


class ToldParams(UserParams):
    """The texts that are wanted: since a time, of one session, of one channel (`*` and none: of all)."""

    since: Instant | None = None
    session: NodeRef | None = None
    channel: Name | None = None
    limit: Limit = 50


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The text that an agent is to print, or "" for nothing."""

    output: str


@dataclass(frozen=True, slots=True)
class BriefAnswer:
    """The briefing of a channel: its text as an agent gets it at a session's start, and the same by its sections."""

    channel: str
    text: str
    sections: tuple[BriefSection, ...]


@dataclass(frozen=True, slots=True)
class ToldAnswer:
    """The texts that agents were handed, the newest first, and the counts of all that were asked for."""

    texts: Sequence[ToldText]
    counts: ToldCounts


def hook(hooks: Hooks, params: HookParams, call: Call) -> HookAnswer:
    """Answer an agent's hook."""
    at = None if params.at is None else datetime.fromtimestamp(params.at, UTC)
    return HookAnswer(hooks.answer(params.agent, params.event, params.given, params.cwd, at, params.user_id))


def brief(hooks: Hooks, params: BriefParams, call: Call) -> BriefAnswer:
    """Return the briefing that a session of a channel starts with."""
    channel, found = hooks.briefs.of_channel(params.channel, params.cwd, params.user_id)
    return BriefAnswer(channel, found.text, found.sections)


def told(hooks: Hooks, params: ToldParams, call: Call) -> ToldAnswer:
    """Return the texts that agents were handed."""
    hooks.read_lost()
    store = hooks.store
    session = params.session and full_id(store, params.user_id, store.session_name(params.session))
    texts = store.told.since(params.since, session)
    if params.user_id is not None:
        texts = [one for one in texts if may_read(params.user_id, one.channel)]
    if params.channel not in (None, ALL_CHANNELS):
        named = {one.channel for one in texts}
        channel = searched_channel(params.channel, None, lambda name: {*named, *store.channel_names_with(name)})
        channel = channel_for(params.user_id, channel)
        texts = [one for one in texts if one.channel == channel]
    return ToldAnswer(texts[: params.limit], store.told.counts(texts))


HOOK_METHODS: tuple[Method[Any, Any], ...] = (
    Method("hook", HookParams, HookAnswer, hook, blocking=True, activity=True, first=True, outlives=True),
    Method("brief", BriefParams, BriefAnswer, brief, blocking=True, activity=True),
    Method("told", ToldParams, ToldAnswer, told, blocking=True),
)

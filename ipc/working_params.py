"""The parameters of the methods about work that is under way: anchors, goals, reflection."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..store.names import Channel, Name
from .params import Folder, Key, Params

Line = Annotated[str, Field(max_length=500)]
GoalId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w-]+$")]


class AnchorSetParams(Params):
    """The change of a session's anchor: what is left out stays as it was."""

    session: Name
    channel: Channel | None = None
    cwd: Folder | None = None
    task: Line | None = None
    plan: Line | None = None
    decisions: Annotated[tuple[Line, ...], Field(max_length=32)] = ()
    next_step: Line | None = None


class AnchorGetParams(Params):
    """The session whose anchor is wanted, or the channel whose newest is."""

    session: Name | None = None
    channel: Channel | None = None
    cwd: Folder | None = None

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if self.session is None and self.channel is None and self.cwd is None:
            raise ValueError("name a session, a channel or a folder")
        return self


class AnchorRecoverParams(Params):
    """The session that lost its anchor, or a new one, and its channel."""

    session: Name | None = None
    channel: Channel | None = None
    cwd: Folder | None = None


class LearnedParams(Params):
    """One thing that was learned: what worked (procedure), what did not and why (negative), what was decided."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    kind: Literal["procedure", "negative", "decision", "fact", "preference"] = "procedure"


class ReflectParams(Params):
    """The things that an agent learned in a session; `outcome` is what came of the task."""

    session: Name
    learned: Annotated[tuple[LearnedParams, ...], Field(max_length=32)] = ()
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


class GoalSetParams(Params):
    """A goal to open, by its words, or to change, by its id. `parent`: the goal that it serves, empty for none."""

    session: Name | None = None
    channel: Channel | None = None
    cwd: Folder | None = None
    text: Line = ""
    goal_id: GoalId | None = None
    state: Literal["active", "blocked", "completed", "abandoned"] | None = None
    parent: Annotated[str, Field(max_length=64)] | None = None


class GoalsParams(Params):
    """The session whose goals are wanted, and the channel whose open threads are."""

    session: Name | None = None
    channel: Channel | None = None
    cwd: Folder | None = None


class ThoughtParams(Params):
    """A thought of a session's agent, which is held in memory alone."""

    session: Name
    text: Annotated[str, Field(min_length=1, max_length=2000)]
    channel: Channel | None = None
    cwd: Folder | None = None


class SessionIdParams(Params):
    """The session that is meant."""

    session: Name

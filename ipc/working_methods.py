"""The table of methods about work that is under way: anchors, goals, and what an agent learned at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from ..store.model import Kind
from ..store.names import Channel, Name
from .answers import (
    FoundAnchorAnswer,
    GoalAnswer,
    GoalsAnswer,
    LessonAnswer,
    PendingAnswer,
    ReflectAnswer,
    SessionEndAnswer,
    ThoughtAnswer,
    WorkingAnswer,
)
from .call import Call, Handler
from .channels import channel_of
from .params import Folder, Key, Params
from .serialize import plain

if TYPE_CHECKING:
    from ..store import MemoryStore

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


class _OfAChannel(Protocol):
    """Parameters that may name a channel or a folder."""

    @property
    def channel(self) -> str | None: ...
    @property
    def cwd(self) -> str | None: ...


class WorkingMethods:
    """The methods; all of them block, so they run in the server's threads."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {
            "anchor_set": Handler(AnchorSetParams, self.anchor_set, blocking=True, activity=True, first=True),
            "anchor_get": Handler(AnchorGetParams, self.anchor_get, blocking=True, activity=True, first=True),
            "anchor_recover": Handler(
                AnchorRecoverParams, self.anchor_recover, blocking=True, activity=True, first=True
            ),
            "reflect": Handler(ReflectParams, self.reflect, blocking=True, activity=True),
            "goal_set": Handler(GoalSetParams, self.goal_set, blocking=True, activity=True),
            "goals": Handler(GoalsParams, self.goals, blocking=True, activity=True, first=True),
            "session_end": Handler(SessionIdParams, self.session_end, blocking=True),
            "thought": Handler(ThoughtParams, self.thought, activity=True, first=True),
            "working_get": Handler(SessionIdParams, self.working_get, blocking=True, activity=True),
            "pending": Handler(SessionIdParams, self.pending, blocking=True, activity=True, first=True),
        }

    def anchor_set(self, params: AnchorSetParams, call: Call) -> FoundAnchorAnswer:
        """Change the anchor of a session."""
        answer: FoundAnchorAnswer = plain(
            self._store.set_anchor(
                params.session,
                self._channel_of(params),
                task=params.task,
                plan=params.plan,
                decisions=params.decisions,
                next_step=params.next_step,
            )
        )
        return answer

    def anchor_get(self, params: AnchorGetParams, call: Call) -> FoundAnchorAnswer:
        """Return the anchor of a session, or the newest of a channel."""
        if params.session is not None:
            found = self._store.anchor_of_session(params.session)
        else:
            found = self._store.anchor_of_channel(self._channel_of(params))
        answer: FoundAnchorAnswer = plain(found)
        return answer

    def anchor_recover(self, params: AnchorRecoverParams, call: Call) -> FoundAnchorAnswer:
        """Return the anchor from which a session goes on."""
        channel = self._channel_of(params)
        answer: FoundAnchorAnswer = plain(self._store.recover_anchor(channel, params.session))
        return answer

    def reflect(self, params: ReflectParams, call: Call) -> ReflectAnswer:
        """Keep what an agent learned in a session."""
        channel = self._channel_of(params)
        learned = [(Kind(one.kind), one.text) for one in params.learned]
        if params.outcome.strip():
            learned.append((Kind.EPISODE, params.outcome))
        lessons = self._store.reflect(params.session, channel, learned, params.agent_id, params.idempotency_key)
        told: list[tuple[bool, LessonAnswer]] = [
            (one.known, {"node_id": one.node_id, "kind": one.kind.value, "text": one.text, "waits": one.waits})
            for one in lessons
        ]
        return {
            "session_id": self._store.session_name(params.session),
            "channel": channel,
            "kept": [lesson for known, lesson in told if not known],
            "known": [lesson for known, lesson in told if known],
            "goals": [plain(goal) for goal in self._store.goals(params.session) if goal.is_open],
        }

    def goal_set(self, params: GoalSetParams, call: Call) -> GoalAnswer:
        """Open or change a goal."""
        answer: GoalAnswer = plain(
            self._store.set_goal(
                params.session,
                self._channel_of(params),
                text=params.text,
                goal_id=params.goal_id,
                state=params.state,
                parent=params.parent,
            )
        )
        return answer

    def goals(self, params: GoalsParams, call: Call) -> GoalsAnswer:
        """Return the goals of a session, and the open threads of the channel."""
        channel = self._channel_of(params)
        return {
            "channel": channel,
            "goals": [plain(goal) for goal in self._store.goals(params.session)] if params.session else [],
            "threads": [plain(goal) for goal in self._store.threads(channel)],
        }

    def session_end(self, params: SessionIdParams, call: Call) -> SessionEndAnswer:
        """Note that a session is over."""
        goals = self._store.end_session(params.session)
        return {
            "session_id": self._store.session_name(params.session),
            "goals": [plain(goal) for goal in goals],
        }

    def thought(self, params: ThoughtParams, call: Call) -> ThoughtAnswer:
        """Hold a thought of a session's agent."""
        named = self._channel_of(params) if params.channel or params.cwd else None
        held = self._store.think(params.session, named, params.text)
        return {"session_id": self._store.session_name(params.session), "thoughts": held}

    def working_get(self, params: SessionIdParams, call: Call) -> WorkingAnswer:
        """Return what is held of a session, with its goals."""
        held = self._store.working(params.session)
        return {
            "session_id": held.session_id,
            "channel": held.channel,
            "turns": [{"role": role, "text": text} for role, text in held.turns],
            "summary": list(held.summary),
            "thoughts": list(held.thoughts),
            "topic": held.topic,
            "goals": [plain(goal) for goal in self._store.goals(params.session)],
        }

    def _channel_of(self, params: _OfAChannel) -> str:
        return channel_of(params.channel, params.cwd, lambda _: self._store.channel_names(), beginning=False)

    def pending(self, params: SessionIdParams, call: Call) -> PendingAnswer:
        """Return what waits for a session's agent, once."""
        answer: PendingAnswer = plain(self._store.take_pending(params.session))
        return answer

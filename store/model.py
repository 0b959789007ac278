"""The values that every room shares: memories, turns, chunks, hits, envelopes, changes.

Plain frozen dataclasses: they cross threads, are compared in tests, and hold no behaviour but their own arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Literal, Self

from .limits import MOST_TRUST, TRUST_GAIN
from .roles import role_of

NodeId = str

Verdict = Literal["useful", "not-useful", "rejected"]
"""A person's feedback on a memory that was shown: it helped, it did not, it should not have been shown at all."""

Relation = Literal["RelatesTo", "Supersedes", "Contradicts"]
"""A relation by which two memories are linked by hand: `Supersedes` says that the first takes the second's place."""

CURRENT_PAGE = "What holds now"
"""The title of a project's page of what was decided, wished for and learned there, and holds."""

SKILL = "skill"
"""The key of a procedure's page: the skill's file that was made of it and its hash, {} where its person wants none."""

STRATEGY, SKILL_DRAFT = "strategy", "skill-draft"
"""The tags of the page of a procedure that worked several times, and of one that may become an agent's skill."""

AWAITS_REVIEW = "awaits_review"
"""The key of a memory that an agent wrote down and its person has not accepted: what it is to become, and why."""

COLLEAGUE = "colleague"
"""The provenance of a memory that a colleague shared, the first word of its speaker, and the key of its origin."""

PROMOTED_FROM = "promoted_from"
"""The key of a memory of all projects that a dream proposed: the facts of projects that say the same."""

UNSENT: Final[Mapping[str, Any]] = {"sent": False}
"""The metadata of a field that stays in the process: an answer on the wire goes without it."""

UNLESS_NONE: Final[Mapping[str, Any]] = {"sent": "unless None"}
"""The metadata of a field that an answer has only where it was asked for."""


GLOBAL_CHANNEL = "_global"
ALL_CHANNELS = "*"


class StoreError(Exception):
    """Base of the errors of this room. `hint` is a sentence that says what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NotFound(StoreError):
    """No such memory, turn, run or file."""


class InvalidInput(StoreError):
    """The input cannot be kept; the message says why."""


class StoreBusy(StoreError):
    """Another process, or a full queue, is in the way; a later try helps."""


class IndexDamaged(StoreBusy):
    """The index was found damaged in the middle of a call; another takes its place in a moment."""


class StoreReadOnly(StoreError):
    """The disk refused a write that was promised; nothing more is accepted until a person has looked."""


class SchemaTooNew(StoreError):
    """A database was written by a newer dreamd."""


class Corrupt(StoreError):
    """A database fails its own integrity check."""


class Conflict(StoreError):
    """A file is no longer what a change was planned against; the message names it."""


class Level(StrEnum):
    """The distance of a memory from its session: L0 the session itself, L3 the profile."""

    SESSION = "L0"
    FACT = "L1"
    SCENARIO = "L2"
    PROFILE = "L3"


class Kind(StrEnum):
    """The kind of a memory."""

    TURN = "turn"
    SESSION = "session"
    FACT = "fact"
    PREFERENCE = "preference"
    PROCEDURE = "procedure"
    CORRECTION = "correction"
    NEGATIVE = "negative"
    DECISION = "decision"
    PITFALL = "pitfall"
    PERSON = "person"
    EVENT = "event"
    VALUE = "value"
    FINDING = "finding"
    EPISODE = "episode"
    SCENARIO = "scenario"
    INSIGHT = "insight"
    PROFILE = "profile"
    NOTE = "note"
    DOCUMENT = "document"
    ENTITY = "entity"


class Status(StrEnum):
    """OKF's life of a concept; archived is `deprecated` with an `archived_at`."""

    DRAFT = "draft"
    STABLE = "stable"
    DEPRECATED = "deprecated"


@dataclass(frozen=True, slots=True)
class NewTurn:
    """One message as it comes in, before it has a place in a session. `role` becomes the one word for its part.

    `is_foreign`: its reader knows that what strangers wrote may have been read with it. It is not kept.
    """

    role: str
    text: str
    at: datetime | None = None
    external_id: str | None = None
    is_foreign: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", role_of(self.role))


@dataclass(frozen=True, slots=True)
class SessionHead:
    """A session without its turns; `session_id` is its node id."""

    session_id: NodeId
    channel: str
    title: str = ""
    started_at: datetime | None = None
    agent_id: str | None = None
    task_id: str | None = None
    user_id: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """The part of another program's file that was read. By its `mark`, the reader's own, it is known again."""

    size_bytes: int
    lines: int
    mark: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a session, where it lies in its file.

    `ordinal` counts from 1; `offset` and `end` bound header and text in the file's bytes; `text` is unescaped.
    """

    session_id: NodeId
    ordinal: int
    role: str
    text: str
    at: datetime | None
    external_id: str | None
    offset: int = 0
    end: int = 0

    @property
    def node_id(self) -> NodeId:
        """`SESSION#N`."""
        return f"{self.session_id}#{self.ordinal}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A turn that a memory contains or cites."""

    node_id: NodeId
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class StatementSlot:
    """A statement about the state of a thing, in its own words: the `attribute` of `subject` is `value`."""

    subject: str
    attribute: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One concept file of the vault, read.

    `text` is the body without frontmatter. `sources` are the node ids that it rests on, in the file's order. `extra`
    holds every frontmatter key that is not ours. A fact's text is what was said, word for word, at `created_at`; its
    keys are `said_by` (user, assistant or a name), `about` (whom and what) and `days` (those that "yesterday" meant).
    `later` are memories that probably took its place, both kept.
    """

    node_id: NodeId
    level: Level
    kind: Kind
    title: str
    text: str
    channel: str = GLOBAL_CHANNEL
    description: str = ""
    tags: tuple[str, ...] = ()
    scope: str = "project"
    status: Status = Status.STABLE
    created_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    archived_at: datetime | None = None
    tense: str | None = None
    certainty: float | None = None
    provenance: str | None = None
    session_id: str | None = None
    sources: tuple[NodeId, ...] = ()
    supersedes: tuple[NodeId, ...] = ()
    superseded_by: NodeId | None = None
    contradicts: tuple[NodeId, ...] = ()
    later: tuple[NodeId, ...] = ()
    said_by: str | None = None
    about: tuple[str, ...] = ()
    days: tuple[date, ...] = ()
    slot: StatementSlot | None = None
    run: str | None = None
    path: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_archived(self) -> bool:
        """Return True if its own file says that it was archived."""
        return self.status is Status.DEPRECATED or self.archived_at is not None

    @property
    def is_live(self) -> bool:
        """Return True if it still holds: it is neither archived nor superseded."""
        return not self.is_archived and self.superseded_by is None

    @property
    def is_waiting(self) -> bool:
        """Return True if its person has not accepted it yet: nothing is built on it."""
        return AWAITS_REVIEW in self.extra

    @property
    def since(self) -> datetime | None:
        """Return from when it holds, if known: since it was said, or said again after something else held."""
        return self.valid_from or self.created_at


@dataclass(frozen=True, slots=True)
class Edit:
    """The fields of a memory that a person changes; None for one that stays. `always`: a priority, 0 for none."""

    text: str | None = None
    title: str | None = None
    kind: Kind | None = None
    tags: tuple[str, ...] | None = None
    always: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a node that is embedded and matched: characters [start, end) of the node's text."""

    chunk_id: NodeId
    start: int
    end: int
    text: str
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that recall found.

    `contradicts` are turns or memories that say otherwise; a person has to decide. `newer` took its place, or likely
    did; `superseded_by` are those of them that surely did. It is out of date after `stale_after`. `confidence`, 0 to 1,
    is how probably it answers the question. `speaker` is who said it, a name or a role, "" where nobody is known to
    have; `reply` is how an agent's words, or a person's question, were answered. The text of a long memory is from its
    part `chunk` (from 1) of `chunks`. `certainty`, 0 to 1, is how sure it was that this was said and is worth keeping.
    """

    node_id: NodeId
    level: Level
    kind: Kind
    title: str
    text: str
    score: float
    channel: str
    created_at: datetime | None
    evidence: tuple[Evidence, ...]
    contradicts: tuple[NodeId, ...] = ()
    newer: tuple[NodeId, ...] = ()
    superseded_by: tuple[NodeId, ...] = ()
    stale_after: datetime | None = None
    confidence: float = 0.0
    speaker: str = ""
    reply: str = ""
    certainty: float | None = None
    chunk: int | None = field(default=None, metadata=UNLESS_NONE)
    chunks: int | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True)
class Slot:
    """One line of an envelope: `text` is its head (day, speaker, notes) and its `words`, which were said.

    `contradicts` are turns or memories that say otherwise; a person has to decide.
    """

    node_id: NodeId
    text: str
    tokens: int
    evidence: tuple[Evidence, ...]
    contradicts: tuple[NodeId, ...] = ()
    words: str = field(default="", metadata=UNSENT)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The answer of `context` to an agent; `tokens` is an upper estimate, `notes` say what limits it.

    `confidence`, 0 to 1, is how probably its best line answers the question. `incomplete`: it abstains although not all
    that is remembered can be found yet.
    """

    text: str
    tokens: int
    slots: tuple[Slot, ...]
    abstained: bool = False
    notes: tuple[str, ...] = ()
    confidence: float = 0.0
    incomplete: bool = False


class ActionKind(StrEnum):
    """The effect of an action on its file."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One proposed change to one vault file.

    `pre_sha256` is the hash of the content that the action was planned against (None: no such file). `content` is the
    whole new file (None: delete). `fingerprint` names what tombstones would forbid, a key a line (see
    `keep.changes.fingerprint`).
    """

    kind: ActionKind
    path: str
    node_id: NodeId
    stage: str
    reason: str
    pre_sha256: str | None = None
    content: bytes | None = None
    fingerprint: str | None = None

    @classmethod
    def replacing(
        cls,
        path: str,
        node_id: NodeId,
        before: bytes,
        content: bytes,
        *,
        stage: str,
        reason: str,
        fingerprint: str | None = None,
    ) -> Self:
        """Return the action that replaces the content `before` of a file."""
        return cls(
            kind=ActionKind.REPLACE,
            path=path,
            node_id=node_id,
            stage=stage,
            reason=reason,
            pre_sha256=sha256(before).hexdigest(),
            content=content,
            fingerprint=fingerprint,
        )


def tombstone_keys(fingerprint: str | None) -> tuple[str, ...]:
    """Return the keys of the tombstones that the fingerprint of an action stands for."""
    return tuple(fingerprint.split("\n")) if fingerprint else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changeset:
    """A run's actions: the unit that is applied and undone. `cursors` move with it, in one transaction.

    `cursors` maps (stage, session_id) to the last ordinal consumed; `digest` is the day's digest, a derived file that
    is no part of what undo restores.
    """

    run_id: str
    actions: tuple[Action, ...] = ()
    cursors: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def changes_something(self) -> bool:
        """True if there is something to apply but cursors."""
        return bool(self.actions)

    @property
    def changes_by_stage(self) -> dict[str, int]:
        """The number of changes that each stage proposed."""
        return dict(Counter(action.stage for action in self.actions))


def trust(feedback: Mapping[str, int]) -> float:
    """Return the trust in a memory with this feedback, counted by kind: 0 to MOST_TRUST, 1 without feedback.

    The same factor decides how soon a memory fades and how high it ranks.
    """
    factor = 1.0 + sum(TRUST_GAIN.get(kind, 0.0) * times for kind, times in feedback.items())
    return min(MOST_TRUST, max(0.0, factor))

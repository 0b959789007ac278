"""The store's answers about itself and its memories, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from .model import UNLESS_NONE, UNSENT, ActionKind, Evidence, Hit, Kind, Level, NodeId

_QUOTED = re.compile(r"“([^”]*)”")

Severity = Literal["error", "warning", "note"]

Novelty = Literal["new", "known", "again"]
"""The novelty of a statement: new, known in the same words, or known and over, so that it holds again now."""

GoalState = Literal["active", "blocked", "completed", "abandoned"]
"""The state of a goal; it is open while it is active or blocked."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement that is kept, as far as its acknowledgement knows; `redacted` counts the secrets taken out of it.

    What it replaces or contradicts is found later, and linked. `waits`: it steers nothing until its person accepts it.
    """

    node_id: NodeId
    channel: str
    novelty: Novelty
    redacted: int
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """The work that a session's agent does right now, in a few words of its own.

    `plan` points at one (a path, a heading), `decisions` are the last ones, oldest first. `ended_at`: since when its
    session is over. Hooks saw the last prompt (`asked`), the files `edited`, and the command that fails (`failing`).
    """

    session_id: NodeId
    channel: str
    set_at: datetime
    task: str = ""
    plan: str = ""
    decisions: tuple[str, ...] = ()
    next_step: str = ""
    ended_at: datetime | None = None
    asked: str = ""
    edited: tuple[str, ...] = ()
    failing: str = ""


@dataclass(frozen=True, slots=True)
class FoundAnchor:
    """An anchor, if there is one; `text` is the same for an agent to read, fenced."""

    anchor: Anchor | None
    text: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of a session; `parent` is the goal that it serves. `thread_since`: its session ended and it was open."""

    goal_id: str
    session_id: NodeId
    channel: str
    text: str
    state: GoalState
    parent: str | None
    opened_at: datetime
    changed_at: datetime
    thread_since: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Return True while it is neither completed nor abandoned."""
        return self.state in ("active", "blocked")


@dataclass(frozen=True, slots=True)
class ToldLine:
    """A line that an agent was handed, and the node that it is of, where that is known.

    `became` is a client's verdict on the node, `used` where the agent's next turn has its words, "" for neither.
    """

    text: str
    node_id: NodeId | None = None
    became: str = ""

    @property
    def statement(self) -> str:
        """The words of its memory, without the day and the speaker in front of them."""
        return " ".join(_QUOTED.findall(self.text)) or self.text.partition(": ")[2] or self.text


@dataclass(frozen=True, slots=True)
class ToldText:
    """A text that a session's agent was handed at a moment of its work; or would have been.

    `answered`: a later turn of the agent was compared with it. `lost` is the reason why it did not arrive, "" for none.
    """

    at: datetime
    session_id: NodeId
    channel: str
    agent: str
    moment: str
    tokens: int = 0
    answered: bool = False
    lost: str = ""
    lines: tuple[ToldLine, ...] = ()
    told_id: int = field(default=0, metadata=UNSENT)


@dataclass(frozen=True, slots=True)
class ToldCounts:
    """Numbers of texts handed over, their sessions and tokens, of texts whose words were used, and of lost ones.

    `lost_starts` are starts of sessions without their text, `lost_prompts` prompts that got no answer in time. `cited`
    are the tokens of the whole sessions behind the lines, each session once a text, a token for four bytes of its file.
    """

    texts: int = 0
    sessions: int = 0
    tokens: int = 0
    used: int = 0
    lost_starts: int = 0
    lost_prompts: int = 0
    cited: int = 0
    by_moment: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilledGap:
    """A question that was asked in vain so many times, and that a dream found an answer to."""

    text: str
    channel: str | None
    times: int


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The calls of a tool by one program in one project; `median_s` is None where no call's end is known."""

    tool: str
    channel: str
    agent: str
    calls: int
    failures: int
    median_s: float | None


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that an agent may be given."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ChosenTool:
    """A tool that serves a request; `served` is an earlier request of that kind that it served, or ""."""

    name: str
    score: float
    served: str = ""


@dataclass(frozen=True, slots=True)
class RecentTurn:
    """A turn by its id, and its first sentences."""

    node_id: NodeId
    text: str


@dataclass(frozen=True, slots=True)
class RecentSession:
    """A session by its last prompts, the agent's last words and the files that were changed, the latest last."""

    session_id: NodeId
    channel: str
    began_at: datetime | None
    last_at: datetime | None
    turns: int
    asked: tuple[RecentTurn, ...] = ()
    answer: RecentTurn | None = None
    edited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lesson:
    """A statement that an agent learned in a session, and its memory; `known`: it was kept before and holds."""

    node_id: NodeId
    kind: Kind
    text: str
    known: bool = field(metadata=UNSENT)
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Linked:
    """Two memories and their relation, and the run that linked them; None where they were linked so already."""

    source: NodeId
    target: NodeId
    relation: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Tagged:
    """A memory with its tags, and the run that changed them; None where nothing changed."""

    node_id: NodeId
    tags: tuple[str, ...]
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Edited:
    """A memory as it is after an edit, and the run that changed it; None where nothing changed.

    `redacted` counts the secrets taken out of its words.
    """

    node_id: NodeId
    run_id: str | None
    version: str
    kind: Kind
    title: str
    tags: tuple[str, ...]
    curated: int
    redacted: int


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a memory: how often it was in an answer, the last time, and how often an agent took up its words.

    `again`: how often it was said again.
    """

    told: int = 0
    told_at: datetime | None = None
    used: int = 0
    again: int = 0


LinkRelation = Literal["LinksTo", "RelatesTo"]
"""A link in a text, and a relation that a person or a dream made."""


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A link from the memory that is shown (`out`) or to it, and the memory at its other end; `weight` is 0 to 1."""

    node_id: NodeId
    title: str
    relation: LinkRelation
    out: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Shown:
    """One memory, session or turn, whole, with what it rests on and what rests on it.

    `superseded_by` took its place, it took that of those that it `supersedes`, the `later` ones probably took its
    place, and those that it `contradicts` say otherwise. `links` are those of its text and of others' texts, and its
    relations, where none of the above says more. All of its own channel or the global one. `version` changes
    with its words, title, kind, tags and priority; a turn or session has none. `certainty`, 0 to 1, is how sure it was
    that this was said and is worth keeping; `provenance`: user_stated, user_corrected, observed, inferred, extracted,
    colleague.
    """

    node_id: NodeId
    level: Level
    kind: Kind
    title: str
    text: str
    channel: str
    path: str
    created_at: datetime | None
    live: bool
    tags: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    cited_by: tuple[NodeId, ...]
    superseded_by: NodeId | None = None
    supersedes: tuple[NodeId, ...] = ()
    later: tuple[NodeId, ...] = ()
    contradicts: tuple[NodeId, ...] = ()
    links: tuple[LinkLine, ...] = ()
    curated: int = 0
    version: str = ""
    certainty: float | None = None
    provenance: str = ""
    use: Use = Use()


PERSON: Final = "you"
"""The name of the person whose memory it is, in the history of a node."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One event of a node with its time, its author (a person is `you`) and its reason; `run_id` can be undone."""

    at: datetime
    what: str
    who: str = ""
    why: str = ""
    run_id: str | None = None


ListedState = Literal["replaced", "archived", "forgotten", "disputed"]
"""The state of a memory that does not simply hold."""


@dataclass(frozen=True, slots=True)
class ListedNode:
    """One line of a list. `curated` is the priority of a memory that stands in every envelope, else 0.

    It has a `state` where it does not simply hold. Where texts were asked for, it has the beginning of its `text`, and
    the time from which, and until which, it holds.
    """

    node_id: NodeId
    level: Level
    kind: Kind
    title: str
    channel: str
    created_at: datetime | None
    live: bool
    curated: int = 0
    state: ListedState | None = field(default=None, metadata=UNLESS_NONE)
    text: str | None = field(default=None, metadata=UNLESS_NONE)
    since: datetime | None = field(default=None, metadata=UNLESS_NONE)
    until: datetime | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True)
class TagCount:
    """A tag in its usual spelling, and the number of live memories that have it in any."""

    tag: str
    memories: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The hits of a channel that was not asked."""

    channel: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A memory that was taken back, the run that did it, and what rested on it alone and went with it."""

    node_id: NodeId
    run_id: str
    also: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """A memory that was brought back, and the run that did it; `beside`: one that had taken its place and holds too."""

    node_id: NodeId
    run_id: str
    path: str
    beside: NodeId | None = None


@dataclass(frozen=True, slots=True)
class RunChange:
    """A change of a file by a run: the memory's text `before` and `after` it, "" for none, and of a session always.

    `state` is applied, undone or conflict.
    """

    node_id: NodeId
    kind: ActionKind
    stage: str
    path: str
    title: str
    before: str
    after: str
    reason: str
    state: str


@dataclass(frozen=True, slots=True)
class Decided:
    """A person's decision, and the run that carries it out.

    An accepted memory now `supersedes` and `contradicts` these others.
    """

    decision_id: str
    run_id: str
    choice: str
    paths: tuple[str, ...]
    supersedes: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A file that agent programs read by themselves; `key` names it in its channel, `speaker` as whose its words count.

    `root` is the folder that is there as long as the file can be missed: its project's, or the person's own. `read_by`
    are the programs that have it in their context.
    """

    key: str
    path: str
    root: str
    read_by: frozenset[str]
    speaker: str


@dataclass(frozen=True, slots=True)
class FileProposal:
    """A line of a program's file that was overtaken, with the change of the file as a unified diff.

    `because` is the memory that says otherwise, in the `words` that were said at `said_at`.
    """

    proposal_id: str
    path: str
    channel: str
    because: NodeId
    words: str
    said_at: datetime | None
    diff: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that a person should know of. `severity` is `error`, `warning`, or `note` where nothing is wrong."""

    path: str
    problem: str
    severity: Severity = "warning"


@dataclass(frozen=True, slots=True)
class Unread:
    """The turns and sessions that no dream has read, where learning is on.

    `ended` counts the sessions that are over, and `oldest_at` is the end of the oldest of these. `is_large`: vault or
    index is beyond the size of the settings.
    """

    turns: int = 0
    sessions: int = 0
    ended: int = 0
    oldest_at: datetime | None = None
    is_large: bool = False


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup that was written and read back: its file, and for how many seconds writes were held for it.

    `hash` is the SHA-256 of the whole archive.

    `left_out` are the links and other things in the vault that are no regular files.
    """

    path: str
    files: int
    size_bytes: int
    hash: str
    seconds: float
    held_s: float
    left_out: Sequence[str]


@dataclass(frozen=True, slots=True)
class Leak:
    """A file that holds what looks like secrets, and where: `line 3 (github)`."""

    node_id: NodeId
    path: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Digest:
    """A day's digest without its frontmatter. `date` is ISO 8601; `page` is its HTML page, where there is one."""

    date: str
    path: Path
    page: Path | None
    text: str


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild. `embedded` counts the chunks that the model had to read: those never seen before."""

    files: int
    nodes: int
    chunks: int
    embedded: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Migrated:
    """The move of a flat vault into folders; `run_id` is None for a preview, and where nothing is to be moved.

    `linked` counts the other files in which links were rewritten, `left` are the files that stay, each with the reason,
    `moves` the first of the files that move, from where to where.
    """

    run_id: str | None
    moved: int
    linked: int
    left: Sequence[tuple[str, str]] = ()
    moves: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """The model that makes vectors, and whether it is loaded; until then words alone are looked up.

    `advice` is a sentence on a model that suits what is said here better; "" where this one does.
    """

    model: str
    ready: bool
    advice: str


@dataclass(frozen=True, slots=True)
class QueryCacheStatus:
    """The questions whose candidates are held, and counts since the start."""

    entries: int
    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server that answers with a copy of the index: its name for people, and its state.

    `in step`: it answers. `catching up`: it is given the `waiting` chunks that it lacks, or builds its indexes, and the
    index answers. `away`: the same, because of the `problem`.
    """

    name: str
    state: str
    waiting: int
    problem: str


@dataclass(frozen=True, kw_only=True)
class StoreStatus:
    """The status of a store.

    `memories`: how many of each level, L0 to L3, L0 being sessions. `channels`: how many memories and turns each holds.
    `pending_embeddings`: chunks that words find and meaning does not yet. `journal`: changes that were acknowledged and
    whose files are not safe on the disk yet. `not_found_yet`: those, and changed files, that the index has not read.
    `catching_up`: what changed while dreamd or the vault was away is still being read.
    `problems` are sentences; each is gone when its cause is. `layout`: `folders`, or `flat` as vaults were at first.
    `server` is null where `store.backend` names none.
    """

    memories: Mapping[str, int]
    files: int
    layout: str
    turns: int
    turns_purged: int
    turns_forgotten: int
    chunks: int
    channels: Mapping[str, int]
    pending_embeddings: int
    embedding: EmbeddingStatus
    query_cache: QueryCacheStatus
    server: ServerStatus | None
    sizes: Mapping[str, int]
    journal: int
    not_found_yet: int
    catching_up: bool
    runs: int
    paused: bool
    channels_off: Sequence[str]
    broken_files: int
    problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class ExtensionStatus:
    """The state of an extension: its package, the hooks that it fills, and its problem at loading, "" for none.

    Counted since the start: calls that `failed`, that were too `slow`, and that were `dropped` while it rested.
    """

    name: str
    package: str
    version: str
    hooks: tuple[str, ...]
    problem: str
    failed: int
    slow: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedItem:
    """A thing that a purge would remove (`goes`), or only take lines out of.

    `because`: it is `named`, it is `said` in a named one, it is `drawn` from words that go, or it `quotes` them.
    """

    node_id: NodeId
    kind: str
    title: str
    channel: str
    created_at: datetime | None
    because: Literal["named", "said", "drawn", "quotes"]
    goes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """The amount that a purge removed for good, or would remove.

    `run_id` is None for a preview, and where there was nothing to remove. `titles` are a few of the things that go,
    `items` of a preview those that go or lose lines, the named first, 100 at most; the nodes of `repeated_in` stay, and
    say much of the same. `copies` are ledgers that were set aside: they go as a whole. `traces` are the places where
    something of it was found afterwards, `out_of_reach` sentences on what a purge does not reach. `questions` counts
    past questions.
    """

    run_id: str | None = None
    sessions: int = 0
    turns: int = 0
    memories: int = 0
    secrets: int = 0
    files_removed: int = 0
    files_changed: int = 0
    titles: tuple[str, ...] = ()
    repeated_in: tuple[NodeId, ...] = ()
    copies: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    out_of_reach: tuple[str, ...] = ()
    questions: int = 0
    items: tuple[PurgedItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text, or a value of JSON's types, that an agent keeps under a key in a space.

    `version` changes with every change of its file. After `expires_at` it is gone; `ttl_minutes` count from its last
    use. Recall leaves out what is not `searched`.
    """

    space: tuple[str, ...]
    key: str
    value: Any
    node_id: NodeId
    channel: str
    version: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    ttl_minutes: float | None = None
    searched: bool = True
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as it was acknowledged; `redacted` counts the secrets taken out of it."""

    node_id: NodeId
    version: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    redacted: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The number of documents that were renamed or deleted, and the run that `undo` undoes; None for none."""

    documents: int
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document and how near it is to a question, 0 to 1."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLine:
    """A person or a thing that has a page. `mentions` counts turns; `key` is the same for pages of one name."""

    node_id: NodeId
    key: str
    name: str
    type: str
    aliases: tuple[str, ...]
    channel: str
    mentions: int
    relations: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationLine:
    """A typed relation of a subject to an object, with the turn that is its evidence and that turn's sentence.

    `subject_id` and `object_id` are the pages of the two, None for one without a page. It is `in_force` until `until`;
    `what` is the thing that was handed over. `page` is the page that it lies on.
    """

    subject: str
    relation: str
    object: str
    subject_id: NodeId | None
    object_id: NodeId | None
    what: str
    words: str
    turn: NodeId
    since: datetime | None
    until: datetime | None
    channel: str
    page: NodeId

    @property
    def in_force(self) -> bool:
        """True while no later turn ended it."""
        return self.until is None


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """The answer to a short question ("who owns payments?"), and the sentence of a turn that says so.

    `relation` is the one in force that answers; None where the sentence alone does.
    """

    answer: str
    words: str
    turn: NodeId
    relation: RelationLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityGraph:
    """A page of entities, most mentioned first, with the relations among all of them that begin at these.

    `next` is the offset of the next page, None behind the last; `total` counts the entities.
    """

    entities: Sequence[EntityLine]
    relations: Sequence[RelationLine]
    total: int
    next: int | None


@dataclass(frozen=True, slots=True)
class AboutLine:
    """A line about an entity: `part` is relation, past, fact or mention; `evidence` are its turns."""

    part: str
    text: str
    node_id: NodeId
    evidence: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The knowledge of one person or thing, within a budget of tokens: `text` is all of it, `lines` its parts.

    `entities` are its pages, one a channel. Where a name means several, `others` names them, and the most mentioned one
    is told. For a name that has no page `entities` is empty, and the lines are of turns and notes with the name.
    """

    name: str
    type: str
    entities: Sequence[EntityLine]
    relations: Sequence[RelationLine]
    lines: Sequence[AboutLine]
    text: str
    tokens: int
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """A person or thing whose names were merged or split by hand, and the run that `undo` undoes."""

    node_id: NodeId
    name: str
    aliases: tuple[str, ...]
    run_id: str

"""One declared type for the answer of each method: of the daemon's handlers, of `dreamctl`'s words and of the docs.

`docs/protocol.md` names the same fields, and tests hold the types, the docs and a real daemon's answers together. The
standard library alone is imported. Instants are ISO 8601 with their offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from ..store.results import StoreStatus


class EmptyAnswer(TypedDict):
    """Done."""


class HelloAnswer(TypedDict):
    """The daemon that answers."""

    version: str
    pid: int
    protocol: int


class CancelAnswer(TypedDict):
    """`cancelled`: the request was open."""

    cancelled: bool


# ---- what is found


class EvidenceAnswer(TypedDict):
    """A turn, and its id in the set that it came from."""

    node_id: str
    external_id: str | None


class HitAnswer(TypedDict):
    """One memory that was found."""

    node_id: str
    level: str
    kind: str
    title: str
    text: str
    score: float
    channel: str
    created_at: str | None
    evidence: list[EvidenceAnswer]
    contradicts: list[str]
    newer: list[str]
    superseded_by: list[str]
    stale_after: str | None
    confidence: float


class CandidateAnswer(TypedDict):
    """A unit that was ranked: its nodes that matched, and its rank and score in each arm of the search.

    `priors` are what was added to its learned score for other reasons than its match with the question.
    """

    unit: str
    nodes: list[str]
    score: float
    ranks: dict[str, int]
    scores: dict[str, float]
    priors: dict[str, float]


class TraceAnswer(TypedDict):
    """The steps by which an answer came about."""

    timings_ms: dict[str, float]
    candidates: list[CandidateAnswer]


class WhyNotAnswer(TypedDict):
    """The place of one memory in the search, from 1, or the reason why it was not in it."""

    node_id: str
    place: int | None
    reason: str


class ElsewhereAnswer(TypedDict):
    """The hits in a channel that was not asked."""

    channel: str
    hits: list[HitAnswer]


class RecallAnswer(TypedDict):
    """`channel` is the one that was looked in beside the global one."""

    hits: list[HitAnswer]
    abstained: bool
    notes: list[str]
    channel: str
    confidence: float
    elsewhere: list[ElsewhereAnswer]
    trace: NotRequired[TraceAnswer]
    why_not: NotRequired[WhyNotAnswer]


class SlotAnswer(TypedDict):
    """One piece of an envelope."""

    node_id: str
    text: str
    tokens: int
    evidence: list[EvidenceAnswer]
    contradicts: list[str]


class ContextAnswer(TypedDict):
    """One text to hand to a model, and the pieces that it is made of."""

    text: str
    tokens: int
    slots: list[SlotAnswer]
    abstained: bool
    notes: list[str]
    confidence: float
    channel: str


class ListedAnswer(TypedDict):
    """One line of a list. `curated` is the priority of a memory that stands in every envelope, else 0."""

    node_id: str
    level: str
    kind: str
    title: str
    channel: str
    created_at: str | None
    live: bool
    curated: int


class ShowAnswer(ListedAnswer):
    """One memory, session or turn; of a long text a page."""

    text: str
    path: str
    tags: list[str]
    evidence: list[EvidenceAnswer]
    cited_by: list[str]
    superseded_by: str | None
    supersedes: list[str]
    later: list[str]
    contradicts: list[str]
    offset: int
    next: int | None


class ListAnswer(TypedDict):
    """A page of memories; `next` is the offset of the next one."""

    memories: list[ListedAnswer]
    next: int | None


# ---- what is kept and taken back


class RememberAnswer(TypedDict):
    """The memory's id and channel, whether it is new, and how many secrets were taken out of it.

    `waits`: it steers nothing until its person accepts it.
    """

    node_id: str
    channel: str
    novelty: Literal["new", "known", "again"]
    redacted: int
    waits: bool


class ObserveAnswer(TypedDict):
    """The outcome for the turns."""

    session_id: str
    added: int
    known: int
    redacted: int
    purged: int


class ForgetAnswer(TypedDict):
    """The run that took it back; `also` went with it."""

    node_id: str
    run_id: str
    also: list[str]


class FeedbackAnswer(TypedDict):
    """The feedback as it was noted."""

    node_id: str
    verdict: str


class LinkAnswer(TypedDict):
    """The link, and the run that wrote it; null where it was there already."""

    source: str
    target: str
    relation: str
    run_id: str | None


class TagAnswer(TypedDict):
    """A memory's tags, and the run that changed them; null where nothing changed."""

    node_id: str
    tags: list[str]
    run_id: str | None


class PurgeAnswer(TypedDict):
    """The amount that was removed for good, or with `dry_run` would be; `run_id` is null where nothing was.

    `titles` are a few of what goes; `repeated_in` stays, and says much of the same. `copies` are ledgers that were set
    aside, which go as a whole. `traces` are the places where something of it was found afterwards, `out_of_reach`
    those that nobody looked at. `questions` counts past questions, with `probes` alone.
    """

    run_id: str | None
    sessions: int
    turns: int
    memories: int
    secrets: int
    files_removed: int
    files_changed: int
    titles: list[str]
    repeated_in: list[str]
    copies: list[str]
    traces: list[str]
    out_of_reach: list[str]
    questions: int


class SkippedAnswer(TypedDict):
    """A piece that an import passed over."""

    path: str
    line: int | None
    reason: str
    refused: str
    hint: str


class ImportAnswer(TypedDict):
    """The outcome of an import: what was taken and what was left."""

    sessions: int
    turns_added: int
    turns_known: int
    turns_purged: int
    notes: int
    notes_known: int
    redacted: int
    contents_left_out: int
    skipped: list[SkippedAnswer]
    skipped_total: int
    remarks: list[str]
    channels: list[str]


class HookAnswer(TypedDict):
    """The text that an agent is to print, or "" for nothing."""

    output: str


class RestoreAnswer(TypedDict):
    """The run that brought it back; `beside` is one that had taken its place and holds as well."""

    node_id: str
    run_id: str
    path: str
    beside: str | None


class FadingAnswer(TypedDict):
    """A memory that would be archived."""

    node_id: str
    kind: str
    title: str
    channel: str
    confidence: float
    fades_at: str | None


class DecayAnswer(TypedDict):
    """The memories that would be archived within so many days."""

    days: int
    most_a_night: int
    total: int
    fading: list[FadingAnswer]


class WitnessAnswer(TypedDict):
    """A turn that one side of a decision rests on."""

    node_id: str
    role: str
    at: str | None
    text: str


class SideAnswer(TypedDict):
    """One of two memories that contradict each other."""

    node_id: str
    path: str
    title: str
    text: str
    channel: str
    since: str | None
    evidence: list[WitnessAnswer]


class DecisionAnswer(TypedDict):
    """A question that only a person can answer, or a `mark` ("replaced", "likely") that they can take back."""

    decision_id: str
    older: SideAnswer
    newer: SideAnswer
    mark: str | None


class LeakAnswer(TypedDict):
    """A file that holds what looks like a secret."""

    node_id: str
    path: str
    kinds: str


class WaitingAnswer(TypedDict):
    """A memory that an agent wrote down and that steers nothing yet: the kind and the priority that it wants."""

    node_id: str
    kind: str
    always: int
    because: str
    agent: str
    channel: str
    text: str
    at: str | None


class ReviewAnswer(TypedDict):
    """The decisions that wait for a person, the marks that they may take back, and what agents wrote down."""

    decisions: list[DecisionAnswer]
    total: int
    marks: list[DecisionAnswer]
    marks_total: int
    waiting: list[WaitingAnswer]
    leaks: list[LeakAnswer]


class DecidedAnswer(TypedDict):
    """A person's decision, and the run that carried it out."""

    decision_id: str
    run_id: str
    choice: str
    paths: list[str]


# ---- work under way


class AnchorAnswer(TypedDict):
    """The work that a session's agent does right now. `ended_at`: since when the session is over."""

    session_id: str
    channel: str
    set_at: str
    task: str
    plan: str
    decisions: list[str]
    next_step: str
    ended_at: str | None


class FoundAnchorAnswer(TypedDict):
    """An anchor, or null; `text` is the same for an agent to read, fenced."""

    anchor: AnchorAnswer | None
    text: str
    notes: list[str]


class GoalAnswer(TypedDict):
    """A goal of a session; `thread_since`: the session ended then, and it was open."""

    goal_id: str
    session_id: str
    channel: str
    text: str
    state: Literal["active", "blocked", "completed", "abandoned"]
    parent: str | None
    opened_at: str
    changed_at: str
    thread_since: str | None


class GoalsAnswer(TypedDict):
    """Goals of a session, and the open threads of its channel."""

    channel: str
    goals: list[GoalAnswer]
    threads: list[GoalAnswer]


class ThoughtAnswer(TypedDict):
    """The number of thoughts that are held."""

    session_id: str
    thoughts: int


class HeardAnswer(TypedDict):
    """A turn in a session's buffer."""

    role: str
    text: str


class WorkingAnswer(TypedDict):
    """The part of a session that is held in memory; `channel` is null for one that is not."""

    session_id: str
    channel: str | None
    turns: list[HeardAnswer]
    summary: list[str]
    thoughts: list[str]
    topic: int
    goals: list[GoalAnswer]


class PendingAnswer(TypedDict):
    """The fenced text that waited, "" where none did, and the nodes in it; `topic` counts the session's topics."""

    session_id: str
    text: str
    tokens: int
    nodes: list[str]
    topic: int


class LessonAnswer(TypedDict):
    """One thing that was learned, and its memory; `waits`: it steers nothing until its person accepts it."""

    node_id: str
    kind: str
    text: str
    waits: bool


class ReflectAnswer(TypedDict):
    """The memories that were kept, those that were known already, and the session's open goals."""

    session_id: str
    channel: str
    kept: list[LessonAnswer]
    known: list[LessonAnswer]
    goals: list[GoalAnswer]


class DocumentAnswer(TypedDict):
    """A document, whole; `value` is null too where only its place was asked for."""

    space: list[str]
    key: str
    value: Any
    node_id: str
    channel: str
    version: str
    created_at: str
    updated_at: str
    expires_at: str | None
    ttl_minutes: float | None
    searched: bool
    size_bytes: int


class DocumentPutAnswer(TypedDict):
    """A document as it was acknowledged; `redacted` counts the secrets taken out of it."""

    node_id: str
    version: str
    created_at: str
    updated_at: str
    expires_at: str | None
    redacted: int


class DocumentGetAnswer(TypedDict):
    """The document, null where there is none."""

    document: DocumentAnswer | None


class DocumentListAnswer(TypedDict):
    """A page of documents, the oldest first; `next` is what `after` goes on from, null at the end."""

    documents: list[DocumentAnswer]
    next: str | None


class DocumentHitAnswer(TypedDict):
    """The place of a document, and how near it is to the question, 0 to 1."""

    space: list[str]
    key: str
    score: float


class DocumentSearchAnswer(TypedDict):
    """The nearest documents, the nearest first."""

    hits: list[DocumentHitAnswer]


class DocumentMovedAnswer(TypedDict):
    """The number of documents that were renamed or deleted, and the run that did it; null for none."""

    documents: int
    run_id: str | None


class SessionEndAnswer(TypedDict):
    """The goals that a session leaves open: threads of its channel from now on."""

    session_id: str
    goals: list[GoalAnswer]


# ---- dreams


class ConflictAnswer(TypedDict):
    """A file that was left as it is."""

    path: str
    reason: str


class PlannedAnswer(TypedDict):
    """A change that a dry run would make."""

    stage: str
    kind: str
    path: str
    node_id: str
    reason: str


class DreamAnswer(TypedDict):
    """The outcome of a dream; `actions` counts its changes by stage."""

    run_id: str | None
    state: str
    actions: dict[str, int]
    seconds: float
    conflicts: list[ConflictAnswer]
    note: str
    plan: NotRequired[list[PlannedAnswer]]


class SteeredAnswer(TypedDict):
    """The dream that was paused, let go on or cancelled."""

    run_id: str
    state: str


class RunAnswer(TypedDict):
    """One run of the history."""

    run_id: str
    kind: str
    state: str
    started_at: str | None
    seconds: float | None
    created: int
    replaced: int
    deleted: int
    note: str


class RunsAnswer(TypedDict):
    """The history, newest first."""

    runs: list[RunAnswer]


class UndoAnswer(TypedDict):
    """The files that are restored, and those that were left as they were.

    `turns` are those that are no longer forgotten; `forbidden`: no dream proposes again what was undone.
    """

    run_id: str
    restored: int
    turns: int
    forbidden: bool
    conflicts: list[ConflictAnswer]
    already: bool


class DigestAnswer(TypedDict):
    """A day's digest; `undone` names the runs in it that were undone since."""

    date: str
    path: str
    page: str | None
    text: str
    undone: list[str]


# ---- the daemon


class RunningDreamAnswer(TypedDict):
    """The dream that runs; `paused` says why it is held back."""

    run_id: str
    kind: str
    stage: str
    done: int
    total: int
    paused: str


class LlmAnswer(TypedDict):
    """The language model of the settings, and why it does not answer."""

    provider: str
    model: str
    problem: str


class PlaceAnswer(TypedDict):
    """A folder of sessions that is followed; `since` is null where what was said before is taken in too."""

    name: str
    path: str
    agent: str
    since: str | None
    state: str


class WatchAnswer(PlaceAnswer):
    """An estimate of what is there already; `watched` is false after a dry run."""

    watched: bool
    files: int
    sessions: int
    turns: int
    minutes: float


class LiveSessionAnswer(TypedDict):
    """A session that an agent writes now."""

    session_id: str
    agent: str
    channel: str
    last_at: str | None


class BacklogAnswer(TypedDict):
    """The older files that wait to be taken in, `of` so many."""

    files: int
    of: int
    minutes: float


class TranscriptsAnswer(TypedDict):
    """The sessions that are followed; `turns` were taken in since the daemon began."""

    places: list[PlaceAnswer]
    active: list[LiveSessionAnswer]
    turns: int
    backlog: BacklogAnswer | None
    problem: str


class StatusAnswer(HelloAnswer, StoreStatus):
    """The state of the daemon and of its store."""

    uptime_s: float
    vault: str
    dream: RunningDreamAnswer | None
    last_dream: str | None
    next_dream: str | None
    waiting_for: str
    watching: str
    transcripts: TranscriptsAnswer
    llm: LlmAnswer | None


class ProblemAnswer(TypedDict):
    """Something that a person should know of."""

    path: str
    problem: str
    severity: Literal["error", "warning", "note"]


class CheckAnswer(TypedDict):
    """The problems that were found."""

    problems: list[ProblemAnswer]
    settings_problems: list[str]


class RebuildAnswer(TypedDict):
    """The contents of the new index; `embedded` counts the chunks that the model had to read."""

    files: int
    nodes: int
    chunks: int
    embedded: int
    seconds: float


class PauseAnswer(TypedDict):
    """The switch of all learning."""

    paused: bool


class ChannelAnswer(TypedDict):
    """The switch of learning in one channel."""

    channel: str
    learning: bool
    notes: list[str]


class StopAnswer(TypedDict):
    """The daemon ends."""

    stopping: bool


ANSWERS: Mapping[str, type[Mapping[str, Any]]] = {
    "hello": HelloAnswer,
    "ping": EmptyAnswer,
    "cancel": CancelAnswer,
    "recall": RecallAnswer,
    "context": ContextAnswer,
    "remember": RememberAnswer,
    "observe": ObserveAnswer,
    "show": ShowAnswer,
    "list": ListAnswer,
    "forget": ForgetAnswer,
    "feedback": FeedbackAnswer,
    "link": LinkAnswer,
    "tag": TagAnswer,
    "anchor_set": FoundAnchorAnswer,
    "anchor_get": FoundAnchorAnswer,
    "anchor_recover": FoundAnchorAnswer,
    "reflect": ReflectAnswer,
    "goal_set": GoalAnswer,
    "goals": GoalsAnswer,
    "session_end": SessionEndAnswer,
    "thought": ThoughtAnswer,
    "working_get": WorkingAnswer,
    "pending": PendingAnswer,
    "document_put": DocumentPutAnswer,
    "document_get": DocumentGetAnswer,
    "document_list": DocumentListAnswer,
    "document_search": DocumentSearchAnswer,
    "document_rename": DocumentMovedAnswer,
    "document_delete": DocumentMovedAnswer,
    "purge": PurgeAnswer,
    "status": StatusAnswer,
    "import": ImportAnswer,
    "watch": WatchAnswer,
    "unwatch": PlaceAnswer,
    "dream": DreamAnswer,
    "dream_pause": SteeredAnswer,
    "dream_resume": SteeredAnswer,
    "dream_cancel": SteeredAnswer,
    "runs": RunsAnswer,
    "undo": UndoAnswer,
    "digest": DigestAnswer,
    "decay_preview": DecayAnswer,
    "restore": RestoreAnswer,
    "review_list": ReviewAnswer,
    "review_decide": DecidedAnswer,
    "rebuild": RebuildAnswer,
    "check": CheckAnswer,
    "pause": PauseAnswer,
    "resume": PauseAnswer,
    "channel": ChannelAnswer,
    "stop": StopAnswer,
    "hook": HookAnswer,
}
"""Each method's answer."""

"""The front door of the store: one object with a method for each thing that can be asked of it.

Each method delegates to an operation, documented in full in intake.py, recall.py, changes/, upkeep/ or working/.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import date, datetime, timedelta
from typing import Any

from .changes.agent_statements import Waiting
from .changes.decisions import Choice, Decision, Marks
from .changes.run_kinds import AppliedRun, Undone
from .changes.session_plans import Observed
from .core import READ_YOUR_WRITES_S, Core
from .embedding.embedding import Embedder
from .filters import Filter
from .index.index import Reconciled
from .index.projection import Node
from .ledger.records import Run
from .model import (
    GLOBAL_CHANNEL,
    Changeset,
    Edit,
    Envelope,
    Kind,
    Level,
    Memory,
    NewTurn,
    NodeId,
    Relation,
    SessionHead,
    Verdict,
)
from .operations import Operations
from .purge.erase import Progress
from .purge.plan import Selection
from .results import (
    About,
    ChosenTool,
    Decided,
    Document,
    Edited,
    Elsewhere,
    EntityGraph,
    FileProposal,
    FilledGap,
    Forgotten,
    FoundAnchor,
    Goal,
    GoalState,
    HistoryEvent,
    Kept,
    Leak,
    Lesson,
    Linked,
    ListedNode,
    Migrated,
    Moved,
    Named,
    OfferedTool,
    Problem,
    ProgramFile,
    Purged,
    Ranked,
    Rebuilt,
    RecentSession,
    Restored,
    RunChange,
    Shown,
    Stored,
    StoreStatus,
    TagCount,
    Tagged,
    ToolUse,
    Unread,
)
from .search.code_places import CodeChecks
from .search.gathering import Histogram, Ranking
from .search.hits import Recalled
from .search.question import Question
from .settings import StorePaths, StoreSettings
from .upkeep.cleanup import DecayInputs, read_decay_inputs
from .vault.disk import Disk
from .vault.vault import Absence
from .working.cues import CueLine

__all__ = ["MemoryStore", "StorePaths"]


class MemoryStore:
    """One vault with its ledger and its index. Open it once; every method may be called from any thread.

    Other rooms use the methods, and `pages`, `followed`, `handed`, `told`, `exports`, `replica` and `colleagues`;
    `core` and `operations` are for tests and the programs that measure.
    """

    def __init__(
        self,
        paths: StorePaths,
        settings: StoreSettings,
        embedder: Embedder,
        now: Callable[[], datetime],
        disk: Disk | None = None,
        claim: Callable[[], bool] = lambda: True,
    ) -> None:
        """Open the store and start its threads; recovery from a crash goes on during the first calls.

        A vault that is not there is waited for; `claim` locks its folder against other daemons. Raises StoreError when
        the ledger cannot be opened; a damaged index is made anew.
        """
        self.paths = paths
        self.core = Core(paths, settings, embedder, now, disk or Disk(), claim)
        self.operations = Operations(self.core)
        self.pages = self.operations.pages
        self.followed = self.core.followed
        self.handed = self.operations.handed
        self.told = self.operations.told
        self.exports = self.operations.exports
        self.replica = self.operations.replica
        self.colleagues = self.operations.colleagues
        self.vault, self.ledger = self.core.vault, self.core.ledger
        self.index, self.catalog = self.core.index, self.core.catalog
        self.code = CodeChecks(self.catalog, self.vault, now)
        self.read_on: Callable[[str], bool] = lambda agent: True
        """Reads the sessions of a program up to now, before a statement of its agent is judged; False if it cannot."""

    @classmethod
    def open(
        cls,
        paths: StorePaths,
        settings: StoreSettings,
        embedder: Embedder,
        now: Callable[[], datetime],
        claim: Callable[[], bool] = lambda: True,
    ) -> MemoryStore:
        """Open the store on a real disk."""
        return cls(paths, settings, embedder, now, claim=claim)

    def close(self) -> None:
        """Stop the threads, write the acknowledged changes, and close the databases."""
        self.operations.close()

    # ---- What is kept

    def remember(
        self,
        text: str,
        *,
        kind: Kind = Kind.NOTE,
        channel: str = GLOBAL_CHANNEL,
        tags: Sequence[str] = (),
        agent_id: str | None = None,
        title: str = "",
        created_at: datetime | None = None,
        curated: int = 0,
        idempotency_key: str | None = None,
    ) -> Future[NodeId]:
        """Keep one statement; the future resolves when it survives a power cut. Secrets are taken out."""
        return self.operations.intake.remember(
            text,
            kind=kind,
            channel=channel,
            tags=tags,
            agent_id=agent_id,
            title=title,
            created_at=created_at,
            curated=curated,
            idempotency_key=idempotency_key,
        )

    def take_note(
        self,
        text: str,
        *,
        kind: Kind,
        channel: str,
        tags: Sequence[str],
        title: str,
        created_at: datetime | None,
        alias: str = "",
    ) -> Future[Kept]:
        """Keep a note from elsewhere as `remember` does; the future resolves to its novelty and id."""
        return self.operations.intake.take_note(
            text, kind=kind, channel=channel, tags=tags, title=title, created_at=created_at, alias=alias
        )

    def keep(
        self,
        text: str,
        *,
        kind: Kind = Kind.NOTE,
        channel: str = GLOBAL_CHANNEL,
        tags: Sequence[str] = (),
        agent_id: str | None = None,
        session: str | None = None,
        curated: int = 0,
        idempotency_key: str | None = None,
    ) -> Future[Kept]:
        """Keep one statement as `remember` does; the future resolves to its novelty and id."""
        return self.operations.intake.keep(
            text,
            kind=kind,
            channel=channel,
            tags=tags,
            agent_id=agent_id,
            session=session,
            curated=curated,
            idempotency_key=idempotency_key,
        )

    def observe(
        self, head: SessionHead, turns: Sequence[NewTurn], idempotency_key: str | None = None, *, live: bool = False
    ) -> Future[Observed]:
        """Keep turns of a session, each once by its external id; the future resolves when they survive a power cut."""
        return self.operations.intake.observe(head, turns, idempotency_key, live=live)

    def hear_prompt(self, session_id: NodeId, agent: str, channel: str, prompt: str) -> None:
        """Note a person's words to an agent that is at work: a statement in the same words is the person's."""
        self.operations.foreign_words.prompted(session_id, agent, channel, prompt)

    def hear_read(self, head: SessionHead, turns: Sequence[NewTurn]) -> None:
        """Note the turns of a session that is at work, as they are read some time after they were said."""
        self.operations.intake.hear_read(head, turns)

    def catch_up_with(self, agent: str) -> None:
        """Have the sessions of a program read up to now, so that a statement can be judged by them."""
        if self.read_on(agent):
            self.operations.foreign_words.caught_up(agent)

    def reflect(
        self,
        session_id: NodeId,
        channel: str,
        learned: Sequence[tuple[Kind, str]],
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[Lesson, ...]:
        """Keep the lessons of an agent from a session, as inferred facts; wait until they survive a power cut."""
        return self.operations.intake.reflect(session_id, channel, learned, agent_id, idempotency_key)

    # ---- What a session is at work on

    def session_name(self, session_id: NodeId) -> NodeId:
        """Return a session's id as it is kept: it can be part of a path."""
        return self.core.door.session_name(session_id)

    def as_kept(self, text: str) -> str:
        """Return the text of a turn as it is kept: without control characters, secrets and recalled text."""
        return self.core.door.turn(text)

    def set_anchor(
        self,
        session_id: NodeId,
        channel: str,
        *,
        task: str | None = None,
        plan: str | None = None,
        decisions: Sequence[str] = (),
        next_step: str | None = None,
    ) -> FoundAnchor:
        """Change a session's anchor; it survives a power cut when this returns."""
        return self.operations.anchors.set(
            session_id, channel, task=task, plan=plan, decisions=decisions, next_step=next_step
        )

    def see_work(self, session_id: NodeId, channel: str, asked: str, folder: str = "") -> None:
        """Note the work of a session beside its anchor, as hooks saw it; nothing where learning is off."""
        self.operations.anchors.see(session_id, channel, asked, folder)

    def anchor_of_session(self, session_id: NodeId) -> FoundAnchor:
        """Return the anchor of a session, in words for its own agent."""
        return self.operations.anchors.of_session(session_id)

    def anchor_of_channel(self, channel: str) -> FoundAnchor:
        """Return the newest anchor of a channel, of any session."""
        return self.operations.anchors.of_channel(channel)

    def lost_anchor(self, channel: str, session_id: NodeId) -> FoundAnchor:
        """Return the newest anchor of another session that did not end, and gave no sign of life lately."""
        return self.operations.anchors.lost(channel, session_id)

    def recover_anchor(self, channel: str, session_id: NodeId | None = None) -> FoundAnchor:
        """Return the anchor to go on from: the session's own, else the newest of its channel that did not end."""
        return self.operations.anchors.recover(channel, session_id)

    def set_goal(
        self,
        session_id: NodeId | None,
        channel: str,
        *,
        text: str = "",
        goal_id: str | None = None,
        state: GoalState | None = None,
        parent: str | None = None,
    ) -> Goal:
        """Open a goal, or change one, by its id or by its words in the same session."""
        return self.operations.goals.set(session_id, channel, text=text, goal_id=goal_id, state=state, parent=parent)

    def goals(self, session_id: NodeId) -> list[Goal]:
        """Return the goals of a session, in the order in which they were opened."""
        return self.operations.goals.of(session_id)

    def threads(self, channel: str) -> list[Goal]:
        """Return the goals that were open when their sessions ended, the newest first."""
        return self.operations.goals.threads(channel)

    def before_edit(self, channel: str, session_id: NodeId, path: str, text: str, asked: str = "") -> list[CueLine]:
        """Return what earlier sessions decided about a file that is being edited, in at most two lines."""
        return self.operations.cues.before_edit(channel, session_id, path, text, asked)

    def after_failure(
        self, channel: str, session_id: NodeId, command: str, output: str, *, is_sure: bool = True
    ) -> list[CueLine]:
        """Return the cause and the end of an earlier failure of the same error, in at most two lines.

        Unless it `is_sure` that the command failed, only of a failure of the same program.
        """
        return self.operations.cues.after_failure(channel, session_id, command, output, is_sure=is_sure)

    def tool_uses(self, channel: str | None) -> Sequence[ToolUse]:
        """Return the calls, failures and times of each tool by project and program, of one channel or of all."""
        return self.operations.toolbox.uses(channel)

    def select_tools(
        self, request: str, offered: Sequence[OfferedTool], count: int, channel: str = GLOBAL_CHANNEL
    ) -> Sequence[ChosenTool]:
        """Return those of some tools that serve a request, best first."""
        return self.operations.toolbox.select(request, offered, count, channel)

    def end_session(self, session_id: NodeId) -> list[Goal]:
        """Note that a session is over; return its open goals, which are threads of its channel from now on."""
        left = self.operations.goals.end_session(session_id)
        self.core.tell_of_end(self.session_name(session_id))
        return left

    # ---- Documents by key

    def put_document(
        self,
        space: Sequence[str],
        key: str,
        value: Any,
        *,
        channel: str,
        if_version: str | None = None,
        ttl_minutes: float | None = None,
        searched: bool = True,
    ) -> Stored:
        """Keep a value under a key; it survives a power cut when this returns."""
        return self.operations.documents.put(
            space, key, value, channel=channel, if_version=if_version, ttl_minutes=ttl_minutes, searched=searched
        )

    def document(self, space: Sequence[str], key: str, *, refresh: bool = False) -> Document | None:
        """Return a document, None where there is none. `refresh`: its time to live begins again."""
        return self.operations.documents.get(space, key, refresh=refresh)

    def documents(
        self, space: Sequence[str] = (), *, prefix: str = "", deep: bool = False, after: str | None = None
    ) -> Iterator[tuple[str, Document]]:
        """Yield the documents of a space, the oldest first, each with the mark from which `after` goes on."""
        return self.operations.documents.select(space, prefix=prefix, deep=deep, after=after)

    def delete_document(
        self, space: Sequence[str], key: str | None = None, *, tree: bool = False, if_version: str | None = None
    ) -> Moved:
        """Delete a document, as a run that `undo` reverts; without a key, all of a space."""
        return self.operations.documents.delete(space, key, tree=tree, if_version=if_version)

    def rename_document(self, space: Sequence[str], key: str, to: str, *, tree: bool = False) -> Moved:
        """Give a document another key, as a run; with `tree` those below it too: all of them, or none."""
        return self.operations.documents.rename(space, key, to, tree=tree)

    def search_documents(self, space: Sequence[str], query: str, *, deep: bool = True) -> list[Ranked]:
        """Return the searched documents of a space, the nearest first; `deep`: those of the spaces within it too."""
        return self.operations.document_search.search(space, query, deep=deep)

    # ---- Questions

    def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        channel: str | None = None,
        session: NodeId | None = None,
        agent: str | None = None,
        levels: Sequence[Level] = (),
        include_archived: bool = False,
        as_of: datetime | None = None,
        where: Filter = (),
        explain: bool = False,
        like: NodeId | None = None,
        min_score: float = 0.0,
        max_facts: int | None = None,
    ) -> Recalled:
        """Find what answers a question, best first; `where` filters it, `as_of` takes what held at that time.

        With `like` the question is the text of that node; it is left out. `min_score` is the least `confidence` of a
        hit.
        """
        return self.operations.recall.recall(
            query,
            limit=limit,
            channel=channel,
            session=session,
            agent=agent,
            levels=levels,
            include_archived=include_archived,
            as_of=as_of,
            where=where,
            explain=explain,
            like=like,
            min_score=min_score,
            max_facts=max_facts,
        )

    def context(
        self,
        query: str,
        *,
        budget_tokens: int = 1000,
        channel: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        as_of: datetime | None = None,
        where: Filter = (),
        given: Sequence[str] = (),
        only_sure: bool = False,
        min_score: float = 0.0,
        max_facts: int | None = None,
    ) -> Envelope:
        """Find what answers a question, as an envelope within a budget of tokens; without `session`'s own turns."""
        return self.operations.recall.context(
            query,
            budget_tokens=budget_tokens,
            channel=channel,
            session=session,
            agent=agent,
            as_of=as_of,
            where=where,
            given=given,
            only_sure=only_sure,
            min_score=min_score,
            max_facts=max_facts,
        )

    def is_same_topic(self, before: str, now: str) -> bool:
        """Return True if two prompts of a session, one after the other, are about the same."""
        return self.operations.recall.is_same_topic(before, now)

    def elsewhere(self, query: str, limit: int = 10, session: NodeId | None = None) -> list[Elsewhere]:
        """Find what answers a question in any channel, by channel, best first; nothing of it is counted or kept."""
        return self.operations.recall.elsewhere(query, limit, session)

    def meant(self, query: str, channel: str) -> list[str]:
        """Return words of a channel's newest memories that a question without an answer may have meant."""
        return self.operations.recall.meant(query, channel)

    def rank(self, question: Question) -> Ranking:
        """Rank what answers a question, to test recall: nothing of it is counted or kept."""
        return self.operations.recall.rank(question)

    def show(self, node_id: NodeId, *, wanted: bool = True) -> Shown:
        """Return one memory, session or turn. Raises NotFound."""
        return self.operations.recall.show(node_id, wanted=wanted)

    def history(self, node_id: NodeId) -> list[HistoryEvent]:
        """Return the events of a node, the oldest first: its changes with their runs, and the answers that had it."""
        return self.operations.recall.history(node_id)

    def recent(
        self,
        channel: str,
        limit: int,
        *,
        session: NodeId | None = None,
        day: date | None = None,
        file: str = "",
        left_out: NodeId | None = None,
    ) -> list[RecentSession]:
        """Return the sessions of a channel, or one of them, the newest first; by their day, or a file they changed."""
        return self.operations.recall.recent(channel, limit, session=session, day=day, file=file, left_out=left_out)

    def session_at_work(self, named: str | None, agent: str | None, channel: str | None) -> NodeId | None:
        """Return the session that an agent's tools are called in: the named one, or that which its hooks heard last.

        A program does not tell its tools which session calls them; its hooks know.
        """
        name = named and self.session_name(named)
        heard = self.handed.at_work(agent) if agent else []
        if any(one.session_id == name for one in heard):
            return name
        here = [one.session_id for one in heard if channel in (None, one.channel)]
        return here[-1] if here else name

    def full_id(self, named: str, may_read: Callable[[str], bool] = lambda channel: True) -> NodeId:
        """Return the id that the beginning of one, or a file's path, means; else the same. Raises NotFound for several.

        Those in channels that its user may not read are none.
        """
        return self.operations.recall.full_id(named, may_read)

    def ruled_out_by(self, node_id: NodeId, where: Filter) -> dict[str, tuple[str, ...]]:
        """Return the fields by which a filter leaves out a memory, with the memory's values. Raises NotFound."""
        return self.operations.recall.ruled_out_by(node_id, where)

    def turns_of(self, session_id: NodeId, after: int = 0) -> list[Node]:
        """Return the turns of a session after an ordinal, oldest first."""
        return self.core.catalog.turns(session_id, after)

    def channels(self) -> dict[str, int]:
        """Count the memories and turns of each channel."""
        return self.operations.recall.channels()

    def channel_names(self) -> list[str]:
        """Return the names of all channels; [] while the index is damaged, which is not waited for."""
        return self.operations.recall.channel_names()

    def channel_names_with(self, wanted: str) -> list[str]:
        """Return `channel_names`; a wanted name that is not among them is looked for again after `settle`."""
        return self.operations.recall.channel_names_with(wanted)

    def channel_of_session(self, session_id: NodeId) -> str | None:
        """Return the channel of a session that is known; it stays in it, whatever a later batch names."""
        return self.core.lookup.channel_of_session(session_id)

    def channel_of_node(self, node_id: NodeId) -> str:
        """Return the channel of a memory, session or turn, also of one that was forgotten. Raises NotFound."""
        return self.operations.recall.channel_of_node(node_id)

    def channels_of_session(self, session_id: NodeId) -> Collection[str]:
        """Return the channels of a session: of its turns, its anchor and its goals."""
        name = self.session_name(session_id)
        of_work = [one.channel for one in (self.ledger.anchor(name), *self.ledger.goals(name)) if one is not None]
        return {*of_work, *filter(None, [self.channel_of_session(name)])}

    def feedback(self, node_id: NodeId, verdict: Verdict, idempotency_key: str | None = None) -> None:
        """Keep a judgement of a memory that was shown, once for each `idempotency_key`. Raises NotFound."""
        self.operations.feedback.feedback(node_id, verdict, idempotency_key)

    def purge_questions(self) -> int:
        """Remove every question that was kept, for good; return how many there were."""
        return self.operations.feedback.purge_questions()

    def list(
        self,
        *,
        channel: str | None = None,
        level: Level | None = None,
        kind: Kind | None = None,
        limit: int = 50,
        offset: int = 0,
        always: bool = False,
        texts: bool = False,
        where: Filter = (),
    ) -> list[ListedNode]:
        """List memories and sessions, newest first; turns when asked for by kind; `always`: only curated memories."""
        return self.operations.recall.list(
            channel=channel, level=level, kind=kind, limit=limit, offset=offset, always=always, texts=texts, where=where
        )

    def tags(
        self, *, channel: str | None, level: Level | None = None, kind: Kind | None = None, where: Filter = ()
    ) -> Sequence[TagCount]:
        """Count the tags of live memories, the most used first; spellings that compare alike are one tag."""
        return self.operations.recall.tags(channel=channel, level=level, kind=kind, where=where)

    def about(self, name: str, channel: str, budget_tokens: int) -> About:
        """Return the knowledge of a person or a thing, within a budget of tokens."""
        return self.operations.entities.about(name, channel, budget_tokens)

    def entities(self, channel: str, kind: str | None = None, limit: int = 100, offset: int = 0) -> EntityGraph:
        """Return a page of the people and things of a channel, or of all, with their relations."""
        return self.operations.entities.page(channel, kind, limit, offset)

    def merge_entities(self, kept: NodeId, other: NodeId) -> Named:
        """Make one page of two of a person or a thing, as a run that `undo` reverts."""
        return self.operations.names_by_hand.merge(kept, other)

    def split_entity(self, node_id: NodeId, names: Sequence[str]) -> Named:
        """Take names away from a page, and give them their own, as a run that `undo` reverts."""
        return self.operations.names_by_hand.split(node_id, names)

    def page_with_relation(self, name: str, statement: str, channel: str) -> NodeId:
        """Return the page of a name that has a relation, given in words; of an id itself. Raises NotFound."""
        return self.operations.names_by_hand.page_with(name, statement, channel)

    def deny_relation(self, node_id: NodeId, statement: str) -> Named:
        """Take a relation, in words, off the page of a person or thing, as a run that `undo` reverts."""
        return self.operations.names_by_hand.deny(node_id, statement)

    def facts(self, channel: str | None, limit: int, kind: Kind | None = None) -> Sequence[Memory]:
        """Read the newest facts of a channel or of all whole, from their files, without those that were taken back."""
        return self.operations.recall.facts(channel, limit, kind)

    def facts_of_each_kind(self, channel: str, limit: int) -> Sequence[Memory]:
        """Read the newest facts of each kind whole, so that many of one push no other out; else as `facts`."""
        return self.operations.recall.facts_of_each_kind(channel, limit)

    def undreamt(self, facts: Sequence[Memory]) -> Sequence[Memory]:
        """Return those facts to be whose turns are still there, and were read by no dream."""
        return self.operations.recall.undreamt(facts)

    def dreamt_to(self, session_id: NodeId) -> int:
        """Return the ordinal of the last turn of a session that a dream has read; 0 for none."""
        return self.operations.recall.dreamt_to(session_id)

    # ---- Erasing

    def purge(self, selection: Selection, on_progress: Progress = lambda step, done, total: None) -> Purged:
        """Erase a selection for good; no dream may be running. On StoreBusy the purge goes on by itself."""
        return self.operations.purge.purge(selection, on_progress)

    def when_erased(self, note: Callable[[frozenset[str], bool], None]) -> None:
        """Have each purge call this with the ids that it erased, and True if it took secrets out, before it ends."""
        self.operations.purge.on_erased = note

    def preview_purge(self, selection: Selection, on_progress: Progress = lambda step, done, total: None) -> Purged:
        """Return the amount that a purge would remove; nothing is changed."""
        return self.operations.purge.preview(selection, on_progress)

    # ---- Runs

    def apply(
        self,
        changeset: Changeset,
        *,
        kind: str = "daily",
        started_at: datetime | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> AppliedRun:
        """Apply a changeset as a run: journaled whole, then file by file, each guarded by the hash it replaces."""
        return self.operations.runs.apply(changeset, kind=kind, started_at=started_at, summary=summary)

    def undo(self, run_id: str, items: Collection[NodeId] = ()) -> Undone:
        """Restore the files as they were before a run, or those of some of its memories.

        Raises NotFound, Expired without its history, and Conflict.
        """
        return self.operations.copies.undo(run_id, items)

    def redo(self, run_id: str, items: Collection[NodeId] = ()) -> Undone:
        """Change the files of an undone run again, or those of some of its memories. Raises as `undo` does."""
        return self.operations.runs.redo(run_id, items)

    def run(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return self.operations.runs.run(run_id)

    def title_of_run(self, run_id: str) -> str:
        """Return the title of the first memory that a run changed; "" without any."""
        return self.operations.runs.title_of(run_id)

    def channels_of_run(self, run_id: str) -> Collection[str]:
        """Return the channels of the memories that a run changed; none where they are too many. Raises NotFound."""
        return self.operations.runs.channels_of(run_id)

    def changes_of(self, run_id: str, offset: int, limit: int) -> Sequence[RunChange]:
        """Return a page of the changes of a run. Raises NotFound."""
        return self.operations.runs.changes_of(run_id, offset, limit)

    def runs(
        self, limit: int = 20, *, kinds: Sequence[str] = (), states: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> Sequence[Run]:
        """Return the latest runs, newest first: `limit` of each of these kinds, or of all not `hidden`."""
        return self.operations.runs.runs(limit, kinds=kinds, states=states, hidden=hidden)

    def runs_since(self, moment: datetime, kinds: Sequence[str]) -> Sequence[Run]:
        """Return every run of these kinds that began after a moment, newest first."""
        return self.operations.runs.runs_since(moment, kinds)

    def filled_gaps(self, moment: datetime, dreams: Sequence[str]) -> Sequence[FilledGap]:
        """Return the questions in vain that runs of these kinds found answers to since a moment."""
        return self.ledger.filled_gaps(dreams, moment)

    def record_run(self, run: Run) -> None:
        """Record a run that changed nothing: a failed one, or one with nothing to do."""
        self.operations.runs.record_run(run)

    def unread(self, quiet: timedelta = timedelta(0)) -> Unread:
        """Count the turns that no dream has read; a session without a turn for `quiet` has ended. Reads every row."""
        return self.operations.health.unread(quiet)

    def refuse_to_dream(self) -> None:
        """Raise StoreError while vault, index or history are incomplete: a dream needs all three."""
        self.operations.runs.refuse_to_dream()

    # ---- Corrections by a person

    def migrate(self, *, dry_run: bool = False) -> Migrated:
        """Move a flat vault into folders by project and kind, as a run; `dry_run` only counts the moves."""
        return self.operations.runs.migration.migrate(dry_run=dry_run)

    def forget(self, node_id: NodeId, reason: str = "") -> Forgotten:
        """Remove a memory from the vault and all answers, as a run that `undo` reverts; no dream proposes it again."""
        return self.operations.corrections.forget(node_id, reason)

    def restore(self, node_id: NodeId) -> Restored:
        """Bring back a memory that is archived, replaced or deleted, as a run that `undo` reverts."""
        return self.operations.corrections.restore(node_id)

    def link(self, source: NodeId, target: NodeId, relation: Relation) -> Linked:
        """Write a relation of a memory to another node into its file, as a run that `undo` reverts."""
        return self.operations.corrections.link(source, target, relation)

    def tag(self, node_id: NodeId, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Tagged:
        """Change the tags of a memory, as a run that `undo` reverts."""
        return self.operations.corrections.tag(node_id, add, remove)

    def edit(
        self, node_id: NodeId, edit: Edit, seen: str = "", agent_id: str | None = None, session: str | None = None
    ) -> Edited:
        """Change a memory's words, title, kind, tags or priority, as a run that `undo` reverts; found at once.

        An agent's edit is refused where a stranger's words may be behind it: it would steer as its person's own.
        """
        if agent_id:
            named = self.session_name(session) if session else None
            self.operations.foreign_words.refuse(named, agent_id, self.core.node(node_id).channel, edit.text or "")
        changed = self.operations.corrections.edit(node_id, edit, seen, agent_id or "")
        if changed.run_id is not None:
            self.embed([node_id])
        return changed

    def curate(self, node_id: NodeId, priority: int) -> str | None:
        """Put a memory into every envelope of its channel, as a run; return its id, None if it is there already."""
        return self.operations.corrections.curate(node_id, priority)

    def decisions(self) -> Sequence[Decision]:
        """Return the contradictions that a person has to decide, newest first."""
        return self.operations.corrections.decisions()

    def marks(self, offset: int = 0, limit: int | None = None) -> Marks:
        """Return a page of the pairs marked as replaced or likely changed: the doubtful first, then the newest."""
        return self.operations.corrections.marks(offset, limit)

    def decide(self, name: str, choice: Choice, by: str, text: str = "") -> Decided:
        """Settle an open decision or a mark, as a run that `undo` reverts; no dream raises it again.

        A change of a file is accepted in the words of an edit.
        """
        if choice == "edit" and self.operations.copies.names(name):
            return self.operations.copies.accept(name, text)
        return self.operations.corrections.decide(name, choice, by, text)

    def waiting(self) -> Sequence[Waiting]:
        """Return the statements of agents that wait for review, newest first."""
        return self.operations.corrections.waiting()

    def accept(self, node_id: NodeId, by: str) -> Decided:
        """Accept a statement or the change of a file that waits for review, as a run that `undo` reverts."""
        if self.operations.copies.names(node_id):
            return self.operations.copies.accept(node_id)
        return self.operations.corrections.accept(node_id, by)

    def procedures(self) -> Sequence[Memory]:
        """Read the pages of procedures that worked several times whole, of all channels."""
        return self.operations.recall.procedures()

    def mark_skill(self, node_id: NodeId, skill: Mapping[str, str]) -> Decided:
        """Note the skill that was made of a procedure, or {} for none, as a run that `undo` reverts."""
        return self.operations.corrections.mark_skill(node_id, skill)

    def reject(self, node_id: NodeId) -> Decided:
        """Forget a statement, or drop the change of a file, that waits for review. Raises NotFound for any other."""
        if self.operations.copies.names(node_id):
            return self.operations.copies.reject(node_id)
        return self.operations.corrections.reject(node_id)

    # ---- The programs' own files

    def keep_files(self, channel: str, files: Sequence[ProgramFile]) -> None:
        """Copy the files of a channel that agent programs read by themselves, those that changed."""
        self.operations.copies.keep(channel, files)

    def drop_files(self) -> None:
        """Archive all copies of programs' files."""
        self.operations.copies.drop()

    def folders_of_sessions(self) -> Sequence[str]:
        """Return the folders in which the newest sessions ran, each once."""
        return self.operations.copies.folders()

    def refresh_files(self) -> None:
        """Copy the files again of which there are copies."""
        self.operations.copies.refresh()

    def file_proposals(self) -> Sequence[FileProposal]:
        """Return the changes of programs' files that wait for review."""
        return self.operations.copies.proposals()

    # ---- Learning, on and off

    def pause(self) -> None:
        """Learn nothing more until `resume`."""
        self.core.switches.pause()

    def resume(self) -> None:
        """Learn again."""
        self.core.switches.resume()

    def set_channel(self, channel: str, learning: bool) -> None:
        """Switch learning in one channel on or off. Raises InvalidInput for a name that cannot be a channel's."""
        self.core.switches.set_channel(channel, learning)

    def refuse_if_off(self, channel: str) -> None:
        """Raise StoreReadOnly where learning is off."""
        self.core.switches.refuse_if_off(channel)

    @property
    def paused(self) -> bool:
        """True while all learning is switched off."""
        return self.core.switches.paused

    @property
    def channels_off(self) -> frozenset[str]:
        """The channels in which nothing is learned."""
        return self.core.switches.channels_off

    # ---- The vault and its index

    @property
    def absence(self) -> Absence | None:
        """The reason why the vault cannot be used now, None if it can."""
        return self.core.absence

    @property
    def is_busy(self) -> bool:
        """True if a client called, or something was acknowledged, a moment ago."""
        return self.core.is_busy()

    def file_changed(self, paths: Collection[str]) -> None:
        """Read these files of the vault again, unless they are as they were read last."""
        self.operations.reconciliation.file_changed(paths)

    def reconcile(self, accept_vanished: bool = False) -> Reconciled:
        """Compare every file with the index, and index the differences."""
        return self.operations.reconciliation.reconcile(accept_vanished)

    def wait_until_caught_up(self, timeout_s: float) -> bool:
        """Wait until files that changed while the daemon or the vault was away are read; False on timeout."""
        return self.operations.reconciliation.wait_until_caught_up(timeout_s)

    def settle(self, timeout_s: float = READ_YOUR_WRITES_S, *, runs: bool = True) -> bool:
        """Wait until all acknowledged writes can be found; False if that takes longer, or is not possible now."""
        return self.core.settle(timeout_s, runs=runs)

    def begin_to_stop(self) -> None:
        """Refuse indexing jobs from now on; acknowledged writes are still indexed until `close`."""
        self.core.indexer.begin_to_stop()

    def settle_links(self, timeout_s: float = 10.0) -> bool:
        """Wait until remembered statements are linked to older ones; False if that takes longer."""
        return self.operations.linker.settle(timeout_s) and self.settle()

    # ---- Upkeep

    def status(self) -> StoreStatus:
        """Return counts, queues, and problems in sentences."""
        return self.operations.health.status()

    def step_times(self) -> Mapping[str, Histogram]:
        """Return the times of the steps of recall since the start, by the names that `explain` gives them."""
        return dict(self.operations.search.steps.by_step)

    def check(self, accept: bool = False) -> Sequence[Problem]:
        """Check vault and databases, and return the problems; `accept` takes missing files as deleted on purpose."""
        return self.operations.checkup.check(accept)

    def leaks(self, node_ids: Iterable[NodeId]) -> Sequence[Leak]:
        """Return those of these nodes whose files hold what looks like a secret, with its kinds."""
        return self.operations.checkup.leaks(node_ids)

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Build a new index from vault and ledger; known texts are not embedded again."""
        return self.operations.reconciliation.rebuild(progress)

    def settle_deletions(self) -> None:
        """Decide now about files that are gone, without waiting for them to come back in a moment."""
        self.operations.reconciliation.settle_deletions()

    def tidy(self) -> None:
        """Remove expired documents, old history, unused vectors and leftovers; check the databases."""
        self.operations.cleanup.tidy()

    def embed(self, node_ids: Collection[NodeId]) -> None:
        """Embed the changed nodes now, before all other chunks that wait; nothing while there is no model."""
        self.operations.reconciliation.embed(node_ids)

    def write_derived(self, pages: Mapping[str, str | None]) -> Sequence[str]:
        """Write derived pages (None: delete); return the paths that are a person's own files and stay."""
        return self.operations.pages.write(pages)

    def decay_inputs(self) -> DecayInputs:
        """Return the inputs of decay, after acknowledged writes can be found."""
        return read_decay_inputs(self.core)

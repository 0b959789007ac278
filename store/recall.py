"""Questions: recall, context, and the look at single memories and lists of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TypeVar

from . import okf
from .changes import run_kinds
from .channel import TEAM, team_of
from .core import Core
from .door import HITS_KEPT, outgoing, outgoing_envelope, outgoing_hit
from .filters import Condition, Filter, fold_tag, unmet, values_of
from .index.projection import LATER, SUCCESSOR, TURN_MARK, Node
from .index.repairs import repeated_after_repair
from .index.visibility import Scope, aware, living_scope_beside, scope_beside
from .ledger import records
from .model import (
    ALL_CHANNELS,
    COLLEAGUE,
    CURRENT_PAGE,
    GLOBAL_CHANNEL,
    STRATEGY,
    Envelope,
    Hit,
    IndexDamaged,
    Kind,
    Level,
    Memory,
    NodeId,
    NotFound,
    Slot,
)
from .results import (
    PERSON,
    Elsewhere,
    HistoryEvent,
    LinkLine,
    LinkRelation,
    ListedNode,
    ListedState,
    RecentSession,
    Shown,
    TagCount,
)
from .roles import MACHINES, Role
from .search import exact, hits, packing
from .search.gathering import Ranking, evidence_of
from .search.question import Question, asks_of_alone
from .search.recent import recent_sessions
from .search.search import QueryCache, Search
from .text import spelling
from .text.acts import call_of
from .text.fence import fenced, unmarked, unmarked_lines
from .text.sentences import first_sentences
from .text.words import query_terms
from .upkeep.feedback import Feedback, shown_hit, shown_slot
from .upkeep.history import NodeHistory

FORGOTTEN = "[forgotten]"
"""The text of a forgotten turn, which stays in its session's file."""

SAME_TOPIC = 0.3
"""The least cosine of two prompts on one topic."""

MEMORIES_READ, CHANNELS_READ, QUESTION_CHARS = 300, 4, 300
"""The newest facts and turns of a channel, and the channels, in which a misspelt word of a question is looked for."""

MOST_LINKS = 100
"""The links of a memory that `show` names."""

MOST_PROCEDURES = 1000

FAINT = 0.05
"""A best hit less sure than that is no answer: one of twenty such answers anything."""

WHOLE_FACTS = 1024
"""The facts whose files are held, read: the start of a session reads a few hundred of them."""

MOST_ANSWERED, TURNS_TO_A_REPLY, REPLY_CHARS = 50, 3, 200
"""Hits that are shown with their speaker, the turns behind one among which its reply is, and the reply's characters."""

LISTED_CHARS = 2000
"""Characters of a memory in a list with texts."""

FILE_SUFFIX = ".md"
"""The end of a path in the vault, by which its memory can be named."""

EDITED, OF_ONE_EDIT = "edited", timedelta(seconds=5)
"""The event of an edit, and how much later than its run its file may be written."""

SHORTEST_ID, MOST_ALIKE = 6, 5
"""Characters of an id that are enough to name it, and how many are named that begin alike."""

MOST_OF_COLLEAGUES, LEAST_TOKENS = 10, 40
"""Candidates among the memories of colleagues, and the tokens from which a line of theirs may fit behind one's own."""

MODEL_WAIT_S = 1.5
"""The longest wait of the first questions for the embedding model, before keywords answer alone."""


_Told = TypeVar("_Told", Hit, Slot)


class Recall:
    """Answers questions from the index. Every method may be called from any thread."""

    def __init__(
        self,
        core: Core,
        search: Search,
        questions: QueryCache,
        feedback: Feedback,
    ) -> None:
        self.repairs = core.repairs
        self._core = core
        self._catalog = core.catalog
        self._writer = core.writer
        self._tombstones = core.tombstones
        self._now = core.now
        self._whole: dict[str, tuple[object, Memory]] = {}  # each with its file's stamp
        self._history = NodeHistory(core.ledger, core.settings)
        self._search = search
        self._questions = questions
        self._feedback = feedback
        self.known_to: Callable[[str], frozenset[NodeId]] = lambda agent: frozenset()
        """Returns the copies of files that a program reads by itself."""
        self._teams: tuple[object, frozenset[str]] = (None, frozenset())  # with the state of the index
        self.held_back: Callable[[str, Sequence[Hit | Slot]], Collection[NodeId]] | None = None
        """Returns the hits that extensions leave out of an answer; None where none of them filters."""

    @repeated_after_repair
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
    ) -> hits.Recalled:
        """Find what answers a question, best first; `where` narrows what may, and `as_of` takes what held then.

        `session` is left out, and so are the files that its `agent` reads by itself: it has them. With `like` the
        question is the text of that node, which is left out with the turn and the facts that say the same; nothing of
        it is counted or kept. Hits less sure than `min_score` are left out, and more than `max_facts`.
        """
        limit = min(limit, max_facts or limit)
        question = Question(
            text=query,
            limit=limit,
            channel=channel,
            levels=tuple(levels),
            include_archived=include_archived,
            as_of=as_of,
            where=where,
            min_score=min_score,
            session=session,
        )
        ranking = self._rank(question)
        ranking.leave_out_session(session)
        ranking.leave_out(self.known_to(agent) if agent else ())
        if like:
            same = self._same_as(like)
            ranking.leave_out(same)
            ranking.notes.clear()  # on a question that is long
            found = self._answer(ranking, limit)
            # A successor is put before its predecessor although it was left out.
            return replace(found, hits=[hit for hit in found.hits if hit.node_id not in same])
        found = self._answer(ranking, limit)
        own = found.hits
        if len(found.hits) < limit and (theirs := self._of_colleagues(question, limit - len(found.hits))) is not None:
            of_team = self._answer(theirs, theirs.question.limit).hits
            found = replace(found, hits=[*found.hits, *of_team], abstained=found.abstained and not of_team)
            own = found.hits[: len(found.hits) - len(of_team)]
        if question.is_plain and (asked := exact.asked_by(query)) is not None:
            graph = self._core.opened.graph
            answers = exact.answers_to(asked, found.hits, self._catalog, graph, question.scope)
            if self.held_back is not None:
                left = {hit.node_id for hit in found.hits}
                left.update(evidence.node_id for hit in found.hits for evidence in hit.evidence)
                answers = [one for one in answers if one.turn in left]
            found = replace(found, exact=[replace(one, answer=outgoing(one.answer)) for one in answers])
        # To look at how something is found, or to type half a question, is no use of it.
        if explain:
            return replace(found, trace=hits.trace(ranking))
        self._log(found.hits, "recalled", agent, query)
        if not (levels or include_archived or as_of or where or min_score):
            self._feedback.answered(query, channel, session, ranking, [shown_hit(hit) for hit in own])
        return found

    @repeated_after_repair
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
        """Find what answers a question, packed into a budget of tokens. `session` is left out: its agent has it.

        So are the files that the `agent` reads by itself, and sentences that occur in a text of `given`. `only_sure` is
        for a prompt that asked nothing: the one exchange that surely helps it, if there is any; an empty envelope is
        not counted. Sentences less sure than `min_score` are left out, and lines of more than `max_facts` memories
        beside those that stand in every envelope.
        """
        limit = max(10, min(200, budget_tokens // 10))
        asked = Question(
            text=query,
            limit=limit,
            channel=channel,
            as_of=as_of,
            where=where,
            min_score=min_score,
            max_facts=max_facts,
            session=session,
        )
        ranking = self._rank(asked)
        ranking.leave_out_session(session)
        ranking.leave_out(self.known_to(agent) if agent else ())
        always = tuple(self._let_through(query, self._curated(ranking, budget_tokens, given)))
        left_tokens = budget_tokens - sum(slot.tokens for slot in always)
        if asked.is_plain and not only_sure and (page := self._page(ranking, left_tokens)) is not None:
            envelope = self._let_lines_through(query, outgoing_envelope(page))
            self._log(envelope.slots, "recalled", agent, query)
            return outgoing_envelope(packing.with_curated(envelope, always, budget_tokens)) if always else envelope
        at = as_of or self._now()
        with self._search.alone.held():
            packed = packing.envelope(ranking, self._catalog, left_tokens, at, given=given, only_sure=only_sure)
        if packed.abstained:
            notes = (*packed.notes, *self._lacking(ranking))
            packed = replace(packed, notes=notes, incomplete=ranking.incomplete)
        if only_sure and not packed.slots:
            return outgoing_envelope(packing.with_curated(packed, always))
        envelope = self._let_lines_through(query, outgoing_envelope(packed))
        self._log(envelope.slots, "recalled", agent, query)
        if not (as_of or where or min_score):
            self._feedback.answered(query, channel, session, ranking, [shown_slot(slot) for slot in envelope.slots])
        asked_tokens = 0 if only_sure else budget_tokens
        if always:
            envelope = outgoing_envelope(packing.with_curated(envelope, always, asked_tokens))
        return envelope if only_sure else self._with_colleagues(envelope, asked, budget_tokens, given)

    def _of_colleagues(self, question: Question, limit: int) -> Ranking | None:
        """Rank the memories of a project's colleagues that nobody accepted, apart from one's own; None for none.

        So they take no place of these, in the search or in an answer.
        """
        if (known := self._teams)[0] != (state := self._core.opened.generation):
            known = self._teams = (state, frozenset(name for name in self.channel_names() if name.endswith(TEAM)))
        if not known[1] or (team := team_of(question.channel or GLOBAL_CHANNEL)) not in known[1]:
            return None
        there = Condition("channel", "in", (team,))
        return self._rank(replace(question, channel=team, limit=limit, where=(*question.where, there)))

    def _with_colleagues(self, own: Envelope, asked: Question, budget_tokens: int, given: Sequence[str]) -> Envelope:
        """Return an envelope with the lines of colleagues behind its own, in the tokens that it left."""
        left, places = budget_tokens - own.tokens, None if asked.max_facts is None else asked.max_facts - len(own.slots)
        if left < LEAST_TOKENS or places == 0 or (theirs := self._of_colleagues(asked, MOST_OF_COLLEAGUES)) is None:
            return own
        with self._search.alone.held():
            packed = packing.envelope(theirs, self._catalog, left, self._now(), given=given)
        packed = self._let_lines_through(asked.text, outgoing_envelope(packed))
        return outgoing_envelope(packing.with_more(own, packed.slots[:places])) if packed.slots else own

    def _page(self, ranking: Ranking, left_tokens: int) -> Envelope | None:
        """Return the page of a project, for a question that names it and nothing else; None for any other."""
        question, form = ranking.question, ranking.asked
        if form.spans or form.event is not None or form.newest:
            return None
        channels = (question.scope.channels or {*self._catalog.channel_names()}) - {GLOBAL_CHANNEL}
        for channel in sorted(one for one in channels if asks_of_alone(question.text, one)):
            for node in self._catalog.listing(channel, Level.PROFILE, Kind.PROFILE):
                if node.live and node.title == CURRENT_PAGE and (page := self._read(node)) is not None:
                    found = self._page_in_lines(page, node.text, question, left_tokens)
                    return replace(found, notes=(*ranking.notes, *found.notes)) if found.slots else None
        return None

    def _page_in_lines(self, page: Memory, text: str, question: Question, left_tokens: int) -> Envelope:
        facts = self._catalog.nodes(page.sources)
        labels = okf.source_ids(page.sources)
        quoted = {labels[name]: fact for name, fact in facts.items() if question.scope.admits(fact)}
        lines = packing.lines_of_page(text, quoted.get)
        evidence = evidence_of([line.fact for line in lines], self._catalog, question.scope)
        found = packing.page_envelope(lines, left_tokens, question.max_facts, evidence)
        note = f"{len(found.slots)} of {len(lines)} lines of “{CURRENT_PAGE}”; {page.node_id} has all of it"
        return replace(found, notes=(note,))

    def _same_as(self, node_id: NodeId) -> set[NodeId]:
        """Return a node, the turns that it was drawn from, and the facts that were drawn from it or from these."""
        turns = {evidence.node_id for evidence in self._catalog.evidence([node_id])[node_id]}
        return {node_id, *turns, *(fact for turn in (node_id, *turns) for fact in self._catalog.cited_by(turn))}

    def _log(self, found: Sequence[Hit | Slot], what: str, by: str | None, asked: str) -> None:
        """Count the nodes of an answer as used, and note it in their history."""
        nodes, now = [one.node_id for one in found], self._now()
        self._writer.later(*records.log_usage(nodes, now))
        if self._core.settings.history in ("reads", "verbose"):
            self._writer.later(*self._history.read(what, nodes, now, by, asked))

    def history(self, node_id: NodeId) -> list[HistoryEvent]:
        """Return the events of a node, the oldest first. Raises NotFound for an unknown one."""
        self._core.settle()
        events = self._history.of(node_id)
        node = self._catalog.node(node_id)
        if node is None and not events:
            self._core.node(node_id)
        known = {event.what: event.at for event in events}
        # A run tells of its edit, and a file of one in an editor since.
        events += [
            event
            for event in (self._came_to_be(node) if node else ())
            if event.what not in known or (event.what == EDITED and event.at > known[EDITED] + OF_ONE_EDIT)
        ]
        return [replace(event, why=outgoing(event.why)) for event in sorted(events, key=lambda one: one.at)]

    def _came_to_be(self, node: Node) -> Iterator[HistoryEvent]:
        """Yield how a node came to be, and was edited in its file, as that says itself."""
        memory = None if node.kind in (Kind.TURN, Kind.SESSION) else self._read(node)
        said_at = node.created_at if memory is None else memory.created_at
        kept_at = said_at if memory is None else okf.instant(memory.extra.get("learned_at")) or said_at
        if kept_at is not None:
            why = "" if memory is None else (memory.provenance or "").replace("_", " ")
            yield HistoryEvent(kept_at, "kept", node.agent or node.role, why)
        # A fact with other words than those that it was kept with is of the time when its person wrote them.
        if node.created_at is not None and node.created_at != said_at:
            yield HistoryEvent(node.created_at, EDITED, PERSON, "its words were changed")
        # A page has the hash of the words that a dream gave it; when a person changed them, its file alone says.
        stamp = self._core.vault.stamp(node.path) if memory is not None and memory.level is not Level.FACT else None
        if memory is not None and stamp is not None and okf.is_edited(memory):
            at = datetime.fromtimestamp(stamp.mtime_ns / 1e9, UTC)
            yield HistoryEvent(at, EDITED, PERSON, "its words were changed")

    def _curated(self, ranking: Ranking, budget_tokens: int, given: Sequence[str]) -> tuple[Slot, ...]:
        """Return the lines of every envelope in the question's scope, but for those given; none is ranked again."""
        channels = ranking.question.scope.channels or {GLOBAL_CHANNEL}
        standing = [node for node in self._catalog.curated(channels) if ranking.question.scope.admits(node)]
        said = [(node, " ".join(node.text.split())) for node in standing]
        fresh = [node for node, words in said if not any(words in text for text in given)]
        slots = packing.curated_slots(fresh, budget_tokens)
        too_long = {node.node_id for node in fresh}.difference(slot.node_id for slot in slots)
        ahead = {node.node_id for node, _ in said} - too_long
        ranking.candidates = [one for one in ranking.candidates if one.unit not in ahead]
        return slots

    def full_id(self, named: str, may_read: Callable[[str], bool]) -> NodeId:
        """Return the id that the beginning of one, of a turn that of its session (`1a2b3c4d#3`), means; else the same.

        A file's path means its memory. Raises NotFound for the beginning of several ids.
        """
        if named.endswith(FILE_SUFFIX) and (of_file := self._catalog.nodes_of_file(named.lstrip("/"))):
            return of_file[0].node_id
        head, mark, ordinal = named.partition(TURN_MARK)
        if len(head) < SHORTEST_ID or self._catalog.node(named) is not None:
            return named
        self._core.settle()
        found = [node_id for node_id, channel in self._catalog.beginning(head) if may_read(channel)]
        if head in found:
            found = [head]
        if len(found) > 1:
            more = f" and {len(found) - MOST_ALIKE:,} more" if len(found) > MOST_ALIKE else ""
            hint = f"Give more of it: {', '.join(found[:MOST_ALIKE])}{more}."
            raise NotFound(f"{len(found):,} ids begin with {head}", hint=hint)
        return f"{found[0]}{mark}{ordinal}" if found else named

    def is_same_topic(self, before: str, now: str) -> bool:
        """Return True if two prompts of a session, one after the other, are about the same; False without vectors."""
        one, other = (self._search.embed(text)[0] for text in (before, now))
        return one is not None and other is not None and float(one @ other) >= SAME_TOPIC

    @repeated_after_repair
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
        self._core.settle()
        return recent_sessions(self._catalog, channel, limit, session=session, day=day, file=file, left_out=left_out)

    @repeated_after_repair
    def elsewhere(self, query: str, limit: int = 10, session: NodeId | None = None) -> list[Elsewhere]:
        """Find what answers a question in any channel, by channel, best first; nothing of it is counted or kept."""
        ranking = self._rank(Question(text=query, limit=limit, channel=ALL_CHANNELS))
        ranking.leave_out_session(session)
        found: dict[str, list[Hit]] = {}
        for hit in self._answer(ranking, limit).hits:
            found.setdefault(hit.channel, []).append(hit)
        return [Elsewhere(channel, tuple(in_channel)) for channel, in_channel in found.items()]

    @repeated_after_repair
    def meant(self, query: str, channel: str) -> list[str]:
        """Return words of a channel's newest memories that a question which found nothing may have meant."""
        channels = [channel] if channel != ALL_CHANNELS else sorted(self._catalog.channels())[:CHANNELS_READ]
        nodes = [
            node
            for name in dict.fromkeys((*channels, GLOBAL_CHANNEL))
            for level, kind in ((Level.FACT, None), (Level.SESSION, Kind.TURN))
            for node in self._catalog.listing(name, level, kind, MEMORIES_READ)
            if node.live and not self._tombstones.is_hidden(node.node_id)
        ]
        words = spelling.meant(query_terms(query[:QUESTION_CHARS]), (node.text for node in nodes))
        return [word for word in words if self._is_outgoing(word, nodes)]

    def _is_outgoing(self, word: str, nodes: Sequence[Node]) -> bool:
        """Check that a text holds a word still after its secrets are taken out."""
        return any(word in self._text(node).lower() for node in nodes if word in node.text.lower())

    @repeated_after_repair
    def rank(self, question: Question) -> Ranking:
        """Rank what answers a question, to test recall: nothing of it is counted or kept."""
        self._core.settle()
        return self._search.rank(question)

    @repeated_after_repair
    def channels(self) -> dict[str, int]:
        """Count the memories and turns of each channel."""
        return self._catalog.channels()

    def channel_names(self) -> list[str]:
        """Return the names of all channels; [] while the index is damaged, which is not waited for."""
        try:
            return self._catalog.channel_names()
        except IndexDamaged:
            return []

    def channel_names_with(self, wanted: str) -> list[str]:
        """Return `channel_names`; unless the one that is wanted is among them, after what was acknowledged is found."""
        names = self.channel_names()
        if wanted in names or wanted == ALL_CHANNELS:
            return names
        self._core.settle()
        return self.channel_names()

    @repeated_after_repair
    def show(self, node_id: NodeId, *, wanted: bool = True) -> Shown:
        """Return one memory, session or turn. Raises NotFound.

        `wanted`: count this lookup as implicit positive feedback for the answer that listed it.
        """
        node = self._core.node(node_id)
        if wanted:
            self._feedback.looked_up(node_id)
        beside = scope_beside(node.channel)
        successors = self._named(self._catalog.links(node_id, SUCCESSOR), beside)
        opposed = [*self._catalog.links(node_id, "contradicts"), *self._catalog.cited_by(node_id, "contradicts")]
        memory = None if node.kind in (Kind.TURN, Kind.SESSION) else self._read(node)
        shown = Shown(
            node_id=node.node_id,
            level=node.level,
            kind=node.kind,
            title=self._title(node),
            text=self._text(node),
            channel=node.channel,
            path=node.path,
            created_at=node.created_at,
            live=node.live,
            curated=node.curated,
            tags=node.tags,
            evidence=evidence_of([node], self._catalog, beside)[node_id],
            cited_by=self._named(self._catalog.cited_by(node_id), beside),
            superseded_by=successors[0] if successors else None,
            supersedes=self._named(self._catalog.links(node_id, "supersedes"), beside),
            later=self._named(self._catalog.links(node_id, LATER), living_scope_beside(node.channel)),
            contradicts=self._named(opposed, living_scope_beside(node.channel)),
            version="" if node.kind in (Kind.TURN, Kind.SESSION) else node.version,
            certainty=node.certainty,
            provenance=(memory.provenance or "") if memory else "",
            use=self._history.use_of(node_id),
        )
        return replace(shown, links=self._links(shown, beside))

    def _links(self, shown: Shown, beside: Scope) -> tuple[LinkLine, ...]:
        """Return the links of a memory that is shown, the relations first, without those that it names otherwise."""
        graph, own = self._core.opened.graph, shown.node_id
        found: list[tuple[NodeId, NodeId, LinkRelation, float]] = [
            (source, target, "RelatesTo", weight) for source, target, weight in graph.links_of([own])
        ]
        found.extend(
            (one.source, one.target, "LinksTo", 1.0)
            for one in graph.references_of([own])
            if one.target and own in (one.source, one.target)
        )
        told = {own, shown.superseded_by, *shown.cited_by, *shown.supersedes, *shown.later, *shown.contradicts}
        told |= {turn.node_id for turn in shown.evidence}
        ends = [target if source == own else source for source, target, *_ in found]
        nodes = self._catalog.nodes(ends)
        lines = {
            (end, relation, source == own): LinkLine(end, self._title(nodes[end]), relation, source == own, weight)
            for end, (source, _, relation, weight) in zip(ends, found, strict=True)
            if end not in told and end in nodes and beside.admits(nodes[end])
        }
        return tuple(lines.values())[:MOST_LINKS]

    @repeated_after_repair
    def channel_of_node(self, node_id: NodeId) -> str:
        """Return the channel of a memory, session or turn, also of one that was forgotten. Raises NotFound."""
        try:
            return self._core.node(node_id).channel
        except NotFound:
            if (channel := self._history.channel_of(node_id)) is None:
                raise
            return channel

    @repeated_after_repair
    def ruled_out_by(self, node_id: NodeId, where: Filter) -> dict[str, tuple[str, ...]]:
        """Return the fields by which a filter leaves a memory out, with its own values. Raises NotFound."""
        payload = self._core.node(node_id).payload()
        return {field: tuple(map(str, values_of(payload.get(field)))) for field in unmet(payload, where)}

    def facts(self, channel: str | None, limit: int, kind: Kind | None = None) -> list[Memory]:
        """Read the newest facts of a channel or of all whole, from their files, without those that were taken back."""
        self._core.settle(runs=False)
        nodes = self._catalog.listing(channel, Level.FACT, kind, limit=limit)
        return [fact for node in nodes if not node.forgotten and (fact := self._read(node))]

    def facts_of_each_kind(self, channel: str, limit: int) -> list[Memory]:
        """Read the newest facts of each kind whole, so that many of one push no other out; else as `facts`."""
        self._core.settle(runs=False)
        nodes = self._catalog.newest_of_each_kind(channel, Level.FACT, limit)
        return [fact for node in nodes if not node.forgotten and (fact := self._read(node))]

    def procedures(self) -> list[Memory]:
        """Read the pages of procedures that worked several times whole, of all channels."""
        self._core.settle(runs=False)
        nodes = self._catalog.listing(None, Level.SCENARIO, kind=Kind.PROCEDURE, limit=MOST_PROCEDURES)
        read = (self._read(node) for node in nodes if node.live and not node.forgotten)
        return [page for page in read if page is not None and STRATEGY in page.tags]

    def _read(self, node: Node) -> Memory | None:
        """Read a memory's file, once while it is the same; None where it is gone or damaged."""
        stamp = self._core.vault.stamp(node.path)
        if stamp is None:
            return None
        known = self._whole.get(node.path)
        if known is None or known[0] != stamp:
            data = self._core.vault.read_if_any(node.path)
            if data is None:
                return None
            while len(self._whole) >= WHOLE_FACTS:
                self._whole.pop(next(iter(self._whole)))
            known = self._whole[node.path] = (stamp, okf.to_memory(node.path, okf.parse(data)))
        return known[1] if known[1].node_id == node.node_id else None

    def undreamt(self, facts: Sequence[Memory]) -> list[Memory]:
        """Return those facts to be whose turns are still there, and were read by no dream."""
        read_to = self._core.ledger.cursors(run_kinds.LEARNED_FROM) if facts else {}
        turns = self._catalog.nodes({source for fact in facts for source in fact.sources})
        return [
            fact
            for fact in facts
            if all(one in turns and not self._tombstones.is_hidden(one) for one in fact.sources)
            and turns[fact.sources[0]].ordinal > read_to.get(fact.session_id or "", 0)
        ]

    def dreamt_to(self, session_id: NodeId) -> int:
        """Return the ordinal of the last turn of a session that a dream has read; 0 for none."""
        return self._core.ledger.cursors(run_kinds.LEARNED_FROM).get(session_id, 0)

    @repeated_after_repair
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
        """List memories and sessions, newest first; turns when asked for by kind; `always`: only curated memories.

        `texts`: with their first LISTED_CHARS characters.
        """
        self._core.settle()
        listed = self._catalog.listing(channel, level, kind, limit, offset, curated=always, where=where)
        states = self._states(listed)
        return [
            ListedNode(
                node_id=node.node_id,
                level=node.level,
                kind=node.kind,
                title=self._title(node),
                channel=node.channel,
                created_at=node.created_at,
                live=node.live,
                curated=node.curated,
                state=states.get(node.node_id),
                text=self._beginning(node) if texts else None,
                since=aware(node.since) if texts else None,
                until=aware(node.valid_to) if texts else None,
            )
            for node in listed
        ]

    def _states(self, listed: Sequence[Node]) -> dict[NodeId, ListedState]:
        """Return the states of the nodes that do not simply hold."""
        links = self._catalog.opposed([node.node_id for node in listed])
        replaced = {node_id for node_id, _, kind in links if kind == SUCCESSOR}
        holding = self._catalog.living([other for _, other, kind in links if kind != SUCCESSOR])
        states: dict[NodeId, ListedState] = {node_id: "disputed" for node_id, other, _ in links if other in holding}
        for node in listed:
            if not node.live:
                is_replaced = node.node_id in replaced
                states[node.node_id] = "forgotten" if node.forgotten else "replaced" if is_replaced else "archived"
        return states

    @repeated_after_repair
    def tags(
        self, *, channel: str | None, level: Level | None = None, kind: Kind | None = None, where: Filter = ()
    ) -> Sequence[TagCount]:
        """Count the tags of live memories, the most used first; spellings that compare alike are one tag."""
        self._core.settle()
        spelt: dict[str, Counter[str]] = {}
        memories: Counter[str] = Counter()
        for tags, number in self._catalog.tags(channel, level, kind, where):
            for tag in tags:
                spelt.setdefault(fold_tag(tag), Counter())[tag] += number
            memories.update(dict.fromkeys(map(fold_tag, tags), number))
        found = [TagCount(outgoing(spelt[key].most_common(1)[0][0]), number) for key, number in memories.items()]
        return sorted(found, key=lambda one: (-one.memories, one.tag))

    def _answer(self, ranking: Ranking, limit: int) -> hits.Recalled:
        with self._search.alone.held():
            found = hits.answer(ranking, self._catalog, limit)
            if found.confidence < FAINT:
                found.notes += self._lacking(ranking)
                found.incomplete = ranking.incomplete
            shown = [outgoing_hit(hit) for hit in found.hits]
            found = replace(found, hits=[*self._with_speakers(shown[:MOST_ANSWERED]), *shown[MOST_ANSWERED:]])
        if self.held_back is None:
            return found
        let_through = list(self._let_through(ranking.question.text, found.hits))
        notes = [*found.notes, *_note_of_left_out(len(found.hits) - len(let_through))]
        return replace(found, hits=let_through, abstained=not let_through, notes=notes)

    def _let_through(self, query: str, found: Sequence[_Told]) -> Sequence[_Told]:
        """Return the hits or lines that no extension leaves out."""
        if self.held_back is None or not found:
            return found
        left_out = self.held_back(query, found)
        return [one for one in found if one.node_id not in left_out]

    def _let_lines_through(self, query: str, envelope: Envelope) -> Envelope:
        slots = tuple(self._let_through(query, envelope.slots))
        if len(slots) == len(envelope.slots):
            return envelope
        notes = (*envelope.notes, *_note_of_left_out(len(envelope.slots) - len(slots)))
        text = fenced("\n".join(slot.text for slot in slots)) if slots else ""
        tokens = sum(slot.tokens for slot in slots)
        return replace(envelope, text=text, tokens=tokens, slots=slots, abstained=not slots, notes=notes)

    def _with_speakers(self, found: Sequence[Hit]) -> Sequence[Hit]:
        """Return hits with who said them, and how an agent's words or a person's question were answered."""
        said_in = {hit.node_id: hit.evidence[0].node_id if hit.evidence else hit.node_id for hit in found}
        after = [name for turn in said_in.values() for name in _turns_after(turn)]
        nodes = self._catalog.nodes({*said_in.values(), *after}) if said_in else {}
        with_speakers = []
        for hit in found:
            turn = nodes.get(said_in[hit.node_id])
            if turn is None or turn.kind is not Kind.TURN:
                is_file = turn is not None and turn.kind is Kind.DOCUMENT and turn.role not in MACHINES
                is_named = is_file or (turn is not None and turn.role.startswith(f"{COLLEAGUE} "))
                with_speakers.append(replace(hit, speaker=turn.role) if turn is not None and is_named else hit)
                continue
            behind = [nodes[name] for name in _turns_after(turn.node_id) if name in nodes]
            reply = next((one for one in behind if _answers(one, turn)), None)
            text = "" if reply is None else _shown_reply(reply.text)
            with_speakers.append(replace(hit, speaker=turn.role, reply=text))
        return with_speakers

    def _rank(self, question: Question) -> Ranking:
        # Before the index is asked, which may be whole right after it.
        limits = list(self._core.limits(self._core.settle(runs=False)))
        self._core.calls.note()
        if self._core.index.wants_vectors and not self._core.embedder.ready:
            self._core.embedder.wait(MODEL_WAIT_S)
        if question.channel == ALL_CHANNELS:
            question.leave_out(TEAM, self.channel_names())
        ranking = self._questions.rank(question)
        ranking.notes += limits
        ranking.incomplete = bool(limits)
        return ranking

    def _lacking(self, ranking: Ranking) -> Sequence[str]:
        """Mark a question without an answer as incomplete while many chunks wait for vectors; return that as a note."""
        by_meaning = ranking.vector is not None  # a question about a time alone needs none
        lacking = [note] if by_meaning and (note := self._core.without_vectors()) else []
        ranking.incomplete |= bool(lacking)
        return lacking

    def _title(self, node: Node) -> str:
        return FORGOTTEN if self._tombstones.is_hidden(node.node_id) else unmarked(outgoing(node.title))

    def _beginning(self, node: Node) -> str:
        return "" if node.kind is Kind.SESSION else self._text(node)[:LISTED_CHARS]

    def _text(self, node: Node) -> str:
        """Return a memory's text, of a session its turns'; the text of a forgotten turn is never returned."""
        if node.kind is Kind.SESSION:
            turns = self._catalog.turns(node.node_id)
            return "\n\n".join(f"#{turn.ordinal} {turn.role}: {self._text(turn)}" for turn in turns)
        return FORGOTTEN if self._tombstones.is_hidden(node.node_id) else unmarked_lines(outgoing(node.text))

    def _named(self, node_ids: Sequence[NodeId], beside: Scope) -> tuple[NodeId, ...]:
        """Return the ids of nodes that exist and that the scope admits, each once."""
        nodes = self._catalog.nodes(node_ids)
        return tuple(dict.fromkeys(name for name in node_ids if name in nodes and beside.admits(nodes[name])))


def _note_of_left_out(number: int) -> list[str]:
    return [f"left out by extensions: {number}"] if number else []


def _turns_after(node_id: NodeId) -> list[NodeId]:
    """Return the ids of the turns behind a turn; [] for any other node."""
    session, _, ordinal = node_id.rpartition("#")
    first = int(ordinal) + 1 if session and ordinal.isdecimal() else 0
    return [f"{session}#{number}" for number in range(first, first + TURNS_TO_A_REPLY)] if first else []


@lru_cache(HITS_KEPT)
def _shown_reply(text: str) -> str:
    """Return the beginning of a reply as it may be shown. Cached: the next question is about the same."""
    return unmarked(outgoing(first_sentences(text, REPLY_CHARS)))


def _answers(reply: Node, turn: Node) -> bool:
    """Return True if a later turn is a person's reply to an agent, or an agent's to a person's question."""
    if reply.forgotten or (reply.text.startswith("[") and call_of(reply.text) is not None):
        return False
    return reply.role == Role.USER if turn.role in MACHINES else reply.role == Role.ASSISTANT and turn.asks

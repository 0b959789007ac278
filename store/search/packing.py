"""Packing: the sentences that answer a question, newest day first, inside a budget, until relevance ends."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import NamedTuple

from ..index.catalog import Catalog
from ..index.projection import Node
from ..index.visibility import Scope
from ..limits import CANDIDATES_BESIDE, CANDIDATES_READ, LEAST_SHARE, LONG_CHARS
from ..model import Envelope, Evidence, NodeId, Slot
from ..roles import MACHINES
from ..text.dates import format_short_date, with_days
from ..text.fence import fenced, speaker_name, unmarked
from ..text.quotes import leading, leans, quote
from ..text.sentences import Sentence as Piece
from ..text.sentences import joined_sentences
from ..text.token_count import estimate_tokens
from ..text.words import folded_words
from .gathering import AnswerRecords, Ranking, fetch
from .hits import section_budget
from .question import Question
from .relevance import (
    AnswerSentence,
    Option,
    Passage,
    Passages,
    Words,
    confidence_of,
    passages_of,
    with_sections,
    words_of,
)
from .scoring import note_of_time
from .supersession import FactState, States, answers
from .unasked import helping

# One turn's words beyond the first count half as much with every so many tokens: a long answer leaves room for others.
#
# Carried words of BEAM at 500 tokens .46 against .31 without, LoCoMo and the readers' benchmark as good. Both grow with
# a budget above USUAL_TOKENS: who asks for 4,000 wants whole sections.
FREE_TOKENS, HALVING_TOKENS = 50, 20

# A larger budget may spend what it has above this on the surroundings of the sentences chosen of long texts.
USUAL_TOKENS = 500

# A sentence is widened where its relevance is this share of the best one's.
WIDENED_RELEVANCE = 0.5

# While nothing is shown because the best does not fit, another replaces it only at this share of its odds: a short line
# of another matter is worse than none, which asks for a larger budget.
AS_GOOD = 0.5

# Sentences of a text that does not fit which are weighed one by one.
MOST_PARTS = 20

# A fact in an older dream's own words is the fact of a sentence that has this share of its words.
SAME_WORDS = 0.6

CHARS_A_TOKEN = 4
DAY_TOKENS, SPEAKER_TOKENS, SPECIAL_TOKENS = 4, 3, 2
GAP_TOKENS, SHARE_TOKENS = 1, 7
FENCE_TOKENS = estimate_tokens(fenced("."))
JOIN_TOKENS, SMALLEST_TOKENS = 1, 8

# The notes beside a fact that is contradicted, that has a successor (with its time or without) or a likely one, and
# beside one that is past its `stale_after`.
DISPUTED, UNTIL, CHANGED, LIKELY_CHANGED = "disputed", "until", "changed since", "likely changed later"
STALE = "out of date"

# Nothing answers where the best sentence is no more probable than this: of the readers' 115 questions that have an
# answer all but one have a sentence of .17 or more.
FAINT_RELEVANCE = 0.05

# The least relevance of a sentence where the best is hardly relevant either: the readers' envelopes of 500 tokens lose
# 16 and no answer, and a word that is nowhere no longer fills one.
LEAST_RELEVANCE = 0.02

# The least relevance of a likely successor, as a share of the older fact's. Such a link is right in half of the cases
# among the readers' pairs with a channel for each pair, and in a quarter with all in one.
LIKELY_SHARE = 0.3

# The part of an envelope's budget that curated memories may take: the short lines that come first in every envelope of
# their channel, whatever is asked.
CURATED_SHARE = 0.2

# A line of a project's page with the label of its footnote; what it replaced is indented below it.
_PAGE_LINE = re.compile(r"- (.+?) \[\^(m\d{1,6})\]")

ALWAYS = "always"
NOTHING_ELSE = "nothing else that is remembered answers this"
NOTHING_YET = "nothing else is found yet that answers this: not all that is remembered can be searched so far"

NOTE = "note"
TOO_SMALL = "what was found does not fit: ask with a larger budget"


def envelope(
    ranking: Ranking,
    catalog: Catalog,
    budget_tokens: int,
    now: datetime | None = None,
    *,
    given: Sequence[str] = (),
    only_sure: bool = False,
) -> Envelope:
    """Choose the sentences that answer, and render them by day, the newest first; abstain where nothing is near.

    The text is fenced, and every line names its speaker. `tokens` is an upper estimate of the whole text's. Without
    `now` nothing is out of date. Sentences that occur in a text of `given` are left out. `only_sure` is for a person
    who has not asked: the exchange that surely helps.
    """
    records = fetch(ranking, catalog, CANDIDATES_READ, beside=CANDIDATES_BESIDE)
    passages = passages_of(ranking, records, CANDIDATES_READ, CANDIDATES_BESIDE)
    if passages.is_far:
        return Envelope("", 0, (), abstained=True, notes=tuple(ranking.notes))
    passages = with_sections(passages, ranking, records, budget_tokens)
    states = records.states
    if only_sure:
        options = helping(passages, records, ranking, catalog)
    else:
        options = _options(passages, states, ranking.question.scope)
    if options and options[0].relevance < FAINT_RELEVANCE:
        return Envelope(
            "", 0, (), abstained=True, notes=tuple(ranking.notes), confidence=confidence_of(options[0].relevance)
        )
    asked = ranking.question
    faint = len(options)
    if asked.min_score:
        options = [one for one in options if confidence_of(passages.trust * one.relevance) >= asked.min_score]
    faint -= len(options)
    options = [one for one in options if not _is_in(one, given)]
    if only_sure:
        options = options[:1]
    room = max(1.0, budget_tokens / USUAL_TOKENS)
    selection = _Selection(budget_tokens - FENCE_TOKENS, passages, states, ranking.question, room)
    selection.fill(options)
    if selection.lines:
        selection.left = budget_tokens - _tokens_of(
            _render(selection, now)
        )  # parts are estimated more dearly than the whole
        selection.fill(options)
    if budget_tokens > USUAL_TOKENS and not only_sure:
        selection.widen(budget_tokens - USUAL_TOKENS, given)
    rendered = _render(selection, now)
    return Envelope(
        _text_of(rendered),
        _tokens_of(rendered) if rendered else 0,
        _slots(rendered, records),
        abstained=not rendered,
        notes=(
            *ranking.notes,
            *([passages.note] if rendered and passages.note else []),
            *note_of_time([(one.line.day, " ".join(one.line.texts.values())) for one in rendered], ranking.asked),
            *([TOO_SMALL] if options and not rendered else []),
            *([f"nothing that was found is as sure as {asked.min_score:g}"] if faint and not options else []),
        ),
        confidence=confidence_of(passages.trust * selection.best),
    )


def _is_in(one: Option, given: Sequence[str]) -> bool:
    text = " ".join(one.sentence.text.split())
    return any(text in words for words in given)


def _text_of(rendered: Sequence[_Rendered]) -> str:
    return fenced("\n".join(line.text for line in rendered))


def _tokens_of(rendered: Sequence[_Rendered]) -> int:
    """Return an upper estimate of an envelope's tokens: of its text, or of its lines together if these have more."""
    whole = estimate_tokens(_text_of(rendered))
    return max(whole, SPECIAL_TOKENS + sum(line.tokens for line in rendered))


def _options(passages: Passages, states: States, scope: Scope) -> list[Option]:
    """Return what may be shown: the sentences, each with its fact, and the facts that paraphrase no sentence."""
    options: list[Option] = []
    covered: set[NodeId] = set()
    for one in passages.sentences():
        state = _state_of(one, states.of(one.passage.unit))
        if state is not None:
            covered.add(state.fact.node_id)
        options.append(Option(one.relevance, one, state))
    for passage in passages.passages:
        for place, state in enumerate(states.of(passage.unit)):
            if state.fact.node_id not in covered and not state.is_reworded and scope.admits(state.fact):
                text, reply_to = words_of(state.fact)
                sentence = AnswerSentence(
                    passage, place, text, reply_to, passages.relevance(passage, f"{text} {reply_to}")
                )
                options.append(Option(sentence.relevance, sentence, state))
    options = _with_likely_raised(list(_without_repeats(options)), passages.words)
    return sorted(options, key=lambda one: (-one.relevance, one.unit, one.sentence.place))


def _with_likely_raised(options: list[Option], asked: Words) -> list[Option]:
    """Raise a likely successor that has a word of the question to LIKELY_SHARE of the older fact's relevance."""
    least: dict[NodeId, float] = {}
    for one in options:
        for fact in one.state.later if one.state else ():
            least[fact.node_id] = max(least.get(fact.node_id, 0.0), LIKELY_SHARE * one.relevance)
    return [
        one._replace(relevance=max(one.relevance, least[one.state.fact.node_id]))
        if one.state and one.state.fact.node_id in least and asked.found(one.sentence.text)
        else one
        for one in options
    ]


def _without_repeats(options: Iterable[Option]) -> Iterable[Option]:
    """Yield of options with the same words the newest that a person said, else the newest, as relevant as the best."""
    alike: dict[tuple[object, ...], list[Option]] = {}
    for one in options:
        alike.setdefault((one.sentence.reply_to, *folded_words(one.sentence.text)), []).append(one)
    for same in alike.values():
        newest = max(same, key=lambda one: (one.node.role not in MACHINES, _said_at(one.node), one.unit))
        best = max(one.relevance for one in same)
        yield newest._replace(relevance=best, sentence=replace(newest.sentence, relevance=best))


def _said_at(node: Node) -> str:
    return node.created_at.isoformat() if node.created_at else ""


def _state_of(sentence: AnswerSentence, states: Sequence[FactState]) -> FactState | None:
    """Return the fact that a sentence is part of: it is of it, quotes it, or was paraphrased by an older dream."""
    for state in states:
        fact = " ".join(state.fact.text.split())
        if state.fact.node_id == sentence.passage.unit or sentence.text in fact or fact in sentence.text:
            return state
    words = frozenset(sentence.text.lower().split())
    for state in states:
        said = frozenset(state.fact.text.lower().split())
        if len(said & words) >= SAME_WORDS * len(said):
            return state
    return None


@dataclass(slots=True)
class _Line:
    """The line of one unit: sentences by their place among the `pieces` of its `source`, and the notes beside them."""

    node: Node
    unit: NodeId
    pieces: Sequence[Piece] = ()
    source: str = ""
    texts: dict[int, str] = field(default_factory=dict)
    reply_to: str = ""
    facts: list[Node] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tokens: int = 0
    opposed: tuple[NodeId, ...] = ()
    relevance: float = 0.0

    @property
    def day(self) -> date | None:
        return self.node.created_at.date() if self.node.created_at else None


class _Selection:
    """The lines of one envelope, chosen greedily by relevance. `left` are the tokens that are not spent yet."""

    def __init__(self, left: int, passages: Passages, states: States, asked: Question, room: float) -> None:
        self.left = left
        self._passages = passages
        self._scope = asked.scope
        self._most = asked.max_facts
        self._room = room
        self._of_unit = {one.unit: one for one in passages.passages}
        self.lines: dict[NodeId, _Line] = {}
        self.best = 0.0
        self._states = states
        self._days: set[date | None] = set()
        self._relevance: dict[NodeId, float] = {}

    def fill(self, options: Sequence[Option]) -> None:
        """Take the most relevant options until the budget is full or relevance ends.

        A turn's next sentence counts less the more of the turn is shown already. So the heap has each option with the
        tokens that its turn had when it was pushed, and one whose turn has grown since is pushed again.
        """
        for one in options:
            if one.state is not None:
                fact = one.state.fact.node_id
                self._relevance[fact] = max(one.sentence.relevance, self._relevance.get(fact, 0.0))
        heap = [(-one.relevance, number, 0) for number, one in enumerate(options)]
        heapq.heapify(heap)
        least = max(LEAST_RELEVANCE, LEAST_SHARE * -heap[0][0]) if heap else 0.0
        while heap:
            weight, number, spent = heapq.heappop(heap)
            one = options[number]
            if -weight < least or self.left < SMALLEST_TOKENS:
                break
            if (now_spent := self._tokens_of_unit(one.unit)) != spent:
                heapq.heappush(heap, (-one.relevance * self._weight_after(now_spent), number, now_spent))
            elif not self._take(one) and not self.lines and not self._take(one, exact=True):
                least = max(least, _at_odds(one.relevance, AS_GOOD))
                self._take_part(one, least)

    def _weight_after(self, spent_tokens: int) -> float:
        """Return the factor of the next sentence of a turn, of which this number of tokens is shown already."""
        return float(0.5 ** (max(0.0, spent_tokens - FREE_TOKENS * self._room) / (HALVING_TOKENS * self._room)))

    def _take_part(self, one: Option, least: float) -> None:
        """Show the most relevant sentence that fits, of relevance `least` or more, of a turn that is too long whole.

        None where no sentence has a word of the question: nothing says then which of them answers.
        """
        pieces = joined_sentences(one.sentence.text)[:MOST_PARTS]
        source = one.sentence.text
        texts = [quote({**leading(pieces, at), at: part.text}, pieces, source) for at, part in enumerate(pieces)]
        weighed = [(self._passages.relevance(one.sentence.passage, text), text) for text in texts]
        wordless = self._passages.relevance(one.sentence.passage, "")
        for relevance, text in sorted((part for part in weighed if part[0] > wordless), key=lambda part: -part[0]):
            part = replace(one.sentence, text=text, relevance=relevance)
            if relevance < least or self._take(one._replace(relevance=relevance, sentence=part)):
                return

    def widen(self, tokens: int, given: Sequence[str]) -> None:
        """Show the surroundings of the sentences that were selected of long texts, in at most `tokens`.

        The most relevant text first, each up to the section budget (at four characters a token) and inside its nearest
        sections, by a sentence on either side of each run in turn.
        """
        long = {one.unit: one for one in self._passages.passages if one.sections}
        parents_chars = [len(one.node.text) for one in long.values()]
        least = WIDENED_RELEVANCE * self.best
        lines = [line for line in self.lines.values() if line.unit in long and line.relevance >= least]
        for line in sorted(lines, key=lambda line: (-line.relevance, line.unit)):
            before = self.left
            most = section_budget(parents_chars, LONG_CHARS) // CHARS_A_TOKEN - line.tokens
            self._grow(line, long[line.unit], min(most, tokens), given)
            tokens -= before - self.left

    def _grow(self, line: _Line, passage: Passage, tokens: int, given: Sequence[str]) -> None:
        placed = passage.pieces()
        pieces = [piece.text for piece in placed]
        far = {place for place, piece in enumerate(placed) if passage.gain(piece.start) == -math.inf}
        chosen = {place for place, text in line.texts.items() if 0 <= place < len(pieces) and pieces[place] == text}
        passed: set[int] = set()
        while edges := _edges(chosen | passed, len(pieces)) - far:
            for place in sorted(edges):
                cost = _cost(_dated(pieces[place], line.node)) + SHARE_TOKENS * (placed[place].steps > 0)
                if cost > min(tokens, self.left):
                    return
                if self._shows(line.unit, pieces[place]) or any(pieces[place] in text for text in given):
                    passed.add(place)
                    continue
                line.texts[place] = pieces[place]
                line.tokens += cost
                self.left -= cost
                tokens -= cost
                chosen.add(place)

    def _tokens_of_unit(self, unit: NodeId) -> int:
        return self.lines[unit].tokens if unit in self.lines else 0

    def _take(self, one: Option, *, exact: bool = False) -> bool:
        """Show a sentence after its fact's successors and before what the fact contradicts, if all of it fits.

        Return True if the sentence is shown, now or before. `exact`: measure the whole text, since the estimates of
        its parts add up to more; only while nothing else is shown.
        """
        if self._shows(one.unit, one.sentence.text):
            return True
        if _cost(one.sentence.text) > self.left:
            return False
        ahead = self._not_shown((*one.state.ahead, *self._likely(one)) if one.state else ())
        behind = self._not_shown(
            [fact for fact in one.state.opposed if fact not in one.state.ahead] if one.state else ()
        )
        if one.state is not None and one.state.is_reworded:  # its person put these words right: only theirs are told
            return not ahead or self._take_first(ahead, one.relevance)
        texts = {place: text for place, text in _with_leading(one).items() if not self._shows(one.unit, text)}
        if self._most is not None:
            places = self._most - len(self.lines.keys() | {one.unit})
            if places < len({self._unit_of(fact) for fact in ahead + behind} - self.lines.keys() - {one.unit}):
                # What holds now comes before what it replaced, where not all of it may be shown.
                return bool(ahead) and self._take_first(ahead, one.relevance)
            if places < 0:
                return False
        own = self._cost_alone(one, texts) if exact else self._cost(one, texts.values())
        if own + sum(map(self._cost_of_fact, ahead + behind)) > self.left:
            return False
        for fact in ahead:
            self._add_fact(fact)
        line = self._add(one.unit, one.node, texts, one.state.fact if one.state else None, own)
        line.reply_to = one.sentence.reply_to
        line.relevance = max(line.relevance, one.relevance)
        self.best = max(self.best, one.relevance)
        for fact in behind:
            self._add_fact(fact)
        if one.state is not None:
            self._note(line, one.state)
        return True

    def _take_first(self, facts: Sequence[Node], relevance: float) -> bool:
        """Show the first of some facts by itself, if there is a place for it and it fits."""
        is_place = self._most is None or len(self.lines.keys() | {self._unit_of(facts[0])}) <= self._most
        if is_place and self._cost_of_fact(facts[0]) <= self.left:
            self._add_fact(facts[0])
            self.best = max(self.best, relevance)
            return True
        return False

    def _likely(self, one: Option) -> list[Node]:
        """Return the likely successors of an option's fact that are relevant enough to be shown before it."""
        later = one.state.later if one.state else ()
        relevance = self._relevance.get
        return [f for f in later if answers(self._unit_of(f), one.unit, relevance(f.node_id, 0.0), one.relevance)]

    def _note(self, line: _Line, state: FactState) -> None:
        """Mark a line with what became of its fact, and mark the lines that dispute it."""
        line.notes += [note for note in _notes(state) if note not in line.notes]
        for unit in map(self._unit_of, state.opposed):
            line.opposed += (unit,)
            if (other := self.lines.get(unit)) is not None:
                other.notes += [DISPUTED] if DISPUTED not in other.notes else []
                other.opposed += (line.unit,)

    def _not_shown(self, facts: Iterable[Node]) -> list[Node]:
        return [
            fact
            for fact in dict.fromkeys(facts)
            if not self._shows(self._unit_of(fact), words_of(fact)[0])
            and (not self._scope.where or self._scope.admits(fact))
        ]

    def _cost(self, one: Option, texts: Iterable[str]) -> int:
        note = sum(_cost(note) + JOIN_TOKENS for note in _notes(one.state)) if one.state is not None else 0
        text = f"{_dated(' '.join(texts), one.node)} {one.sentence.reply_to}"
        marks = GAP_TOKENS * (one.unit in self.lines) + SHARE_TOKENS * one.sentence.is_step
        return _cost(text) + marks + self._head(one.unit, one.node) + note

    def _cost_alone(self, one: Option, texts: Mapping[int, str]) -> int:
        passage = one.sentence.passage
        line = _Line(one.node, one.unit, passage.pieces(), passage.told, dict(texts), one.sentence.reply_to)
        line.notes += _notes(one.state) if one.state is not None else []
        return _tokens_of([_rendered(line, is_new_day=True, now=None)]) - FENCE_TOKENS

    def _cost_of_fact(self, fact: Node) -> int:
        return _cost(f"{_dated(fact.text, fact)} (to)") + self._head(self._unit_of(fact), fact)

    def _add_fact(self, fact: Node) -> None:
        words, reply_to = words_of(fact)
        line = self._add(self._unit_of(fact), fact, {-1: words}, fact, self._cost_of_fact(fact))
        line.reply_to = reply_to

    def _add(self, unit: NodeId, node: Node, texts: Mapping[int, str], fact: Node | None, tokens: int) -> _Line:
        if unit not in self.lines:
            passage = self._of_unit.get(unit)
            self.lines[unit] = _Line(node, unit, passage.pieces(), passage.told) if passage else _Line(node, unit)
        line = self.lines[unit]
        line.texts.update(texts)
        line.tokens += tokens
        self.left -= tokens
        self._days.add(line.day)
        if fact is not None and fact not in line.facts:
            line.facts.append(fact)
        return line

    def _head(self, unit: NodeId, node: Node) -> int:
        """Return the tokens of a line's day and speaker where it is the first of its unit."""
        if unit in self.lines:
            return 0
        day = node.created_at.date() if node.created_at else None
        speaker = estimate_tokens(node.role) - SPECIAL_TOKENS + SPEAKER_TOKENS - JOIN_TOKENS
        return speaker + (0 if day in self._days else DAY_TOKENS)

    def _shows(self, unit: NodeId, text: str) -> bool:
        text = " ".join(text.split())
        return unit in self.lines and any(text in shown or shown in text for shown in self.lines[unit].texts.values())

    def _unit_of(self, node: Node) -> NodeId:
        return self._states.unit_of.get(node.node_id, node.node_id)


def _with_leading(one: Option) -> dict[int, str]:
    """Return a sentence by its place, and those before it without which it only points."""
    place, text = one.sentence.place, one.sentence.text
    if place < 1 or not leans(text):
        return {place: text}
    pieces = one.sentence.passage.pieces()
    is_piece = place < len(pieces) and pieces[place].text == text
    return {**(leading(pieces, place) if is_piece else {}), place: text}


def _at_odds(relevance: float, share: float) -> float:
    """Return the relevance whose odds are this share of those of a relevance in [0, 1]."""
    return share * relevance / (1.0 - relevance + share * relevance)


def _edges(chosen: AbstractSet[int], count: int) -> set[int]:
    """Return the places right beside chosen ones, within [0, count)."""
    return {place + step for place in chosen for step in (-1, 1) if 0 <= place + step < count} - chosen


def _dated(text: str, node: Node) -> str:
    return with_days(text, node.created_at.date()) if node.created_at else text


def _cost(text: str) -> int:
    """Return an upper estimate of the tokens that a text adds to a line."""
    return estimate_tokens(text) - SPECIAL_TOKENS + JOIN_TOKENS


def _notes(state: FactState) -> list[str]:
    """Return the marks of a fact: until when it held, its likely successor, a dispute."""
    notes = [DISPUTED] if state.opposed else []
    if state.newer:
        return [*notes, f"{UNTIL} {_written(_first(state.newer))}" if _first(state.newer) else CHANGED]
    return [*notes, f"{LIKELY_CHANGED} {_written(_first(state.later))}".rstrip()] if state.later else notes


def _first(nodes: Sequence[Node]) -> datetime | None:
    """Return the earliest time from which one of some memories holds."""
    return min((node.since for node in nodes if node.since), default=None)


def _written(at: datetime | None) -> str:
    return format_short_date(at.date()) if at else ""


class _Rendered(NamedTuple):
    """A rendered line: its words, and these with their day, speaker and notes."""

    line: _Line
    words: str
    text: str

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text) - SPECIAL_TOKENS


def _render(selection: _Selection, now: datetime | None) -> list[_Rendered]:
    """Render the lines by day, the newest first, and so within a day."""
    rendered: list[_Rendered] = []
    day: date | None = None
    for line in sorted(selection.lines.values(), key=_newest_last, reverse=True):
        rendered.append(_rendered(line, is_new_day=line.day != day or not rendered, now=now))
        day = line.day
    return rendered


def _rendered(line: _Line, *, is_new_day: bool, now: datetime | None) -> _Rendered:
    words = quote(line.texts, line.pieces, line.source)
    shown = unmarked(_dated(words, line.node)) + (f" ({line.reply_to})" if line.reply_to else "")
    return _Rendered(line, words, _line_text(line, shown, is_new_day=is_new_day, now=now))


def _slots(rendered: Sequence[_Rendered], records: AnswerRecords) -> tuple[Slot, ...]:
    evidence = records.evidence([one.line.node for one in rendered])
    return tuple(_slot(one, evidence[one.line.node.node_id]) for one in rendered)


def _slot(one: _Rendered, evidence: tuple[Evidence, ...]) -> Slot:
    line = one.line
    node_id = line.facts[0].node_id if line.facts else line.node.node_id
    opposed = tuple(dict.fromkeys(other for other in line.opposed if other != line.unit))
    return Slot(node_id, one.text, one.tokens, evidence, opposed, one.words)


def _newest_last(line: _Line) -> tuple[str, int]:
    return _said_at(line.node), line.node.ordinal


def _line_text(line: _Line, words: str, *, is_new_day: bool, now: datetime | None) -> str:
    stale = [fact.stale_after for fact in (*line.facts, line.node) if fact.stale_after is not None]
    notes = [*line.notes, *([STALE] if now is not None and any(at <= now for at in stale) else [])]
    day = _written(line.node.created_at) if is_new_day else ""
    head = ", ".join(part for part in (day, speaker_name(line.node.role) or NOTE, *notes) if part)
    return f"{head}: {words}" if is_new_day else f"- {head}: {words}"


def curated_slots(nodes: Sequence[Node], budget_tokens: int) -> tuple[Slot, ...]:
    """Return a line for each node, in their order, while their share of a budget lasts; one too long is left out."""
    left = int(budget_tokens * CURATED_SHARE)
    slots = []
    for node in nodes:
        text = f"{ALWAYS}, {speaker_name(node.role) or NOTE}: {unmarked(node.text)}"
        tokens = estimate_tokens(text) - SPECIAL_TOKENS  # they are the fence's
        if tokens <= left:
            left -= tokens
            slots.append(Slot(node.node_id, text, tokens, (), words=" ".join(node.text.split())))
    return tuple(slots)


class PageLine(NamedTuple):
    """A line of a project's page: its heading, its words, and the fact that it quotes."""

    heading: str
    text: str
    fact: Node


def lines_of_page(text: str, quoted: Callable[[str], Node | None]) -> list[PageLine]:
    """Return the lines with a fact that holds; `quoted` returns the fact of a footnote, None if it holds no longer."""
    lines: list[PageLine] = []
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif (match := _PAGE_LINE.fullmatch(line)) and (fact := quoted(match[2])) is not None:
            lines.append(PageLine(heading, match[1], fact))
    return lines


def page_envelope(
    lines: Sequence[PageLine], budget_tokens: int, most: int | None, evidence: Mapping[NodeId, tuple[Evidence, ...]]
) -> Envelope:
    """Return the lines of a project's page that fit, in the order of the page, each with its fact's id.

    One of each heading in turn, so that a small budget is not spent on the first one.
    """
    of_heading: Counter[str] = Counter()
    ranks = []
    for place, line in enumerate(lines):
        ranks.append((of_heading[line.heading], place))
        of_heading[line.heading] += 1
    left, chosen = budget_tokens - FENCE_TOKENS, dict[int, Slot]()
    headings: set[str] = set()
    for _, place in sorted(ranks):
        line = lines[place]
        text = f"- {unmarked(line.text)} [{line.fact.node_id}]"
        cost = _cost(text) + (0 if line.heading in headings else _cost(f"{line.heading}:"))
        if cost > left or (most is not None and len(chosen) >= most):
            continue
        headings.add(line.heading)
        left -= cost
        node_id = line.fact.node_id
        chosen[place] = Slot(node_id, text, cost, evidence.get(node_id, ()), words=line.fact.text)
    slots: list[Slot] = []
    heading = ""
    for place in sorted(chosen):
        slot = chosen[place]
        if lines[place].heading != heading:
            heading = lines[place].heading
            slot = replace(slot, text=f"{unmarked(heading)}:\n{slot.text}")
        slots.append(slot)
    text = fenced("\n".join(slot.text for slot in slots))
    return Envelope(text, estimate_tokens(text), tuple(slots), abstained=not slots, confidence=float(bool(slots)))


def with_more(envelope: Envelope, slots: Sequence[Slot]) -> Envelope:
    """Return an envelope with more lines behind its own, which stay as they are."""
    every = (*envelope.slots, *slots)
    text = fenced("\n".join(slot.text for slot in every))
    tokens = max(estimate_tokens(text), envelope.tokens + sum(slot.tokens for slot in slots))
    return replace(envelope, text=text, tokens=tokens, slots=every, abstained=False)


def with_curated(envelope: Envelope, curated: tuple[Slot, ...], asked_tokens: int = 0) -> Envelope:
    """Return an envelope with curated lines before its own; one that abstains keeps its mark.

    Its text says that nothing else was found, where this fits into `asked_tokens`, the budget of a question; 0 for an
    envelope that was not asked for.
    """
    if not curated:
        return envelope
    slots = (*curated, *envelope.slots)
    lines = [slot.text for slot in slots]
    if envelope.abstained:
        nothing = NOTHING_YET if envelope.incomplete else NOTHING_ELSE
        rest = f"- {TOO_SMALL if TOO_SMALL in envelope.notes else nothing}"
        lines += [rest] if estimate_tokens(fenced("\n".join([*lines, rest]))) <= asked_tokens else []
    text = fenced("\n".join(lines))
    tokens = max(estimate_tokens(text), envelope.tokens + sum(slot.tokens for slot in curated))
    return replace(envelope, text=text, tokens=tokens, slots=slots)

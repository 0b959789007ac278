"""Questions: a bounded text, the scope of its answer, and the form of the question.

A pasted log or a picture made of marks costs no more than words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..channel import channels_in_reach
from ..filters import Clause, Condition, Filter, Group, wanted_fields
from ..index.projection import FORGOTTEN
from ..index.visibility import Scope
from ..limits import LONGEST_QUESTION_CHARS
from ..model import ALL_CHANNELS, GLOBAL_CHANNEL, InvalidInput, Kind, Level
from ..text.dates import Event, Resolved, asks_for_newest, asks_for_time_alone, event_in, find_asked
from ..text.languages import phrases, words_in
from ..text.token_count import beginning
from ..text.words import ALPHANUMERIC, TERM, before_apostrophe, query_terms, stems_of

# The levels that answer unless others are asked for: scenarios and profiles summarise many facts, and would crowd these
# out.
BY_DEFAULT = (Level.SESSION, Level.FACT)

# The levels that summarise facts.
PAGES = (Level.SCENARIO, Level.PROFILE)

LONGEST_ALONE_CHARS = 160
"""Characters of a question that may ask of a project alone."""

NO_PAGES_THEN = "pages are written anew with what is learned, so turns and facts alone answer as of an earlier time"


@dataclass(slots=True, kw_only=True)
class Question:
    """A query with its filters, both read once. Raises InvalidInput for an empty text.

    `channel` None is `_global` alone, `*` is all. Of the text, `words` are searched for and `meant` is embedded; both
    are empty where it has no words. `terms` are its words without question words, `stems` their stems. `scope` is
    the scope of related memories; `conditions` is the filter of the memories that may answer, as every engine reads it.
    `shows_facts`: a turn is ranked for the facts drawn from it; else each memory by itself. `is_plain`: it has no
    filters of its own. `notes` name the parts that are not searched for. At most `max_facts` memories are shown,
    each at least as sure (`confidence`) as `min_score`. `session` reads its own part of the channels too.
    """

    text: str
    limit: int = 10
    channel: str | None = None
    levels: tuple[Level, ...] = ()
    include_archived: bool = False
    as_of: datetime | None = None
    where: Filter = ()
    min_score: float = 0.0
    max_facts: int | None = None
    session: str | None = None
    words: str = field(init=False)
    meant: str = field(init=False)
    terms: list[str] = field(init=False)
    stems: frozenset[str] = field(init=False)
    scope: Scope = field(init=False)
    conditions: Filter = field(init=False)
    shows_facts: bool = field(init=False)
    is_plain: bool = field(init=False)
    notes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Read the text and the filters."""
        read = read_query(self.text)
        self.words, self.meant = read.words, read.meant
        self.terms = query_terms(read.words)
        self.stems = stems_of(self.terms)
        reach = channels_in_reach(self.channel or GLOBAL_CHANNEL, self.session)
        in_reach = None if self.channel == ALL_CHANNELS else frozenset(reach)
        self.scope = Scope(in_reach, self.as_of, self.include_archived, self.where)
        self.shows_facts = not self.levels and not self.scope.is_each_alone
        self.is_plain = not (self.levels or self.include_archived or self.as_of or self.where)
        self.conditions = _normalised_filter(self)
        asks_for_old_pages = self.as_of is not None and not {*self.levels}.isdisjoint(PAGES)
        self.notes = tuple(filter(None, (read.note, NO_PAGES_THEN if asks_for_old_pages else "")))

    def leave_out(self, ending: str, known: Sequence[str]) -> None:
        """Leave the channels that end so out of a question to all of those that are known."""
        if left_out := tuple(name for name in known if name.endswith(ending)):
            self.scope = replace(self.scope, channels=frozenset(known).difference(left_out))
            self.conditions = (*self.conditions, Condition("channel", "not_in", left_out))


def _normalised_filter(question: Question) -> Filter:
    """Return the memories that may answer, as conditions that every engine understands."""
    conditions: list[Clause] = [*question.where]
    if question.as_of is not None:
        conditions.append(Condition("level", "not_in", tuple(level.value for level in PAGES)))
    if question.levels or not (question.where and wanted_fields(question.where) & {"level", "kind"}):
        conditions.append(Condition("level", "in", tuple(level.value for level in question.levels or BY_DEFAULT)))
    if question.shows_facts:
        conditions.append(Condition("ranks", "in", (1,)))
    elif not question.levels:
        is_no_document = Condition("kind", "not_in", (Kind.DOCUMENT.value,))
        conditions.append(Group(should=(Condition("ranks", "in", (1,)), is_no_document)))
    if (channels := question.scope.channels) is not None:
        conditions.append(Condition("channel", "in", tuple(sorted(channels))))
    if question.as_of is not None:
        at = int(question.as_of.timestamp())
        conditions += [Condition("valid_from", "lte", (at,)), Condition("valid_to", "gt", (at,))]
    elif not question.include_archived:
        conditions.append(Condition("live", "in", (1,)))
    if question.as_of is not None or question.include_archived:
        conditions.append(Condition(FORGOTTEN, "is_null"))
    return tuple(conditions)


@dataclass(frozen=True, slots=True)
class Asked:
    """The form of a question: the number of its terms, and the spans of time or the event that it asks about.

    `newest`: it asks for what is newest; `nothing_else`: it asks about these times, or the newest, and no thing.
    """

    terms: int = 0
    spans: Sequence[Resolved] = ()
    event: Event | None = None
    newest: bool = False
    nothing_else: bool = False


NOTHING_ASKED = Asked()


def asked_by(question: str, terms: int, now: datetime) -> Asked:
    """Read the form of a question, with `terms` distinct terms; days are relative to `now`."""
    spans = find_asked(question[:LONGEST_QUESTION_CHARS], now.date())
    is_short = len(question) <= LONGEST_QUESTION_CHARS
    newest = is_short and not spans and asks_for_newest(question)
    has_begun = all(one.first <= now.date() for one in spans)
    return Asked(
        terms,
        spans,
        None if spans else event_in(question),
        newest=newest,
        nothing_else=is_short and has_begun and asks_for_time_alone(question, spans),
    )


def asks_of_alone(question: str, name: str) -> bool:
    """Return True for a short question that says nothing but the name of a project: "what do we know about waybill?".

    The digits of a channel's name are no part of it, and its parts may be joined by spaces.
    """
    parts = ALPHANUMERIC.findall(_HASH.sub("", name).casefold())
    if len(question) > LONGEST_ALONE_CHARS or not parts:
        return False
    joined = r"[\W_]*".join(map(re.escape, parts))
    rest, found = re.compile(rf"(?<!\w){joined}(?!\w)").subn(" ", question.casefold())
    rest = phrases("days.happenings").sub(" ", rest)
    asking = words_in("question_words") | words_in("days.asking")
    return found == 1 and all(before_apostrophe(match.group()) in asking for match in TERM.finditer(rest))


READ_CHARS = 2_000
# The length that the shipped model was trained on; its time grows with the tokens: 6 ms for ten, 40 for 128, 300 for
# 512.
MEANT_TOKENS = 128

# Of one mark in a row, so many are read: the rest of a ruled line says nothing, and a model reads each.
SAME_MARKS = 3

_HASH = re.compile(r"-[0-9a-f]{6}\Z")
_RUN_OF_MARKS = re.compile(rf"([^\w\s])\1{{{SAME_MARKS},}}")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A question as it is read: `words` as asked, `meant` is embedded, `note` says what was left out.

    Both are empty for a question of marks alone, which has no meaning for a model either.
    """

    words: str
    meant: str
    note: str = ""


def read_query(text: str) -> QueryText:
    """Cut a question to what is read of it. Linear in the text, and what follows is bounded.

    Raises InvalidInput for one that says nothing.
    """
    text = text.strip()
    if not text:
        raise InvalidInput("the question is empty", hint="Say in a few words what to look for.")
    if not any(map(str.isalnum, text[:READ_CHARS])):
        return QueryText("", "", f"the question holds no words in its first {READ_CHARS:,} characters")
    words = _RUN_OF_MARKS.sub(lambda run: run[1] * SAME_MARKS, text[:READ_CHARS])
    meant = beginning(words, MEANT_TOKENS)
    if len(text) > READ_CHARS:
        return QueryText(
            words, meant, f"the question is long: only its first {READ_CHARS:,} characters were looked for"
        )
    if len(meant) < len(words):
        note = f"the question is long: its first {len(meant):,} characters were looked for by meaning, all by words"
        return QueryText(words, meant, note)
    return QueryText(words, meant)

"""Questions: what is asked, of which memories, and in a bounded text.

A pasted log or a picture made of marks costs no more than words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from ..filters import Clause, Condition, Filter, Group, wanted_fields
from ..index.projection import FORGOTTEN
from ..index.scope import Scope
from ..model import ALL_CHANNELS, GLOBAL_CHANNEL, InvalidInput, Kind, Level
from ..text.token_count import beginning

BY_DEFAULT = (Level.SESSION, Level.FACT)
"""Scenarios and profiles retell many facts: they answer when asked for, and would crowd out what they retell."""

PAGES = (Level.SCENARIO, Level.PROFILE)
"""The levels that retell facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query and its filters. `channel` None is `_global` alone, `*` is all."""

    text: str
    limit: int = 10
    channel: str | None = None
    levels: tuple[Level, ...] = ()
    include_archived: bool = False
    as_of: datetime | None = None
    where: Filter = ()

    @property
    def shows_facts(self) -> bool:
        """Return True if turns stand for the facts drawn from them; else each memory is judged by itself."""
        return not self.levels and not self.scope.is_each_alone

    @property
    def scope(self) -> Scope:
        """Return the scope of what an answer may bring in or name."""
        if self.channel == ALL_CHANNELS:
            channels = None
        else:
            channels = frozenset({self.channel or GLOBAL_CHANNEL, GLOBAL_CHANNEL})
        return Scope(channels, self.as_of, self.include_archived, self.where)

    @property
    def is_plain(self) -> bool:
        """Return True for a question without filters of its own, which others may ask too."""
        return not (self.levels or self.include_archived or self.as_of or self.where)


def normalised_filter(question: Question) -> Filter:
    """Return the memories that may answer, as conditions that every engine understands."""
    conditions: list[Clause] = [*question.where]
    if question.as_of is not None:
        conditions.append(Condition("level", "not_in", tuple(level.value for level in PAGES)))
    if question.levels or not wanted_fields(question.where) & {"level", "kind"}:
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


READ_CHARS = 2_000
MEANT_TOKENS = 128
"""The length that the shipped model was trained on; its time grows with the tokens: 6 ms for ten, 40 for 128, 300 for
512."""

SAME_MARKS = 3
"""Of one mark in a row, so many are read: the rest of a ruled line says nothing, and a model reads each."""

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

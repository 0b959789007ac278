"""Slots: the subject, attribute and value of a statement that has these, for the relations that agents ask about.

"Deig listens on 8080" has the slot (Deig, port, 8080), "the deadline of the sprint is 5 April" (the sprint, deadline, 5
April). Which words link a subject to a value is data (`languages/`, section `slots`); nothing is rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from ...model import StatementSlot
from ..languages import entries, languages, phrases, table, words_in
from ..replies import read_reply
from .reading import read, sentences_read, shared

SUBJECT_WORDS, VALUE_WORDS = 6, 8
"""The longest subject and value, in words: what is longer says more than one thing."""

MANY_VALUED = frozenset({"uses", "prefers"})
"""Attributes of which a subject may have many values at a time."""

_CLAUSE_END = re.compile(r"[,;:.!?]\s+|[.!?]$|\s[-–—]\s|\s\(")


class _Link(NamedTuple):
    """Words between a subject and its value; `turned`: the value stands first ("Tom maintains the wiki")."""

    attribute: str
    words: re.Pattern[str]
    turned: bool


@lru_cache(maxsize=4096)
def slot_of(text: str) -> StatementSlot | None:
    """Return the slot of a statement, the first that one of its sentences has; None for most."""
    words, _ = read_reply(text)
    told = [sentence for sentence, statement in sentences_read(words) if not statement.is_open]
    return next((slot for sentence in told for slot in _slots_in(sentence)), None)


def other_value(earlier: str, later: str) -> bool:
    """Check for one subject and attribute in two statements, with two values that cannot both hold."""
    old, new = slot_of(earlier), slot_of(later)
    if old is None or new is None or old.attribute != new.attribute or old.attribute in MANY_VALUED:
        return False
    return _is_same(old.subject, new.subject) and not _agree(old.value, new.value)


def _slots_in(sentence: str) -> Iterator[StatementSlot]:
    for clause in filter(None, _CLAUSE_END.split(sentence)):
        for noun in _nouns():
            if match := noun.match(clause):
                yield StatementSlot(match["subject"], match["attribute"].lower(), match["value"])
        for link in _links():
            if match := link.words.search(clause):
                sides = clause[: match.start()].strip(), clause[match.end() :].strip()
                subject, value = (_bare(side) for side in (reversed(sides) if link.turned else sides))
                if _ends_whole(sides[0]) and _is_named(subject, SUBJECT_WORDS) and _is_named(value, VALUE_WORDS):
                    yield StatementSlot(subject, link.attribute, value)


def _ends_whole(words: str) -> bool:
    """Check that what stands before a link ends in a name: "the printer was" and "it is Ana who" do not."""
    return bool(words) and words.split()[-1].lower() not in words_in("state.particles")


def _bare(words: str) -> str:
    """Drop a seam in front ("and Ana") and signs of a change ("60 now"), which are no part of a name or a value."""
    words = phrases("state.now").sub("", words)
    seam = phrases("grounding.seams").match(words)
    return " ".join((words[seam.end() :] if seam else words).split())


def _is_named(words: str, most: int) -> bool:
    return 0 < len(words.split()) <= most and bool(read(words).content)


def _is_same(one: str, other: str) -> bool:
    mine, yours = read(one).content, read(other).content
    return len(shared(mine, yours)) == len(mine) == len(yours) > 0


def _agree(one: str, other: str) -> bool:
    """Check two values for a word in common, and no number, day or time of one sort that differs."""
    mine, yours = read(one), read(other)
    differ = any(old.opposes(new) for old in mine.values for new in yours.values)
    return not differ and bool(shared(mine.content, yours.content))


@cache
def _links() -> tuple[_Link, ...]:
    return tuple(
        _Link(attribute, re.compile(rf"(?<!\w)(?:{'|'.join(listed)})(?!\w)", re.IGNORECASE), section == "slots.turned")
        for language in languages()
        for section in ("slots.between", "slots.turned")
        for attribute, listed in table(language, section).items()
    )


@cache
def _nouns() -> tuple[re.Pattern[str], ...]:
    """Return patterns of "{subject}'s {noun} is {value}" and the like, one for each way of saying it."""
    parts = {
        "subject": rf"(?P<subject>\S+(?: \S+){{0,{SUBJECT_WORDS - 1}}}?)",
        "value": rf"(?P<value>\S+(?: \S+){{0,{VALUE_WORDS - 1}}})$",
    }
    found: list[re.Pattern[str]] = []
    for language in languages():
        noun = "|".join(entries(language, "slots.nouns"))
        ways = entries(language, "slots.ways")
        found += [re.compile(way.format(noun=f"(?P<attribute>{noun})", **parts), re.IGNORECASE) for way in ways]
    return tuple(found)

"""Comparison: does a later statement change, or contradict, an earlier one about the same thing?

Likeness is no judge ("purple" and "cyan" lie at cosine .96), so every rule here asks for reasons that can be named: the
same subject, a value of the same sort that differs, and words that say that something changed. One doubt is enough to
say nothing: another person, project, date, ordinal or modifier.
"""

from __future__ import annotations

import re
from enum import StrEnum

from .statement import DENIED_STEMS, Denial, Statement, Value, read
from .stems import stems_of
from .vocabulary import NEGATION
from .word_lists import lexicon


class Comparison(StrEnum):
    """The relation of a later statement to an earlier one."""

    NONE = "none"
    UPDATES = "updates"
    CONTRADICTS = "contradicts"


SHARED_STEMS, SHARED_PART = 2, 0.4
"""Least overlap of the surroundings of two values: so many stems, and this part of the smaller set."""

WHOLE_PART, WHOLE_PART_OF_COUNTS, WHOLE_PART_OF_FEW = 0.35, 0.2, 0.5
"""Least overlap of the whole texts, as a part of the smaller set of stems: less where both count the same thing, more
where the surroundings of their values share no more than SHARED_STEMS."""

DENIED_PART = 0.5
"""Least overlap of a denial with an assertion, beside DENIED_STEMS: this part of the denial's stems."""

DONE = 0.5
"""Added to the overlap where the same verb form occurs: "completed" is nearer to a denial than "to complete"."""

FRAME_WORDS, SPAN_WORDS = 2, 3
"""Of two texts that differ in one place: the fewest words before it, and the most words in it."""

_FRAME_WORD = re.compile(r"[^\W_](?:[\w'’.:/-]*[^\W_])?")
_ADDS_UP = stems_of(lexicon("growing_counts"))


def compare(earlier: str, later: str) -> Comparison:
    """Compare a later statement with an earlier one of the same channel."""
    if earlier == later:
        return Comparison.NONE
    old, new = read(earlier), read(later)
    if denied_part(new, old):
        return Comparison.CONTRADICTS
    if (framed := _framed(old.text, new.text)) is not Comparison.NONE:
        return framed
    if _speak_of_others(old, new):
        return Comparison.NONE
    if any(_changes(a, b, old, new) for a in _stated(old) for b in _stated(new)):
        return Comparison.UPDATES
    return Comparison.NONE


def _framed(earlier: str, later: str) -> Comparison:
    """Compare two texts that differ only in what something is, where it is, or what a person uses or prefers.

    "My office is in Oslo" and "my office is in Bergen now": an update if the later says that it is so now; otherwise a
    question for a person if what differs is a name or a number, which few things have two of.
    """
    old, new = _FRAME_WORD.findall(earlier), _FRAME_WORD.findall(later)
    is_news = any(word.lower() in lexicon("news_adverbs") for word in new)
    new = [word for word in new if word.lower() not in lexicon("news_adverbs")]
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a.lower() != b.lower()), -1)
    if start < FRAME_WORDS or not any(word.lower() in lexicon("state_verbs") for word in old[1:start]):
        return Comparison.NONE
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail].lower() == new[-1 - tail].lower():
        tail += 1
    was, is_ = old[start : len(old) - tail], new[start : len(new) - tail]
    if not (0 < len(was) <= SPAN_WORDS and 0 < len(is_) <= SPAN_WORDS) or NEGATION.search(" ".join(was + is_)):
        return Comparison.NONE
    if is_news:
        return Comparison.UPDATES
    exact = all(any(word[0].isupper() or word[0].isdigit() for word in span) for span in (was, is_))
    return Comparison.CONTRADICTS if exact else Comparison.NONE


def denied_part(new: Statement, old: Statement) -> float:
    """Return the overlap of a denial in `new` with an assertion in `old`, the best of several.

    0.0 below DENIED_STEMS or DENIED_PART; else the shared fraction, plus DONE if the same verb form occurs.
    """
    if old.denied:
        return 0.0
    return max((_overlap(denial, old) for denial in new.denied), default=0.0)


def _overlap(denial: Denial, old: Statement) -> float:
    shared = denial.stems & old.stems
    part = len(shared) / len(denial.stems)
    if len(shared) < DENIED_STEMS or part < DENIED_PART or _differ(_proper(old.names), _proper(denial.names)):
        return 0.0
    return part + (DONE if re.search(rf"\b{re.escape(denial.verb)}\b", old.text, re.IGNORECASE) else 0.0)


def _stated(statement: Statement) -> list[Value]:
    """Return the values that a text states without denying them."""
    return [
        value
        for value in statement.values
        if not any(len(denial.stems & value.around) >= DENIED_STEMS for denial in statement.denied)
    ]


def _changes(a: Value, b: Value, old: Statement, new: Statement) -> bool:
    if a.sort != b.sort or a.amount == b.amount or not b.alone:
        return False
    if b.sort == "number" and not _same_unit(a, b):
        return False
    old_dates, new_dates = _dates(old), _dates(new)
    if a.sort != "date" and _differ(old_dates, new_dates) and not _is_said(b, "date", new):
        return False
    shared = (a.around | a.unit) & (b.around | b.unit)
    same_day = SHARED_STEMS if a.sort != "date" and old_dates & new_dates else 0
    smaller = min(len(a.around | a.unit), len(b.around | b.unit))
    whole = len(old.stems & new.stems) / max(1, min(len(old.stems), len(new.stems)))
    needed = WHOLE_PART if b.sort != "number" else WHOLE_PART_OF_COUNTS
    if len(shared) + same_day <= SHARED_STEMS:
        needed = WHOLE_PART_OF_FEW
    if len(shared) + same_day < SHARED_STEMS or whole < needed:
        return False
    if len(shared) + same_day < SHARED_PART * smaller:
        return False
    return b.changed or _adds_up(a, b, shared, same_day)


def _is_said(value: Value, sort: str, new: Statement) -> bool:
    """Check whether the date itself moved, and the value with it."""
    return any(other.sort == sort and other.changed and value.changed for other in new.values)


def _adds_up(a: Value, b: Value, shared: frozenset[str], same_day: int) -> bool:
    """Check whether it is a count of what was done, which only grows."""
    return (
        isinstance(a.amount, float)
        and isinstance(b.amount, float)
        and a.alone
        and b.amount > a.amount
        and bool(shared & _ADDS_UP)
        and len(shared - _ADDS_UP) + same_day >= SHARED_STEMS
    )


def _same_unit(a: Value, b: Value) -> bool:
    if a.unit and b.unit:
        return bool(a.unit & b.unit)
    return bool(b.changed and not b.unit and a.unit and a.unit & b.around)


def _speak_of_others(old: Statement, new: Statement) -> bool:
    """Check for a sign that the two have different subjects: a name, a label, an ordinal, a modifier."""
    if _differ(_proper(old.names), _proper(new.names)):
        return True
    if any(_differ(old.labels[label], new.labels[label]) for label in old.labels.keys() & new.labels.keys()):
        return True
    if _differ(old.ordinals, new.ordinals):
        return True
    return any(
        _differ(old.modifiers[noun] - new.stems, new.modifiers[noun] - old.stems)
        for noun in old.modifiers.keys() & new.modifiers.keys()
    )


def _differ(a: frozenset[str], b: frozenset[str]) -> bool:
    return bool(a - b) and bool(b - a)


def _proper(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if not name.isupper())


def _dates(statement: Statement) -> frozenset[str]:
    return frozenset(str(value.amount) for value in statement.values if value.sort == "date")

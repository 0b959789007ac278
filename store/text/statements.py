"""Statements: a text taken apart for comparison, and the slots (subject, attribute, value) in it.

A text is read by the sentence, each in view of the others: a question or a doubt in one applies to all that share its
subject. Every language is read at once: the words that carry grammar, deny, or signal a change are data (`languages/`).
"Deig listens on 8080" has the slot (Deig, port, 8080); no wording is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

from ..limits import FEWEST_WORDS, LONGEST_STATEMENT_CHARS, MOST_STATEMENT_SENTENCES
from ..model import StatementSlot
from .dates import ANY_DAY, find
from .languages import entries, languages, phrases, table, words_in
from .quotes import read_reply
from .sentences import CLAUSE_OR_SENTENCE_END, sentences_of, split
from .words import CAPITAL, NUMBER, WORD, language_of, stem, without_contraction

REACH = 3
"""Words between a sign of an end and the thing that has ended: "no longer goes through Twilio"."""

SOON_CHARS = 10
"""The characters between "in" and a day: "in the last week"."""

SHORTEST_BEGINNING, LONGEST_ENDING = 4, 3
"""Two stems are of one word if one, of the fewest letters or more, begins the other, and at most so many follow."""

_CAPITAL = re.compile(CAPITAL)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(am|pm)?|(\d{1,2})(am|pm)")
_LETTERS_AND_DIGITS = re.compile(r"([^\W\d_][^\W\d]*)[-.]?(\d\S*)")
_ASKS = re.compile(r"[?？]\W*(?:\s|$)")
_OPEN = ("state.open", "state.doubted", "doubt.idle")
_SIGNS = (
    "grounding.negation",
    *_OPEN,
    *(f"state.{s}" for s in ("now", "act", "wrong", "gone", "dropped", "added", "brief")),
)


@dataclass(frozen=True, slots=True)
class Value:
    """A number, time, day or code ("cx22") in a statement.

    `said` is it as compared, `word` its stem; `unit` is the stem of the thing that a number counts, "" for none.
    """

    sort: str
    said: str
    word: str
    unit: str = ""

    def opposes(self, other: Value) -> bool:
        """Return True for another value of the same sort and unit."""
        units = {self.unit, other.unit} - {""}
        return self.sort == other.sort and self.said != other.said and len(units) < 2


@dataclass(frozen=True, slots=True)
class Statement:
    """A text, read.

    `frame` are the stems of the words that name something, in order, `content` each of them once, `names` those of the
    capitalised ones. `ended` are the stems next to a sign of an end, `denied` those behind a denial. `is_open`: it is
    only thought of, wished, asked or doubted; `is_brief`: meant for the moment; `is_not_yet`: it was not so up to now;
    `is_within`: it begins with its scope ("on staging"), and no day.
    """

    words: tuple[str, ...]
    content: tuple[str, ...]
    frame: tuple[str, ...]
    names: frozenset[str]
    values: tuple[Value, ...]
    ended: frozenset[str]
    denied: frozenset[str]
    is_negated: bool
    is_now: bool
    is_act: bool
    is_correction: bool
    is_end: bool
    is_undone: bool
    is_added: bool
    is_open: bool
    is_brief: bool
    is_not_yet: bool
    is_within: bool

    @property
    def is_change(self) -> bool:
        """Return True if it speaks of something that became so, or ended."""
        return self.is_now or self.is_act or self.is_correction or self.is_end


@lru_cache(maxsize=8192)
def read(text: str) -> Statement:
    """Take a text apart, a long one by its beginning; the same text gives the same statement."""
    # One line with plain apostrophes, as the patterns of the languages expect.
    line = " ".join(text[:LONGEST_STATEMENT_CHARS].replace("’", "'").split())
    said = WORD.findall(line)
    words = tuple(word.lower() for word in said)
    shouted = line.isupper()  # a line in capitals has no acronyms to tell from words
    frame = tuple(_content(words if shouted else said))
    return Statement(
        words=words,
        content=tuple(dict.fromkeys(frame)),
        frame=frame,
        names=frozenset(_content(word for word in said if _CAPITAL.match(word))),
        values=tuple(_values(words, language_of(line))),
        ended=_ended(line),
        denied=_denied(line),
        # "no longer" is a sign of a change and no denial, so such signs are taken out first.
        is_negated=bool(phrases("grounding.negation").search(phrases("state.now").sub(" ", line))),
        is_now=_has("now", phrases("state.brief").sub(" ", line)),
        is_act=_has("act", line),
        is_correction=_has("wrong", line),
        is_end=_has("gone", line) or _has("dropped", line),
        is_undone=_has("undone", line),
        is_added=_has("added", line),
        is_open=_is_open(text, line),
        is_brief=_has("brief", line),
        is_not_yet=_has("not_yet", line),
        is_within=_is_within(line),
    )


def sentences_read(words: str) -> list[tuple[str, Statement]]:
    """Return the sentences of a text, each read; one that another sentence asks about or doubts is open.

    A statement answers the question before it, and a request does not ask about its own words.
    """
    # A question or a doubt is about the statements that share a word with it.
    said = [(sentence, _read_sentence(sentence)) for sentence in sentences_of(words) or [words]]
    found = []
    for place, (sentence, one) in enumerate(said):
        doubts = [other for at, (text, other) in enumerate(said) if other.is_open and _reaches(text, at - place)]
        found.append((sentence, replace(one, is_open=one.is_open or any(_is_about(other, one) for other in doubts))))
    return found[:MOST_STATEMENT_SENTENCES]


def _read_sentence(sentence: str) -> Statement:
    """Read a sentence without the short ones that were joined to it and only wish for something: "Let me know."."""
    one = read(sentence)
    if not one.is_open:
        return one
    pieces = [piece.text for piece in split(sentence)]
    said = [text for text in pieces if len(text.split()) >= FEWEST_WORDS or not _only_wishes(text)]
    return read(" ".join(said)) if said and len(said) < len(pieces) else one


def _only_wishes(text: str) -> bool:
    """Return True for a whole sentence that is a wish or a plan, and neither asks about its neighbours nor doubts."""
    is_doubt = _ASKS.search(text) or phrases("state.doubted").search(text)
    return text.endswith((".", "!")) and not is_doubt and read(text).is_open


def shared(stems: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Return those of the stems that have a like among the others, in order."""
    others = tuple(others)
    return tuple(one for one in stems if any(_alike(one, other) for other in others))


def _alike(one: str, other: str) -> bool:
    """Return True if two stems are of one word in any language: equal, or one the beginning of the other."""
    if one == other:
        return True
    # The stemmer is English; other languages' endings are left on ("rechner", "rechners").
    short, long = sorted((one, other), key=len)
    return len(short) >= SHORTEST_BEGINNING and long.startswith(short) and len(long) - len(short) <= LONGEST_ENDING


def _is_open(text: str, line: str) -> bool:
    """Return True for a question in a text's own words, or a sign that it is only thought of, wished or doubted."""
    return bool(_ASKS.search(read_reply(text)[0])) or any(phrases(sign).search(line) for sign in _OPEN)


def _is_within(line: str) -> bool:
    """Return True for a beginning that names a scope other than a time: "since last week" narrows nothing."""
    begins = phrases("state.within").match(line)
    return begins is not None and not any(day.start < begins.end() + SOON_CHARS for day in find(line, ANY_DAY))


def _reaches(doubt: str, after: int) -> bool:
    """Return True if an open sentence, `after` sentences behind another, may ask about that or doubt it.

    A wish, a plan or a condition ("let's update the docs") is about itself alone.
    """
    if not _ASKS.search(doubt):
        return phrases("state.doubted").search(doubt) is not None
    return after > 0 and not phrases("speech.request").match(doubt)


def _is_about(doubt: Statement, one: Statement) -> bool:
    """Return True if a doubt shares a word with another sentence, or names nothing: "I really do not know if so"."""
    return bool(shared(doubt.content, one.content)) or not (doubt.names or doubt.values)


def _has(sign: str, text: str) -> bool:
    return phrases(f"state.{sign}").search(text) is not None


def _content(words: Iterable[str]) -> Iterator[str]:
    """Yield the stems of the words that name something; "MIT" does, though "mit" is a particle."""
    for word in words:
        plain = without_contraction(word.lower())
        # A language's particle may be another's acronym.
        is_acronym = word.isupper() and len(word) > 1
        is_grammar = (
            plain in words_in("state.particles")
            or _signs().fullmatch(plain)
            or (len(plain) == 1 and not plain.isdigit())
        )
        if is_acronym or not is_grammar:
            yield stem(plain)


def _ended(line: str) -> frozenset[str]:
    """Return the stems of ended things: right before a sign ("twilio is out"), or right after ("no more twilio")."""
    found: set[str] = set()
    for clause in CLAUSE_OR_SENTENCE_END.split(line):
        for sign in phrases("state.gone").finditer(clause):
            found.update(_named(WORD.findall(clause[: sign.start()])[::-1]))
        after = list(phrases("state.dropped").finditer(clause))
        if _has("now", clause):  # "isn't … any more"; a denial alone ends nothing
            after += phrases("grounding.negation").finditer(clause)
        for sign in after:
            found.update(_named(WORD.findall(clause[sign.end() :])))
    return frozenset(found)


def _denied(line: str) -> frozenset[str]:
    """Return the stems after a denial, to its clause's end; after a seam all of it ("weil am Freitag niemand …")."""
    found: set[str] = set()
    for clause in CLAUSE_OR_SENTENCE_END.split(line):
        if sign := phrases("grounding.negation").search(clause):
            is_whole = phrases("grounding.seams").match(clause)
            found.update(_content(WORD.findall(clause if is_whole else clause[sign.end() :])))
    return frozenset(found)


def _named(words: Sequence[str]) -> list[str]:
    """Return the stems of the first words in a row that name something, after at most REACH others."""
    found: list[str] = []
    for place, word in enumerate(words):
        named = list(_content((word,)))
        if (found and not named) or (not found and place >= REACH):
            break
        found += named
    return found


def _values(words: Sequence[str], language: str) -> Iterator[Value]:
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if (value := _value(word, language)) is not None:
            unit = next(_content((after,)), "") if value[0] == "number" and after[:1].isalpha() else ""
            yield Value(*value, stem(word), unit)


def _value(word: str, language: str) -> tuple[str, str] | None:
    """Return the sort of value that a word is, and the value as it is compared."""
    # A plural counts as its singular: "Fridays" is a Friday.
    for section in ("weekdays", "months", "state.numbers"):
        listed = entries(language, section)
        if named := next((one for one in (word, word.removesuffix("s")) if one in listed), None):
            return "number" if section == "state.numbers" else section, str(listed.index(named))
    if match := _TIME.fullmatch(word):
        hour, afternoon = int(match[1] or match[4]), "pm" in (match[3], match[5])
        return "number", f"{hour + 12 if afternoon and hour < 12 else hour}:{match[2] or '00'}"
    if NUMBER.fullmatch(word.removesuffix("%")):
        return "number", word.replace(",", "")
    code = _LETTERS_AND_DIGITS.fullmatch(word)
    return (code[1], code[2]) if code else None


@cache
def _signs() -> re.Pattern[str]:
    """Return a pattern of every sign, whole: a sign is never the subject of a statement."""
    listed = [entry for language in languages() for section in _SIGNS for entry in entries(language, section)]
    return re.compile("|".join(f"(?:{entry})" for entry in listed), re.IGNORECASE)


SUBJECT_WORDS, VALUE_WORDS = 6, 8
"""The longest subject and value, in words: a longer one says more than one thing."""

MANY_VALUED = frozenset({"uses", "prefers"})
"""Attributes of which a subject may have many values at a time."""

_VALUE_END = re.compile(rf"{CLAUSE_OR_SENTENCE_END.pattern}|[.!?]$|\s\(")


class _Link(NamedTuple):
    """Words between a subject and its value; `turned`: the value comes first ("Tom maintains the wiki")."""

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
    """Return True for one subject and attribute in two statements, with two values of which one must be wrong."""
    old, new = slot_of(earlier), slot_of(later)
    if old is None or new is None or old.attribute != new.attribute or old.attribute in MANY_VALUED:
        return False
    return _is_same(old.subject, new.subject) and not _agree(old.value, new.value)


def _slots_in(sentence: str) -> Iterator[StatementSlot]:
    # Clause by clause: a slot never spans a comma, so that a value ends where the next thought begins.
    for clause in filter(None, _VALUE_END.split(sentence)):
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
    """Return True if the words before a link end in a name: "the printer was" and "it is Ana who" do not."""
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

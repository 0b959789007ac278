"""Tokens: a source sentence word by word, each "I" with its person and each "yesterday" with its day.

Claims are read the same way, so that the two can be compared: a person of the conversation becomes `@name`, whatever
they are called; contractions are long; a date is the days that it spans, however it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal

from ...store.text.vocabulary import (
    CONTRACTED_ENDINGS,
    CONTRACTIONS,
    INFORMAL_CONTRACTIONS,
    LARGE_NUMBER_WORDS,
    MONTH_NUMBERS,
    MONTHS,
    NUMBER_WORDS,
    WEEKDAYS,
)
from ...store.text.word_lists import lexicon
from ..extract.decontextualize import Participants, is_generic
from ..extract.trimming import plain
from ..language import dates
from ..language.inflection import is_participle, is_present

Shape = Literal["word", "mark", "date"]

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"'})
_MONTH = "|".join(MONTHS)
_WEEKDAY = rf"(?:(?:{'|'.join(WEEKDAYS)}),? )?"
_ABSOLUTE = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d\d-\d\d)"
    rf"|{_WEEKDAY}(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{_MONTH})(?:,? (?P<y1>\d{{4}}))?"
    rf"|{_WEEKDAY}(?P<m2>{_MONTH}) (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y2>\d{{4}}))?"
    rf"|(?P<m3>{_MONTH}),? (?P<y3>\d{{4}})"
    rf"|(?P<y4>(?:19|20)\d\d))\b(?![.,]\d|%)"
)
_WORD = re.compile(
    r"(?P<number>[$€£#]?\d+(?:[.,:/]\d+)*(?:st|nd|rd|th|s|k|m|am|pm|%)?)(?![a-z])|(?P<word>[^\W_][\w]*(?:[-'+#/@_.]+\w+)*'?)"
    r"|(?P<mark>[^\w\s])",
    re.IGNORECASE,
)
_OWN = {"i": "", "me": "", "my": "'s", "mine": "'s", "myself": "-self", "im": "", "ive": ""}
_OTHER = {"you": "", "your": "'s", "yours": "'s", "yourself": "-self", "ya": "", "u": "", "ur": "'s"}
_COMPANY = {"we": "", "us": "", "our": "'s", "ours": "'s", "ourselves": "-self"}
_LONG_FORMS = CONTRACTIONS | INFORMAL_CONTRACTIONS
_LONG_ENDINGS = CONTRACTED_ENDINGS | {"'d": "'d", "'s": "'s"}
_SAME = {
    "am": "is", "are": "is", "were": "was", "have": "has", "do": "does", "favourite": "favorite", "grey": "gray",
    "mum": "mom", "tv's": "tvs",
}  # fmt: skip
"""Forms that differ by person or spelling alone."""
_DIGITS = {word: str(number) for word, number in (NUMBER_WORDS | LARGE_NUMBER_WORDS).items()}
_IS_SUBJECT = frozenset("it that this he she there here what who where how everything everyone something let".split())


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """One sentence that was said; without `participants` it is told of third persons, as a fact is.

    `before` is what the same speaker said just before it: whom "he" and "she" may mean.
    """

    text: str
    participants: Participants | None = None
    said_on: date | None = None
    before: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """One word, mark or date. `form` is what is compared, `said` how it was written."""

    form: str
    said: str
    shape: Shape = "word"
    days: tuple[date, date] | None = None
    is_verb: bool = False
    """True for the verb of a first or second person: in a claim it may take an -s."""
    may_lack: bool = False
    """True if a claim may leave it out: it was added to make a sentence of a question and its answer."""
    means: str = ""
    """The form of the name that this pronoun stands for, where only one can be meant."""

    @property
    def person(self) -> str:
        """The person of the conversation that this is, or belongs to: `@name`, or ""."""
        return self.form.removesuffix("'s").removesuffix("-self") if self.form.startswith("@") else ""


@lru_cache(maxsize=4096)
def read(evidence: SourceSentence) -> tuple[Token, ...]:
    """Return the tokens of a source sentence."""
    line = _line(evidence.text)
    spans = [(found.start, found.end, found.first, found.last, found.wording) for found in _relative(line, evidence)]
    generic = (
        bool(evidence.participants) and is_generic(line, evidence.participants) if evidence.participants else False
    )
    tokens = list(_tokens(line, spans, evidence.participants, generic))
    return tuple(_with_meanings(_with_verbs(tokens), evidence))


def read_claim(claim: str, evidence: SourceSentence) -> tuple[Token, ...]:
    """Return the tokens of a claim about a source sentence."""
    line = _line(claim)
    spans: list[tuple[int, int, date, date, str]] = []
    for found in _relative(_line(evidence.text), evidence):
        bare = re.escape(re.sub(r"^(?:on|in) ", "", found.wording, flags=re.IGNORECASE))
        spans += [
            (*match.span(), found.first, found.last, found.wording)
            for match in re.finditer(rf"\b{bare}(?!\w)", line, re.IGNORECASE)
        ]
    spans += [(found.start, found.end, found.first, found.last, found.wording) for found in _relative(line, evidence)]
    return tuple(_with_verbs(list(_tokens(line, _apart(spans), evidence.participants, generic=False))))


def _line(text: str) -> str:
    return " ".join(plain(text.translate(_APOSTROPHES)).split())


def _relative(line: str, evidence: SourceSentence) -> list[dates.Resolved]:
    return dates.find(line, evidence.said_on) if evidence.said_on else []


def _apart(spans: list[tuple[int, int, date, date, str]]) -> list[tuple[int, int, date, date, str]]:
    """Return the spans in order, without those inside another."""
    apart: list[tuple[int, int, date, date, str]] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not apart or span[0] >= apart[-1][1]:
            apart.append(span)
    return apart


def _tokens(
    line: str, spans: Sequence[tuple[int, int, date, date, str]], participants: Participants | None, generic: bool
) -> Iterator[Token]:
    done = 0
    for start, end, first, last, wording in spans:
        yield from _undated(line[done:start], participants, generic)
        yield Token(
            f"on {wording.lower().removeprefix('on ').removeprefix('in ')}", line[start:end], "date", (first, last)
        )
        done = end
    yield from _undated(line[done:], participants, generic)


def _undated(text: str, participants: Participants | None, generic: bool) -> Iterator[Token]:
    """Yield the tokens of a stretch without relative dates."""
    done = 0
    for match in _ABSOLUTE.finditer(text):
        token = _absolute(match)
        if token is None:
            continue
        yield from _words(text[done : match.start()], participants, generic)
        yield token
        done = match.end()
    yield from _words(text[done:], participants, generic)


def _absolute(match: re.Match[str]) -> Token | None:
    try:
        if match["iso"]:
            day = date.fromisoformat(match["iso"])
            return Token(f"on {day}", match[0], "date", (day, day))
        month = MONTH_NUMBERS[(match["m1"] or match["m2"] or match["m3"] or "January").lower()]
        year = match["y1"] or match["y2"] or match["y3"] or match["y4"]
        number = match["d1"] or match["d2"]
        if number and not year:
            return Token(f"on {int(number)} {month}", match[0], "date")
        if number:
            day = date(int(year), month, int(number))
            return Token(f"on {day}", match[0], "date", (day, day))
        if match["m3"]:
            first = date(int(year), month, 1)
            return Token(f"on {first:%Y-%m}", match[0], "date", (first, dates.add_months(first, 1) - timedelta(days=1)))
        return Token(f"on {year}", match[0], "date", (date(int(year), 1, 1), date(int(year), 12, 31)))
    except ValueError:  # a 31st of June is words
        return None


def _words(text: str, participants: Participants | None, generic: bool) -> Iterator[Token]:
    people = _people(participants)
    done = 0
    for match in people.finditer(text) if people else ():
        yield from _plain_words(text[done : match.start()], participants, generic)
        yield Token(_named(match, participants), match[0])
        done = match.end()
    yield from _plain_words(text[done:], participants, generic)


@lru_cache(maxsize=256)
def _people(participants: Participants | None) -> re.Pattern[str] | None:
    """Return the pattern of the names by which the two participants are called."""
    if participants is None:
        return None
    both = [("a", participants.speaker, participants.addressee), ("b", participants.addressee, participants.speaker)]
    return re.compile(
        "|".join(
            rf"\b(?P<{who}>{'|'.join(_callings(name, other or ''))})"
            rf"(?P<{who}s>'s\b|(?<=s)'(?!\w)|-self)?(?P<{who}o> and others\b)?(?!\w)"
            for who, name, other in both
            if name
        )
    )


def _callings(name: str, other: str) -> list[str]:
    """Return a name, its first word, and the short forms of that, longest first."""
    if name.startswith("the "):
        return [f"(?i:{re.escape(name)}|(?<!the ){re.escape(name[4:])}(?='s| ))"]
    first = name.split()[0]
    short = [first[:end] for end in range(len(first) - 1, 2, -1) if not other.startswith(first[:end])]
    return [re.escape(calling) for calling in dict.fromkeys([name, first, *short])]


def _named(match: re.Match[str], participants: Participants | None) -> str:
    assert participants is not None
    groups = match.groupdict()
    who, name = ("a", participants.speaker) if groups.get("a") else ("b", participants.addressee or "")
    owner = {"'s": "'s", "'": "'s", "-self": "-self", None: ""}[groups.get(f"{who}s")]
    return f"@{name.lower()}{'&' if groups.get(f'{who}o') else ''}{owner}"


def _plain_words(text: str, participants: Participants | None, generic: bool) -> Iterator[Token]:
    for match in _WORD.finditer(text):
        said = match[0]
        if match["mark"]:
            if said.isascii() or said in "–—…":
                yield Token({"–": "-", "—": "-", "…": "."}.get(said, said), said, "mark")
        elif match["number"]:
            yield Token(_number(said), said)
        else:
            yield from _spoken(said, participants, generic)


def _number(said: str) -> str:
    bare = re.sub(r"(?<=\d),(?=\d{3})", "", said.lower())
    return re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "th", bare)


def _spoken(said: str, participants: Participants | None, generic: bool) -> Iterator[Token]:
    """Yield the tokens of one written word: contractions long, persons of the conversation named."""
    whole = said.lower()
    closing = whole.endswith("'")
    whole = whole.rstrip("'")
    if whole in _LONG_FORMS:
        for part in _LONG_FORMS[whole].split():
            yield _one(part, said, participants, generic)
        return
    for suffix, long in _LONG_ENDINGS.items():
        if whole.endswith(suffix) and len(whole) > len(suffix):
            yield _one(whole.removesuffix(suffix), said, participants, generic)
            yield Token(_SAME.get(long, long), said)
            return
    yield _one(whole, said, participants, generic)
    if closing:
        yield Token("'s" if whole.endswith("s") else "'", said, "word" if whole.endswith("s") else "mark")


def _one(word: str, said: str, participants: Participants | None, generic: bool) -> Token:
    if participants is not None:
        if word in _OWN and not (said == "ME" and len(said) == 2):
            return Token(f"@{participants.speaker.lower()}{_OWN[word]}", said)
        if word in _OTHER and participants.addressee and not generic:
            return Token(f"@{participants.addressee.lower()}{_OTHER[word]}", said)
        if word in _COMPANY:
            return Token(f"@{participants.speaker.lower()}&{_COMPANY[word]}", said)
    return Token(_SAME.get(plain := _DIGITS.get(word, word), plain), said)


def _with_verbs(tokens: Sequence[Token]) -> Iterator[Token]:
    """Mark the verbs whose subject may change its person, and say what each 'd and 's is."""
    subject = after_verb = False
    for at, token in enumerate(tokens):
        following = tokens[at + 1].form if at + 1 < len(tokens) else ""
        if token.form == "'d":
            token = replace(token, form="had" if is_participle(following) else "would")
        if token.form == "'s" and at and tokens[at - 1].form in _IS_SUBJECT:
            token = replace(token, form="is")
        if subject and token.shape == "word" and is_present(token.form) and token.form not in lexicon("adverbs"):
            token = replace(token, is_verb=True)
        coordinated = token.form == "and" and after_verb
        passed = token.form in lexicon("adverbs") or token.form.endswith("ly")
        subject = token.form in {"they"} or token.person == token.form != "" or coordinated or (subject and passed)
        after_verb = token.is_verb
        yield token


def _with_meanings(tokens: Iterator[Token], evidence: SourceSentence) -> Iterator[Token]:
    """Say whom "he", "she" and "his" mean, where the sentence before names one person and no other."""
    name = _only_name(evidence.before, evidence.participants)
    for token in tokens:
        if name and token.form in {"he", "she", "his"}:
            token = replace(token, means=f"{name}'s" if token.form == "his" else name)
        elif token.form in lexicon("people") or (_is_name(token) and not token.person):
            name = ""  # another person comes in between
        yield token


def _only_name(before: str, participants: Participants | None) -> str:
    """Return the form of the name that begins the sentence before, if that names no other person."""
    tokens = list(_tokens(_line(before), [], participants, generic=False)) if before else []
    spoken = [token for token in tokens if token.shape == "word"]
    if not spoken or any(token.person or token.form in lexicon("people") for token in spoken):
        return ""
    names = [token for token in spoken if _is_name(token)]
    first = spoken[0]
    return (
        first.form if names == [first] and first.form.isalpha() and not first.form.endswith(("ing", "ed", "ly")) else ""
    )


def _is_name(token: Token) -> bool:
    return token.shape == "word" and token.said[:1].isupper() and token.form not in lexicon("stop_words")

"""Verification: a sentence that a model worded is held against the words that it rests on.

Every name, number, date and negation of it must be there, and its content words in their order; persons may be called
by name or by "I" and "you". Where the source denies something, speaks of all of a kind, or only supposes it, nothing
of it may be left out. Everything else is refused, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from ...store.text import dates
from ...store.text.languages import entries, languages, phrases, words_in
from ...store.text.words import FILLERS, normal_form, words
from ..extract.signs import is_question

LONGEST_CLAIM_CHARS = 600
_DAY = "somedate"
_OWN, _OTHER, _SEAM = "@speaker", "@addressee", "|"
_MARK = re.compile(r"(?<![,;:.!?()–—])[,;:.!?()–—]++(?=\s|$)|\s-\s")
_NUMBER_WORDS = {
    word: str(number) for language in languages() for number, word in enumerate(entries(language, "state.numbers"))
}


class Refusal(StrEnum):
    """The reason why a claim is refused; the later ones are nearer to what was said."""

    EMPTY = "empty"
    TOO_LONG = "too long"
    NO_EVIDENCE = "no evidence"
    INVENTED = "invented"
    NAME = "name"
    NUMBER = "number"
    DATE = "date"
    NEGATION = "negation"
    ORDER = "order"
    LEFT_OUT = "left out"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Source:
    """Words on which a claim may rest: by whom, to whom and when they were said, where that is known."""

    text: str
    speaker: str = ""
    addressee: str = ""
    said_on: date | None = None


@dataclass(frozen=True, slots=True)
class GroundingResult:
    """The result for a claim: the source that supports it, or the reason of its refusal."""

    refusal: Refusal | None
    evidence: Source | None = None

    @property
    def is_grounded(self) -> bool:
        """Return True if the claim may become a memory."""
        return self.refusal is None


def ground(claim: str, cited: Sequence[Source]) -> GroundingResult:
    """Judge a claim of one sentence by its cited sources; one of them alone must support it."""
    if not any(character.isalnum() for character in claim):
        return GroundingResult(Refusal.EMPTY)
    if len(claim) > LONGEST_CLAIM_CHARS:
        return GroundingResult(Refusal.TOO_LONG)
    reasons = []
    for source in cited:
        refusal = _judge(claim, source)
        if refusal is None:
            return GroundingResult(None, source)
        reasons.append(refusal)
    return GroundingResult(max(reasons, key=list(Refusal).index, default=Refusal.NO_EVIDENCE))


def is_quoted(claim: str, text: str) -> bool:
    """Check that a claim stands word for word in a text; marks and spaces do not count."""
    claimed = " ".join(words(claim))
    return bool(claimed) and f" {claimed} " in f" {' '.join(words(text))} "


def _judge(claim: str, source: Source) -> Refusal | None:
    told, claim = _without_days(claim, source.said_on)
    known, said = _without_days(source.text, source.said_on)
    if any(not any(first <= a and b <= last for a, b in known) for first, last in told):
        return Refusal.DATE
    theirs, ours = _tokens(said, source), [token for token in _tokens(claim, source) if token != _SEAM]
    if _count("grounding.negation", claim) != _count("grounding.negation", said):
        return Refusal.NEGATION
    if unknown := [token for token in ours if not any(_same(token, other) for other in theirs)]:
        return _invented(unknown, claim)
    if not _in_order(ours, theirs) or not _in_order(_shared(claim, said), words(said)):
        return Refusal.ORDER
    if is_question(said) != is_question(claim):
        return Refusal.QUESTION
    restricted = phrases("grounding.restriction").search(said) or phrases("grounding.negation").search(said)
    whole = len(ours) >= len(theirs) - theirs.count(_SEAM) and FILLERS & set(words(said)) <= set(words(claim))
    return None if ours and (whole or not restricted) and _is_clause(ours, theirs) else Refusal.LEFT_OUT


def _is_clause(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Check that a claim is all that is said between two seams, so that nothing in it is left out.

    "I like tea and coffee, which is odd" is like · tea · | · coffee · | · odd; "Ann likes tea", "Ann likes tea and
    coffee" are in it, "Ann likes coffee" is not.
    """
    content = [(token, at) for at, token in enumerate(theirs) if token != _SEAM]
    for first in range(len(content) - len(ours) + 1):
        run = content[first : first + len(ours)]
        start, end = run[0][1], run[-1][1] + 1
        if _says(ours, [token for token, _ in run]):
            begins = start == 0 or theirs[start - 1] == _SEAM
            if begins and (end == len(theirs) or theirs[end] == _SEAM):
                return True
    return False


def _says(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Check that two runs are the same words; a verb after a person may take its -s, "a cat" may not be cats."""
    after_person = False
    for token, other in zip(ours, theirs, strict=True):
        if token != other and not (after_person and _same(token, other)):
            return False
        after_person = token in {_OWN, _OTHER} or token != other
    return True


def _same(claimed: str, said: str) -> bool:
    """Check that two words are one, but for the -s of a third person or a plural."""
    return claimed == said or claimed in {f"{said}s", f"{said}es", f"{said[:-1]}ies"}


def _invented(unknown: Sequence[str], claim: str) -> Refusal:
    if any(character.isdigit() for token in unknown for character in token):
        return Refusal.NUMBER
    spelled = {word.lower() for word in re.findall(r"\b[^\W\d_a-z]\w+", claim)}
    return Refusal.NAME if any(token in spelled or token.startswith("@") for token in unknown) else Refusal.INVENTED


def _without_days(text: str, said_on: date | None) -> tuple[list[tuple[date, date]], str]:
    """Return the days that a text names, and the text with one word for each."""
    found = dates.find(text, said_on) if said_on else []
    for one in reversed(found):
        text = f"{text[: one.start]} {_DAY} {text[one.end :]}"
    return [(one.first, one.last) for one in found], text


def _tokens(text: str, source: Source) -> list[str]:
    """Return the content words of a text, with one sign for each of the two who speak, and one where a clause ends."""
    people = {source.speaker.lower(): _OWN, source.addressee.lower(): _OTHER}
    people |= dict.fromkeys(words_in("grounding.own"), _OWN) | dict.fromkeys(words_in("grounding.other"), _OTHER)
    empty = words_in("function_words") | words_in("grounding.empty")
    tokens: list[str] = []
    for piece in _MARK.split(phrases("grounding.seams").sub(",", text)):
        for word in normal_form(piece):
            bare = word.removesuffix("'s")
            if source.speaker and bare in people:
                tokens.append(people[bare])
            elif bare not in empty and not phrases("grounding.negation").fullmatch(bare):
                tokens.append(_NUMBER_WORDS.get(bare, bare))
        if tokens and tokens[-1] != _SEAM:
            tokens.append(_SEAM)
    return tokens


def _shared(claim: str, said: str) -> list[str]:
    """Return the words of a claim that its source has too, those without weight included, but for articles."""
    there = set(words(said)) - words_in("grounding.articles")
    return [word for word in words(claim) if word in there]


def _count(section: str, text: str) -> int:
    return len(phrases(section).findall(text.replace("’", "'")))


def _in_order(some: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(any(_same(token, other) for other in rest) for token in some)

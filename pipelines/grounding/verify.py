"""Verification: a model's sentence is compared with the source that it cites.

Its names, numbers, dates and negations must be in the source, and its content words in the same order; persons may be
called by name or by "I" and "you". Where the source denies, generalises or only supposes, nothing of it may be left
out. Any other sentence is refused, with the reason. Overlap is the share of a text's content words that a source
contains in order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from math import log

from ...store.text import dates
from ...store.text.dates import MONTHS
from ...store.text.languages import entries, languages, phrases, words_in
from ...store.text.words import FILLERS, NUMBER, content_stems, normal_form, term_stems, words
from ..extract.worth import is_question

LONGEST_CLAIM_CHARS = 600
_DAY = "somedate"
_OWN, _OTHER, _SEAM = "@speaker", "@addressee", "|"
_MARK = re.compile(r"(?<![,;:.!?()–—])[,;:.!?()–—]++(?=\s|$)|\s-\s")
_NUMBER_WORDS = {
    word: str(number) for language in languages() for number, word in enumerate(entries(language, "state.numbers"))
}


class ClaimRefusal(StrEnum):
    """The reason why a claim is refused, ordered from the farthest from its source to the nearest."""

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
class ClaimSource:
    """A source of a claim: its text, speaker, addressee and day, where they are known."""

    text: str
    speaker: str = ""
    addressee: str = ""
    said_on: date | None = None


@dataclass(frozen=True, slots=True)
class GroundingResult:
    """The result for a claim: the source that supports it, or the reason of its refusal."""

    refusal: ClaimRefusal | None
    evidence: ClaimSource | None = None

    @property
    def is_grounded(self) -> bool:
        """Return True if the claim may become a memory."""
        return self.refusal is None


def ground(claim: str, cited: Sequence[ClaimSource]) -> GroundingResult:
    """Judge a claim of one sentence by its cited sources; one of them alone must support it."""
    if not any(character.isalnum() for character in claim):
        return GroundingResult(ClaimRefusal.EMPTY)
    if len(claim) > LONGEST_CLAIM_CHARS:
        return GroundingResult(ClaimRefusal.TOO_LONG)
    reasons = []
    for source in cited:
        refusal = _judge(claim, source)
        if refusal is None:
            return GroundingResult(None, source)
        reasons.append(refusal)
    return GroundingResult(max(reasons, key=list(ClaimRefusal).index, default=ClaimRefusal.NO_EVIDENCE))


def is_quoted(claim: str, text: str) -> bool:
    """Check that a text contains a claim word for word; punctuation and spaces do not count."""
    claimed = " ".join(words(claim))
    return bool(claimed) and f" {claimed} " in f" {' '.join(words(text))} "


def _judge(claim: str, source: ClaimSource) -> ClaimRefusal | None:
    claimed_days, claim = _without_days(claim, source.said_on)
    known, said = _without_days(source.text, source.said_on)
    # A claim may be less precise than its source ("in May" for 8 May), never more.
    if any(not any(first <= a and b <= last for a, b in known) for first, last in claimed_days):
        return ClaimRefusal.DATE
    theirs, ours = _tokens(said, source), [token for token in _tokens(claim, source) if token != _SEAM]
    # Negations are compared by number: "not without" and "with" may mean the same, but no rule here can decide it.
    if _count("grounding.negation", claim) != _count("grounding.negation", said):
        return ClaimRefusal.NEGATION
    if unknown := [token for token in ours if not any(_same(token, other) for other in theirs)]:
        return _invented(unknown, claim)
    # Content words and function words each in order: "from A to B" is not supported by "from B to A".
    if not _in_order(ours, theirs) or not _in_order(_shared(claim, said), words(said)):
        return ClaimRefusal.ORDER
    if is_question(said) != is_question(claim):
        return ClaimRefusal.QUESTION
    restricted = phrases("grounding.restriction").search(said) or phrases("grounding.negation").search(said)
    whole = len(ours) >= len(theirs) - theirs.count(_SEAM) and FILLERS & set(words(said)) <= set(words(claim))
    return None if ours and (whole or not restricted) and _is_clause(ours, theirs) else ClaimRefusal.LEFT_OUT


def _is_clause(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Check that a claim is a whole run of words between two clause boundaries, with nothing left out.

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
    """Check that two words are equal, except for the -s of a third person or a plural."""
    return claimed == said or claimed in {f"{said}s", f"{said}es", f"{said[:-1]}ies"}


def _invented(unknown: Sequence[str], claim: str) -> ClaimRefusal:
    if any(character.isdigit() for token in unknown for character in token):
        return ClaimRefusal.NUMBER
    spelled = {word.lower() for word in re.findall(r"\b[^\W\d_a-z]\w+", claim)}
    return (
        ClaimRefusal.NAME
        if any(token in spelled or token.startswith("@") for token in unknown)
        else ClaimRefusal.INVENTED
    )


def _without_days(text: str, said_on: date | None) -> tuple[list[tuple[date, date]], str]:
    """Return the days that a text names, and the text with one word for each."""
    found = dates.find(text, said_on) if said_on else []
    for one in reversed(found):  # from the end, so that the earlier positions stay valid
        text = f"{text[: one.start]} {_DAY} {text[one.end :]}"
    return [(one.first, one.last) for one in found], text


def _tokens(text: str, source: ClaimSource) -> list[str]:
    """Return the content words of a text, with one symbol for the speaker, the addressee and the end of a clause."""
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
    """Return the words of a claim that its source contains, function words included, articles excluded."""
    there = set(words(said)) - words_in("grounding.articles")
    return [word for word in words(claim) if word in there]


def _count(section: str, text: str) -> int:
    return len(phrases(section).findall(text.replace("’", "'")))


def _in_order(some: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(any(_same(token, other) for other in rest) for token in some)


_DATE = re.compile(rf"\b(?:\d{{1,2}} )?(?:{'|'.join(MONTHS)})(?: \d{{4}})?\b|\b(?:19|20)\d\d\b")

LONGEST_SOURCE = 2000
"""Words of a source that are read: an assistant's longest answers have fewer."""


def overlap(text: str, said: Sequence[str], names: str = "") -> float:
    """Return the share of a text's content words that occur in one of its sources in the same order, 0 to 1.

    The longest common subsequence with each source, the better of them taken. `names` may be anywhere and do not
    count. 1 for a text without other content words.
    """
    # A speaker's name may be added to a sentence that did not have it.
    free = set(content_stems(names))
    stems = [stem for stem in content_stems(text) if stem not in free]
    if not stems:
        return 1.0
    best = 0
    for source in said:
        theirs = content_stems(source)[:LONGEST_SOURCE]
        # The subsequence takes quadratic time: a source that cannot beat the best is left out.
        if best < len(stems) and _in_any_order(stems, theirs) > best:
            best = max(best, _longest_common(stems, theirs))
    return best / len(stems)


def invents(text: str, said: Sequence[str]) -> bool:
    """Return True for a text with a number, dates apart, or a negation that no source contains."""
    everything = " ".join(said)
    negation = phrases("grounding.negation")
    if negation.search(text.replace("’", "'")) and not negation.search(everything.replace("’", "'")):
        return True
    return bool(set(NUMBER.findall(_DATE.sub(" ", text))) - set(NUMBER.findall(everything)))


def _in_any_order(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of common stems in any order: an upper bound of the subsequence, and cheaper to find."""
    return (Counter(one) & Counter(other)).total()


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by dynamic programming with one row."""
    row = [0] * (len(other) + 1)
    for stem in one:
        diagonal = 0
        for place, theirs in enumerate(other, start=1):
            above = row[place]
            row[place] = diagonal + 1 if stem == theirs else max(above, row[place - 1])
            diagonal = above
    return row[-1]


COMMON = 400
"""A word that more texts share than this is not compared by: it distinguishes nothing."""


class SharedWords:
    """An inverted index of texts by their stems, which is filled in the order of the texts.

    An example: 0 "The office is in Oslo", 1 "The kettle is blue", 2 "The office is in Bergen now". When 2 is asked for,
    the index has office -> [0], oslo -> [0], kettle -> [1], blue -> [1]; 2 shares "office" with 0 and nothing with 1. A
    stem in more than COMMON texts has no rarity and finds nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._stems = [term_stems(text) for text in texts]
        spread = Counter(stem for stems in self._stems for stem in stems)
        self._rarity = {stem: log(1 + len(texts) / count) for stem, count in spread.items() if count <= COMMON}
        self._said: dict[str, list[int]] = defaultdict(list)

    def shared_with(self, place: int) -> list[int]:
        """Return the texts added so far that share words with one, by the summed rarity of those words."""
        shared: dict[int, float] = defaultdict(float)
        for stem in self._stems[place]:
            for old in self._said.get(stem, ()):
                shared[old] += self._rarity[stem]
        return sorted(shared, key=lambda old: (-shared[old], -old))

    def add(self, place: int) -> None:
        """Make the text at a place findable from now on."""
        for stem in self._stems[place] & self._rarity.keys():
            self._said[stem].append(place)

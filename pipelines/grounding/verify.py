"""Grounding: a claim becomes a memory only as an edit of what was said.

The words of a claim are laid over those of one cited sentence, or of a question and its answer, in order. A person may
be called by name or by a pronoun that can mean nobody else, a day by its date, a verb may agree with its new subject,
and parts may be left out where omissions.py allows. Everything else is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from ...store.text.stems import stem
from ...store.text.vocabulary import NEGATING_WORDS
from ...store.text.word_lists import lexicon
from ..extract.salience import is_question
from ..language.inflection import third_person
from . import omissions, qa_pairs
from .omissions import Omission
from .qa_pairs import Exchange
from .tokens import Evidence, Token, read, read_claim

LONGEST_CLAIM_CHARS = 600
LONGEST_SENTENCE = 120
"""Tokens of a sentence that are still looked at: what is longer is no sentence of a conversation."""
_MOST_READINGS = 64
_ATTRIBUTIONS = frozenset("said says say mentioned mentions shared explained stated told tells".split())
_PRONOUNS = {
    "he": "", "she": "", "they": "", "him": "", "them": "", "her": "", "his": "'s", "hers": "'s", "their": "'s",
    "theirs": "'s", "himself": "-self", "herself": "-self", "themselves": "-self", "themself": "-self",
}  # fmt: skip


class Refusal(StrEnum):
    """Why a claim is none."""

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
class Verdict:
    """What came of a claim: the evidence that bears it, or why nothing does."""

    refusal: Refusal | None
    evidence: Evidence | Exchange | None = None

    @property
    def is_grounded(self) -> bool:
        """Whether the claim may become a memory."""
        return self.refusal is None


def ground(claim: str, cited: Sequence[Evidence | Exchange]) -> Verdict:
    """Judge a claim of one sentence by the evidence that it cites; one piece alone must bear it."""
    if not any(character.isalnum() for character in claim):
        return Verdict(Refusal.EMPTY)
    if len(claim) > LONGEST_CLAIM_CHARS:
        return Verdict(Refusal.TOO_LONG)
    reasons = []
    for piece in cited:
        refusal = _judge_exchange(claim, piece) if isinstance(piece, Exchange) else _judge(claim, piece)
        if refusal is None:
            return Verdict(None, piece)
        reasons.append(refusal)
    return Verdict(max(reasons, key=list(Refusal).index, default=Refusal.NO_EVIDENCE))


def _judge(claim: str, evidence: Evidence) -> Refusal | None:
    said = read(evidence)
    if len(said) > LONGEST_SENTENCE:
        return Refusal.TOO_LONG
    asks = claim.rstrip().endswith("?")
    for claimed in _readings(read_claim(claim, evidence), evidence):
        if _is_edit(claimed, said, evidence.text, asks):
            return None
    return _reason(read_claim(claim, evidence), said)


def _judge_exchange(claim: str, exchange: Exchange) -> Refusal | None:
    claimed = read_claim(claim, exchange.answer)
    for said in qa_pairs.statements(exchange):
        if len(said) <= LONGEST_SENTENCE and any(
            _is_whole(reading, said) for reading in _readings(claimed, exchange.answer)
        ):
            return None
    return _reason(claimed, (*read(exchange.question), *read(exchange.answer)))


def _readings(claimed: Sequence[Token], evidence: Evidence) -> Iterator[tuple[Token, ...]]:
    """A claim as it stands; without "Mel said that" in front; with every "Mel's" as "Mel is"."""
    tokens = tuple(claimed)
    yield tokens
    if evidence.voices is None:
        return
    speaker = f"@{evidence.voices.speaker.lower()}"
    if len(tokens) > 3 and tokens[0].form == speaker:
        if tokens[1].form in {":", "-"}:
            yield tokens[2:]
        if tokens[1].form in _ATTRIBUTIONS:
            rest = tokens[3:] if tokens[1].form in {"told", "tells"} and tokens[2].person else tokens[2:]
            rest = rest[1:] if rest and rest[0].form == "that" else rest
            yield tuple(_bound(rest, speaker))
    if any(token.form == f"{speaker}'s" for token in tokens):
        yield tuple(_owner_is(tokens, speaker))


def _bound(tokens: Sequence[Token], speaker: str) -> Iterator[Token]:
    """After "Mel said that", she is Mel."""
    named = any(token.person for token in tokens if token.person != speaker)
    for token in tokens:
        owner = _PRONOUNS.get(token.form)
        yield Token(f"{speaker}{owner}", token.said) if owner is not None and not named else token


def _owner_is(tokens: Sequence[Token], speaker: str) -> Iterator[Token]:
    for token in tokens:
        if token.form == f"{speaker}'s":
            yield Token(speaker, token.said)
            yield Token("is", token.said)
        else:
            yield token


def _is_edit(claimed: Sequence[Token], said: Sequence[Token], text: str, asks: bool) -> bool:
    for made in islice(_Laying(claimed, said).ways(), _MOST_READINGS):
        if asks and not made:
            return is_question(text)  # told as one
        if not asks and not omissions.changes_meaning(said, made, text):
            return True
    return False


def _is_whole(claimed: Sequence[Token], said: Sequence[Token]) -> bool:
    """Whether a claim leaves nothing out: what an answer adds may take it back ("You won? – So they say.")."""
    return any(not made for made in islice(_Laying(claimed, said).ways(), _MOST_READINGS))


class _Laying:
    """Lays a claim over what was said, in every way that keeps the order and leaves out only what may go."""

    def __init__(self, claimed: Sequence[Token], said: Sequence[Token]) -> None:
        self._claimed = [token for token in claimed if token.shape != "mark"]
        self._said = said
        self._first_person = next((token.person for token in claimed if token.person), "")
        self._beginnings = omissions.beginnings(said)
        self._dead: set[tuple[int, int, bool]] = set()

    def ways(self) -> Iterator[tuple[Omission, ...]]:
        """The omissions of each way."""
        if self._claimed:
            yield from self._from(0, 0, False, ())

    def _from(self, i: int, j: int, begun: bool, made: tuple[Omission, ...]) -> Iterator[tuple[Omission, ...]]:
        """`i` claimed tokens are laid, up to `j` of those said; `begun` once one of them is."""
        if (i, j, begun) in self._dead:
            return
        found = False
        for way in self._steps(i, j, begun, made):
            found = True
            yield way
        if not found:
            self._dead.add((i, j, begun))

    def _steps(self, i: int, j: int, begun: bool, made: tuple[Omission, ...]) -> Iterator[tuple[Omission, ...]]:
        claimed, said = self._claimed, self._said
        if i == len(claimed):
            yield from self._ends(j, made)
            return
        if j < len(said) and self._same(i, j):
            yield from self._from(i + 1, j + 1, True, made)
        if self._may_add(i, j, begun):
            yield from self._from(i + 1, j, begun, made)
        if j < len(said) and omissions.is_free(said, j):
            yield from self._from(i, j + 1, begun, made)
        if not begun and j == 0:
            for omission in self._beginnings:
                yield from self._from(i, omission.end, False, (*made, omission))
        elif begun and j < len(said):
            for omission in omissions.asides(said, j):
                yield from self._from(i, omission.end, True, (*made, omission))

    def _ends(self, j: int, made: tuple[Omission, ...]) -> Iterator[tuple[Omission, ...]]:
        while True:
            if j == len(self._said):
                yield made
                return
            if omission := omissions.ending(self._said, j):
                yield (*made, omission)
            if not omissions.is_free(self._said, j):
                return
            j += 1

    def _same(self, i: int, j: int) -> bool:
        claimed, said = self._claimed[i], self._said[j]
        if claimed.shape == "date" or said.shape == "date":
            return _same_date(claimed, said)
        if claimed.form in {said.form, said.means}:
            return True
        if said.is_verb and third_person(said.form) == claimed.form:
            return True
        if said.person:
            return self._means(claimed, said)
        return False

    def _means(self, claimed: Token, said: Token) -> bool:
        """Whether a name or a pronoun of the claim is the person who was spoken of."""
        owner = said.form.removeprefix(said.person)
        if said.person.endswith("&"):  # "we": the speaker is one of them
            if claimed.form == f"{said.person.removesuffix('&')}{owner}":
                return True
            named = self._first_person.removesuffix("&") == said.person.removesuffix("&")
            return named and _PRONOUNS.get(claimed.form) == owner and claimed.form.startswith("the")
        means = _PRONOUNS.get(claimed.form)
        if means is None and claimed.form != "her":
            return False
        if claimed.form == "her":
            return owner in {"", "'s"} and self._first_person == said.person
        return means == owner and self._first_person == said.person

    def _may_add(self, i: int, j: int, begun: bool) -> bool:
        """Whether a claim may have a word that was not said: an article, what stands before a date, its subject."""
        token = self._claimed[i]
        following = self._claimed[i + 1] if i + 1 < len(self._claimed) else None
        if token.form in {"a", "an", "the"}:
            return following is not None and following.form not in {"few", "little", "only"}
        if token.form in {"on", "in"} and following is not None and following.shape == "date":
            return True
        if token.shape == "date" and i and self._claimed[i - 1].shape == "date" and j:
            return _same_date(token, self._said[j - 1])
        return False


def _same_date(claimed: Token, said: Token) -> bool:
    """Whether a claimed date is the one that was meant, or a span that holds it."""
    if claimed.form == said.form:
        return True
    if claimed.days is None or said.days is None:
        return False
    return claimed.days[0] <= said.days[0] and said.days[1] <= claimed.days[1]


def _reason(claimed: Sequence[Token], said: Sequence[Token]) -> Refusal:
    """What is wrong first of all with a claim that no way of laying bears."""
    there = {token.form for token in said} | {token.means for token in said}
    stems = {stem(form) for form in there}
    dates = [token for token in said if token.shape == "date"]
    for token in claimed:
        if token.shape == "date" and not any(_same_date(token, date) for date in dates):
            return Refusal.DATE
        if any(character.isdigit() for character in token.form) and token.shape == "word" and token.form not in there:
            return Refusal.NUMBER
    if sum(token.form in NEGATING_WORDS for token in claimed) > sum(token.form in NEGATING_WORDS for token in said):
        return Refusal.NEGATION
    new = [token for token in claimed if token.shape == "word" and stem(token.form) not in stems and not token.person]
    new = [token for token in new if token.form not in lexicon("stop_words")]
    if any(token.said[:1].isupper() for token in new):
        return Refusal.NAME
    if new:
        return Refusal.INVENTED
    if any(token.form == "?" for token in said):
        return Refusal.QUESTION
    content = [token.form for token in claimed if token.shape != "mark" and token.form not in lexicon("stop_words")]
    return Refusal.LEFT_OUT if _in_order(content, [token.form for token in said]) else Refusal.ORDER


def _in_order(some: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(word in rest for word in some)

"""Verification: a claim becomes a memory only as an edit of a source sentence.

The words of a claim are aligned with those of one cited sentence, or of a question and its answer, in order. A person
may be called by name or by a pronoun that can mean no other, a day by its date, a verb may agree with its new subject,
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
from .qa_pairs import QaPair
from .tokens import SourceSentence, Token, read, read_claim

LONGEST_CLAIM_CHARS = 600
LONGEST_SENTENCE = 120
"""Tokens of a sentence; a longer one is no sentence of a conversation, and supports nothing."""
_MOST_READINGS = 64
_ATTRIBUTIONS = frozenset("said says say mentioned mentions shared explained stated told tells".split())
_PRONOUNS = {
    "he": "", "she": "", "they": "", "him": "", "them": "", "her": "", "his": "'s", "hers": "'s", "their": "'s",
    "theirs": "'s", "himself": "-self", "herself": "-self", "themselves": "-self", "themself": "-self",
}  # fmt: skip


class Refusal(StrEnum):
    """The reason why a claim is refused."""

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
class GroundingResult:
    """The result for a claim: the source that supports it, or the reason of its refusal."""

    refusal: Refusal | None
    evidence: SourceSentence | QaPair | None = None

    @property
    def is_grounded(self) -> bool:
        """Return True if the claim may become a memory."""
        return self.refusal is None


def ground(claim: str, cited: Sequence[SourceSentence | QaPair]) -> GroundingResult:
    """Judge a claim of one sentence by its cited sources; one of them alone must support it."""
    if not any(character.isalnum() for character in claim):
        return GroundingResult(Refusal.EMPTY)
    if len(claim) > LONGEST_CLAIM_CHARS:
        return GroundingResult(Refusal.TOO_LONG)
    reasons = []
    for piece in cited:
        refusal = _judge_pair(claim, piece) if isinstance(piece, QaPair) else _judge(claim, piece)
        if refusal is None:
            return GroundingResult(None, piece)
        reasons.append(refusal)
    return GroundingResult(max(reasons, key=list(Refusal).index, default=Refusal.NO_EVIDENCE))


def _judge(claim: str, evidence: SourceSentence) -> Refusal | None:
    said = read(evidence)
    if len(said) > LONGEST_SENTENCE:
        return Refusal.TOO_LONG
    asks = claim.rstrip().endswith("?")
    for claimed in _readings(read_claim(claim, evidence), evidence):
        if _is_edit(claimed, said, evidence.text, asks):
            return None
    return _first_refusal(read_claim(claim, evidence), said)


def _judge_pair(claim: str, pair: QaPair) -> Refusal | None:
    claimed = read_claim(claim, pair.answer)
    for said in qa_pairs.statements(pair):
        if len(said) <= LONGEST_SENTENCE and any(
            _is_whole(reading, said) for reading in _readings(claimed, pair.answer)
        ):
            return None
    return _first_refusal(claimed, (*read(pair.question), *read(pair.answer)))


def _readings(claimed: Sequence[Token], evidence: SourceSentence) -> Iterator[tuple[Token, ...]]:
    """Yield a claim as it stands; without "Mel said that" in front; with every "Mel's" as "Mel is"."""
    tokens = tuple(claimed)
    yield tokens
    if evidence.participants is None:
        return
    speaker = f"@{evidence.participants.speaker.lower()}"
    if len(tokens) > 3 and tokens[0].form == speaker:
        if tokens[1].form in {":", "-"}:
            yield tokens[2:]
        if tokens[1].form in _ATTRIBUTIONS:
            rest = tokens[3:] if tokens[1].form in {"told", "tells"} and tokens[2].person else tokens[2:]
            rest = rest[1:] if rest and rest[0].form == "that" else rest
            yield tuple(_with_speaker(rest, speaker))
    if any(token.form == f"{speaker}'s" for token in tokens):
        yield tuple(_owner_is(tokens, speaker))


def _with_speaker(tokens: Sequence[Token], speaker: str) -> Iterator[Token]:
    """Replace pronouns by the speaker: after "Mel said that", she is Mel."""
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
    for omitted in islice(Alignment(claimed, said).all(), _MOST_READINGS):
        if asks and not omitted:
            return is_question(text)  # told as one
        if not asks and not omissions.changes_meaning(said, omitted, text):
            return True
    return False


def _is_whole(claimed: Sequence[Token], said: Sequence[Token]) -> bool:
    """Check that a claim leaves nothing out: an answer's other words may take it back ("You won? – So they say.")."""
    return any(not omitted for omitted in islice(Alignment(claimed, said).all(), _MOST_READINGS))


class Alignment:
    """The alignments of a claim with a source sentence: each keeps the order and leaves out only what may go.

    A depth-first search over states (i, j): `i` tokens of the claim are matched, `j` of the source consumed. From a
    state five steps are possible, tried in this order:

    1. match: both tokens mean the same, and both move on;
    2. add: the claim has a word that it may add (an article, the "on" of a date);
    3. skip: the source has a token that is free (a mark, a filler);
    4. omit a beginning, before anything is matched, or an aside, after that (omissions.py names both);
    5. at the end of the claim, omit the rest of the source, if it may go.

    Mel said "Yeah, I painted a lake, which took ages." and the claim is "Mel painted the lake." Its tokens are:
    yeah , @mel painted a lake , which took ages . (0 to 10). Step 4 omits "yeah ,"; @mel and "painted" match;
    "the" is added and "a" skipped; "lake" matches; step 5 omits the rest. The alignment is its omissions, here
    (Omission(0, 2), Omission(6, 11)). "Mel painted ages" has none: no omission ends between "took" and "ages".

    States from which no alignment was found are remembered, so a claim that none supports costs O(i * j) states.
    """

    def __init__(self, claimed: Sequence[Token], said: Sequence[Token]) -> None:
        self._claimed = [token for token in claimed if token.shape != "mark"]
        self._said = said
        self._first_person = next((token.person for token in claimed if token.person), "")
        self._beginnings = omissions.beginnings(said)
        self._dead_ends: set[tuple[int, int, bool]] = set()

    def all(self) -> Iterator[tuple[Omission, ...]]:
        """Yield the omissions of each alignment."""
        if self._claimed:
            yield from self._from(0, 0, False, ())

    def _from(self, i: int, j: int, begun: bool, omitted: tuple[Omission, ...]) -> Iterator[tuple[Omission, ...]]:
        """Yield the alignments that go on from state (i, j); `begun` once a token of the claim is matched."""
        if (i, j, begun) in self._dead_ends:
            return
        found = False
        for alignment in self._steps(i, j, begun, omitted):
            found = True
            yield alignment
        if not found:
            self._dead_ends.add((i, j, begun))

    def _steps(self, i: int, j: int, begun: bool, omitted: tuple[Omission, ...]) -> Iterator[tuple[Omission, ...]]:
        claimed, said = self._claimed, self._said
        if i == len(claimed):
            yield from self._ends(j, omitted)
            return
        if j < len(said) and self._same(i, j):
            yield from self._from(i + 1, j + 1, True, omitted)
        if self._may_add(i, j):
            yield from self._from(i + 1, j, begun, omitted)
        if j < len(said) and omissions.is_free(said, j):
            yield from self._from(i, j + 1, begun, omitted)
        if not begun and j == 0:
            for omission in self._beginnings:
                yield from self._from(i, omission.end, False, (*omitted, omission))
        elif begun and j < len(said):
            for omission in omissions.asides(said, j):
                yield from self._from(i, omission.end, True, (*omitted, omission))

    def _ends(self, j: int, omitted: tuple[Omission, ...]) -> Iterator[tuple[Omission, ...]]:
        while True:
            if j == len(self._said):
                yield omitted
                return
            if omission := omissions.ending(self._said, j):
                yield (*omitted, omission)
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
        """Check that a name or a pronoun of the claim is the person who was spoken of."""
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

    def _may_add(self, i: int, j: int) -> bool:
        """Check for a word that a claim may add: an article, the preposition of a date, a date told twice."""
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
    """Check that a claimed date is the source's, or a span that contains it."""
    if claimed.form == said.form:
        return True
    if claimed.days is None or said.days is None:
        return False
    return claimed.days[0] <= said.days[0] and said.days[1] <= claimed.days[1]


def _first_refusal(claimed: Sequence[Token], said: Sequence[Token]) -> Refusal:
    """Return the first reason against a claim that no alignment supports."""
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

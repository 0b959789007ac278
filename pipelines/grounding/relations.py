"""Relations: a language model judges the relation of a statement to earlier ones, and of people and things to others.

Of statements at most ten are asked at a time. Its answer is a claim. It counts where both statements contain the words
that it quotes, share a subject, and differ. A change without a sign of it in the words becomes a likely change; a
statement that shows a change neither repeats nor contradicts. Among the earlier statements are controls, sentences on
unrelated subjects: a model that does not call each of them so, or relates most of the statements, is not believed.

Relations of people and things are those that the reader of names proposes. The model says which of them their sentence
states, and copies the words of both ends. Among them are controls too, some stated and some not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ...llm.budget import Asker
from ...llm.language_model import LlmRefused, LlmUnavailable
from ...store.judges.name_reader import PROJECT, SPEAKER, NamedSpan, NamesRead, StatedRelation
from ...store.model import NodeId
from ...store.okf.entity_page import RELATION_WORDS
from ...store.text.judging import EarlierStatement, FoundRelation, Relation, disputes, may_be_same, may_share_subject
from ...store.text.statements import read
from ...store.text.words import words
from ..extract.contexts import TurnContext
from ..extract.naming import sentence_of, words_of
from .claims import Remembered, answer_to, harmless, with_record

_Shown = TypeVar("_Shown")

# Largest number of earlier statements in one prompt, controls excluded.
ASKED_MOST: Final = 8

# Largest plausible number of relations of one statement to ten others.
RELATED_MOST: Final = 3

MOST_CHARS: Final = 400
MOST_QUOTE_CHARS: Final = 120
CONTROLS: Final = (
    "The lighthouse keeper paints his fence green.",
    "Two swans nest behind the old mill.",
    "Grandmother's violin hangs above the stove.",
    "A circus came through the valley by train.",
)
"""Four, so that a random answer calls all of them unrelated only once in 600 (five relations each)."""

UNRELATED: Final = "unrelated"
RELATIONS: Final = {
    "change": Relation.UPDATES,
    "contradiction": Relation.CONTRADICTS,
    "same": Relation.SAME,
    "addition": None,
    UNRELATED: None,
}
_QUOTE: Final = {"type": "string", "maxLength": MOST_QUOTE_CHARS}
_CLAIM: Final = {
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 1, "maximum": ASKED_MOST + len(CONTROLS)},
        "relation": {"type": "string", "enum": list(RELATIONS)},
        "earlier_words": _QUOTE,
        "later_words": _QUOTE,
    },
    "required": ["number", "relation", "earlier_words", "later_words"],
    "additionalProperties": False,
}
SCHEMA: Final = {
    "type": "object",
    "properties": {"relations": {"type": "array", "maxItems": ASKED_MOST + len(CONTROLS), "items": _CLAIM}},
    "required": ["relations"],
    "additionalProperties": False,
}


def judge_by_model(
    later: str, candidates: Sequence[EarlierStatement], model: Asker, remembered: Remembered
) -> list[FoundRelation]:
    """Return the model's judgements that the words support, the nearest first; [] where it is not believed.

    Raises LlmUnavailable where the model cannot be asked any more.
    """
    asked = sorted(candidates, key=lambda one: (-one.cosine, one.node_id))[:ASKED_MOST]
    shown = _with_controls(asked, later)
    try:
        answer = answer_to(_prompt(later, [text for text, _ in shown]), SCHEMA, model, remembered)
    except LlmRefused:
        return []
    claims = {claim["number"] - 1: claim for claim in answer["relations"]}
    related = [number for number, claim in claims.items() if RELATIONS[claim["relation"]] is not None]
    unrelated = {number for number, claim in claims.items() if claim["relation"] == UNRELATED}
    controls = {number for number, (_, one) in enumerate(shown) if one is None}
    # Both signs of a model that guesses: it relates a control, or most of the statements.
    if controls - unrelated or len(related) > RELATED_MOST:
        return []
    found = (_supported(claims[number], shown[number][1], later) for number in related if number < len(shown))
    return sorted((one for one in found if one is not None), key=lambda one: -one.score)


def _with_controls(asked: Sequence[EarlierStatement], later: str) -> list[tuple[str, EarlierStatement | None]]:
    """Return the texts to show with the controls (None) among them, at places that depend on the texts alone."""
    shown: list[tuple[str, EarlierStatement | None]] = [(one.text, one) for one in asked]
    for control in CONTROLS:
        _place(shown, (control, None), control + later)
    return shown


def _place(shown: list[_Shown], control: _Shown, texts: str) -> None:
    """Insert a control where the texts alone say: an equal question has an equal prompt, answered from the memo."""
    shown.insert(sum(map(ord, texts)) % (len(shown) + 1), control)


def _prompt(later: str, texts: Sequence[str]) -> str:
    lines: list[Mapping[str, Any]] = [
        {"number": number, "earlier": harmless(text[:MOST_CHARS])} for number, text in enumerate(texts, start=1)
    ]
    return with_record("changes", [*lines, {"later": harmless(later[:MOST_CHARS])}])


def _supported(claim: Mapping[str, Any], earlier: EarlierStatement | None, later: str) -> FoundRelation | None:
    """Return the judgement of a claim as far as the two statements support it."""
    relation = RELATIONS[claim["relation"]]
    if earlier is None or relation is None:
        return None
    old, new = read(earlier.text), read(later)
    if not may_share_subject(old, new, earlier.cosine):
        return None
    if relation is Relation.SAME:
        is_news = new.is_change and not old.is_change
        is_same = may_be_same(old, new, earlier.cosine) and not is_news and not disputes(old, new, earlier.cosine)
        return FoundRelation(earlier.node_id, relation, earlier.cosine) if is_same else None
    if not _differ(claim["earlier_words"], claim["later_words"], earlier.text, later):
        return None
    if relation is Relation.CONTRADICTS and new.is_change:
        return None
    if relation is Relation.UPDATES and not new.is_change and old.is_negated == new.is_negated:
        relation = Relation.LATER
    return FoundRelation(earlier.node_id, relation, earlier.cosine)


def _differ(was: str, becomes: str, earlier: str, later: str) -> bool:
    """Check that each statement contains its quote, and that the quotes differ."""
    if not _contains_quote(was, earlier) or not _contains_quote(becomes, later):
        return False
    return set(words(was)) != set(words(becomes)) and not _contains_quote(becomes, earlier)


def _contains_quote(quote: str, text: str) -> bool:
    return bool(words(quote)) and any(words(quote) == run for run in _runs(words(text), len(words(quote))))


def _runs(said: Sequence[str], length: int) -> Iterator[list[str]]:
    return (list(said[start : start + length]) for start in range(len(said) - length + 1))


# ---- relations of people and things

CLAIMED_MOST: Final = 8
"""Relations in one prompt, controls excluded."""

PROMPTS_MOST: Final = 40
"""Prompts in one dream."""

# Sureness of the reader from which a relation is asked about: of those below it, readers had labelled few.
CLAIMED_FROM: Final = 0.5

STATED, NOT_STATED = "stated", "not stated"
CONTROL_CLAIMS: Final = (
    ("The bakery at the corner belongs to Oskar.", "Oskar", "owns", "the bakery", STATED),
    ("Two swans nest behind the mill that Oskar painted.", "Oskar", "owns", "the mill", NOT_STATED),
    ("Henrik moved into the lighthouse in May.", "Henrik", "is in", "the lighthouse", STATED),
    ("A circus came through the valley by train.", "the valley", "was made by", "the circus", NOT_STATED),
    ("Should Liv take over the violin shop?", "Liv", "owns", "the violin shop", NOT_STATED),
    ("Jonas told the ferry office about the storm.", "Jonas", "works for", "the ferry office", NOT_STATED),
)
"""Sentence, subject, relation, object and verdict: a model that is wrong about one of them is not believed."""

_VERDICTS: Final = {
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 1, "maximum": CLAIMED_MOST + len(CONTROL_CLAIMS)},
        "verdict": {"type": "string", "enum": [STATED, NOT_STATED]},
        "first": _QUOTE,
        "second": _QUOTE,
    },
    "required": ["number", "verdict", "first", "second"],
    "additionalProperties": False,
}
CLAIMS_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "claims": {"type": "array", "maxItems": CLAIMED_MOST + len(CONTROL_CLAIMS), "items": _VERDICTS},
    },
    "required": ["claims"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class _ClaimedRelation:
    """A relation that the reader proposes, with the sentence in which it is to be stated."""

    context: TurnContext
    relation: StatedRelation
    sentence: str

    @property
    def line(self) -> dict[str, str]:
        """The claim as it is shown."""
        first, second = (
            "this project" if isinstance(end, str) else words_of(end, self.context)
            for end in (self.relation.subject, self.relation.object)
        )
        return _claim_line(self.sentence, first, RELATION_WORDS[self.relation.relation], second)


def relations_by_model(
    contexts: Sequence[TurnContext], read: Mapping[NodeId, NamesRead], model: Asker, remembered: Remembered
) -> dict[NodeId, NamesRead]:
    """Return the readings of turns with the relations that the model judged: certain, or gone.

    What it was not asked about, and everything where it is not believed, stays as it was read.
    """
    judged = dict(read)
    claimed = list(_claimed(contexts, read))[: CLAIMED_MOST * PROMPTS_MOST]
    for start in range(0, len(claimed), CLAIMED_MOST):
        window = claimed[start : start + CLAIMED_MOST]
        try:
            verdicts = _verdicts(window, model, remembered)
        except LlmRefused:
            continue
        except LlmUnavailable:
            break
        for number, verdict in verdicts.items():
            one = window[number]
            turn = one.context.turn.node_id
            judged[turn] = _as_judged(judged[turn], one, verdict)
    return judged


def _claimed(contexts: Sequence[TurnContext], read: Mapping[NodeId, NamesRead]) -> Iterator[_ClaimedRelation]:
    for context in contexts:
        for relation in read[context.turn.node_id].relations if context.turn.node_id in read else ():
            # An end that no word names is the project at hand; what is said of a speaker has no name to be kept by.
            is_named = SPEAKER not in (relation.subject, relation.object)
            if is_named and relation.sureness >= CLAIMED_FROM and (sentence := sentence_of(relation, context)):
                yield _ClaimedRelation(context, relation, sentence)


def _claim_line(sentence: str, first: str, relation: str, second: str) -> dict[str, str]:
    texts = {"sentence": sentence, "first": first, "relation": relation, "second": second}
    return {name: harmless(text[:MOST_CHARS]) for name, text in texts.items()}


def _verdicts(window: Sequence[_ClaimedRelation], model: Asker, remembered: Remembered) -> dict[int, Mapping[str, Any]]:
    """Return the model's verdict on each claim by its place; {} where it is not believed."""
    shown: list[tuple[dict[str, str], int | None, str]] = [(one.line, at, "") for at, one in enumerate(window)]
    texts = "".join(one.sentence for one in window)
    for *control, verdict in CONTROL_CLAIMS:
        _place(shown, (_claim_line(*control), None, verdict), control[0] + texts)
    lines = [{"number": number, **line} for number, (line, _, _) in enumerate(shown, start=1)]
    answer = answer_to(with_record("stated", lines), CLAIMS_SCHEMA, model, remembered)
    claims = {claim["number"] - 1: claim for claim in answer["claims"]}
    if any(
        at is None and (number not in claims or claims[number]["verdict"] != verdict)
        for number, (_, at, verdict) in enumerate(shown)
    ):
        return {}
    return {at: claims[number] for number, (_, at, _) in enumerate(shown) if at is not None and number in claims}


def _as_judged(read: NamesRead, one: _ClaimedRelation, verdict: Mapping[str, Any]) -> NamesRead:
    """Return a reading in which one relation is certain, with its ends as far as the model copied them, or gone."""
    others = tuple(each for each in read.relations if each != one.relation)
    if verdict["verdict"] == NOT_STATED:
        return replace(read, relations=others)
    ends = [
        _copied(end, verdict[name], one)
        for end, name in ((one.relation.subject, "first"), (one.relation.object, "second"))
    ]
    if None in ends:
        return read
    certain = StatedRelation(ends[0] or PROJECT, one.relation.relation, ends[1] or PROJECT, 1.0)
    changed = {one.relation.subject: ends[0], one.relation.object: ends[1]}
    names = tuple(after if isinstance(after := changed.get(span), NamedSpan) else span for span in read.names)
    return NamesRead(names, (*others, certain))


def _copied(end: NamedSpan | str, words_copied: str, one: _ClaimedRelation) -> NamedSpan | str | None:
    """Return an end with the words that the model copied around it; None where the sentence has no such words."""
    if isinstance(end, str):
        return end
    if end.part == 0:  # a name in the words before: "it" in the sentence
        return replace(end, sureness=1.0)
    said, copied = one.context.text, words_copied.strip()
    at = said.find(copied, max(0, end.start - len(copied)), end.end + len(copied)) if copied else -1
    if at < 0 or at > end.start or at + len(copied) < end.end or "\n" in said[at : at + len(copied)]:
        return None
    return replace(end, start=at, end=at + len(copied), sureness=1.0)

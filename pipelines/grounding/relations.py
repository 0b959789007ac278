"""Relations: a language model judges the relation of a statement to earlier ones, at most ten at a time.

Its answer is a claim. It counts where both statements contain the words that it quotes, share a subject, and differ.
A change without a sign of it in the words becomes a likely change; a statement that shows a change neither repeats nor
contradicts. Among the earlier statements are controls, sentences on unrelated subjects: a model that does not call each
of them unrelated, or relates most of the statements, is not believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ...llm.budget import Asker
from ...llm.language_model import LlmRefused
from ...store.text.judging import EarlierStatement, FoundRelation, Relation, disputes, may_be_same, may_share_subject
from ...store.text.statements import read
from ...store.text.words import words
from .claims import Remembered, answer_to, harmless, with_record

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
        # The place depends on the texts alone, so an equal question has an equal prompt and is answered from the memo.
        shown.insert(sum(map(ord, control + later)) % (len(shown) + 1), (control, None))
    return shown


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

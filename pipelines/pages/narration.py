"""Narration: a language model tells what came of an episode, in two sentences that cite, and gives it a name.

It is asked at most twice an episode. A sentence must be supported by the fact that it cites, and a name be words of one
sentence, in their order; whatever else it says is dropped, and the page is made without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...store.model import Memory, NodeId
from ...store.text.languages import phrases
from ...store.text.sentences import sentences_of
from ...store.text.words import words
from ..grounding import prompts
from ..grounding.verify import Source, ground
from .quotes import quoted
from .titles import LONGEST_CHARS, stems_of_title

Ask = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Asks a model; None where it cannot be asked, or its answer is none."""

MOST_LINES, MOST_LINE_CHARS = 24, 300
MOST_SENTENCES, MOST_SENTENCE_CHARS = 2, 240
FEWEST_NAME_STEMS = 2


def outcome(facts: Sequence[Memory], labels: Mapping[NodeId, str], ask: Ask) -> str:
    """Return the model's sentences, each with the footnote of its fact; "" if none is supported."""
    living = [fact for fact in facts if fact.is_live][-MOST_LINES:]
    if not living:
        return ""
    answer = ask(prompts.filled("outcome", _lines(living)), _outcome_schema(len(living)))
    told = []
    for sentence in (answer or {}).get("sentences", ()):
        fact = living[int(sentence["turn"]) - 1]
        text = " ".join(str(sentence["text"]).split())
        if len(sentences_of(text)) == 1 and ground(text, _sources(fact)).is_grounded:
            told.append(f"{text} [^{labels[fact.node_id]}]")
    return " ".join(dict.fromkeys(told))


def name_of(facts: Sequence[Memory], ask: Ask) -> str:
    """Return the model's name for an episode; "" if it is not made of the words of one sentence."""
    lines = _lines(facts[:MOST_LINES])
    answer = ask(prompts.filled("name", lines), _NAME_SCHEMA)
    name = " ".join(str((answer or {}).get("name", "")).split()).strip(" .,;:\"'“”")
    said = [sentence for fact in facts[:MOST_LINES] for sentence in sentences_of(fact.text)]
    return name if len(name) <= LONGEST_CHARS and any(_names(name, sentence) for sentence in said) else ""


def _names(name: str, sentence: str) -> bool:
    """Check that a name is words of a sentence in their order, with every denial and condition that is in it."""
    rest = iter(words(sentence))
    in_order = all(any(word == other for other in rest) for word in words(name))
    kept = all(
        len(phrases(section).findall(name)) == len(phrases(section).findall(sentence))
        for section in ("grounding.negation", "grounding.restriction")
    )
    return in_order and kept and len(stems_of_title(name)) >= FEWEST_NAME_STEMS


def _lines(facts: Sequence[Memory]) -> list[str]:
    return [quoted(fact)[:MOST_LINE_CHARS] for fact in facts]


def _sources(fact: Memory) -> list[Source]:
    said_on = fact.created_at.date() if fact.created_at else None
    return [Source(sentence, fact.said_by or "", said_on=said_on) for sentence in sentences_of(quoted(fact))]


def _outcome_schema(lines: int) -> Mapping[str, Any]:
    sentence = {
        "type": "object",
        "properties": {
            "turn": {"type": "integer", "enum": [*range(1, lines + 1)]},
            "text": {"type": "string", "minLength": 16, "maxLength": MOST_SENTENCE_CHARS},
        },
        "required": ["turn", "text"],
    }
    listed = {"type": "array", "items": sentence, "minItems": 1, "maxItems": MOST_SENTENCES}
    return {"type": "object", "properties": {"sentences": listed}, "required": ["sentences"]}


_NAME_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 4, "maxLength": LONGEST_CHARS}},
    "required": ["name"],
}

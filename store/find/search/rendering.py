"""Rendering of a memory for an envelope: by its own words or by those of the facts drawn from it."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from ...model import Kind, NodeId
from ...roles import Role
from ...text.chunking import estimate_tokens
from ...text.terms import term_stems
from ...text.vocabulary import SHORT_MONTHS
from ..index.projection import Node

SLOT_TOKENS = 120
"""A longer text gives an envelope only its sentences nearest to the question: density pays."""

BRIEF_TOKENS = 45
"""The size of a brief rendering; it holds one sentence at least."""

ADVICE_WORTH = 0.3
"""New words a token that an assistant's sentence must exceed to be shown beside another sentence of its turn.

Its advice can be had again, what its person said cannot. Evidence recall and answer coverage of BEAM at 500 tokens: .59
and .67 without the bound, .63 and .68 with it; choosing by the question's words alone .62 and .65.
"""

BREAK_TOKENS = 2
"""The fixed cost of a sentence, so that a heading of two words does not have the best worth per token."""

DISPUTED, CHANGED, STALE = "disputed", "changed since", "out of date"
"""The notes beside a memory that another contradicts, that another superseded, or that is past its `stale_after`."""

_SENTENCE = re.compile(r"[^\n.!?;]+(?:[.!?;]+(?=\s|$)|[.!?;]+\S+)*[.!?;]*\s*|\n+")
_PART = re.compile(r"(?<=[;!?])\s+|(?<=[a-z]{4}\.)\s+")
"""Between two sentences of a fact; a shorter word before a full stop may be an abbreviation."""

_SAID = rf"(?:user|assistant|{DISPUTED}|{CHANGED}|{STALE})"
_HEAD = re.compile(
    rf"(?:\d{{1,2}} (?:{'|'.join(SHORT_MONTHS)}) \d{{4}}(?:, [^:\n]{{1,60}})?|{_SAID}): |- (?:{_SAID}(?:, {_SAID})*: )?"
)


@dataclass(frozen=True, slots=True)
class Rendering:
    """One unit as an envelope shows it; `note` is the speaker and a state such as "disputed"."""

    day: str
    note: str
    words: str
    nodes: Sequence[Node]

    def text(self, days: Container[str] = ()) -> str:
        """Return the words after their head; without the day when it is one of `days`, whose slots stand below it."""
        if self.day in days:
            return f"- {self.note}: {self.words}" if self.note else f"- {self.words}"
        head = ", ".join(part for part in (self.day, self.note) if part)
        return f"{head}: {self.words}" if head else self.words


@dataclass(frozen=True, slots=True)
class Unit:
    """A candidate, the facts that it can be rendered by, and whether others supersede or contradict it."""

    node: Node
    facts: Sequence[Node]
    changed: bool = False
    contradicts: tuple[NodeId, ...] = ()
    now: datetime | None = None

    def _state(self, rendered: Sequence[Node]) -> str:
        if self.contradicts or self.changed:
            return DISPUTED if self.contradicts else CHANGED
        until = [node.stale_after for node in rendered if node.stale_after is not None]
        return STALE if self.now is not None and any(at <= self.now for at in until) else ""

    def render(self, asked: AbstractSet[str], covered: AbstractSet[str], in_full: bool) -> Rendering:
        """Render the unit by its facts; by its own text where it has none or they take as many tokens.

        `asked` are the stems of the question's content words, `covered` those of the envelope so far. The facts of an
        assistant's turn are never rendered in full.
        """
        if not self.facts:
            return self._whole(asked)
        if in_full and self.node.role != Role.ASSISTANT:
            facts, limit_tokens = list(self.facts), SLOT_TOKENS
            words = " ".join(_sentence(fact.text) for fact in facts)
        else:
            least = ADVICE_WORTH if self.node.role == Role.ASSISTANT else 0.0
            (words, facts), limit_tokens = _brief(self.facts, asked, covered, least), BRIEF_TOKENS
        words = condensed(words, asked, limit_tokens)
        if self.node.kind is Kind.TURN and estimate_tokens(words) >= estimate_tokens(self.node.text):
            return self._whole(asked)
        return Rendering(_day(facts[0]), self._state(facts), words, facts)

    def _whole(self, asked: AbstractSet[str]) -> Rendering:
        note = ", ".join(said for said in (self.node.role, self._state([self.node])) if said)
        return Rendering(_day(self.node), note, condensed(self.node.text, asked), [self.node])


def _brief(
    facts: Sequence[Node], asked: AbstractSet[str], covered: AbstractSet[str], least_worth: float
) -> tuple[str, list[Node]]:
    """Return the sentences of some facts that are worth their tokens, and the facts that they are from."""
    parts = [(fact, part) for fact in facts for part in _PART.split(_sentence(fact.text)) if part]
    kept = select_sentences([part for _, part in parts], asked, covered, least_worth)
    return " ".join(parts[i][1] for i in kept), list({parts[i][0].node_id: parts[i][0] for i in kept}.values())


def select_sentences(
    sentences: Sequence[str],
    asked: AbstractSet[str],
    covered: AbstractSet[str],
    least_worth: float = 0.0,
    limit_tokens: int = BRIEF_TOKENS,
) -> list[int]:
    """Return the indexes of the sentences worth their tokens, in order; at least one if there are any.

    Budgeted maximum coverage, greedily (Khuller, Moss, Naor 1999): the next sentence is the one with the most words per
    token that nothing before it has covered. A word of the question counts twice.
    """
    words = [term_stems(sentence) for sentence in sentences]
    tokens = [estimate_tokens(sentence) for sentence in sentences]
    covered_words, left = set(covered), limit_tokens
    kept: list[int] = []
    waiting = list(range(len(sentences)))
    while waiting:
        worth = {
            i: (len(words[i] - covered_words) + len(words[i] & asked)) / (tokens[i] + BREAK_TOKENS) for i in waiting
        }
        best = max(waiting, key=lambda i: (worth[i], -i))
        waiting.remove(best)
        if kept and worth[best] <= least_worth:
            break
        if not kept or tokens[best] <= left:
            kept.append(best)
            covered_words |= words[best]
            left -= tokens[best]
    return sorted(kept)


def condensed(text: str, asked: AbstractSet[str], limit_tokens: int = SLOT_TOKENS) -> str:
    """Return the text, or of a long one the sentences that share most words with the question, in their order.

    A sentence counts its distinct terms; ties go to the earlier one. At least one sentence stays, cut if it must be.
    """
    if estimate_tokens(text) <= limit_tokens:
        return " ".join(text.split())
    sentences = [" ".join(match.group().split()) for match in _SENTENCE.finditer(text)]
    sentences = [sentence for sentence in sentences if sentence]
    order = sorted(range(len(sentences)), key=lambda i: (-len(asked & term_stems(sentences[i])), i))
    kept: list[int] = []
    left = limit_tokens
    for i in order:
        tokens = estimate_tokens(sentences[i]) + 1
        if tokens <= left:
            kept.append(i)
            left -= tokens
    if not kept:
        return _cut(sentences[order[0]], limit_tokens)
    return " ".join(sentences[i] for i in sorted(kept))


def without_head(text: str) -> str:
    """Return the text of a slot without the day and the speaker in front of it."""
    return _HEAD.sub("", text, count=1) if _HEAD.match(text) else text


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "…", ":")) else f"{line}."


def _cut(sentence: str, limit_tokens: int) -> str:
    """Return the beginning of a sentence, in whole words where there are any, at three characters a token."""
    begun = sentence[: 3 * limit_tokens]
    return (begun.rsplit(" ", 1)[0] if " " in begun else begun).rstrip(" ,;:") + "…"


def _day(node: Node) -> str:
    """Return the day in four tokens instead of ISO's seven."""
    at = node.created_at
    return f"{at.day} {SHORT_MONTHS[at.month - 1]} {at.year}" if at else ""

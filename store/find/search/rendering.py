"""Telling: the words by which a memory enters an envelope, its own or those of the facts drawn from it."""

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
"""What a unit takes that is told briefly; there is always one sentence."""

ADVICE_WORTH = 0.3
"""New words a token that an assistant's sentence must be over to be told beside another of its turn.

Its advice can be had again, what its person said cannot. Evidence recall and answer coverage of BEAM at 500 tokens: .59
and .67 without the bound, .63 and .68 with it; choosing by the question's words alone .62 and .65.
"""

BREAK_TOKENS = 2
"""What a sentence costs beside its words, so that a heading of two words is not the best buy."""

DISPUTED, CHANGED, STALE = "disputed", "changed since", "out of date"
"""What an envelope says of a memory that another contradicts or took the place of, or past its `stale_after`."""

_SENTENCE = re.compile(r"[^\n.!?;]+(?:[.!?;]+(?=\s|$)|[.!?;]+\S+)*[.!?;]*\s*|\n+")
_PART = re.compile(r"(?<=[;!?])\s+|(?<=[a-z]{4}\.)\s+")
"""Between two sentences of a fact; a shorter word before a full stop may be an abbreviation."""

_SAID = rf"(?:user|assistant|{DISPUTED}|{CHANGED}|{STALE})"
_HEAD = re.compile(
    rf"(?:\d{{1,2}} (?:{'|'.join(SHORT_MONTHS)}) \d{{4}}(?:, [^:\n]{{1,60}})?|{_SAID}): |- (?:{_SAID}(?:, {_SAID})*: )?"
)


@dataclass(frozen=True, slots=True)
class Telling:
    """What an envelope says of one unit: on which day, by whom and with which mark, the words, and whose they are."""

    day: str
    said_of_it: str
    words: str
    nodes: Sequence[Node]

    def text(self, days: Container[str] = ()) -> str:
        """The words after their head; the day is left out among those that stand under it."""
        if self.day in days:
            return f"- {self.said_of_it}: {self.words}" if self.said_of_it else f"- {self.words}"
        head = ", ".join(part for part in (self.day, self.said_of_it) if part)
        return f"{head}: {self.words}" if head else self.words


@dataclass(frozen=True, slots=True)
class Unit:
    """What a candidate can be told by: its own text, or the facts drawn from it; and what others say to it."""

    node: Node
    facts: Sequence[Node]
    changed: bool = False
    contradicts: tuple[NodeId, ...] = ()
    now: datetime | None = None

    def _mark(self, told: Sequence[Node]) -> str:
        if self.contradicts or self.changed:
            return DISPUTED if self.contradicts else CHANGED
        until = [node.stale_after for node in told if node.stale_after is not None]
        return STALE if self.now is not None and any(at <= self.now for at in until) else ""

    def told(self, asked: AbstractSet[str], said: AbstractSet[str], in_full: bool) -> Telling:
        """What is said of it: a turn's facts where they are fewer tokens than the turn.

        `asked` are the stems of the question's telling words, `said` those that the envelope has told already. An
        assistant is never told in full.
        """
        if not self.facts:
            return self._whole(asked)
        if in_full and self.node.role != Role.ASSISTANT:
            facts, limit_tokens = list(self.facts), SLOT_TOKENS
            words = " ".join(_sentence(fact.text) for fact in facts)
        else:
            least = ADVICE_WORTH if self.node.role == Role.ASSISTANT else 0.0
            (words, facts), limit_tokens = _brief(self.facts, asked, said, least), BRIEF_TOKENS
        words = condensed(words, asked, limit_tokens)
        if self.node.kind is Kind.TURN and estimate_tokens(words) >= estimate_tokens(self.node.text):
            return self._whole(asked)
        return Telling(_day(facts[0]), self._mark(facts), words, facts)

    def _whole(self, asked: AbstractSet[str]) -> Telling:
        said_of_it = ", ".join(said for said in (self.node.role, self._mark([self.node])) if said)
        return Telling(_day(self.node), said_of_it, condensed(self.node.text, asked), [self.node])


def _brief(
    facts: Sequence[Node], asked: AbstractSet[str], said: AbstractSet[str], least_worth: float
) -> tuple[str, list[Node]]:
    """The sentences of some facts that are worth their tokens, and the facts that they are from."""
    parts = [(fact, part) for fact in facts for part in _PART.split(_sentence(fact.text)) if part]
    kept = worth_telling([part for _, part in parts], asked, said, least_worth)
    return " ".join(parts[i][1] for i in kept), list({parts[i][0].node_id: parts[i][0] for i in kept}.values())


def worth_telling(
    sentences: Sequence[str],
    asked: AbstractSet[str],
    said: AbstractSet[str],
    least_worth: float = 0.0,
    limit_tokens: int = BRIEF_TOKENS,
) -> list[int]:
    """The places of the sentences worth their tokens, in order; at least one of any.

    Budgeted maximum coverage, greedily (Khuller, Moss, Naor 1999): the next is always the one that says most words, for
    its tokens, that nothing has said before it. A word that was asked for counts once more.
    """
    words = [term_stems(sentence) for sentence in sentences]
    tokens = [estimate_tokens(sentence) for sentence in sentences]
    heard, left = set(said), limit_tokens
    kept: list[int] = []
    waiting = list(range(len(sentences)))
    while waiting:
        worth = {i: (len(words[i] - heard) + len(words[i] & asked)) / (tokens[i] + BREAK_TOKENS) for i in waiting}
        best = max(waiting, key=lambda i: (worth[i], -i))
        waiting.remove(best)
        if kept and worth[best] <= least_worth:
            break
        if not kept or tokens[best] <= left:
            kept.append(best)
            heard |= words[best]
            left -= tokens[best]
    return sorted(kept)


def condensed(text: str, asked: AbstractSet[str], limit_tokens: int = SLOT_TOKENS) -> str:
    """The text, or of a long one the sentences that share most with the question, in their order.

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
    """What a slot tells, without the day and the name in front of it."""
    return _HEAD.sub("", text, count=1) if _HEAD.match(text) else text


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", "…", ":")) else f"{line}."


def _cut(sentence: str, limit_tokens: int) -> str:
    """The beginning of a sentence, whole words where there are any, at three characters a token."""
    begun = sentence[: 3 * limit_tokens]
    return (begun.rsplit(" ", 1)[0] if " " in begun else begun).rstrip(" ,;:") + "…"


def _day(node: Node) -> str:
    """The day in four tokens instead of ISO's seven."""
    at = node.created_at
    return f"{at.day} {SHORT_MONTHS[at.month - 1]} {at.year}" if at else ""

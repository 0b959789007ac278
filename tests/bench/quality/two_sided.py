"""Questions about two statements that differ: a value that changed, and what contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..datasets import Dataset, Question
from ..in_process import AnyDaemon
from ..readers.reading import SIGNS_OF_CHANGE
from ..readers.to_read import write
from ..scoring import MONTHS, ScoredSlot, content_words, stem
from ..table import Row
from .asking import named

UPDATED = "BEAM-100K dev knowledge_update: the value that holds is told, the old one absent or marked"
DISPUTED = "BEAM-100K dev contradiction_resolution: both sides told, or marked as disputed"
UPDATED_SHARE, DISPUTED_SHARE = 0.8, 0.7
BUDGET = 500

ABOUT = 2
"""A slot that shares so many content words with a question is about what it asks."""

LATER = re.compile(r"\blater: ")
"""What stands beside an older statement that a newer one has likely replaced."""

_NUMBERS = {
    name: str(number) for number, name in enumerate("one two three four five six seven eight nine ten".split(), 1)
}
_TOKEN = re.compile(r"\d[\d,.:/]*%?|[^\W\d_]+")
_YEAR = re.compile(r"(?:19|20)\d\d")

_HALVES = frozenset({"am", "pm"})


@dataclass(frozen=True, slots=True)
class Value:
    """A number as a phrase has it, with the month or the half of the day that belongs to it, and the word after it."""

    core: frozenset[str]
    unit: str = ""

    def stands_in(self, tokens: Collection[str], *, bare: bool) -> bool:
        """Return True if the tokens hold it; `bare` without its unit ("now 165" of "165 commits")."""
        return self.core <= set(tokens) and (bare or not self.unit or self.unit in tokens)


@dataclass(frozen=True, slots=True)
class Told:
    """One question, and the slots of its envelope; `disputed` says of each whether it is marked so."""

    question: Question
    slots: tuple[ScoredSlot, ...]
    disputed: tuple[bool, ...]

    def updated(self, *, after_is_harmless: bool = False) -> bool:
        """Return True if every value that holds is told, and none that held before as if it still did.

        `after_is_harmless`: an old value that is told after the new one does no harm.
        """
        first, second = self._sides()
        new = [value for phrase in self.question.new for value in values_in(phrase)]
        old = [value for phrase in self.question.old for value in values_in(phrase)]
        told = all(any(self._tells(slot, value, second, bare=True) for slot in self.slots) for value in new)
        return told and not any(
            self._tells(slot, value, first, bare=not first.isdisjoint(slot.evidence)) and not _is_marked(slot.text, new)
            for slot in (self._before_any(new, second) if after_is_harmless else self.slots)
            for value in old
        )

    def _before_any(self, values: Sequence[Value], turns: Collection[str]) -> Sequence[ScoredSlot]:
        """Return the slots before the first that tells one of the values."""
        tells = [any(self._tells(slot, value, turns, bare=True) for value in values) for slot in self.slots]
        return self.slots[: tells.index(True)] if True in tells else self.slots

    def newer_first(self) -> bool:
        """Return True if the newer's turn is named, and no slot before it names the older's; whatever they tell."""
        first, second = self._sides()
        places = [set(slot.evidence) for slot in self.slots]
        new, old = (next((i for i, of in enumerate(places) if of & side), len(places)) for side in (second, first))
        return new <= old and new < len(places)

    def both_sides(self) -> bool:
        """Return True if a slot of each side tells of what is asked."""
        return all(any(self._is_of(slot, side) for slot in self.slots) for side in self._sides())

    def marked(self) -> bool:
        """Return True if both sides stand in slots that are marked as disputed."""
        disputed = {
            turn for slot, marked in zip(self.slots, self.disputed, strict=True) if marked for turn in slot.evidence
        }
        return all(side & disputed for side in self._sides())

    def __str__(self) -> str:
        asked = f"{self.question.channel}: {self.question.text}\n{self.question.new} {self.question.old}"
        slots = "\n".join(f"[{', '.join(slot.evidence)}] {slot.text}" for slot in self.slots)
        return f"{'right' if self.updated() else 'WRONG'} {asked}\n\n{slots}"

    def _sides(self) -> tuple[frozenset[str], frozenset[str]]:
        assert self.question.sides is not None
        return self.question.sides

    def _tells(self, slot: ScoredSlot, value: Value, turns: Collection[str], *, bare: bool) -> bool:
        """Return True if a slot holds a value, and is of the turns that said it or about what is asked."""
        of_it = not set(slot.evidence).isdisjoint(turns) or self._is_about(slot)
        return of_it and value.stands_in(_tokens(slot.text), bare=bare)

    def _is_of(self, slot: ScoredSlot, turns: Collection[str]) -> bool:
        return not set(slot.evidence).isdisjoint(turns) and self._is_about(slot)

    def _is_about(self, slot: ScoredSlot) -> bool:
        return len(content_words(slot.text) & content_words(self.question.text)) >= ABOUT


def values_in(phrase: str) -> list[Value]:
    """Return the values of a phrase: "April 21 at 3 PM" holds two, "the original 150 commits" one; a year is none."""
    tokens = _tokens(phrase)
    values = []
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if token[0].isdigit() and not _YEAR.fullmatch(token):
            belonging = {before} & set(MONTHS) | {after} & _HALVES
            values.append(Value(frozenset({token} | belonging), "" if belonging or token.endswith("%") else after))
    return values


def _tokens(text: str) -> list[str]:
    """Return words and numbers in one way of writing: "1,200" and "1200", "three" and "3", "problem" and "problems"."""
    found = (token.replace(",", "").rstrip(".:/") for token in _TOKEN.findall(text.lower()))
    return [_NUMBERS.get(token) or (token if token[0].isdigit() or token in MONTHS else stem(token)) for token in found]


def _is_marked(text: str, new: Sequence[Value]) -> bool:
    """Return True if a slot that tells an old value says so, or tells the new one beside it."""
    tokens = _tokens(text)
    signs = SIGNS_OF_CHANGE.search(text) or LATER.search(text)
    return bool(signs) or any(value.stands_in(tokens, bare=True) for value in new)


def rows(daemon: AnyDaemon, data: Dataset, results: Path) -> Iterator[Row]:
    """Judge every question about two statements, in envelopes of 500 tokens; write those of changed values."""
    told: dict[str, list[Told]] = {}
    for question in data.questions:
        if question.sides:
            got = daemon.call("context", query=question.text, budget_tokens=BUDGET, channel=question.channel)
            slots = tuple(ScoredSlot(slot["text"], named(slot)) for slot in got["slots"])
            marked = tuple(bool(slot["contradicts"]) for slot in got["slots"])
            told.setdefault(question.kind, []).append(Told(question, slots, marked))
    changed, contrary = told.get("knowledge_update", []), told.get("contradiction_resolution", [])
    write(results / f"{data.name}, changed values.txt", list(map(str, changed)), "\n" + "-" * 100 + "\n")
    harmless = sum(one.updated(after_is_harmless=True) for one in changed)
    newer = (
        f"old ones after the new are no harm: {harmless}; no older turn first: {sum(map(Told.newer_first, changed))}"
    )
    yield _share(UPDATED, [one.updated() for one in changed], UPDATED_SHARE, newer)
    both, disputed = [one.both_sides() for one in contrary], [one.marked() for one in contrary]
    either = [one or other for one, other in zip(both, disputed, strict=True)]
    yield _share(DISPUTED, either, DISPUTED_SHARE, f"both sides told {sum(both)}, marked as disputed {sum(disputed)}")


def _share(measure: str, right: Sequence[bool], share: float, how: str) -> Row:
    least = -int(-share * len(right) // 1)
    measured = f"{sum(right)} of {len(right)}"
    return Row(measure, measured, f"≥ {least} of {len(right)}", sum(right) >= least, f"{how}; {BUDGET} tokens")

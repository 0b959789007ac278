"""Passages: a turn as what can be quoted of it: the whole of a short one, of a long one its sentences with reasons.

A sentence that leans on the one before stays with it, and so do steps or points with the line that leads to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest

from ...store.redaction import REDACTED, redact
from ...store.text.languages import phrases
from ...store.text.sentences import FEWEST_WORDS, Sentence, on_one_line, split, start_of_item, without_words
from .places import Place

SHORT_WORDS = 60
"""Words of a turn that is quoted whole or not at all."""

LONGEST_WORDS = 90
"""Words that a passage may grow to."""


@dataclass(frozen=True)
class Passage:
    """Some whole sentences of one turn in their order, as one text, cut from `source` where their `spans` are.

    Its lines are those of the turn, and what stands between two sentences there does so here; GAP for words.
    """

    source: str
    spans: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        """Return where it begins in the turn."""
        return self.spans[0][0]

    @cached_property
    def text(self) -> str:
        """The words, as they were said."""
        pieces = [self.source[slice(*self.spans[0])]]
        for (_, end), (begin, stop) in pairwise(self.spans):
            pieces += [without_words(self.source[end:begin]), self.source[begin:stop]]
        return "\n".join(line for line in map(on_one_line, "".join(pieces).splitlines()) if line)

    @property
    def words(self) -> int:
        """Return the number of words."""
        return len(self.text.split())


def passages_of(place: Place) -> list[Passage]:
    """Return the passages of a turn, in order."""
    said = [sentence for sentence in split(place.text) if REDACTED not in redact(sentence.text).text]
    said = [sentence for sentence in _without_lost_leads(said) if sentence.shape in {"prose", "item", "code"}]
    if sum(len(sentence.text.split()) for sentence in said) <= SHORT_WORDS:
        return [_passage(said, place.text)] if said else []
    return [_passage(group, place.text) for group in _groups(said)]


def joined(passages: Sequence[Passage]) -> Passage:
    """Return passages that follow each other as one."""
    return Passage(passages[0].source, tuple(span for passage in passages for span in passage.spans))


def _without_lost_leads(said: Sequence[Sentence]) -> Iterator[Sentence]:
    """Yield the sentences but for those that lead to what was left out, as "Here it is:" leads to a program."""
    for sentence, following in zip_longest(said, said[1:]):
        is_lost = following is None or following.block > sentence.block + 1
        if not (sentence.text.endswith(":") and is_lost):
            yield sentence


def _groups(said: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    group: list[Sentence] = []
    for sentence in said:
        if group and not _belongs(sentence, group):
            yield group
            group = []
        group.append(sentence)
    if group:
        yield group


def _belongs(sentence: Sentence, group: Sequence[Sentence]) -> bool:
    """Check that a sentence says nothing without those before it."""
    last = group[-1]
    if (
        sentence.shape == "code"
        or last.shape == "code"
        or last.text.endswith(":")
        or (sentence.shape == "item" and _leads(group))
    ):
        return True
    if sum(len(one.text.split()) for one in (*group, sentence)) > LONGEST_WORDS or sentence.shape == "item":
        return False
    if last.shape == "item" and sentence.block != last.block:
        return False
    short = min(len(sentence.text.split()), len(last.text.split())) < FEWEST_WORDS
    return short or bool(phrases("speech.leaning").match(sentence.text))


def _leads(group: Sequence[Sentence]) -> bool:
    """Check for a line that leads to a list, with nothing but the list after it."""
    lead = next((at for at, one in enumerate(group) if one.shape == "prose" and one.text.endswith(":")), None)
    return lead is not None and all(one.shape == "item" for one in group[lead + 1 :])


def _passage(said: Sequence[Sentence], text: str) -> Passage:
    """Return sentences of a text as a passage; the first with its marker where it opens an item of a list: "1. "."""
    spans = [(sentence.start, sentence.end) for sentence in said]
    return Passage(text, ((start_of_item(text, said[0].start), said[0].end), *spans[1:]))

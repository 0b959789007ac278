"""Passages: the quotable units of a turn, which are the whole of a short turn, and groups of sentences of a long one.

A sentence that depends on the one before stays with it, and so do the items of a list with the line that introduces
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest

from ...store.limits import FEWEST_WORDS
from ...store.redaction import REDACTED, redact
from ...store.text.languages import phrases
from ...store.text.sentences import Sentence, on_one_line, split, start_of_item, without_words
from .contexts import TurnContext

# Largest number of words of a turn that is quoted whole or not at all.
SHORT_WORDS = 60

# Largest number of words of a passage of several sentences.
LONGEST_WORDS = 90


@dataclass(frozen=True)
class TurnPassage:
    """Whole sentences of one turn in their order, at `spans` of `source`.

    Line breaks and marks between two sentences are kept; GAP replaces words left out between them.
    """

    source: str
    spans: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        """Return where it begins in the turn."""
        return self.spans[0][0]

    @cached_property
    def text(self) -> str:
        """The sentences as one text, verbatim."""
        pieces = [self.source[slice(*self.spans[0])]]
        for (_, end), (begin, stop) in pairwise(self.spans):
            pieces += [without_words(self.source[end:begin]), self.source[begin:stop]]
        return "\n".join(line for line in map(on_one_line, "".join(pieces).splitlines()) if line)

    @property
    def words(self) -> int:
        """Return the number of words."""
        return len(self.text.split())


def passages_of(context: TurnContext) -> list[TurnPassage]:
    """Return the passages of a turn, in order."""
    # A sentence with a secret is left out whole: a quote with a gap could not be understood.
    said = [sentence for sentence in split(context.text) if REDACTED not in redact(sentence.text).text]
    said = [sentence for sentence in _without_lost_introductions(said) if sentence.shape in {"prose", "item", "code"}]
    if sum(len(sentence.text.split()) for sentence in said) <= SHORT_WORDS:
        return [_passage(said, context.text)] if said else []
    return [_passage(group, context.text) for group in _groups(said)]


def joined(passages: Sequence[TurnPassage]) -> TurnPassage:
    """Join adjacent passages."""
    return TurnPassage(passages[0].source, tuple(span for passage in passages for span in passage.spans))


def _without_lost_introductions(said: Sequence[Sentence]) -> Iterator[Sentence]:
    """Drop sentences that introduce a part that was left out, as "Here it is:" introduces a program."""
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
    """Check that a sentence cannot be understood without those before it."""
    last = group[-1]
    if (
        sentence.shape == "code"
        or last.shape == "code"
        or last.text.endswith(":")
        or (sentence.shape == "item" and _introduces_list(group))
    ):
        return True
    if sum(len(one.text.split()) for one in (*group, sentence)) > LONGEST_WORDS or sentence.shape == "item":
        return False
    if last.shape == "item" and sentence.block != last.block:
        return False
    short = min(len(sentence.text.split()), len(last.text.split())) < FEWEST_WORDS
    return short or bool(phrases("speech.leaning").match(sentence.text))


def _introduces_list(group: Sequence[Sentence]) -> bool:
    """Check for a line that introduces a list, followed by nothing but items."""
    lead = next((at for at, one in enumerate(group) if one.shape == "prose" and one.text.endswith(":")), None)
    return lead is not None and all(one.shape == "item" for one in group[lead + 1 :])


def _passage(said: Sequence[Sentence], text: str) -> TurnPassage:
    """Build a passage of sentences; the first keeps its marker where it opens an item of a list: "1. "."""
    spans = [(sentence.start, sentence.end) for sentence in said]
    return TurnPassage(text, ((start_of_item(text, said[0].start), said[0].end), *spans[1:]))

"""What a reader gets of an envelope: the answer's words, the value that holds now, lines that say something. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Gold = Sequence[Sequence[str]]
"""Groups of alternatives: of each group one must be said."""

SIGNS_OF_CHANGE = re.compile(
    r"changed since|disputed|out of date|until |superseded|replaced by|no longer|formerly|was:|later:|~~", re.IGNORECASE
)
"""What marks a line as telling an old value for an old one."""

CHARACTERS_A_TOKEN = 4
FEWEST_WORDS = 5
_BEGINNING = re.compile(r"^\s*(?:[-*+>]\s+)*(?:[^\s\":][^\":\n]{0,60}: )?")
_HEADING = re.compile(r"^\s*(?:[-*+>]\s+)*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)|[:;,]\s*$")


@dataclass(frozen=True, slots=True)
class Precision:
    """How much of what was done is right, and how much of what is to be done was done."""

    right: int
    wrong: int
    wanted: int

    @property
    def precision(self) -> float:
        """Return the share of what was done that is right; 0 where nothing was done."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Return the share of what is wanted that was done."""
        return self.right / max(1, self.wanted)

    def __str__(self) -> str:
        return f"{self.precision:.2f} / {self.recall:.2f}"


def is_told(text: str, gold: Gold) -> bool:
    """Return True if of each group one alternative stands in the text, upper and lower case alike."""
    text = text.lower()
    return all(any(one.lower() in text for one in group) for group in gold)


def holds_now(text: str, gold: Gold, stale: Iterable[str]) -> bool:
    """Return True if the gold is told, and no stale value stands before it as if it still held.

    A stale value is no harm after the first word of the gold, in a line that has a sign of change, or in one that tells
    the gold too ("twilio is out, 46elks from now on").
    """
    if not is_told(text, gold):
        return False
    text = text.lower()
    new = [one.lower() for group in gold for one in group]
    first = min((text.find(one) for one in new if one in text), default=0)
    for one in (value.lower() for value in stale):
        at = text.find(one)
        if 0 <= at < first:
            line = text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0]
            if not SIGNS_OF_CHANGE.search(line) and not any(value in line for value in new):
                return False
    return True


def lines_of(text: str) -> list[str]:
    """Return the lines of an envelope that hold anything."""
    return [line for line in text.splitlines() if line.strip()]


def is_usable(line: str) -> bool:
    """Return True for a line of at least FEWEST_WORDS words after its head ("2 Mar, Ines: ") that is no heading."""
    said = _BEGINNING.sub("", line, count=1)
    return len(said.split()) >= FEWEST_WORDS and not _HEADING.search(line)


def usable_share(texts: Iterable[str]) -> float:
    """Return the mean share of usable lines, over the texts that have any line."""
    shares = [sum(map(is_usable, lines)) / len(lines) for text in texts if (lines := lines_of(text))]
    return sum(shares) / max(1, len(shares))


def tokens_of(text: str) -> float:
    """Return a text's length in tokens of four characters: what a reader pays, whatever tokenizer counts it."""
    return len(text) / CHARACTERS_A_TOKEN


def words_of(text: str) -> list[str]:
    """Return the lower-case words of a text."""
    return re.findall(r"\w+", text.lower())


def is_kept(turn: str, facts: Iterable[frozenset[str]]) -> bool:
    """Return True if one fact holds at least half of a turn's words of more than two letters."""
    words = {word for word in words_of(turn) if len(word) > 2}
    return any(2 * len(words & fact) >= len(words) for fact in facts)


def judge_pairs(found: Sequence[tuple[str, str]], relation: str, harmless: frozenset[str] = frozenset()) -> Precision:
    """Return how well one relation was seen in (what a pair is, what was made of it).

    A pair of a `harmless` relation that was taken for this one counts for nothing.
    """
    made: Mapping[str, int] = Counter(is_ for is_, seen in found if seen == relation)
    wrong = sum(number for is_, number in made.items() if is_ != relation and is_ not in harmless)
    return Precision(made.get(relation, 0), wrong, sum(is_ == relation for is_, _ in found))

"""What a reader gets of an envelope: the answer's words, the value that holds now, lines that say something. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Gold = Sequence[Sequence[str]]
"""Groups of alternatives: of each group one must be said."""

SIGNS_OF_CHANGE = re.compile(r"changed since|disputed|out of date|until |superseded|formerly|was:|~~", re.IGNORECASE)
"""What marks a line as telling an old value for an old one: no more than the set's own scorer lets pass."""

SAID_AGAIN = frozenset({"reinforced", "witnesses", "same_as"})
"""Keys of a memory that was said more than once."""

CHARACTERS_A_TOKEN = 4
FEWEST_WORDS = 5
_NO_SENTENCE = re.compile(r"^\s*(?:[-*+>]\s+)*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)|[:;,…]\s*$")
"""A heading, in marks or alone in bold, and what breaks off before its sentence does."""

_KEY = re.compile(r"^(\w+):(.*(?:\n[ -].*)*)", re.MULTILINE)
_ID = re.compile(r"[a-z0-9]{10,}")


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
    """Return True for a line of at least FEWEST_WORDS words after its head ("2 Mar, Ines: ") that is a sentence.

    Its head is whatever stands before the first ": ", as the set's own scorer has it.
    """
    said = line.lstrip("- ").split(": ", 1)[-1]
    quoted = said.strip(' "“”„«»')
    return len(said.split()) >= FEWEST_WORDS and not any(map(_NO_SENTENCE.search, (line, quoted)))


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


def keys_of(file: str) -> dict[str, frozenset[str]]:
    """Return a file's frontmatter: each key with the node ids that stand in its value; no file has no key."""
    head = file.partition("\n---")[0]
    return {key: frozenset(_ID.findall(value)) for key, value in _KEY.findall(head)}


def relation_of(earlier: str | None, later: str | None) -> str:
    """Return what was made of two statements, of which the files are given; None for a file that is not there.

    "same", "updates", "contradicts", "later" (both live, the newer is told first) or "none"; the set's own scorer
    judges in this order.
    """
    if earlier is None or later is None or earlier == later:
        return "same"
    old, new = keys_of(earlier), keys_of(later)
    if (old.keys() | new.keys()) & SAID_AGAIN:
        return "same"
    if "superseded_by" in old or "supersedes" in new:
        return "updates"
    if "contradicts" in old or "contradicts" in new:
        return "contradicts"
    return "later" if "later" in old else "none"


def judge_pairs(found: Sequence[tuple[str, str]], relation: str, harmless: frozenset[str] = frozenset()) -> Precision:
    """Return how well one relation was seen in (what a pair is, what was made of it).

    A pair of a `harmless` relation that was taken for this one counts for nothing.
    """
    made: Mapping[str, int] = Counter(is_ for is_, seen in found if seen == relation)
    wrong = sum(number for is_, number in made.items() if is_ != relation and is_ not in harmless)
    return Precision(made.get(relation, 0), wrong, sum(is_ == relation for is_, _ in found))

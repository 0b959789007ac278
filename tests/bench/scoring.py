"""How retrieval is scored: a turn is the unit of evidence, and nobody earns more by citing more.

The rules are those of the development data: a hit counts for at most 3 cited turns, a slot of an envelope for at most
⌈tokens / 25⌉, in the order it names them; an envelope over its budget scores 0. Tokens are counted here, with the
embedding model's own wordpieces, whatever the daemon says of its envelopes.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import snowballstemmer

TURNS_A_HIT = 3
TOKENS_A_TURN = 25

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class ScoredSlot:
    """One piece of an envelope, and the turns it names."""

    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoredEnvelope:
    """An envelope as an agent gets it; `slots` name the turns that count, and there are none when it is over budget."""

    slots: tuple[ScoredSlot, ...]
    tokens: int
    fits: bool
    text: str

    @property
    def turns(self) -> tuple[str, ...]:
        """The distinct turns that count, in order."""
        return _turns(self.slots)


def distinct_turns(hits: Iterable[Sequence[str]], turns_a_hit: int = TURNS_A_HIT) -> list[str]:
    """Name each turn once, in the order of the hits that name it."""
    return list(dict.fromkeys(turn for hit in hits for turn in hit[:turns_a_hit]))


def evidence_recall(turns: Sequence[str], gold: Collection[str], k: int) -> float:
    """The fraction of the gold turns that are inside the first k."""
    return len(set(turns[:k]) & set(gold)) / len(set(gold))


def any_found(turns: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if a gold turn is inside the first k, else 0."""
    return float(not set(turns[:k]).isdisjoint(gold))


def score_envelope(text: str, slots: Sequence[ScoredSlot], budget: int, count: CountTokens) -> ScoredEnvelope:
    """Weigh an envelope; its size is its text's, or that of its slots together if they hold more than the text."""
    sizes = [count(slot.text) for slot in slots]
    tokens = max(count(text), sum(sizes))
    if tokens > budget:
        return ScoredEnvelope((), tokens, False, "")
    counted = (
        ScoredSlot(slot.text, slot.evidence[: math.ceil(size / TOKENS_A_TURN)])
        for slot, size in zip(slots, sizes, strict=True)
    )
    return ScoredEnvelope(tuple(counted), tokens, True, text)


def recall_in_envelope(envelope: ScoredEnvelope, gold: Collection[str]) -> float:
    """The fraction of the gold turns that the envelope names."""
    return evidence_recall(envelope.turns, gold, len(envelope.turns))


def carried_in_envelope(envelope: ScoredEnvelope, gold: Collection[str], question: str, answer: str) -> float | None:
    """The fraction of the gold turns that a slot names which tells something of the answer.

    That is a content word of the answer that the question does not hold; None for an answer that has no such word.
    """
    wanted = content_words(answer) - content_words(question)
    if not wanted:
        return None
    turns = _turns(slot for slot in envelope.slots if wanted & content_words(slot.text))
    return evidence_recall(turns, gold, len(turns))


def _turns(slots: Iterable[ScoredSlot]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(turn for slot in slots for turn in slot.evidence))


def answer_coverage(envelope: ScoredEnvelope, answer: str) -> float | None:
    """The fraction of the answer's content words that occur in the envelope; None for an answer that has none."""
    wanted = content_words(answer)
    return len(wanted & content_words(envelope.text)) / len(wanted) if wanted else None


# -- words

# The usual English stop words (Snowball's list, contractions in their pieces), and nothing that could be an answer.
STOP_WORDS = frozenset(
    """i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those am is are was were be
    been being have has had having do does did doing would should could ought a an the and but if or because as until
    while of at by for with about against between into through during before after above below to from up down in out
    on off over under again further then once here there when where why how all any both each few more most other some
    such only own same so than too very s t d ll m o re ve y can will just don""".split()
)
MONTHS = tuple("january february march april may june july august september october november december".split())
_MONTH_OF = {name: number for number, name in enumerate(MONTHS, 1)} | {
    name[:length]: number for number, name in enumerate(MONTHS, 1) for length in (3, 4) if name != "may"
}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_DATES = (
    re.compile(r"\b(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?(?=\b|t\d)"),
    re.compile(
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<month>{_MONTH})\b\.?,?(?:\s+(?P<year>\d{{4}}))?"
    ),
    re.compile(rf"\b(?P<month>{_MONTH})\b\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year>\d{{4}}))?"),
    re.compile(rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?P<year>\d{{4}})\b"),
)
_WORD = re.compile(r"[^\W_]+")
_stemmer = snowballstemmer.stemmer("english")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word."""
    stemmed: str = _stemmer.stemWord(word)
    return stemmed


def content_words(text: str) -> set[str]:
    """The stems of the words that carry meaning, dates in one way of writing whichever was used."""
    plain = text.lower()
    for pattern in _DATES:
        plain = pattern.sub(_written_out, plain)
    return {stem(word) for word in _WORD.findall(plain) if word not in STOP_WORDS}


def _written_out(found: re.Match[str]) -> str:
    """`2023-05-07`, `May 7th, 2023`, `7 May 2023`: all are "7 may 2023"."""
    parts = found.groupdict()
    month = parts["month"]
    number = int(month) if month.isdigit() else _MONTH_OF[month]
    if not 1 <= number <= len(MONTHS):
        return found[0]
    day = str(int(parts["day"])) if parts.get("day") else ""
    return f" {day} {MONTHS[number - 1]} {parts.get('year') or ''} "


# -- differences


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the second is, question by question: the mean, and where 95 % of the resampled means lie."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired_bootstrap(
    before: Sequence[float], after: Sequence[float], rng: random.Random, rounds: int = 2000
) -> Difference:
    """Resample the questions with replacement (Efron 1979); both lists hold the same questions in the same order."""
    changes = [new - old for old, new in zip(before, after, strict=True)]
    if not changes:
        raise ValueError("no questions to compare")
    means = sorted(sum(rng.choices(changes, k=len(changes))) / len(changes) for _ in range(rounds))
    return Difference(
        sum(changes) / len(changes), means[int(0.025 * rounds)], means[min(rounds - 1, int(0.975 * rounds))]
    )


def wordpieces() -> CountTokens:
    """Count as all-MiniLM-L6-v2 does, without its two special tokens: independent of any estimate of the daemon's."""
    from importlib.resources import files

    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str((files("dreamd.store.text") / "data" / "minilm" / "tokenizer.json").read_text())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)

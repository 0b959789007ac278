"""Judging: what a later statement does to the earlier ones that are near it: repeats, replaces or disputes one.

Asked first is whether it brings anything new: restating what is known looks most like a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Final

from ..languages import phrases
from ..normal_form import normal_form
from ..replies import read_reply
from ..sentences import sentences_of
from .evidence import change_reasons, change_score, disputes, narrows, repeats
from .reading import LONGEST_CHARS, SENTENCES_MOST, Statement, read, sentences_read, shared
from .slots import other_value

CERTAIN: Final = 0.68
LIKELY: Final = 0.25
"""Scores from which a later statement replaces an earlier one, and from which it probably does."""

LIKELY_COSINE, LIKELY_WORDS = 0.38, 30
"""A later statement only probably replaces one that it is so near to, and if it is so short: what says much is near to
much. Chosen on 31 such pairs of eight people, of which 12 were right; of six others 4 of the 7 that are left are."""

CHANGED_MOST, DISPUTED_MOST = 2, 2
"""The earlier statements that one later replaces, surely or probably, and disputes, at most."""


class Relation(StrEnum):
    """The relation of a later statement to an earlier one."""

    SAME = "same"
    UPDATES = "updates"
    LATER = "later"
    CONTRADICTS = "contradicts"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An earlier statement of the same channel, and its cosine to the later one."""

    node_id: str
    text: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """The relation of the later statement to a candidate; `score` is 0 to 1."""

    node_id: str
    relation: Relation
    score: float


def judge(later: str, candidates: Sequence[Candidate]) -> list[Judgement]:
    """Judge a statement against earlier ones: changes, the surest first, and disputes, or else a repetition alone.

    A word that many candidates have says little about which of them is meant.
    """
    # A longer text is a note about many things: no sentence of it says that the whole holds no more, or again.
    if len(later) > LONGEST_CHARS or any(len(one.text) > LONGEST_CHARS for one in candidates):
        equal = [one for one in candidates if normal_form(one.text) == normal_form(later)]
        if equal:
            return [Judgement(equal[0].node_id, Relation.SAME, equal[0].cosine)]
        candidates = [] if len(later) > LONGEST_CHARS else [one for one in candidates if len(one.text) <= LONGEST_CHARS]
    repeated = [one for one in candidates if _repeats(one, later)]
    others = [one for one in candidates if one not in repeated]
    rarity = rarity_of(later, candidates)
    changed = sorted(
        ((_score(one, later, rarity), one.node_id) for one in others), key=lambda found: (-found[0], found[1])
    )
    cosines = {one.node_id: one.cosine for one in others}
    is_short = len(later.split()) <= LIKELY_WORDS
    found = [
        Judgement(node_id, Relation.UPDATES if score >= CERTAIN else Relation.LATER, score)
        for score, node_id in changed[:CHANGED_MOST]
        if score >= CERTAIN or (score >= LIKELY and is_short and cosines[node_id] >= LIKELY_COSINE)
    ]
    if repeated and not found:
        nearest = max(repeated, key=lambda one: one.cosine)
        return [Judgement(nearest.node_id, Relation.SAME, nearest.cosine)]
    known = {one.node_id for one in found}
    against = [one for one in others if one.node_id not in known and _disputes(one, later)]
    against.sort(key=lambda one: (-one.cosine, one.node_id))
    return found + [Judgement(one.node_id, Relation.CONTRADICTS, one.cosine) for one in against[:DISPUTED_MOST]]


def rarity_of(later: str, candidates: Sequence[Candidate]) -> Mapping[str, float]:
    """Map each stem of the later to 1 / the number of candidates that have it."""
    content = read(later).content
    spread = Counter(stem for one in candidates for stem in shared(content, read(one.text).content))
    return {stem: 1 / number for stem, number in spread.items()}


@lru_cache(maxsize=4096)
def _statements(text: str) -> tuple[Statement, ...]:
    """Return the sentences that are compared, read: of a reply its own, then what it accepts, which is open no more."""
    words, proposal = read_reply(text)
    found = [statement for _, statement in sentences_read(words)]
    if proposal and not phrases("speech.reject").match(words):
        found += [replace(read(sentence), is_open=False) for sentence in sentences_of(proposal)]
    return tuple(found[:SENTENCES_MOST])


def _repeats(one: Candidate, later: str) -> bool:
    if normal_form(one.text) == normal_form(later):
        return True
    return repeats(read(one.text), read(later), one.cosine)


def _score(one: Candidate, later: str, rarity: Mapping[str, float]) -> float:
    if read(later).is_change and _other_value(one.text, later):
        return 1.0
    pairs = list(product(_statements(one.text), _statements(later)))
    several = len(pairs) > 1
    return max(change_score(change_reasons(old, new, one.cosine, rarity, of_several=several)) for old, new in pairs)


def _other_value(earlier: str, later: str) -> bool:
    return other_value(earlier, later) and not narrows(read(earlier), read(later))


def _disputes(one: Candidate, later: str) -> bool:
    is_plain = not any(read(text).is_change or read(text).is_brief for text in (one.text, later))
    if is_plain and _other_value(one.text, later):
        return True
    pairs = list(product(_statements(one.text), _statements(later)))
    return any(disputes(old, new, one.cosine, of_several=len(pairs) > 1) for old, new in pairs)

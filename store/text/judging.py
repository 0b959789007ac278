"""Judging: the relation of a later statement to earlier ones near it: it repeats, replaces or disputes one, or none.

Similarity alone decides nothing ("purple" and "cyan" lie at cosine .96). A change needs a sign of one and a shared
subject; a dispute needs one span that differs in a frame that does not; a repetition needs equal values, negation and
names. In doubt there is no relation: where the later is a wish, a question or undone, or differs in its subject too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import product
from math import exp
from typing import Final

from ..limits import LONGEST_STATEMENT_CHARS, MOST_STATEMENT_SENTENCES
from .fence import holds_marks
from .languages import phrases
from .quotes import read_reply
from .sentences import sentences_of
from .statements import Statement, Value, other_value, read, sentences_read, shared
from .words import WORD, normal_form

FRAME_ALIKE: Final = 0.5
"""Share of two statements' content in common from which they are one frame, filled differently."""

FRAME_OF_SEVERAL: Final = 3
"""Content words in common from which sentences of longer statements are one frame; "Thanks, Maria!" has two."""

DISPUTED_FROM, REPEATED_FROM, NOTHING_NEW_FROM = 0.6, 0.8, 0.7
"""Cosines from which one differing span is a dispute, and two like statements one: lower where the later has no word
that the earlier has not."""

NEAR: Final = 0.5
"""Cosine from which two may have a subject in common that no word of both names ("they", "it")."""

RELATED_FROM: Final = 0.3
"""Cosine from which two may be related; random ones of one channel lie around .2."""

ONE_MATTER: Final = 0.45
"""Cosine from which two that have one word in common are of one matter, where nothing else speaks for it: the shop's
owner and the shop's database lie at .36, of the readers' pairs the changes from .48."""

BIAS: Final = -3.02
WEIGHTS: Final[Mapping[str, float]] = {
    "now": -1.03,
    "act": -0.69,
    "correction": -0.88,
    "ended": 1.41,
    "ended elsewhere": -2.22,
    "added": -0.86,
    "value": 2.22,
    "shared": -0.06,
    "head": 2.18,
    "cosine": 3.60,
    "news": 1.12,
    "known change": -2.90,
    "frame": -0.06,
    "names alone": -0.45,
    "same value": -1.78,
}
"""A logistic fit by tests/bench/state_fit.py, which measures it. Reasons lie in 0 to 1, `shared` in 0 to 2."""


def change_reasons(
    earlier: Statement, later: Statement, cosine: float, rarity: Mapping[str, float], *, of_several: bool = False
) -> dict[str, float] | None:
    """Return the reasons for and against a change, or None where none is spoken of.

    `rarity` of a stem lies in 0 to 1: how specific it is to this earlier statement; 1 where it is left out.
    `of_several`: the two are sentences among others, where names alone in common are chance, and so is all that has no
    value that differs and nothing that has ended.
    """
    # A statement about an end replaces one that is about the ended thing, not one that knew or denied it.
    ended = shared(later.ended - earlier.ended - earlier.denied, earlier.content)
    if all(stem.isdigit() for stem in shared(later.content, earlier.content)) or _ends_another(earlier, later):
        ended = ()  # "from 16 March to 24 March" ends no "Postgres 16"
    puts_right = _puts_right(earlier, later)
    says_change = later.is_now or later.is_act or later.is_correction or bool(ended) or puts_right
    doubtful = later.is_open or later.is_brief or earlier.is_open or later.is_undone
    if not says_change or doubtful or _speak_of_two(earlier, later) or narrows(earlier, later):
        return None
    # "60 days" and "40 days" have the unit in common, which is no subject.
    units = {value.unit for value in later.values}
    common = [stem for stem in shared(later.content, earlier.content) if stem not in units]
    opposed = _opposed(earlier, later)
    near = NEAR if not common else RELATED_FROM if ended or opposed else ONE_MATTER
    if len(common) < 2 and cosine < near:
        return None
    if not opposed and _ends_another(earlier, later):
        return None  # it says what is not so, and nothing of what is
    only_names = bool(common) and not ended and set(common) <= earlier.names | later.names
    if of_several and (only_names or not (ended or opposed)):
        return None
    weights = [rarity.get(stem, 1.0) for stem in common]
    rarest = max(weights, default=0.0)
    return {
        "now": later.is_now,
        "act": later.is_act,
        "correction": later.is_correction or puts_right,
        "ended": max((rarity.get(stem, 1.0) for stem in ended), default=0.0),
        "ended elsewhere": bool(later.ended) and not ended,
        "added": later.is_added,
        "value": rarest * opposed,
        "shared": min(2.0, sum(weights)),
        "head": rarest * (bool(shared(later.content[:1], earlier.content)) or _change_hands(earlier, later)),
        "cosine": cosine,
        "news": 1 - len(common) / max(1, len(later.content)),
        "known change": earlier.is_change and not opposed and _replaced(earlier, later) != 1,
        "frame": SequenceMatcher(None, earlier.words, later.words, autojunk=False).ratio(),
        "names alone": only_names,
        "same value": _says_the_value(earlier, later) and not opposed,
    }


def change_score(reasons: Mapping[str, float] | None) -> float:
    """Return how likely it is that the later replaces the earlier, 0 to 1."""
    if reasons is None:
        return 0.0
    return 1 / (1 + exp(-BIAS - sum(WEIGHTS[name] * value for name, value in reasons.items())))


def disputes(earlier: Statement, later: Statement, cosine: float, *, of_several: bool = False) -> bool:
    """Check for one frame that the two fill differently, or that only one of them denies, with no sign of a change.

    `of_several`: sentences among others, where a frame of less than FRAME_OF_SEVERAL words in common is chance.
    """
    common = shared(later.content, earlier.content)
    if of_several and len(common) < FRAME_OF_SEVERAL:
        return False
    if (
        cosine < DISPUTED_FROM
        or any(one.is_change or one.is_open or one.is_brief for one in (earlier, later))
        or later.is_added
    ):
        return False
    if earlier.is_negated != later.is_negated:
        if later.is_negated:
            return _denies(earlier, later)
        return not earlier.is_not_yet and _denies(later, earlier)
    lost, news = _unshared(earlier.content, later.content), _unshared(later.content, earlier.content)
    if not lost or not news or max(len(lost), len(news)) > 2 or _says_the_value(earlier, later):
        return False
    if _speak_of_two(earlier, later) or narrows(earlier, later):
        return False
    at_the_end = earlier.content[-1] in lost and later.content[-1] in news
    if not at_the_end and not _opposed(earlier, later) and not set(lost) | set(news) <= earlier.names | later.names:
        return False  # "serves the museum" and "fronts the museum": another verb
    same_head = bool(shared(earlier.content[:1], later.content[:1]))
    named = bool(set(common) & (earlier.names | later.names))
    return same_head and (len(lost) + len(news) == 2 or len(common) > 1 or named)


def may_share_subject(earlier: Statement, later: Statement, cosine: float) -> bool:
    """Check for a word in common, or nearness in meaning: without either no claim of a relation is believed."""
    if later.is_open or later.is_brief or earlier.is_open or later.is_undone:
        return False
    return bool(shared(later.content, earlier.content)) or cosine >= RELATED_FROM


def may_be_same(earlier: Statement, later: Statement, cosine: float) -> bool:
    """Check that nothing in the words forbids two statements to say the same."""
    return cosine >= RELATED_FROM and not later.is_added and not _opposed(earlier, later)


def narrows(earlier: Statement, later: Statement) -> bool:
    """Check that the later begins with a part of which the earlier does not speak: "on staging the limit is 8"."""
    begins = set(later.content[:1]) - {value.word for value in later.values}  # "on Monday" says when
    return later.is_within and bool(begins) and not shared(begins, earlier.content)


def _denies(one: Statement, denying: Statement) -> bool:
    """Check that the words of a denial are for the most part those of the other, and the other way round."""
    denied = shared(denying.denied, one.content)
    apart = len(_unshared(one.content, denying.content))
    return bool(denied) and 2 * len(denied) >= len(denying.denied) and 2 * apart <= len(one.content)


def repeats(earlier: Statement, later: Statement, cosine: float) -> bool:
    """Check that the later brings nothing new: no value, negation, name or frame differs."""
    if earlier.is_negated != later.is_negated or earlier.is_open or later.is_open or later.is_brief or later.is_added:
        return False
    lost, news = _unshared(earlier.content, later.content), _unshared(later.content, earlier.content)
    if _trade_places(earlier, later):
        return False
    # A name that differs is another thing, unless the earlier said that it has ended.
    others = {*lost, *news} - earlier.ended
    if later.is_undone or others & (earlier.names | later.names) or not _values_agree(earlier, later):
        return False
    common = shared(later.content, earlier.content)
    heads = shared(earlier.content[:1], later.content) or shared(later.content[:1], earlier.content)
    if not heads or (len(common) < 2 and (lost or news)):
        return False
    if not news:  # whatever sign of a change it has: what it says is known
        return cosine >= NOTHING_NEW_FROM
    if later.is_change != earlier.is_change or disputes(earlier, later, cosine):
        return False
    adds = not lost and not earlier.is_change
    other_verb = len(lost) == len(news) == 1  # "likes tea" and "hates tea" are near, too
    return cosine >= REPEATED_FROM and not adds and not other_verb and 2 * len(news) <= len(later.content)


def _trade_places(earlier: Statement, later: Statement) -> bool:
    """Return True for two words that trade places: "tabs, not spaces" and "spaces, not tabs".

    Neighbours that are not both names say the same: "answer always" and "always answer".
    """
    if len(earlier.words) != len(later.words):
        return False
    # The same words in another order: who does it to whom has changed.
    both = enumerate(zip(earlier.words, later.words, strict=True))
    moved = [(place, *pair) for place, pair in both if pair[0] != pair[1]]
    if len(moved) != 2 or moved[0][1:] != moved[1][:0:-1]:
        return False
    (first, *pair), (second, *_) = moved
    return second - first > 1 or {*pair} <= earlier.names | later.names


def _unshared(stems: Sequence[str], others: Sequence[str]) -> list[str]:
    found = set(shared(stems, others))
    return [stem for stem in stems if stem not in found]


def _speak_of_two(earlier: Statement, later: Statement) -> bool:
    """Check for a frame that differs in two places: a value changed, and so did whose it is."""
    heads = {*earlier.frame[:1]}, {*later.frame[:1]}
    named = all(head and head <= one.names for head, one in zip(heads, (earlier, later), strict=True))
    if named and not shared(heads[0], later.content) and not shared(heads[1], earlier.content):
        return not _change_hands(earlier, later)
    return _replaced(earlier, later) > 1


def _replaced(earlier: Statement, later: Statement) -> int:
    """Return the number of spans of a frame that the two fill differently; 0 where they are no one frame.

    An ended value fills none: "keep 21 instead of 14" has one value.
    """
    # Without `autojunk`: it would drop the words that are frequent in a long statement.
    frames = SequenceMatcher(None, _filled(earlier), _filled(later), autojunk=False)
    if frames.ratio() < FRAME_ALIKE:
        return 0
    return sum(tag == "replace" for tag, *_ in frames.get_opcodes())


def _filled(statement: Statement) -> list[str]:
    return [stem for stem in statement.frame if stem not in statement.ended]


def _change_hands(earlier: Statement, later: Statement) -> bool:
    """Check for one frame with another name at its head: "Ana is our manager", "Tom is our manager now"."""
    if not {*earlier.frame[:1]} <= earlier.names or not {*later.frame[:1]} <= later.names:
        return False
    return len(earlier.frame) > 1 and earlier.frame[1:] == later.frame[1:]


def _opposed(earlier: Statement, later: Statement) -> bool:
    """Check for a value in each that the other does not have, of one sort and unit, and that the later asserts."""
    return any(
        old.opposes(new)
        for old in earlier.values
        for new in later.values
        if not _holds_in(old, later) and not _said_in(new, earlier) and _holds_in(new, later)
    )


def _ends_another(earlier: Statement, later: Statement) -> bool:
    """Check that the later ends or denies a value in the place of the earlier's: "not 60 now" ends no 40."""
    over = [value for value in later.values if not _holds_in(value, later)]
    return any(old.opposes(value) for old in earlier.values for value in over) and not any(
        _said_in(value, earlier) for value in over
    )


def _says_the_value(earlier: Statement, later: Statement) -> bool:
    """Check for a value of the earlier that the later says too, and not as one that ended or is denied."""
    return any(_holds_in(value, later) for value in earlier.values)


def _holds_in(value: Value, statement: Statement) -> bool:
    return _said_in(value, statement) and value.word not in statement.ended | statement.denied


def _puts_right(earlier: Statement, later: Statement) -> bool:
    """Check for a value of the earlier that the later denies, and another in its place: "24 hours, not 2 hours"."""
    return _opposed(earlier, later) and any(value.word in later.denied for value in earlier.values)


def _said_in(value: Value, statement: Statement) -> bool:
    return any((value.sort, value.said) == (other.sort, other.said) for other in statement.values)


def _values_agree(earlier: Statement, later: Statement) -> bool:
    """Return True if each says the other's values; a later one that repeats a change may leave the old value out."""
    new = all(_said_in(value, earlier) for value in later.values)
    return new and (earlier.is_change or all(_said_in(value, later) for value in earlier.values))


CERTAIN: Final = 0.68
LIKELY: Final = 0.25
"""Scores from which a later statement replaces an earlier one, and from which it probably does."""

LIKELY_COSINE, LIKELY_WORDS = 0.38, 30
"""A later statement only probably replaces one that it is so near to, and if it is so short: a long text is near to
many. Chosen on 31 such pairs of eight people, of which 12 were right; of six others 4 of the 7 that are left are."""

CHANGED_MOST, DISPUTED_MOST = 2, 2
"""The earlier statements that one later replaces, surely or probably, and disputes, at most."""


class Relation(StrEnum):
    """The relation of a later statement to an earlier one."""

    SAME = "same"
    UPDATES = "updates"
    LATER = "later"
    CONTRADICTS = "contradicts"


@dataclass(frozen=True, slots=True)
class EarlierStatement:
    """An earlier statement of the same channel, and its cosine to the later one."""

    node_id: str
    text: str
    cosine: float


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """The relation of the later statement to a candidate; `score` is 0 to 1."""

    node_id: str
    relation: Relation
    score: float


def judge(later: str, candidates: Sequence[EarlierStatement]) -> list[FoundRelation]:
    """Judge a statement against earlier ones: changes, the surest first, and disputes, or else a repetition alone.

    A word that many candidates have says little about which of them is meant.
    """
    # A longer text is a note about many things: no sentence of it says that the whole holds no more, or again.
    if len(later) > LONGEST_STATEMENT_CHARS or any(len(one.text) > LONGEST_STATEMENT_CHARS for one in candidates):
        equal = [one for one in candidates if normal_form(one.text) == normal_form(later)]
        if equal:
            return [FoundRelation(equal[0].node_id, Relation.SAME, equal[0].cosine)]
        short = [one for one in candidates if len(one.text) <= LONGEST_STATEMENT_CHARS]
        candidates = short if len(later) <= LONGEST_STATEMENT_CHARS else []
    repeated = [one for one in candidates if _repeats(one, later)]
    others = [one for one in candidates if one not in repeated]
    rarity = rarity_of(later, candidates)
    changed = sorted(
        ((_score(one, later, rarity), one.node_id) for one in others), key=lambda found: (-found[0], found[1])
    )
    cosines = {one.node_id: one.cosine for one in others}
    is_short = len(later.split()) <= LIKELY_WORDS
    found = [
        FoundRelation(node_id, Relation.UPDATES if score >= CERTAIN else Relation.LATER, score)
        for score, node_id in changed[:CHANGED_MOST]
        if score >= CERTAIN or (score >= LIKELY and is_short and cosines[node_id] >= LIKELY_COSINE)
    ]
    # A change outweighs a repetition: "Postgres 16 now, on the same host" repeats the host and changes the version.
    if repeated and not found:
        nearest = max(repeated, key=lambda one: one.cosine)
        return [FoundRelation(nearest.node_id, Relation.SAME, nearest.cosine)]
    # The later cannot both replace a statement and dispute it.
    known = {one.node_id for one in found}
    against = [one for one in others if one.node_id not in known and _disputes(one, later)]
    against.sort(key=lambda one: (-one.cosine, one.node_id))
    return found + [FoundRelation(one.node_id, Relation.CONTRADICTS, one.cosine) for one in against[:DISPUTED_MOST]]


def rarity_of(later: str, candidates: Sequence[EarlierStatement]) -> Mapping[str, float]:
    """Map each stem of the later to 1 / the number of candidates that have it."""
    content = read(later).content
    spread = Counter(stem for one in candidates for stem in shared(content, read(one.text).content))
    return {stem: 1 / number for stem, number in spread.items()}


@lru_cache(maxsize=4096)
def _statements(text: str) -> tuple[Statement, ...]:
    """Return the sentences that are compared, read: of a reply its own, then the accepted ones, no longer open."""
    words, proposal = read_reply(text)
    found = [statement for _, statement in sentences_read(words)]
    if proposal and not phrases("speech.reject").match(words):
        found += [replace(read(sentence), is_open=False) for sentence in sentences_of(proposal)]
    return tuple(found[:MOST_STATEMENT_SENTENCES])


def _repeats(one: EarlierStatement, later: str) -> bool:
    if normal_form(one.text) == normal_form(later):
        return True
    return repeats(read(one.text), read(later), one.cosine)


def _score(one: EarlierStatement, later: str, rarity: Mapping[str, float]) -> float:
    if read(later).is_change and _other_value(one.text, later):
        return 1.0
    pairs = list(product(_statements(one.text), _statements(later)))
    # The best pair of sentences decides: a note may change one thing and repeat the others.
    several = len(pairs) > 1
    return max(change_score(change_reasons(old, new, one.cosine, rarity, of_several=several)) for old, new in pairs)


def _other_value(earlier: str, later: str) -> bool:
    return other_value(earlier, later) and not narrows(read(earlier), read(later))


def _disputes(one: EarlierStatement, later: str) -> bool:
    is_plain = not any(read(text).is_change or read(text).is_brief for text in (one.text, later))
    if is_plain and _other_value(one.text, later):
        return True
    pairs = list(product(_statements(one.text), _statements(later)))
    return any(disputes(old, new, one.cosine, of_several=len(pairs) > 1) for old, new in pairs)


# ---- a line after a change

LONGEST_LINE: Final = 200
"""Characters of a quote that takes the place of a line; a longer one is told by its sentences that are about it."""


def line_after(line: str, said: str) -> str | None:
    """Return a line of a file as a later statement has it: with the new value in it, or else the words said.

    None where these would not stand alone: they share no word with the line, or are too long.
    """
    if (changed := value_changed(line, said)) is not None:
        return changed
    words, _ = read_reply(said)
    content = read(line).content
    quote = " ".join(words.split())
    if len(quote) > LONGEST_LINE:
        about = [text for text, one in sentences_read(words) if shared(one.content, content)]
        quote = " ".join(" ".join(about).split())
    if not 0 < len(quote) <= LONGEST_LINE or holds_marks(quote) or not shared(read(quote).content, content):
        return None
    return quote if quote[-1] in ".!?…:;" or line.rstrip()[-1:] != "." else f"{quote}."


def value_changed(line: str, said: str) -> str | None:
    """Return a line with the one value replaced in which a later statement differs; None if it differs in more.

    Of "a parcel has 30 kg at most" and "a van has 900 kg at most" none says the other's value.
    """
    words, _ = read_reply(said)
    earlier, later = read(line), [one for _, one in sentences_read(words)]
    opposed = set(_opposed_in(earlier, later))
    kept = [value for value in earlier.values if any(_holds_in(value, one) for one in later)]
    if len(opposed) != 1 or len(earlier.values) != len(kept) + 1:
        return None
    ((old, new),) = opposed
    known = {old.word, old.unit, *(stem for one in later for stem in one.content)}
    there, here = (_written(value, text) for value, text in ((old, line), (new, words)))
    if len(shared(earlier.content, known)) < len(earlier.content) or len(there) != 1 or not here:
        return None
    start, end = there[0].span()
    return f"{line[:start]}{here[0][0]}{line[end:]}"


def differ_in_a_value(line: str, said: str) -> bool:
    """Return True if a statement has another value of a sort that a line has."""
    return any(_opposed_in(read(line), [one for _, one in sentences_read(read_reply(said)[0])]))


def _opposed_in(earlier: Statement, later: Sequence[Statement]) -> Iterator[tuple[Value, Value]]:
    """Yield the values of an earlier statement with those that a later one asserts in their place."""
    for one in later:
        for old, new in product(earlier.values, one.values):
            if old.opposes(new) and _holds_in(new, one) and not _said_in(new, earlier):
                yield old, new


def _written(value: Value, text: str) -> list[re.Match[str]]:
    """Return where a value stands in a text, as it is written there."""
    return [
        found
        for found in WORD.finditer(text)
        if any((one.sort, one.said) == (value.sort, value.said) for one in read(found[0]).values)
    ]

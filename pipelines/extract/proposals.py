"""Proposals: what a short reply accepts, chooses, answers or refuses, quoted from the turn before it.

"option 2", "ok do that" and "sí" are decisions only together with what was proposed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from ...store.text.languages import languages, phrases, table
from ...store.text.sentences import Sentence, joined_as_one, on_one_line, side_by_side, split
from ...store.text.stems import stems_of
from .passages import SHORT_WORDS
from .places import Place, Speaker
from .signs import content_words, is_question, opens, without_greeting

FEW_WORDS = 8
"""A reply of so few words among people says nothing without the question."""

_ITEM = re.compile(
    r"(?:^|(?<=\s))(?:\d{1,2}|[a-dA-D])[.)]\s+(?P<text>\S.*?)(?=[,;]?\s+(?:\d{1,2}|[a-dA-D])[.)]\s|\n\s*\n|\Z)", re.S
)


class Reply(StrEnum):
    """The sorts of reply to a turn."""

    ACCEPTED = "accepted"
    CHOSEN = "chosen"
    REFUSED = "refused"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The words that a turn replies to, and the sort of reply."""

    text: str
    reply: Reply


_OF_JUDGE = {
    "accept": Reply.ACCEPTED,
    "accept_part": Reply.ACCEPTED,
    "reject": Reply.REFUSED,
    "correct": Reply.ANSWERED,
    "answer": Reply.ANSWERED,
}
"""The replies that say nothing without what they reply to."""


def replied_to(place: Place, reply: str) -> Proposal | None:
    """Return what a turn accepts, chooses, refuses or answers; None where it stands for itself.

    `reply` is the judge's word for how it answers the turn before.
    """
    before = place.before
    if before is None or place.speaker is Speaker.ASSISTANT or not place.sentences:
        return None
    if place.speaker is Speaker.PEER:
        return _asked(place, before)
    if (number := _chosen(without_greeting(place.sentences[0]))) and (item := _option(before.text, number)):
        return Proposal(item, Reply.CHOSEN)
    kind = _OF_JUDGE.get(reply)
    proposed = _proposed(before, place.text) if kind else ""
    return Proposal(proposed, kind) if kind and proposed else None


def _asked(place: Place, before: Place) -> Proposal | None:
    """Return the question that a few words between people answer."""
    asked = before.sentences[-1] if before.sentences else ""
    few = sum(len(sentence.split()) for sentence in place.sentences) <= FEW_WORDS
    return Proposal(asked, Reply.ANSWERED) if few and asked.endswith("?") else None


def _chosen(opening: str) -> int | None:
    """Return the number of the option that a reply names: "b", "option 2", "sure, the second"; -1 is the last."""
    rest = opening
    if opens("speech.accept", rest):
        rest = re.sub(r"^[\s,.!:]+", "", phrases("speech.accept").sub("", rest, count=1))
    match = re.match(r"(?:[^\W\d]{2,8}\.? )?(?P<named>\d|[a-dA-D]|[^\W\d]{3,8})(?=$|[\s]*[,.;:!)])", rest)
    if match is None:
        return None
    named = match["named"].lower()
    if named.isdigit():
        return int(named)
    if len(named) == 1:
        return ord(named) - ord("a") + 1
    return next(
        (table(code, "speech.ordinals")[named] for code in languages() if named in table(code, "speech.ordinals")), None
    )


def _option(text: str, number: int) -> str | None:
    """Return an option of a list or of a sentence ("1. …, 2. …"), after the sentence that leads to the options."""
    opening = re.split(r"^#{1,6} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    listed = list(_ITEM.finditer(opening))
    if len(listed) < max(2, number):
        return None
    leads = split(opening[: listed[0].start()])
    item = listed[number - 1]
    chosen = on_one_line(item["text"])
    if not leads:
        return chosen
    return side_by_side(on_one_line(leads[-1].text), opening[leads[-1].end : item.start("text")], chosen)


def _proposed(before: Place, reply: str) -> str:
    """Return the last question of a turn, or its first proposal with what explains it.

    Where the reply names nothing of a proposal, but of another sentence, that one is meant.
    """
    opening: list[Sentence] = []
    for sentence in split(before.text):
        if sentence.shape == "heading":
            break
        opening.append(sentence)
    pieces = [one for one in opening if one.shape in {"prose", "item"}]
    said = [on_one_line(one.text) for one in pieces]
    if not said:
        return ""
    at = next((at for at, one in enumerate(said) if phrases("speech.proposal").search(one)), None)
    if said[-1].endswith("?"):
        at = len(said) - 1
    if at is not None and phrases("speech.moment").match(said[at]):
        return ""
    if at is None:
        return ""
    if at and is_question(said[at - 1]):
        at -= 1
    named = stems_of(content_words(reply))
    shares = [len(named & stems_of(content_words(one))) for one in said]
    is_unnamed = not any(shares[at : at + _explained(said[at:])])
    if is_unnamed and any(shares) and not is_question(said[-1]):
        at = shares.index(max(shares))
    return joined_as_one(pieces[at : at + _explained(said[at:])], before.text).text


def _explained(said: Sequence[str]) -> int:
    """Return how many sentences there is room for, the first of them in any case."""
    words = list(accumulate(len(one.split()) for one in said))
    return max(1, sum(number <= SHORT_WORDS for number in words))

"""Proposals: what a short reply accepts, chooses, answers or refuses, quoted from the turn before it.

"option 2", "ok do that" and "sí" are decisions only together with what was proposed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from ...store.text.languages import languages, phrases, table
from ...store.text.sentences import Sentence, joined_as_one, on_one_line, side_by_side, split
from ...store.text.words import stems_of, words_of_turn
from .passages import SHORT_WORDS
from .places import Place, Speaker
from .signs import FEW_CONTENT, is_question, opens, without_greeting

FEW_WORDS = 8
"""A reply of so few words says nothing without what it replies to."""

_ITEM = re.compile(
    r"(?:^|(?<=\s))(?:\d{1,2}|[a-dA-D])[.)]\s+(?P<text>\S.*?)(?=[,;]?\s+(?:\d{1,2}|[a-dA-D])[.)]\s|\n\s*\n|\Z)", re.S
)


LEANING = frozenset(("accept", "accept_part", "reject", "correct", "answer"))
CORRECTS = "correct"
"""The judge's words for replies that say nothing without what they reply to, and for the one to a claim."""


def replied_to(place: Place, reply: str) -> str:
    """Return the words that a turn accepts, chooses, refuses or answers; "" where it stands for itself.

    `reply` is the judge's word for how it answers the turn before.
    """
    before = place.before
    if before is None or place.speaker is Speaker.ASSISTANT or not place.sentences:
        return ""
    if place.speaker is Speaker.PEER:
        return _asked(place, before)
    if (number := _chosen(without_greeting(place.sentences[0]))) and (item := _option(before.text, number)):
        return item
    if reply not in LEANING:
        return ""
    return _proposed(before, place.text) or (_meant(before, place.text) if reply == CORRECTS else "")


def is_bare(place: Place, reply: str) -> bool:
    """Check for a few words that say nothing where what they reply to is not found: "do it", "remove the first two"."""
    is_few = reply in LEANING and len(place.text.split()) <= FEW_WORDS
    return place.speaker is not Speaker.ASSISTANT and (is_few or len(words_of_turn(place.text)) < FEW_CONTENT)


def _asked(place: Place, before: Place) -> str:
    """Return the question that a few words between people answer."""
    asked = before.sentences[-1] if before.sentences else ""
    few = sum(len(sentence.split()) for sentence in place.sentences) <= FEW_WORDS
    return asked if few and asked.endswith("?") else ""


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
    if at and (is_question(said[at - 1]) or len(words_of_turn(said[at])) < FEW_CONTENT):
        at -= 1
    named = stems_of(words_of_turn(reply))
    shares = [len(named & stems_of(words_of_turn(one))) for one in said]
    is_unnamed = not any(shares[at : at + _explained(said[at:])])
    if is_unnamed and any(shares) and not is_question(said[-1]):
        at = shares.index(max(shares))
    return joined_as_one(pieces[at : at + _explained(said[at:])], before.text).text


def _meant(before: Place, reply: str) -> str:
    """Return the sentence of a turn that a few words put right: the one that shares most with them, else the last."""
    said = before.sentences if len(reply.split()) <= FEW_WORDS else ()
    named = stems_of(words_of_turn(reply))
    return max(reversed(said), key=lambda one: len(named & stems_of(words_of_turn(one))), default="")


def _explained(said: Sequence[str]) -> int:
    """Return how many sentences there is room for, the first of them in any case."""
    words = list(accumulate(len(one.split()) for one in said))
    return max(1, sum(number <= SHORT_WORDS for number in words))

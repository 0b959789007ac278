"""Replies: the sentences of the turn before that a short reply accepts, chooses, answers or refuses.

"option 2", "ok do that" and "sí" are decisions only together with the proposal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, takewhile

from ...store.text.languages import languages, phrases, table
from ...store.text.sentences import joined_as_one, on_one_line, side_by_side, split
from ...store.text.words import stems_of, words_of_turn
from .contexts import Speaker, TurnContext
from .passages import SHORT_WORDS
from .worth import FEW_CONTENT, is_question, opens, without_greeting

# Largest number of words of a reply that cannot be understood alone.
FEW_WORDS = 8

_ITEM = re.compile(
    r"(?:^|(?<=\s))(?:\d{1,2}|[a-dA-D])[.)]\s+(?P<text>\S.*?)(?=[,;]?\s+(?:\d{1,2}|[a-dA-D])[.)]\s|\n\s*\n|\Z)", re.S
)


LEANING = frozenset(("accept", "accept_part", "reject", "correct", "answer"))
CORRECTS = "correct"
"""The judge's labels for replies that depend on the turn before, and for the correction of a claim."""


def replied_to(context: TurnContext, reply: str) -> str:
    """Return the sentences that a turn replies to; "" where it can be understood alone.

    `reply` is the judge's label for the relation to the turn before.
    """
    before = context.before
    if before is None or context.speaker is Speaker.ASSISTANT or not context.sentences:
        return ""
    if context.speaker is Speaker.PEER:
        return _asked(context, before)
    if (number := _chosen(without_greeting(context.sentences[0]))) and (item := _option(before.text, number)):
        return item
    if reply not in LEANING:
        return ""
    return _proposed(before, context.text) or (_meant(before, context.text) if reply == CORRECTS else "")


def is_bare(context: TurnContext, reply: str) -> bool:
    """Check for a reply that is too short to be kept without the proposal: "do it", "remove the first two"."""
    # After the calls of tools alone there is no claim to correct: "pnpm, not npm" says it all.
    is_whole = reply == CORRECTS and (context.before is None or not context.before.sentences)
    is_few = reply in LEANING and not is_whole and len(context.text.split()) <= FEW_WORDS
    return context.speaker is not Speaker.ASSISTANT and (is_few or len(words_of_turn(context.text)) < FEW_CONTENT)


def _asked(context: TurnContext, before: TurnContext) -> str:
    """Return the question that a short answer among people refers to."""
    asked = before.sentences[-1] if before.sentences else ""
    few = sum(len(sentence.split()) for sentence in context.sentences) <= FEW_WORDS
    return asked if few and asked.endswith("?") else ""


def _chosen(opening: str) -> int | None:
    """Return the number of the option that a reply names: "b", "option 2", "sure, the second"; -1 is the last."""
    rest = opening
    # "sure, the second": the acceptance is cut off, and the word behind it names the option.
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
    # Options come before the first heading; plans and reports follow below it.
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


def _proposed(before: TurnContext, reply: str) -> str:
    """Return the last question of a turn, or its first proposal and its explanation.

    Where the reply shares words with another sentence and none with the proposal, that sentence is returned.
    """
    opening = takewhile(lambda one: one.shape != "heading", split(before.text))
    pieces = [one for one in opening if one.shape in {"prose", "item"}]
    said = [on_one_line(one.text) for one in pieces]
    if not said:
        return ""
    at = next((at for at, one in enumerate(said) if phrases("speech.proposal").search(one)), None)
    if said[-1].endswith("?"):
        at = len(said) - 1
    if at is None or phrases("speech.moment").match(said[at]):
        return ""
    # "Shall I use Postgres? Or SQLite?" and "The tests fail. Fix them?" are understood only with the sentence before.
    if at and (is_question(said[at - 1]) or len(words_of_turn(said[at])) < FEW_CONTENT):
        at -= 1
    named = stems_of(words_of_turn(reply))
    shares = [len(named & stems_of(words_of_turn(one))) for one in said]
    is_unnamed = not any(shares[at : at + _explained(said[at:])])
    if is_unnamed and any(shares) and not is_question(said[-1]):
        at = shares.index(max(shares))
    return joined_as_one(pieces[at : at + _explained(said[at:])], before.text).text


def _meant(before: TurnContext, reply: str) -> str:
    """Return the sentence of a turn that a short reply corrects: the one that shares most words, else the last."""
    said = before.sentences if len(reply.split()) <= FEW_WORDS else ()
    named = stems_of(words_of_turn(reply))
    return max(reversed(said), key=lambda one: len(named & stems_of(words_of_turn(one))), default="")


def _explained(said: Sequence[str]) -> int:
    """Return the number of sentences within SHORT_WORDS words, at least 1."""
    words = list(accumulate(len(one.split()) for one in said))
    return max(1, sum(number <= SHORT_WORDS for number in words))

"""Facts: the turns of a session, read in their places, to quotes worth keeping, with the keys that stand beside them.

A quote is whole sentences of one turn, word for word. What accepts, chooses, refuses or answers takes along what it
replies to, marked as a quotation (">"), so that it can be understood alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from ...store.judges.judge import Judgement
from ...store.model import NodeId, Turn
from ...store.text.quotes import write_reply
from ...store.text.sentences import start_of_item
from ...store.text.words import words_of_turn
from .classify import DONE, FactAttributes, attributes_of, by_words
from .keys import Names, days_of
from .passages import Passage, joined, passages_of
from .places import Place, Speaker, judged, places_of
from .proposals import is_bare, replied_to
from .signs import opens
from .worth import worth_of

MOST_OF_TURN = {Speaker.USER: 2, Speaker.PEER: 2, Speaker.ASSISTANT: 1}
"""Facts that are kept of one turn, those of most worth; the turn itself stays findable."""

ENOUGH = {Speaker.USER: 0.5, Speaker.ASSISTANT: 0.7}
"""Least worth of a turn of which something is kept."""

FEWEST_FOUND = 4
"""Words with a meaning of their own in what an assistant found: "I found the issue!" has fewer."""

TRIMMED = 0.5
"""Of the worth of an assistant's best sentence: the least of those at either end of a quote. It tells what it does
next ("Let me check …") in the same breath as what it found."""

NEARLY = 0.2
"""Least worth of what a language model may keep beside it."""

REFUTED = 0.3
"""Probability from which an assistant's claim is one that its person put right, and makes no fact."""

REPLY_WORTH = 1.0
"""Worth of an answer among people beside its words: it was asked for."""

PUTS_RIGHT = frozenset({"correct", "reject"})
"""The replies after which what was said before them makes no fact by itself; they tell it where they are kept."""

SHARE = 0.6
"""Of the worth of a turn's best passage: the least of another that is kept."""


_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s")


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact before it is a file. `sources` are node ids of turns, the one that states it first."""

    text: str
    attributes: FactAttributes
    sources: tuple[NodeId, ...]
    at: datetime | None
    said_by: str = ""
    about: tuple[str, ...] = ()
    days: tuple[date, ...] = ()
    worth: float = 0.0
    by_model: bool = False
    """True if a language model chose it."""


def drafts_of(turns: Sequence[Turn], new_from: int = 1) -> list[Draft]:
    """Return the facts of the turns from ordinal `new_from` on; the turns before are context."""
    places = places_of(turns)
    names = Names(places)
    judgements = judged(places, new_from)
    new = [(at, place) for at, place in enumerate(places) if place.turn.ordinal >= new_from]
    put_right = {id(place.before) for at, place in new if at in judgements and judgements[at].reply in PUTS_RIGHT}
    return [
        draft
        for at, place in new
        if id(place) not in put_right
        for draft in (_of_turn(place, judgements[at], names) if at in judgements else _among_people(place, names))
    ]


def draft_of(text: str, place: Place, names: Names, judgement: Judgement | None = None, proposal: str = "") -> Draft:
    """Return a quote of a turn as a draft, with the `proposal` that it replies to; `judgement` is None among people."""
    body = text
    sources: tuple[NodeId, ...] = (place.turn.node_id,)
    if proposal and place.before:
        body, sources = write_reply(text, proposal), (place.turn.node_id, place.before.turn.node_id)
    return Draft(
        body,
        attributes_of(text, place, judgement) if judgement else by_words(text, place),
        sources,
        place.turn.at,
        place.turn.role,
        names.in_text(body),
        days_of(text, place.turn.at.date() if place.turn.at else None),
        judgement.worth if judgement else ENOUGH[Speaker.USER],
    )


def _of_turn(place: Place, judgement: Judgement, names: Names) -> Iterator[Draft]:
    """Yield what is kept of a turn between a person and an assistant."""
    if judgement.worth < ENOUGH[place.speaker] or judgement.refuted >= REFUTED or judgement.kind == DONE:
        return
    if not (passages := passages_of(place)):
        return
    if proposal := replied_to(place, judgement.reply):
        yield draft_of(passages[0].text, place, names, judgement, proposal)
        passages = passages[1:]
    elif is_bare(place, judgement.reply):
        return
    worths = {passage: judgement.worth_of(passage.spans) for passage in passages}
    least = NEARLY if proposal else 0.0
    for run in _best_runs(
        passages, worths, least, SHARE * max(worths.values(), default=0.0), MOST_OF_TURN[place.speaker]
    ):
        quote = joined(run)
        found = _found(quote, judgement) if place.speaker is Speaker.ASSISTANT else quote
        if found is not None:
            yield draft_of(found.text, place, names, judgement)


def _found(quote: Passage, judgement: Judgement) -> Passage | None:
    """Return an assistant's quote without the sentences at its ends that are worth much less than its best one.

    It begins with a sentence that says something by itself; None where there is none, or too little is left.
    """
    worths = [judgement.worth_of([span]) for span in quote.spans]
    least = TRIMMED * max(worths)
    kept = [at for at, worth in enumerate(worths) if worth >= least]
    first = kept[0]
    while first and _leans(quote, first):
        first -= 1
    found = Passage(quote.source, quote.spans[first : kept[-1] + 1])
    return None if _leans(quote, first) or len(words_of_turn(found.text)) < FEWEST_FOUND else found


def _leans(quote: Passage, number: int) -> bool:
    """Check that a sentence of a quote goes on with what stands before it: an item of a list, "It is called …"."""
    text = quote.source[slice(*quote.spans[number])]
    is_item = number > 0 and start_of_item(quote.source, quote.spans[number][0]) < quote.spans[number][0]
    return is_item or _ITEM.match(text) is not None or opens("speech.leaning", text)


def _among_people(place: Place, names: Names) -> Iterator[Draft]:
    """Yield what is kept, by signs, of what people say to each other; a few words with their question."""
    passages = passages_of(place)
    proposal = replied_to(place, "")
    if passages and proposal and worth_of(passages[0].text, place) + REPLY_WORTH >= 0:
        yield draft_of(passages[0].text, place, names, None, proposal)
        passages = passages[1:]
    worths = {passage: worth_of(passage.text, place) for passage in passages}
    for run in _best_runs(passages, worths, 0.0, 0.0, MOST_OF_TURN[place.speaker]):
        yield draft_of(joined(run).text, place, names)


def _best_runs(
    passages: Sequence[Passage], worths: Mapping[Passage, float], least: float, share: float, most: int
) -> list[list[Passage]]:
    """Return the runs of passages that are worth enough, of more than `most` the best, in the order of the turn."""
    kept = [passage for passage in passages if worths[passage] >= max(least, share)]
    runs = sorted(_runs(passages, kept), key=lambda run: -max(worths[passage] for passage in run))
    return sorted(runs[:most], key=lambda run: run[0].start)


def _runs(passages: Sequence[Passage], kept: Sequence[Passage]) -> Iterator[list[Passage]]:
    """Yield the kept passages, those together that follow each other."""
    run: list[Passage] = []
    for passage in passages:
        if passage in kept:
            run.append(passage)
        elif run:
            yield run
            run = []
    if run:
        yield run

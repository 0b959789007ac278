"""Facts: the turns of a session, read in their places, to quotes worth keeping, with the keys that stand beside them.

A quote is whole sentences of one turn, word for word. What accepts, chooses, refuses or answers takes along what it
replies to, marked as a quotation (">"), so that it can be understood alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from ...store.model import NodeId, Turn
from ...store.text.replies import write_reply
from .classify import FactAttributes, classify
from .denials import denied_by
from .keys import Names, days_of
from .passages import Passage, joined, passages_of
from .places import Place, Speaker, places_of
from .proposals import Proposal, Reply, replied_to
from .signs import signs_of
from .worth import worth_of

MOST_OF_TURN = {Speaker.USER: 2, Speaker.PEER: 2, Speaker.ASSISTANT: 1}
"""Facts that are kept of one turn, those of most worth; the turn itself stays findable."""

LONGEST_REPORT_WORDS = 120
"""Words of an assistant's report that are kept together."""

REPLY_WORTH = 1.0
"""Worth of a decision beside its words: it was asked for."""


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
    by_model: bool = False
    """True if a language model chose it."""


def drafts_of(turns: Sequence[Turn], new_from: int = 1) -> list[Draft]:
    """Return the facts of the turns from ordinal `new_from` on; the turns before are context."""
    places = places_of(turns)
    names = Names(places)
    denied = {id(place.before): denied_by(place) for place in places if place.before}
    new = [place for place in places if place.turn.ordinal >= new_from]
    return [
        draft
        for place in new
        for draft in _of_turn(place, names)
        if not _holds_any(draft.text, denied.get(id(place), ()))
    ]


def _holds_any(text: str, sentences: Sequence[str]) -> bool:
    said = " ".join(text.split())
    return any(" ".join(sentence.split()) in said for sentence in sentences)


def draft_of(text: str, place: Place, names: Names, proposal: Proposal | None = None) -> Draft:
    """Return a quote of a turn as a draft."""
    body = text
    sources: tuple[NodeId, ...] = (place.turn.node_id,)
    if proposal and place.before:
        body, sources = write_reply(text, proposal.text), (place.turn.node_id, place.before.turn.node_id)
    return Draft(
        body,
        classify(text, place, proposal.reply if proposal else None),
        sources,
        place.turn.at,
        place.turn.role,
        names.in_text(body),
        days_of(text, place.turn.at.date() if place.turn.at else None),
    )


def _of_turn(place: Place, names: Names) -> Iterator[Draft]:
    passages = passages_of(place)
    if not passages:
        return
    proposal = replied_to(place)
    if proposal and is_decision(passages[0], place, proposal):
        yield draft_of(passages[0].text, place, names, proposal)
        passages = passages[1:]
    kept = [(passage, worth) for passage in passages if (worth := worth_of(passage.text, place)) >= 0]
    runs = list(_runs(passages, [passage for passage, _ in kept]))
    runs.sort(key=lambda run: -max(worth for passage, worth in kept if passage in run))
    for run in sorted(runs[: MOST_OF_TURN[place.speaker]], key=lambda run: run[0].start):
        whole = _with_the_fix(run, passages) if place.speaker is Speaker.ASSISTANT else run
        yield draft_of(joined(whole).text, place, names)


def _with_the_fix(run: list[Passage], passages: Sequence[Passage]) -> list[Passage]:
    """Return what is kept of a report with what follows it there: a cause without its fix reads as an open fault.

    And with what comes before, where there is room: "it" is named there.
    """
    first, last = passages.index(run[0]), passages.index(run[-1])
    words = sum(passage.words for passage in run)
    while last + 1 < len(passages) and words + passages[last + 1].words <= LONGEST_REPORT_WORDS:
        last += 1
        words += passages[last].words
    while first and words + passages[first - 1].words <= LONGEST_REPORT_WORDS:
        first -= 1
        words += passages[first].words
    return list(passages[first : last + 1])


def is_decision(reply: Passage, place: Place, proposal: Proposal) -> bool:
    """Check that a reply, read with what it replies to, decides something that lasts."""
    signs = signs_of(reply.text, place)
    worth = worth_of(reply.text, place)
    if signs & {"doubt.idle", "question", "secret", "pasted"}:
        return worth >= 0
    if proposal.reply is Reply.ANSWERED and place.speaker is Speaker.USER:
        return worth >= 0
    return worth + REPLY_WORTH >= 0 or proposal.reply in {Reply.ACCEPTED, Reply.CHOSEN}


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

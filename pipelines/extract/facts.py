"""Facts: the turns of a session, read in their contexts, to quotes worth keeping, with the keys that stand beside them.

A quote is whole sentences of one turn, word for word. What accepts, chooses, refuses or answers takes along what it
replies to, marked as a quotation (">"), so that it can be understood alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from ...store.judges.judge import Judgement
from ...store.model import NodeId, Turn
from ...store.text.dates import days_in
from ...store.text.quotes import write_reply
from ...store.text.sentences import start_of_item
from ...store.text.terms import named
from .attributes import DONE, FactAttributes, attributes_of, by_words
from .contexts import Speaker, TurnContext, contexts_of, judged
from .passages import TurnPassage, joined, passages_of
from .replies import is_bare, replied_to
from .worth import content_words, opens, worth_of

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
    contexts = contexts_of(turns)
    names = Names(contexts)
    judgements = judged(contexts, new_from)
    new = [(at, context) for at, context in enumerate(contexts) if context.turn.ordinal >= new_from]
    put_right = {id(context.before) for at, context in new if at in judgements and judgements[at].reply in PUTS_RIGHT}
    return [
        draft
        for at, context in new
        if id(context) not in put_right
        for draft in (_of_turn(context, judgements[at], names) if at in judgements else _among_people(context, names))
    ]


def draft_of(
    text: str, context: TurnContext, names: Names, judgement: Judgement | None = None, proposal: str = ""
) -> Draft:
    """Return a quote of a turn as a draft, with the `proposal` that it replies to; `judgement` is None among people."""
    body = text
    sources: tuple[NodeId, ...] = (context.turn.node_id,)
    if proposal and context.before:
        body, sources = write_reply(text, proposal), (context.turn.node_id, context.before.turn.node_id)
    return Draft(
        body,
        attributes_of(text, context, judgement) if judgement else by_words(text, context),
        sources,
        context.turn.at,
        context.turn.role,
        names.in_text(body),
        days_of(text, context.turn.at.date() if context.turn.at else None),
        judgement.worth if judgement else ENOUGH[Speaker.USER],
    )


def _of_turn(context: TurnContext, judgement: Judgement, names: Names) -> Iterator[Draft]:
    """Yield what is kept of a turn between a person and an assistant."""
    if judgement.worth < ENOUGH[context.speaker] or judgement.refuted >= REFUTED or judgement.kind == DONE:
        return
    if not (passages := passages_of(context)):
        return
    if proposal := replied_to(context, judgement.reply):
        yield draft_of(passages[0].text, context, names, judgement, proposal)
        passages = passages[1:]
    elif is_bare(context, judgement.reply):
        return
    worths = {passage: judgement.worth_of(passage.spans) for passage in passages}
    least = NEARLY if proposal else 0.0
    for run in _best_runs(
        passages, worths, least, SHARE * max(worths.values(), default=0.0), MOST_OF_TURN[context.speaker]
    ):
        quote = joined(run)
        found = _found(quote, judgement) if context.speaker is Speaker.ASSISTANT else quote
        if found is not None:
            yield draft_of(found.text, context, names, judgement)


def _found(quote: TurnPassage, judgement: Judgement) -> TurnPassage | None:
    """Return an assistant's quote without the sentences at its ends that are worth much less than its best one.

    It begins with a sentence that says something by itself; None where there is none, or too little is left.
    """
    worths = [judgement.worth_of([span]) for span in quote.spans]
    least = TRIMMED * max(worths)
    kept = [at for at, worth in enumerate(worths) if worth >= least]
    first = kept[0]
    while first and _leans(quote, first):
        first -= 1
    found = TurnPassage(quote.source, quote.spans[first : kept[-1] + 1])
    return None if _leans(quote, first) or len(content_words(found.text)) < FEWEST_FOUND else found


def _leans(quote: TurnPassage, number: int) -> bool:
    """Check that a sentence of a quote goes on with what stands before it: an item of a list, "It is called …"."""
    text = quote.source[slice(*quote.spans[number])]
    is_item = number > 0 and start_of_item(quote.source, quote.spans[number][0]) < quote.spans[number][0]
    return is_item or _ITEM.match(text) is not None or opens("speech.leaning", text)


def _among_people(context: TurnContext, names: Names) -> Iterator[Draft]:
    """Yield what is kept, by signs, of what people say to each other; a few words with their question."""
    passages = passages_of(context)
    proposal = replied_to(context, "")
    if passages and proposal and worth_of(passages[0].text, context) + REPLY_WORTH >= 0:
        yield draft_of(passages[0].text, context, names, None, proposal)
        passages = passages[1:]
    worths = {passage: worth_of(passage.text, context) for passage in passages}
    for run in _best_runs(passages, worths, 0.0, 0.0, MOST_OF_TURN[context.speaker]):
        yield draft_of(joined(run).text, context, names)


def _best_runs(
    passages: Sequence[TurnPassage], worths: Mapping[TurnPassage, float], least: float, share: float, most: int
) -> list[list[TurnPassage]]:
    """Return the runs of passages that are worth enough, of more than `most` the best, in the order of the turn."""
    kept = [passage for passage in passages if worths[passage] >= max(least, share)]
    runs = sorted(_runs(passages, kept), key=lambda run: -max(worths[passage] for passage in run))
    return sorted(runs[:most], key=lambda run: run[0].start)


def _runs(passages: Sequence[TurnPassage], kept: Sequence[TurnPassage]) -> Iterator[list[TurnPassage]]:
    """Yield the kept passages, those together that follow each other."""
    run: list[TurnPassage] = []
    for passage in passages:
        if passage in kept:
            run.append(passage)
        elif run:
            yield run
            run = []
    if run:
        yield run


MOST_NAMES = 6
_WORD = re.compile(r"[^\W_][\w.+#/-]*[^\W_]|[^\W_]", re.UNICODE)


class Names:
    """The names and things that a session speaks of, however each is written where it is said."""

    def __init__(self, contexts: Iterable[TurnContext]) -> None:
        seen: Counter[str] = Counter()
        said: Counter[str] = Counter()
        for context in contexts:
            seen.update(named(context.text))
            said.update(_WORD.findall(context.text))
        self._spelling: dict[str, str] = {}
        for name, _ in seen.most_common():
            if all(said[word.lower()] <= said[word] for word in name.split()):  # "Then" is often "then", a name is not
                self._spelling.setdefault(name.lower(), name)

    def in_text(self, text: str) -> tuple[str, ...]:
        """Return those in a text, in its order, at most MOST_NAMES; longer names before their parts."""
        found: dict[str, int] = {}
        lower = f" {' '.join(_WORD.findall(text.lower()))} "
        for name, spelling in self._spelling.items():
            at = lower.find(f" {' '.join(_WORD.findall(name))} ")
            if at >= 0:
                found[spelling] = at
        whole = [name for name in found if not any(name != other and f" {name} " in f" {other} " for other in found)]
        return tuple(sorted(whole, key=found.__getitem__)[:MOST_NAMES])


def days_of(text: str, said_on: date | None) -> tuple[date, ...]:
    """Return the days that a text means; () where nobody knows when it was said."""
    return days_in(text, said_on) if said_on else ()

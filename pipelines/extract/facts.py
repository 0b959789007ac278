"""Facts: quotes worth keeping from the turns of a session, with the names and days by which they are found.

A quote is whole sentences of one turn, word for word. A reply that accepts, chooses, refuses or answers includes the
sentences it replies to, marked as a quotation (">"), so that it can be understood alone.
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
from ...store.text.words import PART_OF_NAME, names_in, words_of_turn
from ..settings import NEARLY_WORTH
from .attributes import DONE, FactAttributes, attributes_of, by_words, is_worded_as_rule
from .contexts import Speaker, TurnContext, contexts_of, judged
from .passages import SHORT_WORDS, TurnPassage, joined, passages_of
from .replies import LEANING, is_bare, replied_to
from .worth import FEW_CONTENT, opens, worth_of

# Facts kept per turn, those of highest worth; the turn itself stays findable.
MOST_OF_TURN = {Speaker.USER: 2, Speaker.PEER: 2, Speaker.ASSISTANT: 1}

# Smallest worth of a turn that yields a fact, and of a person's that mostly passes with the conversation: talk, orders,
# reports, questions and a bare yes. Of people left out 8 of the 29 facts between the two were right.
LEAST_WORTH = {Speaker.USER: 0.5, Speaker.ASSISTANT: 0.75}
LEAST_WORTH_IN_PASSING = 0.65
_IN_PASSING = frozenset({"chat", "command", "question", "report"})

# Smallest number of content words in an assistant's finding: "I found the issue!" has fewer.
FEWEST_FOUND = 4

# Smallest worth of a sentence at either end of an assistant's quote, relative to its best sentence: an assistant
# announces its next step ("Let me check …") right after a finding.
TRIMMED = 0.5

# Probability of a correction by its person from which an assistant's claim makes no fact.
REFUTED = 0.3

# Worth added to an answer among people, because it was asked for.
REPLY_WORTH = 1.0

PUTS_RIGHT = frozenset({"correct", "reject"})
"""Replies that keep the turn before them from making a fact by itself: their own fact quotes it."""

# Smallest worth of a further passage of a turn, relative to its best passage.
SHARE = 0.6


_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s")
MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact before it is a file. `sources` are node ids of turns, that of its own words first."""

    text: str
    attributes: FactAttributes
    sources: tuple[NodeId, ...]
    at: datetime | None
    said_by: str = ""
    about: tuple[str, ...] = ()
    days: tuple[date, ...] = ()
    worth: float = 0.0
    reply: str = ""
    standing: float = 0.0
    by_model: bool = False
    """True if a language model chose it."""


def drafts_of(turns: Sequence[Turn], new_from: int = 1) -> list[Draft]:
    """Return the facts of the turns from ordinal `new_from` on; the turns before are context."""
    contexts = contexts_of(turns)
    names = Names(contexts)
    judgements = judged(contexts, new_from)
    new = [(at, context) for at, context in enumerate(contexts) if context.turn.ordinal >= new_from]
    # The judge labels the correction, not the corrected turn; that is the object `before` it, found by identity.
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
    """Build the draft of a quote, with the `proposal` that it replies to; `judgement` is None among people."""
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
        judgement.worth if judgement else LEAST_WORTH[Speaker.USER],
        judgement.reply if judgement else "",
        judgement.standing if judgement else 0.0,
    )


def _of_turn(context: TurnContext, judgement: Judgement, names: Names) -> Iterator[Draft]:
    """Yield the drafts of a turn between a person and an assistant."""
    is_bare_yes = context.speaker is Speaker.USER and len(words_of_turn(context.text)) < FEW_CONTENT
    is_passing = judgement.reply in _IN_PASSING or is_bare_yes
    least_worth = LEAST_WORTH_IN_PASSING if is_passing else LEAST_WORTH[context.speaker]
    is_kept = judgement.worth >= least_worth or _states_rule(context, judgement)
    if not is_kept or judgement.refuted >= REFUTED or judgement.kind == DONE:
        return
    if not (passages := passages_of(context)):
        return
    if proposal := replied_to(context, judgement.reply):
        yield draft_of(passages[0].text, context, names, judgement, proposal)
        passages = passages[1:]
    elif is_bare(context, judgement.reply):
        return
    # Together with a reply only clearly worthy passages of the same turn are kept.
    worths = {passage: judgement.worth_of(passage.spans) for passage in passages}
    least = NEARLY_WORTH if proposal else 0.0
    for run in _best_runs(
        passages, worths, least, SHARE * max(worths.values(), default=0.0), MOST_OF_TURN[context.speaker]
    ):
        quote = joined(run)
        found = _found(quote, judgement) if context.speaker is Speaker.ASSISTANT else quote
        if found is not None and (judgement.reply in LEANING or not _asks(found)):
            yield draft_of(found.text, context, names, judgement)


def _asks(quote: TurnPassage) -> bool:
    """Check for a quote of questions alone: they state something only where they answer, refuse or put right."""
    said = (quote.source[start:end] for start, end in quote.spans)
    return all(sentence.rstrip("”\"') ").endswith("?") for sentence in said)


def _states_rule(context: TurnContext, judgement: Judgement) -> bool:
    """Check for a person's short turn that opens or puts right in the words of a rule, whatever it seemed worth.

    A bare wish in a language of which the judge saw little ("Nunca borres datos sin preguntar.") is worth little to it.
    In the labelled conversations, where a wish has others around it, it hardly ever decides: of 1,318 turns of people
    left out one is kept by this, rightly, and of 780 real ones none.
    """
    is_short = context.speaker is Speaker.USER and len(context.text.split()) <= SHORT_WORDS
    return is_short and judgement.reply in {"new", *PUTS_RIGHT} and is_worded_as_rule(context.text)


def _found(quote: TurnPassage, judgement: Judgement) -> TurnPassage | None:
    """Drop the sentences at either end of an assistant's quote that are worth much less than its best one.

    The result begins with a sentence that can be understood alone; None where there is none, or too little is left.
    """
    worths = [judgement.worth_of([span]) for span in quote.spans]
    least = TRIMMED * max(worths)
    kept = [at for at, worth in enumerate(worths) if worth >= least]
    first = kept[0]
    # A dependent first sentence takes those before it along, whatever they are worth.
    while first and _depends_on_previous(quote, first):
        first -= 1
    found = TurnPassage(quote.source, quote.spans[first : kept[-1] + 1])
    # "It fails when you commit with ABC staged:" leads to what was left out.
    is_part = _depends_on_previous(quote, first) or found.text.endswith(":")
    return None if is_part or len(words_of_turn(found.text)) < FEWEST_FOUND else found


def _depends_on_previous(quote: TurnPassage, number: int) -> bool:
    """Check that a sentence depends on the one before it: an item of a list, "It is called …"."""
    text = quote.source[slice(*quote.spans[number])]
    is_item = number > 0 and start_of_item(quote.source, quote.spans[number][0]) < quote.spans[number][0]
    return is_item or _ITEM.match(text) is not None or opens("speech.leaning", text)


def _among_people(context: TurnContext, names: Names) -> Iterator[Draft]:
    """Yield the drafts of a turn among people, chosen by signs; a short answer includes its question."""
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
    """Return the `most` best runs of adjacent passages that are worth enough, in the order of the turn."""
    kept = [passage for passage in passages if worths[passage] >= max(least, share)]
    # Adjacent passages are one fact: their reasons refer to each other.
    runs = sorted(_runs(passages, kept), key=lambda run: -max(worths[passage] for passage in run))
    return sorted(runs[:most], key=lambda run: run[0].start)


def _runs(passages: Sequence[TurnPassage], kept: Sequence[TurnPassage]) -> Iterator[list[TurnPassage]]:
    """Group adjacent kept passages."""
    run: list[TurnPassage] = []
    for passage in passages:
        if passage in kept:
            run.append(passage)
        elif run:
            yield run
            run = []
    if run:
        yield run


class Names:
    """The names of people and things in a session, in their most frequent spelling."""

    def __init__(self, contexts: Iterable[TurnContext]) -> None:
        seen: Counter[str] = Counter()
        said: Counter[str] = Counter()
        for context in contexts:
            seen.update(names_in(context.text))
            said.update(PART_OF_NAME.findall(context.text))
        self._spelling: dict[str, str] = {}
        for name, _ in seen.most_common():
            if all(
                said[word.lower()] <= said[word] for word in name.split()
            ):  # "Then" is also written "then"; a name is not written so
                self._spelling.setdefault(name.lower(), name)

    def in_text(self, text: str) -> tuple[str, ...]:
        """Return the names in a text, in its order, at most MOST_NAMES; a part of a longer name is left out."""
        found: dict[str, int] = {}
        lower = f" {' '.join(PART_OF_NAME.findall(text.lower()))} "
        for name, spelling in self._spelling.items():
            at = lower.find(f" {' '.join(PART_OF_NAME.findall(name))} ")
            if at >= 0:
                found[spelling] = at
        # "Ada Lovelace" and "Ada" in one text are one name.
        whole = [name for name in found if not any(name != other and f" {name} " in f" {other} " for other in found)]
        return tuple(sorted(whole, key=found.__getitem__)[:MOST_NAMES])


def days_of(text: str, said_on: date | None) -> tuple[date, ...]:
    """Return the days that a text names or implies; () where the day of speaking is unknown."""
    return days_in(text, said_on) if said_on else ()

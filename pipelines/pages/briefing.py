"""The briefing for the start of a session: the state of a channel, a line a thing, under the headings of a hand-over.

Only a person's statements that still hold: nothing asked, replaced or over. A line is whole sentences of one quote.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice

from ...store.index.projection import is_imported, priority_of
from ...store.model import Kind, Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.chunking import estimate_tokens
from ...store.text.dates import days_in
from ...store.text.languages import phrases
from ...store.text.quotes import read_reply
from ...store.text.sentences import GAP, joined_as_one, on_one_line, sentences_of, split
from ...store.text.statements import read
from ...store.text.words import words_of_turn
from ..extract.attributes import (
    REMEMBERED_WORTH,
    REPLY,
    STANDING,
    UNKNOWN_WORTH,
    WORTH,
    is_worded_as_rule,
    is_written,
    read_memory,
)
from ..extract.replies import FEW_WORDS
from ..extract.worth import FEW_CONTENT
from .current_facts import LONGEST_NOTE, SURE_WORTH, current, newest_first, place_of, with_plain_successors
from .outdated import replaced_sentences, without_outdated

RULES, AHEAD, LAST = "Rules", "Dates ahead", "Last session"
PEOPLE, CHANGED, STEPS, DECIDED, NOTED = "People", "Changed lately", "Procedures", "Decided", "Notes"
HEADINGS = (RULES, AHEAD, LAST, PEOPLE, CHANGED, STEPS, DECIDED, NOTED)

MOST_OF = {RULES: 24, AHEAD: 5, LAST: 6, PEOPLE: 5, CHANGED: 5, STEPS: 4, DECIDED: 24, NOTED: 3}

# Smallest worth of a line by its heading: a rule and an old decision stand in every start, and in real sessions what is
# less worth was mostly an order for once.
LEAST_WORTH = {RULES: 0.9, DECIDED: 0.9}
# The same by the reply: of the turns that readers labelled (tests/train) 5 % of questions, 12 % of talk and 27 % of
# reports and orders ("run the tests please") were worth keeping, and most of all others.
PASSING = {"question": 1.0, "chat": 0.85, "report": 0.85, "command": 0.85}

# What the first headings may take where there is more to say. Rules come first: an agent breaks one that it lacks.
MOST_TOKENS = {RULES: 280, LAST: 150}
# A longer procedure is named by the words before its steps, for the agent to look up when it comes to that.
LONGEST_STEPS_TOKENS = 45
# "option 3", "2": they say something only beside the option.
_CHOICE = re.compile(r"(?:[^\W\d]+ )?(\d)\W*")
_FIRST_STEP = re.compile(r"\b1[.)]\s")

DAYS_AHEAD = timedelta(days=60)
CHANGED_WITHIN = timedelta(days=45)
# A decision is a rule where it surely says how things are to be from now on, or perhaps and in the words of a rule: of
# two people on whom nothing was trained .79 of such turns are standing instructions (.65 with .4 for the surely), and
# .33 of those are found (.37).
SURELY_STANDING, PERHAPS_STANDING = 0.5, 0.05
# A correction stands as a decision where it may say how things are to be.
WANTED = 0.1
# A decision is told at a start until so many later sessions said what is worth a line: then it is in the work, or was
# for once. In real sessions one order of the first day stood in 68 starts. A rule, and what was remembered, stands on.
DECIDED_WITHIN = 5
# A reply of more words can be understood alone, and a longer proposal is left out of the line.
DEPENDENT_WORDS, LONGEST_PROPOSAL_TOKENS = 14, 45

_RULES = frozenset({Kind.PREFERENCE, Kind.NEGATIVE})
_DECIDED = _RULES | {Kind.DECISION, Kind.VALUE, Kind.CORRECTION, Kind.PITFALL}


@dataclass(frozen=True, slots=True)
class BriefLine:
    """A line: a fact, the words of it that are quoted, those that they answer ("" for none), and a day ahead in it.

    `is_open`: it is only a wish or an intention. `is_always`: its person wants it in every envelope.
    """

    fact: Memory
    words: str
    reply_to: str = ""
    day: date | None = None
    steps_left_out: bool = False
    is_open: bool = False
    is_always: bool = False


@dataclass(frozen=True, slots=True)
class BriefPart:
    """The lines under one heading, the most useful first, and the most tokens that they may take.

    `session` is that of the heading, if it is one session's.
    """

    heading: str
    lines: Sequence[BriefLine]
    most_tokens: int | None = None
    session: NodeId | None = None


def parts_of(
    facts: Iterable[Memory],
    today: date,
    last_session: NodeId | None,
    elsewhere: Iterable[Memory] = (),
    most_of: Mapping[str, int] = MOST_OF,
) -> list[BriefPart]:
    """Return the briefing of a channel's facts; `last_session` is the one that ended before this start.

    Facts from `elsewhere` have no line: they only show that one of the channel is outdated.
    """
    every = with_plain_successors(facts)
    newer = {node_id for fact in every for node_id in (fact.superseded_by, *fact.later)}
    by_heading: dict[str, list[BriefLine]] = defaultdict(list)
    lasting = [fact for fact in current(every) if is_worth_a_line(fact)]
    recent = _newest_sessions(lasting, DECIDED_WITHIN + 1)
    over = replaced_sentences(lasting)
    holding = newest_first(without_outdated(lasting, [fact for fact in elsewhere if fact.is_live]))
    for fact in sorted(holding, key=_place_among):
        heading = _heading(fact, today, fact.node_id in newer or bool(fact.supersedes), last_session)
        if heading == DECIDED and not is_written(fact) and place_of(fact)[0] not in recent:
            continue
        line = _line(fact, today) if heading and _worth(fact) >= LEAST_WORTH.get(heading, SURE_WORTH) else None
        if line is not None and fact.node_id in over:
            line = _without(line, over[fact.node_id])
        if line is not None and (not line.is_open or heading == AHEAD or (heading == LAST and _is_intended(fact))):
            by_heading[heading].append(line)
    by_heading[AHEAD].sort(key=lambda line: line.day or date.max)
    by_heading[LAST].sort(key=lambda line: line.is_open)
    return [
        BriefPart(
            heading,
            by_heading[heading][: most_of[heading]],
            MOST_TOKENS.get(heading),
            last_session if heading == LAST else None,
        )
        for heading in HEADINGS
        if by_heading[heading]
    ]


def _place_among(fact: Memory) -> tuple[int, bool, bool]:
    """Return the sort key under a heading: first what is to stand in every envelope, last plain and imported notes."""
    return -priority_of(fact), fact.kind is Kind.NOTE, is_imported(fact)


def _newest_sessions(facts: Sequence[Memory], most: int) -> set[NodeId]:
    """Return the sessions of which a fact was kept last, at most so many."""
    drawn = (place_of(fact)[0] for fact in newest_first(facts) if fact.sources)
    return set(islice(dict.fromkeys(drawn), most))


def is_worth_a_line(fact: Memory) -> bool:
    """Check for a person's statement, no question and no order for once, that is worth enough for how it came."""
    words, reply_to = read_reply(fact.text)
    if fact.is_waiting or _asks(words) or _is_once(words, reply_to):
        return False
    if _is_corrected(fact) or priority_of(fact):
        return True
    if fact.said_by in MACHINES:
        return False
    if not fact.sources:
        return len(fact.text) <= LONGEST_NOTE
    reply = fact.extra.get(REPLY)
    # A trap is told when it is past, in a report or against a claim: what opens a talk is a problem, and solved then.
    if fact.kind is Kind.PITFALL and reply == "new":
        return False
    return _worth(fact) >= (PASSING.get(reply, 0.0) if isinstance(reply, str) else SURE_WORTH)


def _asks(words: str) -> bool:
    """Check for a question, or a request put as one ("can you check it again? it has changed"), which is for once."""
    if "?" not in words:  # most facts: their sentences need not be told apart
        return False
    said = _sentences(words) or (words,)
    return any(sentence.rstrip("”\"') ").endswith("?") for sentence in (said[0], said[-1]))


def _worth(fact: Memory) -> float:
    return REMEMBERED_WORTH if is_written(fact) or priority_of(fact) else float(fact.extra.get(WORTH, UNKNOWN_WORTH))


def _is_corrected(fact: Memory) -> bool:
    return bool(fact.sources) and is_written(fact)


def _standing(fact: Memory) -> float | None:
    """Return how probably a turn's words say how things are to be; None for others, and from before it was noted."""
    standing = fact.extra.get(STANDING)
    return standing if isinstance(standing, int | float) and not is_written(fact) else None


def _is_intended(fact: Memory) -> bool:
    return bool(phrases("tense.intended").search(fact.text))


def _is_once(words: str, reply_to: str) -> bool:
    """Check for a program's command, a bare yes to an offer ("Shall I add it?"), or a choice of unknown options."""
    if words.startswith("/") or len(words.split()) > FEW_WORDS:
        return words.startswith("/")
    if choice := _CHOICE.fullmatch(words.strip()):
        return not re.search(rf"\b{choice[1]}[.)]", reply_to)
    return len(words_of_turn(words)) < FEW_CONTENT and (not reply_to or reply_to.endswith("?"))


def _heading(fact: Memory, today: date, is_newer: bool, last_session: NodeId | None) -> str:
    """Return the heading of a lasting fact, "" for none."""
    kind = _kind_as_written(fact) if is_written(fact) else fact.kind
    if priority_of(fact):
        return RULES
    if _day_ahead(fact, today) is not None:
        return AHEAD
    if _is_over(fact, today):
        return ""
    if is_rule(fact, kind) and not _is_refinement(fact):
        return RULES
    if kind is Kind.PERSON:
        return PEOPLE
    # Steps with commands in them may be pasted, and are no procedure then; their first words are quoted all the same.
    if kind is Kind.PROCEDURE or (kind is Kind.FACT and _FIRST_STEP.search(fact.text)):
        return STEPS
    is_stated = kind is Kind.FACT and (_is_corrected(fact) or fact.slot is not None)
    is_noted = kind is Kind.NOTE and not is_imported(fact)
    if kind not in _DECIDED and not is_stated and not is_noted:
        return ""
    # A claim that was put right was put right in the work too, and alone a correction tells less than half.
    is_wanted = is_written(fact) or kind is not Kind.CORRECTION or (_standing(fact) or 0.0) >= WANTED
    if last_session is not None and place_of(fact)[0] == last_session and (is_wanted or read_reply(fact.text)[1]):
        return LAST
    is_late = fact.created_at is not None and today - fact.created_at.date() <= CHANGED_WITHIN
    if is_newer and is_late:
        return CHANGED
    if is_noted:
        return NOTED
    return DECIDED if is_wanted else ""


def _kind_as_written(fact: Memory) -> Kind:
    reading = read_memory(fact)
    return reading.kind if reading else Kind.EVENT


def is_rule(fact: Memory, kind: Kind) -> bool:
    """Check for a rule that stands, by its kind and by what was judged of it when it was said."""
    standing = _standing(fact)
    if standing is None:
        return kind in _RULES
    return kind in _DECIDED and standing >= (PERHAPS_STANDING if _is_worded_as_rule(fact) else SURELY_STANDING)


def _is_worded_as_rule(fact: Memory) -> bool:
    return is_worded_as_rule(read_reply(fact.text)[0])


def _is_refinement(fact: Memory) -> bool:
    """Check for a change of the work at hand that is not worded as a rule: it is told as long as a decision.

    Real people say so how this is to be done, not how all is ("It should also check …", judged as standing at .72): of
    six rules of 154 real sessions three were such, and stood in half of all starts.
    """
    return _standing(fact) is not None and fact.extra.get(REPLY) == "refine" and not _is_worded_as_rule(fact)


def _days(fact: Memory) -> tuple[date, ...]:
    """Return the days that a fact names: those that a dream noted, else those in the words that were remembered."""
    if fact.days or fact.created_at is None or not is_written(fact):
        return fact.days
    return _days_in(read_reply(fact.text)[0], fact.created_at.date())


_days_in = lru_cache(4096)(days_in)  # .06 to .2 ms each, at every start of an agent


def _day_ahead(fact: Memory, today: date) -> date | None:
    return min((day for day in _days(fact) if today <= day <= today + DAYS_AHEAD), default=None)


def _is_over(fact: Memory, today: date) -> bool:
    """Check for an event, or for an announcement whose day is past, unless it tells from when something holds."""
    last = max(_days(fact), default=today)
    if last >= today:
        return False
    said_on = fact.created_at.date() if fact.created_at else None
    if fact.kind is Kind.EVENT or said_on is None:
        return True
    return last > said_on and not read(read_reply(fact.text)[0]).is_now


def _line(fact: Memory, today: date) -> BriefLine | None:
    """Return the line of a fact, None for one that depends on words that are not known."""
    text, reply_to = read_reply(fact.text)
    words = _without_headings(text)
    number = len(words.split())
    is_always = priority_of(fact) > 0
    is_whole = fact.extra.get(REPLY, "new") == "new" or (_standing(fact) or 0.0) >= WANTED
    is_alone = number <= FEW_WORDS and not reply_to and not is_whole
    if is_alone and not is_written(fact) and not is_always:
        return None  # it adds to what is not known
    may_have_steps = fact.kind in {Kind.PROCEDURE, Kind.FACT, Kind.DECISION} and not is_always
    if may_have_steps and estimate_tokens(words) > LONGEST_STEPS_TOKENS:
        lead, *steps = _FIRST_STEP.split(words, maxsplit=1)
        lead = lead.rstrip(": \t\n") if steps else lead
        if steps or fact.kind is Kind.FACT:
            is_named = len(words_of_turn(lead)) >= FEW_CONTENT and GAP not in lead and bool(steps)
            return BriefLine(fact, lead, steps_left_out=True) if is_named else None
    # "Let's use US English everywhere please" is an instruction, and no wish.
    is_sure = is_always or (_standing(fact) or 0.0) >= SURELY_STANDING
    is_open = not is_sure and _is_open(text, reply_to)
    proposal = " ".join(reply_to.split())
    if number > DEPENDENT_WORDS or (number > FEW_WORDS and estimate_tokens(proposal) > LONGEST_PROPOSAL_TOKENS):
        proposal = ""
    return BriefLine(fact, words, proposal, _day_ahead(fact, today), is_open=is_open, is_always=is_always)


def _without(line: BriefLine, over: Collection[str]) -> BriefLine | None:
    """Return a line without sentences that hold no more; None where the first is one, for the others rest on it."""
    first, *others = _sentences(line.words) or (line.words,)
    if first in over:
        return None
    kept = [GAP if sentence in over else sentence for sentence in others]
    return replace(line, words=" ".join((first, *kept)).removesuffix(f" {GAP}"))


def _is_open(words: str, reply_to: str) -> bool:
    # A refusal of what was proposed tells what would be ("nobody will be able to explain that"), and is no wish.
    is_refusal = bool(reply_to) and read(words).is_negated
    return not is_refusal and all(said.is_open or said.is_brief for said in map(read, _sentences(words)))


@lru_cache(maxsize=1024)
def _without_headings(text: str) -> str:
    """Return a text on one line without its headings, or their words where there are no others."""
    pieces = split(text) if "#" in text else []
    said = [piece for piece in pieces if piece.shape != "heading"]
    return on_one_line(text) if len(said) == len(pieces) else joined_as_one(said or pieces, text).text


@lru_cache(maxsize=1024)
def _sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text; those of the facts of a channel are asked for at every start of a session."""
    return tuple(sentences_of(text))

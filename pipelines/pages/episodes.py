"""Episodes: stretches of work or life on one subject, cut from a channel's facts in the order of time, and their pages.

A session is one episode, joined by later sessions on the same subject. A long one is cut where the subject changes. An
episode with a page keeps its facts; new facts continue it or begin another.

A language model, where there is one, is asked at most twice for an episode: for its outcome in two sentences that cite
facts, and for its name. A sentence must be supported by the fact that it cites, and a name consist of words of one
sentence in their order; anything else is dropped, and the page is made without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np

from ...store.model import Kind, Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.languages import phrases
from ...store.text.sentences import sentences_of
from ...store.text.words import words
from ..grounding.claims import filled
from ..grounding.verify import ClaimSource, ground
from ..workspace.memo import Vectors
from .current_facts import dated, day_of, in_time, labels_of, line, place_of, quoted, spoken
from .titles import LONGEST_CHARS, stems_of_title

# Facts of a page: the most that a person still reads, and the fewest; fewer are found by themselves.
LARGEST, SMALLEST = 18, 4

# The least number of facts on either side of a cut.
ASIDE = 6

WINDOW = 4
GOES_ON = timedelta(days=3)
LEAST_APART = 0.1

# Cosine of the mean vectors of two adjacent sessions from which they are one episode: higher than for a pair of facts
# (`limits.SAME_SUBJECT`), since means of the same channel are alike.
SAME_EPISODE = 0.72

OPENING_LINES = 3

_WEIGHT = {
    Kind.DECISION: 3.0,
    Kind.CORRECTION: 3.0,
    Kind.PROCEDURE: 2.0,
    Kind.NEGATIVE: 2.0,
    Kind.PREFERENCE: 2.0,
    Kind.PITFALL: 2.0,
}

# An assistant's fact is an act or a finding of its own, so it is an outcome.
_FOUND_WEIGHT = 2.0

_HEADINGS = (
    ("Decided", frozenset({Kind.DECISION, Kind.CORRECTION, Kind.PREFERENCE, Kind.VALUE})),
    ("Refused", frozenset({Kind.NEGATIVE})),
    ("How it is done", frozenset({Kind.PROCEDURE})),
    ("Learned", frozenset({Kind.FACT, Kind.FINDING, Kind.PITFALL, Kind.PERSON, Kind.EVENT, Kind.EPISODE, Kind.NOTE})),
)

Ask = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Asks a model with a schema; None where it cannot be asked or its answer does not fit."""

MOST_LINES, MOST_LINE_CHARS = 24, 300
MOST_SENTENCES, MOST_SENTENCE_CHARS = 2, 240
FEWEST_NAME_STEMS = 2

_NAME_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 4, "maxLength": LONGEST_CHARS}},
    "required": ["name"],
}


@dataclass(slots=True)
class Episode:
    """Facts in the order of time, and the page that already exists of them."""

    facts: list[Memory] = field(default_factory=list)
    page: Memory | None = None

    @property
    def sessions(self) -> list[NodeId]:
        """The sessions of its facts, in order."""
        return list(dict.fromkeys(place_of(fact)[0] for fact in self.facts))


def episodes_of(facts: Sequence[Memory], pages: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> list[Episode]:
    """Cut facts into episodes in the order of time; those with a page keep the facts that it cites."""
    by_id = {fact.node_id: fact for fact in facts}
    found: list[Episode] = []
    taken: set[NodeId] = set()
    for page in pages:
        cited = [by_id[source] for source in page.sources if source in by_id and source not in taken]
        taken |= {fact.node_id for fact in cited}
        found.append(Episode(in_time(cited), page))
    for stretch in _by_session([fact for fact in facts if fact.node_id not in taken]):
        _assign(stretch, found, vectors)
    return sorted(found, key=lambda episode: [_time_key(fact) for fact in episode.facts[:1]])


def distinction(some: Vectors | Sequence[Vectors], every: Sequence[Vectors]) -> Vectors:
    """Return the unit vector from the mean of all to the mean of some, or the mean of some where both are close."""
    own = np.mean(some, axis=0)
    # A channel's facts share a subject; the difference from its mean is what distinguishes an episode within it.
    apart = own - np.mean(every, axis=0)
    return _unit(apart if float(np.linalg.norm(apart)) >= LEAST_APART else own)


def _by_session(facts: Sequence[Memory]) -> Iterator[list[Memory]]:
    sessions: dict[str, list[Memory]] = {}
    for fact in in_time(facts):
        sessions.setdefault(place_of(fact)[0], []).append(fact)
    yield from (session for name, session in sessions.items() if name)


def _assign(session: list[Memory], found: list[Episode], vectors: Mapping[NodeId, Vectors]) -> None:
    """Add the new facts of one session to an episode, or begin new ones."""
    continued = _continued(session, found, vectors)
    if continued is not None and len(continued.facts) + len(session) <= LARGEST:
        continued.facts = in_time([*continued.facts, *session])
        return
    found += [Episode(piece) for piece in _cut(session, vectors)]


def _continued(
    session: Sequence[Memory], found: Sequence[Episode], vectors: Mapping[NodeId, Vectors]
) -> Episode | None:
    """Return the episode that new facts continue: the last of their session, else the previous one on their subject."""
    name = place_of(session[0])[0]
    # A session that grew continues its own last episode, whatever its new facts are about.
    same = [episode for episode in found if episode.facts and name in episode.sessions]
    if same:
        return max(same, key=lambda episode: _time_key(episode.facts[-1]))
    began = session[0].created_at
    before = [episode for episode in found if episode.facts and _time_key(episode.facts[-1]) <= _time_key(session[0])]
    if began is None or not before:
        return None
    last = max(before, key=lambda episode: _time_key(episode.facts[-1]))
    ended = last.facts[-1].created_at
    if ended is None or began - ended > GOES_ON:
        return None
    return last if float(_middle(last.facts, vectors) @ _middle(session, vectors)) >= SAME_EPISODE else None


def _cut(facts: list[Memory], vectors: Mapping[NodeId, Vectors]) -> list[list[Memory]]:
    """Cut facts that are too many for one page, where the facts before and after differ most."""
    if len(facts) <= LARGEST:
        return [facts]
    # TextTiling (Hearst 1997): WINDOW facts before and after each place, cut where their means are least alike.
    places = range(ASIDE, len(facts) - ASIDE + 1)
    likeness = [
        float(_middle(facts[at - WINDOW : at], vectors) @ _middle(facts[at : at + WINDOW], vectors)) for at in places
    ]
    at = places[int(np.argmin(likeness))]
    return [*_cut(facts[:at], vectors), *_cut(facts[at:], vectors)]


def _middle(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> Vectors:
    """Return the direction of the mean of some facts, at unit length."""
    return _unit(np.mean([vectors[fact.node_id] for fact in facts], axis=0))


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, np.float32)


def _time_key(fact: Memory) -> tuple[float, str, int, NodeId]:
    return (fact.created_at.timestamp() if fact.created_at else float("inf"), *place_of(fact), fact.node_id)


@dataclass(frozen=True, slots=True)
class PageBody:
    """The text of a page, and the facts that it cites in the order of their footnotes."""

    text: str
    sources: tuple[NodeId, ...]


def episode_body(facts: Sequence[Memory], outcome: str = "") -> PageBody:
    """Render an episode's facts, in the order of time; `outcome` is a model's grounded sentences with footnotes."""
    labels = labels_of(facts)
    opening = [] if outcome else outcomes_of(facts)
    lines = ["## What came of it", "", outcome or "\n".join(line(fact, labels[fact.node_id]) for fact in opening)]
    shown = {fact.node_id for fact in opening}
    for heading, kinds in _HEADINGS:
        rest = [fact for fact in facts if fact.kind in kinds and fact.node_id not in shown]
        lines += ["", f"## {heading}", "", *_lines(rest, labels)] if rest else []
    return PageBody("\n".join(lines), tuple(labels))


def outcomes_of(facts: Sequence[Memory]) -> list[Memory]:
    """Choose up to OPENING_LINES live outcomes, weighted by kind and by the words that they share with other facts."""
    spread = Counter(root for fact in facts for root in stems_of_title(fact.text))

    def weight(fact: Memory) -> tuple[float, int]:
        kind = _FOUND_WEIGHT if fact.said_by in MACHINES else _WEIGHT.get(fact.kind, 1.0)
        about = sorted((spread[root] for root in stems_of_title(fact.text)), reverse=True)[:6]
        return kind * (1 + sum(about) / (6 * len(facts))), facts.index(fact)

    best = sorted((fact for fact in facts if fact.is_live), key=weight, reverse=True)[:OPENING_LINES]
    return [fact for fact in facts if fact in best]


def _lines(facts: Sequence[Memory], labels: Mapping[NodeId, str]) -> Iterator[str]:
    several = len({day_of(fact) for fact in facts}) > 1
    yield from (line(fact, labels[fact.node_id], dated if several else spoken) for fact in facts)


def outcome_of(facts: Sequence[Memory], labels: Mapping[NodeId, str], ask: Ask) -> str:
    """Return the model's sentences, each with the footnote of its fact; "" if none is supported."""
    living = [fact for fact in facts if fact.is_live][-MOST_LINES:]
    if not living:
        return ""
    answer = ask(filled("outcome", _record(living)), _outcome_schema(len(living)))
    told = []
    for sentence in (answer or {}).get("sentences", ()):
        fact = living[int(sentence["turn"]) - 1]
        text = " ".join(str(sentence["text"]).split())
        if len(sentences_of(text)) == 1 and ground(text, _sources(fact)).is_grounded:
            told.append(f"{text} [^{labels[fact.node_id]}]")
    return " ".join(dict.fromkeys(told))


def name_of(facts: Sequence[Memory], ask: Ask) -> str:
    """Return the model's name for an episode; "" if it does not consist of words of one sentence."""
    lines = _record(facts[:MOST_LINES])
    answer = ask(filled("name", lines), _NAME_SCHEMA)
    name = " ".join(str((answer or {}).get("name", "")).split()).strip(" .,;:\"'“”")
    said = [sentence for fact in facts[:MOST_LINES] for sentence in sentences_of(fact.text)]
    return name if len(name) <= LONGEST_CHARS and any(_names(name, sentence) for sentence in said) else ""


def _names(name: str, sentence: str) -> bool:
    """Check that a name consists of words of a sentence in their order, with all its negations and conditions."""
    rest = iter(words(sentence))
    in_order = all(any(word == other for other in rest) for word in words(name))
    kept = all(
        len(phrases(section).findall(name)) == len(phrases(section).findall(sentence))
        for section in ("grounding.negation", "grounding.restriction")
    )
    return in_order and kept and len(stems_of_title(name)) >= FEWEST_NAME_STEMS


def _record(facts: Sequence[Memory]) -> list[str]:
    return [quoted(fact)[:MOST_LINE_CHARS] for fact in facts]


def _sources(fact: Memory) -> list[ClaimSource]:
    said_on = fact.created_at.date() if fact.created_at else None
    return [ClaimSource(sentence, fact.said_by or "", said_on=said_on) for sentence in sentences_of(quoted(fact))]


def _outcome_schema(lines: int) -> Mapping[str, Any]:
    sentence = {
        "type": "object",
        "properties": {
            "turn": {"type": "integer", "enum": [*range(1, lines + 1)]},
            "text": {"type": "string", "minLength": 16, "maxLength": MOST_SENTENCE_CHARS},
        },
        "required": ["turn", "text"],
    }
    listed = {"type": "array", "items": sentence, "minItems": 1, "maxItems": MOST_SENTENCES}
    return {"type": "object", "properties": {"sentences": listed}, "required": ["sentences"]}

"""Episodes: the facts of a channel, cut into stretches of work or life on one subject, in the order of time.

A session is one episode, and with it the sessions beside it that go on about the same things. A long one is cut where
it turns to something else. An episode that has a page keeps its facts; new ones go on with it or begin another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from ...store.model import Memory, NodeId
from ..workspace.view import Vectors
from .quotes import in_time, place_of

LARGEST = 18  # a page that a person still reads
SMALLEST = 4
"""Facts that make a page; fewer are found by themselves."""

ASIDE = 6
"""The least number of facts on either side of a cut."""

WINDOW = 4
GOES_ON = timedelta(days=3)
LEAST_APART = 0.1
SAME_SUBJECT = 0.72
"""Cosine of two middles from which adjacent sessions are about the same things."""


@dataclass(slots=True)
class Episode:
    """A stretch in the making: its facts in the order of time, and its page if it has one."""

    facts: list[Memory] = field(default_factory=list)
    page: Memory | None = None

    @property
    def sessions(self) -> list[NodeId]:
        """The sessions in which it happened, in order."""
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
        _place(stretch, found, vectors)
    return sorted(found, key=lambda episode: [_began(fact) for fact in episode.facts[:1]])


def distinction(some: Vectors | Sequence[Vectors], every: Sequence[Vectors]) -> Vectors:
    """Return the direction in which some vectors differ from all, at unit length; their own where they hardly do."""
    own = np.mean(some, axis=0)
    apart = own - np.mean(every, axis=0)
    return _unit(apart if float(np.linalg.norm(apart)) >= LEAST_APART else own)


def _by_session(facts: Sequence[Memory]) -> Iterator[list[Memory]]:
    sessions: dict[str, list[Memory]] = {}
    for fact in in_time(facts):
        sessions.setdefault(place_of(fact)[0], []).append(fact)
    yield from (session for name, session in sessions.items() if name)


def _place(session: list[Memory], found: list[Episode], vectors: Mapping[NodeId, Vectors]) -> None:
    """Let new facts of one session go on with an episode, or begin some."""
    begun = _begun(session, found, vectors)
    if begun is not None and len(begun.facts) + len(session) <= LARGEST:
        begun.facts = in_time([*begun.facts, *session])
        return
    found += [Episode(piece) for piece in _cut(session, vectors)]


def _begun(session: Sequence[Memory], found: Sequence[Episode], vectors: Mapping[NodeId, Vectors]) -> Episode | None:
    """Return the episode with which new facts go on: their session's last, else the one before if it is alike."""
    name = place_of(session[0])[0]
    same = [episode for episode in found if episode.facts and name in episode.sessions]
    if same:
        return max(same, key=lambda episode: _began(episode.facts[-1]))
    began = session[0].created_at
    before = [episode for episode in found if episode.facts and _began(episode.facts[-1]) <= _began(session[0])]
    if began is None or not before:
        return None
    last = max(before, key=lambda episode: _began(episode.facts[-1]))
    ended = last.facts[-1].created_at
    if ended is None or began - ended > GOES_ON:
        return None
    return last if float(_middle(last.facts, vectors) @ _middle(session, vectors)) >= SAME_SUBJECT else None


def _cut(facts: list[Memory], vectors: Mapping[NodeId, Vectors]) -> list[list[Memory]]:
    """Cut what is too long for one page where the facts before and after differ most."""
    if len(facts) <= LARGEST:
        return [facts]
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


def _began(fact: Memory) -> tuple[float, str, int, NodeId]:
    return (fact.created_at.timestamp() if fact.created_at else float("inf"), *place_of(fact), fact.node_id)

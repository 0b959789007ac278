"""Worth: whether a passage, read in its place, is something that a careful colleague would have written down.

The weights are set by hand, in quarters, after a logistic regression on labelled turns had shown which signs matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from .places import Place, Speaker
from .signs import signs_of

ENOUGH: Mapping[Speaker, float] = {Speaker.USER: 0.75, Speaker.PEER: 0.5, Speaker.ASSISTANT: 2.25}
"""Least weight of what is kept."""

NEARLY = -1.0
"""Least worth of what a language model may keep beside it."""

_OF_PEOPLE: Mapping[str, float] = {
    "worth.standing": 0.75,
    "opens worth.standing": 0.75,
    "worth.decision": 0.5,
    "worth.preference": 1.25,
    "worth.reason": 0.75,
    "worth.change": 0.5,
    "worth.cause": 0.25,
    "worth.doing": 0.25,
    "worth.state": 0.5,
    "opens worth.owned": 0.25,
    "opens speech.reject": 0.5,
    "opens speech.accept": -0.25,
    "after a question": 0.25,
    "after a statement": 0.25,
    "name": 0.75,
    "number": 0.5,
    "day": 0.5,
    "identifier": 0.25,
    "sentence": 0.25,
    "colon": 0.5,
    "long": 0.25,
    "very long": -0.25,
    "tiny": -0.75,
    "bare": -0.75,
    "points back": -0.5,
    "question": -1.5,
    "opens speech.question": -0.75,
    "opens speech.request": -1.0,
    "asks": -0.5,
    "speech.chat": -0.75,
    "opens speech.chat": -0.5,
    "speech.seeking": -1.75,
    "speech.praise": -0.5,
    "doubt.idle": -2.0,
    "doubt.once": -0.75,
    "doubt.example": -0.5,
    "pasted": -1.5,
    "secret": -5.0,
}

_OF_PEERS: Mapping[str, float] = {
    "a day": 1.5,
    "name": 1.0,
    "number": 0.5,
    "worth.doing": 0.5,
    "worth.preference": 0.5,
    "long": 0.25,
    "after a statement": -1.0,
    "question": -0.5,
    "worth.decision": -0.5,
    "points back": -0.25,
    "tiny": -0.75,
    "bare": -0.75,
    "pasted": -1.5,
    "secret": -5.0,
}
"""Among people what is told counts: when, who, what was done; a comment on what another said does not."""

_OF_ASSISTANTS: Mapping[str, float] = {
    "worth.cause": 1.25,
    "worth.standing": 0.25,
    "worth.reason": 0.5,
    "worth.change": 0.25,
    "worth.state": 0.5,
    "worth.doing": 0.5,
    "opens worth.owned": 0.5,
    "identifier": 0.5,
    "identifiers": 0.5,
    "colon": 0.5,
    "day": 0.25,
    "long": 0.75,
    "very long": -0.5,
    "steps": 1.0,
    "short": -0.5,
    "question": -1.5,
    "worth.mine": -0.5,
    "doubt.idle": -1.0,
    "doubt.once": -1.0,
    "doubt.example": -2.0,
    "doubt.announced": -0.5,
    "speech.proposal": -1.5,
    "listed": -0.5,
}

_WEIGHTS = {Speaker.USER: _OF_PEOPLE, Speaker.PEER: _OF_PEERS, Speaker.ASSISTANT: _OF_ASSISTANTS}


def worth_of(passage: str, place: Place) -> float:
    """Return the worth of a passage; what has none has less than 0."""
    weights = _WEIGHTS[place.speaker]
    return sum(weights.get(sign, 0.0) for sign in signs_of(passage, place)) - ENOUGH[place.speaker]

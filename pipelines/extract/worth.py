"""Worth among people: whether a passage of their talk is something that one of them would have written down.

The judge has seen nobody's talk with another person, so that here signs are weighed, by hand, in quarters. What is told
counts: when, who, what was done; a comment on what another said does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from .places import Place
from .signs import signs_of

ENOUGH = 0.5
"""Least weight of what is kept."""

_WEIGHTS: Mapping[str, float] = {
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


def worth_of(passage: str, place: Place) -> float:
    """Return the worth of a passage; what has none has less than 0."""
    return sum(_WEIGHTS.get(sign, 0.0) for sign in signs_of(passage, place)) - ENOUGH

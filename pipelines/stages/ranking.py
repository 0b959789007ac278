"""Ranking: the scorer's weights fitted to the person's own questions, whose useful memories are known.

The newest days are left out of the learning. The change is proposed if it gains on the others by cross-validation over
days and does not lose on the newest, which the gate asks as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ...store.ledger.questions import Probe
from ...store.model import FittedRanking
from ...store.search.scoring import SCORER, WEIGHTS, weights_in_use
from ..learning.fitting import Gain, fit, gain_by_days_left_out, ranks
from ..learning.listwise import Example, Values
from ..workspace.proposals import Planned, ProposedRanking
from ..workspace.view import View

STAGE = "ranking"

FEWEST_QUESTIONS = 40
FEWEST_DAYS = 5
"""Below either, chance and one day's work say more than the person's ways."""

MOST_QUESTIONS = 500
HELD_OUT = 0.2
SEED = 20261123


@dataclass(frozen=True, slots=True)
class _Asked:
    """A past question whose gold was found, as an example of its day."""

    probe: Probe
    example: Example


def plan(view: View, now: datetime) -> Planned:
    """Propose weights that rank what helped this person higher than those in use do."""
    planned = Planned()
    asked = _asked(view)
    if not _are_enough(asked, view.history.ranking_undone_at):
        return planned
    learned_from, held_out = _divided(asked)
    examples = [one.example for one in learned_from]
    if len(examples) < FEWEST_QUESTIONS // 2:
        return planned
    shipped, in_use = _values(WEIGHTS), _values(weights_in_use(view.history.ranking))
    gain = gain_by_days_left_out(examples, shipped, in_use, np.random.default_rng(SEED))
    weights = fit(examples, shipped)
    if not gain.is_real or _loses([one.example for one in held_out], in_use, weights):
        return planned
    fitted = dict(zip(WEIGHTS, [round(weight, 4) for weight in weights.tolist()], strict=True))
    ranking = FittedRanking(scorer=SCORER, weights=fitted, questions=len(examples))
    planned.ranking = ProposedRanking(ranking, tuple(one.probe for one in held_out))
    planned.count("questions fitted to", len(examples))
    planned.notes.append(_in_words(len(examples), gain))
    return planned


def _asked(view: View) -> list[_Asked]:
    """Return the newest questions with gold among their candidates, the oldest first."""
    found = []
    if view.candidates is not None:
        for probe in view.steps.counted(view.history.probes[:MOST_QUESTIONS], "asking"):
            of_it = view.candidates(probe) if probe.last_at is not None else None
            if of_it is not None and of_it.gold.any():
                rows = np.stack([of_it.features[name] for name in WEIGHTS], axis=1)
                day = "" if probe.last_at is None else probe.last_at.date().isoformat()
                found.append(_Asked(probe, Example("own", day, rows, of_it.gold, len(probe.gold))))
    return sorted(found, key=lambda one: one.example.group)


def _are_enough(asked: Sequence[_Asked], undone_at: datetime | None) -> bool:
    """Check that there is enough to learn from, and enough that is new since the person undid such a change."""
    days = {one.example.group for one in asked}
    new = [one for one in asked if undone_at is None or (one.probe.last_at and one.probe.last_at > undone_at)]
    return len(days) >= FEWEST_DAYS and len(new) >= FEWEST_QUESTIONS


def _divided(asked: Sequence[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
    """Divide by day: the newest days, with about HELD_OUT of the questions, are not learned from."""
    first = asked[-max(1, int(HELD_OUT * len(asked)))].example.group
    first = max(first, sorted({one.example.group for one in asked})[2])  # two days at least are learned from
    older = [one for one in asked if one.example.group < first]
    return older, [one for one in asked if one.example.group >= first]


def _loses(held_out: Sequence[Example], in_use: Values, weights: Values) -> bool:
    before = ranks(held_out, [one.features @ in_use for one in held_out])
    after = ranks(held_out, [one.features @ weights for one in held_out])
    return bool(after.mean() < before.mean())


def _values(weights: Mapping[str, float]) -> Values:
    return np.array([weights[name] for name in WEIGHTS])


def _in_words(questions: int, gain: Gain) -> str:
    return (
        f"Ranking was fitted to {questions} of your questions: on days left out, what helped ranks higher"
        f" (mean reciprocal rank {gain.after:.2f}, before {gain.before:.2f})."
    )

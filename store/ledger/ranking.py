"""Fitted rankings: weights that runs learned, in use while their run stands applied, so that undo needs no more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..model import FittedRanking
from .records import Write

RANKINGS: Final = (
    "SELECT run_id, state, undone_at, scorer, weights, questions FROM ranking JOIN run USING (run_id)"
    " ORDER BY started_at DESC, run_id DESC"
)


@dataclass(frozen=True, slots=True)
class RecordedRanking:
    """A ranking that a run fitted. `state` and `undone_at` are those of the run."""

    run_id: str
    state: str
    undone_at: datetime | None
    ranking: FittedRanking


def recorded_ranking_of_row(row: Sequence[Any]) -> RecordedRanking:
    """Return the ranking of a row of RANKINGS."""
    run_id, state, undone_at, scorer, weights, questions = row
    ranking = FittedRanking(scorer=scorer, weights=json.loads(weights), questions=questions)
    return RecordedRanking(run_id, state, datetime.fromisoformat(undone_at) if undone_at else None, ranking)


def record_ranking(run_id: str, ranking: FittedRanking) -> Write:
    """Write what a run fitted."""
    weights = json.dumps(dict(ranking.weights))
    return Write("INSERT INTO ranking VALUES (?, ?, ?, ?)", (run_id, ranking.scorer, weights, ranking.questions))


def standing(rankings: Sequence[RecordedRanking], scorer: str) -> FittedRanking | None:
    """Return the newest for these shipped weights whose run stands applied; `rankings` come newest first."""
    return next((one.ranking for one in rankings if one.state == "applied" and one.ranking.scorer == scorer), None)


def last_refusal(rankings: Sequence[RecordedRanking], scorer: str) -> datetime | None:
    """Return when one for these shipped weights was last undone."""
    return max((one.undone_at for one in rankings if one.undone_at and one.ranking.scorer == scorer), default=None)

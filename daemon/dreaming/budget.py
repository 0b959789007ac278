"""The use of the last 24 hours' dreams, so that these are bounded together and not each dream alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...store import Run

DREAMS = ("daily", "weekly", "compaction")
"""The kinds of run that are dreams."""

DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of work, of a processor and of a model, and what was asked of a language model."""

    seconds: float = 0.0
    tokens: int = 0
    calls: int = 0


def spent_in_a_day(runs: Iterable[Run], now: datetime) -> Spent:
    """Sum what every run that began in the last 24 hours has used, however it ended."""
    summaries = [run.summary for run in runs if now - DAY < run.started_at <= now]
    return Spent(
        sum(_number(summary.get("work_seconds", summary.get("seconds"))) for summary in summaries),
        int(sum(_number(summary.get("tokens")) for summary in summaries)),
        int(sum(_number(summary.get("calls")) for summary in summaries)),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

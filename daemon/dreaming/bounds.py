"""The bounds of a dream's process, and of the dreams of a day together.

Whether a process stands still is judged by its work, not by the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ...pipelines.settings import LimitSettings
from ...store import Run

PROGRESS_CPU_S = 0.05
"""Less than this is no progress: a thread that waits with a timeout takes as much in minutes."""

SAID_AFTER_S = 10.0
"""After so long without a message, the reason is reported."""

BUSY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Used:
    """The resources used by a child since it began: seconds of a processor, of a language model, and of being let run.

    `is_ready`: it would run now if it were let.
    """

    cpu_s: float = 0.0
    model_s: float = 0.0
    run_s: float = 0.0
    resident_mib: float = 0.0
    is_ready: bool = True

    @property
    def work_s(self) -> float:
        """The seconds that count against its time: on a busy machine the wall clock says nothing."""
        return self.cpu_s + self.model_s


class Objection(NamedTuple):
    """The reason why a child has to end, and what a person can do about it."""

    reason: str
    hint: str


class Bounds:
    """Judges one child by a row of looks at it; `time_s` is the work that it may do."""

    def __init__(self, limits: LimitSettings, time_s: float) -> None:
        self._limits = limits
        self._time_s = time_s
        self._heard = self._moved = self._looked = self._reported = Used()
        self._ready_looks = self._looks = 0

    def heard(self) -> None:
        """Note that the child sent something since the last look."""
        self._heard = self._moved = self._reported = self._looked
        self._ready_looks = self._looks = 0

    def objection(self, now: Used) -> Objection | None:
        """Return the reason against letting it go on, if there is one.

        One that neither works nor speaks waits for a disk, a model or for ever: it gets much longer than one that
        works in silence, since a busy machine may keep it from working.
        """
        limits, self._looked = self._limits, now
        self._looks += 1
        self._ready_looks += now.is_ready
        if now.cpu_s - self._moved.cpu_s >= PROGRESS_CPU_S:
            self._moved = now
        if now.resident_mib > limits.memory_mib:
            used = f"it used {now.resident_mib:.0f} MiB of memory and {limits.memory_mib} are allowed"
            return Objection(used, "Raise pipelines.limits.memory_mib.")
        if now.work_s > self._time_s:
            return Objection(f"it worked longer than {self._time_s:.0f} s", "Raise pipelines.limits.time_s.")
        if now.cpu_s - self._heard.cpu_s > limits.silence_s:
            silent = f"it worked for {limits.silence_s:.0f} s and said nothing"
            return Objection(silent, "Raise pipelines.limits.silence_s.")
        if now.run_s - self._moved.run_s > limits.stall_s:
            return Objection(f"it stood still for {limits.stall_s:.0f} s", "Raise pipelines.limits.stall_s.")
        return None

    def why_silent(self) -> str:
        """Return why nothing was heard for a while, to be reported now; "" while there is no need."""
        now, since = self._looked, self._reported
        if now.run_s - since.run_s < SAID_AFTER_S:
            return ""
        share = (now.cpu_s - since.cpu_s) / (now.run_s - since.run_s)
        is_ready = 2 * self._ready_looks > self._looks
        self._reported, self._ready_looks, self._looks = now, 0, 0
        if share >= BUSY_SHARE:
            return f"at work for {now.run_s - self._heard.run_s:.0f} s"
        return f"waits for the processor ({share:.0%})" if is_ready else "waits for a disk or a model"


DREAMS = ("daily", "weekly", "compaction")
"""The kinds of run that are dreams."""

DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """Seconds of work, of a processor and of a model, and what was asked of a language model."""

    seconds: float = 0.0
    tokens: int = 0
    calls: int = 0


def usage_in_a_day(runs: Iterable[Run], now: datetime) -> DailyUsage:
    """Sum what every run that began in the last 24 hours has used, however it ended."""
    summaries = [run.summary for run in runs if now - DAY < run.started_at <= now]
    return DailyUsage(
        sum(_number(summary.get("work_seconds", summary.get("seconds"))) for summary in summaries),
        int(sum(_number(summary.get("tokens")) for summary in summaries)),
        int(sum(_number(summary.get("calls")) for summary in summaries)),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

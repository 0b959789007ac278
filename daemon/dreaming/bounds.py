"""The bounds of a dream's process, and of the dreams of a day together.

A process counts as stalled by its work, not by the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ...pipelines.settings import LimitSettings
from ...store import Run

# The least that counts as progress: a thread that waits with a timeout uses as much in minutes.
PROGRESS_CPU_S = 0.05

# The time without a message after which the reason is reported.
SILENCE_REPORTED_S = 10.0

BUSY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Used:
    """The resources used by a child since its start: seconds of a processor, of a language model, and outside pauses.

    `is_ready`: it would run now if a processor were free.
    """

    cpu_s: float = 0.0
    model_s: float = 0.0
    run_s: float = 0.0
    resident_mib: float = 0.0
    is_ready: bool = True

    @property
    def work_s(self) -> float:
        """The seconds that count against its time; those of the wall clock depend on other processes too."""
        return self.cpu_s + self.model_s


class Objection(NamedTuple):
    """The reason why a child has to end, and a hint for the person."""

    reason: str
    hint: str


class Bounds:
    """Checks one child against its bounds, by repeated measurements; `time_s` is the work that it may do."""

    def __init__(self, limits: LimitSettings, time_s: float) -> None:
        self._limits = limits
        self._time_s = time_s
        self._last_message = self._moved = self._measured = self._reported = Used()
        self._ready_count = self._count = 0

    def message_received(self) -> None:
        """Note that the child sent a message since the last measurement."""
        self._last_message = self._moved = self._reported = self._measured
        self._ready_count = self._count = 0

    def objection(self, now: Used) -> Objection | None:
        """Return the bound that a measurement exceeds, None if it exceeds none.

        A child that neither works nor sends messages waits for a disk, a model, or for ever. It gets much more time
        than one that works in silence, since a busy machine may keep it from working.
        """
        limits, self._measured = self._limits, now
        self._count += 1
        self._ready_count += now.is_ready
        # Compared with the last progress, not with the last measurement: slow work adds up.
        if now.cpu_s - self._moved.cpu_s >= PROGRESS_CPU_S:
            self._moved = now
        if now.resident_mib > limits.memory_mib:
            used = f"it used {now.resident_mib:.0f} MiB of memory and {limits.memory_mib} are allowed"
            return Objection(used, "Raise pipelines.limits.memory_mib.")
        if now.work_s > self._time_s:
            return Objection(f"it worked longer than {self._time_s:.0f} s", "Raise pipelines.limits.time_s.")
        if now.cpu_s - self._last_message.cpu_s > limits.silence_s:
            silent = f"it worked for {limits.silence_s:.0f} s and said nothing"
            return Objection(silent, "Raise pipelines.limits.silence_s.")
        if now.run_s - self._moved.run_s > limits.stall_s:
            return Objection(f"it stood still for {limits.stall_s:.0f} s", "Raise pipelines.limits.stall_s.")
        return None

    def why_silent(self) -> str:
        """Return the reason for a silence that is to be reported now, "" otherwise."""
        now, since = self._measured, self._reported
        if now.run_s - since.run_s < SILENCE_REPORTED_S:
            return ""
        share = (now.cpu_s - since.cpu_s) / (now.run_s - since.run_s)
        is_ready = 2 * self._ready_count > self._count
        self._reported, self._ready_count, self._count = now, 0, 0
        if share >= BUSY_SHARE:
            return f"at work for {now.run_s - self._last_message.run_s:.0f} s"
        return f"waits for the processor ({share:.0%})" if is_ready else "waits for a disk or a model"


# The kinds of run that are dreams.
DREAMS = ("daily", "weekly", "compaction")

DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """Seconds of work, of a processor and of a model, and the model's calls and tokens."""

    seconds: float = 0.0
    tokens: int = 0
    calls: int = 0


def usage_in_a_day(runs: Iterable[Run], now: datetime) -> DailyUsage:
    """Sum the usage of every run that began in the last 24 hours, however it ended."""
    summaries = [run.summary for run in runs if now - DAY < run.started_at <= now]
    return DailyUsage(
        sum(_number(summary.get("work_seconds", summary.get("seconds"))) for summary in summaries),
        int(sum(_number(summary.get("tokens")) for summary in summaries)),
        int(sum(_number(summary.get("calls")) for summary in summaries)),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

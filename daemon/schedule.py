"""When the next dream is due: a pure function of the time, of what has run, and of the settings; and what asks it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from loguru import logger

from ..pipelines.messages import RunKind
from ..pipelines.settings import PipelineSettings, ScheduleSettings
from .dreamer import DreamBusy, Dreamer, DreamError
from .idle import Activity, LoadMeter, judge

if TYPE_CHECKING:
    from ..store.memory import MemoryStore

HISTORY_RUNS = 200


@dataclass(frozen=True, slots=True)
class Past:
    """A dream that was tried; `landed` if its changes, even none, became real."""

    kind: RunKind
    began_at: datetime
    landed: bool


@dataclass(frozen=True, slots=True)
class Due:
    """The next dream: due since (or at) `since`, not to be tried before `not_before`; both UTC."""

    kind: RunKind
    since: datetime
    not_before: datetime
    overdue: bool = False

    def is_due(self, now: datetime) -> bool:
        """Whether its time has come."""
        return self.not_before <= now.astimezone(UTC)


def next_due(now: datetime, history: Sequence[Past], settings: ScheduleSettings) -> Due:
    """The next daily or weekly dream. `now` carries the person's zone, with its rules (a ZoneInfo).

    - due at a local time each day; a weekly dream takes the place of that day's daily one;
    - at most one lands a local date, so a missed one that is made up for early counts for the date it lands on;
    - missed ones are made up for once, however many there were;
    - failures since the last landing double the wait, up to a bound.

    A landing that seems to lie in the future (the clock was set back) counts as today's.
    """
    zone, today = now.tzinfo, now.date()
    if zone is None:
        raise ValueError("now needs a zone")
    now_utc = now.astimezone(UTC)
    landed_on = [_landed_on(past, today, zone) for past in history if past.landed]
    weekly_on = [_landed_on(past, today, zone) for past in history if past.landed and past.kind == "weekly"]
    if landed_on:
        first = max(landed_on) + timedelta(days=1)
    else:
        first = today if _slot(today, zone, settings) <= now_utc else today - timedelta(days=1)
    since = _slot(first, zone, settings)
    weekly_after = max(weekly_on) if weekly_on else min(landed_on, default=first - timedelta(days=1))
    weekly_from = _first_weekday_after(weekly_after, settings.weekly_on)
    return Due(
        kind="weekly" if weekly_from <= max(first, today) else "daily",
        since=since,
        not_before=max(since, _backed_off_until(history, settings)),
        overdue=now_utc - since > timedelta(hours=settings.overdue_h),
    )


def _landed_on(past: Past, today: date, zone: tzinfo) -> date:
    return min(past.began_at.astimezone(zone).date(), today)


def _slot(day: date, zone: tzinfo, settings: ScheduleSettings) -> datetime:
    """The due time of a date, in UTC: arithmetic on local times goes wrong twice a year."""
    return datetime.combine(day, settings.daily_at, tzinfo=zone).astimezone(UTC)


def _first_weekday_after(day: date, weekday: int) -> date:
    return day + timedelta(days=(weekday - day.weekday() - 1) % 7 + 1)


def _backed_off_until(history: Sequence[Past], settings: ScheduleSettings) -> datetime:
    """When trying again is allowed: the first failure since the last landing waits the least."""
    last_landing = max((past.began_at for past in history if past.landed), default=datetime.min.replace(tzinfo=UTC))
    failures = [past.began_at for past in history if not past.landed and past.began_at > last_landing]
    if not failures:
        return datetime.min.replace(tzinfo=UTC)
    wait_s = min(settings.longest_backoff_s, settings.first_backoff_s * 2.0 ** min(len(failures) - 1, 20))
    return max(failures).astimezone(UTC) + timedelta(seconds=wait_s)


class Schedule:
    """Asks once a minute whether a dream is due and nobody is there, and if so has it."""

    def __init__(
        self,
        store: MemoryStore,
        dreamer: Dreamer,
        activity: Activity,
        settings: PipelineSettings,
        local_now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._dreamer = dreamer
        self._activity = activity
        self._settings = settings
        self._local_now = local_now
        self._load = LoadMeter()
        self.waiting_for = ""

    def next_due(self) -> Due:
        """The next dream, from the history that is kept."""
        runs = [run for run in self._store.runs(HISTORY_RUNS) if run.kind in ("daily", "weekly")]
        history = [Past(_run_kind(run.kind), run.started_at, run.state != "failed") for run in runs]
        return next_due(self._local_now(), history, self._settings.schedule)

    async def tick(self) -> None:
        """Dream if it is time; otherwise remember what stands against it, for `status`."""
        machine = self._load.read(self._dreamer.child_pid)
        now, due = self._local_now(), self.next_due()
        if self._dreamer.running is not None:
            self.waiting_for = ""
            return
        if self._store.paused:
            self.waiting_for = "learning is paused"
            return
        if not due.is_due(now):
            self.waiting_for = f"due {due.not_before.astimezone(now.tzinfo):%Y-%m-%d %H:%M}"
            return
        schedule, idle = self._settings.schedule, self._settings.idle
        verdict = judge(
            self._activity.quiet_s(), machine, now.hour, idle, hours=schedule.allowed_hours, overdue=due.overdue
        )
        self.waiting_for = verdict.reason
        if verdict.idle:
            with contextlib.suppress(DreamBusy, DreamError):  # recorded and logged by the dreamer: a job's boundary
                await self._dreamer.dream(due.kind)

    @contextlib.asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Tick every minute while inside. A tick missed in suspend is made up for once, by the next one."""
        from apscheduler.schedulers.asyncio import AsyncIOScheduler  # 100 ms: not on the way to the first recall

        scheduler = AsyncIOScheduler(timezone=UTC)
        scheduler.add_job(
            self.tick, "interval", minutes=1, misfire_grace_time=None, coalesce=True, max_instances=1, id="tick"
        )
        scheduler.start()
        logger.debug("the schedule ticks")
        try:
            yield
        finally:
            scheduler.shutdown(wait=False)


def _run_kind(kind: str) -> RunKind:
    return "weekly" if kind == "weekly" else "daily"

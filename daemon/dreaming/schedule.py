"""The schedule of dreams: the next one as a pure function of time, history and settings; and the minute's check."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING

from loguru import logger

from ...pipelines.messages import RunKind
from ...pipelines.settings import PipelineSettings, ScheduleSettings
from ...store import LANDED
from ...store.results import Unread
from .bounds import DREAMS
from .dreamer import DreamBusy, Dreamer, DreamError
from .idle import IdleCheck, LastActivity, LoadMeter, Machine, check_idle, is_away

if TYPE_CHECKING:
    from apscheduler.job import Job

    from ...store import MemoryStore

# Runs read of each kind, without preempted ones, which do not count and may be dozens in a day.
HISTORY_RUNS = 200

COUNTED = (*LANDED, "failed", "cancelled")

# A correction sets a clock back by less; a run with a later date was written while the clock was wrong.
AHEAD = timedelta(hours=1)

NONE = timedelta(0)
AGAIN_S = 60.0


class Ended(StrEnum):
    """The end of a dream that was tried.

    LANDED: its changes, even none, were applied. PREEMPTED: it made way for an agent, and does not count. CANCELLED: a
    person did not want it that day.
    """

    LANDED = "landed"
    FAILED = "failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Past:
    """A dream that was tried."""

    kind: RunKind
    began_at: datetime
    ended: Ended = Ended.LANDED


@dataclass(frozen=True, slots=True)
class Due:
    """The next dream: due since (or at) `since`, not to be tried before `not_before`; both UTC.

    `passed_over` is the number of dreams with a date in the future, which do not count.
    """

    kind: RunKind
    since: datetime
    not_before: datetime
    overdue: bool = False
    passed_over: int = 0

    def is_due(self, now: datetime) -> bool:
        """Return True if it may be tried now."""
        return self.not_before <= now.astimezone(UTC)


def next_due(
    now: datetime, history: Sequence[Past], settings: ScheduleSettings, waiting_turns: int = 0, ended_sessions: int = 0
) -> Due:
    """Return the next dream. `now` carries the person's zone, with its rules (a ZoneInfo).

    - due at a local time each day; a weekly dream replaces that day's daily one;
    - at most one of those lands a local date, or, where they are due in the evening, from noon to noon; a late one
      counts for the date of its landing;
    - any number of missed dreams is made up for by one;
    - failures since the last landing double the wait, up to a bound; preempted ones do not;
    - a compaction, which only reads new turns, comes in between when many turns wait, but not often, and a while after
      any other dream when a session has ended that none has read.

    Dreams with a date in the future do not count, since waiting for that date might take years; but a landing in the
    next hour counts as today's: the clock was set back a little.
    """
    if now.tzinfo is None:
        raise ValueError("now needs a zone")
    now_utc = now.astimezone(UTC)
    believed = [past for past in history if past.began_at <= now_utc + (AHEAD if past.ended is Ended.LANDED else NONE)]
    due = _next_of(now, believed, settings, waiting_turns, ended_sessions)
    return replace(due, passed_over=sum(past.began_at > now_utc + AHEAD for past in history))


def _next_of(
    now: datetime, believed: Sequence[Past], settings: ScheduleSettings, waiting_turns: int, ended_sessions: int
) -> Due:
    now_utc = now.astimezone(UTC)
    nightly = _nightly(now, [past for past in believed if past.kind != "compaction"], settings)
    gaps: list[timedelta] = []
    if 0 < settings.compaction_turns <= waiting_turns:
        gaps.append(timedelta(hours=settings.compaction_gap_h))
    if ended_sessions and settings.session_gap_min:
        gaps.append(timedelta(minutes=settings.session_gap_min))
    if nightly.is_due(now) or not gaps:
        return nightly
    compaction_at = max(now_utc, _compaction_not_before(now_utc, believed, settings, min(gaps)))
    return Due("compaction", now_utc, compaction_at) if compaction_at < nightly.not_before else nightly


def _nightly(now: datetime, history: Sequence[Past], settings: ScheduleSettings) -> Due:
    """Return the next daily or weekly dream."""
    zone, today = now.tzinfo, _night_of(now, settings)
    assert zone is not None
    now_utc = now.astimezone(UTC)

    def dates(ended: Ended, kind: str = "") -> list[date]:
        counted = (past for past in history if past.ended is ended and kind in ("", past.kind))
        # A landing with a date after today was written by a clock that was ahead: it counts for today.
        return [min(_night_of(past.began_at.astimezone(zone), settings), today) for past in counted]

    landed_on, weekly_on = dates(Ended.LANDED), dates(Ended.LANDED, "weekly")
    settled_on = landed_on + dates(Ended.CANCELLED)
    if settled_on:
        first = max(settled_on) + timedelta(days=1)
    else:
        # Without a history, the latest slot that has passed counts as missed.
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


def _compaction_not_before(
    now_utc: datetime, history: Sequence[Past], settings: ScheduleSettings, gap: timedelta
) -> datetime:
    """Return the time a while after the last dream: unreadable turns must not cause one after the other."""
    tried = [
        min(past.began_at, now_utc)
        for past in history
        if past.ended is Ended.LANDED or (past.kind == "compaction" and past.ended is not Ended.PREEMPTED)
    ]
    last = max(tried, default=now_utc - gap).astimezone(UTC)
    compactions = [past for past in history if past.kind == "compaction"]
    return max(last + gap, _backed_off_until(compactions, settings))


def _night_of(local: datetime, settings: ScheduleSettings) -> date:
    """Return the date for which a dream at this local time counts.

    Where dreams are due in the second half of a day, the first half of the next day belongs to the same night.
    """
    shift = timedelta(hours=12 if settings.daily_at.hour >= 12 else 0)
    return (local.replace(tzinfo=None) - shift).date()


def _slot(day: date, zone: tzinfo, settings: ScheduleSettings) -> datetime:
    """Return the due time of a date in UTC, since arithmetic on local times is wrong twice a year."""
    return datetime.combine(day, settings.daily_at, tzinfo=zone).astimezone(UTC)


def _first_weekday_after(day: date, weekday: int) -> date:
    return day + timedelta(days=(weekday - day.weekday() - 1) % 7 + 1)


def _backed_off_until(history: Sequence[Past], settings: ScheduleSettings) -> datetime:
    """Return the time of the next try: the wait doubles with each failure since the last landing."""
    landings = (past.began_at for past in history if past.ended is Ended.LANDED)
    last_landing = max(landings, default=datetime.min.replace(tzinfo=UTC))
    failures = [past.began_at for past in history if past.ended is Ended.FAILED and past.began_at > last_landing]
    if not failures:
        return datetime.min.replace(tzinfo=UTC)
    # The exponent is bounded too, since a float overflows at 2 ** 1024.
    wait_s = min(settings.longest_backoff_s, settings.first_backoff_s * 2.0 ** min(len(failures) - 1, 20))
    return max(failures).astimezone(UTC) + timedelta(seconds=wait_s)


class Schedule:
    """Starts a due dream once the machine is idle, which it checks every minute."""

    def __init__(
        self,
        store: MemoryStore,
        dreamer: Dreamer,
        activity: LastActivity,
        settings: PipelineSettings,
        local_now: Callable[[], datetime],
        is_away: Callable[[float], Awaitable[bool | None]] = is_away,
    ) -> None:
        self._store = store
        self._dreamer = dreamer
        self._activity = activity
        self._settings = settings
        self._local_now = local_now
        self._is_away = is_away
        self._load = LoadMeter()
        self._unread = Unread()
        self.waiting_for = ""

    def next_due(self) -> Due:
        """Return the next dream, by the recorded history and the last count of waiting turns."""
        runs = self._store.runs(HISTORY_RUNS, kinds=DREAMS, states=COUNTED)
        history = [Past(_run_kind(run.kind), run.started_at, _end_of(run.state)) for run in runs]
        settings, unread = self._settings.schedule, self._unread
        # Beyond its capacity a memory is not to grow by turns that nothing was drawn from.
        turns = max(unread.turns, settings.compaction_turns) if unread.is_large and unread.turns else unread.turns
        return next_due(self._local_now(), history, settings, turns, unread.ended)

    async def tick(self) -> None:
        """Run a dream if one is due; otherwise store the reason against it, for `status`.

        Raises nothing: an error is logged and shown in `status`, and the next tick tries again.
        """
        try:
            await self._tick()
        except Exception as error:  # a job's boundary
            logger.opt(exception=True).error("the schedule could not check whether a dream is due")
            self.waiting_for = f"the schedule failed with {type(error).__name__}; the log has the place"

    async def _tick(self) -> None:
        machine = self._load.read(self._dreamer.child_pid)
        if self._dreamer.running is not None:
            self.waiting_for = ""
            return
        if self._store.paused:
            self.waiting_for = "learning is paused"
            return
        due = await asyncio.to_thread(self.next_due)
        if not due.is_due(self._local_now()) and self._check_idle(machine, due).idle:
            # Counting reads many rows: only when idle.
            quiet = timedelta(minutes=self._settings.schedule.session_quiet_min)
            self._unread = await asyncio.to_thread(self._store.unread, quiet)
            due = await asyncio.to_thread(self.next_due)
        now = self._local_now()
        if not due.is_due(now):
            self.waiting_for = f"due {due.not_before.astimezone(now.tzinfo):%Y-%m-%d %H:%M}{_passed_over(due)}"
            return
        self.waiting_for = await self._objection(machine, due)
        if not self.waiting_for:
            self._unread = Unread()
            # Recorded and logged by the dreamer: a job's boundary.
            with contextlib.suppress(DreamBusy, DreamError):
                await self._dreamer.dream(due.kind)

    async def _objection(self, machine: Machine, due: Due) -> str:
        """Return the reason against a due dream, "" without one. The most expensive check is the last."""
        verdict = self._check_idle(machine, due)
        if not verdict.idle:
            return verdict.reason
        spent, limits = await asyncio.to_thread(self._dreamer.spent), self._settings.limits
        # Small dreams leave half of the time to the night's.
        most_s = limits.per_day_s / 2 if due.kind == "compaction" else limits.per_day_s
        if spent.seconds >= most_s:
            return f"dreams took {spent.seconds:.0f} s of the {most_s:.0f} s allowed in 24 hours"
        idle = self._settings.idle
        away = await self._is_away(idle.away_s) if idle.ask_desktop else None
        return self._check_idle(machine, due, away).reason

    def _check_idle(self, machine: Machine, due: Due, away: bool | None = None) -> IdleCheck:
        hours, hour = self._settings.schedule.allowed_hours, self._local_now().hour
        quiet_s, idle = self._activity.quiet_s(), self._settings.idle
        return check_idle(quiet_s, machine, hour, idle, hours=hours, overdue=due.overdue, away=away)

    async def run(self) -> None:
        """Tick every minute, until cancelled. A scheduler that fails is started again a while later."""
        while True:
            try:
                async with self.ticking() as tick:
                    while True:
                        await asyncio.sleep(AGAIN_S)  # by the monotonic clock
                        bring_forward(tick, datetime.now(UTC))
            except Exception as error:  # a job's boundary
                logger.opt(exception=True).error("the schedule ended; it begins again in {:.0f} s", AGAIN_S)
                self.waiting_for = f"the schedule ended with {type(error).__name__}; it begins again"
            await asyncio.sleep(AGAIN_S)

    @contextlib.asynccontextmanager
    async def ticking(self) -> AsyncIterator[Job]:
        """Tick every minute for the duration of a block. Ticks missed in suspend are made up for by one."""
        from apscheduler.schedulers.asyncio import AsyncIOScheduler  # 100 ms: not on the way to the first recall

        self._load.read()
        scheduler = AsyncIOScheduler(timezone=UTC)
        tick = scheduler.add_job(
            self.tick, "interval", minutes=1, misfire_grace_time=None, coalesce=True, max_instances=1, id="tick"
        )
        scheduler.start()
        logger.debug("the schedule ticks")
        try:
            yield tick
        finally:
            scheduler.shutdown(wait=False)


def bring_forward(tick: Job, now: datetime) -> None:
    """Run a job now if its next run is more than a minute ahead, since the wall clock was set back."""
    if tick.next_run_time > now + timedelta(seconds=AGAIN_S):
        tick.modify(next_run_time=now)


def _passed_over(due: Due) -> str:
    if not due.passed_over:
        return ""
    dreams = "1 dream is" if due.passed_over == 1 else f"{due.passed_over} dreams are"
    return f"; {dreams} dated in the future, when the clock was wrong, and not counted"


def _run_kind(kind: str) -> RunKind:
    return "weekly" if kind == "weekly" else "compaction" if kind == "compaction" else "daily"


def _end_of(state: str) -> Ended:
    """Return the end of a run by its state; an undone one has landed too."""
    return Ended(state) if state in set(Ended) else Ended.LANDED

"""When dreams are due: local times, missed nights, failures, and the two nights a year that are not 24 hours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest
from apscheduler.job import Job
from dreamd.daemon.clock import local_now, local_zone
from dreamd.daemon.dreaming.bounds import DREAMS, DailyUsage, usage_in_a_day
from dreamd.daemon.dreaming.dreamer import Dreamer, DreamError
from dreamd.daemon.dreaming.idle import LastActivity, LoadMeter, Machine
from dreamd.daemon.dreaming.schedule import Ended, Past, Schedule, next_due
from dreamd.daemon.settings import Settings
from dreamd.pipelines.messages import RunKind
from dreamd.pipelines.settings import PipelineSettings, ScheduleSettings
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.records import LANDED, Run, record_run
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.results import Unread
from dreamd.store.settings import StoreSettings
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

BERLIN = ZoneInfo("Europe/Berlin")
SETTINGS = ScheduleSettings(daily_at=time(3, 0), weekly_on=6)


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def past(text: str, kind: RunKind = "daily", ended: Ended = Ended.LANDED) -> Past:
    return Past(kind, at(text).astimezone(UTC), ended)


def failed(text: str, kind: RunKind = "daily") -> Past:
    return past(text, kind, Ended.FAILED)


def due_at(now: str, history: Sequence[Past], settings: ScheduleSettings = SETTINGS) -> str:
    return next_due(at(now), history, settings).not_before.astimezone(BERLIN).isoformat()[:16]


def test_daily_at_the_local_time() -> None:
    history = [past("2026-11-17T03:00")]
    assert due_at("2026-11-17T12:00", history) == "2026-11-18T03:00"
    assert not next_due(at("2026-11-18T02:59"), history, SETTINGS).is_due(at("2026-11-18T02:59"))
    assert next_due(at("2026-11-18T03:00"), history, SETTINGS).is_due(at("2026-11-18T03:00"))


def test_the_first_dream_ever_makes_up_for_last_night() -> None:
    due = next_due(at("2026-11-18T14:00"), [], SETTINGS)
    assert due.is_due(at("2026-11-18T14:00"))
    assert not due.overdue
    assert next_due(at("2026-11-18T01:00"), [], SETTINGS).since == at("2026-11-17T03:00")


def test_missed_while_asleep_is_due_at_wake_and_once_only() -> None:
    history = [past("2026-11-10T03:00")]
    now = at("2026-11-18T09:00")
    due = next_due(now, history, SETTINGS)
    assert due.is_due(now)
    assert due.since == at("2026-11-11T03:00")
    assert due.overdue
    made_up = [*history, past("2026-11-18T09:05")]
    assert due_at("2026-11-18T10:00", made_up) == "2026-11-19T03:00"


def test_overdue_only_after_36_hours() -> None:
    history = [past("2026-11-16T03:00")]
    assert not next_due(at("2026-11-18T14:59"), history, SETTINGS).overdue
    assert next_due(at("2026-11-18T15:01"), history, SETTINGS).overdue


def test_at_most_one_lands_a_local_date() -> None:
    history = [past("2026-11-18T00:10")]  # last night's, made up for after midnight
    assert due_at("2026-11-18T03:30", history) == "2026-11-19T03:00"


def test_a_dream_by_hand_in_the_evening_does_not_replace_the_next_night_s() -> None:
    assert due_at("2026-11-18T23:30", [past("2026-11-18T23:00")]) == "2026-11-19T03:00"


def test_failures_back_off_and_are_forgiven_by_a_landing() -> None:
    landed = past("2026-11-17T03:00")
    once = [landed, failed("2026-11-18T03:00")]
    twice = [*once, failed("2026-11-18T03:16")]
    assert due_at("2026-11-18T03:05", once) == "2026-11-18T03:15"
    assert due_at("2026-11-18T03:20", twice) == "2026-11-18T03:46"
    many = [landed, *(failed(f"2026-11-18T{hour:02}:00") for hour in range(3, 20))]
    assert due_at("2026-11-18T19:01", many) == "2026-11-19T01:00"
    assert due_at("2026-11-18T21:00", [*many, past("2026-11-18T20:00")]) == "2026-11-19T03:00"


def test_weekly_takes_the_place_of_sundays_daily() -> None:
    history = [past("2026-11-15T03:00", "weekly"), *(past(f"2026-11-{day}T03:00") for day in range(16, 22))]
    assert next_due(at("2026-11-20T12:00"), history[:6], SETTINGS).kind == "daily"
    assert next_due(at("2026-11-21T12:00"), history, SETTINGS).kind == "weekly"  # Sunday is the 22nd
    assert next_due(at("2026-11-22T12:00"), [*history, past("2026-11-22T03:00", "weekly")], SETTINGS).kind == "daily"


def test_a_missed_weekly_is_made_up_for_on_the_next_day() -> None:
    history = [past("2026-11-15T03:00", "weekly"), past("2026-11-21T03:00")]
    assert next_due(at("2026-11-24T08:00"), history, SETTINGS).kind == "weekly"


def test_a_new_vault_gets_its_first_weekly_on_the_first_sunday() -> None:
    assert (
        next_due(at("2026-11-20T12:00"), [past("2026-11-19T03:00"), past("2026-11-20T03:00")], SETTINGS).kind == "daily"
    )
    assert (
        next_due(at("2026-11-22T12:00"), [past("2026-11-19T03:00"), past("2026-11-21T03:00")], SETTINGS).kind
        == "weekly"
    )


def test_a_clock_set_back_does_not_stop_the_dreams() -> None:
    """Each minute of five days, beside a landing that a clock without its battery dated ten years ahead."""
    now, landed = at("2026-11-18T12:00"), [past("2026-11-18T03:00"), past("2036-11-19T03:00")]
    for _ in range(5 * 24 * 60):
        now += timedelta(minutes=1)
        if next_due(now, landed, SETTINGS).is_due(now):
            landed.append(Past("daily", now.astimezone(UTC)))
    assert len(landed) == 2 + 5


def test_a_clock_set_back_by_minutes_gives_no_second_dream() -> None:
    assert due_at("2026-11-18T03:00", [past("2026-11-18T03:20")]) == "2026-11-19T03:00"


def test_dreams_dated_in_the_future_are_named_as_not_counted() -> None:
    assert next_due(at("2026-11-18T12:00"), [past("2036-11-19T03:00")], SETTINGS).passed_over == 1
    assert next_due(at("2026-11-18T12:00"), [past("2026-11-18T03:00")], SETTINGS).passed_over == 0


NOON = datetime(2026, 11, 18, 11, 0, tzinfo=UTC)
AROUND = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
PASTS = st.builds(Past, st.sampled_from(["daily", "weekly", "compaction"]), AROUND, st.sampled_from(list(Ended)))
NEAR = st.builds(lambda past, hours: replace(past, began_at=NOON + timedelta(hours=hours)), PASTS, st.floats(-60, 60))


@given(history=st.lists(PASTS | NEAR, max_size=8), waiting=st.sampled_from([0, 500]))
def test_whatever_the_dates_of_the_history_a_dream_is_due_within_two_days(history: list[Past], waiting: int) -> None:
    now = NOON.astimezone(BERLIN)
    times = (now + timedelta(hours=hours) for hours in range(49))
    assert any(
        (due := next_due(then, history, SETTINGS, waiting)).kind != "compaction" and due.is_due(then) for then in times
    )


def test_a_night_that_skips_the_hour_dreams_late() -> None:
    """On 2026-03-29 Berlin goes from 02:00 to 03:00."""
    settings = ScheduleSettings(daily_at=time(2, 30))
    history = [past("2026-03-28T02:30")]
    due = next_due(at("2026-03-28T12:00"), history, settings)
    assert due.not_before == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)  # 03:30 summer time: late, not lost
    next_night = next_due(at("2026-03-29T12:00"), [*history, past("2026-03-29T03:30")], settings)
    assert next_night.not_before == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_a_night_that_repeats_the_hour_dreams_once() -> None:
    """On 2026-10-25 Berlin has 02:00 to 03:00 twice; the dream comes once."""
    settings = ScheduleSettings(daily_at=time(2, 30))
    due = next_due(at("2026-10-24T12:00"), [past("2026-10-24T02:30")], settings)
    assert due.not_before == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    landed = [Past("daily", datetime(2026, 10, 25, 0, 30, tzinfo=UTC))]
    second_0230 = datetime(2026, 10, 25, 1, 30, tzinfo=UTC).astimezone(BERLIN)
    assert not next_due(second_0230, landed, settings).is_due(second_0230)


def test_every_minute_of_a_year_with_both_changes_gives_one_dream_a_date() -> None:
    settings = ScheduleSettings(daily_at=time(2, 30))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    landed: list[Past] = [Past("daily", datetime(2025, 12, 31, 2, tzinfo=UTC))]
    while now < datetime(2027, 1, 1, tzinfo=UTC):
        due = next_due(now.astimezone(BERLIN), landed[-40:], settings)
        assert due.not_before > landed[-1].began_at
        now = max(now, due.not_before)
        landed.append(Past(due.kind, now))
        now += timedelta(minutes=1)
    dates = [run.began_at.astimezone(BERLIN).date() for run in landed]
    assert len(set(dates)) == len(dates) == 367
    assert sum(run.kind == "weekly" for run in landed) == 52


def test_a_traveller_gets_at_most_one_a_date_of_where_he_is() -> None:
    history = [past("2026-11-18T03:00")]
    in_tokyo = at("2026-11-18T23:00", ZoneInfo("Asia/Tokyo"))
    due = next_due(in_tokyo, history, SETTINGS)
    assert due.not_before == datetime(2026, 11, 18, 18, 0, tzinfo=UTC)  # 03:00 in Tokyo on the 19th


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        next_due(datetime(2026, 11, 18), [], SETTINGS)


def test_the_clock_is_in_the_persons_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    with freeze_time("2026-07-01T12:00:00Z"):
        now = local_now()
    assert now.isoformat() == "2026-07-01T08:00:00-04:00"
    monkeypatch.setenv("TZ", "No/Such_Place")
    assert local_zone().key == "UTC"


def test_a_dream_that_gave_way_is_due_again_at_once_and_costs_no_patience() -> None:
    history = [past("2026-11-17T03:00"), past("2026-11-18T03:00", "daily", Ended.PREEMPTED)]
    assert next_due(at("2026-11-18T03:40"), history, SETTINGS).is_due(at("2026-11-18T03:40"))
    with_failures = [*history, failed("2026-11-18T04:00"), past("2026-11-18T04:20", "daily", Ended.PREEMPTED)]
    assert due_at("2026-11-18T04:30", with_failures) == "2026-11-18T04:15"


def test_a_cancelled_dream_is_not_had_that_day() -> None:
    history = [past("2026-11-17T03:00"), past("2026-11-18T03:00", "daily", Ended.CANCELLED)]
    assert due_at("2026-11-18T03:10", history) == "2026-11-19T03:00"


def test_a_failure_that_seems_to_lie_in_the_future_is_not_waited_for() -> None:
    history = [past("2026-11-17T03:00"), failed("2031-01-01T03:00")]
    assert due_at("2026-11-18T12:00", history) == "2026-11-18T03:00"


def test_a_clock_that_leaps_forward_and_back_gives_one_dream_for_each_leap() -> None:
    landed = [past("2026-11-17T03:00")]
    leapt = at("2027-03-01T12:00")
    assert next_due(leapt, landed, SETTINGS).is_due(leapt)
    landed.append(Past("daily", leapt.astimezone(UTC)))
    assert not next_due(leapt + timedelta(hours=1), landed, SETTINGS).is_due(leapt + timedelta(hours=1))
    back = at("2026-11-17T12:00")
    assert due_at("2026-11-17T12:00", landed) == "2026-11-18T03:00"
    assert not next_due(back, landed, SETTINGS).is_due(back)


# ---- compactions


def kind_due(now: str, history: Sequence[Past], waiting: int, settings: ScheduleSettings = SETTINGS) -> str:
    due = next_due(at(now), history, settings, waiting)
    return due.kind if due.is_due(at(now)) else "none"


def test_a_compaction_is_due_at_fifty_waiting_turns() -> None:
    history = [past("2026-11-18T03:00")]
    assert kind_due("2026-11-18T12:00", history, 49) == "none"
    assert kind_due("2026-11-18T12:00", history, 50) == "compaction"
    never = SETTINGS.model_copy(update={"compaction_turns": 0})
    assert kind_due("2026-11-18T12:00", history, 5000, never) == "none"


def test_a_compaction_comes_besides_the_nights_dream_and_not_in_its_place() -> None:
    history = [past("2026-11-17T03:00"), past("2026-11-18T02:00", "compaction")]
    assert kind_due("2026-11-18T03:00", history, 500) == "daily"
    assert due_at("2026-11-18T12:00", [past("2026-11-18T03:00"), past("2026-11-18T11:00", "compaction")]) == (
        "2026-11-19T03:00"
    )


def test_turns_that_no_dream_can_read_do_not_keep_it_up() -> None:
    history = [past("2026-11-18T03:00")]
    now, compactions = at("2026-11-18T03:30"), 0
    while now < at("2026-11-19T03:00"):
        due = next_due(now, history, SETTINGS, 1000)
        if due.is_due(now):
            compactions += 1
            history.append(Past(due.kind, now.astimezone(UTC)))
        now += timedelta(minutes=1)
    assert compactions == 7  # one in three hours, from 06:00 on


def test_failed_compactions_back_off_and_leave_the_night_alone() -> None:
    history = [
        past("2026-11-18T03:00"),
        *(failed(f"2026-11-18T{hour:02}:00", "compaction") for hour in (7, 11, 15, 19)),
    ]
    assert kind_due("2026-11-18T22:30", history, 500) == "compaction"
    assert kind_due("2026-11-18T21:30", history, 500) == "none"
    assert due_at("2026-11-19T02:00", history) == "2026-11-19T03:00"


# ---- the tick


class Night:
    """A schedule with everything around it made up."""

    def __init__(self, *, quiet_s: float = 3600, load: float = 0.0, paused: bool = False) -> None:
        self.now = at("2026-11-18T03:00")
        self.history: list[Run] = []
        self.dreamt: list[str] = []
        self.fails = False
        self.waiting_turns = self.ended = 0
        self.is_large = False
        self.store = SimpleNamespace(runs=self.runs, paused=paused, unread=self.unread)
        self.spent = DailyUsage()
        self.away: bool | None = None
        self.dreamer = SimpleNamespace(running=None, child_pid=None, dream=self.dream, spent=lambda: self.spent)
        self.activity = SimpleNamespace(quiet_s=lambda: quiet_s)
        self.schedule = Schedule(
            cast(MemoryStore, self.store),
            cast(Dreamer, self.dreamer),
            cast(LastActivity, self.activity),
            PipelineSettings(),
            lambda: self.now,
            self.is_away,
        )
        self.schedule._load = cast(LoadMeter, SimpleNamespace(read=lambda child_pid=None: Machine(load)))

    def runs(self, limit: int, *, kinds: Sequence[str], states: Sequence[str]) -> list[Run]:
        return [run for run in self.history[::-1] if run.kind in kinds and run.state in states][:limit]

    def unread(self, quiet: timedelta) -> Unread:
        return Unread(self.waiting_turns, ended=self.ended, is_large=self.is_large)

    async def is_away(self, quiet_s: float) -> bool | None:
        return self.away

    async def dream(self, kind: RunKind) -> None:
        self.dreamt.append(kind)
        state = "failed" if self.fails else "applied"
        self.history.append(Run(f"r{len(self.dreamt)}", kind, state, self.now.astimezone(UTC)))
        if self.fails:
            raise DreamError("no")

    def tick(self) -> str:
        asyncio.run(self.schedule.tick())
        return self.schedule.waiting_for


def test_a_tick_at_night_dreams_once() -> None:
    night = Night()
    for _ in range(5):
        night.tick()
        night.now += timedelta(minutes=1)
    assert night.dreamt == ["daily"]
    assert night.schedule.waiting_for == "due 2026-11-19 03:00"


def test_a_tick_says_what_it_waits_for() -> None:
    assert "last activity 5 s ago" in Night(quiet_s=5).tick()
    assert "load 0.90" in Night(load=0.9).tick()
    assert Night(paused=True).tick() == "learning is paused"
    night = Night()
    night.away = False
    assert night.tick() == "the person is at the desk"
    night.away, night.spent = True, DailyUsage(7201, 0)
    assert night.tick() == "dreams took 7201 s of the 7200 s allowed in 24 hours"
    night.spent = DailyUsage(7199, 0)
    assert night.tick() == ""


def test_the_use_of_24_hours_is_summed() -> None:
    now = at("2026-11-18T12:00")
    runs = [
        Run("a", "daily", "preempted", now - timedelta(hours=9), summary={"seconds": 100, "tokens": 5, "calls": 2}),
        Run("b", "daily", "applied", now - timedelta(hours=8), summary={"seconds": 20.5, "calls": 1}),
        Run("c", "daily", "applied", now - timedelta(hours=25), summary={"seconds": 1000, "tokens": 70, "calls": 9}),
        Run("d", "daily", "applied", now + timedelta(hours=1), summary={"seconds": 1000}),
        Run("e", "forget", "applied", now, summary={"note": "x"}),
    ]
    assert usage_in_a_day(runs, now) == DailyUsage(120.5, 5, 3)


def test_a_failed_dream_is_tried_again_after_its_wait_and_the_schedule_lives() -> None:
    night = Night()
    night.fails = True
    night.tick()
    night.now += timedelta(minutes=14)
    night.tick()
    assert len(night.dreamt) == 1
    night.now += timedelta(minutes=1)
    night.fails = False
    night.tick()
    assert [run.state for run in night.history] == ["failed", "applied"]


def test_an_undone_dream_is_not_dreamt_again_the_same_day() -> None:
    night = Night()
    night.history.append(Run("r", "daily", "undone", night.now.astimezone(UTC)))
    night.now += timedelta(hours=1)
    night.tick()
    assert night.dreamt == []


def test_a_forget_run_does_not_count_as_a_dream() -> None:
    night = Night()
    night.history.append(Run("r", "forget", "applied", night.now.astimezone(UTC)))
    night.tick()
    assert night.dreamt == ["daily"]


def test_waiting_turns_are_counted_when_idle_and_compacted_once() -> None:
    night = Night()
    night.tick()
    night.waiting_turns = 60
    night.now += timedelta(hours=4)
    night.tick()
    night.waiting_turns = 0
    night.now += timedelta(hours=4)
    night.tick()
    assert night.dreamt == ["daily", "compaction"]
    busy = Night(quiet_s=5)
    busy.history = night.history
    busy.now, busy.waiting_turns = night.now, 60
    assert busy.tick().startswith("due 2026-11-19")


def test_an_ended_session_is_read_while_it_is_quiet_and_not_again_at_once() -> None:
    night = Night()
    night.tick()
    night.waiting_turns, night.ended = 4, 1
    night.now += timedelta(minutes=31)
    night.tick()
    night.now += timedelta(minutes=10)
    night.tick()
    assert night.dreamt == ["daily", "compaction"]
    busy = Night(quiet_s=5)
    busy.history, busy.now, busy.ended = night.history, night.now + timedelta(hours=1), 1
    busy.tick()
    assert busy.dreamt == []


def test_small_dreams_leave_half_of_the_day_s_time_to_the_night_s() -> None:
    night = Night()
    night.tick()
    night.ended, night.waiting_turns = 1, 4
    night.now += timedelta(hours=1)
    night.spent = DailyUsage(PipelineSettings().limits.per_day_s * 0.6)
    assert "allowed in 24 hours" in night.tick()
    assert night.dreamt == ["daily"]


def test_beyond_its_capacity_one_waiting_turn_is_enough() -> None:
    night = Night()
    night.tick()
    night.waiting_turns, night.is_large = 1, True
    night.now += timedelta(hours=4)
    night.tick()
    night.waiting_turns = 0
    night.now += timedelta(hours=4)
    night.tick()
    assert night.dreamt == ["daily", "compaction"]


def test_no_second_dream_begins_beside_a_running_one() -> None:
    night = Night()
    night.dreamer.running = "r"
    assert night.tick() == ""
    assert night.dreamt == []


def test_the_scheduler_ticks_every_minute() -> None:
    night = Night()

    async def live() -> None:
        async with night.schedule.ticking():
            pass

    asyncio.run(live())


def test_a_clock_set_back_does_not_hold_the_next_tick_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job was put off until a time that the wall clock, set back by years, says is far ahead."""
    night, ticked = Night(), asyncio.Event()
    monkeypatch.setattr("dreamd.daemon.dreaming.schedule.AGAIN_S", 0.0)

    async def tick() -> None:
        ticked.set()

    monkeypatch.setattr(night.schedule, "tick", tick)
    began = night.schedule.ticking

    @contextlib.asynccontextmanager
    async def ticking() -> AsyncIterator[Job]:
        async with began() as job:
            job.modify(next_run_time=datetime.now(UTC) + timedelta(days=3650))
            yield job

    monkeypatch.setattr(night.schedule, "ticking", ticking)

    async def live() -> None:
        task = asyncio.create_task(night.schedule.run())
        async with asyncio.timeout(20):
            await ticked.wait()
        task.cancel()

    asyncio.run(live())


@pytest.mark.parametrize("daily_at", [time(3), time(12), time(18), time(23), time(23, 59)])
@pytest.mark.parametrize("bed", [time(0, 5), time(0, 40), time(2, 30), time(4)])
def test_a_person_who_works_past_midnight_has_a_dream_every_night(daily_at: time, bed: time) -> None:
    settings, landed = ScheduleSettings(daily_at=daily_at, weekly_on=6), [past("2026-10-01T04:00")]
    now = at("2026-10-01T12:00")
    while now < at("2026-11-30T12:00"):
        now += timedelta(minutes=15)
        if bed <= now.time() < time(7) and (due := next_due(now, landed, settings)).is_due(now):
            landed.append(Past(due.kind, now.astimezone(UTC)))
    assert len(landed) == 1 + 60
    assert 8 <= sum(one.kind == "weekly" for one in landed) <= 9


def test_what_was_linked_or_gave_way_does_not_bring_a_second_dream(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path / "v", tmp_path / "l.db", tmp_path / "i.db", tmp_path / "e.db", tmp_path / "runs")
    store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: at("2026-11-18T11:00"))
    with contextlib.closing(store):
        landed = at("2026-11-18T03:00")
        store.record_run(Run("weekly-1", "weekly", "applied", landed - timedelta(days=3), landed))
        store.record_run(Run("landed", "daily", "applied", landed, landed, summary={"seconds": 7000}))
        store.core.writer.write(*(
            record_run(Run(f"{kind}-{n}", kind, state, landed + timedelta(minutes=n)))
            for n in range(300)
            for kind, state in (("link", "applied"), ("daily", "preempted"))
        )).result()  # fmt: skip
        night = Night()
        night.now = at("2026-11-18T11:00")
        night.schedule._store = store
        due = night.schedule.next_due()
        assert (due.kind, due.not_before) == ("daily", at("2026-11-19T03:00"))
        dreamer = Dreamer(store, paths, Settings(data_dir=tmp_path), lambda: night.now)
        assert dreamer.spent().seconds == 7000
        assert [run.run_id for run in store.runs(2, kinds=DREAMS, states=LANDED)] == ["landed", "weekly-1"]
        assert {run.kind for run in store.runs(20, hidden=("link",))} == {"daily"}


def test_a_tick_with_a_bug_is_reported_and_the_next_one_dreams() -> None:
    night = Night()
    night.store.runs = lambda limit, **which: 1 / 0
    assert night.tick() == "the schedule failed with ZeroDivisionError; the log has the place"
    night.store.runs = lambda limit, **which: []
    assert night.tick() == ""
    assert night.dreamt == ["daily"]


def test_a_schedule_that_cannot_begin_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """APScheduler is there the second time it is asked for."""
    night, began = Night(), asyncio.Event()
    monkeypatch.setattr("dreamd.daemon.dreaming.schedule.AGAIN_S", 0.0)

    @contextlib.asynccontextmanager
    async def ticking() -> AsyncIterator[None]:
        if not night.schedule.waiting_for:
            raise ImportError
        began.set()
        yield

    monkeypatch.setattr(night.schedule, "ticking", ticking)

    async def live() -> None:
        task = asyncio.create_task(night.schedule.run())
        async with asyncio.timeout(20):
            await began.wait()
        task.cancel()

    asyncio.run(live())
    assert night.schedule.waiting_for == "the schedule ended with ImportError; it begins again"


def test_a_landing_dated_in_the_future_is_reported() -> None:
    night = Night()
    night.history.append(Run("f", "daily", "applied", at("2036-11-19T03:00").astimezone(UTC)))
    night.tick()
    assert night.dreamt == ["daily"]
    night.now += timedelta(minutes=1)
    assert night.tick().endswith("; 1 dream is dated in the future, when the clock was wrong, and not counted")

"""Away or not: the verdict on a dream, the meter behind it, and what desktops say of their person."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dreamd.daemon.dreaming import idle
from dreamd.daemon.dreaming.idle import LastActivity, LoadMeter, Machine, check_idle
from dreamd.pipelines.settings import IdleSettings

SETTINGS = IdleSettings()
ALWAYS = (0, 24)
CALM = Machine(0.1)


def verdict(
    quiet_s: float = 601,
    machine: Machine = CALM,
    hour: int = 3,
    hours: tuple[int, int] = ALWAYS,
    overdue: bool = False,
    away: bool | None = None,
    settings: IdleSettings = SETTINGS,
) -> str:
    answer = check_idle(quiet_s, machine, hour, settings, hours=hours, overdue=overdue, away=away)
    assert answer.idle == (answer.reason == "")
    return answer.reason


def test_a_quiet_calm_and_plugged_in_machine_is_idle() -> None:
    assert verdict() == ""
    assert verdict(machine=Machine(0.1, on_battery=True, battery_percent=51)) == ""
    assert verdict(machine=Machine(0.1, on_battery=False, battery_percent=3)) == ""


def test_each_reason_against_a_dream_is_named() -> None:
    assert "last activity 599 s ago" in verdict(quiet_s=599)
    assert "load 0.50" in verdict(machine=Machine(0.5))
    assert "battery at 49 %" in verdict(machine=Machine(0.1, on_battery=True, battery_percent=49))
    assert "allowed hours 1 to 5" in verdict(hour=5, hours=(1, 5))


def test_a_person_at_the_desk_delays_a_dream_until_it_is_overdue() -> None:
    assert verdict(away=True) == ""
    assert verdict(away=None) == ""
    assert verdict(away=False) == "the person is at the desk"
    assert verdict(away=False, overdue=True) == ""
    assert verdict(away=False, settings=IdleSettings(ask_desktop=False)) == ""


def test_overdue_needs_only_a_minute_of_quiet() -> None:
    assert verdict(quiet_s=61, overdue=True) == ""
    assert verdict(quiet_s=59, overdue=True)


@pytest.mark.parametrize(("hour", "allowed"), [(21, False), (22, True), (23, True), (0, True), (5, True), (6, False)])
def test_hours_across_midnight(hour: int, allowed: bool) -> None:
    assert (verdict(hour=hour, hours=(22, 6)) == "") is allowed


def test_activity_starts_and_is_renewed_at_zero() -> None:
    activity = LastActivity()
    assert activity.quiet_s() < 5
    activity.touch()
    assert activity.quiet_s() < 5


def test_a_listener_hears_every_touch_while_it_listens() -> None:
    activity, heard = LastActivity(), []
    with activity.notifying(lambda: heard.append(1)):
        activity.touch()
        activity.touch()
    activity.touch()
    assert len(heard) == 2


def test_before_anything_is_known_the_machine_counts_as_busy() -> None:
    assert "load" in verdict(machine=LoadMeter().read())


def test_the_meter_loads_nothing_before_it_is_read() -> None:
    program = (
        "import sys; from dreamd.daemon.dreaming.idle import LoadMeter; LoadMeter(); print('psutil' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_our_own_work_does_not_count_as_load() -> None:
    meter = LoadMeter()
    meter.read()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    ours_alone = 0.25 / (os.cpu_count() or 1)
    machine = meter.read(os.getppid())
    assert machine.load_per_core >= 0
    quiet_machine = os.getloadavg()[0] < 0.2
    assert not quiet_machine or machine.load_per_core < ours_alone


IOREG = '    | |   "HIDIdleTime" = 301000000000\n    | |   "HIDParameters" = {"HIDIdleTime" = 5}\n'


@pytest.mark.parametrize(
    ("said", "away"),
    [
        ("IdleHint=yes\nIdleSinceHint=1700000000000000\n", True),
        ("IdleHint=no\nIdleSinceHint=1700000000000000\n", False),
        ("IdleHint=no\nIdleSinceHint=0\n", None),  # a desktop that never told
        ("IdleHint=no\n", None),
        ("", None),
        ("Failed to get user: not logged in", None),
    ],
)
def test_logind_says_away_present_or_nothing(said: str, away: bool | None) -> None:
    assert idle.by_logind(said) is away


def test_ioreg_tells_the_idle_time() -> None:
    assert idle.by_ioreg(IOREG, 300) is True
    assert idle.by_ioreg(IOREG, 302) is False
    assert idle.by_ioreg("", 300) is None


def test_a_desktop_that_is_not_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert asyncio.run(idle.is_away(300)) is None


def test_a_desktop_is_asked_and_one_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    loginctl = tmp_path / "loginctl"
    loginctl.write_text("#!/bin/sh\necho IdleHint=yes\n")
    loginctl.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert asyncio.run(idle.is_away(300)) is True
    loginctl.write_text("#!/bin/sh\necho IdleHint=yes\nexit 1\n")
    assert asyncio.run(idle.is_away(300)) is None
    monkeypatch.setattr(idle, "ANSWER_TIMEOUT_S", 0.2)
    loginctl.write_text("#!/bin/sh\nexec sleep 60\n")
    assert asyncio.run(idle.is_away(300)) is None

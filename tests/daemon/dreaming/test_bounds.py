"""What ends a dream's process: its own work, its silence, its standing still; never that others use the machine."""

from __future__ import annotations

import pytest
from dreamd.daemon.dreaming.bounds import Bounds, Used
from dreamd.pipelines.settings import LimitSettings

LIMITS = LimitSettings(time_s=1800, silence_s=300, stall_s=1800, memory_mib=500)


def bounds(time_s: float = 1800) -> Bounds:
    return Bounds(LIMITS, time_s)


def test_a_child_with_a_hundredth_of_a_processor_stays_within_its_bounds() -> None:
    child = bounds()
    for run_s in range(0, 20_000, 10):
        assert child.objection(Used(cpu_s=run_s / 100, run_s=run_s)) is None


def test_work_of_processor_and_model_is_bounded_together() -> None:
    child = bounds(60)
    assert child.objection(Used(cpu_s=30, model_s=29, run_s=70)) is None
    found = child.objection(Used(cpu_s=30, model_s=31, run_s=80))
    assert found is not None
    assert "worked longer than 60 s" in found.reason


def test_a_child_that_works_in_silence_is_ended() -> None:
    child = bounds()
    for cpu_s in range(0, 290, 10):
        assert child.objection(Used(cpu_s=cpu_s, run_s=cpu_s)) is None
    child.message_received()
    assert child.objection(Used(cpu_s=570, run_s=570)) is None
    found = child.objection(Used(cpu_s=590, run_s=590))
    assert found is not None
    assert "said nothing" in found.reason


def test_a_child_that_stands_still_is_ended_after_long() -> None:
    child = bounds()
    assert child.objection(Used(cpu_s=5, run_s=10)) is None
    for run_s in range(20, 1800, 20):
        assert child.objection(Used(cpu_s=5, run_s=run_s)) is None  # it may wait for a disk or a model
    found = child.objection(Used(cpu_s=5.01, run_s=1811))  # a thread of it that waits with a timeout
    assert found is not None
    assert "stood still for 1800 s" in found.reason


def test_a_message_ends_standing_still() -> None:
    child = bounds()
    child.objection(Used(run_s=1700))
    child.message_received()
    assert child.objection(Used(run_s=3400)) is None
    assert child.objection(Used(run_s=3501)) is not None


def test_memory_is_bounded_at_every_look() -> None:
    found = bounds().objection(Used(resident_mib=501))
    assert found is not None
    assert "501 MiB of memory and 500" in found.reason


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Used(cpu_s=9, run_s=9.5), ""),
        (Used(cpu_s=9, run_s=12), "at work for 12 s"),
        (Used(cpu_s=0.6, run_s=12, is_ready=True), "waits for the processor (5%)"),
        (Used(cpu_s=0.6, run_s=12, is_ready=False), "waits for a disk or a model"),
    ],
)
def test_silence_is_explained(now: Used, why: str) -> None:
    child = bounds()
    child.objection(now)
    assert child.why_silent() == why
    assert child.why_silent() == ""  # said once, and again after a while

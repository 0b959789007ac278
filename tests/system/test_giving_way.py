"""A dream of the real daemon in the middle of a model's answer: it gives way, is steered, and leaves no orphan."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.bench.slow_model import SlowModel
from tests.system.conftest import Make
from tests.system.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.fixture
def model() -> Iterator[SlowModel]:
    with SlowModel() as slow:
        yield slow


@pytest.fixture
def dreaming(make: Make, model: SlowModel) -> DaemonUnderTest:
    """Start a daemon whose dream waits for a model."""
    daemon = make(**model.environ(), DREAMD_PIPELINES__IDLE__RESUME_QUIET_BY_HAND_S="600")
    daemon.start()
    daemon.wait_until_it_answers()
    turns = [{"role": "user", "text": f"I decided to paint room {n} green because it is dark."} for n in range(3)]
    daemon.call("observe", session={"session_id": "s1", "channel": "house"}, turns=turns)
    assert daemon.call("dream")["state"] == "running"
    until(lambda: model.generating)
    return daemon


def running(daemon: DaemonUnderTest) -> dict[str, Any]:
    dream = daemon.call("status")["dream"]
    assert isinstance(dream, dict)
    return dream


def child_of(daemon: DaemonUnderTest) -> psutil.Process:
    assert daemon.process is not None
    (child,) = psutil.Process(daemon.process.pid).children()
    return child


def left_of_dreams(daemon: DaemonUnderTest) -> list[Path]:
    return list((daemon.folder / "data" / "runs").iterdir())


def test_a_recall_stops_the_dream_and_the_model_and_what_only_looks_does_not(
    dreaming: DaemonUnderTest, model: SlowModel
) -> None:
    for looked in ("status", "runs", "ping", "check"):
        dreaming.call(looked)
    assert running(dreaming)["paused"] == ""
    assert model.generating == 1
    dreaming.call("recall", query="which room is green?", channel="house")
    until(lambda: child_of(dreaming).status() == psutil.STATUS_STOPPED)
    until(lambda: not model.generating)
    assert running(dreaming)["paused"] == "an agent is at work"
    calls = model.calls
    dreaming.call("dream_resume")
    until(lambda: model.generating)  # the call that was called off is made again
    assert model.calls == calls + 1
    assert running(dreaming)["paused"] == ""


def test_a_dream_is_paused_let_go_on_and_cancelled_by_hand(dreaming: DaemonUnderTest, model: SlowModel) -> None:
    run_id = running(dreaming)["run_id"]
    assert dreaming.call("dream_pause") == {"run_id": run_id, "state": "paused"}
    until(lambda: child_of(dreaming).status() == psutil.STATUS_STOPPED)
    until(lambda: not model.generating)
    assert dreaming.call("dream_resume") == {"run_id": run_id, "state": "running"}
    until(lambda: model.generating)
    child = child_of(dreaming)
    assert dreaming.call("dream_cancel") == {"run_id": run_id, "state": "cancelled"}
    assert not child.is_running()
    (run,) = dreaming.call("runs")["runs"]
    assert (run["run_id"], run["state"], run["created"]) == (run_id, "cancelled", 0)
    assert left_of_dreams(dreaming) == []
    with pytest.raises(RuntimeError, match="No dream is running"):
        dreaming.call("dream_pause")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_daemon_that_is_killed_takes_its_dream_with_it(
    dreaming: DaemonUnderTest, model: SlowModel, stopped: bool
) -> None:
    child, run_id = child_of(dreaming), running(dreaming)["run_id"]
    if stopped:
        dreaming.call("dream_pause")
        until(lambda: child.status() == psutil.STATUS_STOPPED)
    dreaming.kill()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    until(lambda: not model.generating)
    dreaming.start()
    dreaming.wait_until_it_answers()
    (run,) = dreaming.call("runs")["runs"]
    assert (run["run_id"], run["state"]) == (run_id, "failed")
    assert left_of_dreams(dreaming) == []


def test_a_child_that_is_killed_is_a_failed_run_and_nothing_more(dreaming: DaemonUnderTest) -> None:
    child = child_of(dreaming)
    child.kill()
    until(lambda: dreaming.call("status")["dream"] is None)
    (run,) = dreaming.call("runs")["runs"]
    assert run["state"] == "failed"
    assert "SIGKILL" in run["note"]
    assert left_of_dreams(dreaming) == []
    assert not child.is_running()


def test_a_daemon_that_is_stopped_calls_its_dream_preempted(dreaming: DaemonUnderTest, model: SlowModel) -> None:
    dreaming.stop()
    until(lambda: not model.generating)
    dreaming.start()
    dreaming.wait_until_it_answers()
    assert [run["state"] for run in dreaming.call("runs")["runs"]] == ["preempted"]

"""Idleness: no activity of agents, a low load, power enough, and the person away from the desk.

Whether the person is at the desk is known where the desktop reports it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...pipelines.settings import IdleSettings


class LastActivity:
    """The time of the last request that shows a person at work. Requests touch it from any thread."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self._listener: Callable[[], None] | None = None

    def touch(self) -> None:
        """Note that a person is at work."""
        self._last_s = time.monotonic()
        if (listener := self._listener) is not None:
            listener()

    @contextlib.contextmanager
    def notifying(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call a function at every touch, for the duration of a block. It delays a request, so it must be quick."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def quiet_s(self) -> float:
        """Return the seconds since the last touch, without those of suspend: a machine that wakes is not yet idle."""
        return time.monotonic() - self._last_s


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's load by other processes, and its power; `battery_percent` None: no battery."""

    load_per_core: float
    on_battery: bool = False
    battery_percent: float | None = None


@dataclass(frozen=True, slots=True)
class IdleCheck:
    """A decision whether to dream now; `reason` is that against it."""

    idle: bool
    reason: str = ""


def check_idle(
    quiet_s: float,
    machine: Machine,
    local_hour: int,
    settings: IdleSettings,
    *,
    hours: tuple[int, int],
    overdue: bool,
    away: bool | None = None,
) -> IdleCheck:
    """Decide on a dream: quiet long enough, load low, power enough, the hour allowed, the person away. Pure.

    `away` None: not known. An overdue dream does not wait until the person is away.
    """
    needed_s = settings.quiet_when_overdue_s if overdue else settings.quiet_s
    if not _within(local_hour, hours):
        return IdleCheck(False, f"outside the allowed hours {hours[0]} to {hours[1]}")
    if quiet_s < needed_s:
        return IdleCheck(False, f"last activity {quiet_s:.0f} s ago, {needed_s:.0f} s needed")
    if machine.load_per_core >= settings.load_per_core:
        return IdleCheck(False, f"load {machine.load_per_core:.2f} a core, below {settings.load_per_core:.2f} needed")
    percent = machine.battery_percent
    if machine.on_battery and percent is not None and percent < settings.battery_percent:
        return IdleCheck(False, f"battery at {percent:.0f} %, {settings.battery_percent:.0f} % or a plug needed")
    if away is False and settings.ask_desktop and not overdue:
        return IdleCheck(False, "the person is at the desk")
    return IdleCheck(True)


def _within(hour: int, hours: tuple[int, int]) -> bool:
    first, last = hours
    # The allowed hours may span midnight, as 22 to 6.
    return first <= hour < last if first <= last else hour >= first or hour < last


class LoadMeter:
    """Measures the processor time of other processes since the last reading, per core.

    The load average would count our own dream, and lags by a minute; processor times can be told apart.
    """

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None

    def read(self, child_pid: int | None = None) -> Machine:
        """Measure the machine since the last call, best a few seconds ago. The first call counts it as busy."""
        import psutil  # 10 ms: not on the way to the first recall

        at_s, others_s = time.monotonic(), _others_cpu_s(child_pid)
        since_s, used_before_s = self._before or (at_s, 0.0)
        elapsed_s, used_s = max(at_s - since_s, 1e-3), max(0.0, others_s - used_before_s)
        self._before = at_s, others_s
        battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        return Machine(
            load_per_core=used_s / elapsed_s / (os.cpu_count() or 1),
            on_battery=battery is not None and battery.power_plugged is False,
            battery_percent=None if battery is None else float(battery.percent),
        )


def _others_cpu_s(child_pid: int | None) -> float:
    """Return the busy seconds of all cores since boot, without ours, our ended children's and the child's."""
    import psutil

    times = psutil.cpu_times()
    # User, nice and system; interrupts too where the system counts them. Waiting for a disk is no load.
    busy_s = sum(times[:3]) if not hasattr(times, "irq") else sum(times[:3]) + times.irq + times.softirq
    ours_s = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        ours_s += usage.ru_utime + usage.ru_stime
    if child_pid is not None:
        try:
            child = psutil.Process(child_pid).cpu_times()
            ours_s += child.user + child.system
        except psutil.Error:
            # It ended in between; the next reading counts it among our ended children.
            pass
    return busy_s - ours_s


ANSWER_TIMEOUT_S = 2.0
_IDLE_TIME = re.compile(r'"HIDIdleTime"\s*=\s*(\d+)')


async def is_away(quiet_s: float) -> bool | None:
    """Return True if keyboard and mouse were untouched for this time, None if that is not known.

    logind has a threshold of its own, that of the desktop's screen saver.
    """
    if sys.platform == "darwin":
        return by_ioreg(await _output_of(["ioreg", "-c", "IOHIDSystem", "-d", "4"]), quiet_s)
    return by_logind(
        await _output_of(["loginctl", "show-user", str(os.getuid()), "-p", "IdleHint", "-p", "IdleSinceHint"])
    )


def by_logind(output: str) -> bool | None:
    """Parse `loginctl show-user`; None for a desktop that has never reported idleness, since it may not report it."""
    known = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    if known.get("IdleHint") == "yes":
        return True
    if known.get("IdleHint") == "no" and known.get("IdleSinceHint", "0").strip("0"):
        return False
    return None


def by_ioreg(output: str, quiet_s: float) -> bool | None:
    """Parse `ioreg`: nanoseconds since the last input."""
    found = _IDLE_TIME.search(output)
    return int(found[1]) / 1e9 >= quiet_s if found else None


async def _output_of(command: Sequence[str]) -> str:
    """Return a command's output; "" if it is missing, fails, or takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    with contextlib.suppress(OSError, TimeoutError):
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdin=none, stdout=pipe, stderr=none)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                printed, _ = await process.communicate()
            return printed.decode("utf-8", "replace") if process.returncode == 0 else ""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return ""

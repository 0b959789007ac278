"""Presence at the desk, as the desktop reports it; unknown where it does not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Sequence

ANSWER_TIMEOUT_S = 2.0
_IDLE_TIME = re.compile(r'"HIDIdleTime"\s*=\s*(\d+)')


async def is_away(quiet_s: float) -> bool | None:
    """Say whether keyboard and mouse were untouched for so long; None where that cannot be known.

    logind has a threshold of its own, that of the desktop's screen saver.
    """
    if sys.platform == "darwin":
        return by_ioreg(await _output_of(["ioreg", "-c", "IOHIDSystem", "-d", "4"]), quiet_s)
    return by_logind(
        await _output_of(["loginctl", "show-user", str(os.getuid()), "-p", "IdleHint", "-p", "IdleSinceHint"])
    )


def by_logind(said: str) -> bool | None:
    """Read `loginctl show-user`: a desktop that never once was idle does not report it, so nothing is known."""
    known = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    if known.get("IdleHint") == "yes":
        return True
    if known.get("IdleHint") == "no" and known.get("IdleSinceHint", "0").strip("0"):
        return False
    return None


def by_ioreg(said: str, quiet_s: float) -> bool | None:
    """Read `ioreg`: nanoseconds since the last touch."""
    found = _IDLE_TIME.search(said)
    return int(found[1]) / 1e9 >= quiet_s if found else None


async def _output_of(command: Sequence[str]) -> str:
    """Return what a command prints; "" if it is not there, fails, or takes too long."""
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

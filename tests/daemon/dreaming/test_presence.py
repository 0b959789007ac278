"""What desktops say of their person, and what is made of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from dreamd.daemon.dreaming import presence

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
    assert presence.by_logind(said) is away


def test_ioreg_tells_the_idle_time() -> None:
    assert presence.by_ioreg(IOREG, 300) is True
    assert presence.by_ioreg(IOREG, 302) is False
    assert presence.by_ioreg("", 300) is None


def test_a_desktop_that_is_not_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert asyncio.run(presence.is_away(300)) is None


def test_a_desktop_is_asked_and_one_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    loginctl = tmp_path / "loginctl"
    loginctl.write_text("#!/bin/sh\necho IdleHint=yes\n")
    loginctl.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert asyncio.run(presence.is_away(300)) is True
    loginctl.write_text("#!/bin/sh\necho IdleHint=yes\nexit 1\n")
    assert asyncio.run(presence.is_away(300)) is None
    monkeypatch.setattr(presence, "ANSWER_TIMEOUT_S", 0.2)
    loginctl.write_text("#!/bin/sh\nexec sleep 60\n")
    assert asyncio.run(presence.is_away(300)) is None

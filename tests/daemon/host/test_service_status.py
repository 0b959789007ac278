"""What the service manager knows of a daemon that does not run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from dreamd.daemon.host.installed_service import installed_service, journal_command

FAILED = """Id=dreamd.service
ActiveState=failed
Result=exit-code
ExecMainStatus=78
StatusText={text}
Environment="DREAMD_LOG__FILE=/var/log/my dreamd.log" DREAMD_DATA_DIR=/d

Id=dreamd.socket
ActiveState={socket}
Result=success
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home in which the units are installed, and programs that print what a test has them print."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    units = tmp_path / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "dreamd.service").touch()
    return tmp_path


def program(home: Path, name: str, says: str) -> None:
    (home / "says").mkdir(exist_ok=True)
    (home / "says" / name).write_text(says)
    path = home / "bin" / name
    path.write_text(f"#!/bin/sh\ncat {home}/says/{name}\n")
    path.chmod(0o755)


def test_without_an_installation_no_manager_is_asked(tmp_path: Path) -> None:
    assert installed_service({"HOME": str(tmp_path)}) is None


def test_the_daemons_own_words_to_the_manager_come_first(home: Path) -> None:
    program(home, "systemctl", FAILED.format(text="could not start: a.toml is not TOML.", socket="failed"))
    program(home, "journalctl", "2026-11-22T10:00:00+0000 host dreamd[7]: dreamd: something else\n")
    service = installed_service({"HOME": str(home)})
    assert service is not None
    assert service.failure == "a.toml is not TOML."
    assert service.remedy == "`systemctl --user restart dreamd.socket` has it listen again"
    assert service.log_file == Path("/var/log/my dreamd.log")


def test_without_a_status_the_journal_s_last_line_or_the_exit_is_the_failure(home: Path) -> None:
    program(home, "systemctl", FAILED.format(text="", socket="active"))
    program(
        home, "journalctl", "2026-11-22 host python[7]: dreamd: a.toml is not TOML.\n2026-11-22 systemd[1]: Failed\n"
    )
    service = installed_service({"HOME": str(home)})
    assert service is not None
    assert service.failure == "a.toml is not TOML."
    assert service.remedy == "the next command starts it again"
    program(home, "journalctl", "-- No entries --\n")
    service = installed_service({"HOME": str(home)})
    assert service is not None
    assert service.failure == "it ended with exit status 78 (exit-code)"


def test_a_manager_that_says_nothing_is_no_failure_of_ours(home: Path) -> None:
    program(home, "systemctl", "")
    service = installed_service({"HOME": str(home)})
    assert service is not None
    assert service.failure == "its socket does not listen"


def test_a_launch_agents_log_tells_why(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert installed_service({"HOME": str(home)}) is None
    (home / "Library" / "LaunchAgents").mkdir(parents=True)
    (home / "Library" / "Logs").mkdir()
    (home / "Library" / "LaunchAgents" / "dreamd.plist").touch()
    program(home, "launchctl", "gui/0/dreamd = {\n\tlast exit code = 78\n}\n")
    (home / "Library" / "Logs" / "dreamd.log").write_text("…\ndreamd: a.toml is not TOML.\n")
    service = installed_service({"HOME": str(home)})
    assert service is not None
    assert service.failure == "a.toml is not TOML."
    assert service.log_file == home / "Library" / "Logs" / "dreamd.log"


def test_the_journal_is_asked_for_our_unit_alone(home: Path) -> None:
    program(home, "journalctl", "")
    command = journal_command(7, follow=True)
    assert command is not None
    assert {"--user", "--unit=dreamd.service", "--lines=7", "--follow"} <= {*command}

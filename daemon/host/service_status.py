"""The installed service as systemd or launchd sees it: whether it failed, why, and where its log is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .install import LABEL, SERVICE, SOCKET, agent_path, launchd_log, unit_folder

ASKED_WITHIN_S = 5.0
_PROPERTIES = "Id,ActiveState,Result,ExecMainStatus,StatusText,Environment"


@dataclass(frozen=True, slots=True)
class Service:
    """An installed service. `failure` says why it does not run, "" while nothing is known to be wrong.

    `remedy` has it started again; `log_file` is where it logs, None for the journal.
    """

    manager: str
    failure: str = ""
    remedy: str = ""
    log_file: Path | None = None


def installed_service(environ: Mapping[str, str] = os.environ) -> Service | None:
    """Ask the service manager; None where `dreamctl install` was never run."""
    if sys.platform == "darwin":
        return _launch_agent(environ) if agent_path(environ).exists() else None
    return _unit() if (unit_folder(environ) / SERVICE).exists() else None


def journal_command(lines: int, follow: bool) -> list[str] | None:
    """Return the command that prints the service's journal, None where there is none."""
    if shutil.which("journalctl") is None:
        return None
    shown = ["--user", f"--unit={SERVICE}", f"--lines={lines}", "--no-pager", "--output=short-iso"]
    return ["journalctl", *shown, *(["--follow"] if follow else [])]


def _unit() -> Service:
    said = _said_by("systemctl", "--user", "show", f"--property={_PROPERTIES}", SERVICE, SOCKET)
    states = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in said.split("\n\n")]
    by_name = {state.get("Id", ""): state for state in states}
    service, listener = by_name.get(SERVICE, {}), by_name.get(SOCKET, {})
    named = [word.partition("=") for word in shlex.split(service.get("Environment", ""))]
    log_file = next((Path(value).expanduser() for name, _, value in named if name == "DREAMD_LOG__FILE"), None)
    failed = service.get("Result", "success") != "success"
    failure = _why(service) if failed else ""
    remedy = "the next command starts it again"
    if listener.get("ActiveState") != "active":
        failure = failure or "its socket does not listen"
        remedy = f"`systemctl --user restart {SOCKET}` has it listen again"
    return Service("systemd", failure, remedy, log_file)


def _why(service: Mapping[str, str]) -> str:
    """Return what the daemon reported to the manager last, else what it wrote last, else how it ended."""
    if said := service.get("StatusText", "").removeprefix("could not start: "):
        return said
    command = journal_command(20, follow=False)
    lines = _said_by(*command).splitlines() if command else []
    if own := [line.partition(" dreamd: ")[2] for line in lines if " dreamd: " in line]:
        return own[-1]
    return f"it ended with exit status {service.get('ExecMainStatus', '?')} ({service.get('Result')})"


def _launch_agent(environ: Mapping[str, str]) -> Service:
    said = _said_by("launchctl", "print", f"gui/{os.getuid()}/{LABEL}")
    code = re.search(r"last exit code = (\d+)", said)
    log = launchd_log(environ)
    failure = ""
    if code is not None and code[1] != "0":
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:] if log.exists() else []
        own = [line.removeprefix("dreamd: ") for line in lines if line.startswith("dreamd: ")]
        failure = own[-1] if own else f"it ended with exit status {code[1]}"
    return Service("launchd", failure, f"`launchctl kickstart gui/{os.getuid()}/{LABEL}` starts it again", log)


def _said_by(*command: str) -> str:
    """Return what a command printed; a manager that does not answer says nothing."""
    return _run(command).stdout if shutil.which(command[0]) else ""


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ASKED_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess(command, 1, "", "")

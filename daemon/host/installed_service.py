"""The installed service, a systemd user unit with its socket or a launch agent: install, uninstall, state, log.

Uninstalling keeps the vault.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ...ipc.socket_path import default_socket_path, too_long
from ...store import replace_file
from .. import HintedError
from ..settings import PREFIX, default_config_path, secret_in_variable
from .settings_check import exposed_secrets

SERVICE, SOCKET = "dreamd.service", "dreamd.socket"
LABEL = "dreamd"
COMMAND_TIMEOUT_S = 60
STATE_TIMEOUT_S = 5.0
PRIVATE = 0o600
_PROPERTIES = "Id,ActiveState,Result,ExecMainStatus,StatusText,Environment"


class InstallError(HintedError):
    """The service could not be installed or removed. `hint` says what to do instead."""


@dataclass(slots=True)
class Installed:
    """The files that were written or removed, and notes for the person."""

    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Service:
    """The state of an installed service. `failure` is the reason why it does not run, "" if it has not failed.

    `remedy` says how it is started again; `log_file` is None where it logs to the journal.
    """

    manager: str
    failure: str = ""
    remedy: str = ""
    log_file: Path | None = None


def install(environ: Mapping[str, str] = os.environ, python: str = sys.executable) -> Installed:
    """Have the service manager start the daemon with this interpreter. Repeating it only repairs."""
    if sys.platform == "darwin":
        return _install_launch_agent(environ, python)
    return _install_units(environ, python)


def uninstall(environ: Mapping[str, str] = os.environ) -> Installed:
    """Stop the daemon, and remove it from the service manager. The vault stays."""
    if sys.platform == "darwin":
        return _uninstall_launch_agent(environ)
    return _uninstall_units(environ)


def installed_service(environ: Mapping[str, str] = os.environ) -> Service | None:
    """Return the state of the service; None if it was not installed."""
    if sys.platform == "darwin":
        return _agent_state(environ) if agent_path(environ).exists() else None
    return _unit_state() if (unit_folder(environ) / SERVICE).exists() else None


def has_manager() -> bool:
    """Return True if a service manager answers for this user."""
    if sys.platform == "darwin":
        return shutil.which("launchctl") is not None
    return shutil.which("systemctl") is not None and not _systemctl("show-environment", check=False).returncode


def stale_files(environ: Mapping[str, str] = os.environ, python: str = sys.executable) -> list[Path]:
    """Return the service's files that are not as this installation writes them."""
    if sys.platform == "darwin":
        wanted = plistlib.dumps(launch_agent(environ, python, launchd_log(environ))).decode()
        return [] if _is_as_wanted(agent_path(environ), wanted) else [agent_path(environ)]
    folder = unit_folder(environ)
    return [folder / name for name, text in units(environ, python).items() if not _is_as_wanted(folder / name, text)]


def start() -> None:
    """Have the service manager start the daemon."""
    if sys.platform == "darwin":
        _launchctl("kickstart", _target())
        return
    _systemctl("reset-failed", SERVICE, SOCKET, check=False)
    _systemctl("start", SOCKET, SERVICE)


def lingers() -> bool | None:
    """Return True if the user's services go on after their last session; None where that is not known."""
    shown = _output_of("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value").strip()
    return {"yes": True, "no": False}.get(shown)


def journal_command(lines: int, follow: bool) -> list[str] | None:
    """Return the command that prints the service's journal, None without a journal."""
    if shutil.which("journalctl") is None:
        return None
    shown = ["--user", f"--unit={SERVICE}", f"--lines={lines}", "--no-pager", "--output=short-iso"]
    return ["journalctl", *shown, *(["--follow"] if follow else [])]


# ---- systemd


def units(environ: Mapping[str, str], python: str) -> dict[str, str]:
    """Return the contents of the unit files, by name."""
    own = _own_variables(environ)
    named = own.pop("DREAMD_SOCKET", "")
    if complaint := too_long(named):
        raise InstallError(complaint, "Set DREAMD_SOCKET to a shorter path.")
    return {
        SERVICE: _template("systemd", SERVICE)
        .replace("@PYTHON@", _quoted(python).replace("$", "$$"))
        .replace("@ENVIRONMENT@\n", "".join(f"Environment={_quoted(f'{k}={v}')}\n" for k, v in own.items())),
        SOCKET: _template("systemd", SOCKET).replace("@SOCKET@", _literal(named) or "%t/dreamd/dreamd.sock"),
    }


def _install_units(environ: Mapping[str, str], python: str) -> Installed:
    _need_user_manager(_by_hand())
    folder, done = unit_folder(environ), Installed()
    changed = {name: text for name, text in units(environ, python).items() if not _is_as_wanted(folder / name, text)}
    # Nothing to write and the socket active: repeated installs leave a running daemon alone.
    if changed or _systemctl("is-active", "--quiet", SOCKET, check=False).returncode:
        _refuse_running_daemon(environ)
    if changed and any((folder / name).exists() for name in changed):
        _systemctl("stop", SERVICE, SOCKET, check=False)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in changed.items():
        replace_file(folder / name, text.encode(), PRIVATE)
        done.files.append(str(folder / name))
    _systemctl("daemon-reload")
    _systemctl("enable", "--quiet", SERVICE, SOCKET)
    # A unit that hit its start limit may start again.
    _systemctl("reset-failed", SERVICE, SOCKET, check=False)
    _systemctl("start", SOCKET)
    done.notes.append("The first question starts the daemon, and so does every login." if changed else "Nothing to do.")
    done.notes += exposed_secrets(default_config_path(environ))
    return done


def _uninstall_units(environ: Mapping[str, str]) -> Installed:
    folder, done = unit_folder(environ), Installed()
    there = [folder / name for name in (SERVICE, SOCKET) if (folder / name).exists()]
    if not there:
        done.notes.append("Nothing was installed.")
        return done
    _need_user_manager("The files of the service stay; remove them once it answers.")
    _systemctl("disable", "--quiet", "--now", SOCKET, SERVICE, check=False)
    for file in there:
        file.unlink()
        done.files.append(str(file))
    _systemctl("daemon-reload")
    _systemctl("reset-failed", SERVICE, SOCKET, check=False)
    done.notes.append("The daemon is stopped and removed. The vault is untouched.")
    return done


def _unit_state() -> Service:
    shown = _output_of("systemctl", "--user", "show", f"--property={_PROPERTIES}", SERVICE, SOCKET)
    states = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n")]
    by_name = {state.get("Id", ""): state for state in states}
    service, listener = by_name.get(SERVICE, {}), by_name.get(SOCKET, {})
    named = [word.partition("=") for word in shlex.split(service.get("Environment", ""))]
    log_file = next((Path(value).expanduser() for name, _, value in named if name == "DREAMD_LOG__FILE"), None)
    # A unit that gave up keeps its result until it is reset or started again.
    failed = service.get("Result", "success") != "success"
    failure = _why(service) if failed else ""
    remedy = "the next command starts it again"
    if listener.get("ActiveState") != "active":
        failure = failure or "its socket does not listen"
        remedy = f"`systemctl --user restart {SOCKET}` has it listen again"
    return Service("systemd", failure, remedy, log_file)


def _why(service: Mapping[str, str]) -> str:
    """Return the daemon's last report to the manager, else its last line in the journal, else its exit status."""
    if reported := service.get("StatusText", "").removeprefix("could not start: "):
        return reported
    command = journal_command(20, follow=False)
    lines = _output_of(*command).splitlines() if command else []
    if own := [line.partition(" dreamd: ")[2] for line in lines if " dreamd: " in line]:
        return own[-1]
    return f"it ended with exit status {service.get('ExecMainStatus', '?')} ({service.get('Result')})"


def unit_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's units."""
    config = environ.get("XDG_CONFIG_HOME", "")
    home = Path(environ.get("HOME") or Path.home())
    return (Path(config) if config.startswith("/") else home / ".config") / "systemd" / "user"


def _need_user_manager(instead: str) -> None:
    """Raise InstallError where no systemd answers for this user; `instead` is what to do there."""
    if shutil.which("systemctl") is None:
        raise InstallError("There is no systemd here.", instead)
    if not has_manager():
        hint = f"{instead} Where there is one, log in as yourself (not with su or sudo)."
        raise InstallError("No systemd user manager answers.", hint)


def _by_hand() -> str:
    own = shlex.join((sys.executable, "-P", "-m", "dreamd.daemon"))
    return f"Run `dreamd` by hand, or have cron start it: `crontab -e`, and there the line `@reboot {own}`."


def _refuse_running_daemon(environ: Mapping[str, str]) -> None:
    """Raise InstallError while a daemon runs outside the service: systemd would replace its socket."""
    if not _systemctl("is-active", "--quiet", SERVICE, check=False).returncode:
        return
    if not _systemctl("is-active", "--quiet", SOCKET, check=False).returncode:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(default_socket_path(environ))
        except OSError:
            return
    raise InstallError("A dreamd that was started by hand is running.", "Stop it first: `dreamctl stop`.")


def _systemctl(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _command(("systemctl", "--user", *arguments), check=check)


def _quoted(word: str) -> str:
    """Quote one word of a unit file: systemd.syntax(7), and systemd.unit(5) on specifiers."""
    if "\n" in word:
        raise InstallError("A line break cannot be written into a unit.", "Take it out of the variable or path.")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_literal(escaped)}"'


def _literal(text: str) -> str:
    return text.replace("%", "%%")


# ---- launchd


def launch_agent(environ: Mapping[str, str], python: str, log: Path) -> dict[str, Any]:
    """Return the launch agent's property list."""
    agent: dict[str, Any] = plistlib.loads(_template("launchd", "dreamd.plist").encode())
    agent["ProgramArguments"] = [python if word == "@PYTHON@" else word for word in agent["ProgramArguments"]]
    agent["EnvironmentVariables"] = _own_variables(environ)
    agent["StandardErrorPath"] = str(log)
    return agent


def _install_launch_agent(environ: Mapping[str, str], python: str) -> Installed:
    path, done = agent_path(environ), Installed()
    log = launchd_log(environ)
    wanted = plistlib.dumps(launch_agent(environ, python, log))
    done.notes += exposed_secrets(default_config_path(environ))
    if _is_as_wanted(path, wanted.decode()) and not _launchctl("print", _target(), check=False).returncode:
        done.notes.append("Nothing to do.")
        return done
    path.parent.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    _launchctl("bootout", _target(), check=False)
    replace_file(path, wanted, PRIVATE)
    _launchctl("enable", _target(), check=False)
    _launchctl("bootstrap", _domain(), str(path))
    done.files.append(str(path))
    done.notes.append(f"The daemon runs, now and at every login; it logs to {log}.")
    return done


def _uninstall_launch_agent(environ: Mapping[str, str]) -> Installed:
    path, done = agent_path(environ), Installed()
    _launchctl("bootout", _target(), check=False)
    if path.exists():
        path.unlink()
        done.files.append(str(path))
    done.notes.append("The daemon is stopped and removed. The vault is untouched.")
    return done


def _agent_state(environ: Mapping[str, str]) -> Service:
    code = re.search(r"last exit code = (\d+)", _output_of("launchctl", "print", _target()))
    log = launchd_log(environ)
    failure = ""
    if code is not None and code[1] != "0":
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:] if log.exists() else []
        own = [line.removeprefix("dreamd: ") for line in lines if line.startswith("dreamd: ")]
        failure = own[-1] if own else f"it ended with exit status {code[1]}"
    return Service("launchd", failure, f"`launchctl kickstart {_target()}` starts it again", log)


def agent_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the launch agent."""
    return Path(environ.get("HOME") or Path.home()) / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def launchd_log(environ: Mapping[str, str]) -> Path:
    """Return the path of the daemon's log under launchd."""
    return agent_path(environ).parents[1] / "Logs" / "dreamd.log"


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _target() -> str:
    return f"{_domain()}/{LABEL}"


def _launchctl(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _command(("launchctl", *arguments), check=check)


# ---- both


def _own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return dreamd's variables in this shell, which the service manager does not have.

    Raises InstallError for one that holds a secret: every program of the user can read a unit, and backups copy it.
    """
    own = {
        name: value
        for name, value in sorted(environ.items())
        if name.startswith(PREFIX)
        and name not in ("DREAMD_NO_HOOKS", "DREAMD_USER")  # which are for programs in a shell
    }
    for name, value in own.items():
        if key := secret_in_variable(name, value):
            raise InstallError(
                f"{name} holds a secret ({key}), which is not written into a service's file.",
                f"Write it alone into a file that only you can read (chmod 600), name that in {PREFIX}"
                f"{key.replace('.', '__').upper()}_FILE, unset {name}, and install again.",
            )
    return own


def _template(folder: str, name: str) -> str:
    return resources.files("dreamd").joinpath(folder, name).read_text(encoding="utf-8")


def _is_as_wanted(path: Path, text: str) -> bool:
    """Return True if a file has this text, and only its owner may read it."""
    try:
        return path.read_text(encoding="utf-8") == text and stat.S_IMODE(path.stat().st_mode) == PRIVATE
    except FileNotFoundError:
        return False


def _command(command: Sequence[str], *, check: bool) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"`{' '.join(command)}` did not work: {error}") from error
    if check and done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise InstallError(f"`{' '.join(command)}` failed: {output}", "Mend that and run `dreamctl install` again.")
    return done


def _output_of(*command: str) -> str:
    """Return a command's output, "" for one that is missing, fails to start, or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STATE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout

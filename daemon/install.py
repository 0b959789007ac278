"""`dreamctl install` and `uninstall`: a systemd user unit with its socket, or a launch agent. The vault stays."""

from __future__ import annotations

import os
import plistlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ..ipc.paths import default_socket_path, too_long

SERVICE, SOCKET = "dreamd.service", "dreamd.socket"
LABEL = "dreamd"
COMMAND_TIMEOUT_S = 60


class InstallError(Exception):
    """Nothing could be installed or removed here. `hint` says what to do instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class Installed:
    """What was done: the files written or removed, and what a person should know."""

    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def install(environ: Mapping[str, str] = os.environ, python: str = sys.executable) -> Installed:
    """Have the service manager start the daemon of this very interpreter. Doing it again mends and changes nothing."""
    if sys.platform == "darwin":
        return _install_launch_agent(environ, python)
    return _install_units(environ, python)


def uninstall(environ: Mapping[str, str] = os.environ) -> Installed:
    """Stop the daemon, and have the service manager forget it. The vault and everything in it stays."""
    if sys.platform == "darwin":
        return _uninstall_launch_agent(environ)
    return _uninstall_units(environ)


# ---- systemd


def units(environ: Mapping[str, str], python: str) -> dict[str, str]:
    """The unit files by name."""
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
    _need_user_manager()
    folder, done = _unit_folder(environ), Installed()
    changed = {name: text for name, text in units(environ, python).items() if _read(folder / name) != text}
    if changed or _systemctl("is-active", "--quiet", SOCKET, check=False).returncode:
        _refuse_a_daemon_of_its_own(environ)
    if changed and any((folder / name).exists() for name in changed):
        _systemctl("stop", SERVICE, SOCKET, check=False)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in changed.items():
        (folder / name).write_text(text, encoding="utf-8")
        done.files.append(str(folder / name))
    _systemctl("daemon-reload")
    _systemctl("enable", "--quiet", SERVICE, SOCKET)
    _systemctl("start", SOCKET)
    done.notes.append("The first question starts the daemon, and so does every login." if changed else "Nothing to do.")
    return done


def _uninstall_units(environ: Mapping[str, str]) -> Installed:
    folder, done = _unit_folder(environ), Installed()
    there = [folder / name for name in (SERVICE, SOCKET) if (folder / name).exists()]
    if not there:
        done.notes.append("Nothing was installed.")
        return done
    _need_user_manager()
    _systemctl("disable", "--quiet", "--now", SOCKET, SERVICE, check=False)
    for file in there:
        file.unlink()
        done.files.append(str(file))
    _systemctl("daemon-reload")
    _systemctl("reset-failed", SERVICE, SOCKET, check=False)
    done.notes.append("The daemon is stopped and removed. The vault is untouched.")
    return done


def _unit_folder(environ: Mapping[str, str]) -> Path:
    config = environ.get("XDG_CONFIG_HOME", "")
    home = Path(environ.get("HOME") or Path.home())
    return (Path(config) if config.startswith("/") else home / ".config") / "systemd" / "user"


def _need_user_manager() -> None:
    if shutil.which("systemctl") is None:
        raise InstallError("There is no systemd here.", "Start `dreamd` from whatever starts your session.")
    if _systemctl("show-environment", check=False).returncode:
        raise InstallError(
            "No systemd user manager answers.", "Log in as the user who is to have the daemon (not with su or sudo)."
        )


def _refuse_a_daemon_of_its_own(environ: Mapping[str, str]) -> None:
    """systemd would take the path of a living daemon's socket from under it."""
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
    """One word of a unit file, see systemd.syntax(7) and, on specifiers, systemd.unit(5)."""
    if "\n" in word:
        raise InstallError("A line break cannot be written into a unit.", "Take it out of the variable or path.")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_literal(escaped)}"'


def _literal(text: str) -> str:
    return text.replace("%", "%%")


# ---- launchd


def launch_agent(environ: Mapping[str, str], python: str, log: Path) -> dict[str, Any]:
    """The launch agent's property list."""
    agent: dict[str, Any] = plistlib.loads(_template("launchd", "dreamd.plist").encode())
    agent["ProgramArguments"] = [python if word == "@PYTHON@" else word for word in agent["ProgramArguments"]]
    agent["EnvironmentVariables"] = _own_variables(environ)
    agent["StandardErrorPath"] = str(log)
    return agent


def _install_launch_agent(environ: Mapping[str, str], python: str) -> Installed:
    path, done = _agent_path(environ), Installed()
    log = path.parents[1] / "Logs" / "dreamd.log"
    wanted = plistlib.dumps(launch_agent(environ, python, log))
    if path.exists() and path.read_bytes() == wanted and not _launchctl("print", _target(), check=False).returncode:
        done.notes.append("Nothing to do.")
        return done
    path.parent.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    _launchctl("bootout", _target(), check=False)
    path.write_bytes(wanted)
    _launchctl("enable", _target(), check=False)
    _launchctl("bootstrap", _domain(), str(path))
    done.files.append(str(path))
    done.notes.append(f"The daemon runs, now and at every login; it logs to {log}.")
    return done


def _uninstall_launch_agent(environ: Mapping[str, str]) -> Installed:
    path, done = _agent_path(environ), Installed()
    _launchctl("bootout", _target(), check=False)
    if path.exists():
        path.unlink()
        done.files.append(str(path))
    done.notes.append("The daemon is stopped and removed. The vault is untouched.")
    return done


def _agent_path(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home()) / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _target() -> str:
    return f"{_domain()}/{LABEL}"


def _launchctl(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _command(("launchctl", *arguments), check=check)


# ---- both


def _own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Our own settings of the shell that installs: the service manager would not know them."""
    return {name: value for name, value in sorted(environ.items()) if name.startswith("DREAMD_")}


def _template(folder: str, name: str) -> str:
    return resources.files("dreamd").joinpath(folder, name).read_text(encoding="utf-8")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _command(command: Sequence[str], *, check: bool) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"`{' '.join(command)}` did not work: {error}") from error
    if check and done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise InstallError(f"`{' '.join(command)}` failed: {said}", "Mend that and run `dreamctl install` again.")
    return done

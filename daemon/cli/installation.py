"""The commands that install and remove the service: install, uninstall."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from ..host.install import Installed, InstallError
from ..host.install import install as install_service
from ..host.install import uninstall as uninstall_service
from .agents.connect import offer
from .formatting import count, sentence
from .terminal import Terminal


def install_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of install: none."""


def install(options: Namespace, terminal: Terminal) -> int:
    """Have the service manager start the daemon, and offer to connect the agent programs that are here."""
    code = _report(terminal, install_service, "Wrote")
    offer(terminal)
    return code


def uninstall_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of uninstall: none; there is no option that removes the vault."""


def uninstall(options: Namespace, terminal: Terminal) -> int:
    """Have the service manager forget the daemon; the vault stays."""
    return _report(terminal, uninstall_service, "Removed")


def _report(terminal: Terminal, act: Callable[[], Installed], did: str) -> int:
    try:
        done = act()
    except InstallError as error:
        terminal.fail(str(error), error.hint)
        return 1
    if terminal.as_json:
        terminal.document({"files": done.files, "notes": done.notes})
        return 0
    files = [f"{did} {count(len(done.files), 'file')}:", *(f"  {file}" for file in done.files)] if done.files else []
    terminal.lines([*files, *(sentence(note) for note in done.notes)])
    return 0

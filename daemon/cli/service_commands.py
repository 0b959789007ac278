"""The commands about the installed service: install, uninstall, log."""

from __future__ import annotations

import os
import subprocess
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...ipc.client import ClientError
from ..host import installed_service as service_host
from ..host.installed_service import Installed, InstallError
from .arguments import whole
from .connect_commands import offer
from .formatting import clean, count, sentence
from .terminal import Terminal

if TYPE_CHECKING:
    from ..host.installed_service import Service

POLL_S = 0.25


def install(options: Namespace, terminal: Terminal) -> int:
    """Install the service, and offer to connect the agent programs on this machine."""
    code = _report(terminal, service_host.install, "Wrote")
    offer(terminal)
    return code


def uninstall(options: Namespace, terminal: Terminal) -> int:
    """Remove the service; the vault stays."""
    return _report(terminal, service_host.uninstall, "Removed")


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


def log_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of log."""
    parser.add_argument(
        "-n", "--lines", type=whole(0, 1_000_000), default=50, metavar="N", help="the last N lines (50)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow new lines until Ctrl-C")


def log(options: Namespace, terminal: Terminal) -> int:
    """Print the end of the log."""
    service = service_host.installed_service()
    source, lines = _source(service, options.lines, options.follow)
    if terminal.as_json and not options.follow:
        terminal.document({"source": source, "lines": [clean(line) for line in lines]})
        return 0
    for line in lines:
        terminal.report({"line": clean(line)}, [clean(line)])
        if options.follow:
            terminal.flush()
    if service is not None and service.failure:
        terminal.note(f"{service.manager} could not start it: {service.failure}")
    return 0


def _source(service: Service | None, lines: int, follow: bool) -> tuple[str, Iterator[str]]:
    """Return the log's name and its lines: the settings' file, the service's, or the journal. Raises ClientError."""
    for file in (_named_in_settings(), service.log_file if service else None):
        if file is not None and file.exists():
            return str(file), _of_file(file, lines, follow)
    if service is not None and (command := service_host.journal_command(lines, follow)):
        return "the journal", _of_command(command)
    raise ClientError(
        "dreamd keeps no log here: it writes to the terminal that it was started in",
        "to have a file, set log.file in dreamd.toml (DREAMD_LOG__FILE)",
    )


def _named_in_settings() -> Path | None:
    from ..settings import SettingsError, load

    try:
        file = load().log.file
    except SettingsError:
        return None
    return None if file is None else file.expanduser().absolute()


def _of_file(path: Path, lines: int, follow: bool) -> Iterator[str]:
    """Yield the last lines of a file, then, with `follow`, new ones, also of the file that replaces it by rotation."""
    file = path.open(encoding="utf-8", errors="replace")
    with file:
        yield from [line.rstrip("\n") for line in deque(file, lines)]
        while follow:
            if line := file.readline():
                yield line.rstrip("\n")
            # The log was rotated: the rest of the old file has been read, and the path is a new file.
            elif _is_another(path, file.fileno()):
                yield from _of_file(path, 2**20, follow)
                return
            else:
                time.sleep(POLL_S)


def _is_another(path: Path, descriptor: int) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _of_command(command: list[str]) -> Iterator[str]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        try:
            yield from (line.rstrip("\n") for line in process.stdout)
        finally:
            process.terminate()

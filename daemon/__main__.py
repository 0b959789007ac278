"""`dreamd`: the daemon, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dreamd import __version__

if TYPE_CHECKING:
    from .settings import Settings

# sysexits.h; the unit does not restart after these, since another try would fail as well.
EXIT_CONFIG = 78
EXIT_ALREADY_RUNNING = 75
EXIT_STORE = 65
# This one may pass, such as a disk that does not answer.
EXIT_OS = 71

# The time for which a thread may keep the interpreter. With the default of 5 ms an acknowledgement waited for it twice
# while a batch was indexed or embedded: once for the loop, once for the writer.
SWITCH_INTERVAL_S = 0.0005

# New objects, less freed ones, before Python collects cycles. With its default of 700 it did so several times during
# each recall, for a sixth of its time (10,000 memories: 7.7 ms of a processor, 6.6 with this).
OBJECTS_BEFORE_COLLECTION = 50_000


def main(argv: list[str] | None = None) -> int:
    """Run the daemon until a signal or `stop`; return the exit code, of the reason if it could not start.

    With `mcp` it is the relay of `dreamctl mcp`: runners of packages start the command with their package's name.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["mcp"]:
        from ..ipc.mcp.relay import main as relay

        return relay(words[1:])
    parser = argparse.ArgumentParser(prog="dreamd", description="One long-term memory for a person's AI agents.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, instead of the usual file")
    parser.add_argument("--version", action="version", version=f"dreamd {__version__}")
    arguments = parser.parse_args(words)

    from .host.service_manager import StartRefusal
    from .host.settings_check import UnusableFolder
    from .settings import SettingsError

    refusal = StartRefusal(os.environ)
    try:
        loaded = _usable_settings(arguments.config)
    except (SettingsError, UnusableFolder) as error:
        return refusal.because(error, _code(error, EXIT_CONFIG), lambda: not _are_usable(arguments.config))

    from ..ipc.server.listener import AddressInUse, ListenerError
    from ..store.model import StoreError
    from . import app
    from .host import lock, logs

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    os.umask(0o077)  # every file is for its owner alone
    logs.set_up(loaded.log)
    try:
        asyncio.run(app.Daemon(loaded).run())
    except (lock.AlreadyRunning, AddressInUse) as error:
        return refusal.because(error, EXIT_ALREADY_RUNNING)
    except (ListenerError, StoreError) as error:
        return refusal.because(error, _code(error, EXIT_STORE))
    except OSError as error:
        if error.filename is None:
            raise
        return refusal.because(_in_words(error), EXIT_CONFIG if isinstance(error, _NOT_USABLE) else EXIT_OS)
    return 0


_NOT_USABLE = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)


def _code(error: Exception, lasting: int) -> int:
    """Return the exit code for an error at the start: `lasting`, unless the disk may recover."""
    from ..store import may_pass
    from ..store.model import StoreBusy

    return EXIT_OS if isinstance(error, StoreBusy) or may_pass(error.__cause__) else lasting


def _usable_settings(config: Path | None) -> Settings:
    """Read the settings and try their folders. Raises SettingsError or UnusableFolder."""
    from . import settings
    from .host import settings_check

    loaded = settings.load(config)
    settings_check.refuse_unusable(loaded)
    return loaded


def _are_usable(config: Path | None) -> bool:
    try:
        _usable_settings(config)
    except Exception:
        return False
    return True


def _in_words(error: OSError) -> Exception:
    return RuntimeError(f"{error.filename} cannot be used: {(error.strerror or type(error).__name__).lower()}.")


if __name__ == "__main__":
    sys.exit(main())

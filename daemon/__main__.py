"""`dreamd`: the daemon, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from dreamd import __version__

# sysexits.h; the unit does not restart after these, since trying again cannot help.
EXIT_CONFIG = 78
EXIT_ALREADY_RUNNING = 75
EXIT_STORE = 65

# How long a thread may keep Python from the others. By default 5 ms, which an acknowledgement waited for twice while
# a batch was being indexed or embedded: once for the loop, once for the writer.
SWITCH_INTERVAL_S = 0.0005


def main(argv: list[str] | None = None) -> int:
    """Run the daemon until it is told to stop; the exit code says why it could not."""
    parser = argparse.ArgumentParser(prog="dreamd", description="One long-term memory for a person's AI agents.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, instead of the usual file")
    parser.add_argument("--version", action="version", version=f"dreamd {__version__}")
    arguments = parser.parse_args(argv)

    from dreamd.daemon import settings

    try:
        loaded = settings.load(arguments.config)
    except settings.SettingsError as error:
        return _complain(error, EXIT_CONFIG)

    from dreamd.daemon import app, lock, logs
    from dreamd.ipc.listener import AlreadyRunning, ListenerError
    from dreamd.store.model import StoreError

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    os.umask(0o077)  # whatever it makes is for its person alone
    logs.set_up(loaded.log)
    try:
        asyncio.run(app.Daemon(loaded).run())
    except (lock.AlreadyRunning, AlreadyRunning) as error:
        return _complain(error, EXIT_ALREADY_RUNNING)
    except (ListenerError, StoreError) as error:
        return _complain(error, EXIT_STORE)
    return 0


def _complain(error: Exception, code: int) -> int:
    hint = getattr(error, "hint", "")
    print(f"dreamd: {error}" + (f" {hint}" if hint else ""), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

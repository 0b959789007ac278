"""The commands that work without a daemon: check and rebuild by themselves, and salvage, which needs it stopped."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...ipc.client import ClientError
from .formatting import Look, clean, count, listing
from .request import OnProgress
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.answers import ProblemAnswer, RebuildAnswer


def salvage_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of salvage."""
    parser.add_argument("--discard", action="store_true", help="start anew without what was damaged or lost")


def salvage(options: Namespace, terminal: Terminal) -> int:
    """Bring back what a damaged ledger held, while no daemon runs."""
    with _in_words():
        from .. import offline_repair as offline
        from ..settings import load

        answer = offline.go_on_without(load()) if options.discard else offline.bring_back(load())
    terminal.report(answer, salvage_in_words(answer, terminal.look))
    return 0


def check_alone() -> tuple[list[ProblemAnswer], str]:
    """Look at what can be looked at without a daemon; the problems, and what was left out. Raises ClientError."""
    with _in_words():
        from .. import offline_repair as offline
        from ..settings import load

        return offline.look(load())


def is_in_use() -> bool:
    """Say whether anything was ever kept where the settings say."""
    with _in_words():
        from ..settings import load, store_paths

        return store_paths(load()).ledger.exists()


def rebuild_alone(on_progress: OnProgress | None) -> RebuildAnswer:
    """Make the index anew without a daemon. Raises ClientError."""

    def progress(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress({"stage": "rebuild", "done": done, "total": total, "note": ""})

    with _in_words():
        from .. import offline_repair as offline
        from ..settings import load

        return offline.rebuild(load(), progress)


def salvage_in_words(answer: dict[str, Any], look: Look) -> list[str]:
    """Count what was brought back of each file, and say under which name that stays."""
    if "discarded" in answer:
        kept = f" What was damaged stays as {listing(answer['discarded'])}." if answer["discarded"] else ""
        return look.wrap(f"dreamd goes on without it.{kept}")
    lines: list[str] = []
    for one in answer["salvaged"]:
        rows = [f"{number:,} of {clean(table)}" for table, number in one["rows"].items() if number]
        lost = f"; {count(one['lost'], 'row')} could not be read" if one["lost"] else ""
        back = listing(rows) if rows else "nothing"
        lines += look.wrap(f"Brought back from {one['file']}: {back}{lost}. The file stays as {one['kept_as']}.")
    return lines or ["No damaged ledger is there."]


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    from ...store.model import StoreError
    from ..host.lock import AlreadyRunning
    from ..settings import SettingsError

    try:
        yield
    except (AlreadyRunning, StoreError, SettingsError) as error:
        raise ClientError(str(error), error.hint) from error
    except OSError as error:
        raise ClientError(f"{error.strerror}: {error.filename}", "Look at the disk.") from error

"""How a long command is seen: bars on a terminal, a few plain lines anywhere else, nothing beside JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .terminal import Terminal
from .words import clean

PLAIN_INTERVAL_S = 5.0

OnProgress = Callable[[dict[str, Any]], None]


@contextmanager
def shown_progress(terminal: Terminal, title: str) -> Iterator[OnProgress | None]:
    """Give a callback for the daemon's progress messages, which shows them while the block runs."""
    if terminal.as_json:
        yield None
    elif terminal.is_live:
        with _bars(title) as on_progress:
            yield on_progress
    else:
        yield PlainLines(title)


class PlainLines:
    """A line when a stage begins and at each further quarter of it, or every few seconds when its size is unknown."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._said: tuple[str, int] = ("", -1)

    def __call__(self, progress: dict[str, Any]) -> None:
        """Say so if there is something new to say."""
        stage, done, total = clean(progress["stage"]), progress["done"], progress["total"]
        step = 4 * done // total if total else int(time.monotonic() / PLAIN_INTERVAL_S)
        if stage == self._said[0] and step <= self._said[1]:
            return
        self._said = (stage, step)
        amount = f" {done:,}/{total:,}" if total else f" {done:,}" if done else ""
        print(f"{self._title}: {stage}{amount}", file=sys.stderr, flush=True)


@contextmanager
def _bars(title: str) -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
    )
    tasks: dict[str, Any] = {}
    with Progress(*columns, console=Console(stderr=True), transient=False) as bars:

        def on_progress(progress: dict[str, Any]) -> None:
            stage, done, total = progress["stage"], progress["done"], progress["total"] or None
            if stage not in tasks:
                for (
                    earlier
                ) in tasks.values():  # only the latest message of a moment is sent: the last one may be missing
                    task = bars.tasks[earlier]
                    bars.update(earlier, completed=task.total if task.total is not None else task.completed, note="")
                    bars.stop_task(earlier)
                tasks[stage] = bars.add_task(Text.from_markup(stage).plain.ljust(14), total=total, note="")
            bars.update(tasks[stage], completed=done, total=total, note=clean(progress["note"])[:30])

        yield on_progress

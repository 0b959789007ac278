"""The progress of a long command: bars on a terminal, a few plain lines anywhere else, nothing beside JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .formatting import clean, clip
from .terminal import Terminal

PLAIN_INTERVAL_S = 5.0
NOTE_COLUMNS = 30
STANDING = ("paused", "waits")
"""First words of the note on something that stands still."""

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
    """A line when a stage begins and at each further quarter of it, or every few seconds when its size is unknown.

    One more when it begins to stand still, which says why, and when it goes on.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._said: tuple[str, int] = ("", -1)
        self._stands = ""

    def __call__(self, progress: dict[str, Any]) -> None:
        """Say so if there is something new to say."""
        stage, done, total = clean(progress["stage"]), progress["done"], progress["total"]
        step = 4 * done // total if total else int(time.monotonic() / PLAIN_INTERVAL_S)
        note = clean(progress.get("note") or "")
        if (stands := next((word for word in STANDING if note.startswith(word)), "")) != self._stands:
            self._stands = stands
            print(f"{self._title}: {note if stands else 'goes on'}", file=sys.stderr, flush=True)
            return
        if stage == self._said[0] and step <= self._said[1]:
            return
        self._said = (stage, step)
        amount = f" {done:,}/{total:,}" if total else f" {done:,}" if done else ""
        print(f"{self._title}: {stage}{amount}", file=sys.stderr, flush=True)


@contextmanager
def _bars(title: str) -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Task] = {}

        def end_all() -> None:
            """Complete every bar: a stage's last message may not have come, as only the latest of a moment is sent."""
            for task in tasks.values():
                whole = task.total if task.total is not None else task.completed
                bars.update(task.id, completed=whole, total=whole, amount=_amount(whole, task.total), note="")
                bars.stop_task(task.id)

        def on_progress(progress: dict[str, Any]) -> None:
            stage, done, total = clean(progress["stage"]), progress["done"], progress["total"] or None
            if stage not in tasks:
                end_all()
                task_id = bars.add_task(stage.ljust(14), total=total, note="", amount="")
                tasks[stage] = next(task for task in bars.tasks if task.id == task_id)
            note = clip(progress["note"], NOTE_COLUMNS)
            bars.update(tasks[stage].id, completed=done, total=total, amount=_amount(done, total), note=note)

        yield on_progress
        end_all()


def _amount(done: float, total: float | None) -> str:
    return f"{done:,.0f}/{total:,.0f}" if total is not None else f"{done:,.0f}"

"""A request to the daemon, its answer, and its progress.

Progress is shown as bars on a terminal, as a few plain lines elsewhere, and not at all beside JSON.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import __version__
from ...ipc.client import Client
from ...ipc.protocol import Json
from ..formatting import clean, clip
from .terminal import Terminal

# Longer than any healthy answer takes, shorter than a person's patience.
ANSWER_TIMEOUT_S = 30.0


def ask(
    terminal: Terminal,
    method: str,
    params: Json | None = None,
    on_progress: Callable[[Json], None] | None = None,
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Json:
    """Return the daemon's answer, the JSON of the method's `result`. Ctrl-C cancels the request."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    if terminal.user is not None:  # a method that is the owner's alone refuses it
        given["user_id"] = terminal.user
    with Client(timeout_s=timeout_s, name=f"dreamctl {__version__}") as client:
        try:
            answer = client.call(method, given, on_progress)
        except KeyboardInterrupt:
            client.cancel()
            raise
        theirs = client.server.get("version", __version__)
        if theirs != __version__ and method != "stop":
            terminal.warn(
                f"the daemon that answers is {theirs}, this is {__version__}; "
                "to have them alike: `dreamctl stop`, then start it again"
            )
    return answer


def shown_whole(node_id: str, terminal: Terminal) -> Json:
    """Return the answer of `show` with the whole text: the wire bounds an answer, so a long one comes in pages."""
    answer = ask(terminal, "show", {"node_id": node_id})
    texts = [answer["text"]]
    while answer["next"] is not None:
        answer = ask(terminal, "show", {"node_id": node_id, "offset": answer["next"]})
        texts.append(answer["text"])
    answer["text"], answer["offset"] = "".join(texts), 0
    return answer


PLAIN_INTERVAL_S = 5.0
NOTE_COLUMNS = 30
# First words of the note on a pause.
PAUSES = ("paused", "waits")

BAR = "{desc} {bar:30} {elapsed}{postfix}"

OnProgress = Callable[[Json], None]


@contextmanager
def shown_progress(terminal: Terminal, title: str) -> Iterator[OnProgress | None]:
    """Yield a callback that shows the daemon's progress messages."""
    if terminal.as_json:
        yield None
    elif terminal.is_live:
        bars = Bars()
        try:
            yield bars
        finally:
            bars.close()
    else:
        yield PlainLines(title)


class PlainLines:
    """Prints a line at the start of a stage, and at each quarter of it, or every few seconds if its size is unknown.

    A pause and its end get a line too.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._last: tuple[str, int] = ("", -1)
        self._pause = ""

    def __call__(self, progress: dict[str, Any]) -> None:
        """Print a line, if it is due."""
        stage, done, total = clean(progress["stage"]), progress["done"], progress["total"]
        # A quarter of a stage of known size, else a slice of time: a new value prints a line.
        step = 4 * done // total if total else int(time.monotonic() / PLAIN_INTERVAL_S)
        note = clean(progress.get("note") or "")
        if (pause := next((word for word in PAUSES if note.startswith(word)), "")) != self._pause:
            self._pause = pause
            print(f"{self._title}: {note if pause else 'goes on'}", file=sys.stderr, flush=True)
            return
        if stage == self._last[0] and step <= self._last[1]:
            return
        self._last = (stage, step)
        amount = f"{done:,}/{total:,}" if total else f"{done:,}" if done else note
        print(f"{self._title}: {stage} {amount}".rstrip(), file=sys.stderr, flush=True)


class Bars:
    """Shows a bar for each stage on a terminal."""

    def __init__(self) -> None:
        from tqdm import tqdm

        # A thread that would redraw bars which do not move.
        tqdm.monitor_interval = 0
        self._new_bar = tqdm
        self._bar: Any = None
        self._stage = ""

    def __call__(self, progress: dict[str, Any]) -> None:
        """Update the stage's bar, or start one."""
        stage, done, total = clean(progress["stage"]), progress["done"], progress["total"] or None
        if self._bar is None or stage != self._stage:
            self.close()
            self._stage = stage
            self._bar = self._new_bar(file=sys.stderr, bar_format=BAR)
        self._draw(done, total, clip(clean(progress["note"] or ""), NOTE_COLUMNS))

    def close(self) -> None:
        """Complete the bar: a stage's last message may be missing, as the daemon sends only the latest of a moment."""
        if self._bar is not None:
            total = self._bar.total
            self._draw(self._bar.n if total is None else total, total, "")
            self._bar.close()
            self._bar = None

    def _draw(self, done: int, total: int | None, note: str) -> None:
        amount = f"{done:,}/{total:,}" if total is not None else f"{done:,}"
        self._bar.n, self._bar.total = done, total
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.set_description_str(f"{self._stage:14} {amount:>15}")

"""The operating system's news of the followed folders, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from loguru import logger

LOOK_AGAIN_S = 1.0
# Where folders cannot be watched (too many for inotify), they are compared by stat.
COMPARED_EVERY_S = 15.0
_DEBOUNCE_MS = 200


class Events:
    """Watches the folders that are there, and begins anew when others come.

    `changed` gets the paths of one burst; `lost` is called where events alone cannot be trusted: as watching begins,
    and again and again where it cannot begin. Both are called in the watching thread.
    """

    def __init__(
        self,
        folders: Callable[[], Sequence[Path]],
        is_ours: Callable[[str], bool],
        changed: Callable[[Collection[str]], None],
        lost: Callable[[], None],
    ) -> None:
        self._folders = folders
        self._is_ours = is_ours
        self._changed = changed
        self._lost = lost
        self._stop = threading.Event()
        self._again = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transcripts-watch", daemon=True)
        self.problem = ""

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def restart(self) -> None:
        """Look again which folders there are."""
        self._again.set()

    def stop(self) -> None:
        """End, and wait until the last call is through."""
        self._stop.set()
        self._again.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._again.clear()
            there = self._there()
            if not there:
                self.problem = ""
                self._again.wait(LOOK_AGAIN_S)
                continue
            try:
                self._watch(there)
            except Exception as error:
                self.problem = f"cannot watch ({type(error).__name__}); looked at every {COMPARED_EVERY_S:.0f} s"
                logger.warning("the sessions' folders cannot be watched ({}); comparing", type(error).__name__)
                self._lost()
                self._again.wait(COMPARED_EVERY_S)

    def _watch(self, there: Sequence[Path]) -> None:
        from watchfiles import watch  # 60 ms: not on the way to the first recall

        begun = False
        for burst in watch(
            *there,
            watch_filter=lambda _, path: self._is_ours(path),
            debounce=_DEBOUNCE_MS,
            step=50,
            stop_event=self._again,
            rust_timeout=int(LOOK_AGAIN_S * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=True,
        ):
            if not begun:  # what changes from now on is seen, what changed until now was not
                begun, self.problem = True, ""
                self._lost()
            if burst:
                self._changed([path for _, path in burst])
            if self._there() != there:
                return

    def _there(self) -> Sequence[Path]:
        return [folder for folder in self._folders() if folder.is_dir()]

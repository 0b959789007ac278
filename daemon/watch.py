"""The vault watched: an edit in any editor reaches the index within a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from loguru import logger

from .settings import WatchSettings

# The kernel's queue holds 16,384 events (fs.inotify.max_queued_events); a burst near it may have lost some, and a
# comparison of the whole vault by stat finds what was lost.
BURST = 4_000
LOOK_AGAIN_S = 1.0


class Watcher:
    """Watches the vault in a thread of its own and tells what changed, as paths relative to the vault.

    `changed` gets the paths of one burst; `lost` is called instead when single events cannot be trusted: after a
    flood, and when a vault that had vanished is back. Both are called in the watching thread.
    """

    def __init__(
        self,
        vault: Path,
        settings: WatchSettings,
        changed: Callable[[Collection[str]], None],
        lost: Callable[[], None],
    ) -> None:
        self._vault = vault
        self._settings = settings
        self._changed = changed
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.state = "off"

    def start(self) -> None:
        """Begin; returns at once."""
        if self._settings.enabled:
            self._thread.start()

    def stop(self) -> None:
        """End, and wait until the last call is through."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        first = True
        while not self._stop.is_set():
            try:
                self._watch(tell_lost=not first)
            except Exception as error:  # noqa: BLE001 - a thread's boundary: the daemon lives on, and looks again
                self._say(f"cannot watch: {type(error).__name__}")
                logger.warning("the vault cannot be watched ({}); looking again", type(error).__name__)
            first = False
            self._stop.wait(LOOK_AGAIN_S)

    def _watch(self, *, tell_lost: bool) -> None:
        """Watch the folder that is there now, until it is not that folder any more."""
        from watchfiles import watch  # 60 ms: not on the way to the first recall

        identity = _identity(self._vault)
        if identity is None:
            self._say("the vault's folder is gone")
            return
        step_ms = max(20, int(self._settings.debounce_s * 1000 / 2))
        bursts = watch(
            self._vault,
            watch_filter=lambda _, path: _is_ours(path),
            debounce=int(self._settings.debounce_s * 1000),
            step=step_ms,
            stop_event=self._stop,
            rust_timeout=int(LOOK_AGAIN_S * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        told = not tell_lost
        for burst in bursts:
            self._say("on")
            if not told:  # only now: what changes after this is seen by the watch that has begun
                self._lost()
                told = True
            if burst:
                self._tell({path for _, path in burst})
            if _identity(self._vault) != identity:
                logger.warning("the vault's folder was moved or removed")
                return

    def _tell(self, paths: Collection[str]) -> None:
        if len(paths) >= BURST:
            self._lost()
            return
        root = os.path.realpath(self._vault)
        prefixes = (f"{self._vault}/", f"{root}/")
        relative = {path.removeprefix(prefix) for path in paths for prefix in prefixes if path.startswith(prefix)}
        if relative:
            self._changed(relative)

    def _say(self, state: str) -> None:
        self.state = state


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_ours(path: str) -> bool:
    """Markdown only, and nothing below a dot folder; a folder that moved has no suffix and is let through."""
    name = os.path.basename(path)  # noqa: PTH119 - called for every event of a flood
    return not name.startswith(".") and (name.endswith(".md") or "." not in name)

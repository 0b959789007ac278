"""The vault watched: an edit in any editor reaches the index within a second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from loguru import logger

from ..store import is_full, is_kept
from .settings import WatchSettings

# The kernel's queue holds 16,384 events (fs.inotify.max_queued_events), and a file that is moved in makes several. A
# flood near it may have lost some; comparing the whole vault by stat, once it is over, finds what was lost.
FLOOD = 4_000
LOOK_AGAIN_S = 1.0


class Watcher:
    """Watches the vault in a thread of its own and reports what changed, as paths relative to the vault.

    `changed` gets the paths of one burst; `lost` is called when events alone cannot be trusted: as watching begins,
    after a flood, and when a vault that had vanished is back. Both are called in the watching thread.
    """

    def __init__(
        self,
        vault: Path,
        settings: WatchSettings,
        changed: Callable[[Collection[str]], None],
        lost: Callable[[], object],
    ) -> None:
        self._vault = vault
        self._settings = settings
        self._changed = changed
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.state = "off"
        self._folders: set[str] = set()

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
        while not self._stop.is_set():
            try:
                self._watch()
            except Exception as error:
                self.state = "cannot watch: " + ("the disk is full" if is_full(error) else type(error).__name__)
                logger.warning("the vault cannot be watched ({}); looking again", type(error).__name__)
            self._stop.wait(LOOK_AGAIN_S)

    def _watch(self) -> None:
        """Watch the folder that is there now, until it is not that folder any more."""
        try:
            # Held open, so that its number cannot be given to a folder that takes its place.
            folder = os.open(self._vault, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self.state = "the vault's folder is gone"
            return
        try:
            self._watch_folder(folder)
        finally:
            os.close(folder)

    def _watch_folder(self, folder: int) -> None:
        compared, in_flood = False, 0
        for burst in self._bursts():
            self.state = "on"
            if not compared:  # changes from now on are seen, those until now were not
                self._lost()
                compared = True
            paths = self._inside(burst)
            in_flood += len(paths)
            if burst:
                self._report(paths)
            elif in_flood:  # quiet again
                compared, in_flood = in_flood < FLOOD, 0
            if self._folders and any((self._vault / path).is_dir() for path in paths if path not in self._folders):
                return  # a new one, which nothing watches yet
            if not self._is_still(folder):
                logger.warning("the vault's folder was moved or removed")
                return

    def _bursts(self) -> Iterator[Collection[tuple[object, str]]]:
        from watchfiles import watch  # 60 ms: not on the way to the first recall

        debounce_ms = int(self._settings.debounce_s * 1000)
        self._folders = self._own_folders()
        return watch(
            *([self._vault / folder for folder in self._folders] or [self._vault]),
            recursive=not self._folders,
            watch_filter=lambda _, path: _is_ours(path),
            debounce=debounce_ms,
            step=max(20, debounce_ms // 2),
            stop_event=self._stop,
            rust_timeout=int(LOOK_AGAIN_S * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
        )

    def _own_folders(self) -> set[str]:
        """Return the vault's folders where a link to another is among them, else none.

        The library watches all below a folder, and follows links there: one to /usr would cost 15,700 watches.
        """
        own, has_links = set(), False
        for folder, names, _ in os.walk(self._vault):
            own.add(os.path.relpath(folder, self._vault))
            links = {name for name in names if Path(folder, name).is_symlink()}
            has_links = has_links or bool(links)
            names[:] = [name for name in names if name not in links and not name.startswith(".")]
        return own if has_links else set()

    def _is_still(self, folder: int) -> bool:
        try:
            return os.path.samestat(self._vault.stat(), os.fstat(folder))
        except OSError:
            return False

    def _inside(self, burst: Collection[tuple[object, str]]) -> set[str]:
        prefixes = (f"{self._vault}/", f"{os.path.realpath(self._vault)}/")
        return {path.removeprefix(prefix) for _, path in burst for prefix in prefixes if path.startswith(prefix)}

    def _report(self, paths: Collection[str]) -> None:
        """Report changed files; a folder that came or went is reported alone, without what is in it."""
        if files := {path for path in paths if is_kept(path)}:
            self._changed(files)
        if any("." not in path.rpartition("/")[2] and not (self._vault / path).is_file() for path in paths):
            self._lost()


def _is_ours(path: str) -> bool:
    """Keep Markdown, and what may be a folder. A first sieve, called for every event of a flood."""
    name = path.rpartition("/")[2]
    return not name.startswith(".") and (name.endswith(".md") or "." not in name)

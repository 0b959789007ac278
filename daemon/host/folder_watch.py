"""Folders watched in threads: the vault, for edits in any editor, and the folders of agents' sessions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from loguru import logger

from ...store import is_full, is_kept
from ..settings import WatchSettings

# The kernel's queue holds 16,384 events (fs.inotify.max_queued_events), and a file that is moved in makes several. A
# flood near it may have lost some; comparing the whole vault by stat, once it is over, finds them.
FLOOD = 4_000
LOOK_AGAIN_S = 1.0
# Where folders cannot be watched (too many for inotify), they are compared by stat.
COMPARED_EVERY_S = 15.0
_STOP_TIMEOUT_S = 5


class FolderWatch:
    """A thread that watches folders, and begins again whenever a watch ends or fails."""

    def __init__(self, name: str, debounce_ms: int, step_ms: int) -> None:
        self._debounce_ms = debounce_ms
        self._step_ms = step_ms
        self._stop = threading.Event()
        self._again = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def restart(self) -> None:
        """End the current watch, so that another begins with the folders of now."""
        self._again.set()

    def stop(self) -> None:
        """Stop, and wait for the end of the last callback."""
        self._stop.set()
        self._again.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_STOP_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._again.clear()
            # Set before the line above, which has cleared the other event too.
            if self._stop.is_set():
                return
            try:
                pause_s = self._watch()
            except Exception as error:  # a job's boundary
                pause_s = self._failed(error)
            self._again.wait(pause_s)

    def _watch(self) -> float:
        """Watch until the folders are others; return the pause before the next watch, in seconds."""
        raise NotImplementedError

    def _failed(self, error: Exception) -> float:
        """Report an error; return the pause before the next watch, in seconds."""
        raise NotImplementedError

    def _bursts(
        self, folders: Sequence[Path], is_wanted: Callable[[str], bool], *, recursive: bool = True
    ) -> Iterator[Collection[str]]:
        """Yield the changed paths of each burst, and none at least once a second while nothing changes."""
        from watchfiles import watch  # 60 ms: not on the way to the first recall

        for burst in watch(
            *folders,
            recursive=recursive,
            watch_filter=lambda _, path: is_wanted(path),
            debounce=self._debounce_ms,
            step=self._step_ms,
            stop_event=self._again,
            rust_timeout=int(LOOK_AGAIN_S * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            yield [path for _, path in burst]


class VaultWatch(FolderWatch):
    """Watches the vault and reports changed files, by paths relative to it.

    `changed` gets the paths of one burst; `lost` is called when events alone do not suffice: when watching begins,
    after a flood, and when a vault that had vanished is back. Both are called in the watching thread.
    """

    def __init__(
        self,
        vault: Path,
        settings: WatchSettings,
        changed: Callable[[Collection[str]], None],
        lost: Callable[[], object],
    ) -> None:
        debounce_ms = int(settings.debounce_s * 1000)
        super().__init__("watch", debounce_ms, max(20, debounce_ms // 2))
        self._vault = vault
        self._enabled = settings.enabled
        self._changed = changed
        self._lost = lost
        self._folders: set[str] = set()
        self.state = "off"

    def start(self) -> None:
        """Start the thread, if the settings say so; returns at once."""
        if self._enabled:
            super().start()

    def _watch(self) -> float:
        try:
            # Kept open, so that the file system cannot give its inode number to a folder that replaces it.
            folder = os.open(self._vault, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self.state = "the vault's folder is gone"
            return LOOK_AGAIN_S
        try:
            self._watch_folder(folder)
        finally:
            os.close(folder)
        return LOOK_AGAIN_S

    def _failed(self, error: Exception) -> float:
        self.state = "cannot watch: " + ("the disk is full" if is_full(error) else type(error).__name__)
        logger.warning("the vault cannot be watched ({}); looking again", type(error).__name__)
        return LOOK_AGAIN_S

    def _watch_folder(self, folder: int) -> None:
        self._folders = self._own_folders()
        watched = [self._vault / folder for folder in self._folders] or [self._vault]
        compared, in_flood = False, 0
        for burst in self._bursts(watched, _is_markdown_or_folder, recursive=not self._folders):
            self.state = "on"
            # Later changes come as events, earlier ones do not.
            if not compared:
                self._lost()
                compared = True
            paths = self._relative(burst)
            in_flood += len(paths)
            if burst:
                self._report(paths)
            elif in_flood:  # quiet again
                # After a flood the whole vault is compared again, at the next burst or timeout.
                compared, in_flood = in_flood < FLOOD, 0
            if self._folders and any((self._vault / path).is_dir() for path in paths if path not in self._folders):
                # A new folder, which this watch does not cover.
                return
            if not self._is_still(folder):
                logger.warning("the vault's folder was moved or removed")
                return

    def _own_folders(self) -> set[str]:
        """Return the vault's folders if a link to a folder is among them, else none.

        The library watches everything below a folder, and follows links there: one to /usr would cost 15,700 watches.
        """
        own, has_links = set(), False
        for folder, names, _ in os.walk(self._vault):
            own.add(os.path.relpath(folder, self._vault))
            links = {name for name in names if Path(folder, name).is_symlink()}
            has_links = has_links or bool(links)
            # `os.walk` reads this list for the folders to enter.
            names[:] = [name for name in names if name not in links and not name.startswith(".")]
        return own if has_links else set()

    def _is_still(self, folder: int) -> bool:
        try:
            return os.path.samestat(self._vault.stat(), os.fstat(folder))
        except OSError:
            return False

    def _relative(self, burst: Collection[str]) -> set[str]:
        prefixes = (f"{self._vault}/", f"{os.path.realpath(self._vault)}/")
        return {path.removeprefix(prefix) for path in burst for prefix in prefixes if path.startswith(prefix)}

    def _report(self, paths: Collection[str]) -> None:
        """Report changed files. Of a folder that came or went, its own event is the only one: compare everything."""
        if files := {path for path in paths if is_kept(path)}:
            self._changed(files)
        if any("." not in path.rpartition("/")[2] and not (self._vault / path).is_file() for path in paths):
            self._lost()


def _is_markdown_or_folder(path: str) -> bool:
    """Return True for Markdown, and for names that may be a folder's. Called for every event of a flood."""
    name = path.rpartition("/")[2]
    return not name.startswith(".") and (name.endswith(".md") or "." not in name)


class SessionsWatch(FolderWatch):
    """Watches the folders of agents' sessions that exist, and begins again when others come.

    `changed` gets the paths of one burst; `lost` is called when events alone do not suffice: when watching begins, and
    regularly while it fails. Both are called in the watching thread.
    """

    def __init__(
        self,
        folders: Callable[[], Sequence[Path]],
        is_wanted: Callable[[str], bool],
        changed: Callable[[Collection[str]], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__("transcripts-watch", debounce_ms=200, step_ms=50)
        self._folders = folders
        self._is_wanted = is_wanted
        self._changed = changed
        self._lost = lost
        self.problem = ""

    def _watch(self) -> float:
        existing = self._existing()
        if not existing:
            self.problem = ""
            return LOOK_AGAIN_S
        begun = False
        for burst in self._bursts(existing, self._is_wanted):
            # Later changes come as events, earlier ones do not.
            if not begun:
                begun, self.problem = True, ""
                self._lost()
            if burst:
                self._changed(burst)
            if self._existing() != existing:
                break
        return 0

    def _failed(self, error: Exception) -> float:
        self.problem = f"cannot watch ({type(error).__name__}); looked at every {COMPARED_EVERY_S:.0f} s"
        logger.warning("the sessions' folders cannot be watched ({}); comparing", type(error).__name__)
        self._lost()
        return COMPARED_EVERY_S

    def _existing(self) -> Sequence[Path]:
        return [folder for folder in self._folders() if folder.is_dir()]

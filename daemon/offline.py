"""What can be done without a daemon: look at the databases, make the index anew, salvage a damaged ledger.

Each holds the daemon's own lock meanwhile, so that none starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Literal

from ..ipc.answers import ProblemAnswer, RebuildAnswer
from ..ipc.store_methods import plain
from ..store.find.embedding.embedding import embedder_for
from ..store.keep.database import integrity_problems
from ..store.keep.files.disk import Disk
from ..store.keep.files.vault import Vault
from ..store.keep.ledger.salvage import damaged_files, discard, salvage
from ..store.memory import MemoryStore
from .clock import utc_now
from .host.lock import DaemonLock
from .places import store_paths
from .settings import Settings

NOT_LOOKED_AT = "the vault's files, and what of them is found: only a daemon compares them; start it with `dreamd`"


@contextlib.contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Be the one process on these folders. Raises AlreadyRunning."""
    lock = DaemonLock(settings.data_dir, settings.vault)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def look(settings: Settings) -> tuple[list[ProblemAnswer], str]:
    """Return what is wrong with the databases and the vault's folder, as `check` does, and what was not looked at."""
    if not settings.data_dir.is_dir():
        return [], f"{settings.data_dir}, where nothing was ever kept"
    with alone(settings):
        return [*_of_vault(settings), *_of_databases(settings)], NOT_LOOKED_AT


def _of_vault(settings: Settings) -> Iterator[ProblemAnswer]:
    if store_paths(settings).ledger.exists() and not Vault(settings.vault, Disk()).has_marker():
        yield _problem(str(settings.vault), "the vault is not there, or not marked as one (its `.dreamd` is gone)")


def _of_databases(settings: Settings) -> Iterator[ProblemAnswer]:
    paths = store_paths(settings)
    for path, remedy in (
        (paths.ledger, "the next start sets it aside and goes on with another; then `dreamctl salvage`"),
        (paths.index, "the next start makes it again, or `dreamctl rebuild` now"),
        (paths.embeddings, "the next start makes what is missing again"),
    ):
        if path.exists():
            yield from (_problem(path.name, f"{problem}; {remedy}") for problem in integrity_problems(path))
        elif path != paths.ledger:
            yield _problem(path.name, "it is not there; the next start makes it", "note")
        elif settings.vault.is_dir() and Vault(settings.vault, Disk()).has_marker():
            yield _problem(path.name, "it is gone: put it back from a backup, or the next start begins another")
    for path in damaged_files(paths.ledger):
        yield _problem(path.name, "a damaged ledger lies here: `dreamctl salvage` brings back what can be read of it")


def _problem(path: str, problem: str, severity: Literal["error", "note"] = "error") -> ProblemAnswer:
    return {"path": path, "problem": problem, "severity": severity}


def rebuild(settings: Settings, progress: Callable[[int, int], None]) -> RebuildAnswer:
    """Make the index anew. Raises AlreadyRunning or StoreError."""
    with alone(settings):
        embedder = embedder_for(settings.store.embedding, settings.data_dir / "models")
        embedder.start()
        store = MemoryStore.open(store_paths(settings), settings.store, embedder, utc_now)
        try:
            answer: RebuildAnswer = plain(store.rebuild(progress))
            return answer
        finally:
            store.close()


def bring_back(settings: Settings) -> dict[str, Any]:
    """Bring what can be read of damaged ledgers into the one in use. Raises AlreadyRunning or StoreError."""
    with alone(settings):
        return {"salvaged": [asdict(one) for one in salvage(store_paths(settings).ledger)]}


def go_on_without(settings: Settings) -> dict[str, Any]:
    """Go on without damaged or lost ledgers; the files stay. Raises AlreadyRunning or StoreError."""
    with alone(settings):
        return {"discarded": discard(store_paths(settings).ledger)}

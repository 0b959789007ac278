"""Work without a daemon: look at the databases, make the index anew, salvage a damaged ledger.

Each holds the daemon's own lock meanwhile, so that none starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from ..ipc.answers import ProblemAnswer, RebuildAnswer
from ..ipc.store_methods import plain
from ..store import MemoryStore, check_closed, discard_ledgers, embedder_for, salvage_ledgers
from .clock import utc_now
from .host.lock import DaemonLock
from .settings import Settings, store_paths

NOT_LOOKED_AT = "the vault's files, and what of them is found: only a daemon compares them; start it with `dreamd`"


@contextlib.contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Hold these folders as the one process on them. Raises AlreadyRunning."""
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
        return plain(check_closed(store_paths(settings))), NOT_LOOKED_AT


def rebuild(settings: Settings, progress: Callable[[int, int], None]) -> RebuildAnswer:
    """Make the index anew. Raises AlreadyRunning or StoreError."""
    with alone(settings):
        embedder = embedder_for(settings.store.embedding, store_paths(settings).models)
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
        return {"salvaged": [asdict(one) for one in salvage_ledgers(store_paths(settings).ledger)]}


def go_on_without(settings: Settings) -> dict[str, Any]:
    """Discard damaged or lost ledgers, and go on; the files stay. Raises AlreadyRunning or StoreError."""
    with alone(settings):
        return {"discarded": discard_ledgers(store_paths(settings).ledger)}

"""The daemon's methods without a daemon: the same store and the same dreams in this process, for quick measures."""

from __future__ import annotations

import asyncio
import inspect
import json
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from dreamd.daemon.agents.hooks import Hooks
from dreamd.daemon.clock import local_zone, utc_now
from dreamd.daemon.dreaming.dreamer import Dreamer
from dreamd.daemon.dreaming.idle import LastActivity
from dreamd.daemon.dreaming.schedule import Schedule
from dreamd.daemon.host.folder_watch import VaultWatch
from dreamd.daemon.importing.following.follower import Follower
from dreamd.daemon.methods.control import Process
from dreamd.daemon.methods.sync_methods import SyncMethods
from dreamd.daemon.methods.table import methods_of
from dreamd.daemon.page.opening import WebPage
from dreamd.daemon.settings import Settings, store_paths
from dreamd.ipc.call import Call
from dreamd.ipc.protocol import encode_answer
from dreamd.ipc.server.server import Server
from dreamd.pipelines.settings import PipelineSettings, ScheduleSettings
from dreamd.store import MemoryStore, embedder_for

from .daemon_under_test import DaemonUnderTest

KEPT_VECTORS = Path("/var/tmp/dreamd-bench/embeddings.db")
"""Vectors by their texts, shared by all runs on this machine: what was embedded once is not embedded again."""

POLL_S = 0.1


class DaemonInProcess:
    """Answers `call` as a daemon's socket would, from a store in `folder`; vectors are kept for the next run.

    `DREAMD_…` of the environment is followed, and nothing of the person's own settings file is read. A dream is planned
    in the child process that a daemon would start, and applied here. Its clock is `now`.
    """

    def __init__(self, folder: Path, kept: Path = KEPT_VECTORS, now: Callable[[], datetime] = utc_now) -> None:
        self.folder = folder
        self._kept = kept
        self._now = now
        unscheduled = PipelineSettings(schedule=ScheduleSettings(enabled=False))
        self._settings = Settings(data_dir=folder / "data", pipelines=unscheduled)

    def __enter__(self) -> Self:
        settings, paths, activity = self._settings, store_paths(self._settings), LastActivity()
        if self._kept.is_file():
            paths.embeddings.parent.mkdir(parents=True, exist_ok=True)
            _copy(self._kept, paths.embeddings)
        embedder = embedder_for(settings.store.embedding, settings.data_dir / "models")
        embedder.start()
        self._loop = asyncio.Runner()
        self.store = MemoryStore.open(paths, settings.store, embedder, self._now)
        follower = Follower(self.store, settings.transcripts, (), self._now, activity.touch, activity.quiet_s)
        self.follower, self.hooks = follower, Hooks(self.store, follower, self._now)
        dreamer = Dreamer(self.store, paths, settings, self._local_now, activity)
        methods = methods_of(
            self.store,
            dreamer,
            Schedule(self.store, dreamer, activity, settings.pipelines, self._local_now),
            VaultWatch(settings.vault, settings.watch, self.store.file_changed, self.store.reconcile),
            self.hooks,
            follower,
            settings,
            Process(time.monotonic(), stop=lambda: None, socket_problem=str, read_lost=lambda: None),
            WebPage(lambda: Server(()), enabled=False),
            SyncMethods(self.store, dreamer, settings.data_dir / "sync"),
        )
        self._methods = {method.name: method for method in methods}
        return self

    def _local_now(self) -> datetime:
        return self._now().astimezone(local_zone())

    def __exit__(self, *_: object) -> None:
        self._loop.close()
        self.store.close()
        _keep(store_paths(self._settings).embeddings, self._kept)

    def call(self, method: str, **params: Any) -> Any:
        """Return a method's result in the wire's own types. Raises what the store raises."""
        asked = self._methods[method]
        result = asked.answer(asked.params.model_validate(params), Call(None, method))
        if inspect.iscoroutine(result):
            result = self._loop.run(result)
        elif isinstance(result, Future):
            result = result.result()
        return json.loads(encode_answer(0, result))["result"]

    def wait_until_embedded(self) -> None:
        """Wait until no chunk waits for its vector."""
        while (status := self.call("status"))["pending_embeddings"] or status["not_found_yet"]:
            time.sleep(POLL_S)

    def wait_until_linked(self) -> None:
        """Wait until what was remembered is compared with what was known. Raises TimeoutError."""
        self.wait_until_embedded()
        if not self.store.settle_links(600):
            raise TimeoutError("what was remembered is not linked")


def _copy(database: Path, to: Path) -> None:
    with closing(sqlite3.connect(database, timeout=60)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)


def _keep(own: Path, kept: Path) -> None:
    """Add a run's vectors to those kept; several runs may do so at once."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not kept.is_file():
        _copy(own, kept)
        return
    with closing(sqlite3.connect(kept, timeout=60)) as database, database:
        database.execute("ATTACH ? AS own", (str(own),))
        database.execute("INSERT OR IGNORE INTO embedding SELECT * FROM own.embedding")


AnyDaemon = DaemonUnderTest | DaemonInProcess

"""The daemon's life, in order: startup, serve, shutdown. The only place where the rooms are put together."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from loguru import logger

from .. import __version__
from ..ipc.paths import default_socket_path
from ..ipc.server.listener import Listener, adopt_listener, open_listener
from ..ipc.server.server import Server
from ..store.find.embedding.embedding import embedder_for
from ..store.memory import MemoryStore
from .clock import local_now, utc_now
from .dreaming.dreamer import Dreamer
from .dreaming.idle import Activity
from .dreaming.schedule import Schedule
from .host.limits import raise_file_limit
from .host.lock import DaemonLock
from .host.systemd import Notifier, passed_descriptors
from .methods.control import Commands
from .places import store_paths
from .settings import Settings
from .watch import Watcher

FORCED_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h: it did not end by itself
SLOW_START_S = 10.0
LATER_S = 0.5


class Daemon:
    """One daemon on one vault. Construct, then `run`; an instance lives once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.paths = store_paths(settings)
        self.began_s = time.monotonic()
        self.activity = Activity()
        self.stopping = asyncio.Event()
        self.signalled = False
        self.lock = DaemonLock(settings.data_dir, settings.vault)
        self.passed = passed_descriptors(os.environ)
        self.notifier = Notifier(os.environ)
        self.listener: Listener | None = None
        self.store: MemoryStore | None = None
        self.dreamer: Dreamer | None = None
        self.server: Server | None = None
        self.watcher: Watcher | None = None
        self.schedule: Schedule | None = None
        self.background: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Live until a signal or `stop` ends it. Raises AlreadyRunning, ListenerError or StoreError from the start."""
        try:
            await self.startup()
            await self.serve()
        finally:
            await self.shutdown()

    async def startup(self) -> None:
        """Become the one daemon of this vault, and answer as early as possible.

        The socket listens before the store is open: who connects meanwhile waits a moment instead of failing.
        """
        self._catch_signals()
        raise_file_limit()
        self.lock.acquire()
        self.listener = adopt_listener(self.passed[0]) if self.passed else open_listener(default_socket_path())
        self.background.append(asyncio.create_task(self._say_still_starting()))
        embedder = embedder_for(self.settings.store.embedding, self.settings.data_dir / "models")
        embedder.start()
        self.store = await asyncio.to_thread(
            MemoryStore.open, self.paths, self.settings.store, embedder, utc_now, self.lock.claim_vault
        )
        self.dreamer = Dreamer(self.store, self.paths, self.settings, local_now, self.activity)
        self.dreamer.remove_orphans()  # before any dream of ours has a folder there
        self.schedule = Schedule(self.store, self.dreamer, self.activity, self.settings.pipelines, local_now)
        self.watcher = Watcher(
            self.settings.vault, self.settings.watch, self.store.file_changed, self._look_at_everything
        )
        commands = Commands(self)
        self.server = Server(commands.handlers(), self.settings.ipc, lambda method: self.activity.touch())
        await self.server.start(self.listener)
        self.background.pop().cancel()

    async def serve(self) -> None:
        """Say that we are ready, start what can wait, and live."""
        assert self.dreamer is not None
        assert self.watcher is not None
        self.notifier.ready()
        logger.info("dreamd {} serves {} (pid {})", __version__, self.settings.vault, os.getpid())
        if self.notifier.watchdog_every_s is not None:
            self.background.append(asyncio.create_task(self._feed_watchdog(self.notifier.watchdog_every_s)))
        self.watcher.start()
        self.background.append(asyncio.create_task(self._live_at_night()))
        await self.stopping.wait()

    async def shutdown(self) -> None:
        """Finish what was acknowledged, then leave nothing behind but the files."""
        self.notifier.stopping()
        for task in self.background:
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        if self.watcher is not None:
            await asyncio.to_thread(self.watcher.stop)
        if self.dreamer is not None:
            await self.dreamer.stop()
        if self.server is not None:
            await self.server.stop()
        elif self.listener is not None:
            self.listener.close()
        if self.store is not None:
            await asyncio.to_thread(self.store.close)
        self.lock.release()
        if self.store is not None:
            logger.info("dreamd has stopped")

    def stop(self) -> None:
        """Ask for the end; the first time politely."""
        self.stopping.set()

    def _look_at_everything(self) -> None:
        """For the watcher, which cannot say what changed."""
        assert self.store is not None
        self.store.reconcile()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        """The first signal stops, the second forces: what was acknowledged is in the ledger, and is replayed."""
        if self.signalled:
            logger.warning("{} again: leaving at once", number.name)
            os._exit(FORCED_EXIT_CODE)
        self.signalled = True
        logger.info("{}: finishing what was acknowledged", number.name)
        self.stop()

    async def _say_still_starting(self) -> None:
        """A long replay or rebuild is no hang: keep the service manager from giving up."""
        while True:
            self.notifier.extend_start(2 * SLOW_START_S)
            await asyncio.sleep(SLOW_START_S)

    async def _feed_watchdog(self, every_s: float) -> None:
        """From the loop itself, so that a loop that hangs is a daemon that hangs."""
        while True:
            self.notifier.watchdog()
            await asyncio.sleep(every_s)

    async def _live_at_night(self) -> None:
        """What can wait until the first answers are out: the schedule, for its imports."""
        assert self.schedule is not None
        await asyncio.sleep(LATER_S)
        if self.settings.pipelines.schedule.enabled:
            await self.schedule.run()

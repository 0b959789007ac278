"""The daemon from its start to its end, in order. Only here are the rooms wired together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from loguru import logger

from .. import __version__
from ..ipc.mcp import mcp_session
from ..ipc.server.listener import adopt_listener, open_listener
from ..ipc.server.server import Server
from ..ipc.socket_path import default_socket_path, path_of_lost
from ..store import MemoryStore, embedder_for, use_extensions
from .agents.hooks import Hooks
from .agents.instruction_files import FileKeeper
from .clock import local_now, utc_now
from .dreaming.dreamer import Dreamer
from .dreaming.idle import LastActivity
from .dreaming.schedule import Schedule
from .host import logs
from .host.folder_watch import VaultWatch
from .host.lock import DaemonLock
from .host.service_manager import Notifier, passed_descriptors
from .importing.following.follower import Follower
from .methods.control import Process
from .methods.sync_methods import SyncMethods
from .methods.table import methods_of
from .page.opening import WebPage
from .settings import Settings, store_paths

FORCED_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
SLOW_START_S = 10.0
# Its imports would delay the first answers.
SCHEDULE_AFTER_S = 0.5


class Daemon:
    """One daemon on one vault. Construct it, then `run` it once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started_s = time.monotonic()
        self._stopping = asyncio.Event()
        self._is_signalled = False
        self._lock = DaemonLock(settings.data_dir, settings.vault)
        self._passed = passed_descriptors(os.environ)
        self._notifier = Notifier(os.environ)

    async def run(self) -> None:
        """Serve until a signal or `stop`. Raises AlreadyRunning, ListenerError or StoreError at the start.

        Acknowledged requests are finished before the end.
        """
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
                await self._stopping.wait()
            finally:
                self._notifier.stopping()
        logger.info("dreamd has stopped")

    def stop(self) -> None:
        """Let `run` end."""
        self._stopping.set()

    async def _start(self, stack: AsyncExitStack) -> None:
        """Lock the vault and answer requests as early as possible; then start the parts that can wait.

        The socket listens before the store is open: a client that connects meanwhile waits a moment instead of failing.
        Each part's closing is registered as it is built, and they run in reverse: first the parts that start work by
        themselves (schedule, watches, dreams), then the server, whose last answers need the store, then the store, then
        the locks.
        """
        self._catch_signals()
        raise_file_limit()
        stack.callback(self._lock.release)
        self._lock.acquire()
        # With socket activation the manager has opened the socket, and keeps it over restarts.
        listener = adopt_listener(self._passed[0]) if self._passed else open_listener(default_socket_path())
        stack.callback(listener.close)
        async with in_background(self._extend_start_timeout()):
            store = await self._open_store()
            stack.push_async_callback(asyncio.to_thread, store.close)
            settings, activity = self._settings, LastActivity()
            dreamer = Dreamer(store, store_paths(settings), settings, local_now, activity)
            # Before the first dream has a folder there.
            dreamer.remove_orphans()
            schedule = Schedule(store, dreamer, activity, settings.pipelines, local_now)
            watch = VaultWatch(settings.vault, settings.watch, store.file_changed, store.reconcile)
            own = (settings.data_dir, settings.vault)
            follower = Follower(store, settings.transcripts, own, utc_now, activity.touch, activity.quiet_s)
            lost = Path(path_of_lost(default_socket_path()))
            hooks = Hooks(store, follower, utc_now, lost, at_acts=settings.hooks.at_acts)
            store.read_on = hooks.read_on
            files = FileKeeper(store, Path.home(), enabled=settings.hooks.own_files)
            hooks.on_folder, dreamer.before = files.look, files.before_dream
            page = WebPage(lambda: server, enabled=settings.page)
            sync = SyncMethods(store, dreamer, settings.data_dir / "sync")
            stack.callback(sync.stop)
            methods = methods_of(
                store,
                dreamer,
                schedule,
                watch,
                hooks,
                follower,
                settings,
                Process(
                    self._started_s,
                    self.stop,
                    lambda: server.socket_problem,
                    hooks.read_lost,
                    lambda: server.measures,
                ),
                page,
                sync,
            )
            server = Server(
                methods,
                settings.ipc,
                lambda method: activity.touch(),
                {mcp_session.ATTACH: mcp_session.attach},
            )
            if settings.telemetry.otel:
                server.measures.on_answered = _spans(store)
            await server.start(listener)
            stack.push_async_callback(server.stop)
            stack.push_async_callback(page.stop)
            stack.push_async_callback(dreamer.stop)
            stack.push_async_callback(asyncio.to_thread, watch.stop)
            stack.push_async_callback(asyncio.to_thread, follower.stop)
            stack.push_async_callback(asyncio.to_thread, hooks.undreamt.stop)
            stack.push_async_callback(asyncio.to_thread, files.stop)
            # Otherwise watch and follower wait until everything is indexed.
            stack.callback(store.begin_to_stop)
        self._notifier.ready()
        logger.info("dreamd {} serves {} (pid {})", __version__, settings.vault, os.getpid())
        if self._notifier.watchdog_every_s is not None:
            await stack.enter_async_context(in_background(self._feed_watchdog(self._notifier.watchdog_every_s)))
        watch.start()
        follower.start()
        hooks.undreamt.start(hooks.briefs.prepare)
        files.start()
        if settings.pipelines.schedule.enabled:
            await stack.enter_async_context(in_background(_run_scheduler(schedule)))
        await stack.enter_async_context(in_background(sync.run()))

    async def _open_store(self) -> MemoryStore:
        settings = self._settings
        # Before the store is opened: its engine may be one of an extension.
        await asyncio.to_thread(use_extensions, settings.store.extensions)
        embedder = embedder_for(settings.store.embedding, store_paths(settings).models)
        if settings.store.backend != "files":
            embedder.start()
        return await asyncio.to_thread(
            MemoryStore.open, store_paths(settings), settings.store, embedder, utc_now, self._lock.claim_vault
        )

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        """Stop at the first signal, exit at once at the second: the ledger replays acknowledged writes."""
        if self._is_signalled:
            logger.warning("{} again: leaving at once", number.name)
            os._exit(FORCED_EXIT_CODE)
        self._is_signalled = True
        logger.info("{}: finishing what was acknowledged", number.name)
        self.stop()

    async def _extend_start_timeout(self) -> None:
        """Extend the service manager's timeout again and again: a long replay or rebuild is no hang."""
        while True:
            self._notifier.extend_start(2 * SLOW_START_S)
            await asyncio.sleep(SLOW_START_S)

    async def _feed_watchdog(self, every_s: float) -> None:
        """Report from the event loop, so that a hanging loop counts as a hanging daemon."""
        while True:
            self._notifier.watchdog()
            await asyncio.sleep(every_s)


def _spans(store: MemoryStore) -> Callable[[str, float, str], None] | None:
    try:
        return logs.memory_spans(store.exports.vault_id)
    except ImportError as error:  # `check` and `doctor` say so too
        logger.warning("no spans are exported: {} is not installed (pip install 'dreamd[otel]')", error.name)
        return None


async def _run_scheduler(schedule: Schedule) -> None:
    await asyncio.sleep(SCHEDULE_AFTER_S)
    await schedule.run()


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine as a task for the duration of a block, then cancel it. Its own error is not raised."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# A client needs one descriptor, an answering thread a handful for SQLite, a dream some dozens.
WANTED_FILES = 4096


def raise_file_limit(wanted: int = WANTED_FILES) -> int:
    """Raise the soft limit of open files towards `wanted`, as far as allowed; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < goal:
        with contextlib.suppress(ValueError, OSError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

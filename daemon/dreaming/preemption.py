"""Preemption: a dream is held back while an agent is at work, or while its person wants it so."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from loguru import logger

from ...pipelines.settings import PreemptionSettings
from .child import Child
from .idle import LastActivity

AT_WORK = "an agent is at work"
BY_PERSON = "paused by hand"


class Preemption:
    """Holds one child back, lets it go on when all is quiet, and gives it up when that takes too long.

    `quiet_s` is how much quiet it waits for; `on_pause` is called with the reason when it is held back, and with ""
    when it goes on. All methods are called in the daemon's loop, but for the listener to activity.
    """

    def __init__(
        self,
        child: Child,
        activity: LastActivity,
        settings: PreemptionSettings,
        quiet_s: float,
        on_pause: Callable[[str], None],
    ) -> None:
        self._child = child
        self._activity = activity
        self._settings = settings
        self._quiet_s = quiet_s
        self._on_pause = on_pause
        self._by_person = False
        self._changed = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        self.gave_up = False

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Give way to activity while inside."""
        loop = asyncio.get_running_loop()

        def hear() -> None:
            """Hold back in the loop's next turn, after the request that is being noted here is under way."""
            if not self._child.held:
                loop.call_soon_threadsafe(self._hold, AT_WORK)

        try:
            with self._activity.heard_by(hear) if self._settings.enabled else contextlib.nullcontext():
                yield
        finally:
            if self._waiting is not None:
                self._waiting.cancel()

    def pause(self) -> None:
        """Hold it back until `resume`."""
        self._by_person = True
        self._hold(BY_PERSON)
        self._changed.set()

    def resume(self) -> None:
        """Let it go on at once, even beside activity; the next activity holds it back again."""
        self._by_person = False
        self._go_on()

    def _hold(self, why: str) -> None:
        if not self._child.held:
            self._child.hold(self._settings.stop_after_ms / 1000)
        if self._child.held:
            self._on_pause(why)
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.ensure_future(self._wait())

    def _go_on(self) -> None:
        if self._child.held:
            self._child.go_on()
            self._on_pause("")
        self._changed.set()

    async def _wait(self) -> None:
        """Wait until it is quiet, or its person says so, or for too long."""
        gives_up_s = time.monotonic() + self._settings.give_up_after_s
        while self._child.held:
            left_s = gives_up_s - time.monotonic()
            until_quiet_s = self._quiet_s - self._activity.quiet_s()
            if left_s <= 0:
                logger.info(
                    "the dream is given up for now: it was held back for {:.0f} s", self._settings.give_up_after_s
                )
                self.gave_up = True
                await self._child.end()
                return
            if not self._by_person and until_quiet_s <= 0:
                self._go_on()
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s if self._by_person else min(left_s, until_quiet_s)):
                    await self._changed.wait()

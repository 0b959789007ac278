"""Preemption: a dream is paused while an agent is at work, or by hand."""

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
    """Pauses one child, resumes it after `quiet_s` without activity, and ends it when that takes too long.

    `on_pause` is called with the reason at a pause, and with "" when the child resumes. All methods are called in the
    daemon's loop, except for the listener to activity.
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
        """Pause the child at activity, for the duration of the block."""
        loop = asyncio.get_running_loop()

        def on_activity() -> None:
            """Pause in the loop's next iteration, when the request that calls this is being served."""
            if not self._child.is_paused:
                loop.call_soon_threadsafe(self._pause, AT_WORK)

        try:
            with self._activity.notifying(on_activity) if self._settings.enabled else contextlib.nullcontext():
                yield
        finally:
            if self._waiting is not None:
                self._waiting.cancel()

    def pause(self) -> None:
        """Pause the child until `resume`."""
        self._by_person = True
        self._pause(BY_PERSON)
        self._changed.set()

    def resume(self) -> None:
        """Resume the child at once, even during activity; the next activity pauses it again."""
        self._by_person = False
        self._resume()

    def _pause(self, why: str) -> None:
        if not self._child.is_paused:
            self._child.pause(self._settings.stop_after_ms / 1000)
        if self._child.is_paused:
            self._on_pause(why)
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.ensure_future(self._wait())

    def _resume(self) -> None:
        if self._child.is_paused:
            self._child.resume()
            self._on_pause("")
        self._changed.set()

    async def _wait(self) -> None:
        """Wait until it is quiet, then resume; or until the wait is too long, then end the child."""
        gives_up_s = time.monotonic() + self._settings.give_up_after_s
        while self._child.is_paused:
            # The wait has a bound even while paused by hand: a paused child keeps its memory and its snapshot.
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
                self._resume()
                return
            # Cleared before the wait: a change in between sets it again and ends the wait at once.
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s if self._by_person else min(left_s, until_quiet_s)):
                    await self._changed.wait()

"""Dreams, from the daemon's side: start the child, pause it, read its changeset, apply it, record the outcome.

The daemon plans nothing itself: a dream uses memory and processor in a process of its own, which can be stopped and
ended at any instant without a trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from loguru import logger

from ...ipc.protocol import REFUSED
from ...pipelines.messages import LEARN, Done, PlanKind, Progress, ReadTurn, RunRequest
from ...store import AppliedRun, Run, SkippedAction, new_run_id
from ...store.model import Changeset, NodeId, StoreError
from ..settings import Settings
from .bounds import DAY, DREAMS, DailyUsage, usage_in_a_day
from .child import CHILD, Child, DreamError, ProgressSink, remove_orphans, write_run_marker
from .idle import LastActivity
from .landing import DerivedPages, Landing, note_on_edited, state_and_reason
from .preemption import Preemption

if TYPE_CHECKING:
    from ...store import MemoryStore, StorePaths

__all__ = ["DreamBusy", "DreamError", "DreamResult", "Dreamer"]

# A checkpoint holds texts of the person, which are not kept for ever if no dream is applied.
CHECKPOINT_DAYS = 7
SETTLE_S = 30.0
# As long as applying a large changeset may take.
STOP_TIMEOUT_S = 60.0


class DreamBusy(DreamError):
    """A dream that cannot start: another one runs, or the history is lost."""

    code = REFUSED


class NoDream(DreamError):
    """There is no running dream to pause, resume or cancel."""

    code = REFUSED


@dataclass(frozen=True, slots=True)
class DreamResult:
    """The outcome of a dream. `state` is that of the history, or `planned`; `refused` are the actions left out.

    A dream that was ended on purpose is `preempted` or `cancelled`, with the reason in `note`; it changed nothing.
    """

    run_id: str
    kind: PlanKind
    state: str
    changeset: Changeset
    seconds: float
    digest: str = ""
    refused: tuple[SkippedAction, ...] = ()
    note: str = ""
    turns: tuple[ReadTurn, ...] = ()

    @property
    def actions(self) -> dict[str, int]:
        """The number of changes proposed by each stage."""
        return self.changeset.changes_by_stage


class Dreamer:
    """Runs dreams, one at a time. All methods are called in the daemon's loop."""

    def __init__(
        self,
        store: MemoryStore,
        paths: StorePaths,
        settings: Settings,
        local_now: Callable[[], datetime],
        activity: LastActivity | None = None,
        command: Sequence[str] = CHILD,
    ) -> None:
        self._store = store
        self._landing = Landing(store, DerivedPages(store, local_now), settings.pipelines.limits.changeset_mib)
        self._paths = paths
        self._settings = settings
        self._local_now = local_now
        self._activity = activity or LastActivity()
        self._command = command
        self._child: Child | None = None
        self._preemption: Preemption | None = None
        self._is_landing = False
        self._ended_as: tuple[str, str] | None = None
        self._sink: ProgressSink | None = None
        self._blocked_by = ""
        self._over = asyncio.Event()
        self._over.set()
        self.running: str | None = None
        self.kind: PlanKind = "daily"
        self.progress = Progress(stage="")
        self.paused = ""
        self.before: Callable[[], None] = lambda: None
        """Called in a thread before a dream reads the memory."""

    @property
    def child_pid(self) -> int | None:
        """The living child, if there is one."""
        return self._child.pid if self._child is not None else None

    def spent(self) -> DailyUsage:
        """Sum the usage of the dreams of the last 24 hours. Blocks for a moment."""
        now = self._local_now()
        return usage_in_a_day(self._store.runs_since(now - DAY, (*DREAMS, LEARN)), now)

    # ---- a dream

    async def dream(
        self,
        kind: PlanKind = "daily",
        *,
        sessions: Collection[NodeId] = (),
        dry_run: bool = False,
        by_hand: bool = False,
        awaited: bool = False,
        progress: ProgressSink | None = None,
    ) -> DreamResult:
        """Run one dream and apply it, or with `dry_run` only plan it. Raises DreamError; a failed one is recorded.

        `by_hand`: a person asked for it, so it resumes sooner after a pause. `awaited`: a person waits for it, so it
        gets more of the processor than idle time. `sessions` are those that a run of kind `learn` reads. Cancelling
        ends a dream that is being planned; one that is being applied is finished first.
        """
        if self.running is not None:
            raise DreamBusy(f"The dream {self.running} is running.", "`dreamctl runs` shows when it is over.")
        if self._blocked_by:
            raise DreamBusy(f"No dream can be had now: {self._blocked_by}.", "Try again when that is done.")
        self._refuse_without_history()
        began, began_s = self._local_now(), time.monotonic()
        run_id = self.running = new_run_id(began, kind)  # of the local day, like its digest
        self.kind, self.progress, self.paused = kind, Progress(stage="start"), ""
        self._sink, self._is_landing, self._ended_as = progress, False, None
        self._over.clear()
        try:
            request = self._request(run_id, kind, began, dry_run, awaited)
            return await self._dream(request.model_copy(update={"sessions": frozenset(sessions)}), by_hand)
        except (Exception, asyncio.CancelledError) as error:  # a job's boundary
            state, reason = self._ended_as or state_and_reason(error)
            seconds = time.monotonic() - began_s
            expected = isinstance(error, DreamError | StoreError | OSError | asyncio.CancelledError)
            log = logger if expected else logger.opt(exception=True)
            log.warning("dream {} {} after {:.1f} s: {}", run_id, state, seconds, reason)
            if not dry_run:
                summary = {"note": reason, **self._spent(began_s)}
                run = Run(run_id, kind, state, began, self._local_now(), summary=summary)
                await asyncio.to_thread(self._landing.record_ended, run)
            if isinstance(error, asyncio.CancelledError):
                raise
            if state != "failed":
                return DreamResult(run_id, kind, state, Changeset(run_id=run_id), seconds, note=reason)
            raise DreamError(f"The dream failed: {reason}.", getattr(error, "hint", "")) from error
        finally:
            self.running, self._child, self._sink, self.paused = None, None, None, ""
            self._over.set()

    def _refuse_without_history(self) -> None:
        try:
            self._store.refuse_to_dream()
        except StoreError as error:
            raise DreamBusy(f"No dream can be had now: {error}.", error.hint) from error

    async def _dream(self, request: RunRequest, by_hand: bool) -> DreamResult:
        began_s = time.monotonic()
        await asyncio.to_thread(self.before)
        # So that it reads everything acknowledged before.
        await asyncio.to_thread(self._store.settle, SETTLE_S)
        _drop_old_checkpoint(request)
        request.folder.mkdir(mode=0o700, parents=True)
        try:
            done = await self._plan(request, by_hand)
            changeset = await asyncio.to_thread(self._landing.read, done, request)
        finally:
            shutil.rmtree(request.folder, ignore_errors=True)
        state, refused = "planned", tuple[SkippedAction, ...]()
        if not request.dry_run:
            # Shielded: once in the journal it is applied, now or at the next start, and better now.
            self._is_landing = True
            self._report(Progress(stage="apply", done=self.progress.total, total=self.progress.total))
            landing = asyncio.ensure_future(
                asyncio.to_thread(self._landing.land, request, done, changeset, self._spent(began_s))
            )
            applied = await _finished(landing)
            state, refused = "applied" if applied.applied else "nothing", applied.skipped
            state = "undone" if applied.undone else state
        seconds = time.monotonic() - began_s
        logger.info(
            "dream {} {}: {} actions, {} left out, {:.1f} s",
            *(request.run_id, state, len(changeset.actions), len(refused), seconds),
        )
        result = DreamResult(request.run_id, request.kind, state, changeset, seconds, done.digest, refused)
        return replace(result, note=note_on_edited(done), turns=done.turns)

    def _request(
        self, run_id: str, kind: PlanKind, local_now: datetime, dry_run: bool, awaited: bool = False
    ) -> RunRequest:
        return RunRequest.of(
            self._paths,
            run_id,
            local_now,
            kind=kind,
            dry_run=dry_run,
            at_idle=not awaited,
            # It belongs to a dream that was interrupted, and goes when that is applied.
            checkpoint=None if kind == LEARN else self._paths.checkpoint,
            store=self._settings.store,
            pipelines=self._settings.pipelines,
            llm=self._settings.llm,
        )

    async def _plan(self, request: RunRequest, by_hand: bool) -> Done:
        """Let a child plan, paused while agents are at work."""
        settings = self._settings.pipelines
        quiet_s = settings.idle.resume_quiet_by_hand_s if by_hand else settings.idle.resume_quiet_s
        limits, spent = settings.limits, await asyncio.to_thread(self.spent)
        # A dream that a person asked for is not refused for the day's budget.
        time_s = limits.time_s if by_hand else min(limits.time_s, max(0.0, limits.per_day_s - spent.seconds))
        # The child enforces the day's allowance of the model, so it must know what is left of it.
        request = request.model_copy(update={"calls_spent": spent.calls, "tokens_spent": spent.tokens})
        self._refuse_if_ended()
        child = self._child = await Child.start(self._command, request, limits, time_s)
        if child.pid is not None:
            write_run_marker(request, child.pid)
        preemption = Preemption(child, self._activity, settings.preemption, quiet_s, self._report_pause)
        self._preemption = preemption
        if self._ended_as is not None:  # while the child was being started
            await child.end()
        try:
            async with preemption.watching():
                return await child.plan(request, self._report)
        except DreamError:
            if preemption.gave_up:
                self._ended_as = "preempted", f"{self.paused or 'it was paused'}; it begins again when it is quiet"
            raise
        finally:
            self._preemption = None

    # ---- its progress

    def _report(self, at: Progress) -> None:
        """Store the latest progress for `status`, and forward it."""
        # Our own progress, such as that of applying, has no counts; the run's summary needs the child's.
        calls, tokens = max(at.calls, self.progress.calls), max(at.tokens, self.progress.tokens)
        self.progress = at.model_copy(update={"calls": calls, "tokens": tokens})
        if self._sink is not None:
            self._sink(at)

    def _report_pause(self, why: str) -> None:
        self.paused = why
        if self._sink is not None:
            note = f"paused: {why}" if why else "goes on"
            self._sink(self.progress.model_copy(update={"note": note}))

    def _spent(self, began_s: float) -> dict[str, Any]:
        """Return the run's seconds, its pauses and its work, and its calls of a model, for the summary."""
        paused_s = self._child.stopwatch.paused_s if self._child is not None else 0.0
        spent: dict[str, Any] = {"seconds": round(time.monotonic() - began_s - paused_s, 1)}
        if self._child is not None:
            spent["work_seconds"] = round(self._child.used.work_s, 1)
        if paused_s:
            spent["paused_seconds"] = round(paused_s, 1)
        if self.progress.calls:
            spent |= {"calls": self.progress.calls, "tokens": self.progress.tokens}
        return spent

    # ---- pause, resume, cancel

    def pause(self) -> str:
        """Pause the running dream until `resume`; return its id. Raises NoDream."""
        run_id, preemption = self._planning()
        preemption.pause()
        return run_id

    def resume(self) -> str:
        """Resume the running dream at once; return its id. Raises NoDream."""
        run_id, preemption = self._planning()
        preemption.resume()
        return run_id

    async def cancel(self) -> str:
        """End the running dream without a change; return its id. Raises NoDream."""
        run_id, _ = self._planning()
        await self._end_as("cancelled", "it was cancelled")
        await self._over.wait()
        return run_id

    @contextlib.asynccontextmanager
    async def held_back(self, why: str) -> AsyncIterator[None]:
        """Let no dream start inside the block. The running one is ended first, or finished if it is being applied."""
        self._blocked_by = why
        try:
            while self.running is not None:
                if not self._is_landing:
                    await self._end_as("cancelled", why)
                await self._over.wait()
            yield
        finally:
            self._blocked_by = ""

    def _planning(self) -> tuple[str, Preemption]:
        if self.running is None:
            raise NoDream("No dream is running.", "`dreamctl dream` has one.")
        if self._is_landing:
            raise NoDream(f"The dream {self.running} is being applied.", f"`dreamctl undo {self.running}` undoes it.")
        if self._preemption is None:
            raise NoDream(f"The dream {self.running} is between two steps.", "Try again in a moment.")
        return self.running, self._preemption

    async def _end_as(self, state: str, reason: str) -> None:
        self._ended_as = state, reason
        if self._child is not None:
            await self._child.end()

    def _refuse_if_ended(self) -> None:
        if self._ended_as is not None:
            raise DreamError(self._ended_as[1])

    async def stop(self) -> None:
        """End the child, if there is one, and wait until its dream is recorded; it is repeated another time."""
        if self.running is not None and not self._is_landing:
            await self._end_as("preempted", "the daemon was stopped")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._over.wait()

    def remove_orphans(self) -> int:
        """Remove the remains of dreams whose daemon ended, and record them as failed; return their number.

        As a failure delays the next dream: the dream itself may have ended the daemon.
        """
        orphans = list(remove_orphans(self._paths.runs))
        for orphan in orphans:
            summary = {"note": "the daemon ended while it ran", **orphan.spent}
            run = Run(orphan.run_id, orphan.kind, "failed", orphan.began_at, self._local_now(), summary=summary)
            if not orphan.dry_run:
                self._landing.record_ended(run)
        return len(orphans)


def _drop_old_checkpoint(request: RunRequest) -> None:
    if request.checkpoint is not None and request.checkpoint.exists():
        age_s = request.now.timestamp() - request.checkpoint.stat().st_mtime
        if age_s > CHECKPOINT_DAYS * 86_400:
            request.checkpoint.unlink()


async def _finished(landing: asyncio.Future[AppliedRun]) -> AppliedRun:
    """Wait for the landing even if cancelled meanwhile; then raise the cancellation."""
    try:
        return await asyncio.shield(landing)
    except asyncio.CancelledError:
        await asyncio.wait({landing})
        raise

"""Dreams, from the daemon's side: start the child, give way, read its changeset, apply it, record the outcome.

The daemon plans nothing itself: whatever a dream does to memory or processor, it does in a process of its own that can
be stopped and ended at any instant without a trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from loguru import logger

from ...ipc.protocol import REFUSED
from ...pipelines.protocol import Done, MessageError, Progress, RunKind, RunRequest, read_changeset
from ...store import AppliedRun, Run, SkippedAction, is_digest, new_run_id
from ...store.model import ActionKind, Changeset, NotFound, StoreError
from ..settings import Settings
from .bounds import DAY, DREAMS, DailyUsage, usage_in_a_day
from .child import CHILD, Child, DreamError, ProgressSink, remove_orphans, write_run_marker
from .derived import DerivedPages
from .idle import Activity
from .preemption import Preemption

if TYPE_CHECKING:
    from ...store import MemoryStore, StorePaths

__all__ = ["DreamBusy", "DreamError", "DreamResult", "Dreamer"]

CHECKPOINT_DAYS = 7  # it holds what a person said: not for ever, if no dream lands
SETTLE_S = 30.0
STOP_TIMEOUT_S = 60.0  # as long as applying a large changeset may take


class DreamBusy(DreamError):
    """A dream that cannot begin: another one runs, or the history is lost."""

    code = REFUSED


class NoDream(DreamError):
    """There is no running dream to pause, resume or cancel."""

    code = REFUSED


@dataclass(frozen=True, slots=True)
class DreamResult:
    """The outcome of a dream. `state` as the history has it, or `planned`; `refused` names actions that were left out.

    One that was ended on purpose is `preempted` or `cancelled`, and `note` says why; it changed nothing.
    """

    run_id: str
    kind: RunKind
    state: str
    changeset: Changeset
    seconds: float
    digest: str = ""
    refused: tuple[SkippedAction, ...] = ()
    note: str = ""

    @property
    def actions(self) -> dict[str, int]:
        """The number of changes that each stage proposed."""
        return self.changeset.changes_by_stage


class Dreamer:
    """Has dreams, one at a time. All methods are called in the daemon's loop."""

    def __init__(
        self,
        store: MemoryStore,
        paths: StorePaths,
        settings: Settings,
        local_now: Callable[[], datetime],
        activity: Activity | None = None,
        command: Sequence[str] = CHILD,
    ) -> None:
        self._store = store
        self._pages = DerivedPages(store, local_now)
        self._paths = paths
        self._settings = settings
        self._local_now = local_now
        self._activity = activity or Activity()
        self._command = command
        self._child: Child | None = None
        self._preemption: Preemption | None = None
        self._landing = False
        self._ended_as: tuple[str, str] | None = None
        self._sink: ProgressSink | None = None
        self._held_by = ""
        self._over = asyncio.Event()
        self._over.set()
        self.running: str | None = None
        self.kind: RunKind = "daily"
        self.progress = Progress(stage="")
        self.paused = ""

    @property
    def child_pid(self) -> int | None:
        """The living child, if there is one."""
        return self._child.pid if self._child is not None else None

    def spent(self) -> DailyUsage:
        """Sum what the dreams of the last 24 hours have used. Blocks for a moment."""
        now = self._local_now()
        return usage_in_a_day(self._store.runs_since(now - DAY, DREAMS), now)

    # ---- a dream

    async def dream(
        self,
        kind: RunKind = "daily",
        *,
        dry_run: bool = False,
        by_hand: bool = False,
        awaited: bool = False,
        progress: ProgressSink | None = None,
    ) -> DreamResult:
        """Have one dream and apply it, or with `dry_run` only plan it. Raises DreamError; a failed one is recorded.

        One that a person asked for goes on sooner after it gave way; one that is `awaited` does not have to wait until
        the processor is idle. Cancelling ends a dream that is being planned; one that is being applied is finished
        first.
        """
        if self.running is not None:
            raise DreamBusy(f"The dream {self.running} is running.", "`dreamctl runs` shows when it is over.")
        if self._held_by:
            raise DreamBusy(f"No dream can be had now: {self._held_by}.", "Try again when that is done.")
        self._refuse_without_history()
        began, began_s = self._local_now(), time.monotonic()
        run_id = self.running = new_run_id(began, kind)  # of the local day, like its digest
        self.kind, self.progress, self.paused = kind, Progress(stage="start"), ""
        self._sink, self._landing, self._ended_as = progress, False, None
        self._over.clear()
        try:
            return await self._dream(self._request(run_id, kind, began, dry_run, awaited), by_hand)
        except (Exception, asyncio.CancelledError) as error:  # a job's boundary
            state, reason = self._ended_as or _state_and_reason(error)
            seconds = time.monotonic() - began_s
            expected = isinstance(error, DreamError | StoreError | OSError | asyncio.CancelledError)
            log = logger if expected else logger.opt(exception=True)
            log.warning("dream {} {} after {:.1f} s: {}", run_id, state, seconds, reason)
            if not dry_run:
                summary = {"note": reason, **self._spent(began_s)}
                run = Run(run_id, kind, state, began, self._local_now(), summary=summary)
                await asyncio.to_thread(self._record_ended, run)
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
        await asyncio.to_thread(self._store.settle, SETTLE_S)  # it dreams of all that was acknowledged before
        _drop_old_checkpoint(request)
        request.folder.mkdir(mode=0o700, parents=True)
        try:
            done = await self._plan(request, by_hand)
            changeset = await asyncio.to_thread(self._take, done, request)
        finally:
            shutil.rmtree(request.folder, ignore_errors=True)
        state, refused = "planned", tuple[SkippedAction, ...]()
        if not request.dry_run:
            # Shielded: once it is journaled it will be applied, now or at the next start; now is better.
            self._landing = True
            self._report(Progress(stage="apply", done=self.progress.total, total=self.progress.total))
            landing = asyncio.ensure_future(asyncio.to_thread(self._land, request, done, changeset, began_s))
            applied = await _finished(landing)
            state, refused = "applied" if applied.applied else "nothing", applied.skipped
            state = "undone" if applied.undone else state
        seconds = time.monotonic() - began_s
        logger.info(
            "dream {} {}: {} actions, {} left out, {:.1f} s",
            *(request.run_id, state, len(changeset.actions), len(refused), seconds),
        )
        note = _held_in_words(done)
        return DreamResult(request.run_id, request.kind, state, changeset, seconds, done.digest, refused, note)

    def _request(
        self, run_id: str, kind: RunKind, local_now: datetime, dry_run: bool, awaited: bool = False
    ) -> RunRequest:
        return RunRequest.of(
            self._paths,
            run_id,
            local_now,
            kind=kind,
            dry_run=dry_run,
            at_idle=not awaited,
            checkpoint=self._paths.checkpoint,
            store=self._settings.store,
            pipelines=self._settings.pipelines,
            llm=self._settings.llm,
        )

    async def _plan(self, request: RunRequest, by_hand: bool) -> Done:
        """Let a child plan, giving way to agents at work."""
        settings = self._settings.pipelines
        quiet_s = settings.idle.resume_quiet_by_hand_s if by_hand else settings.idle.resume_quiet_s
        limits, spent = settings.limits, await asyncio.to_thread(self.spent)
        time_s = limits.time_s if by_hand else min(limits.time_s, max(0.0, limits.per_day_s - spent.seconds))
        request = request.model_copy(update={"calls_spent": spent.calls, "tokens_spent": spent.tokens})
        self._refuse_if_ended()
        child = self._child = await Child.start(self._command, request, limits, time_s)
        if child.pid is not None:
            write_run_marker(request, child.pid)
        preemption = Preemption(child, self._activity, settings.preemption, quiet_s, self._report_pause)
        self._preemption = preemption
        if self._ended_as is not None:  # while it was being started
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
        """Keep the latest progress for `status`, and hand it on."""
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
        """Return how long it took, how long it was held back, how much it worked, and what it asked of a model."""
        held_s = self._child.stopwatch.held_s if self._child is not None else 0.0
        spent: dict[str, Any] = {"seconds": round(time.monotonic() - began_s - held_s, 1)}
        if self._child is not None:
            spent["work_seconds"] = round(self._child.used.work_s, 1)
        if held_s:
            spent["paused_seconds"] = round(held_s, 1)
        if self.progress.calls:
            spent |= {"calls": self.progress.calls, "tokens": self.progress.tokens}
        return spent

    # ---- holding it back

    def pause(self) -> str:
        """Hold the running dream back until `resume`; return its id. Raises NoDream."""
        run_id, preemption = self._planning()
        preemption.pause()
        return run_id

    def resume(self) -> str:
        """Let it go on at once; return its id. Raises NoDream."""
        run_id, preemption = self._planning()
        preemption.resume()
        return run_id

    async def cancel(self) -> str:
        """End it, so that nothing of it becomes real; return its id. Raises NoDream."""
        run_id, _ = self._planning()
        await self._end_as("cancelled", "it was cancelled")
        await self._over.wait()
        return run_id

    @contextlib.asynccontextmanager
    async def held_back(self, why: str) -> AsyncIterator[None]:
        """Let no dream begin while inside; the running one is ended before, or, while it is being applied, finished."""
        self._held_by = why
        try:
            while self.running is not None:
                if not self._landing:
                    await self._end_as("cancelled", why)
                await self._over.wait()
            yield
        finally:
            self._held_by = ""

    def _planning(self) -> tuple[str, Preemption]:
        if self.running is None:
            raise NoDream("No dream is running.", "`dreamctl dream` has one.")
        if self._landing:
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
        """End the child, if there is one, and wait until its dream is written down: it begins again another time."""
        if self.running is not None and not self._landing:
            await self._end_as("preempted", "the daemon was stopped")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._over.wait()

    def remove_orphans(self) -> int:
        """Remove what a daemon that ended left of its dreams, and record them as failed; return how many there were.

        The dream may have been what ended it, so the next one is not begun at once.
        """
        orphans = list(remove_orphans(self._paths.runs))
        for orphan in orphans:
            summary = {"note": "the daemon ended while it ran", **orphan.spent}
            run = Run(orphan.run_id, orphan.kind, "failed", orphan.began_at, self._local_now(), summary=summary)
            if not orphan.dry_run:
                self._record_ended(run)
        return len(orphans)

    # ---- applying it

    def _take(self, done: Done, request: RunRequest) -> Changeset:
        """Read the changeset that the child left. Raises DreamError if it is not this run's, or not whole."""
        if done.changeset_path is None:
            return Changeset(run_id=request.run_id)
        path = done.changeset_path
        if not path.resolve().is_relative_to(request.folder.resolve()):
            raise DreamError("its changeset is not in its own folder")
        limit = self._settings.pipelines.limits.changeset_mib * 2**20
        try:
            if path.stat().st_size > limit:
                raise DreamError(f"its changeset is larger than {limit} bytes", "Raise pipelines.limits.changeset_mib.")
            changeset = read_changeset(path)
        except (OSError, MessageError) as error:
            raise DreamError(f"its changeset cannot be read: {error}") from error
        if changeset.run_id != request.run_id:
            raise DreamError("its changeset belongs to another run")
        return changeset

    def _land(self, request: RunRequest, done: Done, changeset: Changeset, began_s: float) -> AppliedRun:
        """Apply the plan, check that recall is no worse for it, then write the pages that are derived from it."""
        from ...pipelines.gate.post_apply import Recheck

        for path in done.derived:
            if not is_digest(path):
                raise DreamError(f"it wanted to write {path} as if it were a digest")
        kinds = Counter(action.kind for action in changeset.actions)
        summary = {
            **done.report,
            **self._spent(began_s),
            "actions": changeset.changes_by_stage,
            "created": kinds[ActionKind.CREATE],
            "replaced": kinds[ActionKind.REPLACE],
            "deleted": kinds[ActionKind.DELETE],
        }
        if note := _held_in_words(done):
            summary["note"] = note
        recheck = Recheck(self._store, done.checks if changeset.changes_something else (), lambda: self._store.is_busy)
        applied = self._apply(request, changeset, summary)
        reasons: Sequence[str] = ()
        with _failure_logged(request, "looking at recall again"):
            self._store.embed({action.node_id for action in changeset.actions})  # found by words alone until then
            reasons = recheck.reasons()
        pages = _pages_with_left_out(applied, done)
        if reasons:
            with _failure_logged(request, "taking it back"):
                pages = self._take_back(request, done, "; ".join(reasons))
                applied = replace(applied, undone=True)
        if applied.applied or pages:  # who did nothing writes nothing
            with _failure_logged(request, "writing its digest"):
                self._pages.write(pages)
        with _failure_logged(request, "tidying up"):
            if request.checkpoint is not None:
                request.checkpoint.unlink(missing_ok=True)
            self._store.tidy()
        return applied

    def _apply(self, request: RunRequest, changeset: Changeset, summary: dict[str, Any]) -> AppliedRun:
        """Make it real. Once it is journaled it is: an error after that does not make it a failure."""
        try:
            return self._store.apply(changeset, kind=request.kind, started_at=request.now, summary=summary)
        except Exception as error:
            run = self._known(request.run_id)
            if run is None:
                raise
            logger.opt(exception=True).error(
                "dream {} is journaled, and applying it met {}", request.run_id, type(error).__name__
            )
            return AppliedRun(run.run_id, len(changeset.actions) if run.state == "applied" else 0)

    def _take_back(self, request: RunRequest, done: Done, reason: str) -> dict[str, str]:
        """Undo a dream that made recall worse after all, say so in its run, and answer what is left of its digest."""
        from ...pipelines.report.html import disowned

        note = f"it made recall worse once it was applied: {reason}"
        logger.warning("dream {}: {}", request.run_id, note)
        self._store.undo(request.run_id)
        run = self._store.run(request.run_id)
        self._store.record_run(replace(run, summary={**run.summary, "note": note}))
        remark = f"{note}. Nothing of it is proposed again."
        return {path: disowned(text, request.run_id, remark) for path, text in done.derived.items()}

    def _record_ended(self, run: Run) -> None:
        """Write down a run that changed nothing; one that is journaled is applied, now or at the next start."""
        if self._known(run.run_id) is None:
            self._store.record_run(run)

    def _known(self, run_id: str) -> Run | None:
        with contextlib.suppress(NotFound):
            return self._store.run(run_id)
        return None


@contextlib.contextmanager
def _failure_logged(request: RunRequest, what: str) -> Iterator[None]:
    """Log an error inside and go on: the dream is applied by now, and did not fail."""
    try:
        yield
    except Exception as error:
        log = logger if isinstance(error, StoreError | OSError) else logger.opt(exception=True)
        _, reason = _state_and_reason(error)
        log.warning("dream {} is applied, and {} failed: {}", request.run_id, what, reason)


def _held_in_words(done: Done) -> str:
    """Count the pages that were left as their person edited them; "" for none."""
    held = int(done.report.get("held", 0))
    pages = "page that you edited was" if held == 1 else "pages that you edited were"
    return f"{held:,} {pages} left alone; `dreamctl digest` names {'it' if held == 1 else 'them'}" if held else ""


def _pages_with_left_out(applied: AppliedRun, done: Done) -> dict[str, str]:
    """Return the pages derived from a dream; its digest names the actions that were left out."""
    from ...pipelines.report.html import with_left_out

    if not applied.skipped:
        return done.derived
    left_out = [(refused.path, refused.reason) for refused in applied.skipped]
    return {path: with_left_out(text, applied.run_id, left_out) for path, text in done.derived.items()}


def _drop_old_checkpoint(request: RunRequest) -> None:
    if request.checkpoint is not None and request.checkpoint.exists():
        age_s = request.now.timestamp() - request.checkpoint.stat().st_mtime
        if age_s > CHECKPOINT_DAYS * 86_400:
            request.checkpoint.unlink()


async def _finished(landing: asyncio.Future[AppliedRun]) -> AppliedRun:
    """Wait for it even if we are cancelled meanwhile; then be cancelled."""
    try:
        return await asyncio.shield(landing)
    except asyncio.CancelledError:
        await asyncio.wait({landing})
        raise


def _state_and_reason(error: BaseException) -> tuple[str, str]:
    """Return how a run ended that an error ended, and why in words."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "it was cancelled"
    if isinstance(error, OSError):
        return "failed", f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    if isinstance(error, DreamError | StoreError):
        return "failed", str(error).rstrip(".")
    return "failed", f"dreamd met {type(error).__name__}, and the log has the place"  # its words may be a person's

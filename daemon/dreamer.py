"""Dreams, from the daemon's side: start the child, watch it, take its changeset, apply it, write down what came of it.

The daemon plans nothing itself: whatever a dream does to memory or processor, it does in a process of its own that can
be ended at any instant without a trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from loguru import logger

from ..pipelines.messages import (
    Done,
    Failed,
    MessageError,
    Progress,
    RunKind,
    RunRequest,
    decode,
    encode,
    read_changeset,
)
from ..store.keep.changes import AppliedRun, Refused
from ..store.keep.disk import Disk
from ..store.keep.history import Run
from ..store.keep.vault import Vault, is_derived
from ..store.model import ActionKind, Changeset, StoreError
from .settings import Settings

if TYPE_CHECKING:
    from ..store.memory import MemoryStore, StorePaths

LINE_BYTES = 16 * 2**20  # a digest travels in the last line
WATCH_EVERY_S = 0.5
END_GRACE_S = 2.0
STDERR_LINES = 50
SETTLE_S = 30.0
STOP_TIMEOUT_S = 60.0  # as long as applying a large changeset may take
CHILD = (sys.executable, "-P", "-m", "dreamd.pipelines")

# sys/resource.h of darwin; `os` names them from Python 3.12 on.
DARWIN_PROCESS, DARWIN_BACKGROUND = 4, 0x1000

ProgressSink = Callable[[Progress], None]


class DreamError(Exception):
    """A dream that could not be had; nothing was changed by it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DreamBusy(DreamError):
    """One dream at a time."""


@dataclass(frozen=True, slots=True)
class DreamResult:
    """What came of a dream. `state` as the history has it, or `planned`; `refused` names actions that were left out."""

    run_id: str
    kind: RunKind
    state: str
    changeset: Changeset
    seconds: float
    digest: str = ""
    refused: tuple[Refused, ...] = ()

    @property
    def actions(self) -> dict[str, int]:
        """How many actions each stage proposed."""
        return dict(Counter(action.stage for action in self.changeset.actions))


class Dreamer:
    """Has dreams, one at a time. All methods are called in the daemon's loop."""

    def __init__(
        self,
        store: MemoryStore,
        paths: StorePaths,
        settings: Settings,
        local_now: Callable[[], datetime],
        command: Sequence[str] = CHILD,
    ) -> None:
        self._store = store
        self._vault = Vault(paths.vault, Disk())
        self._paths = paths
        self._settings = settings
        self._local_now = local_now
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._over = asyncio.Event()
        self._over.set()
        self.running: str | None = None
        self.kind: RunKind = "daily"
        self.progress = Progress(stage="")

    @property
    def child_pid(self) -> int | None:
        """The living child, if there is one."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def dream(
        self, kind: RunKind = "daily", *, dry_run: bool = False, progress: ProgressSink | None = None
    ) -> DreamResult:
        """Have one dream and apply it, or with `dry_run` only plan it. Raises DreamError; a failed one is recorded.

        Cancelling ends a dream that is being planned; one that is being applied is finished first.
        """
        if self.running is not None:
            raise DreamBusy(f"The dream {self.running} is running.", "`dreamctl runs` shows when it is over.")
        began, began_s = self._local_now(), time.monotonic()
        self.running, self.kind = _new_run_id(began, kind), kind
        self.progress = Progress(stage="start")
        self._over.clear()
        try:
            return await self._dream(self._request(self.running, kind, began, dry_run), self._relay(progress))
        except (DreamError, StoreError, OSError, asyncio.CancelledError) as error:
            reason = _reason(error)
            logger.warning("dream {} failed after {:.1f} s: {}", self.running, time.monotonic() - began_s, reason)
            if not dry_run:
                run = Run(self.running, kind, "failed", began, self._local_now(), summary={"note": reason})
                await asyncio.to_thread(self._record_failure, run)
            if isinstance(error, asyncio.CancelledError):
                raise
            raise DreamError(f"The dream failed: {reason}.", getattr(error, "hint", "")) from error
        finally:
            self.running = None
            self._over.set()

    async def stop(self) -> None:
        """End the child, if there is one, and wait until its dream is written down; it fails and says so."""
        if (process := self._process) is not None:
            await _end(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._over.wait()

    def remove_orphans(self) -> int:
        """Take away the folders of dreams that no daemon watches any more; how many there were."""
        orphans = [entry for entry in self._paths.runs.iterdir() if entry.is_dir()] if self._paths.runs.is_dir() else []
        for orphan in orphans:
            shutil.rmtree(orphan, ignore_errors=True)
        return len(orphans)

    def _request(self, run_id: str, kind: RunKind, local_now: datetime, dry_run: bool) -> RunRequest:
        offset = local_now.utcoffset()
        return RunRequest(
            run_id=run_id,
            kind=kind,
            folder=self._paths.runs / run_id,
            vault=self._paths.vault,
            ledger=self._paths.ledger,
            index=self._paths.index,
            embeddings=self._paths.embeddings,
            now=local_now.astimezone(UTC),
            local_date=local_now.date(),
            utc_offset_s=int(offset.total_seconds()) if offset else 0,
            dry_run=dry_run,
            store=self._settings.store,
            pipelines=self._settings.pipelines,
            llm=self._settings.llm,
        )

    def _relay(self, progress: ProgressSink | None) -> ProgressSink:
        """Keep the latest for `status`, and hand it on."""

        def relay(at: Progress) -> None:
            self.progress = at
            if progress is not None:
                progress(at)

        return relay

    async def _dream(self, request: RunRequest, progress: ProgressSink) -> DreamResult:
        began_s = time.monotonic()
        await asyncio.to_thread(self._store.settle, SETTLE_S)  # what was acknowledged before it is dreamt of
        request.folder.mkdir(mode=0o700, parents=True)
        try:
            done = await self._plan(request, progress)
            changeset = await asyncio.to_thread(self._take, done, request)
        finally:
            shutil.rmtree(request.folder, ignore_errors=True)
        state, refused = "planned", tuple[Refused, ...]()
        if not request.dry_run:
            # Shielded: once it is journaled it will be applied, now or at the next start; now is better.
            progress(Progress(stage="apply", total=len(changeset.actions)))
            landing = asyncio.ensure_future(asyncio.to_thread(self._land, request, done, changeset, began_s))
            applied = await _finished(landing)
            state, refused = "applied" if applied.applied else "nothing", applied.refused
        seconds = time.monotonic() - began_s
        logger.info(
            "dream {} {}: {} actions, {} left out, {:.1f} s",
            *(request.run_id, state, len(changeset.actions), len(refused), seconds),
        )
        return DreamResult(request.run_id, request.kind, state, changeset, seconds, done.digest, refused)

    async def _plan(self, request: RunRequest, progress: ProgressSink) -> Done:
        """Let a child plan, within its bounds. Raises DreamError for every other end than `Done`."""
        limits = self._settings.pipelines.limits
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            start_new_session=True,  # Ctrl-C in the daemon's terminal is for the daemon alone
            cwd=request.folder,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        self._process = process
        be_idle(process.pid)
        watch = asyncio.ensure_future(_watch_memory(process, limits.memory_mib))
        stderr = asyncio.ensure_future(_log_stderr(process, request.run_id))
        try:
            async with asyncio.timeout(limits.time_s):
                return await self._converse(process, request, progress)
        except TimeoutError:
            raise DreamError(f"it took longer than {limits.time_s:.0f} s", "Raise pipelines.limits.time_s.") from None
        except _Silent:
            raise DreamError(
                f"it said nothing for {limits.silence_s:.0f} s", "Raise pipelines.limits.silence_s."
            ) from None
        except _Ended as end:
            if watch.done() and watch.result():
                raise DreamError(watch.result(), "Raise pipelines.limits.memory_mib.") from None
            raise DreamError(str(end), "The log has the child's last words.") from None
        finally:
            watch.cancel()
            await _end(process)
            await asyncio.wait({stderr}, timeout=END_GRACE_S)
            stderr.cancel()
            self._process = None

    async def _converse(self, process: asyncio.subprocess.Process, request: RunRequest, progress: ProgressSink) -> Done:
        assert process.stdin is not None
        assert process.stdout is not None
        # The pipe stays open: its end would tell the child that we are gone.
        with contextlib.suppress(ConnectionError):  # it died at once; reading says so
            process.stdin.write(encode(request))
            await process.stdin.drain()
        while True:
            try:
                async with asyncio.timeout(self._settings.pipelines.limits.silence_s):
                    line = await process.stdout.readline()
            except TimeoutError:
                raise _Silent from None
            except ValueError:
                raise DreamError(f"it said more than {LINE_BYTES} bytes in a line") from None
            if not line:
                raise _Ended(_how_it_ended(await process.wait()))
            try:
                message = decode(line)
            except MessageError as error:
                raise DreamError(str(error)) from error
            match message:
                case Progress():
                    progress(message)
                case Failed():
                    raise DreamError(message.reason, message.hint)
                case Done():
                    return message

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
        """Make the plan real, then write what is derived from it."""
        for path in done.derived:
            if not is_derived(path):
                raise DreamError(f"it wanted to write {path} as if it were derived")
        kinds = Counter(action.kind for action in changeset.actions)
        summary = {
            **done.report,
            "seconds": round(time.monotonic() - began_s, 1),
            "actions": dict(Counter(action.stage for action in changeset.actions)),
            "created": kinds[ActionKind.CREATE],
            "replaced": kinds[ActionKind.REPLACE],
            "deleted": kinds[ActionKind.DELETE],
        }
        applied = self._store.apply(changeset, kind=request.kind, started_at=request.now, summary=summary)
        try:
            for path, text in done.derived.items():
                self._vault.write_derived(path, text.encode())
            self._store.tidy()
        except (StoreError, OSError) as error:  # the dream is real; its digest is made again by the next
            logger.warning("dream {} is applied, and tidying up after it failed: {}", request.run_id, _reason(error))
        return applied

    def _record_failure(self, run: Run) -> None:
        """Write a failed run down, unless it is journaled: then it is applied, now or at the next start."""
        if all(known.run_id != run.run_id for known in self._store.runs(50)):
            self._store.record_run(run)


async def _finished(landing: asyncio.Future[AppliedRun]) -> AppliedRun:
    """Wait for it even if we are cancelled meanwhile; then be cancelled."""
    try:
        return await asyncio.shield(landing)
    except asyncio.CancelledError:
        await asyncio.wait({landing})
        raise


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "it was cancelled"
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    return str(error).rstrip(".")


def _new_run_id(local_now: datetime, kind: str) -> str:
    """Sorts by time, reads as a date, and two daemons of two vaults do not make the same."""
    return f"{local_now:%Y%m%d-%H%M%S}-{kind}-{secrets.token_hex(2)}"


def be_idle(pid: int) -> None:
    """Give a process the processor only when nobody else wants it; what it starts inherits that."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        elif sys.platform == "darwin":
            os.setpriority(DARWIN_PROCESS, pid, DARWIN_BACKGROUND)
        else:
            os.setpriority(os.PRIO_PROCESS, pid, 19)


async def _watch_memory(process: asyncio.subprocess.Process, limit_mib: int) -> str:
    """End a child that outgrows its bound; what to say of it, or "" if it never did."""
    import psutil  # 20 ms: not on the way to the first recall

    with contextlib.suppress(psutil.Error):
        child = psutil.Process(process.pid)
        while process.returncode is None:
            resident_mib = child.memory_info().rss / 2**20
            if resident_mib > limit_mib:
                process.kill()
                return f"it used {resident_mib:.0f} MiB of memory and {limit_mib} are allowed"
            await asyncio.sleep(WATCH_EVERY_S)
    return ""


async def _log_stderr(process: asyncio.subprocess.Process, run_id: str) -> None:
    """Hand the child's last words to the log, a bounded number of lines; the rest is read and dropped."""
    assert process.stderr is not None
    left = STDERR_LINES
    while chunk := await process.stderr.read(65536):
        for line in chunk.decode("utf-8", "replace").splitlines()[:left]:
            logger.warning("dream {}: {}", run_id, line[:500])
            left -= 1


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the child and everything it started, first by closing its stdin, then by force."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_GRACE_S):
                await process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended without an answer (exit code {code})"


class _Silent(Exception):
    """The child said nothing for too long."""


class _Ended(Exception):
    """The child ended without its last message."""

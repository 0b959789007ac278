"""The process of a dream: started, listened to, held back and let go on, kept within its bounds, ended.

A dream whose daemon ended before it leaves its folder, and on some systems its process: both are removed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from ...pipelines.protocol import PAUSE, RESUME, SPENT, Done, Failed, MessageError, Progress, RunRequest, decode, encode
from ...pipelines.settings import LimitSettings
from ..clock import Stopwatch
from .bounds import Bounds, Used

if TYPE_CHECKING:
    import psutil

LINE_BYTES = 16 * 2**20  # a digest travels in the last line
WATCH_EVERY_S = 0.5
END_GRACE_S = 2.0
STDERR_LINES = 50
NICE_WHEN_AWAITED = 5
CHILD = (sys.executable, "-P", "-m", "dreamd.pipelines")

# sys/resource.h of darwin; `os` names them from Python 3.12 on.
DARWIN_PROCESS, DARWIN_BACKGROUND = 4, 0x1000

ProgressSink = Callable[[Progress], None]


class DreamError(Exception):
    """A dream that could not be had; nothing was changed by it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Child:
    """One dream's process, from its start to its end. All methods are called in the daemon's loop.

    `stopwatch` is the time that it was let run, `used` what it had used of the machine when it was last looked at.
    """

    def __init__(self, process: asyncio.subprocess.Process, limits: LimitSettings, time_s: float) -> None:
        self.stopwatch = Stopwatch()
        self.held = False
        self.used = Used()
        self._process = process
        self._bounds = Bounds(limits, time_s)
        self._at = Progress(stage="start")
        self._progress: ProgressSink = lambda at: None
        self._stop: asyncio.TimerHandle | None = None
        self._watch = asyncio.ensure_future(self._keep_within_bounds())

    @classmethod
    async def start(
        cls, command: Sequence[str], request: RunRequest, limits: LimitSettings, time_s: float | None = None
    ) -> Child:
        """Execute it in the run's folder, at the priority that was requested. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            start_new_session=True,  # Ctrl-C in the daemon's terminal is for the daemon alone
            cwd=request.folder,
            # What its libraries put aside goes with the folder.
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(request.folder)},
        )
        (be_idle if request.at_idle else be_modest)(process.pid)
        return cls(process, limits, limits.time_s if time_s is None else time_s)

    @property
    def pid(self) -> int | None:
        """The living process, if it lives."""
        return self._process.pid if self._process.returncode is None else None

    # ---- its plan

    async def plan(self, request: RunRequest, progress: ProgressSink) -> Done:
        """Have it plan, within its bounds. Raises DreamError for every other end than `Done`."""
        self._progress = progress
        stderr = asyncio.ensure_future(_log_stderr(self._process, request.run_id))
        try:
            return await self._converse(request)
        finally:
            self._watch.cancel()
            await self.end()
            await asyncio.wait({stderr}, timeout=END_GRACE_S)
            stderr.cancel()

    async def _converse(self, request: RunRequest) -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # The pipe stays open: its end would tell the child that we are gone.
        with contextlib.suppress(ConnectionError):  # it died at once; reading says so
            self._process.stdin.write(encode(request))
            await self._process.stdin.drain()
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise DreamError(f"it said more than {LINE_BYTES} bytes in a line") from None
            if not line:
                raise await self._why_it_ended()
            self._bounds.heard()
            try:
                message = decode(line)
            except MessageError as error:
                raise DreamError(str(error)) from error
            match message:
                case Progress():
                    self._at = message
                    self._progress(message)
                case Failed():
                    raise DreamError(message.reason, message.hint)
                case Done():
                    return message

    async def _why_it_ended(self) -> DreamError:
        code = await self._process.wait()
        if self._watch.done() and not self._watch.cancelled() and (error := self._watch.result()) is not None:
            return error
        return DreamError(_how_it_ended(code), "The log has the child's last words.")

    # ---- holding it back

    def hold(self, stop_after_s: float) -> None:
        """Have it give way: it hears it at once, so that it aborts a call of a model, and is stopped a moment later.

        Native code hears neither a word nor a Python signal, which is why its consent is not waited for.
        """
        if self.held or self.pid is None:
            return
        self.held = True
        self._send(PAUSE)
        self.stopwatch.hold()
        self._stop = asyncio.get_running_loop().call_later(stop_after_s, self._signal, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        if not self.held:
            return
        self.held = False
        if self._stop is not None:
            self._stop.cancel()
        self.stopwatch.go_on()
        self._send(RESUME)
        self._signal(signal.SIGCONT)

    def _send(self, word: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(word)

    def _signal(self, number: signal.Signals) -> None:
        """Signal it and all that it started."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    # ---- its end

    async def end(self) -> None:
        """End it and all that it started, by closing its stdin, then by force; a stopped one hears force alone."""
        if self._stop is not None:
            self._stop.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self.pid is not None and not self.held:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_GRACE_S):
                    await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def _keep_within_bounds(self) -> DreamError | None:
        """End it when it works too long, takes too much, or sends nothing; return why, or None if it ends by itself.

        While it sends nothing, report why in its place.
        """
        import psutil  # 20 ms: not on the way to the first recall

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._process.pid)
            while self._process.returncode is None:
                if not self.held:
                    self.used = self._measure(process)
                    if objection := self._bounds.objection(self.used):
                        self._process.kill()
                        return DreamError(*objection)
                    if why := self._bounds.why_silent():
                        self._progress(self._at.model_copy(update={"note": why}))
                    # It stops itself on PAUSE, and may get round to that after the RESUME.
                    self._signal(signal.SIGCONT)
                await asyncio.sleep(WATCH_EVERY_S)
        return None

    def _measure(self, process: psutil.Process) -> Used:
        with process.oneshot():
            times = process.cpu_times()
            return Used(
                cpu_s=times.user + times.system + times.children_user + times.children_system,
                model_s=self._at.model_s,
                run_s=self.stopwatch.run_s,
                resident_mib=process.memory_info().rss / 2**20,
                is_ready=process.status() == "running",
            )


def be_idle(pid: int) -> None:
    """Give a process the processor only when no other one wants it; what it starts inherits that.

    SCHED_IDLE makes its reading and writing idle too. But Linux weighs sessions against each other before the processes
    in them, and this one has a session of its own, in which it would be idle alone and take half of a core from the
    daemon: beside such a process two threads of 12 ms took 550 ms, and 24 with the session made to step back.
    """
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
            Path(f"/proc/{pid}/autogroup").write_text("19")
        elif sys.platform == "darwin":
            os.setpriority(DARWIN_PROCESS, pid, DARWIN_BACKGROUND)
        else:
            os.setpriority(os.PRIO_PROCESS, pid, 19)


def be_modest(pid: int) -> None:
    """Give a process that a person waits for its share of the processor, after other processes."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICE_WHEN_AWAITED)


async def _log_stderr(process: asyncio.subprocess.Process, run_id: str) -> None:
    """Hand the child's last words to the log, a bounded number of lines; the rest is read and dropped."""
    assert process.stderr is not None
    left = STDERR_LINES
    while chunk := await process.stderr.read(65536):
        for line in chunk.decode("utf-8", "replace").splitlines()[:left]:
            logger.warning("dream {}: {}", run_id, line[:500])
            left -= 1


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended without an answer (exit code {code})"


RUN_MARKER = "run.json"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A dream that was being planned when its daemon ended; `spent` is what it had asked of a model, if anything."""

    run_id: str
    kind: str
    began_at: datetime
    dry_run: bool
    spent: Mapping[str, int] = field(default_factory=dict)


def write_run_marker(request: RunRequest, pid: int) -> None:
    """Write into the run's folder what it is and its pid, for a daemon that finds it there."""
    said = {
        "run_id": request.run_id,
        "kind": request.kind,
        "began_at": request.now.isoformat(),
        "dry_run": request.dry_run,
        "pid": pid,
    }
    (request.folder / RUN_MARKER).write_text(json.dumps(said))


def remove_orphans(runs: Path) -> Iterator[Orphan]:
    """Remove every run's folder, and its process; yield the dreams whose markers could be read."""
    for folder in [entry for entry in runs.iterdir() if entry.is_dir()] if runs.is_dir() else []:
        orphan = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads((folder / RUN_MARKER).read_text())
            _end_process(int(said["pid"]), folder)
            began_at = datetime.fromisoformat(said["began_at"])
            orphan = Orphan(said["run_id"], said["kind"], began_at, said["dry_run"], _spent(folder))
        shutil.rmtree(folder, ignore_errors=True)
        if orphan is not None:
            yield orphan


def _spent(folder: Path) -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((folder / SPENT).read_text())
        return {"calls": int(said["calls"]), "tokens": int(said["tokens"])}
    return {}


def _end_process(pid: int, folder: Path) -> None:
    """End the process if it is still that dream's, which works in its folder; Linux has done so, others may not."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        if psutil.Process(pid).cwd() == str(folder.resolve()):
            logger.warning("ending the orphaned dream in {} (pid {})", folder.name, pid)
            os.killpg(pid, signal.SIGKILL)

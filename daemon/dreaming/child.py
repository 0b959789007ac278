"""The process of a dream: started, paused and resumed, checked against its bounds, ended.

A dream whose daemon ended before it leaves a folder, and on some systems a process: both are removed here.
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

from ...pipelines.messages import PAUSE, RESUME, SPENT, Done, Failed, MessageError, Progress, RunRequest, decode, encode
from ...pipelines.settings import LimitSettings
from .. import HintedError
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


class DreamError(HintedError):
    """A dream that did not complete; it changed nothing."""


class Child:
    """One dream's process, from its start to its end. All methods are called in the daemon's loop.

    `stopwatch` measures its time outside pauses; `used` is the latest measurement of its resources.
    """

    def __init__(self, process: asyncio.subprocess.Process, limits: LimitSettings, time_s: float) -> None:
        self.stopwatch = Stopwatch()
        self.is_paused = False
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
        """Start the process in the run's folder, with the requested priority. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            start_new_session=True,  # Ctrl-C in the daemon's terminal is for the daemon alone
            cwd=request.folder,
            # Temporary files of its libraries are removed with the folder.
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(request.folder)},
        )
        (be_idle if request.at_idle else be_modest)(process.pid)
        return cls(process, limits, limits.time_s if time_s is None else time_s)

    @property
    def pid(self) -> int | None:
        """The pid of the process, None once it has ended."""
        return self._process.pid if self._process.returncode is None else None

    # ---- planning

    async def plan(self, request: RunRequest, progress: ProgressSink) -> Done:
        """Have the child plan within its bounds. Raises DreamError for every end other than `Done`."""
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
        # The pipe stays open: the child takes its end for ours.
        # It died at once; the read below reports that.
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(encode(request))
            await self._process.stdin.drain()
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise DreamError(f"it said more than {LINE_BYTES} bytes in a line") from None
            if not line:
                raise await self._why_it_ended()
            self._bounds.message_received()
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
        killed = f"its process was ended by {signal.Signals(-code).name}" if code < 0 else ""
        reason = killed or f"its process ended without an answer (exit code {code})"
        return DreamError(reason, "The log has the child's last words.")

    # ---- pause and resume

    def pause(self, stop_after_s: float) -> None:
        """Send PAUSE, so that the child aborts a call of a model, and stop its processes a moment later.

        The child does not confirm: native code reads no message, and runs no handler of a Python signal.
        """
        if self.is_paused or self.pid is None:
            return
        self.is_paused = True
        self._send(PAUSE)
        self.stopwatch.pause()
        # A call of a model needs this time to be aborted at the server; stopped, the child could not do that.
        self._stop = asyncio.get_running_loop().call_later(stop_after_s, self._signal, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the processes, and send RESUME."""
        if not self.is_paused:
            return
        self.is_paused = False
        if self._stop is not None:
            self._stop.cancel()
        self.stopwatch.resume()
        self._send(RESUME)
        self._signal(signal.SIGCONT)

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(message)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process group: the child and its children."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    # ---- the end

    async def end(self) -> None:
        """End the process group: close the child's stdin, wait, then SIGKILL; a stopped one gets SIGKILL at once."""
        if self._stop is not None:
            self._stop.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        # A stopped process does not notice the end of its stdin.
        if self.pid is not None and not self.is_paused:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_GRACE_S):
                    await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def _keep_within_bounds(self) -> DreamError | None:
        """Kill the child when it exceeds a bound; return the reason, or None if it ends by itself.

        While it is silent, report the reason as its progress.
        """
        import psutil  # 20 ms: not on the way to the first recall

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._process.pid)
            while self._process.returncode is None:
                if not self.is_paused:
                    self.used = self._measure(process)
                    if objection := self._bounds.objection(self.used):
                        self._process.kill()
                        return DreamError(*objection)
                    if why := self._bounds.why_silent():
                        self._progress(self._at.model_copy(update={"note": why}))
                    # The child stops itself on PAUSE, perhaps only after the RESUME.
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
    """Let a process and its children run only when no other one needs the processor.

    SCHED_IDLE makes reading and writing idle too. But Linux shares the processor among sessions before processes, and
    the child has a session of its own: idle there, it still took half of a core from the daemon. Two threads of 12 ms
    took 550 ms beside it, and 24 with the session's own weight (autogroup) lowered.
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
    """Give a process that a person waits for a lower share of the processor than other processes."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICE_WHEN_AWAITED)


async def _log_stderr(process: asyncio.subprocess.Process, run_id: str) -> None:
    """Log the first lines of the child's stderr; the rest is read and dropped."""
    assert process.stderr is not None
    left = STDERR_LINES
    while chunk := await process.stderr.read(65536):
        for line in chunk.decode("utf-8", "replace").splitlines()[:left]:
            logger.warning("dream {}: {}", run_id, line[:500])
            left -= 1


RUN_MARKER = "run.json"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A dream whose daemon ended while it was being planned; `spent` are its calls and tokens of a model."""

    run_id: str
    kind: str
    began_at: datetime
    dry_run: bool
    spent: Mapping[str, int] = field(default_factory=dict)


def write_run_marker(request: RunRequest, pid: int) -> None:
    """Write a run's identity and pid into its folder, for a later daemon that finds it there."""
    marker = {
        "run_id": request.run_id,
        "kind": request.kind,
        "began_at": request.now.isoformat(),
        "dry_run": request.dry_run,
        "pid": pid,
    }
    (request.folder / RUN_MARKER).write_text(json.dumps(marker))


def remove_orphans(runs: Path) -> Iterator[Orphan]:
    """Remove every run's folder and process; yield the dreams with a readable marker."""
    for folder in [entry for entry in runs.iterdir() if entry.is_dir()] if runs.is_dir() else []:
        orphan = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            marker = json.loads((folder / RUN_MARKER).read_text())
            _end_process(int(marker["pid"]), folder)
            began_at = datetime.fromisoformat(marker["began_at"])
            orphan = Orphan(marker["run_id"], marker["kind"], began_at, marker["dry_run"], _spent(folder))
        shutil.rmtree(folder, ignore_errors=True)
        if orphan is not None:
            yield orphan


def _spent(folder: Path) -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        spent = json.loads((folder / SPENT).read_text())
        return {"calls": int(spent["calls"]), "tokens": int(spent["tokens"])}
    return {}


def _end_process(pid: int, folder: Path) -> None:
    """Kill the process if its working directory shows that it is still that dream's. On Linux it has ended already."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        if psutil.Process(pid).cwd() == str(folder.resolve()):
            logger.warning("ending the orphaned dream in {} (pid {})", folder.name, pid)
            os.killpg(pid, signal.SIGKILL)

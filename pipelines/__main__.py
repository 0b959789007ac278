"""The child process of a dream: it reads a request from stdin, plans, and answers on stdout; it ends with stdin."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
from typing import BinaryIO

# Before numpy is imported, which reads these once: a dream computes in one thread, however many the machine has.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")

PR_SET_PDEATHSIG = 1

# Bound of the address space over the memory limit: onnxruntime and SQLite map several times the memory that they touch.
# The daemon watches the resident size itself.
ADDRESS_SPACE_FACTOR = 6


def main() -> int:
    """Plan one dream. The exit code is 0 after `Done` and 1 after `Failed`."""
    _die_with_parent()
    from .messages import Failed, Progress, RunRequest, encode
    from .pipe import PauseListener, first_line

    out = sys.stdout.buffer
    line, heard = first_line(sys.stdin.fileno())
    if not line.strip():
        return 1
    listener = PauseListener()
    listener.listen(sys.stdin.fileno(), heard)
    writing = threading.Lock()

    def report(message: Progress) -> None:
        with writing:
            _write(out, encode(message))

    try:
        request = RunRequest.model_validate_json(line)
        if request.at_idle:
            _yield_processor()
        _bound_memory(request.pipelines.limits.memory_mib)
        from .dream import dream

        done = dream(request, report, listener)
    except Exception as error:  # the boundary of the process: the daemon gets the reason
        failed = Failed(reason=_reason(error), hint=getattr(error, "hint", ""))
        _write(out, encode(failed))
        return 1
    _write(out, encode(done))
    return 0


def _write(out: BinaryIO, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        out.write(data)
        out.flush()


def _reason(error: Exception) -> str:
    """Return the reason of a failure: the message of our own errors; of others, which may quote, type and line."""
    from ..store.model import StoreError

    if isinstance(error, StoreError):
        return str(error)
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    place = f" in {os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}" if traceback else ""  # noqa: PTH119
    return f"{type(error).__name__}{place}"


def _die_with_parent() -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _yield_processor() -> None:
    """Take the processor only while it is idle."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(19)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _bound_memory(memory_mib: int) -> None:
    limit = memory_mib * ADDRESS_SPACE_FACTOR * 2**20
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


if __name__ == "__main__":
    sys.exit(main())

"""Dreams whose daemon ended before them: their folders, and on some systems their process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from loguru import logger

from ...pipelines.protocol import SPENT, RunRequest

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
            _end(int(said["pid"]), folder)
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


def _end(pid: int, folder: Path) -> None:
    """End the process if it is still that dream's, which works in its folder; Linux has done so, others may not."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        if psutil.Process(pid).cwd() == str(folder.resolve()):
            logger.warning("ending the orphaned dream in {} (pid {})", folder.name, pid)
            os.killpg(pid, signal.SIGKILL)

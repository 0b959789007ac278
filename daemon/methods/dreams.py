"""The wire's methods about dreams: start, pause, resume, cancel, history, undo, digest."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

from loguru import logger
from pydantic import Field

from ...ipc.answers import (
    ConflictAnswer,
    DigestAnswer,
    DreamAnswer,
    RunAnswer,
    RunningDreamAnswer,
    RunsAnswer,
    SteeredAnswer,
    UndoAnswer,
)
from ...ipc.call import Call
from ...ipc.protocol import NOT_FOUND, ProtocolError, Refused
from ...ipc.store_methods import Handler, Name, NoParams, Params, instant
from ...pipelines.protocol import Progress, RunKind
from ...store import LINK, Run, SkippedAction
from ...store.model import NotFound, StoreError
from ..clock import local_now
from ..dreaming.derived import DerivedPages
from ..dreaming.dreamer import Dreamer, DreamResult

if TYPE_CHECKING:
    from ...store import MemoryStore


_DREAM_MARK = re.compile(r"<!-- dream (\S+) -->")


CAUGHT_UP_WITHIN_S = 10.0
"""The longest that a dream which a person asks for waits for the reading of changes made while the daemon was away."""


class DreamParams(Params):
    """Which dream; `dry_run` plans and changes nothing, and is always waited for."""

    kind: RunKind = "daily"
    dry_run: bool = False
    wait: bool = False


class RunsParams(Params):
    """The length of the history; of one `kind`, or with `all` also the runs that only link what was remembered."""

    limit: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20
    kind: Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")] | None = None
    all: bool = False


class UndoParams(Params):
    """The run to take back."""

    run_id: Name


class DigestParams(Params):
    """Which day's digest; the newest if none is named."""

    date: datetime.date | None = None


class DreamMethods:
    """The methods; dreams are had in the server's loop, the others run in its threads."""

    def __init__(self, store: MemoryStore, dreamer: Dreamer) -> None:
        self._pages = DerivedPages(store, local_now)
        self._store = store
        self._dreamer = dreamer
        self._unwaited: set[asyncio.Task[Any]] = set()

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {
            "dream": Handler(DreamParams, self.dream, long=True),
            "dream_pause": Handler(NoParams, self.dream_pause),
            "dream_resume": Handler(NoParams, self.dream_resume),
            "dream_cancel": Handler(NoParams, self.dream_cancel),
            "runs": Handler(RunsParams, self.runs, blocking=True),
            "undo": Handler(UndoParams, self.undo, long=True),
            "digest": Handler(DigestParams, self.digest, blocking=True),
        }

    def running(self) -> RunningDreamAnswer | None:
        """Return the dream that runs, for `status`."""
        run_id, at = self._dreamer.running, self._dreamer.progress
        if run_id is None:
            return None
        return {
            "run_id": run_id,
            "kind": self._dreamer.kind,
            "stage": at.stage,
            "done": at.done,
            "total": at.total,
            "paused": self._dreamer.paused,
        }

    async def dream(self, params: DreamParams, call: Call) -> DreamAnswer:
        """Start a dream: wait for it, or answer its id at once."""
        if not params.dry_run:
            refuse_if_paused(self._store)
        await asyncio.to_thread(self._store.wait_until_caught_up, CAUGHT_UP_WITHIN_S)
        if self._dreamer.running is not None:
            raise Refused(f"The dream {self._dreamer.running} is running.", "`dreamctl runs` shows when it is over.")
        if params.wait or params.dry_run:
            return _dream_answer(
                await self._dreamer.dream(
                    params.kind, dry_run=params.dry_run, by_hand=True, awaited=params.wait, progress=_on_progress(call)
                )
            )
        task = asyncio.create_task(self._dreamer.dream(params.kind, by_hand=True))
        self._unwaited.add(task)
        task.add_done_callback(self._unwaited.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # recorded by the dreamer
        await asyncio.sleep(0)  # it has its name after its first step
        return {
            "run_id": self._dreamer.running,
            "state": "running",
            "actions": {},
            "seconds": 0.0,
            "conflicts": [],
            "note": "",
        }

    async def dream_pause(self, params: NoParams, call: Call) -> SteeredAnswer:
        """Hold the running dream back until it is resumed."""
        return {"run_id": self._dreamer.pause(), "state": "paused"}

    async def dream_resume(self, params: NoParams, call: Call) -> SteeredAnswer:
        """Let it go on at once."""
        return {"run_id": self._dreamer.resume(), "state": "running"}

    async def dream_cancel(self, params: NoParams, call: Call) -> SteeredAnswer:
        """End it; nothing of it becomes real."""
        return {"run_id": await self._dreamer.cancel(), "state": "cancelled"}

    def runs(self, params: RunsParams, call: Call) -> RunsAnswer:
        """Return the history, newest first."""
        kinds = [params.kind] if params.kind else []
        runs = self._store.runs(params.limit, kinds=kinds, hidden=() if params.all else (LINK,))
        return {"runs": [_run_answer(run) for run in runs]}

    def undo(self, params: UndoParams, call: Call) -> UndoAnswer:
        """Take a run back. One that was taken back before is left, and `already` says so."""
        already = self._store.run(params.run_id).state == "undone"
        undone = self._store.undo(params.run_id)
        try:
            self._pages.undone(params.run_id, len(undone.skipped))
        except (StoreError, OSError) as error:  # it is undone all the same; the next dream writes them
            logger.warning("the pages of run {} are as they were: {}", params.run_id, type(error).__name__)
        return {
            "run_id": undone.run_id,
            "restored": undone.restored,
            "turns": undone.turns,
            "forbidden": undone.forbidden,
            "conflicts": _conflicts(undone.skipped),
            "already": already,
        }

    def digest(self, params: DigestParams, call: Call) -> DigestAnswer:
        """Return a day's digest as it lies in the vault, without its frontmatter."""
        digest = self._store.pages.digest(params.date)
        if digest is None:
            what = f"no digest of {params.date}" if params.date else "no digest yet"
            hint = "A dream that changes something writes one: `dreamctl dream daily --wait`."
            raise ProtocolError(f"There is {what}.", hint, NOT_FOUND)
        told_of = dict.fromkeys(_DREAM_MARK.findall(digest.text))
        undone = [run_id for run_id in told_of if self._is_undone(run_id)]
        return {
            "date": digest.date,
            "path": str(digest.path),
            "page": str(digest.page) if digest.page else None,
            "text": digest.text,
            "undone": undone,
        }

    def _is_undone(self, run_id: str) -> bool:
        try:
            return self._store.run(run_id).undone_at is not None
        except NotFound:  # the ledger is another than that of the vault
            return False


def refuse_if_paused(store: MemoryStore) -> None:
    """Raise Refused while nothing is to be learned."""
    if store.paused:
        raise Refused("Learning is paused.", "Resume it with `dreamctl resume`.")


def _on_progress(call: Call) -> Callable[[Progress], None]:
    return lambda at: call.progress(at.stage, at.done, at.total, at.note)


def _conflicts(refused: Iterable[SkippedAction]) -> list[ConflictAnswer]:
    return [{"path": one.path, "reason": one.reason} for one in refused]


def _dream_answer(result: DreamResult) -> DreamAnswer:
    answer: DreamAnswer = {
        "run_id": result.run_id,
        "state": result.state,
        "actions": result.actions,
        "seconds": round(result.seconds, 3),
        "conflicts": _conflicts(result.refused),
        "note": result.note,
    }
    if result.state == "planned":
        answer["plan"] = [
            {"stage": a.stage, "kind": a.kind.value, "path": a.path, "node_id": a.node_id, "reason": a.reason}
            for a in result.changeset.actions
        ]
    return answer


def _run_answer(run: Run) -> RunAnswer:
    summary = run.summary
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "state": run.state,
        "started_at": instant(run.started_at),
        "seconds": summary.get("seconds", seconds),
        "created": summary.get("created", 0),
        "replaced": summary.get("replaced", 0),
        "deleted": summary.get("deleted", 0),
        "note": summary.get("note", ""),
    }

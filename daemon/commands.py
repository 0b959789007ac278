"""The wire's methods that need more than the store: imports, dreams, history, repair, and the daemon's own life."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from loguru import logger
from pydantic import Field

from ..ipc.call import Call
from ..ipc.handlers import Handler, Name, NoParams, Params, hello_answer, instant, plain, store_handlers
from ..ipc.protocol import NOT_FOUND, ProtocolError, Refused
from ..pipelines.messages import Progress, RunKind
from ..store.keep.history import Run
from . import settings as settings_module
from .dreamer import DreamResult
from .importing import Importer
from .schedule import DREAMS
from .upkeep import Upkeep

if TYPE_CHECKING:
    from .app import Daemon

LLM_ASKED_AGAIN_S = 60.0


class ImportParams(Params):
    """What to read. A channel puts everything into that one, instead of where its reader would."""

    paths: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    format: Literal["claude-code", "chat-jsonl", "locomo", "beam", "markdown"] | None = None
    channel: Name | None = None


class DreamParams(Params):
    """Which dream; `dry_run` plans and changes nothing, and is always waited for."""

    kind: RunKind = "daily"
    dry_run: bool = False
    wait: bool = False


class RunsParams(Params):
    """How much history."""

    limit: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20


class UndoParams(Params):
    """The run to take back."""

    run_id: Name


class DigestParams(Params):
    """Which day's digest; the newest if none is named."""

    date: datetime.date | None = None


class CheckParams(Params):
    """`accept`: what vanished from the vault is meant to be gone."""

    accept: bool = False


class ChannelParams(Params):
    """Whether anything is learned in a channel."""

    name: Name
    learning: bool


class Commands:
    """The methods as they are called. Those that block run in the server's threads, dreams in its loop."""

    def __init__(self, daemon: Daemon) -> None:
        assert daemon.store is not None
        assert daemon.dreamer is not None
        assert daemon.schedule is not None
        assert daemon.watcher is not None
        self._daemon = daemon
        self._store = daemon.store
        self._dreamer = daemon.dreamer
        self._schedule = daemon.schedule
        self._watcher = daemon.watcher
        self._unwaited: set[asyncio.Task[Any]] = set()
        self._llm_problem = ""
        self._llm_asked_s = -LLM_ASKED_AGAIN_S

    def handlers(self) -> dict[str, Handler]:
        """Every method of the wire: the store's, and these."""
        store = store_handlers(self._store)
        return store | {
            "status": Handler(NoParams, lambda _, call: self.status(), blocking=True),
            "import": Handler(ImportParams, self.import_, long=True, activity=True),
            "dream": Handler(DreamParams, self.dream, long=True),
            "dream_pause": Handler(NoParams, self.dream_pause),
            "dream_resume": Handler(NoParams, self.dream_resume),
            "dream_cancel": Handler(NoParams, self.dream_cancel),
            "runs": Handler(RunsParams, self.runs, blocking=True),
            "undo": Handler(UndoParams, self.undo, long=True),
            "digest": Handler(DigestParams, self.digest, blocking=True),
            "rebuild": Handler(NoParams, self.rebuild, long=True),
            "check": Handler(CheckParams, self.check, long=True),
            "pause": Handler(NoParams, lambda _, call: self.pause(True), blocking=True),
            "resume": Handler(NoParams, lambda _, call: self.pause(False), blocking=True),
            "channel": Handler(ChannelParams, self.channel, blocking=True),
            "stop": Handler(NoParams, self.stop),
            **Upkeep(self._store, self._daemon.settings).handlers(),
        }

    # ---- status

    def status(self) -> dict[str, Any]:
        """The store's state and the daemon's."""
        daemon, due = self._daemon, self._schedule.next_due()
        dreams = [run for run in self._store.runs(50) if run.kind in DREAMS]
        answer = {**hello_answer(), **plain(self._store.status())}
        problems = list(answer["problems"])
        if self._watcher.state.startswith(("cannot", "the vault")):
            problems.append(f"Edits by hand are not seen: {self._watcher.state}.")
        if (llm := self._llm_state()) is not None and llm["problem"]:
            problems.append(f"Dreams go without a language model: {llm['problem']}")
        return answer | {
            "uptime_s": round(time.monotonic() - daemon.began_s, 1),
            "vault": str(daemon.settings.vault),
            "dream": self._running_dream(),
            "last_dream": instant(dreams[0].started_at) if dreams else None,
            "next_dream": instant(due.not_before) if daemon.settings.pipelines.schedule.enabled else None,
            "waiting_for": self._schedule.waiting_for,
            "watching": self._watcher.state,
            "llm": llm,
            "problems": problems,
        }

    def _running_dream(self) -> dict[str, Any] | None:
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

    def _llm_state(self) -> dict[str, str] | None:
        """What is configured, and whether it answers; asked again at most once a minute."""
        settings = self._daemon.settings.llm
        if settings.provider == "none":
            return None
        if time.monotonic() - self._llm_asked_s >= LLM_ASKED_AGAIN_S:
            from ..llm.model import problem

            self._llm_problem = problem(settings)
            self._llm_asked_s = time.monotonic()
        return {"provider": settings.provider, "model": settings.model, "problem": self._llm_problem}

    def _refuse_if_paused(self) -> None:
        if self._store.paused:
            raise Refused("Learning is paused.", "Resume it with `dreamctl resume`.")

    # ---- imports

    def import_(self, params: ImportParams, call: Call) -> dict[str, Any]:
        """Read files into the store."""
        self._refuse_if_paused()
        relative = [path for path in params.paths if not Path(path).is_absolute()]
        if relative:
            raise Refused(
                f"{relative[0]} is a relative path.", "The daemon has another working folder; send absolute ones."
            )
        began_s = time.monotonic()
        account = Importer(self._store, call, params.channel).take(map(Path, params.paths), params.format)
        logger.info(
            "imported {} sessions: {} turns added, {} known, {} skipped, {:.1f} s",
            *(len(account.sessions), account.turns_added, account.turns_known, account.skipped_total),
            time.monotonic() - began_s,
        )
        return account.answer()

    # ---- dreams and their history

    async def dream(self, params: DreamParams, call: Call) -> dict[str, Any]:
        """Have a dream: wait for it, or answer its name and go on."""
        if not params.dry_run:
            self._refuse_if_paused()
        if self._dreamer.running is not None:
            raise Refused(f"The dream {self._dreamer.running} is running.", "`dreamctl runs` shows when it is over.")
        if params.wait or params.dry_run:
            tell = _teller(call)
            return _dream_answer(
                await self._dreamer.dream(params.kind, dry_run=params.dry_run, by_hand=True, progress=tell)
            )
        task = asyncio.create_task(self._dreamer.dream(params.kind, by_hand=True))
        self._unwaited.add(task)
        task.add_done_callback(self._unwaited.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # recorded by the dreamer
        await asyncio.sleep(0)  # it has its name after its first step
        return {"run_id": self._dreamer.running, "state": "running", "actions": {}, "seconds": 0.0}

    async def dream_pause(self, params: NoParams, call: Call) -> dict[str, Any]:
        """Hold the running dream back until it is told to go on."""
        return {"run_id": self._dreamer.pause(), "state": "paused"}

    async def dream_resume(self, params: NoParams, call: Call) -> dict[str, Any]:
        """Let it go on at once."""
        return {"run_id": self._dreamer.resume(), "state": "running"}

    async def dream_cancel(self, params: NoParams, call: Call) -> dict[str, Any]:
        """End it; nothing of it becomes real."""
        return {"run_id": await self._dreamer.cancel(), "state": "cancelled"}

    def runs(self, params: RunsParams, call: Call) -> dict[str, Any]:
        """The history, newest first."""
        return {"runs": [_run_answer(run) for run in self._store.runs(params.limit)]}

    def undo(self, params: UndoParams, call: Call) -> dict[str, Any]:
        """Take a run back."""
        undone = self._store.undo(params.run_id)
        conflicts = [{"path": refused.path, "reason": refused.reason} for refused in undone.refused]
        return {"run_id": undone.run_id, "restored": undone.restored, "conflicts": conflicts}

    def digest(self, params: DigestParams, call: Call) -> dict[str, Any]:
        """A day's digest as it lies in the vault."""
        folder = self._daemon.settings.vault / "digests"
        wanted = f"{params.date.isoformat()}.md" if params.date else "*.md"
        found = sorted(folder.glob(wanted))
        if not found:
            what = f"no digest of {params.date}" if params.date else "no digest yet"
            raise ProtocolError(f"There is {what}.", "A dream writes one: `dreamctl dream daily --wait`.", NOT_FOUND)
        path = found[-1]
        page = path.with_suffix(".html")
        text = path.read_text(encoding="utf-8", errors="replace")
        undone = [
            run.run_id for run in self._store.runs(200) if run.undone_at and f"<!-- dream {run.run_id} -->" in text
        ]
        return {
            "date": path.stem,
            "path": str(path),
            "page": str(page) if page.exists() else None,
            "text": text,
            "undone": undone,
        }

    # ---- repair

    def rebuild(self, params: NoParams, call: Call) -> dict[str, Any]:
        """Make the index anew."""
        answer: dict[str, Any] = plain(self._store.rebuild(lambda done, total: call.progress("rebuild", done, total)))
        return answer

    def check(self, params: CheckParams, call: Call) -> dict[str, Any]:
        """What is wrong with the vault, the databases and the settings."""
        complaints: list[str] = []
        try:
            settings_module.load()
        except settings_module.SettingsError as error:
            complaints.append(f"{error} {error.hint}".strip())
        if (llm := self._llm_state()) is not None and llm["problem"]:
            complaints.append(f"The language model cannot be used: {llm['problem']}")
        return {"problems": plain(self._store.check(accept=params.accept)), "settings_problems": complaints}

    # ---- the daemon's own life

    def pause(self, paused: bool) -> dict[str, Any]:
        """Switch all learning off or on."""
        if paused:
            self._store.pause()
        else:
            self._store.resume()
        return {"paused": paused}

    def channel(self, params: ChannelParams, call: Call) -> dict[str, Any]:
        """Switch learning in one channel off or on."""
        self._store.set_channel(params.name, params.learning)
        return {"channel": params.name, "learning": params.learning}

    def stop(self, params: NoParams, call: Call) -> dict[str, Any]:
        """End, after this answer is out."""
        asyncio.get_running_loop().call_soon(self._daemon.stop)
        return {"stopping": True}


def _teller(call: Call) -> Callable[[Progress], None]:
    return lambda at: call.progress(at.stage, at.done, at.total, at.note)


def _dream_answer(result: DreamResult) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "run_id": result.run_id,
        "state": result.state,
        "actions": result.actions,
        "seconds": round(result.seconds, 3),
        "conflicts": [{"path": refused.path, "reason": refused.reason} for refused in result.refused],
    }
    if result.note:
        answer["note"] = result.note
    if result.state == "planned":
        answer["plan"] = [
            {"stage": a.stage, "kind": a.kind.value, "path": a.path, "node_id": a.node_id, "reason": a.reason}
            for a in result.changeset.actions
        ]
    return answer


def _run_answer(run: Run) -> dict[str, Any]:
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

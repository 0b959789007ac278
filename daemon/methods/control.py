"""The wire's methods that need more than the store: imports, repair, agents' hooks, and the daemon's own life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from loguru import logger
from pydantic import Field

from ...ipc.answers import (
    ChannelAnswer,
    CheckAnswer,
    HookAnswer,
    ImportAnswer,
    LlmAnswer,
    PauseAnswer,
    RebuildAnswer,
    StatusAnswer,
    StopAnswer,
)
from ...ipc.call import Call
from ...ipc.channels import full_name, nearest_names
from ...ipc.document_methods import DocumentMethods
from ...ipc.params import Folder
from ...ipc.protocol import Refused
from ...ipc.store_methods import Handler, NoParams, Params, hello_answer, instant, plain, store_handlers
from ...ipc.working_methods import WorkingMethods
from ...store.model import GLOBAL_CHANNEL, NotFound
from ...store.names import Channel
from ..agents.hooks import Hooks
from ..dreaming.bounds import DREAMS
from ..host import settings_check
from ..importing import FormatName
from ..importing.importer import Importer
from .dreams import DreamMethods, refuse_if_paused
from .purge import PurgeMethods
from .review import ReviewMethods
from .transcripts import TranscriptMethods

if TYPE_CHECKING:
    from ...store import MemoryStore
    from ..dreaming.dreamer import Dreamer
    from ..dreaming.schedule import Schedule
    from ..host.folder_watch import VaultWatch
    from ..importing.following.follower import Follower
    from ..settings import Settings

Word = Annotated[str, Field(max_length=64)]


class HookParams(Params):
    """An agent's event, and what the agent says of it; unknown ones are answered with nothing."""

    agent: Word
    event: Word
    given: Annotated[Mapping[str, Any], Field(max_length=256)]
    cwd: Folder | None = None


class AgentMethods:
    """The methods as they are called, in the server's threads."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {"hook": Handler(HookParams, self.hook, blocking=True, activity=True, first=True)}

    def hook(self, params: HookParams, call: Call) -> HookAnswer:
        """Answer an agent's hook."""
        return {"output": self._hooks.answer(params.agent, params.event, params.given, params.cwd)}


LLM_ASKED_AGAIN_S = 60.0


class ImportParams(Params):
    """The files to read. A channel puts everything into that one, instead of where its reader would.

    `trust_frontmatter`: notes choose their channel and their kind themselves.
    """

    paths: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    format: FormatName | None = None
    channel: Channel | None = None
    trust_frontmatter: bool = False


class CheckParams(Params):
    """`accept`: what vanished from the vault is meant to be gone."""

    accept: bool = False


class ChannelParams(Params):
    """The switch of learning in one channel."""

    name: Channel
    learning: bool


class ControlMethods:
    """The methods as they are called. Those that block run in the server's threads, dreams in its loop.

    `started_s` is the monotonic clock's time at which the daemon began, `socket_problem` the server's.
    """

    def __init__(
        self,
        store: MemoryStore,
        dreamer: Dreamer,
        schedule: Schedule,
        watcher: VaultWatch,
        hooks: Hooks,
        follower: Follower,
        settings: Settings,
        *,
        started_s: float,
        stop: Callable[[], None],
        socket_problem: Callable[[], str],
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._watcher = watcher
        self._settings = settings
        self._started_s = started_s
        self._stop = stop
        self._socket_problem = socket_problem
        self._dreams = DreamMethods(store, dreamer)
        self._purge = PurgeMethods(store, dreamer)
        self._agents = AgentMethods(hooks)
        self._transcripts = TranscriptMethods(follower)
        self._llm_problem = ""
        self._llm_asked_s = -LLM_ASKED_AGAIN_S

    def handlers(self) -> dict[str, Handler]:
        """Return every method of the wire: the store's, and these."""
        store = store_handlers(self._store)
        return store | {
            "status": Handler(NoParams, lambda _, call: self.status(), blocking=True),
            "import": Handler(ImportParams, self.import_, long=True, activity=True),
            "rebuild": Handler(NoParams, self.rebuild, long=True),
            "check": Handler(CheckParams, self.check, long=True),
            "pause": Handler(NoParams, lambda _, call: self.pause(True), blocking=True),
            "resume": Handler(NoParams, lambda _, call: self.pause(False), blocking=True),
            "channel": Handler(ChannelParams, self.channel, blocking=True),
            "stop": Handler(NoParams, self.stop),
            **self._dreams.handlers(),
            **self._purge.handlers(),
            **WorkingMethods(self._store).handlers(),
            **DocumentMethods(self._store).handlers(),
            **self._agents.handlers(),
            **self._transcripts.handlers(),
            **ReviewMethods(self._store, self._settings).handlers(),
        }

    # ---- status

    def status(self) -> StatusAnswer:
        """Return the store's state and the daemon's."""
        due = self._schedule.next_due()
        dreams = self._store.runs(1, kinds=DREAMS)
        store = self._store.status()
        problems = list(store["problems"])
        if self._watcher.state.startswith(("cannot", "the vault")):
            problems.append(f"Edits by hand are not seen: {self._watcher.state}.")
        if socket_problem := self._socket_problem():
            problems.append(socket_problem)
        if (llm := self._llm_state()) is not None and llm["problem"]:
            problems.append(f"Dreams go without a language model: {llm['problem']}")
        problems += [f"{one.path}: {one.problem}." for one in self._transcripts.problems()]
        return {
            **hello_answer(),
            **store,
            "uptime_s": round(time.monotonic() - self._started_s, 1),
            "vault": str(self._settings.vault),
            "dream": self._dreams.running(),
            "last_dream": instant(dreams[0].started_at) if dreams else None,
            "next_dream": instant(due.not_before) if self._settings.pipelines.schedule.enabled else None,
            "waiting_for": self._schedule.waiting_for,
            "watching": self._watcher.state,
            "transcripts": self._transcripts.state(),
            "llm": llm,
            "problems": problems,
        }

    def _llm_state(self) -> LlmAnswer | None:
        """Return the configured model, and whether it answers; asked again at most once a minute."""
        settings = self._settings.llm
        if settings.provider == "none":
            return None
        if time.monotonic() - self._llm_asked_s >= LLM_ASKED_AGAIN_S:
            from ...llm.budget import problem

            self._llm_problem = problem(settings)
            self._llm_asked_s = time.monotonic()
        return {"provider": settings.provider, "model": settings.model, "problem": self._llm_problem}

    # ---- imports

    def import_(self, params: ImportParams, call: Call) -> ImportAnswer:
        """Read files into the store."""
        refuse_if_paused(self._store)
        relative = [path for path in params.paths if not Path(path).is_absolute()]
        if relative:
            raise Refused(
                f"{relative[0]} is a relative path.", "The daemon has another working folder; send absolute ones."
            )
        began_s = time.monotonic()
        channel = params.channel and full_name(
            params.channel, self._store.channel_names_with(params.channel), beginning=False
        )
        importer = Importer(self._store, call, channel, trust_frontmatter=params.trust_frontmatter)
        account = importer.take(map(Path, params.paths), params.format)
        logger.info(
            "imported {} sessions: {} turns added, {} known, {} skipped, {:.1f} s",
            *(len(account.sessions), account.turns_added, account.turns_known, account.skipped_total),
            time.monotonic() - began_s,
        )
        return account.answer()

    # ---- repair

    def rebuild(self, params: NoParams, call: Call) -> RebuildAnswer:
        """Make the index anew."""
        answer: RebuildAnswer = plain(self._store.rebuild(lambda done, total: call.progress("rebuild", done, total)))
        return answer

    def check(self, params: CheckParams, call: Call) -> CheckAnswer:
        """Return the problems of the vault, the databases and the settings."""
        complaints = settings_check.complaints()
        if (llm := self._llm_state()) is not None and llm["problem"]:
            complaints.append(f"The language model cannot be used: {llm['problem']}")
        problems = [*self._store.check(accept=params.accept), *self._transcripts.problems()]
        return {"problems": plain(problems), "settings_problems": complaints}

    # ---- the daemon's own life

    def pause(self, paused: bool) -> PauseAnswer:
        """Switch all learning off or on."""
        if paused:
            self._store.pause()
        else:
            self._store.resume()
        return {"paused": paused}

    def channel(self, params: ChannelParams, call: Call) -> ChannelAnswer:
        """Switch learning in one channel off or on. Raises NotFound for what is none."""
        there = {*self._store.channel_names_with(params.name), *self._store.channels_off, GLOBAL_CHANNEL}
        channel = full_name(params.name, there)
        if channel not in there:
            close = nearest_names(params.name, there)
            raise NotFound(
                f"there is no one channel {params.name!r}",
                hint=f"The nearest: {', '.join(close)}." if close else "`dreamctl status` lists the channels.",
            )
        self._store.set_channel(channel, params.learning)
        return {"channel": channel, "learning": params.learning, "notes": []}

    def stop(self, params: NoParams, call: Call) -> StopAnswer:
        """End, after this answer is out."""
        asyncio.get_running_loop().call_soon(self._stop)
        return {"stopping": True}

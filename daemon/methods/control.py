"""The methods of the daemon itself: status, imports, repair, switches, and its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from loguru import logger
from pydantic import Field

from ... import __version__
from ...ipc.answers import HelloAnswer, hello_answer, widened
from ...ipc.call import Call, Method
from ...ipc.channels import full_name, searched_channel
from ...ipc.params import NoParams, Params
from ...ipc.protocol import Refused
from ...ipc.server.measures import Family, Measures, Sample, exposition, gauge, histograms
from ...store import LANDED, current_extensions
from ...store.model import GLOBAL_CHANNEL
from ...store.names import Channel
from ...store.results import BackedUp, ExtensionStatus, FilledGap, Problem, Rebuilt, StoreStatus, ToldCounts
from ..clock import utc_now
from ..dreaming.bounds import DREAMS
from ..host import settings_check
from ..importing import FormatName
from ..importing.importer import AddedFormat, ImportAnswer, Importer
from ..settings import default_config_path
from .dream_methods import DreamMethods, RunningDreamAnswer, refuse_if_paused
from .transcript_methods import TranscriptMethods, TranscriptsAnswer

if TYPE_CHECKING:
    from ...store import MemoryStore
    from ..dreaming.schedule import Schedule
    from ..host.folder_watch import VaultWatch
    from ..settings import Settings

LLM_ASKED_AGAIN_S = 60.0
ANSWERED_WITHIN = timedelta(days=7)

CITED_HELP = (
    "Tokens of the whole sessions behind the lines told in the last 24 hours: for each text every session that its"
    " lines cite, once, at one token for 4 bytes of the session's file."
)
SAVED_HELP = (
    "dreamd_cited_tokens less all tokens told in the last 24 hours, not below 0: what agents would have read more, had"
    " each text been those sessions in full. Nobody reads all of them, so it is an upper bound."
)


class ImportParams(Params):
    """The files to read. A channel puts everything into that one, instead of where its reader would.

    `trust_frontmatter`: notes choose their channel and their kind themselves.
    """

    paths: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)]
    format: FormatName | AddedFormat | None = None
    channel: Channel | None = None
    trust_frontmatter: bool = False


class CheckParams(Params):
    """`accept`: the files that vanished from the vault were deleted on purpose."""

    accept: bool = False


class BackupParams(Params):
    """The new file of a backup, or an existing folder, in which it is named by its time; an absolute path."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]


class ChannelParams(Params):
    """The switch of learning in one channel."""

    name: Channel
    learning: bool


@dataclass(frozen=True, slots=True)
class LlmAnswer:
    """The language model of the settings, and why it does not answer."""

    provider: str
    model: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class StatusAnswer(StoreStatus, HelloAnswer):
    """The state of the daemon and of its store; `told` counts texts handed to agents in the last 24 hours.

    `answered` are questions in vain to which dreams of the last week found an answer.
    """

    uptime_s: float
    vault: Path
    dream: RunningDreamAnswer | None
    last_dream: datetime | None
    next_dream: datetime | None
    waiting_for: str
    watching: str
    transcripts: TranscriptsAnswer
    llm: LlmAnswer | None
    told: ToldCounts
    answered: Sequence[FilledGap]
    extensions: Sequence[ExtensionStatus]


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The problems that were found."""

    problems: Sequence[Problem]
    settings_problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class MetricsAnswer:
    """The measures since the start, in the text format of Prometheus; no text of a person is in it."""

    text: str


@dataclass(frozen=True, slots=True)
class PauseAnswer:
    """The switch of all learning."""

    paused: bool


@dataclass(frozen=True, slots=True)
class ChannelAnswer:
    """The switch of learning in one channel."""

    channel: str
    learning: bool
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StopAnswer:
    """The daemon ends."""

    stopping: bool


@dataclass(frozen=True, slots=True)
class Process:
    """The daemon's process: its start by the monotonic clock, its stop, and the problem of its socket, "" for none.

    `read_lost` records the hooks that it did not answer in time; `measures` are those of its answers.
    """

    started_s: float
    stop: Callable[[], None]
    socket_problem: Callable[[], str]
    read_lost: Callable[[], None]
    measures: Callable[[], Measures] = Measures


class ControlMethods:
    """The methods. Those that block run in the server's threads, `stop` in its loop."""

    def __init__(
        self,
        store: MemoryStore,
        dreams: DreamMethods,
        transcripts: TranscriptMethods,
        schedule: Schedule,
        watcher: VaultWatch,
        settings: Settings,
        process: Process,
    ) -> None:
        self._store = store
        self._dreams = dreams
        self._transcripts = transcripts
        self._schedule = schedule
        self._watcher = watcher
        self._settings = settings
        self._process = process
        self._llm_problem = ""
        self._llm_asked_s = -LLM_ASKED_AGAIN_S

    # ---- status

    def status(self, params: NoParams, call: Call) -> StatusAnswer:
        """Return the store's state and the daemon's."""
        self._process.read_lost()
        due = self._schedule.next_due()
        dreams = self._store.runs(1, kinds=DREAMS)
        store = self._store.status()
        problems = list(store.problems)
        # Its other states, `on` and `off`, are no problems.
        if self._watcher.state.startswith(("cannot", "the vault")):
            problems.append(f"Edits by hand are not seen: {self._watcher.state}.")
        if socket_problem := self._process.socket_problem():
            problems.append(socket_problem)
        if (llm := self._llm_state()) is not None and llm.problem:
            problems.append(f"Dreams go without a language model: {llm.problem}")
        problems += [f"{one.path}: {one.problem}." for one in self._transcripts.problems()]
        extensions = current_extensions().status()
        problems += [f"The extension {one.name}: {one.problem}." for one in extensions if one.problem]
        return widened(
            StatusAnswer,
            store,
            **vars(hello_answer()),
            problems=problems,
            uptime_s=round(time.monotonic() - self._process.started_s, 1),
            vault=self._settings.vault,
            dream=self._dreams.running(),
            last_dream=dreams[0].started_at if dreams else None,
            next_dream=due.not_before if self._settings.pipelines.schedule.enabled else None,
            waiting_for=self._schedule.waiting_for,
            watching=self._watcher.state,
            transcripts=self._transcripts.state(),
            llm=llm,
            told=self._store.told.counts(),
            answered=self._store.filled_gaps(utc_now() - ANSWERED_WITHIN, DREAMS),
            extensions=extensions,
        )

    def _llm_state(self) -> LlmAnswer | None:
        """Return the configured model, and whether it answers; asked again at most once a minute."""
        settings = self._settings.llm
        if settings.provider == "none":
            return None
        # Asking a model server takes up to its timeout, and `status` is polled.
        if time.monotonic() - self._llm_asked_s >= LLM_ASKED_AGAIN_S:
            from ...llm import budget

            known = current_extensions()
            known.add_own("models", budget)
            self._llm_problem = budget.problem(settings, known.table("providers"))
            self._llm_asked_s = time.monotonic()
        return LlmAnswer(settings.provider, settings.model, self._llm_problem)

    def metrics(self, params: NoParams, call: Call) -> MetricsAnswer:
        """Return the measures of answers, queues, memory and process."""
        return MetricsAnswer(exposition([*self._process.measures().families(), *self._gauges()]))

    def _gauges(self) -> Iterator[Family]:
        import psutil

        status, told, now = self._store.status(), self._store.told.counts(), utc_now()
        unread = self._store.unread(timedelta(minutes=self._settings.pipelines.schedule.session_quiet_min))
        yield Family("dreamd_info", "gauge", "The running version.", [Sample({"version": __version__}, 1)])
        levels = [Sample({"level": level}, number) for level, number in status.memories.items()]
        yield Family("dreamd_memories", "gauge", "Memories by level.", levels)
        queues = {
            "embeddings": status.pending_embeddings,
            "not_found_yet": status.not_found_yet,
            "journal": status.journal,
            "unread_turns": unread.turns,
            "unread_sessions": unread.sessions,
            "unread_ended_sessions": unread.ended,
        }
        yield Family(
            "dreamd_waiting",
            "gauge",
            "Changes, turns and sessions that wait, by queue.",
            [Sample({"queue": k}, v) for k, v in queues.items()],
        )
        lag_s = (now - unread.oldest_at).total_seconds() if unread.oldest_at else 0.0
        yield gauge(
            "dreamd_facts_lag_seconds", "Time since the end of the oldest ended session that no dream has read.", lag_s
        )
        sizes = [Sample({"part": part}, size) for part, size in status.sizes.items()]
        yield Family("dreamd_size_bytes", "gauge", "Bytes of vault, index and ledger.", sizes)
        cache = status.query_cache
        asked = [Sample({"result": "hit"}, cache.hits), Sample({"result": "miss"}, cache.misses)]
        yield Family("dreamd_query_cache_total", "counter", "Questions by whether their candidates were held.", asked)
        steps = [({"step": step}, one) for step, one in self._store.step_times().items()]
        yield histograms(
            "dreamd_recall_step_seconds", "Time of a step of recall and context, as `recall --explain` names it.", steps
        )
        by_moment = [Sample({"moment": moment}, tokens) for moment, tokens in told.by_moment.items()]
        yield Family(
            "dreamd_told_tokens",
            "gauge",
            "Tokens told to agents in the last 24 hours, by the moment of a hook or the method that was called.",
            by_moment,
        )
        yield gauge("dreamd_cited_tokens", CITED_HELP, told.cited)
        yield gauge("dreamd_saved_tokens", SAVED_HELP, max(0, told.cited - told.tokens))
        yield gauge("dreamd_told_texts", "Texts told to agents in the last 24 hours.", told.texts)
        yield gauge("dreamd_told_used_texts", "Those of them whose words the agent's next turn had.", told.used)
        lost = told.lost_starts + told.lost_prompts
        yield gauge("dreamd_told_lost_texts", "Starts and prompts without their text in the last 24 hours.", lost)
        yield gauge("dreamd_problems", "Problems that `dreamctl status` names.", len(status.problems))
        last = next(iter(self._store.runs(1, kinds=DREAMS, states=LANDED)), None)
        if last is not None:
            yield gauge("dreamd_last_dream_seconds", "Time of the last dream that landed.", last.started_at.timestamp())
        process = psutil.Process()
        times = process.cpu_times()
        yield gauge("process_resident_memory_bytes", "Resident memory.", process.memory_info().rss)
        yield gauge(
            "process_cpu_seconds_total", "Time of the processor.", round(times.user + times.system, 2), "counter"
        )
        yield gauge("process_start_time_seconds", "Start of the process.", process.create_time())

    # ---- imports

    def import_(self, params: ImportParams, call: Call) -> ImportAnswer:
        """Read files into the store."""
        refuse_if_paused(self._store)
        # The client resolves paths: its working folder is not the daemon's.
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

    def rebuild(self, params: NoParams, call: Call) -> Rebuilt:
        """Rebuild the index."""
        return self._store.rebuild(lambda done, total: call.progress("rebuild", done, total))

    def check(self, params: CheckParams, call: Call) -> CheckAnswer:
        """Return the problems of the vault, the databases and the settings."""
        complaints = settings_check.complaints()
        if (llm := self._llm_state()) is not None and llm.problem:
            complaints.append(f"The language model cannot be used: {llm.problem}")
        problems = [*self._store.check(accept=params.accept), *self._transcripts.problems()]
        return CheckAnswer(problems, complaints)

    def backup(self, params: BackupParams, call: Call) -> BackedUp:
        """Write a backup while everything goes on."""
        if not Path(params.path).is_absolute():
            raise Refused(
                f"{params.path} is a relative path.", "The daemon has another working folder; send an absolute one."
            )
        settings = settings_check.settings_without_secrets(default_config_path())
        done = self._store.exports.backup(Path(params.path), __version__, settings, call.progress)
        logger.info("backed up {} files, {} bytes, {} s", done.files, done.size_bytes, done.seconds)
        return done

    # ---- the daemon's own life

    def pause(self, params: NoParams, call: Call) -> PauseAnswer:
        """Switch all learning off."""
        self._store.pause()
        return PauseAnswer(True)

    def resume(self, params: NoParams, call: Call) -> PauseAnswer:
        """Switch all learning on."""
        self._store.resume()
        return PauseAnswer(False)

    def channel(self, params: ChannelParams, call: Call) -> ChannelAnswer:
        """Switch learning in one channel off or on. Raises NotFound for an unknown channel."""
        # Channels that are switched off are known too, even if they are empty.
        there = {*self._store.channel_names_with(params.name), *self._store.channels_off, GLOBAL_CHANNEL}
        channel = searched_channel(params.name, None, lambda _: there)
        self._store.set_channel(channel, params.learning)
        return ChannelAnswer(channel, params.learning)

    def stop(self, params: NoParams, call: Call) -> StopAnswer:
        """End the daemon, after this answer is sent."""
        # The loop sends this answer first: `call_soon` runs after the current turn.
        asyncio.get_running_loop().call_soon(self._process.stop)
        return StopAnswer(True)


CONTROL_METHODS: tuple[Method[Any, Any], ...] = (
    Method("status", NoParams, StatusAnswer, ControlMethods.status, blocking=True),
    Method("metrics", NoParams, MetricsAnswer, ControlMethods.metrics, blocking=True),
    Method("import", ImportParams, ImportAnswer, ControlMethods.import_, long=True, activity=True),
    Method("rebuild", NoParams, Rebuilt, ControlMethods.rebuild, long=True),
    Method("check", CheckParams, CheckAnswer, ControlMethods.check, long=True),
    Method("backup", BackupParams, BackedUp, ControlMethods.backup, long=True),
    Method("pause", NoParams, PauseAnswer, ControlMethods.pause, blocking=True),
    Method("resume", NoParams, PauseAnswer, ControlMethods.resume, blocking=True),
    Method("channel", ChannelParams, ChannelAnswer, ControlMethods.channel, blocking=True),
    Method("stop", NoParams, StopAnswer, ControlMethods.stop),
)

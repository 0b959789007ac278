"""The supervision of a dream, with children that behave in every way a child can."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import apsw
import pytest
from dreamd.daemon.clock import Stopwatch
from dreamd.daemon.dreaming.child import write_run_marker
from dreamd.daemon.dreaming.dreamer import DreamBusy, Dreamer, DreamError, DreamResult
from dreamd.daemon.dreaming.idle import LastActivity
from dreamd.daemon.settings import Settings
from dreamd.ipc.errors import wire_error
from dreamd.ipc.protocol import REFUSED
from dreamd.pipelines.messages import Progress, write_changeset
from dreamd.pipelines.settings import IdleSettings, LimitSettings, PipelineSettings, PreemptionSettings
from dreamd.store.changes.run_kinds import AppliedRun, SkippedAction
from dreamd.store.index.catalog import Content
from dreamd.store.ledger.records import Run
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, NotFound, StoreBusy, StoreError

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)

PRELUDE = """
import json, os, sys, time
from pathlib import Path
from types import SimpleNamespace
request = SimpleNamespace(**json.loads(open(0, "rb", buffering=0, closefd=False).readline()))
request.folder, request.checkpoint = Path(request.folder), Path(request.checkpoint)
def say(message):
    print(json.dumps(message, default=str), flush=True)
def message(type):
    return lambda **fields: {"type": type} | fields
Progress, Done, Failed = map(message, ("progress", "done", "failed"))
def changeset(run_id=request.run_id):
    path = request.folder / "changeset.jsonl"
    path.write_text((request.folder.parent.parent / "planned.jsonl").read_text().replace("RUN", run_id))
    return path
"""
"""What a child does first, with the standard library alone: it starts in a tenth of the time that ours would take."""

PLANNED = Changeset(
    run_id="RUN",
    actions=(
        Action(kind=ActionKind.CREATE, path="facts/a.md", node_id="a", stage="consolidate", reason="r", content=b"x"),
    ),
    cursors={("s", "t"): 3},
)
GOOD = "say(Progress(stage='consolidate', done=1, total=2)); say(Done(changeset_path=changeset(), digest='# d'))"


class Slow:
    """An application that waits for a word."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()


class FakeStore:
    """Remembers what was applied and recorded."""

    def __init__(self, vault: Path) -> None:
        self.vault = vault
        self.pages = SimpleNamespace(contents=list[Content], written=set[str], may_write=lambda path: True)
        self.pages.description = lambda path: ""
        self.applied: list[Changeset] = []
        self.summaries: list[Mapping[str, Any]] = []
        self.recorded: list[Run] = []
        self.slow: Slow | None = None
        self.refused: tuple[SkippedAction, ...] = ()
        self.fails: dict[str, Exception] = {}
        self.obstacle: StoreError | None = None

    def refuse_to_dream(self) -> None:
        if self.obstacle is not None:
            raise self.obstacle

    def run(self, run_id: str) -> Run:
        if found := [run for run in self.recorded if run.run_id == run_id]:
            return found[-1]
        raise NotFound(run_id)

    def runs(self, limit: int, *, kinds: Sequence[str] = (), hidden: Sequence[str] = ()) -> list[Run]:
        return [run for run in self.recorded[::-1] if run.kind in kinds or not kinds][:limit]

    def runs_since(self, moment: datetime, kinds: Sequence[str]) -> list[Run]:
        return [run for run in self.recorded[::-1] if run.kind in kinds and run.started_at > moment]

    def apply(self, changeset: Changeset, *, kind: str, started_at: datetime, summary: Mapping[str, Any]) -> AppliedRun:
        self.applied.append(changeset)
        self.summaries.append(summary)
        self.recorded.append(Run(changeset.run_id, kind, "applied", started_at))
        if self.slow is not None:
            self.slow.begun.set()
            assert self.slow.go_on.wait(20)
        self.fail("apply")
        return AppliedRun(changeset.run_id, len(changeset.actions) - len(self.refused), self.refused)

    def settle(self, timeout_s: float = 0) -> bool:
        return True

    def write_derived(self, pages: Mapping[str, str]) -> tuple[str, ...]:
        for path, text in pages.items():
            (self.vault / path).parent.mkdir(exist_ok=True)
            (self.vault / path).write_text(text)
        return ()

    def tidy(self) -> None:
        self.fail("tidy")

    def fail(self, what: str) -> None:
        if error := self.fails.get(what):
            raise error

    def record_run(self, run: Run) -> None:
        self.recorded.append(run)


class Bed:
    """A dreamer whose child runs the given lines of Python."""

    def __init__(
        self,
        folder: Path,
        program: str,
        *,
        resume_quiet_s: float = 120,
        preemption: PreemptionSettings | None = None,
        **limits: float,
    ) -> None:
        self.store = FakeStore(folder / "vault")
        self.paths = StorePaths(folder / "vault", folder / "l", folder / "i", folder / "e", folder / "runs")
        self.paths.vault.mkdir()
        write_changeset(folder / "planned.jsonl", PLANNED)
        pipelines = PipelineSettings(
            limits=LimitSettings.model_validate(limits),
            idle=IdleSettings(resume_quiet_s=resume_quiet_s),
            preemption=preemption or PreemptionSettings(),
        )
        settings = cast(Settings, SimpleNamespace(pipelines=pipelines, store=Settings().store, llm=Settings().llm))
        command = (sys.executable, "-P", "-c", PRELUDE + program)
        self.activity = LastActivity()
        self.dreamer = Dreamer(cast(MemoryStore, self.store), self.paths, settings, lambda: NOW, self.activity, command)

    def dream(self, **options: Any) -> DreamResult:
        return asyncio.run(self.dreamer.dream(**options))

    def failure(self, **options: Any) -> str:
        with pytest.raises(DreamError) as raised:
            self.dream(**options)
        assert self.store.applied == []
        assert [run.state for run in self.store.recorded] == ["failed"]
        assert not list(self.paths.runs.iterdir())
        assert self.dreamer.running is None
        assert self.dreamer.child_pid is None
        return str(raised.value)


@pytest.fixture
def bed(tmp_path: Path) -> Callable[..., Bed]:
    return lambda program, **options: Bed(tmp_path, program, **options)


@pytest.fixture(autouse=True)
def the_child_need_not_wait_for_an_idle_processor(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if request.node.name != "test_the_child_has_idle_priority":
        monkeypatch.setattr("dreamd.daemon.dreaming.child.be_idle", lambda pid: None)


@pytest.fixture(autouse=True)
def nothing_is_said_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a loaded machine takes to start a child."""
    monkeypatch.setattr("dreamd.daemon.dreaming.bounds.SILENCE_REPORTED_S", 1e9)


def test_a_dream_is_planned_by_the_child_and_applied_by_us(bed: Callable[..., Bed]) -> None:
    it = bed(GOOD)
    seen: list[Progress] = []
    result = it.dream(progress=seen.append)
    assert result.state == "applied"
    assert result.actions == {"consolidate": 1}
    assert it.store.applied[0].cursors == {("s", "t"): 3}
    assert it.store.applied[0].actions[0].content == b"x"
    assert it.store.summaries[0]["created"] == 1
    assert [at.stage for at in seen] == ["consolidate", "apply"]
    assert result.run_id.startswith("20261121-030000-000000-daily-")
    assert not list(it.paths.runs.iterdir())


def test_digest_and_catalogue_are_written_after_it(bed: Callable[..., Bed]) -> None:
    it = bed("say(Done(changeset_path=changeset(), derived={'digests/2026-11-21.md': '# d'}))")
    assert it.dream().state == "applied"
    assert (it.paths.vault / "digests/2026-11-21.md").read_text() == "# d"
    assert "# Memory" in (it.paths.vault / "index.md").read_text()
    assert "daily, applied" in (it.paths.vault / "log.md").read_text()


def test_a_dream_with_nothing_to_do_writes_nothing(bed: Callable[..., Bed]) -> None:
    it = bed("say(Done(digest='# d'))")
    assert it.dream().state == "nothing"
    assert list(it.paths.vault.iterdir()) == []


def test_the_digest_tells_what_was_left_out_when_it_became_real(bed: Callable[..., Bed]) -> None:
    it = bed(
        "page = f'# d\\n\\n<!-- dream {request.run_id} -->\\n\\nAll.\\n'\n"
        "say(Done(changeset_path=changeset(), derived={'digests/2026-11-21.md': page}))"
    )
    it.store.refused = (SkippedAction("facts/a.md", "a", "the file was changed in the meantime"),)
    it.dream()
    digest = (it.paths.vault / "digests/2026-11-21.md").read_text()
    assert "> **1 change was left out:** facts/a.md (the file was changed in the meantime).\n\nAll." in digest


def test_a_memory_cannot_pass_for_a_derived_file(bed: Callable[..., Bed]) -> None:
    it = bed("say(Done(derived={'facts/a.md': 'lie'}))")
    assert "facts/a.md" in it.failure()
    assert not (it.paths.vault / "facts").exists()


def test_a_dry_run_applies_and_records_nothing(bed: Callable[..., Bed]) -> None:
    it = bed(GOOD)
    result = it.dream(dry_run=True)
    assert result.state == "planned"
    assert result.changeset.actions[0].path == "facts/a.md"
    assert it.store.applied == []
    assert it.store.recorded == []


def test_what_the_child_says_of_its_failure_is_kept(bed: Callable[..., Bed]) -> None:
    it = bed("say(Failed(reason='no space', hint='Free some.'))")
    assert "no space" in it.failure()
    assert it.store.recorded[0].summary["note"] == "no space"


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("print('hello')", "sent an invalid message"),
        ("print('x' * (17 * 2**20))", "bytes in a line"),
        ("say(Done(changeset_path='/etc/passwd'))", "not in its own folder"),
        ("say(Done(changeset_path=request.folder / 'none'))", "cannot be read"),
        ("say(Done(changeset_path=changeset(run_id='other')))", "another run"),
        ("p = changeset(); p.write_bytes(p.read_bytes()[:-30]); say(Done(changeset_path=p))", "not a whole changeset"),
        ("sys.stdout.close(); time.sleep(1)", "without an answer"),
    ],
)
def test_each_fault_of_a_child_is_a_failed_dream_with_a_reason(
    bed: Callable[..., Bed], program: str, complaint: str
) -> None:
    assert complaint in bed(program).failure()


WORK = """
def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass
"""


def test_work_is_bounded(bed: Callable[..., Bed]) -> None:
    chatty = WORK + "while True: say(Progress(stage='x')); work(.05)"
    assert "worked longer than 1 s" in bed(chatty, time_s=1.0).failure()


def test_waiting_does_not_count_as_work(bed: Callable[..., Bed]) -> None:
    sleeps = "for _ in range(8): say(Progress(stage='x')); time.sleep(.2)\nsay(Done())"
    assert bed(sleeps, time_s=1.0, silence_s=2.0).dream().state == "nothing"


def test_time_of_a_model_counts_as_work(bed: Callable[..., Bed]) -> None:
    asks = "say(Progress(stage='x', model_s=99)); time.sleep(60)"
    assert "worked longer than 90 s" in bed(asks, time_s=90.0).failure()


def test_the_time_of_24_hours_is_bounded_but_for_dreams_by_hand(bed: Callable[..., Bed]) -> None:
    chatty = WORK + "for _ in range(40): say(Progress(stage='x')); work(.05)\nsay(Done())"
    it = bed(chatty, per_day_s=100.0)
    it.store.recorded.append(Run("r0", "daily", "failed", NOW, NOW, summary={"seconds": 99.5, "tokens": 7}))
    with pytest.raises(DreamError, match="longer than 0 s"):
        it.dream()
    assert it.dreamer.spent().seconds >= 99.5
    assert it.dreamer.spent().tokens == 7
    assert it.dream(by_hand=True).state == "nothing"


def test_model_calls_are_bounded_over_24_hours_and_not_by_dream(bed: Callable[..., Bed]) -> None:
    used = "\nused = dict(calls=2 + request.calls_spent, tokens=90 + request.tokens_spent)"
    dies = "\nsay(Progress(stage='x', **used)); say(Progress(stage='y')); sys.exit(3)"
    it = bed(used + dies)
    it.failure()
    assert (it.dreamer.spent().calls, it.dreamer.spent().tokens) == (2, 90)
    with pytest.raises(DreamError):
        it.dream()  # this one was told of the first
    assert (it.dreamer.spent().calls, it.dreamer.spent().tokens) == (2 + 4, 90 + 180)


def test_silence_is_bounded(bed: Callable[..., Bed]) -> None:
    assert "worked for 1 s and said nothing" in bed(WORK + "work(60)", silence_s=1.0).failure()


def test_standing_still_is_bounded(bed: Callable[..., Bed]) -> None:
    assert "stood still for 1 s" in bed("time.sleep(60)", stall_s=1.0).failure()


def test_silence_of_the_child_is_explained_to_the_client(
    bed: Callable[..., Bed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dreamd.daemon.dreaming.bounds.SILENCE_REPORTED_S", 0.2)
    it = bed("say(Progress(stage='x', done=1, total=9)); time.sleep(1.5); say(Done())")
    seen: list[Progress] = []
    it.dream(progress=seen.append)
    said = [at for at in seen if at.note == "waits for a disk or a model"]
    assert said
    assert {(at.stage, at.done, at.total) for at in said} == {("x", 1, 9)}


def test_memory_is_bounded(bed: Callable[..., Bed]) -> None:
    assert "MiB of memory" in bed("x = b'1' * (300 << 20); time.sleep(60)", memory_mib=200).failure()


def test_a_missing_command_is_a_failed_dream(bed: Callable[..., Bed]) -> None:
    it = bed("")
    it.dreamer._command = ("/nowhere/python",)
    assert "No such file" in it.failure()


def during(it: Bed, act: Callable[[], Awaitable[Any]], seen: list[Progress] | None = None) -> DreamResult:
    """Start a dream, and act once its child has said its first word; `seen` takes all that it says."""

    async def story() -> DreamResult:
        begun = asyncio.Event()

        def hear(at: Progress) -> None:
            begun.set()
            if seen is not None:
                seen.append(at)

        task = asyncio.create_task(it.dreamer.dream(progress=hear))
        async with asyncio.timeout(20):
            await begun.wait()
            await act()
            return await task

    return asyncio.run(story())


WAITS = "say(Progress(stage='x')); sys.stdin.read()"


def test_a_second_dream_is_refused_while_one_runs(bed: Callable[..., Bed]) -> None:
    it = bed(WAITS)

    async def try_another() -> None:
        with pytest.raises(DreamBusy, match="is running"):
            await it.dreamer.dream()
        await it.dreamer.stop()

    during(it, try_another)
    assert len(it.store.recorded) == 1


def test_stopping_ends_the_child_by_closing_its_stdin_and_is_no_failure(bed: Callable[..., Bed]) -> None:
    it = bed(WAITS)
    pids: list[int | None] = []

    async def stop() -> None:
        pids.append(it.dreamer.child_pid)
        await it.dreamer.stop()
        assert it.dreamer.running is None

    assert during(it, stop).state == "preempted"
    assert [run.state for run in it.store.recorded] == ["preempted"]
    assert pids[0] is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_child_that_does_not_hear_and_its_own_children_are_killed(bed: Callable[..., Bed]) -> None:
    deaf = (
        "import signal, subprocess; signal.signal(15, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "say(Progress(stage='x', done=child.pid)); time.sleep(99)"
    )
    it = bed(deaf)
    grandchild: list[int] = []

    async def stop() -> None:
        grandchild.append(it.dreamer.progress.done)
        await it.dreamer.stop()

    during(it, stop)
    assert _is_gone(grandchild[0])


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_cancelling_ends_a_dream_that_is_being_planned(bed: Callable[..., Bed]) -> None:
    it = bed(WAITS)

    async def story() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(it.dreamer.dream(progress=lambda at: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert [(run.state, run.summary["note"]) for run in it.store.recorded] == [("cancelled", "it was cancelled")]
    assert it.store.applied == []


def test_seconds_in_which_it_is_held_back_are_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    watch = Stopwatch()
    now += 3
    watch.pause()
    now += 50
    watch.pause()
    assert (watch.run_s, watch.paused_s) == (3, 50)
    watch.resume()
    now += 2
    watch.resume()
    assert (watch.run_s, watch.paused_s) == (5, 50)
    watch.pause()
    now += 1
    assert (watch.run_s, watch.paused_s) == (5, 51)


# ---- who goes first

LISTENS = """
from dreamd.pipelines.pipe import PauseListener
listener = PauseListener()
listener.before_pausing(lambda: (request.folder.parent / "called off").touch())
listener.listen(0)
"""


def counts(times: int) -> str:
    """Return a program that says so many words, slowly until it is paused: on a busy machine that takes a while."""
    return (
        LISTENS
        + f"""
called_off = request.folder.parent / "called off"
for n in range({times}):
    say(Progress(stage='x', done=n)); time.sleep(.01 if called_off.exists() else .1)
say(Done(changeset_path=changeset()))
"""
    )


DEAF = """
import ctypes
say(Progress(stage='x', done=0))
ctypes.PyDLL(None).usleep(400_000)  # holds the interpreter: no thread of it hears a word
say(Done(changeset_path=changeset()))
"""
linux_alone = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def _state(pid: int | None) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def _until_stopped(it: Bed) -> float:
    """How long it takes from an activity until the child is stopped."""
    began, pid = time.monotonic(), it.dreamer.child_pid
    it.activity.touch()
    while _state(pid) != "T":
        await asyncio.sleep(0.001)
    return time.monotonic() - began


@linux_alone
def test_a_dream_gives_way_to_activity_and_goes_on_when_it_is_quiet(bed: Callable[..., Bed]) -> None:
    it = bed(counts(40), resume_quiet_s=0.5)
    seen: list[Progress] = []

    async def work() -> None:
        await _until_stopped(it)
        assert it.dreamer.paused == "an agent is at work"

    result = during(it, work, seen)
    assert result.state == "applied"
    notes = [at.note for at in seen if at.note]
    assert notes == ["paused: an agent is at work", "goes on"]
    assert [at.done for at in seen if at.stage == "x" and not at.note] == list(range(40))
    assert it.store.summaries[0]["paused_seconds"] >= 0.4
    assert (it.paths.runs / "called off").exists()


@linux_alone
def test_a_child_that_ignores_pause_is_stopped_by_signal(bed: Callable[..., Bed]) -> None:
    it = bed(DEAF, resume_quiet_s=0.5, preemption=PreemptionSettings(stop_after_ms=50))

    async def work() -> None:
        await _until_stopped(it)

    assert during(it, work).state == "applied"


def test_what_a_dream_starts_is_stopped_with_it(bed: Callable[..., Bed]) -> None:
    it = bed(
        "import subprocess\nother = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "say(Progress(stage='x', done=other.pid)); sys.stdin.read()"
    )

    async def work() -> None:
        await _until_stopped(it)
        while _state(it.dreamer.progress.done) != "T":
            await asyncio.sleep(0.001)
        await it.dreamer.cancel()

    assert during(it, work).state == "cancelled"


def test_a_dream_that_is_held_back_too_long_is_given_up_and_has_not_failed(bed: Callable[..., Bed]) -> None:
    it = bed(WAITS, preemption=PreemptionSettings(give_up_after_s=0.3))

    async def work() -> None:
        it.activity.touch()

    result = during(it, work)
    assert (result.state, result.actions) == ("preempted", {})
    assert "an agent is at work" in result.note
    assert [run.state for run in it.store.recorded] == ["preempted"]
    assert not list(it.paths.runs.iterdir())


def test_preemption_can_be_switched_off(bed: Callable[..., Bed]) -> None:
    it = bed(counts(8), preemption=PreemptionSettings(enabled=False))
    seen: list[Progress] = []

    async def work() -> None:
        it.activity.touch()

    assert during(it, work, seen).state == "applied"
    assert not [at.note for at in seen if at.note]


def test_pause_and_resume_by_hand_win_over_activity(bed: Callable[..., Bed]) -> None:
    it = bed(counts(8), resume_quiet_s=0.0)
    seen: list[Progress] = []

    async def hold_and_let_go() -> None:
        run_id = it.dreamer.pause()
        assert run_id == it.dreamer.running
        assert it.dreamer.paused == "paused by hand"
        it.activity.touch()
        await asyncio.sleep(0)
        assert it.dreamer.paused == "paused by hand"
        it.dreamer.resume()
        assert it.dreamer.paused == ""

    assert during(it, hold_and_let_go, seen).state == "applied"
    assert [at.note for at in seen if at.note] == ["paused: paused by hand", "goes on"]


def test_a_checkpoint_survives_a_failed_dream_and_is_removed_by_a_landing(bed: Callable[..., Bed]) -> None:
    writes = "request.checkpoint.write_text('x')\n"
    it = bed(writes + WAITS)

    async def cancel() -> None:
        await it.dreamer.cancel()

    during(it, cancel)
    checkpoint = it.paths.runs.parent / "checkpoint"
    assert checkpoint.read_text() == "x"
    it.dreamer._command = (*it.dreamer._command[:-1], PRELUDE + "assert request.checkpoint.exists()\n" + GOOD)
    assert it.dream().state == "applied"
    assert not checkpoint.exists()


def test_a_checkpoint_is_not_kept_for_ever(bed: Callable[..., Bed]) -> None:
    it = bed("say(Failed(reason=str(request.checkpoint.exists())))")
    checkpoint = it.paths.runs.parent / "checkpoint"
    checkpoint.write_text("x")
    os.utime(checkpoint, (NOW.timestamp() - 8 * 86_400,) * 2)
    assert "False" in it.failure()


def test_a_cancelled_dream_changes_nothing_and_says_so(bed: Callable[..., Bed]) -> None:
    it = bed(WAITS)

    async def cancel() -> None:
        await it.dreamer.cancel()
        assert it.dreamer.running is None

    assert during(it, cancel).state == "cancelled"
    assert [run.state for run in it.store.recorded] == ["cancelled"]


def test_pause_resume_and_cancel_without_a_dream_are_refused(bed: Callable[..., Bed]) -> None:
    it = bed(WAITS)
    with pytest.raises(DreamError, match="No dream") as refused:
        it.dreamer.pause()
    assert wire_error(refused.value, "dream_pause").code == REFUSED
    with pytest.raises(DreamError, match="No dream"):
        asyncio.run(it.dreamer.cancel())


def test_cancelling_does_not_stop_an_application_nor_call_it_failed(bed: Callable[..., Bed]) -> None:
    it = bed(GOOD)
    it.store.slow = slow = Slow()

    async def story() -> None:
        task = asyncio.create_task(it.dreamer.dream())
        await asyncio.to_thread(slow.begun.wait, 20)
        with pytest.raises(DreamError, match="is being applied"):
            await it.dreamer.cancel()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        slow.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert [run.state for run in it.store.recorded] == ["applied"]


def test_a_digest_that_cannot_be_written_does_not_unmake_a_dream(bed: Callable[..., Bed]) -> None:
    it = bed("say(Done(changeset_path=changeset(), derived={'digests/2026-11-21.md': '# d'}))")
    (it.paths.vault / "digests").write_text("a file is in the way")
    assert it.dream().state == "applied"
    assert [run.state for run in it.store.recorded] == ["applied"]


@pytest.mark.parametrize("what", ["apply", "tidy"])
@pytest.mark.parametrize("error", [apsw.FullError("full"), RuntimeError("a bug"), StoreBusy("it is slow")])
def test_an_error_after_journaling_leaves_the_dream_applied_with_its_digest(
    bed: Callable[..., Bed], what: str, error: Exception
) -> None:
    it = bed("say(Done(changeset_path=changeset(), derived={'digests/2026-11-21.md': '# d'}))")
    it.store.fails[what] = error
    assert it.dream().state == "applied"
    assert [run.state for run in it.store.recorded] == ["applied"]
    assert (it.paths.vault / "digests/2026-11-21.md").read_text() == "# d"


def test_a_dream_that_meets_a_bug_is_a_failed_dream_and_the_next_one_may_begin(bed: Callable[..., Bed]) -> None:
    it = bed(GOOD)
    it.paths.runs.mkdir()
    it.store.settle = lambda timeout_s=0: 1 // 0 > 0  # type: ignore[method-assign]
    assert it.failure() == "The dream failed: dreamd met ZeroDivisionError, and the log has the place."
    del it.store.settle
    assert it.dream().state == "applied"


@pytest.mark.skipif(sys.platform != "linux", reason="SCHED_IDLE is Linux's")
def test_the_child_has_idle_priority(bed: Callable[..., Bed]) -> None:
    it = bed("say(Failed(reason=str(os.sched_getscheduler(0))))")
    assert it.failure() == f"The dream failed: {os.SCHED_IDLE}."


@pytest.mark.skipif(sys.platform != "linux", reason="SCHED_IDLE is Linux's")
def test_an_awaited_dream_has_normal_scheduling(bed: Callable[..., Bed]) -> None:
    it = bed("say(Failed(reason=f'{os.sched_getscheduler(0)} {os.getpriority(os.PRIO_PROCESS, 0)}'))")
    assert it.failure(by_hand=True, awaited=True) == f"The dream failed: {os.SCHED_OTHER} 5."


def test_orphaned_folders_are_removed_and_their_dreams_written_down(bed: Callable[..., Bed]) -> None:
    it = bed(GOOD)
    (it.paths.runs / "old" / "deep").mkdir(parents=True)
    assert it.dreamer.remove_orphans() == 0
    marked = it.paths.runs / "20261121-020000-daily-aaaa"
    marked.mkdir()
    write_run_marker(it.dreamer._request(marked.name, "daily", NOW, False), 2**22 + 1)
    assert it.dreamer.remove_orphans() == 1
    assert list(it.paths.runs.iterdir()) == []
    (run,) = it.store.recorded
    assert (run.run_id, run.state, run.started_at) == (marked.name, "failed", NOW)
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL


def test_no_dream_begins_while_the_store_refuses(bed: Callable[..., Bed]) -> None:
    it = bed(GOOD)
    it.store.obstacle = StoreError("the history is set aside", hint="Salvage it.")
    with pytest.raises(DreamBusy, match="the history is set aside") as refused:
        it.dream()
    assert (refused.value.hint, wire_error(refused.value, "dream").code) == ("Salvage it.", REFUSED)
    assert it.store.recorded == []

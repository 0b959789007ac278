"""The methods about dreams: start, pause, resume, cancel, history, undo, digest."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from loguru import logger
from pydantic import Field

from ...ipc.answers import IF_ANY, widened
from ...ipc.call import Call, Method
from ...ipc.channels import is_run_of, run_of
from ...ipc.params import Nodes, NoParams, Offset, Params, UserParams
from ...ipc.protocol import NOT_FOUND, ProtocolError, Refused
from ...pipelines.messages import Progress, RunKind
from ...store import LINK, Run, SkippedAction
from ...store.model import ActionKind, NotFound, StoreError
from ...store.names import Name
from ...store.results import Digest, Migrated, RunChange
from ..agents.skills import Skills
from ..clock import local_now
from ..dreaming.dreamer import Dreamer, DreamResult
from ..dreaming.landing import DerivedPages

if TYPE_CHECKING:
    from ...store import MemoryStore


# The pages mark each section with the run that wrote it, in a comment that no reader of the markdown sees.
_DREAM_MARK = re.compile(r"<!-- dream (\S+) -->")


MOST_CHANGES = 50
"""The changes of a run in one answer."""

CAUGHT_UP_WITHIN_S = 10.0
"""The longest that a dream by hand waits until the changes that were made while the daemon was away are read."""


class DreamParams(Params):
    """The kind of a dream; `dry_run` plans and changes nothing, and is always waited for."""

    kind: RunKind = "daily"
    dry_run: bool = False
    wait: bool = False


class RunsParams(UserParams):
    """The number of runs to list; those of one `kind`, or with `all` also the runs of kind `link`."""

    limit: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20
    kind: Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")] | None = None
    all: bool = False


class RunParams(UserParams):
    """The run whose changes are wanted, from an offset."""

    run_id: Name
    offset: Offset = 0


class UndoParams(UserParams):
    """The run to undo, or to do again, or only its changes of some memories: `items`."""

    run_id: Name
    items: Nodes = ()


class MigrateParams(Params):
    """`dry_run` counts the moves, and moves nothing."""

    dry_run: bool = False


class DigestParams(Params):
    """The day of a digest; none for the newest."""

    date: datetime.date | None = None


@dataclass(frozen=True, slots=True)
class ConflictAnswer:
    """A file that was left as it is."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """A change that a dry run would make."""

    stage: str
    kind: ActionKind
    path: str
    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class DreamAnswer:
    """The outcome of a dream; `actions` counts its changes by stage, `plan` lists those of a dry run."""

    run_id: str | None
    state: str
    actions: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    conflicts: Sequence[ConflictAnswer] = ()
    note: str = ""
    plan: Sequence[PlannedAnswer] | None = field(default=None, metadata=IF_ANY)


@dataclass(frozen=True, slots=True)
class SteeredAnswer:
    """The dream that was paused, resumed or cancelled."""

    run_id: str
    state: str


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """One run of the history; `about` is the title of the one memory that a person changed by it, else ""."""

    run_id: str
    kind: str
    state: str
    started_at: datetime.datetime
    seconds: float | None
    created: int
    replaced: int
    deleted: int
    note: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class RunChangesAnswer:
    """A run, and a page of its changes; `next` is the offset of the next page."""

    run: RunAnswer
    changes: Sequence[RunChange]
    next: int | None


@dataclass(frozen=True, slots=True)
class RunsAnswer:
    """The history, newest first."""

    runs: Sequence[RunAnswer]


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """The outcome of an undo: the number of restored files, and those that were left as they were.

    `turns` are found again; `left` counts the files of the run that still are as it left them; `forbidden`: no dream
    proposes again what was undone; `already`: the run was undone before, and nothing was changed.
    """

    run_id: str
    restored: int
    turns: int
    left: int
    forbidden: bool
    conflicts: Sequence[ConflictAnswer]
    already: bool


@dataclass(frozen=True, slots=True)
class RedoAnswer:
    """The outcome of a redo: the number of files that are again as the run left them; the others are conflicts.

    `turns` are hidden again; `left` counts the files of the run that stay undone.
    """

    run_id: str
    redone: int
    turns: int
    left: int
    conflicts: Sequence[ConflictAnswer]


@dataclass(frozen=True, slots=True)
class DigestAnswer(Digest):
    """A day's digest; `undone` are the runs in it that were undone since."""

    undone: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunningDreamAnswer:
    """The dream that runs; `paused` is the reason why it is held back, "" while it is not."""

    run_id: str
    kind: str
    stage: str
    done: int
    total: int
    paused: str


class DreamMethods:
    """The methods; dreams run in the server's loop, the others in its threads."""

    def __init__(self, store: MemoryStore, dreamer: Dreamer) -> None:
        self._pages = DerivedPages(store, local_now)
        self._skills = Skills(store)
        self._store = store
        self._dreamer = dreamer
        self._unwaited: set[asyncio.Task[Any]] = set()

    def running(self) -> RunningDreamAnswer | None:
        """Return the dream that runs, for `status`."""
        run_id, at = self._dreamer.running, self._dreamer.progress
        if run_id is None:
            return None
        return RunningDreamAnswer(run_id, self._dreamer.kind, at.stage, at.done, at.total, self._dreamer.paused)

    async def dream(self, params: DreamParams, call: Call) -> DreamAnswer:
        """Start a dream: wait for its end, or return its id at once."""
        # A dry run writes nothing, so it may run while learning is paused.
        if not params.dry_run:
            refuse_if_paused(self._store)
        # A dream over a memory whose vault is still being read would miss the changes made by hand.
        await asyncio.to_thread(self._store.wait_until_caught_up, CAUGHT_UP_WITHIN_S)
        if self._dreamer.running is not None:
            raise Refused(f"The dream {self._dreamer.running} is running.", "`dreamctl runs` shows when it is over.")
        if params.wait or params.dry_run:
            return _dream_answer(
                await self._dreamer.dream(
                    params.kind, dry_run=params.dry_run, by_hand=True, awaited=params.wait, progress=on_progress(call)
                )
            )
        task = asyncio.create_task(self._dreamer.dream(params.kind, by_hand=True))
        # The loop keeps only weak references to tasks: without this set the dream could be collected while it runs.
        self._unwaited.add(task)
        task.add_done_callback(self._unwaited.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # recorded by the dreamer
        await asyncio.sleep(0)  # its first step gives it an id
        return DreamAnswer(self._dreamer.running, "running")

    async def dream_pause(self, params: NoParams, call: Call) -> SteeredAnswer:
        """Hold the running dream back until it is resumed."""
        return SteeredAnswer(self._dreamer.pause(), "paused")

    async def dream_resume(self, params: NoParams, call: Call) -> SteeredAnswer:
        """Resume the dream at once."""
        return SteeredAnswer(self._dreamer.resume(), "running")

    async def dream_cancel(self, params: NoParams, call: Call) -> SteeredAnswer:
        """End the running dream; none of its changes is made."""
        return SteeredAnswer(await self._dreamer.cancel(), "cancelled")

    def runs(self, params: RunsParams, call: Call) -> RunsAnswer:
        """Return the history, newest first."""
        # A run of kind `link` follows each `remember`; by default they would hide the rest of the history.
        kinds = [params.kind] if params.kind else []
        runs = self._store.runs(params.limit, kinds=kinds, hidden=() if params.all else (LINK,))
        if (user := params.user_id) is not None:
            runs = [run for run in runs if is_run_of(self._store, user, run.run_id)]
        return RunsAnswer([self._answer(run) for run in runs])

    def run(self, params: RunParams, call: Call) -> RunChangesAnswer:
        """Return a run with a page of its changes."""
        run = self._answer(self._store.run(run_of(self._store, params.user_id, params.run_id)))
        changes = self._store.changes_of(params.run_id, params.offset, MOST_CHANGES + 1)
        more = len(changes) > MOST_CHANGES
        return RunChangesAnswer(run, changes[:MOST_CHANGES], params.offset + MOST_CHANGES if more else None)

    def _answer(self, run: Run) -> RunAnswer:
        answer = _run_answer(run)
        is_of_one = run.kind in OF_ONE_MEMORY and run.state != "nothing"
        return replace(answer, about=self._store.title_of_run(run.run_id)) if is_of_one else answer

    def undo(self, params: UndoParams, call: Call) -> UndoAnswer:
        """Undo a run, or its changes of some memories."""
        # Read before the undo: afterwards both cases look alike.
        already = self._store.run(run_of(self._store, params.user_id, params.run_id, own=True)).state == "undone"
        skills = self._skills.written()
        undone = self._store.undo(params.run_id, params.items)
        self._skills.remove(skills)
        self._write_pages(partial(self._pages.undone, params.run_id, undone.left))
        return UndoAnswer(
            run_id=undone.run_id,
            restored=undone.restored,
            turns=undone.turns,
            left=undone.left,
            forbidden=undone.forbidden,
            conflicts=_conflicts(undone.skipped),
            already=already,
        )

    def migrate(self, params: MigrateParams, call: Call) -> Migrated:
        """Move a flat vault into folders by project and kind."""
        if self._dreamer.running is not None and not params.dry_run:
            raise Refused(f"The dream {self._dreamer.running} is running.", "Try again when it is over.")
        # The catalogue, which is written after the move, is made of the index.
        self._store.wait_until_caught_up(CAUGHT_UP_WITHIN_S)
        migrated = self._store.migrate(dry_run=params.dry_run)
        if migrated.run_id is not None:
            self._write_pages(self._pages.refresh)
        return migrated

    def redo(self, params: UndoParams, call: Call) -> RedoAnswer:
        """Do an undone run again, or its changes of some memories."""
        redone = self._store.redo(run_of(self._store, params.user_id, params.run_id, own=True), params.items)
        if redone.restored:
            self._write_pages(partial(self._pages.redone, params.run_id, redone.left))
        return RedoAnswer(
            run_id=redone.run_id,
            redone=redone.restored,
            turns=redone.turns,
            left=redone.left,
            conflicts=_conflicts(redone.skipped),
        )

    def _write_pages(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (StoreError, OSError) as error:  # the memories are changed all the same; the next dream writes them
            logger.warning("the derived pages are as they were: {}", type(error).__name__)

    def digest(self, params: DigestParams, call: Call) -> DigestAnswer:
        """Return a day's digest as it lies in the vault, without its frontmatter."""
        digest = self._store.pages.digest(params.date)
        if digest is None:
            what = f"no digest of {params.date}" if params.date else "no digest yet"
            hint = "A dream that changes something writes one: `dreamctl dream daily --wait`."
            raise ProtocolError(f"There is {what}.", hint, NOT_FOUND)
        named = dict.fromkeys(_DREAM_MARK.findall(digest.text))
        return widened(DigestAnswer, digest, undone=[run_id for run_id in named if self._is_undone(run_id)])

    def _is_undone(self, run_id: str) -> bool:
        try:
            return self._store.run(run_id).undone_at is not None
        except NotFound:  # the vault was copied from elsewhere: its runs are in another ledger
            return False


def refuse_if_paused(store: MemoryStore) -> None:
    """Raise Refused while nothing is to be learned."""
    if store.paused:
        raise Refused("Learning is paused.", "Resume it with `dreamctl resume`.")


def on_progress(call: Call) -> Callable[[Progress], None]:
    """Return the function that sends a dream's progress to its caller."""
    return lambda at: call.progress(at.stage, at.done, at.total, at.note)


def _conflicts(refused: Sequence[SkippedAction]) -> list[ConflictAnswer]:
    return [ConflictAnswer(one.path, one.reason) for one in refused]


def _dream_answer(result: DreamResult) -> DreamAnswer:
    plan = None
    if result.state == "planned":
        plan = [PlannedAnswer(a.stage, a.kind, a.path, a.node_id, a.reason) for a in result.changeset.actions]
    return DreamAnswer(
        run_id=result.run_id,
        state=result.state,
        actions=result.actions,
        seconds=round(result.seconds, 3),
        conflicts=_conflicts(result.refused),
        note=result.note,
        plan=plan,
    )


OF_ONE_MEMORY = frozenset({"edit", "forget", "restore", "review", "remember", LINK})
"""The kinds of run that change one memory and its links."""


def _run_answer(run: Run) -> RunAnswer:
    summary = run.summary
    # A dream records its own seconds; of other runs only the start and the end are known.
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    return RunAnswer(
        run_id=run.run_id,
        kind=run.kind,
        state=run.state,
        started_at=run.started_at,
        seconds=summary.get("seconds", seconds),
        created=summary.get("created", 0),
        replaced=summary.get("replaced", 0),
        deleted=summary.get("deleted", 0),
        note=summary.get("note", ""),
    )


DREAM_METHODS: tuple[Method[Any, Any], ...] = (
    Method("dream", DreamParams, DreamAnswer, DreamMethods.dream, long=True),
    Method("dream_pause", NoParams, SteeredAnswer, DreamMethods.dream_pause),
    Method("dream_resume", NoParams, SteeredAnswer, DreamMethods.dream_resume),
    Method("dream_cancel", NoParams, SteeredAnswer, DreamMethods.dream_cancel),
    Method("runs", RunsParams, RunsAnswer, DreamMethods.runs, blocking=True),
    Method("run", RunParams, RunChangesAnswer, DreamMethods.run, blocking=True),
    Method("undo", UndoParams, UndoAnswer, DreamMethods.undo, long=True),
    Method("migrate", MigrateParams, Migrated, DreamMethods.migrate, long=True),
    Method("redo", UndoParams, RedoAnswer, DreamMethods.redo, long=True),
    Method("digest", DigestParams, DigestAnswer, DreamMethods.digest, blocking=True),
)

"""Random work on writer, ledger and vault over forgetful disks, a power cut, and what must be there afterwards."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from dreamd.store.changes.apply import Changes
from dreamd.store.changes.undo import Reverting
from dreamd.store.ledger.journal import FileChange, sha256
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.model import Action, ActionKind, Changeset, NewTurn, SessionHead, StoreError
from dreamd.store.okf import session
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault
from dreamd.store.writer.pending import PendingFiles
from dreamd.store.writer.placer import Checkpoint
from dreamd.store.writer.writer import Plan, Planned, Writer

from tests.store.disks.forgetful_disk import ForgetfulDisk
from tests.store.disks.power import Power, PowerCut
from tests.store.disks.powerloss_vfs import PowerLossVFS

T = TypeVar("T")
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


@dataclass
class World:
    """What the vault and the ledger must hold: files by path, cursors, runs by state."""

    files: dict[str, bytes] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    def copy(self) -> World:
        return World(dict(self.files), dict(self.cursors), dict(self.runs))


class InlineCheckpoint(Checkpoint):
    """Syncs without a thread."""

    def _sync(self, paths: set[str]) -> Future[None]:
        done: Future[None] = Future()
        try:
            self._placer.sync(paths)
        except OSError as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done


class PumpedWriter(Writer):
    """A writer without a thread: its turns are taken by whoever submits, so a seed gives the same run every time."""

    clock = 0.0
    held = False
    asked: Callable[[Future[Any]], None] = staticmethod(lambda _: None)
    """Called with each request's future when it is queued, before anything is done for it."""

    def __init__(self, vault: Vault, ledger: Ledger) -> None:
        super().__init__(vault, ledger, monotonic=lambda: self.clock)
        self._checkpoint = InlineCheckpoint(self._placer, ledger, lambda: self.clock)

    def pump_until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.clock += 0.01
            self._turn()

    def submit(self, plan: Plan[T]) -> Future[T]:
        future = super().submit(plan)
        self.asked(future)
        if not self.held:
            self.pump_until(future.done)
        return future

    def barrier(self, timeout_s: float, *, runs: bool = True) -> bool:
        self.pump_until(lambda: not self.lag)
        return True

    def rest(self, seconds: float) -> None:
        """Let time pass with nobody asking for anything, until there is nothing left to do."""
        self.clock += seconds
        self._idling = True
        while self.lag or self._checkpoint.is_running or self._checkpoint.is_due(idle=True):
            self._turn()

    def work(self, turns: int) -> None:
        for _ in range(turns):
            if self.lag:
                self._idling = True
                self._turn()


class Machine:
    """A store over forgetful disks, in a folder that may hold what a former machine left."""

    writer_type: type[PumpedWriter] = PumpedWriter

    def __init__(self, root: Path, rng: random.Random, lying: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.power = Power(random.Random(rng.random()), 0, lying)
        self.vfs = PowerLossVFS(self.power)
        vault_root = (root / "vault").resolve()
        vault_root.mkdir(exist_ok=True)
        self.disk = ForgetfulDisk(vault_root, self.power)
        self.vault = Vault(vault_root, self.disk)
        self.ledger = Ledger(root / "ledger.db", vfs=self.vfs.name)
        self.writer = self.writer_type(self.vault, self.ledger)
        self.changes = Changes(self.vault, self.ledger, self.writer)
        self.reverting = Reverting(self.vault, self.ledger, self.writer, lambda _: (), lambda _: ())

    def fail_after(self, operations: int) -> None:
        self.power.fails_at = self.power.operations + operations

    def leave(self) -> Path:
        """Write what is left when the power is back into a folder beside this one."""
        self.power.is_aftermath = True
        self.ledger.close()
        left = self.root.with_name(f"{self.root.name}-left")
        (left / "vault").mkdir(parents=True)
        self.disk.materialise(left / "vault")
        self.vfs.materialise(self.root / "ledger.db", left / "ledger.db")
        return left


class Simulation(Machine):
    """One life of a store, from an empty folder to the cut.

    `candidates` are the worlds that may be found afterwards: as of the last acknowledgement, and with each of those
    requests that were under way. A promise counts from the instant at which it is given, wherever the cut falls: what
    is under way in the code that gives it may still be undone by the cut.
    """

    def __init__(self, root: Path, rng: random.Random, cut_after: int, lying: frozenset[str] = frozenset()) -> None:
        super().__init__(root, rng, lying)
        self.deleted: set[str] = set()
        self.rng = rng
        self.candidates = [World()]
        self.least = 0  # the first of the candidates that keeps every promise given so far
        self.writer.asked = self._was_asked
        self.fail_after(cut_after)

    def run(self) -> int:
        """Work until the power fails; return how many requests had been acknowledged."""
        acknowledged = 0
        steps = (self.remember, self.remember, self.observe, self.observe, self.burst, self.dream, self.undo, self.rest)
        try:
            while True:
                self.rng.choice(steps)()
                self.candidates, self.least = self.candidates[-1:], 0
                acknowledged += 1
        except PowerCut:
            self.candidates = self.candidates[self.least :]
            return acknowledged

    def _was_asked(self, future: Future[Any]) -> None:
        """Of a request that leads to the latest world: whoever is promised it may count on that world."""
        world = len(self.candidates) - 1

        def promised(done: Future[Any]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.least = max(self.least, world)

        future.add_done_callback(promised)

    @property
    def world(self) -> World:
        return self.candidates[-1]

    def _next_world(self) -> World:
        self.candidates.append(self.world.copy())
        return self.world

    # ---- what somebody may ask for

    def remember(self) -> None:
        world = self._next_world()
        path, content = f"facts/fact-{self.rng.randrange(200)}.md", self._text()
        if path not in world.files:
            world.files[path] = content
        self.writer.submit(lambda files: _create(files, path, content))
        self.writer.work(self.rng.randrange(3))

    def observe(self) -> None:
        world = self._next_world()
        head = SessionHead(f"s{self.rng.randrange(4)}", "demo", started_at=NOW)
        turns = [NewTurn("user", self._text().decode("latin-1"), NOW) for _ in range(self.rng.randint(1, 3))]
        path = session.path_of(head)
        before = world.files.get(path)
        start = session.open_file(head) if before is None else b""
        ordinal = 1 if before is None else session.parse(before, 0, head.session_id, 1).next_ordinal
        added = start + b"".join(session.encode_turn(turn, ordinal + n) for n, turn in enumerate(turns))
        world.files[path] = (before or b"") + added
        offset = len(before or b"")
        change = FileChange("append" if before is not None else "create", path, added, offset)
        self.writer.submit(lambda _: Planned(None, (change,)))
        self.writer.work(self.rng.randrange(3))

    def burst(self) -> None:
        """Several at once, so that they share a commit."""
        self.writer.held = True
        for _ in range(self.rng.randint(2, 12)):
            self.rng.choice((self.remember, self.observe))()
        self.writer.held = False
        self.writer.submit(lambda _: Planned(None))

    def dream(self) -> None:
        world = self._next_world()
        run_id = f"run-{len(world.runs)}"
        facts = sorted(path for path in world.files if path.startswith("facts/"))
        chosen = self.rng.sample(facts, min(len(facts), self.rng.randint(0, 6)))
        actions = [self._action(path, world.files[path]) for path in chosen]
        actions += [self._action(f"scenarios/{run_id}-{n}.md", None) for n in range(self.rng.randint(1, 4))]
        for action in actions:
            if action.content is None:
                del world.files[action.path]
            else:
                world.files[action.path] = action.content
        world.cursors["s0"] = self.rng.randrange(1000)
        world.runs[run_id] = "applied"
        changeset = Changeset(
            run_id=run_id, actions=tuple(actions), cursors={("consolidate", "s0"): world.cursors["s0"]}
        )
        applied = self.changes.apply(changeset, kind="dream", now=NOW)
        assert not applied.skipped, applied

    def undo(self) -> None:
        """Undo the last run, which nothing has touched since only if no fact was written over; then it is named."""
        applied = [run_id for run_id, state in self.world.runs.items() if state == "applied"]
        if not applied:
            return
        run_id = applied[-1]
        actions = self.ledger.actions(run_id)
        world = self._next_world()
        left = 0
        for action in actions:
            found = world.files.get(action.path)
            if (None if found is None else sha256(found)) != action.post_sha256:
                left += 1
            elif action.pre_image is None:
                del world.files[action.path]
            else:
                world.files[action.path] = action.pre_image
        if left < len(actions):
            world.runs[run_id] = "partly_undone" if left else "undone"
        undone = self.reverting.undo(run_id, now=NOW)
        assert len(undone.skipped) == left, undone

    def rest(self) -> None:
        self.writer.rest(self.rng.choice((0.1, 2.0)))
        self.ledger.checkpoint(anyway=self.rng.random() < 0.5)

    def _action(self, path: str, before: bytes | None) -> Action:
        pre = None if before is None else sha256(before)
        if before is not None and self.rng.random() < 0.3 and path not in self.deleted:
            self.deleted.add(path)  # once undone, a file is not deleted again
            return Action(kind=ActionKind.DELETE, path=path, node_id=path, stage="decay", reason="", pre_sha256=pre)
        return Action(
            kind=ActionKind.CREATE if before is None else ActionKind.REPLACE,
            path=path,
            node_id=path,
            stage="consolidate",
            reason="",
            pre_sha256=pre,
            content=self._text(),
        )

    def _text(self) -> bytes:
        return self.rng.randbytes(8).hex().encode() * self.rng.choice((1, 1, 4, 40, 600))

    # ---- after the cut

    def verdict(self) -> str | None:
        """Start again on what is left, with the power failing during that too, and say what is wrong in the end."""
        left = self.leave()
        while self.rng.random() < 0.4:
            machine = Machine(left, self.rng, self.power.lying)
            machine.fail_after(self.rng.randint(1, 40))
            with contextlib.suppress(PowerCut):
                machine.writer.replay()
            left = machine.leave()
        disk = Disk()
        vault = Vault(left / "vault", disk)
        ledger = Ledger(left / "ledger.db")
        try:
            Writer(vault, ledger).replay()
            found = World(
                {stamp.path: vault.read(stamp.path) for stamp in vault.walk()},
                ledger.cursors("consolidate"),
                {run.run_id: run.state for run in ledger.runs(10_000)},
            )
            counts = ledger.counts()
        finally:
            ledger.close()
        if counts["journal"] or counts["conflicts"]:
            return f"entries were left out: {counts}"
        return None if found in self.candidates else _difference(found, self.candidates)


def _create(files: PendingFiles, path: str, content: bytes) -> Planned[None]:
    return Planned(None, () if files.exists(path) else (FileChange("create", path, content),))


def _difference(found: World, candidates: list[World]) -> str:
    def distance(world: World) -> int:
        return sum(found.files.get(path) != world.files.get(path) for path in found.files.keys() | world.files.keys())

    nearest = min(candidates, key=distance)
    wrong = {
        path: (None if path not in nearest.files else len(nearest.files[path]), len(found.files.get(path, b"")))
        for path in sorted(found.files.keys() | nearest.files.keys())
        if found.files.get(path) != nearest.files.get(path)
    }
    return f"files (wanted, found bytes): {wrong}; cursors {nearest.cursors} {found.cursors}; runs {found.runs}"


def cut_at_random_point(
    folder: Path, seed: int, lying: frozenset[str] = frozenset(), life: type[Simulation] = Simulation
) -> tuple[int, str | None]:
    """Live, cut, start again; return how many requests were acknowledged, and what is wrong afterwards."""
    rng = random.Random(seed)
    folder.mkdir()
    simulation = life(folder, rng, int(10 ** rng.uniform(0.0, 3.3)), lying)
    acknowledged = simulation.run()
    try:
        return acknowledged, simulation.verdict()
    except StoreError as error:
        return acknowledged, f"the store does not open: {error}"

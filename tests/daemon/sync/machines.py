"""Machines of one person for tests, each a real store with its syncing, their remote, and schedules of chance."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from dreamd.daemon.sync import peer
from dreamd.daemon.sync.entries import Known
from dreamd.daemon.sync.peer import Peer
from dreamd.daemon.sync.segments import Contended, RemoteAway, Repository, Sealer
from dreamd.daemon.sync.syncing import Outcome, Syncing
from dreamd.store import Selection
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    Edit,
    Kind,
    Level,
    Memory,
    NewTurn,
    NodeId,
    SessionHead,
    StoreError,
)
from dreamd.store.okf import fact_id, from_memory, parse, path_for
from dreamd.store.settings import StoreSettings

BEGIN: Final = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
CHANNEL: Final = "kiln-1a2b3c"


class Killed(BaseException):
    """The process of a machine ends here."""


@dataclass(slots=True)
class Clock:
    """One clock that all machines read, each with its own error."""

    now: datetime = BEGIN

    def tick(self) -> None:
        self.now += timedelta(seconds=30)


class Machine:
    """A store and its syncing."""

    def __init__(
        self, folder: Path, remote: Path, key: str | None, clock: Clock, skew: timedelta = timedelta(0)
    ) -> None:
        self.folder = folder
        self.remote = remote
        self.key = key
        self.name = folder.name
        self.machine = peer.new_machine_id()
        self.off: set[str] = set()
        self._clock = clock
        self._skew = skew
        self.fuse: int | None = None
        folder.mkdir()
        self.open()

    def now(self) -> datetime:
        return self._clock.now + self._skew

    def open(self) -> None:
        root = self.folder
        paths = StorePaths(
            root / "vault", root / "ledger.db", root / "index" / "index.db", root / "index" / "cache.db", root / "runs"
        )
        self.store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), self.now)
        (root / "sync").mkdir(exist_ok=True)
        self.open_sync()

    def open_sync(self) -> None:
        """Begin the sync anew, as a process does that follows one that was killed."""
        folder = self.folder / "sync"
        named = folder / "machine"
        if named.exists():
            self.machine = named.read_text()
        named.write_text(self.machine)
        self.known = Known(folder / "known.db")
        self.repository = Repository(folder / "repository.git", str(self.remote))
        self.repository.prepare()
        self.repository.make_folder()
        self.peer = Peer(self.repository, Sealer(self.key), self.known, self.machine, self.name, self.now)
        self.syncing = Syncing(self.store, self.known, self.peer, lambda channel: channel in self.off, self.now)
        self.store.when_erased(lambda ids, secrets: self.known.note_erased(ids, secrets=secrets))

    def close(self) -> None:
        self.store.close()
        self.known.close()

    def sync(self) -> Outcome:
        for _ in range(4):
            try:
                with suppress(Contended):
                    done = self.syncing.run(may_purge=True, keep_machine=self._keep_machine)
                    if self.known.note("prune"):
                        self.repository.prune_remote()
                        self.known.set_note("prune", "")
                    return done
            except StoreError as error:
                raise AssertionError(f"{self.name}: {error}") from error
        raise AssertionError("contended without end")

    def _keep_machine(self, machine: str) -> None:
        self.machine = machine
        (self.folder / "sync" / "machine").write_text(machine)

    def files(self) -> dict[NodeId, bytes]:
        """Return the bytes of each memory's file."""
        self.store.settle(10)
        replica = self.store.replica
        return {node: replica.content(file.path) or b"" for node, file in replica.memories().items()}

    def texts(self) -> dict[NodeId, str]:
        return {node: parse(data).body.strip() for node, data in self.files().items()}

    def turns(self) -> Counter[tuple[str, str]]:
        self.store.settle(10)
        replica = self.store.replica
        return Counter(
            (turn.session_id, turn.text) for path, _ in replica.sessions() for turn in replica.session(path)[1]
        )

    def tombstones(self) -> set[str]:
        return set(self.store.replica.tombstones())


def burning(machine: Machine) -> Iterator[None]:
    """Count down at every step that changes something; at zero the process ends there."""

    def guarded(target: Any, name: str) -> None:
        original = getattr(target, name)

        def step(*arguments: Any, **named: Any) -> Any:
            tick()
            result = original(*arguments, **named)
            tick()
            return result

        setattr(target, name, step)

    def tick() -> None:
        if machine.fuse is not None:
            machine.fuse -= 1
            if machine.fuse <= 0:
                machine.fuse = None
                raise Killed

    for name in ("append", "point", "push", "fetch"):
        guarded(machine.repository, name)
    for name in ("add", "stand", "set_place", "set_pushed", "told", "acknowledge", "carried_out", "add_purge"):
        guarded(machine.known, name)
    yield


@dataclass
class Expected:
    """What must be true of every machine in the end: texts that must be there, and ids that must not."""

    living: dict[NodeId, str] = field(default_factory=dict)
    gone: set[NodeId] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    turns: set[tuple[str, str]] = field(default_factory=set)
    unsynced: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    since_backup: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    only_there: dict[str, list[Callable[[], None]]] = field(default_factory=dict)

    def force(self, machines: Collection[str]) -> None:
        """Note that the remote may have lost something: all that a machine put back has not read there again yet."""
        self.forced = set(machines)
        for lost in (one for some in self.only_there.values() for one in some):
            lost()

    def unsay(self, node: NodeId) -> None:
        """Expect nothing of a memory any more."""
        self.living.pop(node, None)
        self.gone.discard(node)


class Schedule:
    """A schedule of chance on three machines."""

    def __init__(self, folder: Path, seed: int, *, encrypted: bool | None = None) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.folder = folder
        self.remote = folder / "remote.git"
        peer.new_machine_id = lambda: f"{self.random.getrandbits(32):08x}"  # a seed always leads to the same ids
        is_encrypted = self.random.random() < 0.5 if encrypted is None else encrypted
        key = Sealer.new_key() if is_encrypted else None
        skews = [timedelta(0), timedelta(hours=self.random.randint(-30, 30)), timedelta(minutes=7)]
        self.machines = [
            Machine(folder / name, self.remote, key, self.clock, skew) for name, skew in zip("abc", skews, strict=True)
        ]
        self.expected = Expected()
        self.backups: dict[str, Path] = {}
        self.log: list[str] = []
        self.said = 0
        self.turn = 0

    # ---- what may happen

    def words(self) -> str:
        self.said += 1
        syllables = ["ka", "lo", "mi", "tu", "re", "sa", "po", "ni", "ve", "du"]
        return " ".join("".join(self.random.choices(syllables, k=4)) for _ in range(4)) + f" q{self.said}x"

    def remember(self, machine: Machine) -> None:
        text = self.words()
        node = machine.store.remember(text, channel=self.random.choice([CHANNEL, "_global"])).result()
        self.expected.living[node] = text
        self._unsynced(machine, lambda: self.expected.unsay(node))

    def say_again(self, machine: Machine) -> None:
        nodes = sorted(self.expected.living)
        if nodes:
            node = self.random.choice(nodes)
            file = machine.store.replica.memories().get(node)
            if file is not None:
                machine.store.remember(self.expected.living[node], channel=file.channel).result()

    def say_forgotten_again(self, machine: Machine) -> None:
        """Say on another machine what may have been forgotten elsewhere: whether it lives then depends on who knew."""
        texts = [(node, text) for node, text in self.expected.living.items()]
        if texts:
            node, text = self.random.choice(texts)
            machine.store.remember(text, channel=CHANNEL).result()
            self.expected.unsay(fact_id(CHANNEL, text)) if fact_id(CHANNEL, text) != node else None

    def edit(self, machine: Machine) -> None:
        node = self._own(machine)
        if node is not None:
            text = self.words()
            machine.store.edit(node, Edit(text=text))
            self.expected.unsay(node)

    def tag(self, machine: Machine) -> None:
        node = self._own(machine)
        if node is not None:
            machine.store.tag(node, add=[self.random.choice(["red", "green", "blue"])])

    def by_hand(self, machine: Machine) -> None:
        """Change a file in an editor."""
        node = self._own(machine)
        if node is not None:
            file = machine.store.replica.memories()[node]
            path = machine.folder / "vault" / file.path
            path.write_bytes(path.read_bytes().rstrip(b"\n") + f"\n\n{self.words()}\n".encode())
            machine.store.file_changed([file.path])
            self.expected.unsay(node)

    def forget(self, machine: Machine) -> None:
        node = self._own(machine)
        if node is not None:
            forgotten = machine.store.forget(node)
            for one in (node, *forgotten.also):
                self.expected.unsay(one)
            self.expected.gone.add(node)
            self._unsynced(machine, lambda: self.expected.unsay(node))

    def purge(self, machine: Machine) -> None:
        node = self._own(machine)
        if node is not None:
            text = machine.texts()[node]
            machine.store.purge(Selection(nodes=(node,)))
            self.expected.unsay(node)
            self.expected.gone.add(node)
            self.expected.purged.add(text)
            self._unsynced(machine, lambda: (self.expected.unsay(node), self.expected.purged.discard(text)))  # type: ignore[func-returns-value]

    def dream(self, machine: Machine) -> None:
        """Land what a dream plans: one fact replaces another, and a page cites some."""
        store, texts = machine.store, machine.texts()
        nodes = sorted(node for node in texts if node in self.expected.living)
        if len(nodes) < 2:
            return
        older, newer = self.random.sample(nodes, 2)
        files = store.replica.memories()
        now = machine.now()
        actions: list[Action] = []
        for node, keys in (
            (older, {"superseded_by": newer, "valid_to": now.isoformat()}),
            (newer, {"supersedes": [older]}),
        ):
            data = store.replica.content(files[node].path) or b""
            from dreamd.store.okf import edit

            changed = edit(data, keys)
            actions.append(
                Action.replacing(files[node].path, node, data, changed, stage="drift", reason="a newer fact")
            )
        page = fact_id(CHANNEL, "profile topic")
        if page not in files:
            body = "\n".join(f"- {texts[node]}[^m{n}]" for n, node in enumerate(nodes[:3], 1))
            memory = Memory(
                node_id=page, level=Level.PROFILE, kind=Kind.PROFILE, title="Topic", text=body, channel=CHANNEL,
                created_at=now, sources=tuple(nodes[:3]), path=path_for(Level.PROFILE, "Topic", page, CHANNEL),
            )  # fmt: skip
            content = from_memory(memory, {node: files[node].path for node in nodes[:3]})
            actions.append(
                Action(
                    kind=ActionKind.CREATE,
                    path=memory.path or "",
                    node_id=page,
                    stage="profiles",
                    reason="a page",
                    content=content,
                    fingerprint="L3:page",
                )
            )
        run = f"{now:%Y%m%d-%H%M%S}-daily-{self.random.randrange(16**4):04x}"
        store.apply(Changeset(run_id=run, actions=tuple(actions)), kind="daily")

    def observe(self, machine: Machine) -> None:
        self.turn += 1
        name = f"session-{machine.name}"
        text = f"turn {self.turn} {self.words()}"
        head = SessionHead(name, CHANNEL, started_at=BEGIN)
        machine.store.observe(head, [NewTurn("user", text, machine.now(), f"{machine.name}{self.turn}")]).result()
        self.expected.turns.add((name, text))
        self._unsynced(machine, lambda: self.expected.turns.discard((name, text)))

    def undo(self, machine: Machine) -> None:
        runs = machine.store.runs(5, hidden=["purge", "link"])
        candidates = [run for run in runs if run.state == "applied"]
        if candidates:
            run = self.random.choice(candidates)
            changed = {change.node_id for change in machine.store.changes_of(run.run_id, 0, 500)}
            with suppress(StoreError):
                machine.store.undo(run.run_id)
            for node in changed:
                self.expected.unsay(node)

    def sync(self, machine: Machine) -> None:
        machine.store.settle_links()
        machine.sync()
        self.expected.unsynced.pop(machine.name, None)
        self.expected.forced.discard(machine.name)
        self.expected.only_there.pop(machine.name, None)

    def kill(self, machine: Machine) -> None:
        """Kill a machine somewhere in a sync, and start it again."""
        machine.store.settle_links()
        next(burning(machine), None)
        machine.fuse = self.random.randint(1, 40)
        with suppress(Killed):
            machine.sync()
        machine.fuse = None
        machine.known.close()
        machine.open_sync()

    def back_up(self, machine: Machine) -> None:
        """Copy a machine's folder."""
        machine.close()
        kept = self.folder / f"backup-{machine.name}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(machine.folder, kept)
        self.backups[machine.name] = kept
        self.expected.unsynced[machine.name], self.expected.since_backup[machine.name] = [], []
        machine.open()

    def put_back(self, machine: Machine) -> None:
        """Put a machine's folder back as it was; what it never told the others is lost with the disk."""
        kept = self.backups.get(machine.name)
        if kept is not None:
            machine.close()
            shutil.rmtree(machine.folder)
            shutil.copytree(kept, machine.folder)
            # Two faults at once: what a remote lost that only this machine could have written again.
            forced = self.expected.since_backup.get(machine.name, []) if machine.name in self.expected.forced else []
            for lost in (*self.expected.unsynced.pop(machine.name, []), *forced):
                lost()
            self.expected.only_there[machine.name] = list(self.expected.since_backup.get(machine.name, []))
            machine.open()

    def force_push(self, _: Machine) -> None:
        """Force a ref of the remote back, remove it, or put something else there."""
        self.expected.force([machine.name for machine in self.machines])
        found = self._remote("for-each-ref", "--format=%(refname)", "refs/dreamd").split()
        if found:
            ref = self.random.choice(found)
            what = self.random.choice(["back", "gone", "else"])
            if what == "gone":
                self._remote("update-ref", "-d", ref)
            elif what == "back":
                older = self._remote("rev-list", ref).split()
                self._remote("update-ref", ref, self.random.choice(older))
            else:
                tree = self._remote("mktree", given="")
                self._remote("update-ref", ref, self._remote("commit-tree", tree.strip(), "-m", "mine").strip())

    def forget_there(self, _: Machine) -> None:
        """Lose the whole remote."""
        self.expected.force([machine.name for machine in self.machines])
        shutil.rmtree(self.remote, ignore_errors=True)
        for machine in self.machines:
            machine.repository.make_folder()

    def _remote(self, *arguments: str, given: str | None = None) -> str:
        command = ["git", "--git-dir", str(self.remote), "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout

    def _own(self, machine: Machine) -> NodeId | None:
        nodes = sorted(node for node in machine.store.replica.memories() if node in self.expected.living)
        return self.random.choice(nodes) if nodes else None

    def _unsynced(self, machine: Machine, lost: Callable[[], Any]) -> None:
        self.expected.unsynced.setdefault(machine.name, []).append(lost)
        self.expected.since_backup.setdefault(machine.name, []).append(lost)

    # ---- the schedule

    CHANCES: Final = {
        "remember": 8, "say_again": 2, "edit": 4, "tag": 3, "by_hand": 2, "forget": 3, "purge": 1, "dream": 2,
        "observe": 4, "undo": 2, "sync": 9, "kill": 3, "force_push": 1, "back_up": 1, "put_back": 1,
        "forget_there": 0.3,
    }  # fmt: skip

    def run(self, steps: int) -> None:
        names, weights = list(self.CHANCES), list(self.CHANCES.values())
        for _ in range(steps):
            self.clock.tick()
            name, machine = self.random.choices(names, weights)[0], self.random.choice(self.machines)
            self.log.append(f"{name} {machine.name}")
            machine.store.settle(10)
            getattr(self, name)(machine)

    def settle(self) -> None:
        """Sync until nothing moves any more."""
        for _ in range(8):
            self.clock.tick()
            quiet = True
            for machine in self.machines:
                machine.store.settle_links()
                done = machine.sync()
                self.log.append(f"settle {machine.name} {done}")
                quiet = quiet and not (done.written or done.changed or done.read or done.turns)
            if quiet:
                return
        raise AssertionError(f"no end: {self.log[-9:]}")

    def problems(self) -> list[str]:
        """Return what is not as it must be."""
        first, *others = self.machines
        files, tombstones, turns = first.files(), first.tombstones(), first.turns()
        texts = first.texts()
        found = []
        for other in others:
            there = other.files()
            if there != files:
                differ = [node for node in {*files, *there} if files.get(node) != there.get(node)]
                found.append(f"{first.name} and {other.name} differ in {differ}")
            if other.tombstones() != tombstones:
                found.append(f"tombstones of {other.name} differ: {tombstones ^ other.tombstones()}")
            if other.turns() != turns:
                found.append(f"turns of {other.name} differ: {turns - other.turns()} {other.turns() - turns}")
        every = set(texts.values())
        found += [f"lost {node} {text!r}" for node, text in self.expected.living.items() if text not in every]
        found += [f"{node} is back" for node in self.expected.gone if node in texts]
        found += [f"purged text {text!r} is back" for text in self.expected.purged if text in every]
        found += [f"lost turn {turn}" for turn in self.expected.turns if turn not in turns]
        for machine in self.machines:
            if aside := [name for name in machine.known.aside() if not name.startswith("batch")]:
                found.append(f"{machine.name} set aside {aside}")
            if pending := machine.known.pending():
                found.append(f"{machine.name} waits for {pending}")
        return found

    def close(self) -> None:
        for machine in self.machines:
            machine.close()


__all__ = ["CHANNEL", "Killed", "Machine", "RemoteAway", "Schedule"]

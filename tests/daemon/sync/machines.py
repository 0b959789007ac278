"""Machines of one person for tests, each a real store with its syncing, their remote, and schedules of chance."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
from dreamd.daemon.sync import peer, segments
from dreamd.daemon.sync.entries import Known
from dreamd.daemon.sync.peer import Peer
from dreamd.daemon.sync.segments import Contended, RemoteAway, Repository, Sealer
from dreamd.daemon.sync.syncing import Outcome, Syncing
from dreamd.store import Selection
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine.database import tried_again
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
    StoreBusy,
    StoreError,
    Turn,
)
from dreamd.store.okf import edit, fact_id, from_memory, parse, path_for
from dreamd.store.settings import StoreSettings

BEGIN: Final = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
CHANNEL: Final = "kiln-1a2b3c"
SHARED_SESSION: Final = "session-of-all"
PURGED_WITHIN_S: Final = 30.0


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
        self.skew = skew
        self.fuse: int | None = None
        folder.mkdir(exist_ok=True)
        self.open()

    def now(self) -> datetime:
        return self._clock.now + self.skew

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
        self._keep_machine(self.machine)
        self.known = Known(folder / "known.db")
        self.repository = Repository(folder / "repository.git", str(self.remote))
        self.repository.prepare()
        self.repository.make_folder()
        self.peer = Peer(self.repository, Sealer(self.key), self.known, self.machine, self.name, self.now)
        self.syncing = Syncing(self.store, self.known, self.peer, lambda channel: channel in self.off, self.now)
        self.store.when_erased(self.syncing.note_erased)

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
        named = self.folder / "sync" / "machine"
        named.with_suffix(".new").write_text(machine)
        named.with_suffix(".new").replace(named)

    def files(self) -> dict[NodeId, bytes]:
        """Return the bytes of each memory's file."""
        self.store.settle(10)
        replica = self.store.replica
        return {node: replica.content(file.path) or b"" for node, file in replica.memories().items()}

    def texts(self) -> dict[NodeId, str]:
        return {node: parse(data).body.strip() for node, data in self.files().items()}

    def cited(self) -> dict[NodeId, list[str]]:
        """Return the texts of the turns that each memory cites."""
        texts, found = dict[tuple[str, str], str](), dict[NodeId, list[str]]()
        for path in self.sessions():
            texts |= {(path, turn.node_id): turn.text for turn in self.store.replica.session(path)[1]}
        for node, data in self.files().items():
            sources = parse(data).meta.get("sources")
            named = [
                (str(one["resource"]).removeprefix("/"), str(one["title"]))
                for one in sources or ()
                if "#" in one["title"]
            ]
            found[node] = [texts.get(one, f"nothing: {one}") for one in named]
        return found

    def turns(self) -> Counter[tuple[str, str]]:
        self.store.settle(10)
        replica = self.store.replica
        return Counter(
            (turn.session_id, turn.text) for path, _ in replica.sessions() for turn in replica.session(path)[1]
        )

    def sessions(self) -> dict[str, tuple[SessionHead, list[Turn]]]:
        """Return each session as its file is, but for the mark of a turn that a crash cut short."""
        self.store.settle(10)
        replica = self.store.replica
        read = {path: replica.session(path) for path, _ in replica.sessions()}
        return {
            path: (head, [replace(turn, offset=0, end=0) for turn in turns]) for path, (head, turns) in read.items()
        }

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


class Act(NamedTuple):
    """One thing that a person, an agent or a dream does on a machine: its name, and the values that it needs."""

    name: str
    values: tuple[Any, ...] = ()


def _remember(machine: Machine, text: str, channel: str) -> NodeId:
    return machine.store.remember(text, channel=channel).result()


def _edit(machine: Machine, node: NodeId, text: str) -> None:
    machine.store.edit(node, Edit(text=text))


def _tag(machine: Machine, node: NodeId, tag: str) -> None:
    machine.store.tag(node, add=[tag])


def _change_by_hand(machine: Machine, node: NodeId, text: str) -> None:
    """Change a file in an editor."""
    file = machine.store.replica.memories().get(node)
    if file is not None:
        path = machine.folder / "vault" / file.path
        path.write_bytes(path.read_bytes().rstrip(b"\n") + f"\n\n{text}\n".encode())
        machine.store.file_changed([file.path])


def _forget(machine: Machine, node: NodeId) -> Sequence[NodeId]:
    return (node, *machine.store.forget(node).also)


def _purge(machine: Machine, node: NodeId) -> str:
    text = machine.texts()[node]
    purge = partial(machine.store.purge, Selection(nodes=(node,)))
    # One that a kill broke off goes on at the start, and another is refused until it is through.
    tried_again(purge, lambda error: isinstance(error, StoreBusy), PURGED_WITHIN_S)
    return text


def _dream(machine: Machine, older: NodeId, newer: NodeId, cited: Sequence[NodeId], run: str) -> None:
    """Land what a dream plans: one fact replaces another, and a page cites some."""
    store, texts = machine.store, machine.texts()
    files = store.replica.memories()
    now = machine.now()
    actions: list[Action] = []
    for node, keys in (
        (older, {"superseded_by": newer, "valid_to": now.isoformat()}),
        (newer, {"supersedes": [older]}),
    ):
        data = store.replica.content(files[node].path) or b""
        changed = edit(data, keys)
        actions.append(Action.replacing(files[node].path, node, data, changed, stage="drift", reason="a newer fact"))
    page = fact_id(CHANNEL, "profile topic")
    if page not in files:
        body = "\n".join(f"- {texts[node]}[^m{n}]" for n, node in enumerate(cited, 1))
        memory = Memory(
            node_id=page, level=Level.PROFILE, kind=Kind.PROFILE, title="Topic", text=body, channel=CHANNEL,
            created_at=now, sources=tuple(cited), path=path_for(Level.PROFILE, "Topic", page, CHANNEL),
        )  # fmt: skip
        content = from_memory(memory, {node: files[node].path for node in cited})
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
    store.apply(Changeset(run_id=run, actions=tuple(actions)), kind="daily")


def _observe(machine: Machine, session: str, text: str, external_id: str) -> None:
    head = SessionHead(session, CHANNEL, started_at=BEGIN)
    machine.store.observe(head, [NewTurn("user", text, machine.now(), external_id)]).result()


def _learn(machine: Machine, session: str, text: str, run: str) -> tuple[NodeId, str] | None:
    """Land a fact that cites the last turn of a session, as a dream does."""
    path = machine.store.replica.session_path(session)
    if path is None or not (turns := machine.store.replica.session(path)[1]):
        return None
    node, turn = fact_id(CHANNEL, text), turns[-1]
    place = path_for(Level.FACT, text, node, CHANNEL)
    memory = Memory(
        node_id=node, level=Level.FACT, kind=Kind.FACT, title=text, text=text, channel=CHANNEL,
        created_at=machine.now(), session_id=session, sources=(turn.node_id,), path=place,
    )  # fmt: skip
    content = from_memory(memory, {turn.node_id: path})
    action = Action(
        kind=ActionKind.CREATE, path=place, node_id=node, stage="consolidate", reason="said", content=content,
        fingerprint=f"L1:{node}",
    )  # fmt: skip
    machine.store.apply(Changeset(run_id=run, actions=(action,)), kind="daily")
    return node, turn.text


def _undo(machine: Machine, run: str, changed: Collection[NodeId]) -> None:
    machine.store.undo(run)


def _sync(machine: Machine) -> None:
    machine.store.settle_links()
    machine.sync()


ACTS: Final[dict[str, Callable[..., Any]]] = {
    "remember": _remember, "say_again": _remember, "edit": _edit, "tag": _tag, "by_hand": _change_by_hand,
    "forget": _forget, "purge": _purge, "dream": _dream, "observe": _observe, "learn": _learn, "undo": _undo,
    "sync": _sync,
}  # fmt: skip


class Victim(NamedTuple):
    """What a process needs that holds a machine's store, does some acts there, and is killed in the middle of one.

    `fuse`: it ends itself at that step, counted in commits of its databases, files written, and programs started; None:
    it is killed from outside. `is_alone`: the programs that it has started live on.
    """

    folder: Path
    remote: Path
    key: str | None
    now: datetime
    skew: timedelta
    acts: Sequence[Act]
    seed: int
    fuse: int | None
    is_alone: bool


def _live_and_die(victim: Victim, told: Connection) -> None:
    """Do the acts of a victim, and tell of each when it begins and when it was acknowledged."""
    os.setsid()
    chance, left = random.Random(victim.seed), [0]
    segments.LOCK_OLD_S = 0.0  # type: ignore[misc]
    peer.new_machine_id = lambda: f"{chance.getrandbits(32):08x}"
    lock = threading.Lock()

    def tick(*_: Any) -> bool:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL) if victim.is_alone else os.killpg(0, signal.SIGKILL)
        return False

    def heard(event: str, values: tuple[Any, ...]) -> None:
        is_write = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
        if is_write or event in ("os.rename", "os.remove", "os.mkdir", "subprocess.Popen"):
            tick()

    apsw.connection_hooks.append(lambda connection: connection.set_commit_hook(tick))
    machine = Machine(victim.folder, victim.remote, victim.key, Clock(victim.now), victim.skew)
    told.send(("open", None))
    left[0] = victim.fuse or 0
    sys.addaudithook(heard)
    for act in victim.acts:
        told.send(("begun", None))
        with suppress(StoreError, KeyError):  # what an earlier act took away
            machine.store.settle(10)
            told.send(("done", ACTS[act.name](machine, *act.values)))
            continue
        told.send(("refused", None))
    os._exit(0)


_FORKED: Final = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["tests.daemon.sync.machines"])


def _differing(first: Machine, other: Machine) -> Iterator[tuple[str, object, object]]:
    """Yield the sessions that differ on two machines, as they are on each."""
    one, two = first.sessions(), other.sessions()
    for path in sorted(one.keys() | two.keys()):
        if one.get(path) != two.get(path):
            yield path, one.get(path), two.get(path)


@dataclass
class Expected:
    """What must be true of every machine in the end: texts that must be there, and ids that must not."""

    living: dict[NodeId, str] = field(default_factory=dict)
    gone: set[NodeId] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    turns: set[str] = field(default_factory=set)
    cited: dict[NodeId, str] = field(default_factory=dict)
    unsynced: dict[str, list[Callable[[], Any]]] = field(default_factory=dict)
    since_backup: dict[str, list[Callable[[], Any]]] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    only_there: dict[str, list[Callable[[], Any]]] = field(default_factory=dict)

    def force(self, machines: Collection[str]) -> None:
        """Note that the remote may have lost something: all that a machine put back has not read there again yet."""
        self.forced = set(machines)
        for lost in (one for some in self.only_there.values() for one in some):
            lost()

    def unsay(self, node: NodeId) -> None:
        """Expect nothing of a memory any more."""
        self.living.pop(node, None)
        self.gone.discard(node)

    def note(self, machine: str, act: Act, result: Any) -> None:
        """Note what follows from an act that was acknowledged."""
        match act:
            case Act("remember", (text, _)):
                self.living[result] = text
                self._unsynced(machine, lambda: self.unsay(result))
            case Act("say_again", (text, _)):
                self.gone.discard(result)
                self.purged.discard(text)
            case Act("edit" | "by_hand", (node, _)):
                self.unsay(node)
            case Act("forget" | "purge", (node,)):
                for one in result if act.name == "forget" else ():
                    self.unsay(one)
                self.unsay(node)
                self.gone.add(node)
                self._unsynced(machine, lambda: self.unsay(node))
                if act.name == "purge":
                    self.purged.add(result)
                    self._unsynced(machine, lambda: self.purged.discard(result))
            case Act("observe", (_, text, _)):
                self.turns.add(text)
                self._unsynced(machine, lambda: self.turns.discard(text))
            case Act("learn") if result:
                self.cited[result[0]] = result[1]
            case Act("undo", (_, changed)):
                for node in changed:
                    self.unsay(node)
            case Act("sync"):
                self.unsynced.pop(machine, None)
                self.forced.discard(machine)
                self.only_there.pop(machine, None)

    def doubt(self, act: Act) -> None:
        """Note an act in whose middle the process was killed: it may be done, or not."""
        match act:
            case Act("edit" | "by_hand" | "forget" | "purge", (node, *_)):
                self.unsay(node)
            case Act("undo", (_, changed)):
                for node in changed:
                    self.unsay(node)
            case Act("remember" | "say_again", (text, channel)):
                self.gone.discard(fact_id(channel, text))
                self.purged.discard(text)

    def _unsynced(self, machine: str, lost: Callable[[], Any]) -> None:
        self.unsynced.setdefault(machine, []).append(lost)
        self.since_backup.setdefault(machine, []).append(lost)


class Schedule:
    """A schedule of chance on three machines; `races`: at times they push without having read each other."""

    def __init__(self, folder: Path, seed: int, *, encrypted: bool | None = None, races: bool = False) -> None:
        self.chances = {**self.CHANCES, **self.RACES} if races else self.CHANCES
        self.random = random.Random(seed)
        self.clock = Clock()
        self.folder = folder
        self.remote = folder / "remote.git"
        self._patched = peer.new_machine_id, segments.LOCK_OLD_S
        segments.LOCK_OLD_S = 0.0  # type: ignore[misc] # no git lives on
        peer.new_machine_id = lambda: f"{self.random.getrandbits(32):08x}"  # a seed always leads to the same ids
        is_encrypted = self.random.random() < 0.5 if encrypted is None else encrypted
        key = Sealer.new_key() if is_encrypted else None
        skews = [timedelta(0), timedelta(hours=self.random.randint(-48, 48)), timedelta(minutes=7)]
        self.machines = [
            Machine(folder / name, self.remote, key, self.clock, skew) for name, skew in zip("abc", skews, strict=True)
        ]
        self.expected = Expected()
        self.backups: dict[str, Path] = {}
        self.log: list[str] = []
        self.said = 0
        self.turn = 0
        self.killed: Counter[str] = Counter()

    # ---- what may happen

    def words(self) -> str:
        self.said += 1
        syllables = ["ka", "lo", "mi", "tu", "re", "sa", "po", "ni", "ve", "du"]
        return " ".join("".join(self.random.choices(syllables, k=4)) for _ in range(4)) + f" q{self.said}x"

    def act(self, name: str, machine: Machine) -> Act | None:
        """Return an act with values of chance; None where there is nothing to do it to."""
        match name:
            case "remember":
                return Act(name, (self.words(), self.random.choice([CHANNEL, "_global"])))
            case "say_again":
                node = self._own(machine)
                file = machine.store.replica.memories()[node] if node else None
                return Act(name, (self.expected.living[node], file.channel)) if node and file else None
            case "edit" | "by_hand" | "tag" | "forget" | "purge":
                node = self._own(machine)
                if node is None or name in ("forget", "purge"):
                    return Act(name, (node,)) if node else None
                return Act(name, (node, self.random.choice(["red", "green"]) if name == "tag" else self.words()))
            case "dream":
                nodes = sorted(node for node in machine.store.replica.memories() if node in self.expected.living)
                if len(nodes) < 2:
                    return None
                run = f"{machine.now():%Y%m%d-%H%M%S}-daily-{self.random.randrange(16**4):04x}"
                return Act(name, (*self.random.sample(nodes, 2), nodes[:3], run))
            case "observe":
                self.turn += 1
                session = self.random.choice([f"session-{machine.name}", SHARED_SESSION])
                return Act(name, (session, f"turn {self.turn} {self.words()}", f"{machine.name}{self.turn}"))
            case "learn":
                run = f"{machine.now():%Y%m%d-%H%M%S}-daily-{self.random.randrange(16**4):04x}"
                return Act(name, (SHARED_SESSION, self.words(), run))
            case "undo":
                runs = machine.store.runs(5, hidden=["purge", "link"])
                candidates = [run.run_id for run in runs if run.state == "applied"]
                if not candidates:
                    return None
                run = self.random.choice(candidates)
                return Act(name, (run, {change.node_id for change in machine.store.changes_of(run, 0, 500)}))
            case _:
                return Act(name)

    def do(self, name: str, machine: Machine) -> None:
        """Do one act in this process."""
        act = self.act(name, machine)
        if act is not None:
            try:
                result = ACTS[name](machine, *act.values)
            except StoreError:
                if name != "undo":
                    raise
                self.expected.doubt(act)
            else:
                self.expected.note(machine.name, act, result)

    def kill_process(self, machine: Machine) -> None:
        """Have a process hold a machine's store and do some acts, and kill it (SIGKILL) in the middle of one."""
        names = list(ACTS)
        chances = [self.CHANCES[name] for name in names]
        acts = [self.act(name, machine) for name in self.random.choices(names, chances, k=self.random.randint(1, 6))]
        planned = [act for act in acts if act is not None]
        if not planned:
            return
        is_timed, is_alone = self.random.random() < 0.5, self.random.random() < 0.5
        seed, step, delay = self.random.getrandbits(32), self.random.randint(1, 120), self.random.uniform(0, 0.5)
        victim = Victim(
            machine.folder, self.remote, machine.key, self.clock.now, machine.skew, planned, seed,
            None if is_timed else step, is_alone,
        )  # fmt: skip
        machine.close()
        ours, theirs = _FORKED.Pipe(duplex=False)
        process = _FORKED.Process(target=_live_and_die, args=(victim, theirs), daemon=True)
        process.start()
        theirs.close()
        told: list[tuple[str, Any]] = []
        with suppress(EOFError):
            told.append(ours.recv())
            if is_timed and process.pid is not None:
                process.join(delay)
                with suppress(ProcessLookupError):
                    (os.kill if is_alone else os.killpg)(process.pid, signal.SIGKILL)
            while True:
                told.append(ours.recv())
        process.join()
        ours.close()
        with suppress(ProcessLookupError):  # a daemon that starts again syncs when a git of the one before has ended
            while process.pid is not None:
                os.killpg(process.pid, 0)
                time.sleep(0.01)
        done = [(kind, result) for kind, result in told if kind in ("done", "refused")]
        begun = sum(kind == "begun" for kind, _ in told)
        assert told, "it did not open"
        assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
        for act, (kind, result) in zip(planned, done, strict=False):
            if kind == "done":
                self.expected.note(machine.name, act, result)
            elif act.name == "undo":
                self.expected.doubt(act)
        if process.exitcode and begun > len(done):
            self.expected.doubt(planned[begun - 1])
            self.killed[planned[begun - 1].name] += 1
        self.log.append(f"  of {[act.name for act in planned]} {len(done)} done, {begun} begun ({process.exitcode})")
        machine.open()

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

    def race(self, _: Machine) -> None:
        """Have machines sync at once: each has read before any other has pushed."""
        racing = self.random.sample(self.machines, k=self.random.randint(2, 3))
        for machine in racing:
            machine.store.settle_links()
            machine.peer.push = lambda: False  # type: ignore[method-assign]
            machine.sync()
            del machine.peer.push
        for machine in racing:
            with suppress(Contended):  # two bring back the same segment, which the remote lost
                machine.peer.push()
                self.expected.note(machine.name, Act("sync"), None)

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

    # ---- the schedule

    CHANCES: Final = {
        "remember": 8, "say_again": 2, "edit": 4, "tag": 3, "by_hand": 2, "forget": 3, "purge": 1, "dream": 2,
        "observe": 5, "learn": 2, "undo": 2, "sync": 9, "kill": 3, "kill_process": 3, "force_push": 1, "back_up": 1,
        "put_back": 1, "forget_there": 0.3,
    }  # fmt: skip

    RACES: Final = {"race": 6, "observe": 9, "learn": 4}
    """Other chances where machines race: of sessions that go on on all of them."""

    def run(self, steps: int) -> None:
        names, weights = list(self.chances), list(self.chances.values())
        for _ in range(steps):
            self.clock.tick()
            name, machine = self.random.choices(names, weights)[0], self.random.choice(self.machines)
            self.log.append(f"{name} {machine.name}")
            machine.store.settle(10)
            self.do(name, machine) if name in ACTS else getattr(self, name)(machine)

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
        files, tombstones = first.files(), first.tombstones()
        turns, cited = {text for _, text in first.turns()}, first.cited()
        texts = first.texts()
        found = []
        for other in others:
            there = other.files()
            if there != files:
                differ = [node for node in {*files, *there} if files.get(node) != there.get(node)]
                found.append(f"{first.name} and {other.name} differ in {differ}")
            if other.tombstones() != tombstones:
                found.append(f"tombstones of {other.name} differ: {tombstones ^ other.tombstones()}")
            found += [f"{path} of {other.name} differs: {one}, {two}" for path, one, two in _differing(first, other)]
        every = set(texts.values())
        found += [f"lost {node} {text!r}" for node, text in self.expected.living.items() if text not in every]
        found += [f"{node} is back" for node in self.expected.gone if node in texts]
        found += [f"purged text {text!r} is back" for text in self.expected.purged if text in every]
        found += [f"lost turn {turn}" for turn in self.expected.turns if turn not in turns]
        found += [f"turn {turn} is there twice" for (_, turn), n in first.turns().items() if n > 1]
        found += [
            f"{node} cites {cited[node]}, and not {text!r}"
            for node, text in self.expected.cited.items()
            if cited.get(node, [text]) != [text]
        ]
        for machine in self.machines:
            if aside := [name for name in machine.known.aside() if not name.startswith("batch")]:
                found.append(f"{machine.name} set aside {aside}")
            if pending := machine.known.pending():
                found.append(f"{machine.name} waits for {pending}")
        return found

    def close(self) -> None:
        peer.new_machine_id, segments.LOCK_OLD_S = self._patched  # type: ignore[misc]
        for machine in self.machines:
            machine.close()


__all__ = ["CHANNEL", "Killed", "Machine", "RemoteAway", "Schedule"]

"""Undo, against a model: any run, in any order, among edits by hand, and the index says what the files say."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.tombstones import edit_key, fingerprint
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, Kind, Level, Memory, Status
from dreamd.store.settings import StoreSettings
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NAMES = ("ash", "birch", "cedar", "dogwood")
TEXTS = ("grows by the river", "was planted in March", "has lost its leaves", "is 12 metres high")
SETTLED_S = 60.0
"""A store of its own settles in milliseconds, where the machine is busy in seconds."""

EDITED = b"---\ntype: Note\n---\n\nSomebody wrote this instead.\n"


def memory(name: str, text: str, cites: tuple[str, ...], archived: bool) -> Memory:
    """A fact, or a scenario that rests on others."""
    level, folder = (Level.SCENARIO, "scenarios") if cites else (Level.FACT, "facts")
    return Memory(
        node_id=name, level=level, kind=Kind.SCENARIO if cites else Kind.FACT, title=name, text=f"The {name} {text}",
        channel="wood", created_at=NOW, sources=cites, path=f"{folder}/{name}.md",
        status=Status.DEPRECATED if archived else Status.STABLE, archived_at=NOW if archived else None,
    )  # fmt: skip


@dataclass
class Run:
    """What a run did, as the model knows it: of each path how it was, and how it was left."""

    run_id: str
    chains: dict[str, tuple[bytes | None, bytes | None]]
    marks: dict[str, list[str]] = field(default_factory=dict)
    is_undone: set[str] = field(default_factory=set)


wanted = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.one_of(
            st.none(),
            st.tuples(st.sampled_from(TEXTS), st.lists(st.sampled_from(NAMES), max_size=2, unique=True), st.booleans()),
        ),
    ),
    min_size=1,
    max_size=4,
)


class Undoing(RuleBasedStateMachine):
    """Dreams, edits by hand and undos at random, on a real store and on a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="dreamd-undo-")  # gone with us, whatever fails
        root = Path(self.folder.name)
        paths = StorePaths(root / "vault", root / "l.db", root / "i.db", root / "e.db", root / "runs")
        self.store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
        self.files: dict[str, bytes] = {}
        self.places: dict[str, str] = {}
        self.runs: list[Run] = []
        self.forbidden: set[str] = set()

    def teardown(self) -> None:
        try:
            held = index_of(self.store)
            self.store.rebuild()
            assert index_of(self.store) == held
        finally:
            self.store.close()
            self.folder.cleanup()

    @initialize(text=st.sampled_from(TEXTS))
    def begin(self, text: str) -> None:
        self.store.remember(f"A note: it {text}", channel="wood").result()
        assert self.store.settle_links(SETTLED_S)  # what is dreamt next is not there yet: it has no kin
        self.files = vault_files(self.store)

    @rule(wanted=wanted)
    def dream(self, wanted: list[tuple[str, Any]]) -> None:
        run = Run(f"run-{len(self.runs)}", {})
        now, planned = dict(self.files), dict(self.files)  # as it becomes, and as the run believes that it does
        actions, expected = [], 0
        for name, what in wanted:
            new = memory(name, what[0], tuple(n for n in what[1] if n != name), what[2]) if what else None
            path = new.path if new else self.places.get(name, f"facts/{name}.md")
            if self.places.get(name, path) != path:
                continue  # one node has one file: of two, an undo could bring back the one that a rebuild reads first
            before, after = planned.get(path), okf.from_memory(new) if new else None
            if before == after:
                continue
            self.places[name] = path
            action = action_of(path, name, before, after, fingerprint(new) if new else None)
            actions.append(action)
            put(planned, path, after)
            marks = {mark for mark in (action.fingerprint, edit_key(path, before, after)) if mark}
            # What the model holds for refused is left out by the store; later ones on its path fail their guard.
            if marks & self.forbidden or now.get(path) != before:
                continue
            expected += 1
            run.chains[path] = (run.chains[path][0] if path in run.chains else before, after)
            run.marks.setdefault(path, []).extend(marks)
            put(now, path, after)
        applied = self.store.apply(Changeset(run_id=run.run_id, actions=tuple(actions)), started_at=NOW)
        assert applied.applied == expected
        for path, (_, after) in run.chains.items():
            put(self.files, path, after)
        self.runs.append(run)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), gone=st.booleans())
    def edit_by_hand(self, data: st.DataObject, gone: bool) -> None:
        path = data.draw(st.sampled_from(sorted(self.files)))
        put(self.files, path, None if gone else EDITED)
        full = self.store.paths.vault / path
        if gone:
            full.unlink()
        else:
            full.write_bytes(EDITED)
        self.store.file_changed([path])
        self.store.settle_deletions()
        self.forbidden |= self.store.ledger.tombstones()  # what is deleted by hand is as if forgotten

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.runs))
        chains = {path: chain for path, chain in run.chains.items() if path not in run.is_undone}
        refused = {path for path, (_, left) in chains.items() if self.files.get(path) != left}
        made = {path for path, (was, _) in chains.items() if was is None}
        while more := {p for p in made - refused if self.citing(p) - (chains.keys() - refused) - {p}}:
            refused |= more
        undone = self.store.undo(run.run_id)
        assert {refusal.path for refusal in undone.skipped} == refused
        assert undone.restored == len(chains) - len(refused)
        for path in chains.keys() - refused:
            put(self.files, path, chains[path][0])
            run.is_undone.add(path)
            self.forbidden |= set(run.marks[path])

    def citing(self, path: str) -> set[str]:
        """The living files that rest on the node of a path."""
        node_id = Path(path).stem
        found = {other: okf.to_memory(other, okf.parse(data)) for other, data in self.files.items()}
        return {o for o, m in found.items() if node_id in m.sources and m.status is not Status.DEPRECATED}

    @invariant()
    def the_vault_is_as_the_model(self) -> None:
        assert vault_files(self.store) == self.files


def action_of(path: str, name: str, before: bytes | None, after: bytes | None, mark: str | None) -> Action:
    kind = ActionKind.CREATE if before is None else ActionKind.REPLACE if after else ActionKind.DELETE
    return Action(
        kind=kind, path=path, node_id=name, stage="planted", reason="r", content=after, fingerprint=mark,
        pre_sha256=None if before is None else sha256(before).hexdigest(),
    )  # fmt: skip


def put(files: dict[str, bytes], path: str, data: bytes | None) -> None:
    if data is None:
        files.pop(path, None)
    else:
        files[path] = data


def vault_files(store: MemoryStore) -> dict[str, bytes]:
    root = store.paths.vault
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


def index_of(store: MemoryStore) -> dict[str, Any]:
    """Everything that the index holds of the vault, without when it was looked at."""
    assert store.settle(SETTLED_S)
    store.operations.queue.drain()  # vectors come later; what they find is compared too
    nodes = store.catalog.listing()
    return {
        "nodes": {node.node_id: node._replace(ordinal=0) for node in nodes},
        "links": {n.node_id: [store.catalog.links(n.node_id, kind) for kind in ("cites", "supersedes")] for n in nodes},
        "files": sorted(store.catalog.files()),
        "problems": store.catalog.problems(),
        "found": [hit.node_id for hit in store.recall("the ash birch cedar dogwood", channel="wood", limit=50).hits],
    }


QUICKLY = tuple(phase for phase in Phase if phase is not Phase.explain)  # it traces every line: four times as long
Undoing.TestCase.settings = settings(
    max_examples=examples(25),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=QUICKLY,
)
TestUndoing = Undoing.TestCase

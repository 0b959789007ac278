"""The gate refuses what damages the memory and lets pass what does not; a dream with a sick stage does the rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import SessionRead
from dreamd.pipelines.dream import dream
from dreamd.pipelines.gate import gate, probes
from dreamd.pipelines.gate.probes import ProbeCase, Score
from dreamd.pipelines.gate.shadow_index import ShadowIndex
from dreamd.pipelines.messages import Done, read_changeset
from dreamd.pipelines.settings import GateSettings, PipelineSettings, Stage
from dreamd.pipelines.workspace.proposals import Proposals
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Action, ActionKind, Level, Memory, Status
from dreamd.store.okf.memory_file import body_hash
from dreamd.store.settings import StorePaths

from tests.pipelines.fakes import NOW, SETTINGS, plant_steps, request_of

PIPELINES = PipelineSettings(gate=GateSettings(probes=60))
FORTNIGHT = sorted((Path(__file__).parents[3] / "examples" / "fortnight").glob("*.jsonl"))
NOTES = [
    f"The {thing} of the {place} is kept by {who}"
    for thing, who in (("key", "Ines"), ("spare battery", "Priya"), ("blue ladder", "Marek"), ("invoice book", "Tom"))
    for place in ("workshop", "harbour office", "old mill", "attic studio")
]
NEWER = "The blue ladder of the attic studio is kept by Aurelia now"

Plan = Callable[[View, random.Random], Iterator[Action]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> StorePaths:
    """Give a store with two weeks of sessions, a night of facts drawn from them, and notes that rest on no turn."""
    root = tmp_path_factory.mktemp("gate")
    paths = StorePaths(root / "vault", root / "ledger.db", root / "index.db", root / "vectors.db", root / "runs")
    store = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)
    for path in FORTNIGHT:
        for item in read(path, None):
            assert isinstance(item, SessionRead)
            store.observe(replace(item.head, channel="spokes"), item.turns).result()
    store.operations.linker.stop()  # the planted stages do what it would do at once
    for note in [*NOTES, NEWER]:
        store.remember(note, channel="spokes").result()
    store.settle(60)
    switches = PIPELINES.stages | {Stage.DRIFT: False}  # nor by this dream
    unlinked = PipelineSettings(stages=switches, gate=GateSettings(probes=20))
    done = dream(request_of(paths, "a-night-long-ago", NOW - timedelta(days=60), pipelines=unlinked), lambda _: None)
    assert done.changeset_path is not None
    store.apply(read_changeset(done.changeset_path))
    for memory in store.list(channel="spokes", level=Level.FACT, limit=5):
        store.recall(memory.title, channel="spokes", levels=[Level.FACT], limit=1)
    store.rebuild()
    store.close()
    return paths


def dreamt_with(
    plan: Plan, paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 7
) -> tuple[Done, list[Action]]:
    """Have a dream with one planted stage between two honest ones."""

    def planted(view: View, now: datetime) -> Proposals:
        return Proposals(list(plan(view, random.Random(seed))), {("planted", "s"): 9}, {"things": 1})

    def honest(view: View, now: datetime) -> Proposals:
        return Proposals(list(reinforce(view, random.Random(1))))

    plant_steps(monkeypatch, (Stage.DRIFT, "planted", planted), (Stage.LINT, "honest", honest))
    request = request_of(replace(paths, runs=tmp_path), "tonight", NOW + timedelta(days=1), pipelines=PIPELINES)
    done = dream(request, lambda _: None)
    return done, list(read_changeset(done.changeset_path).actions) if done.changeset_path else []


def rewritten(view: View, memory: Memory, **changes: object) -> Action:
    data = view.read(memory.path)
    assert data is not None
    whole = okf.to_memory(memory.path, okf.parse(data))
    changed = replace(whole, **changes)  # type: ignore[arg-type]
    content = okf.from_memory(replace(changed, extra={**changed.extra, "body_sha256": body_hash(changed.text)}))
    return Action(
        kind=ActionKind.REPLACE,
        path=memory.path,
        node_id=memory.node_id,
        stage="planted",
        reason="planted",
        pre_sha256=sha256(data).hexdigest(),
        content=content,
    )


def facts(view: View, rng: random.Random) -> list[Memory]:
    found = [memory for memory in view.memories(Level.FACT) if memory.sources]
    rng.shuffle(found)
    return found


def notes(view: View) -> list[Memory]:
    return [memory for memory in view.memories(Level.FACT) if not memory.sources]


# -- stages that damage


def merge_at_random(view: View, rng: random.Random) -> Iterator[Action]:
    some = sorted(facts(view, rng)[:40], key=lambda memory: memory.created_at or NOW)
    for old, new in zip(some[:20], some[20:], strict=True):
        yield rewritten(view, old, superseded_by=new.node_id, valid_to=NOW)


def archive_what_is_used(view: View, rng: random.Random) -> Iterator[Action]:
    for node_id in sorted(view.history.usage):
        memory = view.memory(node_id)
        if memory is not None and memory.level is Level.FACT:
            yield rewritten(view, memory, status=Status.DEPRECATED, archived_at=NOW)


def archive_notes_that_nobody_read_yet(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in notes(view)[:4]:
        yield rewritten(view, memory, status=Status.DEPRECATED, archived_at=NOW)


def archive_half_of_it(view: View, rng: random.Random) -> Iterator[Action]:
    some = facts(view, rng)
    for memory in some[: len(some) // 2]:
        yield rewritten(view, memory, status=Status.DEPRECATED, archived_at=NOW)


def newer_gives_way_to_older(view: View, rng: random.Random) -> Iterator[Action]:
    some = sorted(facts(view, rng), key=lambda memory: memory.created_at or NOW)
    for old, new in zip(some[:5], some[-5:], strict=True):
        yield rewritten(view, new, superseded_by=old.node_id, valid_to=NOW)


def strip_the_substance(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in facts(view, rng)[:5]:
        yield rewritten(view, memory, text="Something was said.")


def swap_words(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in facts(view, rng)[:5]:
        words = memory.text.split()
        yield rewritten(view, memory, text=" ".join([*words[1:], words[0]]))


def delete(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in facts(view, rng)[:3]:
        yield replace(rewritten(view, memory), kind=ActionKind.DELETE, content=None)


def rewrite_profiles(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in view.memories(Level.PROFILE):
        whole = view.memory(memory.node_id)
        assert whole is not None
        words = whole.text.split(" ")
        rng.shuffle(words)
        yield rewritten(view, memory, text=" ".join(words))


def take_evidence(view: View, rng: random.Random) -> Iterator[Action]:
    some = facts(view, rng)[:10]
    for memory, other in pairwise(some):
        yield rewritten(view, memory, sources=other.sources)


def move_to_another_project(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in facts(view, rng)[:3]:
        yield rewritten(view, memory, channel="elsewhere")


def rewrite_what_was_said(view: View, rng: random.Random) -> Iterator[Action]:
    session = view.sessions()[0]
    data = view.read(session.path)
    assert data is not None
    yield Action(
        kind=ActionKind.REPLACE, path=session.path, node_id=session.session_id, stage="planted", reason="planted",
        pre_sha256=sha256(data).hexdigest(), content=data[: len(data) // 2],
    )  # fmt: skip


def invent(view: View, rng: random.Random) -> Iterator[Action]:
    for n, memory in enumerate(facts(view, rng)[:6]):
        text = f"Ines promised {40 + n} new windmills to the mayor of Lisbon"
        node_id = okf.fact_id(memory.channel, text)
        new = replace(memory, node_id=node_id, text=text, title=text, path=f"facts/{node_id}.md")
        yield Action(
            kind=ActionKind.CREATE, path=new.path, node_id=node_id, stage="planted", reason="planted",
            content=okf.from_memory(new),
        )  # fmt: skip


HARMFUL = [
    merge_at_random, archive_what_is_used, archive_notes_that_nobody_read_yet, archive_half_of_it,
    newer_gives_way_to_older, strip_the_substance, swap_words, delete, rewrite_profiles, take_evidence,
    move_to_another_project, rewrite_what_was_said, invent,
]  # fmt: skip


@pytest.mark.parametrize("plan", HARMFUL, ids=lambda plan: plan.__name__)
def test_a_harmful_stage_is_dropped_and_the_others_are_kept(
    plan: Plan, paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, actions = dreamt_with(plan, paths, tmp_path, monkeypatch)
    gate = done.report["gate"]
    assert [dropped["stage"] for dropped in gate["dropped"]] == ["planted"], gate
    assert {action.reason for action in actions} == {"said again"}
    assert read_changeset(tmp_path / "tonight" / "changeset.jsonl").cursors == {}
    assert done.report["stages"]["planted"].keys() == {"refused"}
    assert gate["recall_after"] >= gate["recall_before"]
    assert gate["dropped"][0]["reason"] in done.digest


# -- stages that do not


def reinforce(view: View, rng: random.Random) -> Iterator[Action]:
    """Let a fact rest on the same turn of its own session that states it, told by another id."""
    paths = view.session_paths()
    for memory in facts(view, random.Random(3))[:4]:
        data = view.read(memory.path)
        assert data is not None
        entries = [*okf.parse(data).meta["sources"]]
        session_id = memory.sources[0].partition("#")[0]
        others = [turn.node_id for turn in view.turns(session_id) if memory.text.split()[-1] in turn.text]
        fresh = [turn for turn in others if turn not in memory.sources][:1]
        entries += [{"id": "t9", "resource": f"/{paths[session_id]}", "title": turn} for turn in fresh]
        yield replace(
            rewritten(view, memory), reason="said again", content=okf.edit(data, {"sources": entries, "tags": ["x"]})
        )


def nothing(view: View, rng: random.Random) -> Iterator[Action]:
    yield from ()


def archive_two_that_nobody_used(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in [memory for memory in facts(view, rng) if memory.node_id not in view.history.usage][:2]:
        yield rewritten(view, memory, status=Status.DEPRECATED, archived_at=NOW)


def a_newer_note_of_the_same(view: View, rng: random.Random) -> Iterator[Action]:
    new = next(memory for memory in notes(view) if memory.text == NEWER)
    old = next(memory for memory in notes(view) if "blue ladder of the attic studio" in memory.text and memory != new)
    yield rewritten(view, old, superseded_by=new.node_id, valid_to=NOW)
    yield rewritten(view, new, supersedes=(old.node_id,), valid_from=NOW)


def other_formatting(view: View, rng: random.Random) -> Iterator[Action]:
    for memory in facts(view, rng)[:20]:
        yield rewritten(view, memory, text=f"- **{memory.text}**")


@pytest.mark.parametrize(
    "plan",
    [nothing, archive_two_that_nobody_used, a_newer_note_of_the_same, other_formatting],
    ids=lambda p: p.__name__,
)
def test_a_harmless_stage_passes(
    plan: Plan, paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, _ = dreamt_with(plan, paths, tmp_path, monkeypatch)
    assert done.report["gate"]["dropped"] == ()
    assert done.report["gate"]["probes"] >= 40


@pytest.mark.parametrize("firm_before", [True, False])
def test_a_made_up_question_counts_where_it_found_firmly(
    firm_before: bool, paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question finds no more once the stage is tried: that counts unless it stood at the edge of the hits."""
    texts: list[str] = []

    def ask(shadow: ShadowIndex, case: ProbeCase) -> Score:
        texts.append(case.probe.text)
        if case.probe.text != texts[0]:
            return probes.ask(shadow, case)
        is_first = texts.count(texts[0]) == 1
        return replace(probes.ask(shadow, case), recall=float(is_first), is_firm=firm_before)

    monkeypatch.setattr(gate, "ask", ask)
    done, _ = dreamt_with(other_formatting, paths, tmp_path, monkeypatch)
    assert ("planted" in [dropped["stage"] for dropped in done.report["gate"]["dropped"]]) == firm_before


def test_the_checks_say_what_the_gate_saw(paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold the results of after the stage."""
    scores: dict[str, Score] = {}

    def ask(shadow: ShadowIndex, case: ProbeCase) -> Score:
        score = replace(probes.ask(shadow, case), coverage=0.9 if case.probe.text in scores else 1.0)
        return scores.setdefault(case.probe.text, score) if case.probe.text not in scores else score

    monkeypatch.setattr(gate, "ask", ask)
    done, _ = dreamt_with(other_formatting, paths, tmp_path, monkeypatch)
    assert done.checks
    foreseen = [check.foreseen for check in done.checks]
    assert all(one and (one.recall, one.coverage) == (1.0, 0.9) for one in foreseen)


# -- stages of which a part damages


@pytest.mark.parametrize(("spoiling", "most_refused"), [(1, 2), (15, 20)])
def test_only_the_actions_behind_worse_answers_are_refused_unless_they_are_many(
    spoiling: int, most_refused: int, paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoils: set[str] = set()

    def reformat_twenty(view: View, rng: random.Random) -> Iterator[Action]:
        actions = list(other_formatting(view, rng))
        spoils.update(action.path for action in actions[:spoiling])
        yield from actions

    def ask(shadow: ShadowIndex, case: ProbeCase) -> Score:
        """Ask, and find nothing of half the questions while a spoiling file is overlaid, whose node is shown."""
        score = probes.ask(shadow, case)
        overlaid = [path for path in spoils if b"- **" in (shadow.read(path) or b"")]
        if not overlaid or len(case.probe.text) % 2:
            return score
        shown = {node.node_id for path in overlaid for node in shadow.catalog.nodes_of_file(path)}
        return replace(score, recall=0.0, shown=score.shown ^ shown)

    monkeypatch.setattr(gate, "ask", ask)
    done, actions = dreamt_with(reformat_twenty, paths, tmp_path, monkeypatch)
    [dropped] = done.report["gate"]["dropped"]
    kept = {action.path for action in actions if action.reason == "planted"}
    assert spoiling <= dropped["actions"] <= most_refused
    assert (len(kept), dropped["of"]) == (20 - dropped["actions"], 20)
    assert not kept & spoils
    assert done.report["gate"]["recall_after"] == done.report["gate"]["recall_before"]
    assert (
        f"{'everything' if not kept else f'{20 - len(kept)} of 20 changes'} that the step “planted” proposed"
        in done.digest
    )

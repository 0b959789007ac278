"""Whole dreams on a real store: planned on a copy, applied, looked at, undone; and the child that has them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from dreamd.llm.budget import Asker
from dreamd.llm.settings import LlmSettings
from dreamd.pipelines import messages as protocol
from dreamd.pipelines.dream import dream
from dreamd.pipelines.messages import SPENT, Done, Failed, Progress, read_changeset
from dreamd.pipelines.workspace.snapshot import Snapshot
from dreamd.store import okf
from dreamd.store.channel import channel_of_folder, project_root
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Kind, Level, NewTurn, SessionHead
from dreamd.store.okf.file import conformance
from dreamd.store.settings import EmbeddingSettings, StorePaths

from tests.llm.scripted import ScriptedModel
from tests.pipelines.fakes import NOW, SETTINGS, request_of

SAID = (
    ("user", "I prefer pnpm over npm in this repository."),
    ("assistant", "Noted. I've updated package.json to use pnpm."),
    ("user", "We decided to use Postgres 16 for the billing service. My password=hunter2secret stays out."),
    ("user", "Lukas takes over the on-call rota from Ines on 1 October."),
    ("user", "always squash before merging, one commit per ticket"),
    ("user", "no ORM please, I prefer plain SQL because I can read the plan"),
)


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return StorePaths(
        tmp_path / "vault", tmp_path / "ledger.db", tmp_path / "index.db", tmp_path / "vectors.db", tmp_path / "runs"
    )


@pytest.fixture
def store(paths: StorePaths) -> Iterator[MemoryStore]:
    opened = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)
    head = SessionHead("s1", "shop", started_at=NOW - timedelta(hours=9))
    said = [
        NewTurn(role, text, NOW - timedelta(hours=9) + timedelta(minutes=n), f"m{n}")
        for n, (role, text) in enumerate(SAID)
    ]
    opened.observe(head, said).result()
    opened.recall("pnpm")  # what was acknowledged is indexed
    yield opened
    opened.close()


@pytest.mark.parametrize(("spent", "asked"), [({}, 3), ({"calls_spent": 2}, 1), ({"calls_spent": 9}, 0)])
def test_the_models_allowance_is_shared_by_the_dreams_of_a_day(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch, spent: dict[str, int], asked: int
) -> None:
    model = ScriptedModel(lambda prompt: {"facts": [], "claims": []})
    scripted = lambda settings, allowance, known: (Asker(model, settings, allowance), "")  # noqa: E731
    monkeypatch.setattr("dreamd.pipelines.dream.asker_for", scripted)
    llm = LlmSettings(calls_per_day=3, context_tokens=700, answer_tokens=64)  # a turn a call
    request = request_of(paths, "r1").model_copy(update={"llm": llm, **spent})
    said: list[Progress] = []
    done = dream(request, said.append)
    assert len(model.prompts) == done.report["calls"] == said[-1].calls == asked
    assert json.loads((request.folder / SPENT).read_text()) == {"calls": asked, "tokens": said[-1].tokens}
    assert "calls are used up" in done.report["without_model"]


RULES_OF_INVOICES = (
    "Invoices of more than 500 euros are always signed by Petra, never by me alone.",
    "We decided that invoices are paid on Fridays, because the bank books on Mondays.",
    "Please never send an invoice by mail, the club wants them on paper.",
)


def test_a_model_is_asked_what_to_keep_what_changes_and_what_came_of_it(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "Postgres 16 for the billing service"
    model = ScriptedModel(lambda prompt: {"facts": [], "relations": [], "claims": [], "sentences": [], "name": name})
    monkeypatch.setattr("dreamd.pipelines.dream.asker_for", lambda llm, left, known: (Asker(model, llm, left), ""))
    for day, text in enumerate(
        ("The invoices are in the blue folder.", "The invoices of the club are in the green box in the cellar.")
    ):
        at = NOW - timedelta(days=2 - day)
        said = (text, *RULES_OF_INVOICES) if day else (text,)
        turns = [NewTurn("user", one, at) for one in said]
        store.observe(SessionHead(f"rota-{day}", "shop", started_at=at), turns).result()
    store.list()
    done = dream(request_of(paths, "run-1"), lambda _: None)
    for begins in ("Copy from the record", "Below are statements that were said earlier", "what came of it"):
        assert any(begins in prompt for prompt in model.prompts), begins
    assert done.report["stages"]["consolidate"]["facts"] >= 4  # found without it


def test_the_folder_of_a_channel_is_where_its_sessions_ran(
    store: MemoryStore, paths: StorePaths, tmp_path: Path
) -> None:
    folder = tmp_path / "kettle"
    (folder / "src").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    channel = channel_of_folder(folder)
    for number, cwd in enumerate([str(folder / "src"), str(folder / "gone"), str(tmp_path), None]):
        head = SessionHead(f"k{number}", channel, started_at=NOW + timedelta(minutes=number), cwd=cwd)
        store.observe(head, [NewTurn("user", "I keep the kettle in src/kettle.py.", NOW, "k")]).result()
    store.list()
    request = request_of(paths, "run-1")
    snapshot = Snapshot(request.folder, paths.vault, paths.index, paths.ledger)
    try:
        assert snapshot.folders(channel) == [folder / "src"]
        assert snapshot.folders("shop") == []
    finally:
        snapshot.close()
    assert project_root(folder / "src") == folder


def test_terminal_control_sequences_reach_neither_memories_nor_pages(store: MemoryStore, paths: StorePaths) -> None:
    """Neither by the store's doors nor from a file that somebody put there."""
    evil = "the staging \x1b]0;owned\x07 database\x9b2J of\x07 Assam\u202e is on db3, not db1.\x1b[31m"
    store.observe(SessionHead("e1", "shop", title=f"T {evil}"), [NewTurn("user", evil, NOW, "e")]).result()
    store.remember(f"Remember that {evil}", channel="shop").result()
    (paths.vault / "note.md").write_text(f"---\ntype: Note\nchannel: shop\n---\nWe decided: {evil}\n")
    store.reconcile()
    store.settle()
    done = dream(request_of(paths, "run-1"), lambda at: None)
    assert done.changeset_path is not None
    store.apply(read_changeset(done.changeset_path))
    written = [data.decode() for path, data in vault_files(paths).items() if path != "note.md"]
    assert any("Assam" in text for text in written)
    assert "Assam" in done.digest
    for text in (*written, *done.derived.values()):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    for text in done.derived.values():
        assert "\u202e" not in text


def test_a_dream_builds_nothing_on_what_waits_for_review_and_says_so(store: MemoryStore, paths: StorePaths) -> None:
    waits = "We decided to use the harbour registry for the billing service instead of Postgres 16."
    kept = store.keep(waits, kind=Kind.DECISION, channel="shop", agent_id="cursor").result()
    assert kept.waits
    store.settle()
    done = dream(request_of(paths, "run-1"), lambda at: None)
    assert done.changeset_path is not None
    store.apply(read_changeset(done.changeset_path))
    holding = [
        data for path, data in vault_files(paths).items() if b"level: L1" not in data and path.startswith("projects/")
    ]
    assert any(b"Postgres 16" in data for data in holding)
    assert not any(b"harbour" in data for data in holding)
    assert "1 note of your agents waits for `dreamctl review`" in done.digest
    assert [one.node_id for one in store.waiting()] == [kept.node_id]


def vault_files(paths: StorePaths) -> dict[str, bytes]:
    return {str(path.relative_to(paths.vault)): path.read_bytes() for path in paths.vault.rglob("*.md")}


def test_a_dream_is_planned_applied_and_undone(store: MemoryStore, paths: StorePaths) -> None:
    before = vault_files(paths)
    told: list[Progress] = []
    done = dream(request_of(paths, "run-1"), told.append)
    assert vault_files(paths) == before
    assert done.changeset_path is not None
    changeset = read_changeset(done.changeset_path)
    applied = store.apply(changeset)
    assert applied.skipped == ()
    assert applied.applied == len(changeset.actions) >= 3

    hits = store.recall("Postgres for the billing service", channel="shop", levels=[Level.FACT]).hits
    (hit,) = [hit for hit in hits if "Postgres 16" in hit.text]
    assert hit.evidence[0].external_id == "m2"
    assert "hunter2secret" not in str(vault_files(paths))
    assert {progress.stage for progress in told} >= {"consolidate", "scenarios", "profiles", "lint"}
    assert done.report["did_nothing"] is False
    assert done.report["stages"]["consolidate"]["facts"] >= 3
    for path, data in vault_files(paths).items():
        assert conformance(path, data) == []

    again = dream(request_of(paths, "run-2"), told.append)
    assert again.changeset_path is None
    assert again.report["did_nothing"] is True
    assert "nothing to change" in again.digest
    assert again.derived == {}

    assert store.undo("run-1").skipped == ()
    assert vault_files(paths) == before
    third = dream(request_of(paths, "run-3"), told.append)
    assert third.report["actions"] == 0


def test_a_digest_reads_well_and_is_okf(store: MemoryStore, paths: StorePaths) -> None:
    done = dream(request_of(paths, "run-1"), lambda _: None)
    assert set(done.derived) == {"digests/2026-11-21.md", "digests/2026-11-21.html"}
    assert done.derived["digests/2026-11-21.md"] == done.digest
    assert conformance("digests/2026-11-21.md", done.digest.encode()) == []
    assert okf.parse(done.digest.encode()).meta["type"] == "Digest"
    assert "\n# Digest of 21 November 2026\n" in done.digest
    for section in ("## Learned", "## Numbers"):
        assert section in done.digest
    assert "dreamctl undo run-1" in done.digest
    assert "I prefer pnpm over npm in this repository" in done.digest


def test_a_forgotten_turn_is_not_learned(store: MemoryStore, paths: StorePaths) -> None:
    store.forget("s1#1")
    assert store.settle(60)  # as the daemon does before a dream
    done = dream(request_of(paths, "run-1"), lambda _: None)
    assert done.changeset_path is not None
    texts = b"".join(action.content or b"" for action in read_changeset(done.changeset_path).actions)
    assert b"pnpm over npm" not in texts


def test_a_hand_edit_between_plan_and_apply_wins(store: MemoryStore, paths: StorePaths) -> None:
    done = dream(request_of(paths, "run-1"), lambda _: None)
    assert done.changeset_path is not None
    changeset = read_changeset(done.changeset_path)
    mine = paths.vault / changeset.actions[0].path
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_bytes(b"---\ntype: Note\n---\n\nMine.\n")
    applied = store.apply(changeset)
    assert [refused.path for refused in applied.skipped] == [changeset.actions[0].path]
    assert mine.read_bytes().endswith(b"Mine.\n")


def test_the_child_plans_on_a_copy_and_ends(store: MemoryStore, paths: StorePaths) -> None:
    before = vault_files(paths)
    with _child() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(protocol.encode(request_of(paths, "run-1")))
        child.stdin.flush()
        said = [protocol.decode(line) for line in child.stdout]
        assert child.wait(30) == 0
    assert all(isinstance(message, Progress) for message in said[:-1])
    last = said[-1]
    assert isinstance(last, Done)
    assert last.changeset_path is not None
    assert read_changeset(last.changeset_path).run_id == "run-1"
    assert vault_files(paths) == before


def test_a_failure_is_reported_without_a_persons_text(tmp_path: Path, paths: StorePaths) -> None:
    request = request_of(paths, "run-1")
    with _child() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(protocol.encode(request))
        child.stdin.flush()
        failed = protocol.decode(child.stdout.readlines()[-1])
        assert child.wait(30) == 1
    assert isinstance(failed, Failed)
    assert failed.reason


def test_the_child_ends_with_its_parents_pipe(store: MemoryStore, paths: StorePaths) -> None:
    with _child() as child:
        assert child.stdin is not None
        child.stdin.write(protocol.encode(request_of(paths, "run-1")))
        child.stdin.close()
        assert child.wait(30) in {0, 1, 3}


def test_the_child_without_a_request_ends_at_once() -> None:
    with _child() as child:
        out, _ = child.communicate(b"", timeout=30)
    assert (child.returncode, out) == (1, b"")


def _child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "dreamd.pipelines"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def test_a_dream_knows_who_said_a_fact_and_its_tags_are_its_persons_alone(
    store: MemoryStore, paths: StorePaths
) -> None:
    folder = paths.vault / "facts"
    folder.mkdir(parents=True)
    for name, keys in (("a", "said_by: assistant"), ("b", "tags: [db]")):
        head = f"type: Fact\ntitle: T\nnode_id: {name}\nlevel: L1\nkind: fact\nchannel: shop\n{keys}"
        (folder / f"{name}.md").write_text(f"---\n{head}\n---\n\nThe index was stale.\n")
    store.reconcile()
    store.settle()
    request = request_of(paths, "run-1")
    snapshot = Snapshot(request.folder, paths.vault, paths.index, paths.ledger)
    try:
        found = {fact.node_id: fact for fact in snapshot.memories()}
    finally:
        snapshot.close()
    assert (found["a"].said_by, found["a"].tags) == ("assistant", ())
    assert (found["b"].said_by, found["b"].tags) == (None, ("db",))


def test_a_dream_looks_for_its_model_where_the_daemon_does(paths: StorePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def choose(settings: EmbeddingSettings, folder: Path) -> StubEmbedder:
        asked.append(folder)
        return StubEmbedder()

    monkeypatch.setattr("dreamd.pipelines.dream.embedder_for", choose)
    MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW).close()
    dream(request_of(paths, "run-1"), lambda progress: None)
    assert asked == [paths.ledger.with_name("models")]


def test_a_question_in_vain_is_told_once_by_the_dream_that_can_answer_it(store: MemoryStore, paths: StorePaths) -> None:
    question = "Which colour has the lifebuoy of the harbour ferry?"
    for _ in range(2):
        store.recall(question, channel="harbour")
    assert store.operations.feedback.settle(20)
    said = [NewTurn("user", "We decided that the lifebuoy of the harbour ferry has the colour orange.", NOW, "h1")]
    store.observe(SessionHead("s2", "harbour", started_at=NOW), said).result()
    store.settle(60)
    done = dream(request_of(paths, "run-1"), lambda _: None)
    assert "## Asked in vain, answered now" in done.digest
    assert re.search(r"“Which colour .*lifebuoy.* orange.* · asked twice, answered now", done.digest)
    assert "Asked and not found" not in done.digest
    assert done.changeset_path is not None
    store.apply(read_changeset(done.changeset_path), kind="daily", started_at=NOW, summary=done.report)
    (gap,) = store.filled_gaps(NOW - timedelta(days=7), ["daily"])
    assert (gap.text, gap.channel, gap.times) == (question, "harbour", 2)
    said = [NewTurn("user", "We decided that the ferry sails at nine from now on.", NOW, "h2")]
    store.observe(SessionHead("s2", "harbour"), said).result()
    store.settle(60)
    again = dream(request_of(paths, "run-2"), lambda _: None)
    assert "answered now" not in again.digest
    assert "lifebuoy" not in again.digest.partition("## Asked")[2]

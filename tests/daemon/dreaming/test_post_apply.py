"""The check after applying: a dream that makes recall of the living store worse is undone, and says so."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from dreamd.daemon.dreaming.dreamer import Dreamer, DreamResult
from dreamd.daemon.dreaming.idle import LastActivity
from dreamd.daemon.settings import Settings
from dreamd.pipelines.gate.gate import Recheck
from dreamd.pipelines.gate.probes import Score
from dreamd.pipelines.messages import Check, Foreseen
from dreamd.pipelines.settings import PipelineSettings
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import StoreSettings
from dreamd.store.writer.derived import unmarked

from tests.memories import facts_in

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
NOTE = "The blue ladder of the attic studio is kept by Marek"

CHILD = """
import hashlib, sys
from pathlib import Path
from dreamd.pipelines.messages import *
from dreamd.store import okf
from dreamd.store.model import *
request = RunRequest.model_validate_json(sys.stdin.buffer.readline())
(path,) = [p for p in request.vault.rglob("*.md") if "Marek" in p.read_text()]
data = path.read_bytes()
node_id = okf.parse(data).meta["node_id"]
action = Action(
    kind=ActionKind.REPLACE, path=path.relative_to(request.vault).as_posix(), node_id=node_id,
    stage="planted", reason="r",
    pre_sha256=hashlib.sha256(data).hexdigest(), content=okf.edit(data, %s),
)
file = request.folder / "changeset.jsonl"
write_changeset(file, Changeset(run_id=request.run_id, actions=(action,)))
check = Check(text="Who keeps the blue ladder of the attic studio?", channel="shop", gold=(node_id,))
page = f"# The night\\n\\n<!-- dream {request.run_id} -->\\nAll went well.\\n"
derived = {"digests/2026-11-21.md": page}
sys.stdout.buffer.write(encode(Done(changeset_path=file, digest=page, derived=derived, checks=(check,))))
sys.stdout.flush()
"""


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return StorePaths(tmp_path / "vault", tmp_path / "l.db", tmp_path / "i.db", tmp_path / "e.db", tmp_path / "runs")


@pytest.fixture
def store(paths: StorePaths) -> Iterator[MemoryStore]:
    opened = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
    opened.remember(NOTE, channel="shop").result()
    opened.remember("The harbour office closes at five", channel="shop").result()
    opened.rebuild()
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def the_child_need_not_wait_for_an_idle_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dreamd.daemon.dreaming.child.be_idle", lambda pid: None)


def memories(paths: StorePaths) -> dict[str, bytes]:
    """Return the bytes of each memory file by its name; the folder's catalogue is derived, and no part of a dream."""
    return {path.name: path.read_bytes() for path in facts_in(paths.vault)}


def dreamt(store: MemoryStore, paths: StorePaths, change: str) -> DreamResult:
    settings = cast(Settings, SimpleNamespace(pipelines=PipelineSettings(), store=Settings().store, llm=Settings().llm))
    command = (sys.executable, "-P", "-c", CHILD % change)
    return asyncio.run(Dreamer(store, paths, settings, lambda: NOW, LastActivity(), command).dream())


def test_a_dream_that_makes_recall_worse_is_undone_with_a_note(store: MemoryStore, paths: StorePaths) -> None:
    before = memories(paths)
    result = dreamt(store, paths, "{'status': 'deprecated', 'archived_at': request.now}")
    assert result.state == "undone"
    assert memories(paths) == before
    assert store.recall("blue ladder attic studio", channel="shop").hits[0].text == NOTE
    (run,) = store.runs()
    assert (run.run_id, run.state) == (result.run_id, "undone")
    assert "made recall worse" in run.summary["note"]
    digest = (paths.vault / "digests" / "2026-11-21.md").read_text()
    assert digest.startswith(f"# The night\n\n<!-- dream {result.run_id} -->\n\n> **This dream was undone:**")
    assert store.ledger.asked() == []


def test_a_dream_that_does_not_make_recall_worse_stays(store: MemoryStore, paths: StorePaths) -> None:
    result = dreamt(store, paths, "{'tags': ['kept']}")
    assert result.state == "applied"
    digest = unmarked((paths.vault / "digests" / "2026-11-21.md").read_bytes()).decode()
    assert digest == f"# The night\n\n<!-- dream {result.run_id} -->\nAll went well.\n"


def test_what_a_dream_changed_has_its_vectors_before_recall_is_looked_at_again(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.operations.queue, "wake", lambda: None)  # no background work comes first
    waiting: list[int] = []
    reasons = Recheck.reasons

    def looked_at(recheck: Recheck) -> list[str]:
        waiting.append(len(store.core.index.pending()))
        return reasons(recheck)

    monkeypatch.setattr(Recheck, "reasons", looked_at)
    assert dreamt(store, paths, "{'title': 'A ladder with another name'}").state == "applied"
    assert waiting == [0]


def test_the_recheck_waits_for_requests_but_not_for_ever(store: MemoryStore) -> None:
    glances: list[int] = []

    def busy_for_a_while() -> bool:
        glances.append(1)
        return len(glances) < 4

    check = Check(text="Who keeps the blue ladder?", channel="shop", gold=("none",))
    assert Recheck(store, [check], busy_for_a_while).reasons() == []
    assert len(glances) >= 5


FOUND, LOST = Foreseen(recall=1.0, coverage=1.0), Foreseen(recall=0.0, coverage=1.0)


@pytest.mark.parametrize(
    ("foreseen", "found_before", "found_now", "is_worse"),
    [
        ([LOST, FOUND], [1.0, 1.0], [0.0, 1.0], False),  # the gate weighed it, and let it pass
        ([LOST, FOUND], [1.0, 1.0], [0.0, 0.0], True),  # another than it saw
        ([LOST, FOUND], [1.0, 0.0], [0.0, 0.0], True),  # what it weighed against the loss did not come
        ([FOUND, FOUND], [1.0, 0.0], [1.0, 0.0], False),  # the copy found more: the dream took nothing
        ([None, None], [1.0, 1.0], [0.0, 1.0], True),
    ],
)
def test_what_the_gate_let_pass_is_not_undone_and_what_it_did_not_see_is(
    foreseen: list[Foreseen | None],
    found_before: list[float],
    found_now: list[float],
    is_worse: bool,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = iter([Score(recall, 1.0) for recall in (*found_before, *found_now)])
    monkeypatch.setattr("dreamd.pipelines.gate.gate.ask", lambda store, case: next(scores))
    checks = [Check(text=f"Question {n}?", channel="shop", gold=("n",), foreseen=one) for n, one in enumerate(foreseen)]
    assert bool(Recheck(store, checks, lambda: False).reasons()) == is_worse


def test_memories_from_elsewhere_may_hide_the_answer_of_one_question_and_not_of_more(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = (hit.node_id for hit in store.recall("blue ladder", channel="shop").hits[:1])
    found, in_part, lost = Score(1.0, 1.0), Score(0.2, 1.0), Score(0.0, 1.0, is_firm=False)
    for now, gold, lost_now in (
        ([in_part, in_part, in_part], node, 0),
        ([lost, found, in_part], node, 0),
        ([lost, lost, found], node, 2),
        ([lost, lost, lost], "gone", 0),  # forgotten elsewhere: no loss
    ):
        scores = iter([found, found, found, *now])
        monkeypatch.setattr("dreamd.pipelines.gate.gate.ask", lambda store, case, scores=scores: next(scores))
        checks = [Check(text=f"Question {n}?", channel="shop", gold=(gold,)) for n in range(3)]
        said = f"{lost_now} of 3 past questions find no longer what answered them, and 0 find it now"
        assert Recheck(store, checks, lambda: False).unanswered() == ([said] if lost_now else [])


def test_probes_without_a_result_before_do_not_count_after(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = iter([False])
    checks = [Check(text=text, channel="shop", gold=("none",)) for text in ("Who keeps the ladder?", "Which studio?")]
    monkeypatch.setattr("dreamd.pipelines.gate.gate.LONGEST_S", 0.2)
    hurried = True
    recheck = Recheck(store, checks, lambda: hurried and next(asked_for, True))
    monkeypatch.setattr("dreamd.pipelines.gate.gate.LONGEST_S", 20.0)
    hurried = False
    assert recheck.reasons() == []

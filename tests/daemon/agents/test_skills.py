"""Skills: drafts of what worked, written where their person says, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from dreamd.daemon.agents.skills import Skills
from dreamd.ipc.call import Call
from dreamd.ipc.params import StrategyParams
from dreamd.ipc.protocol import Refused
from dreamd.ipc.work_methods import find_strategy
from dreamd.pipelines.stages import know_how
from dreamd.store import MemoryStore, StorePaths
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import Changeset, NewTurn, NotFound, SessionHead
from dreamd.store.settings import StoreSettings

from tests.pipelines.fakes import FakeSource
from tests.pipelines.stages.test_know_how import RELEASED

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAME = "please-release-the-next-version"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    """Give a store with three releases, and the page that a dream makes of them."""
    places = (tmp_path / part for part in ("vault", "ledger.db", "index", "embeddings.db", "runs"))
    store = MemoryStore.open(StorePaths(*places), StoreSettings(), StubEmbedder(), lambda: NOW)
    source = FakeSource()
    for name in ("s1", "s2", "s3"):
        source.add(name, *RELEASED)
        said = [NewTurn(turn.role, turn.text, turn.at, turn.external_id) for turn in source.turns(name)]
        store.observe(SessionHead(name, "proj"), said).result()
    actions = know_how.plan(source.view(), NOW).actions
    store.apply(Changeset(run_id="run-1", actions=tuple(actions)))
    store.settle()
    yield store
    store.close()


def test_a_draft_names_its_steps_with_their_runs(store: MemoryStore) -> None:
    (draft,) = Skills(store).drafts()
    _, head, body = draft.text.split("---\n", 2)
    assert yaml.safe_load(head)["name"] == draft.name == NAME
    assert "worked in 3 sessions" in yaml.safe_load(head)["description"]
    assert "1. `uv run pytest -q` (s3#3, exit 0)" in body
    assert "[^" not in draft.text


def test_a_task_finds_its_procedure_and_another_none(store: MemoryStore) -> None:
    def found(task: str) -> list[str]:
        params = StrategyParams(query=task, channel="proj")
        return [one.text for one in find_strategy(store, params, Call(None, "find_strategy")).strategies]

    (text,) = found("release the next version")
    assert "3. `git push origin v0.4.0`, exit 0" in text
    assert found("water the plants in the kitchen") == []


def test_an_accepted_draft_is_written_once_and_undone(store: MemoryStore, tmp_path: Path) -> None:
    skills, folder = Skills(store), tmp_path / "skills"
    (draft,) = skills.drafts()
    decided = skills.accept(draft.node_id, folder)
    file = folder / NAME / "SKILL.md"
    assert file.read_text(encoding="utf-8") == draft.text
    store.settle()
    assert skills.drafts() == []
    before = skills.written()
    store.undo(decided.run_id)
    store.settle()
    skills.remove(before)
    assert not file.parent.exists()
    assert [one.node_id for one in skills.drafts()] == [draft.node_id]


def test_a_file_that_somebody_wrote_is_neither_replaced_nor_removed(store: MemoryStore, tmp_path: Path) -> None:
    skills = Skills(store)
    (draft,) = skills.drafts()
    file = tmp_path / NAME / "SKILL.md"
    file.parent.mkdir()
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(Refused, match="is there already"):
        skills.accept(draft.node_id, tmp_path)
    skills.remove({str(file): "0" * 64})
    assert file.read_text(encoding="utf-8") == "mine"
    with pytest.raises(Refused, match="needs a folder"):
        skills.accept(draft.node_id, None)


def test_a_repository_of_another_project_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "other" / ".git").mkdir(parents=True)
    (tmp_path / "other" / ".git" / "HEAD").write_text("ref: refs/heads/main", encoding="utf-8")
    (draft,) = Skills(store).drafts()
    with pytest.raises(Refused, match="another project"):
        Skills(store).accept(draft.node_id, tmp_path / "other")


def test_a_rejected_draft_is_offered_no_more(store: MemoryStore) -> None:
    skills = Skills(store)
    (draft,) = skills.drafts()
    skills.reject(draft.node_id)
    store.settle()
    assert skills.drafts() == []
    with pytest.raises(NotFound):
        store.mark_skill(draft.node_id, {})

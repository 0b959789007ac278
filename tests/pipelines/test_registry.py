"""The registry names every stage, imports none before it runs, and no stage needs it for its cursors."""

from __future__ import annotations

import ast
import subprocess
import sys
from datetime import datetime
from importlib import import_module
from pathlib import Path

import pytest
from dreamd.pipelines import stages
from dreamd.pipelines.dream import dream
from dreamd.pipelines.messages import read_changeset
from dreamd.pipelines.settings import COMPACTION, STEPS, DreamStep, PipelineSettings, Stage
from dreamd.pipelines.workspace.proposals import Proposals
from dreamd.pipelines.workspace.view import View
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore
from dreamd.store.settings import StorePaths

from tests.pipelines.fakes import NOW, SETTINGS, plant_steps, request_of


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_is_a_stage_under_its_own_name(step: DreamStep) -> None:
    module = import_module(f"dreamd.pipelines.stages.{step.module}")
    assert step.load() is getattr(module, step.function)
    assert step.name.split()[0] == (module.STAGE if step.function == "plan" else step.function)
    assert step.module == module.STAGE


def test_every_stage_is_named() -> None:
    folder = Path(str(stages.__file__)).parent
    planning = {
        path.stem
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "plan"
    }
    assert planning == {step.module for step in STEPS}


def test_a_name_is_given_once_and_every_switch_has_its_steps() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)
    assert {step.switch for step in STEPS} == set(Stage) == set(PipelineSettings().stages)
    assert not [step for step in STEPS if step.weekly_only and step.switch in COMPACTION]


def test_the_settings_load_no_stage() -> None:
    code = "import sys, dreamd.pipelines.settings; print(sorted(m for m in sys.modules if 'pipelines.stages.' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_stage_gets_its_cursor_back_the_next_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def planted(view: View, now: datetime) -> Proposals:
        given.append(view.cursor("planted", "everything"))
        return Proposals(cursors={("planted", "everything"): given[-1] + 7})

    plant_steps(monkeypatch, (Stage.LINT, "planted", planted))
    files = (tmp_path / name for name in ("vault", "ledger.db", "index.db", "vectors.db", "runs"))
    paths = StorePaths(*files)
    store = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW)
    try:
        for night in ("first", "second", "third"):
            done = dream(request_of(paths, night), lambda progress: None)
            assert done.changeset_path is not None
            store.apply(read_changeset(done.changeset_path))
    finally:
        store.close()
    assert given == [0, 7, 14]

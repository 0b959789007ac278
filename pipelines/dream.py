"""A dream: copy the memory, let the stages plan on the copy, leave what they propose in the run's folder."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import get_args

from ..llm.budget import Allowance, asker_for
from ..store.embedding.embedding import Embedder, embedder_for
from ..store.ledger.records import LINK
from ..store.search.scoring import weights_in_use
from . import run
from .gate.gate import Gate
from .gate.shadow_index import ShadowIndex
from .pause_signal import PauseListener
from .protocol import SPENT, Done, Progress, RunKind, RunRequest
from .registry import COMPACTION, DEFAULT_SWITCHES, Stage
from .report.finish import finish
from .report.outcome import ModelUse
from .steps import OnProgress, Steps
from .workspace.checkpoint import Memo
from .workspace.embedding import CachedEmbedder, cache_copy
from .workspace.snapshot import Snapshot
from .workspace.view import View


def dream(request: RunRequest, on_progress: OnProgress, listener: PauseListener | None = None) -> Done:
    """Plan one dream. Writes only in the request's folder, and to its checkpoint.

    `listener` learns what to call off before a pause.
    """
    embedder = embedder_for(request.store.embedding, request.models)
    snapshot = Snapshot(request.folder, request.vault, request.index, request.ledger)
    with ExitStack() as closing:
        closing.callback(snapshot.close)
        if known := cache_copy(request.embeddings, request.folder, embedder):
            closing.callback(known.close)
        if memo := Memo(request.checkpoint) if request.checkpoint else None:
            closing.callback(memo.close)
        embed = CachedEmbedder(embedder, known, lambda done, total: view.steps.detail("embedding", done, total), memo)
        view = View(snapshot, snapshot.history(), embed, request.run_id, request.pipelines)
        view.memo, view.steps = memo, Steps(_with_spending(on_progress, view, request.folder / SPENT))
        view.model, why_not = asker_for(request.llm, _left(request))
        if view.model is not None:
            closing.callback(view.model.release)
            if listener is not None:
                listener.before_pausing(view.model.abort)
        open_shadow = cache(lambda: closing.enter_context(_shadow(request, view, embedder)))
        if request.store.search.is_learned:
            view.candidates = lambda probe: open_shadow().candidates(probe)
        gate = Gate(open_shadow, view, request.pipelines.gate, request.now)
        outcome = run.plan(view, request.now, _stages(request), weekly=request.kind == "weekly", gate=gate)
        outcome.model = ModelUse.of(view.model, why_not)
        return finish(view, request, outcome, snapshot.ledger.runs(hidden=(LINK,)), _linked_since_the_last(snapshot))


def _linked_since_the_last(snapshot: Snapshot) -> int:
    """Count the statements that were linked to what was known, when they were remembered, since the last dream."""
    dreams = snapshot.ledger.runs(1, kinds=get_args(RunKind), states=("applied",))
    since = dreams[0].started_at if dreams else datetime.min.replace(tzinfo=UTC)
    return len(snapshot.ledger.runs_since(since, (LINK,)))


def _with_spending(on_progress: OnProgress, view: View, file: Path) -> OnProgress:
    """Add to every report what the model was asked so far, and keep it in a file.

    The daemon thus knows the cost of a dream that it ends, or finds ended.
    """

    def report(progress: Progress) -> None:
        if view.model is not None:
            spent = {"calls": view.model.spent.calls, "tokens": view.model.spent.tokens}
            file.write_text(json.dumps(spent))
            progress = progress.model_copy(update=spent | {"model_s": view.model.spent.seconds})
        on_progress(progress)

    return report


def _left(request: RunRequest) -> Allowance:
    """Return what the day's earlier runs have left of the model's allowance."""
    return Allowance(
        calls=max(0, request.llm.calls_per_day - request.calls_spent),
        tokens=max(0, request.llm.tokens_per_day - request.tokens_spent),
    )


def _shadow(request: RunRequest, view: View, embedder: Embedder) -> ShadowIndex:
    """Open the copy's own copy, in which the gate tries what is proposed."""
    hidden = {key.removeprefix("turn:") for key in view.history.tombstones if key.startswith("turn:")}
    index = request.folder / "index.db"
    shadow = ShadowIndex(index, request.vault, request.store, embedder, view.vectors, request.now, hidden)
    shadow.weigh(weights_in_use(view.history.ranking))
    shadow.trust(view.history.feedback)
    return shadow


def _stages(request: RunRequest) -> dict[Stage, bool]:
    """Return which stages take part in this kind of dream."""
    stages = request.pipelines.stages
    if request.kind != "compaction":
        return stages
    return {stage: stages.get(stage, DEFAULT_SWITCHES[stage]) and stage in COMPACTION for stage in Stage}

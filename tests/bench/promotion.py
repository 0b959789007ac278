"""What a weekly dream proposes for all projects: `python -m tests.bench.promotion [LIFE...] [--cosine C]`.

Each of six lives gets the same wishes in two of its projects, in other words, and traps: values and paths of projects,
opposite wishes, orders for once. A dream reads all of it; a proposal that joins no planted pair is wrong. The pairs of
`--planted promotion-2.json` were written by somebody who had not seen the code, each wish in really different words.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from dreamd.pipelines.settings import PipelineSettings, PromotionSettings
from dreamd.pipelines.stages import consolidate, promotion
from dreamd.pipelines.workspace.memo import Vectors
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.embedding.embedding import Embedder, embedder_for
from dreamd.store.model import Kind, Memory, Turn
from dreamd.store.settings import EmbeddingSettings

from tests.memories import fact
from tests.pipelines.fakes import FakeSource

from .table import say

Planted = dict[str, Any]

HERE = Path(__file__).parent

AT = datetime(2026, 10, 1, 9, tzinfo=UTC)
ACKNOWLEDGED = "Noted. I will do that from now on."


def source_of(life: Planted, planted: Planted) -> FakeSource:
    """Return a memory of a life's sessions, and of two more in two projects for each planted pair."""
    source = FakeSource()
    for session in life["sessions"]:
        at = datetime.fromisoformat(session["at"])
        said = [(turn["role"], turn["text"]) for turn in session["turns"] if turn["role"] in ("user", "assistant")]
        _add(source, session["id"], session["project"], said, at)
    projects = list(life["projects"])[:2]
    for kind in ("same", "traps"):
        for number, pair in enumerate(planted[kind]):
            for project, text in zip(projects, pair, strict=True):
                name = f"{kind}{number}{project}"
                _add(source, name, project, [("user", text), ("assistant", ACKNOWLEDGED)], AT + timedelta(days=number))
    return source


def _add(source: FakeSource, name: str, project: str, said: list[tuple[str, str]], at: datetime) -> None:
    source.channels[name] = f"{project}-a1b2c3"
    source.said[name] = [
        Turn(name, n, role, text, at + timedelta(minutes=n), f"x{n}") for n, (role, text) in enumerate(said, 1)
    ]


def dreamt(source: FakeSource, embedder: Embedder, settings: PromotionSettings) -> View:
    """Return what a dream that reads everything sees, before it proposes anything for all projects."""
    view = _view(source, embedder, settings)
    read = consolidate.plan(view, AT)
    view.apply(view.allowed(read.actions), read.cursors)
    return view


def _view(source: FakeSource, embedder: Embedder, settings: PromotionSettings) -> View:
    def embed(texts: Sequence[str]) -> Vectors:
        return np.stack(embedder.embed_passages(texts)) if texts else np.empty((0, embedder.dimension), np.float32)

    return View(source, History(), embed, "bench", PipelineSettings(promotion=settings))


def remembered(view: View, projects: Sequence[str], planted: Planted, embedder: Embedder) -> View:
    """Return a view of a life's facts in which the planted pairs were remembered, each in its project."""
    source = FakeSource()
    whole = (view.memory(fact.node_id) for fact in view.memories())
    source.keep(*(fact for fact in whole if fact and not fact.sources[0].startswith(("same", "traps"))))
    for kind in ("same", "traps"):
        for number, pair in enumerate(planted[kind]):
            for project, text in zip(projects, pair, strict=True):
                node_id = f"{kind}{number}{project}"
                keys: dict[str, Any] = {
                    "node_id": node_id,
                    "path": f"facts/{node_id}.md",
                    "certainty": 1.0,
                    "run": None,
                }
                wish = fact(text, f"{project}-a1b2c3", kind=Kind.PREFERENCE, created_at=AT)
                source.keep(replace(wish, **keys))
    return _view(source, embedder, view.settings.promotion)


def proposals(view: View) -> list[Memory]:
    """Return what is proposed for all projects."""
    planned = promotion.plan(view, AT + timedelta(days=60))
    return [okf.to_memory(action.path, okf.parse(action.content or b"")) for action in planned.actions]


def main() -> int:
    """Print what was found of the planted pairs, and every proposal that joins none."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.promotion", description=__doc__)
    parser.add_argument("lives", nargs="*", default=[])
    parser.add_argument("--planted", type=Path, default=HERE / "promotion.json", help="the pairs that are planted")
    parser.add_argument("--cosine", type=float, default=PromotionSettings().cosine)
    options = parser.parse_args()
    folder = Path(os.environ.get("SHARED_DATA_DIR", "../shared/data")) / "lives"
    embedder = embedder_for(EmbeddingSettings(), Path.home() / ".cache" / "dreamd")
    settings = PromotionSettings(cosine=options.cosine)
    every: dict[str, Planted] = json.loads(options.planted.read_text(encoding="utf-8"))
    totals: dict[str, Counter[str]] = {way: Counter() for way in ("said", "remembered")}
    promotion.MOST_PROPOSED = 100  # a week proposes few; all are asked for here
    for name in options.lives or every:
        life, planted = json.loads((folder / f"{name}.json").read_text(encoding="utf-8")), every[name]
        projects = list(life["projects"])[:2]
        view = dreamt(source_of(life, planted), embedder, settings)
        learned = {turn.partition("#")[0] for one in view.memories() for turn in one.sources}
        totals["said"]["pairs learned"] += sum(wanted <= learned for wanted in _pairs(planted, projects))
        for way, seen in (("said", view), ("remembered", remembered(view, projects, planted, embedder))):
            totals[way].update(_counted(f"{name}, {way}", proposals(seen), _pairs(planted, projects)))
            totals[way].update(planted=len(planted["same"]), traps=len(planted["traps"]))
    for way, counts in totals.items():
        say(f"{way}: {', '.join(f'{what} {number}' for what, number in counts.items())}")
    return 0


def _pairs(planted: Planted, projects: Sequence[str]) -> list[set[str]]:
    return [{f"same{number}{project}" for project in projects} for number in range(len(planted["same"]))]


def _counted(where: str, found: Sequence[Memory], pairs: list[set[str]]) -> Counter[str]:
    """Count the proposals that join a planted pair, those of a trap, and those of the life's own facts; print these."""
    counts: Counter[str] = Counter(right=0, wrong=0, own=0)
    for one in found:
        joined = {name.partition("#")[0] for name in one.sources}
        is_planted = any(name.startswith(("same", "traps")) for name in joined)
        verdict = "right" if joined in pairs else "wrong" if is_planted else "own"
        counts[verdict] += 1
        if verdict != "right":
            say(f"{where}: {verdict}: {one.text!r} of {', '.join(sorted(joined))}")
    right = [pair for pair in pairs if any(pair == {name.partition("#")[0] for name in one.sources} for one in found)]
    for pair in pairs:
        if pair not in right:
            say(f"{where}: not proposed: {', '.join(sorted(pair))}")
    return counts


if __name__ == "__main__":
    sys.exit(main())

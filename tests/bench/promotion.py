"""What a weekly dream proposes for all projects: `python -m tests.bench.promotion [LIFE...] [--cosine C]`.

Each of six lives gets the same wishes in two of its projects, in other words, and traps: values and paths of projects,
opposite wishes, orders for once. A dream reads all of it; a proposal that joins no planted pair is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from dreamd.pipelines.settings import PipelineSettings, PromotionSettings
from dreamd.pipelines.stages import consolidate, promotion
from dreamd.pipelines.workspace.memo import Vectors
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.embedding.embedding import Embedder, embedder_for
from dreamd.store.model import PROMOTED_FROM, Memory, Turn
from dreamd.store.settings import EmbeddingSettings

from tests.pipelines.fakes import FakeSource

from .table import say

PLANTED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""`same` and `traps` of each life: pairs of statements, the first said in one project, the second in another."""

AT = datetime(2026, 10, 1, 9, tzinfo=UTC)
ACKNOWLEDGED = "Noted. I will do that from now on."


def source_of(life: dict, planted: dict) -> FakeSource:
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

    def embed(texts: Sequence[str]) -> Vectors:
        return np.stack(embedder.embed_passages(texts)) if texts else np.empty((0, embedder.dimension), np.float32)

    view = View(source, History(), embed, "bench", PipelineSettings(promotion=settings))
    read = consolidate.plan(view, AT)
    view.apply(view.allowed(read.actions), read.cursors)
    return view


def proposals(view: View) -> list[Memory]:
    """Return what is proposed for all projects."""
    planned = promotion.plan(view, AT + timedelta(days=60))
    return [okf.to_memory(action.path, okf.parse(action.content or b"")) for action in planned.actions]


def main() -> int:
    """Print what was found of the planted pairs, and every proposal that joins none."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.promotion", description=__doc__)
    parser.add_argument("lives", nargs="*", default=[])
    parser.add_argument("--cosine", type=float, default=PromotionSettings().cosine)
    options = parser.parse_args()
    folder = Path(os.environ.get("SHARED_DATA_DIR", "../shared/data")) / "lives"
    embedder = embedder_for(EmbeddingSettings(), Path.home() / ".cache" / "dreamd")
    settings = PromotionSettings(cosine=options.cosine)
    totals = dict.fromkeys(("planted", "learned in both", "right", "traps", "wrong", "own"), 0)
    promotion.MOST_PROPOSED = 100  # a week proposes few; all are asked for here
    for name in options.lives or PLANTED:
        life = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        source = source_of(life, PLANTED[name])
        view = dreamt(source, embedder, settings)
        learned = {turn for fact in view.memories() for turn in fact.sources}
        found = proposals(view)
        projects = list(life["projects"])[:2]
        wanted = {
            n: {f"same{n}{project}#1" for project in projects} for n in range(len(PLANTED[name]["same"]))
        }
        right = set()
        for memory in found:
            of = {n for n, turns in wanted.items() if turns == set(memory.sources)}
            right |= of
            if not of:
                is_trap = any(turn.startswith(("same", "traps")) for turn in memory.sources)
                totals["wrong" if is_trap else "own"] += 1
                say(f"{name} {'WRONG' if is_trap else 'own'}: {memory.text!r} {memory.sources} {memory.extra[PROMOTED_FROM]}")
        for n in wanted.keys() - right:
            both = wanted[n] <= learned
            say(f"{name} missed ({'learned' if both else 'not learned'}): {PLANTED[name]['same'][n]}")
        totals["planted"] += len(wanted)
        totals["learned in both"] += sum(turns <= learned for turns in wanted.values())
        totals["right"] += len(right)
        totals["traps"] += len(PLANTED[name]["traps"])
    say(", ".join(f"{what} {number}" for what, number in totals.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

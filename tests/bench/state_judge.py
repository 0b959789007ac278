"""A model as judge of changes, over the readers' pairs: `python -m tests.bench.state_judge DATA [--dream]`.

Each pair is two facts of two sessions in a channel of its own, over which the drift stage runs: without a model, with
one that answers by the set's own gold, with two that turn its answers round, of which one knows what was never said,
and with one that babbles. With `--dream` each pair is remembered, and a whole dream follows, gate and all; the models
are then a server.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from dreamd.llm.budget import Asker
from dreamd.llm.settings import LlmSettings
from dreamd.pipelines.grounding.claims import harmless
from dreamd.pipelines.stages import drift
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import embedder_for, okf
from dreamd.store.model import Kind, Level, Memory
from dreamd.store.settings import StoreSettings
from loguru import logger

from tests.pipelines.fakes import FakeModel, FakeSource

from .in_process import DaemonInProcess
from .model_server import ScriptedModel
from .readers.pairs import relations, remembered_apart
from .readers.reading import judge_pairs
from .scratch import own_folder

SAYS = {
    "updates": "change",
    "contradicts": "contradiction",
    "same": "same",
    "adds": "addition",
    "unrelated": "unrelated",
}
TURNED = {
    "change": "same",
    "same": "change",
    "contradiction": "same",
    "addition": "change",
    "unrelated": "change",
}
FIRST = datetime(2026, 9, 1, tzinfo=UTC)
Pair = dict[str, str]
Say = Callable[[str, str], str]


def sayings(pairs: Sequence[Pair]) -> dict[str, Say | None]:
    """Return what each model says of an earlier and a later statement; None for no model."""
    gold = {(harmless(pair["earlier"]), harmless(pair["later"])): SAYS[pair["relation"]] for pair in pairs}
    chance = random.Random(7)

    def good(earlier: str, later: str) -> str:
        return gold.get((earlier, later), "unrelated")

    def lying(earlier: str, later: str) -> str:
        return TURNED[good(earlier, later)] if (earlier, later) in gold else "unrelated"

    return {
        "no model": None,
        "a good one": good,
        "one that turns every answer round": lambda earlier, later: TURNED[good(earlier, later)],
        "one that lies of the pairs alone": lying,
        "one that babbles": lambda earlier, later: chance.choice(list(SAYS.values())),
    }


def answering(say: Say) -> Callable[[str], dict[str, Any]]:
    """Return what answers the prompt of changes, quoting a word of each that the other has not."""

    def answer(prompt: str) -> dict[str, Any]:
        lines = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"')]
        later = next(line["later"] for line in lines if "later" in line)
        return {"relations": [claim(line, later) for line in lines if "number" in line]}

    def claim(line: dict[str, Any], later: str) -> dict[str, Any]:
        relation, quotes = say(line["earlier"], later), ("", "")
        if relation in {"change", "contradiction"}:
            quotes = _apart(line["earlier"], later), _apart(later, line["earlier"])
        return {
            "number": line["number"],
            "relation": relation,
            "earlier_words": quotes[0],
            "later_words": quotes[1],
        }

    return answer


def drifted(pairs: Sequence[Pair], say: Say | None, vectors: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each pair's relation, and what the drift stage made of it."""
    source = FakeSource()
    for pair in pairs:
        for day, side in enumerate(("earlier", "later")):
            fact = _fact(pair, side, day)
            source.files[fact.path] = okf.from_memory(fact)
    view = View(source, History(), lambda texts: np.array([vectors[text] for text in texts], np.float32), "run")
    plenty = LlmSettings(calls_per_day=10**6, tokens_per_day=10**9)
    view.model = Asker(FakeModel(answering(say)), plenty) if say else None
    view.apply(drift.plan(view, FIRST + timedelta(days=90)).actions)
    for pair in pairs:
        old, new = (view.memory(pair["id"] + side) for side in ("earlier", "later"))
        assert old is not None
        assert new is not None
        yield pair["relation"], _made(old, new)


def dreamt(pairs: Sequence[Pair], say: Say | None) -> list[tuple[str, str]]:
    """Return each pair's relation, and what was made of it when it was remembered and by a dream."""
    with ExitStack() as closing:
        if say is not None:
            answer = answering(say)
            server = closing.enter_context(ScriptedModel(lambda prompt, schema: answer(prompt)))
            closing.enter_context(patch.dict(os.environ, server.environ()))
        daemon = closing.enter_context(DaemonInProcess(closing.enter_context(own_folder("judge"))))
        ids = remembered_apart(daemon, pairs)
        run = daemon.call("dream", kind="daily", wait=True)
        print(f"    the dream: {run['state']}, {run['seconds']:.0f} s, {run['actions']}")
        return relations(daemon, pairs, ids)


def _made(old: Memory, new: Memory) -> str:
    if "same_as" in new.extra:
        return "same"
    if old.superseded_by:
        return "updates"
    return "contradicts" if old.contradicts else "later" if old.later else "none"


def _fact(pair: Pair, side: str, day: int) -> Memory:
    return Memory(
        node_id=pair["id"] + side,
        level=Level.FACT,
        kind=Kind.FACT,
        title=pair[side],
        text=pair[side],
        channel=pair["id"],
        created_at=FIRST + timedelta(days=day),
        sources=(f"{side}#1",),
        path=f"facts/{pair['id']}{side}.md",
    )


def _apart(one: str, other: str) -> str:
    words = [word.strip(".,:;") for word in one.split()]
    return next((word for word in words if word.lower() not in other.lower()), words[0])


def main() -> None:
    """Print the precision and recall of each relation by model, and what was made of the pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dream", action="store_true", help="a whole dream with its gate, half a minute a model")
    given = parser.parse_args()
    if not (given.data / "pairs.json").is_file():
        parser.error(f"there is no {given.data}/pairs.json: name the folder of the pairs")
    pairs: list[Pair] = json.loads((given.data / "pairs.json").read_text())
    texts = list(dict.fromkeys(pair[side] for pair in pairs for side in ("earlier", "later")))
    embedder = embedder_for(StoreSettings().embedding, Path("/var/tmp/dreamd-bench"))
    vectors = {} if given.dream else dict(zip(texts, embedder.embed_passages(texts), strict=True))
    logger.remove()
    for name, say in sayings(pairs).items():
        found = dreamt(pairs, say) if given.dream else list(drifted(pairs, say, vectors))
        told = {relation: str(judge_pairs(found, relation, frozenset())) for relation in list(SAYS)[:3]}
        print(f"{name}: {told}; {dict(sorted(Counter(found).items()))}")


if __name__ == "__main__":
    main()

"""Choose tools for requests: `python -m tests.bench.tool_choice [--model NAME]`.

The two sets, of work and of life, hold 100 tools each, as servers of tools list them, with requests as people phrase
them, in English, German and Spanish. A request is asked of 20 tools (five draws) and of all 200; it is served if a
right one is among the five chosen. Earlier requests of the person are those of the other set; with a history, each tool
was also called once after another request that it served.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from dreamd.daemon.clock import utc_now
from dreamd.store import MemoryStore, StorePaths, embedder_for
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.results import OfferedTool
from dreamd.store.settings import EmbeddingSettings, StoreSettings

from .scratch import own_folder
from .table import say

SETS = ("work", "life")
CHOSEN, OFFERED, DRAWS = 5, 20, 5


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of a set by their names, its requests with their right tools, and an earlier request of each tool."""

    tools: Mapping[str, str]
    requests: Sequence[tuple[str, Sequence[str]]]
    earlier: Mapping[str, str]


def read_set(name: str) -> ToolSet:
    """Read one of the sets."""
    found = json.loads((Path(__file__).parent / "sets" / f"tools-{name}.json").read_text(encoding="utf-8"))
    return ToolSet(found["tools"], [(text, right) for text, right in found["requests"]], found.get("earlier", {}))


def draws_of(right: Sequence[str], names: Sequence[str], rng: random.Random) -> Iterator[list[str]]:
    """Yield lists of tools with the right ones among them, the whole list last."""
    others = [name for name in names if name not in right]
    for _ in range(DRAWS):
        yield [*rng.sample(others, OFFERED - len(right)), *right]
    yield list(names)


def session_of(name: str, said: Sequence[str], called: Sequence[str] = ()) -> tuple[SessionHead, list[NewTurn]]:
    """Return a session of requests, each followed by the call of a tool where one is named."""
    turns = []
    for place, text in enumerate(said):
        turns.append(NewTurn("user", text))
        if called:
            turns.append(NewTurn("assistant", f"[mcp__server__{called[place]}]"))
    return SessionHead(name, "tools"), turns


def served(store: MemoryStore, asked: ToolSet, tools: Mapping[str, str]) -> tuple[float, float]:
    """Return the share of a set's requests that get a right tool, of few tools and of all."""
    rng = random.Random(7)
    few, every = [], []
    for text, right in asked.requests:
        hits = []
        for names in draws_of(right, list(tools), rng):
            offered = [OfferedTool(name, tools[name]) for name in names]
            hits.append(any(one.name in right for one in store.select_tools(text, offered, CHOSEN)))
        few.append(mean(hits[:-1]))
        every.append(hits[-1])
    return mean(few), mean(every)


def main() -> int:
    """Print the shares for each set, without and with a history."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tool_choice", description=__doc__)
    parser.add_argument("--model", default="minilm")
    options = parser.parse_args()
    sets = {name: read_set(name) for name in SETS}
    tools = {name: says for one in sets.values() for name, says in one.tools.items()}
    settings = StoreSettings(embedding=EmbeddingSettings(model=options.model))
    for name, other in zip(SETS, reversed(SETS), strict=True):
        with own_folder("tools") as scratch:
            embedder = embedder_for(settings.embedding, scratch / "models")
            embedder.start()
            embedder.wait()
            places = (scratch / part for part in ("vault", "ledger.db", "index", "embeddings.db", "runs"))
            store = MemoryStore.open(StorePaths(*places), settings, embedder, utc_now)
            store.observe(*session_of("before", [text for text, _ in sets[other].requests])).result()
            store.settle()
            few, every = served(store, sets[name], tools)
            say(f"{name:5} of {OFFERED} tools {few:.3f}, of all {len(tools)} {every:.3f}")
            earlier = {tool: text for one in sets.values() for tool, text in one.earlier.items()}
            if earlier:
                store.observe(*session_of("history", list(earlier.values()), list(earlier))).result()
                store.settle()
                few, every = served(store, sets[name], tools)
                say(f"{name:5} with a history: of {OFFERED} tools {few:.3f}, of all {len(tools)} {every:.3f}")
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

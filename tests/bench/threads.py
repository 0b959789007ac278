"""Eight clients at once: `python -m tests.bench.threads [--quick]`: is each answered as if it were alone?

One connection asks every question first, twice, so that an answer is known and known to stay. Then eight ask them all,
each in an order of its own, recall and context in turns, and remember something between: in channels that nobody asks,
in words that no question has. Questions are of rare words, since a word that is frequent is looked up in fewer places
until the memory has grown.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from dreamd.store import okf
from dreamd.store.engine.bm25 import words
from dreamd.store.text.words import index_stem, query_terms

from .daemon_under_test import DaemonUnderTest, Wire
from .datasets import many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .table import Row, say

THREADS = 8
TURNS, QUICK_TURNS = 2_000, 200
CALLS, QUICK_CALLS = 2_000, 25
CHANNEL = "asked"
BUDGET_TOKENS = 500
SEED = 20261123


@dataclass
class Findings:
    """What went wrong; filled by several threads, whose appends are atomic."""

    errors: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def measure(options: Options) -> Iterator[Row]:
    """Take the one row."""
    calls = options.of(CALLS, QUICK_CALLS)
    rng = random.Random(SEED)
    turns = many_turns(options.of(TURNS, QUICK_TURNS), options.data, rng)
    queries = rare_questions(turns)
    with own_folder("threads") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        say(f"importing and embedding {len(turns)} turns")
        chat = write_chat(scratch / "chat.jsonl", turns)
        daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel=CHANNEL)
        daemon.wait_until_embedded()
        found = at_once(daemon, queries, calls)
        daemon.stop()
    name = f"{THREADS} threads × {calls:,} recalls, contexts and remembers"
    measured = f"{len(found.errors)} errors, {len(found.different)} of {len(found.answered):,} answers differ"
    complaints = "; ".join([*found.errors[:3], *found.different[:3]])
    whole = len(found.answered) == 2 * THREADS * calls and len(found.kept) == THREADS * calls
    ok = whole and not found.errors and not found.different
    how = f"one daemon, a connection each, {len(queries)} questions; held against answers alone. {complaints}"
    yield Row(name, measured, "0 errors, each answer equal to the same asked alone", ok, how[:1500])


def rare_questions(turns: Sequence[str]) -> list[str]:
    """Up to four words of a turn that at most one other has, of every turn that has three."""
    stems = Counter(stem for turn in turns for stem in set(words(turn)))
    rare = [[word for word in query_terms(turn) if word.isalpha() and stems[index_stem(word)] <= 2] for turn in turns]
    return list(dict.fromkeys(" ".join(chosen[:4]) for chosen in rare if len(chosen) >= 3))


def at_once(daemon: DaemonUnderTest, queries: Sequence[str], calls: int) -> Findings:
    """Ask alone, then from every thread."""
    say(f"asking {len(queries)} questions alone, twice")
    with closing(daemon.wire()) as wire:
        alone = {query: _both(wire, query) for query in queries}
        found = Findings(
            different=[f"alone, again: {query}" for query in queries if _both(wire, query) != alone[query]]
        )
    say(f"asking them from {THREADS} threads")
    threads = [
        threading.Thread(target=_take_part, args=(daemon, alone, calls, number, found)) for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _expect_kept(daemon, found)
    return found


def _take_part(
    daemon: DaemonUnderTest, alone: dict[str, tuple[str, str]], calls: int, number: int, found: Findings
) -> None:
    queries = random.Random(number).choices(sorted(alone), k=calls)
    channel = f"written-{number}"
    try:
        with closing(daemon.wire()) as wire:
            for place, query in enumerate(queries):
                for got, expected in zip(_both(wire, query), alone[query], strict=True):
                    found.answered.append(query)
                    if got != expected:
                        found.different.append(f"{query}: {got[:200]} instead of {expected[:200]}")
                text = " ".join(f"zq{number}x{place}x{word}" for word in range(8))
                node_id = wire.call("remember", text=text, channel=channel)["node_id"]
                if node_id != okf.fact_id(channel, text):
                    found.different.append(f"remember answered {node_id} for another text")
                found.kept.append(node_id)
    except Exception as error:
        found.errors.append(f"thread {number}: {type(error).__name__}: {error}"[:300])


def _both(wire: Wire, query: str) -> tuple[str, str]:
    """Recall and context, without what is told of the moment."""
    recall = wire.call("recall", query=query, channel=CHANNEL)
    context = wire.call("context", query=query, channel=CHANNEL, budget_tokens=BUDGET_TOKENS)
    return _lasting(recall), _lasting(context)


def _lasting(answer: dict[str, Any]) -> str:
    """Say of an answer what must be the same each time: scores to six places, notes left out."""
    kept = {key: value for key, value in answer.items() if key != "notes"}
    rounded = json.loads(json.dumps(kept), parse_float=lambda number: round(float(number), 6))
    return json.dumps(rounded, sort_keys=True)


def _expect_kept(daemon: DaemonUnderTest, found: Findings) -> None:
    """Five hundred of what was acknowledged, evenly taken, can be shown."""
    with closing(daemon.wire()) as wire:
        for node_id in found.kept[:: max(1, len(found.kept) // 500)]:
            try:
                wire.call("show", node_id=node_id)
            except RuntimeError as error:
                found.errors.append(f"kept and not there: {error}"[:300])


def main() -> int:
    """Print the row; exit with 1 when it was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    (row,) = measure(Options(quick=given.quick))
    print(f"{row.verdict:7}{row.measure}: {row.measured}\n       {row.how}")
    return int(row.ok is False)


if __name__ == "__main__":
    sys.exit(main())

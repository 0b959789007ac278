"""What `remember` makes of a statement that stands to an earlier one: each pair alone, and all in one channel."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamd.store import okf

from tests.memories import facts_in

from ..in_process import AnyDaemon
from ..table import Row, say
from .reading import judge_pairs, keys_of, relation_of
from .to_read import write

RELATIONS = {"updates": (0.90, 0.45), "contradicts": (0.90, 0.35), "same": (0.90, 0.15)}
"""Least precision and recall of each relation, each pair of statements in a channel of its own, without a model."""

HARMLESS = {"contradicts": frozenset({"updates"})}
"""What is no mistake when it is taken for a relation: a change that is disputed is not lost."""

RIGHTLY, WRONGLY, BESIDE, OF_UPDATES = 12, 3, 27, 60

Pair = dict[str, Any]
Ids = list[tuple[str, str]]


def apart(daemon: AnyDaemon, data: Path, results: Path) -> Iterator[Row]:
    """Judge each pair in a channel of its own, and write those that were misjudged."""
    pairs = _pairs(data)
    say("readers: pairs, each in a channel of its own")
    found = relations(daemon, pairs, remembered_apart(daemon, pairs))
    misjudged = [
        f"{is_}→{seen} {pair['id']}\n    {pair['earlier']}\n    {pair['later']}\n"
        for pair, (is_, seen) in zip(pairs, found, strict=True)
        if seen != (is_ if is_ in RELATIONS else "none")
    ]
    write(results / "pairs misjudged.txt", misjudged)
    how = ", ".join(f"{is_}→{seen} {number}" for (is_, seen), number in sorted(Counter(found).items()))
    for relation, (precision, recall) in RELATIONS.items():
        judged = judge_pairs(found, relation, HARMLESS.get(relation, frozenset()))
        enough = judged.precision >= precision and judged.recall >= recall
        target = f"≥ {precision:.2f} / {recall:.2f}"
        yield Row(f"pairs: {relation}, precision / recall", str(judged), target, enough, how)


def remembered_apart(daemon: AnyDaemon, pairs: Sequence[Pair]) -> Ids:
    """Remember each pair in a channel of its own; return the ids."""
    return _remembered(daemon, pairs, lambda pair: "pair-" + re.sub(r"\W", "", str(pair["id"])))


def relations(daemon: AnyDaemon, pairs: Sequence[Pair], ids: Ids) -> list[tuple[str, str]]:
    """Return what each pair is, and what was made of it."""
    files = _files(daemon)
    return [
        (str(pair["relation"]), "same" if old == new else relation_of(files.get(old), files.get(new)))
        for pair, (old, new) in zip(pairs, ids, strict=True)
    ]


def together(daemon: AnyDaemon, data: Path) -> Iterator[Row]:
    """Judge all earlier statements and then all later ones in one channel: the right one among hundreds."""
    pairs = _pairs(data)
    say("readers: all pairs in one channel")
    ids = _remembered(daemon, pairs, lambda pair: "together")
    keys = {node_id: keys_of(file) for node_id, file in _files(daemon).items()}
    updates = sum(pair["relation"] == "updates" for pair in pairs)
    gone, beside = (_right_and_all(pairs, ids, keys, key, "updates") for key in ("superseded_by", "later"))
    disputed = _right_and_all(pairs, ids, keys, "contradicts", "contradicts")
    rightly, least_beside = RIGHTLY * updates // OF_UPDATES, BESIDE * updates // OF_UPDATES
    yield Row(
        f"pairs together: superseded rightly of {updates} / wrongly",
        f"{gone[0]} / {gone[1] - gone[0]}",
        f"≥ {rightly} / ≤ {WRONGLY}",
        gone[0] >= rightly and gone[1] - gone[0] <= WRONGLY,
        f"{len(pairs)} pairs in one channel; disputed rightly {disputed[0]}, in {disputed[1]} pairs",
    )
    yield Row(
        f'pairs together: "later: …" rightly beside, of {updates}',
        str(beside[0]),
        f"≥ {least_beside}",
        beside[0] >= least_beside,
        f"in {beside[1]} pairs; with those superseded {beside[0] + gone[0]}",
    )


def _right_and_all(
    pairs: Sequence[Pair], ids: Ids, keys: Mapping[str, Mapping[str, frozenset[str]]], key: str, relation: str
) -> tuple[int, int]:
    """Return how many pairs of a relation have the key from the earlier to the later, and how many of all have it.

    Of a dispute either side may name the other. One statement may stand in several pairs: it counts in each.
    """
    named = {node_id: of[key] for node_id, of in keys.items() if of.get(key)}
    right = sum(
        new in named.get(old, ()) or (key == "contradicts" and old in named.get(new, ()))
        for pair, (old, new) in zip(pairs, ids, strict=True)
        if pair["relation"] == relation
    )
    return right, sum(old in named or new in named for old, new in ids)


def _pairs(data: Path) -> list[Pair]:
    pairs: list[Pair] = json.loads((data / "pairs.json").read_text())
    return pairs


def _remembered(daemon: AnyDaemon, pairs: Sequence[Pair], channel_of: Callable[[Pair], str]) -> Ids:
    """Remember every earlier statement, and when those are compared every later one; return the ids of each pair."""
    sides = []
    for side in ("earlier", "later"):
        texts = [(pair[side], channel_of(pair)) for pair in pairs]
        sides.append([str(daemon.call("remember", text=text, channel=to)["node_id"]) for text, to in texts])
        daemon.wait_until_linked()
    return list(zip(*sides, strict=True))


def _files(daemon: AnyDaemon) -> dict[str, str]:
    """Return the text of every memory's file by its node id."""
    vault = Path(daemon.call("status")["vault"])
    return {str(okf.parse(path.read_bytes()).meta["node_id"]): path.read_text() for path in facts_in(vault)}

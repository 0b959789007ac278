"""What a dream made, as text for a person to read: figures alone have passed much that nobody would keep."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..in_process import AnyDaemon

DRAWN, SEED = 50, 20261122
PAGE = 100


def memories(daemon: AnyDaemon, level: str) -> Iterator[dict[str, Any]]:
    """Yield every memory of a level as `show` answers it."""
    offset: int | None = 0
    while offset is not None:
        page = daemon.call("list", level=level, limit=PAGE, offset=offset)
        for listed in page["memories"]:
            yield daemon.call("show", node_id=listed["node_id"])
        offset = page["next"]


def write_all(daemon: AnyDaemon, folder: Path) -> None:
    """Write fifty facts drawn by lot beside their turns, each scenario's title and beginning, and the digest."""
    facts = sorted(memories(daemon, "L1"), key=lambda fact: str(fact["node_id"]))
    drawn = random.Random(SEED).sample(facts, min(DRAWN, len(facts)))
    write(folder / "facts.txt", [_fact(daemon, fact) for fact in drawn])
    write(folder / "scenarios.txt", [_scenario(one) for one in memories(daemon, "L2")])
    write(folder / "profiles.txt", [f"{one['title']}\n{one['text']}\n" for one in memories(daemon, "L3")])
    write(folder / "digest.md", [daemon.call("digest")["text"]])


def write(file: Path, parts: Sequence[str], between: str = "\n") -> None:
    """Write what a person is to read, in a folder that may not be there yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(between.join(parts))


def _fact(daemon: AnyDaemon, fact: dict[str, Any]) -> str:
    turns = [daemon.call("show", node_id=turn["node_id"]) for turn in fact["evidence"]]
    said = "\n".join(f"    {turn['node_id']}: {turn['text']}" for turn in turns)
    state = "" if fact["live"] else " (superseded or archived)"
    return f"{fact['kind']}, {fact['channel']}{state}\n{fact['text']}\n{said}\n"


def _scenario(scenario: dict[str, Any]) -> str:
    first = next((line for line in scenario["text"].splitlines() if line.strip() and not line.startswith("#")), "")
    return f"{scenario['title']}\n    {first}\n"

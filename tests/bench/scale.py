"""A memory of many people on paper: `python -m tests.bench.scale` works out what docs/scale.md says.

What goes in was measured, by the command that stands beside it; prices and habits are assumptions, and are said to be.
People are placed on machines as the plan has it, each whole, by the hash of their name; so the imbalance is simulated,
and the rest follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

CHUNKS, PEOPLE = 10**9, 10**4
SPREAD = 1.0
"""Of the sizes of memories, the standard deviation of their logarithm: one in twenty has five times the median."""
SEED = 30

EXACT_UP_TO = 20_000
"""Points of a person below which no HNSW is built (`store/engine/postgres.py`)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes and times of Postgres at a million chunks: `python -m tests.bench.growth.servers --sizes 1000000`."""

    table_b: float = 3_035.0
    indexes_b: float = 691.0
    hnsw_b: float = 1_170.0
    filled_per_s: float = 5_202.0
    built_per_s: float = 1_449.0
    question_core_s: float = 0.014


@dataclass(frozen=True, slots=True)
class Assumed:
    """Habits and prices; not measured."""

    turns_a_day: float = 150.0
    questions_a_day: float = 300.0
    busy_hours: float = 8.0
    awake: float = 0.3
    cores: int = 16
    memory_b: float = 128e9
    disk_b: float = 4e12
    machine_a_month: float = 500.0
    copies: int = 2


class Plan(NamedTuple):
    """What one number of machines means; per machine where nothing else is said, and for the fullest."""

    machines: int
    people: int
    fullest: float
    disk_b: float
    graphs_b: float
    awake_b: float
    writes_per_s: float
    questions_per_s: float
    cores_busy: float
    refill_h: float
    cost_a_person: float

    def fits(self, assumed: Assumed) -> bool:
        """Return True if the fullest machine has room, and half of its processors to spare."""
        return (
            self.disk_b < 0.7 * assumed.disk_b
            and self.awake_b < 0.7 * assumed.memory_b
            and self.cores_busy < assumed.cores / 2
        )


def sizes(rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the chunks of each person, together CHUNKS."""
    drawn = rng.lognormal(0.0, SPREAD, PEOPLE)
    return np.asarray(drawn * CHUNKS / drawn.sum())


def plans(measured: Measured, assumed: Assumed, counts: tuple[int, ...] = (8, 16, 32, 64, 128)) -> Iterator[Plan]:
    """Yield a plan for each number of machines; every person is on `copies` of them."""
    held = sizes(np.random.default_rng(SEED))
    graph = np.where(held > EXACT_UP_TO, held, 0.0) * measured.hnsw_b
    stored = held * (measured.table_b + measured.indexes_b) + graph
    # Of a person who asks the graph is in memory, and the words' index; the table is read where a match lies.
    warm = graph + held * measured.indexes_b
    for count in counts:
        chunks, disk, graphs, hot, people = (np.zeros(count) for _ in range(5))
        for person in range(PEOPLE):
            for place in _places(person, count, assumed.copies):
                chunks[place] += held[person]
                disk[place] += stored[person]
                graphs[place] += graph[person]
                hot[place] += assumed.awake * warm[person]
                people[place] += 1
        most = int(people.max())
        day_s = 3600 * assumed.busy_hours
        asked = most * assumed.questions_a_day / day_s / assumed.copies
        yield Plan(
            count,
            most,
            float(chunks.max() / chunks.mean()),
            float(disk.max()),
            float(graphs.max()),
            float(hot.max()),
            most * assumed.turns_a_day / day_s,
            asked,
            asked * measured.question_core_s + most * assumed.turns_a_day / day_s / measured.filled_per_s,
            float(chunks.max() * (1 / measured.filled_per_s + 1 / measured.built_per_s) / 3600 / (assumed.cores / 2)),
            count * assumed.machine_a_month / PEOPLE,
        )


def _places(person: int, machines: int, copies: int) -> list[int]:
    """Return a person's machines: those with the highest hashes of both (rendezvous, Thaler and Ravishankar 1998)."""

    def height(machine: int) -> bytes:
        return hashlib.blake2b(f"{person} {machine}".encode(), digest_size=8).digest()

    return sorted(range(machines), key=height)[-copies:]


def table(measured: Measured | None = None, assumed: Assumed | None = None) -> str:
    """Return the table of docs/scale.md."""
    assumed = assumed or Assumed()
    lines = [
        "| machines | people each | fullest / mean | disk, TB | graphs, GB | warm, GB | writes/s | questions/s"
        " | cores busy | filled anew, h | a person and month | fits |",
        "|" + "---|" * 12,
    ]
    for plan in plans(measured or Measured(), assumed):
        cells = (
            f"{plan.machines}",
            f"{plan.people:,}",
            f"{plan.fullest:.2f}",
            f"{plan.disk_b / 1e12:.2f}",
            f"{plan.graphs_b / 1e9:.0f}",
            f"{plan.awake_b / 1e9:.0f}",
            f"{plan.writes_per_s:.0f}",
            f"{plan.questions_per_s:.0f}",
            f"{plan.cores_busy:.1f}",
            f"{plan.refill_h:.0f}",
            f"${plan.cost_a_person:.2f}",
            "yes" if plan.fits(assumed) else "no",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())

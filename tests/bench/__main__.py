"""`make bench`, or `python -m tests.bench [--quick] [--only SUITE]`: measure, and write one table."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import (
    agents,
    backups,
    blocking,
    bundles,
    busy,
    damage,
    disk_full,
    embedding,
    fairness,
    faults,
    filters,
    following,
    gate,
    grounding,
    latency,
    many_dreams,
    memory,
    model_dreams,
    openings,
    page,
    planning,
    preemption,
    redaction,
    relays,
    survival,
    threads,
    vault_away,
)
from .ablation import suite as ablation
from .growth import suite as growth
from .options import Options, is_absent_data
from .quality import suite as quality
from .readers import suite as readers
from .scratch import end_in_order
from .table import Row, write

SUITES: dict[str, Callable[[Options], Iterator[Row]]] = {
    "quality": quality.measure,
    "ablation": ablation.measure,
    "readers": readers.measure,
    "embedding": embedding.measure,
    "latency": latency.measure,
    "growth": growth.measure,
    "filters": filters.measure,
    "fairness": fairness.measure,
    "following": following.measure,
    "memory": memory.measure,
    "agents": agents.measure,
    "openings": openings.measure,
    "page": page.measure,
    "relays": relays.measure,
    "survival": survival.measure,
    "damage": damage.measure,
    "disk_full": disk_full.measure,
    "faults": faults.measure,
    "threads": threads.measure,
    "blocking": blocking.measure,
    "grounding": grounding.measure,
    "gate": gate.measure,
    "model_dreams": model_dreams.measure,
    "preemption": preemption.measure,
    "nights": many_dreams.measure,
    "planning": planning.measure,
    "busy": busy.measure,
    "bundles": bundles.measure,
    "redaction": redaction.measure,
    "vault_away": vault_away.measure,
    "backups": backups.measure,
}


def main() -> int:
    """Run the suites one after the other; exit with 1 when a promise was missed or a suite broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a part of everything: whether it works, not how well")
    parser.add_argument("--only", action="append", choices=sorted(SUITES), help="this suite (may be given again)")
    parser.add_argument("--results", type=Path, default=Options().results, help="where the table goes")
    given = parser.parse_args()
    end_in_order()
    options = Options(quick=given.quick, results=given.results)
    rows: list[Row] = []
    for name in given.only or SUITES:
        for row in _rows_of(name, options):
            print(f"{row.verdict:7}{row.measure}: {row.measured}", flush=True)
            rows.append(row)
    print(f"\n{write(rows, given.results)}\nwritten to {given.results}/table.txt and table.json")
    return int(any(row.ok is False for row in rows))


def _rows_of(name: str, options: Options) -> Iterator[Row]:
    """Take a suite's rows; one that breaks is a missed row, and the others are still measured."""
    began = time.monotonic()
    try:
        yield from SUITES[name](options)
    except Exception as error:  # the boundary of a job
        if is_absent_data(error):
            raise
        yield Row(name, "broke", "", False, f"{type(error).__name__}: {error}")
    print(f"       {name} took {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())

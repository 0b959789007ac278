"""The ablation alone: `python -m tests.bench.ablation [locomo|beam]`.

Vectors are kept in /var/tmp for the next run. `--chats` takes the first conversations only, `--dreamed` has a daily
dream before it asks: then facts are linked, and a cascade has a way to go. The tables lie in bench-results/ablation.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from loguru import logger

from ..datasets import beam, locomo
from ..options import Options
from ..scratch import own_folder
from ..table import report
from .suite import NAME, rows_of, table_of

SETS = ("locomo", "beam")


def main() -> int:
    """Print the table of each set; exit with 1 when the default is not ahead."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.ablation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", nargs="?", choices=SETS, help="this one alone")
    parser.add_argument("--chats", type=int, help="only so many conversations")
    parser.add_argument("--dreamed", action="store_true", help="after a daily dream")
    parser.add_argument("--results", type=Path, default=Options().results, help="where the tables go")
    given = parser.parse_args()
    logger.remove()
    began, options = time.monotonic(), Options(results=given.results)
    with own_folder(NAME) as scratch:
        sets = []
        if given.set != "beam":
            sets.append(locomo(options.data / "locomo" / "dev.json", scratch, given.chats))
        if given.set != "locomo":
            sets.append(beam(options.data / "beam-100k", given.chats))
        rows = [row for row in rows_of(sets, scratch, options, dreamed=given.dreamed) if row.target]
    for data in sets:
        print(f"\n{data.name}\n{table_of(options, data.name, given.dreamed).read_text()}")
    missed = report(rows)
    print(f"       took {time.monotonic() - began:.0f} s")
    return missed


if __name__ == "__main__":
    sys.exit(main())

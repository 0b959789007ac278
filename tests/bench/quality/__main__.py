"""One set's envelopes of 500 tokens in this process: `python -m tests.bench.quality {locomo,beam}`.

Before a dream and after it; vectors are kept in /var/tmp for the next run. `--chats` takes the first ones only,
`--before` no dream. What is to be read lies in bench-results/quality.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from loguru import logger

from ..datasets import Dataset, beam, locomo
from ..in_process import DaemonInProcess
from ..options import Options
from ..scratch import own_folder
from ..table import Row, report
from . import rows
from .suite import DATA, enveloped, imported


def _rows(data: Dataset, folder: Path, results: Path, before: bool) -> Iterator[Row]:
    with DaemonInProcess(folder) as daemon:
        turns = imported(daemon, data)
        budgets = (rows.JUDGED,)
        if before:
            yield from rows.before(data, results, rows.ask(daemon, data, budgets))
        else:
            yield from enveloped(daemon, data, results, turns, budgets)


def main() -> int:
    """Take the set's rows; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=("locomo", "beam"))
    parser.add_argument("--chats", type=int, help="only so many conversations")
    parser.add_argument("--before", action="store_true", help="without a dream")
    parser.add_argument("--results", type=Path, default=Options().results / DATA, help="where what is to be read goes")
    given = parser.parse_args()
    logger.remove()
    began, source = time.monotonic(), Options().data
    with own_folder(DATA) as scratch:
        if given.set == "locomo":
            data = locomo(source / "locomo" / "dev.json", scratch, given.chats)
        else:
            data = beam(source / "beam-100k", given.chats)
        missed = report(_rows(data, scratch / "store", given.results, given.before))
    print(f"       took {time.monotonic() - began:.0f} s; to be read: {given.results}")
    return missed


if __name__ == "__main__":
    sys.exit(main())

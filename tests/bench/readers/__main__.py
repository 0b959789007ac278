"""One part of the reader's benchmark in this process: `python -m tests.bench.readers PART`, some seconds each.

before    the envelopes of 500 and 300 tokens
after     the same after a dream, what the dream kept of the sessions, and how much
pairs     each pair of statements in a channel of its own
together  all of them in one channel
worth     each labelled turn in its place, after a dream

The store and the dream are the daemon's own; vectors are kept in /var/tmp for the next run, and `DREAMD_…` of the
environment is followed. What is to be read lies in bench-results/readers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from loguru import logger

from ..in_process import AnyDaemon, DaemonInProcess
from ..options import SHARED_DATA, Options
from ..scratch import own_folder
from ..table import Row, report
from . import pairs, questions, worth
from .suite import DATA

Part = Callable[[AnyDaemon, Path, Path], Iterator[Row]]


def _before(daemon: AnyDaemon, data: Path, results: Path) -> Iterator[Row]:
    questions.import_sessions(daemon, data)
    yield from questions.before(daemon, data, results)


def _after(daemon: AnyDaemon, data: Path, results: Path) -> Iterator[Row]:
    turns = questions.import_sessions(daemon, data)
    yield from questions.after(daemon, data, results)
    yield from worth.in_sessions(daemon, data, results, turns)


PARTS: dict[str, Part] = {
    "before": _before,
    "after": _after,
    "pairs": pairs.apart,
    "together": lambda daemon, data, results: pairs.together(daemon, data),
    "worth": worth.each_in_its_place,
}


def main() -> int:
    """Take the part's rows; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.readers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", type=Path, default=SHARED_DATA / DATA, help="the benchmark's folder")
    parser.add_argument("--results", type=Path, default=Options().results / DATA, help="where what is to be read goes")
    parser.add_argument("--folder", type=Path, help="keep the store there, to look at it (a folder that is empty)")
    given = parser.parse_args()
    logger.remove()
    folder: AbstractContextManager[Path] = nullcontext(given.folder) if given.folder else own_folder(DATA)
    began = time.monotonic()
    with folder as place, DaemonInProcess(place) as daemon:
        missed = report(PARTS[given.part](daemon, given.data, given.results))
    print(f"       took {time.monotonic() - began:.0f} s; to be read: {given.results}")
    return missed


if __name__ == "__main__":
    sys.exit(main())

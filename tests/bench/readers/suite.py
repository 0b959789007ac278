"""Does an envelope tell what was asked? A reader's benchmark: questions, pairs of statements, turns worth keeping.

`python -m tests.bench.readers` takes one part of it, in this process.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..daemon_under_test import DaemonUnderTest
from ..options import Options
from ..scratch import own_folder
from ..table import Row, skipped
from . import pairs, questions, worth

DATA = "readers"


def measure(options: Options) -> Iterator[Row]:
    """Take every row: the envelopes before and after a dream, what the dream kept, and the pairs."""
    data, results = options.data / DATA, options.results / DATA
    if not data.is_dir():
        yield skipped(DATA, "", f"no {data}")
        return
    with own_folder(DATA) as scratch:
        with DaemonUnderTest(scratch / "asked") as daemon:
            turns = questions.import_sessions(daemon, data)
            yield from questions.before(daemon, data, results)
            yield from questions.after(daemon, data, results)
            yield from worth.in_sessions(daemon, data, results, turns)
            daemon.stop()
        with DaemonUnderTest(scratch / "worth") as daemon:
            yield from worth.each_in_its_place(daemon, data, results)
            daemon.stop()
        with DaemonUnderTest(scratch / "pairs") as daemon:
            yield from pairs.apart(daemon, data, results)
            yield from pairs.together(daemon, data)
            daemon.stop()

"""Is the right thing found? LoCoMo and BEAM through the socket, before and after a dream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from ..daemon_under_test import DaemonUnderTest
from ..datasets import Dataset, beam, locomo
from ..in_process import AnyDaemon
from ..options import Options
from ..scratch import own_folder
from ..table import Row, say, skipped
from . import rows, two_sided
from .asking import HITS, Recalled, recall_all

DATA = "quality"
LOCOMO_RRF = "LoCoMo dev, evidence recall@10, fusion rrf"
BEAM_RRF = "BEAM-100K dev, any@5, fusion rrf"
RRF = {"DREAMD_STORE__SEARCH__FUSION": "rrf"}


def measure(options: Options) -> Iterator[Row]:
    """Take every row whose data is there."""
    with own_folder(DATA) as scratch:
        file = options.data / "locomo" / "dev.json"
        if file.is_file():
            yield from _locomo_rows(locomo(file, scratch, options.of(10, 1)), scratch / "locomo", options)
        else:
            yield skipped(LOCOMO_RRF, "≥ .66", f"no {file}")
        folder = options.data / "beam-100k"
        if folder.is_dir():
            yield from _beam_rows(beam(folder, options.of(20, 1)), scratch / "beam", options)
        else:
            yield skipped(BEAM_RRF, "≥ .62", f"no {folder}")


def _locomo_rows(data: Dataset, folder: Path, options: Options) -> Iterator[Row]:
    turns, found = _by_rrf(data, folder, options)
    yield _at_least(LOCOMO_RRF, fmean(found.recall_10), 0.66, f"{_how(data)}; {found}")
    with DaemonUnderTest(folder) as daemon:
        before = recall_all(daemon, data)
        name = "LoCoMo dev, evidence recall@10, default fusion"
        yield Row(name, f"{fmean(before.recall_10):.3f}", "", None, str(before))
        yield from enveloped(daemon, data, options.results / DATA, turns)
        after = recall_all(daemon, data)
        daemon.stop()
    name = "LoCoMo dev after one daily dream, evidence recall@10"
    yield rows.compared(name, before.recall_10, after.recall_10)


def _beam_rows(data: Dataset, folder: Path, options: Options) -> Iterator[Row]:
    turns, found = _by_rrf(data, folder, options)
    yield _at_least(BEAM_RRF, fmean(found.any_5), 0.62, f"{_how(data)}; {found}")
    with DaemonUnderTest(folder) as daemon:
        found = recall_all(daemon, data)
        yield Row("BEAM-100K dev, any@5, default fusion", f"{fmean(found.any_5):.3f}", "", None, str(found))
        yield from enveloped(daemon, data, options.results / DATA, turns)
        daemon.stop()


def _by_rrf(data: Dataset, folder: Path, options: Options) -> tuple[int, Recalled]:
    """Import a set, and ask it with reciprocal rank fusion; return how many turns it has, and what was found."""
    with DaemonUnderTest(folder, RRF, options.results / f"embeddings-{data.format}.db") as daemon:
        turns = imported(daemon, data)
        found = recall_all(daemon, data)
        daemon.stop()
    return turns, found


def enveloped(
    daemon: AnyDaemon, data: Dataset, results: Path, turns: int, budgets: Sequence[int] = rows.BUDGETS
) -> Iterator[Row]:
    """Take the rows of a set's envelopes, before a dream and after it."""
    before = rows.ask(daemon, data, budgets)
    yield from rows.before(data, results, before)
    yield from rows.dream(daemon, data, turns)
    yield from rows.after(data, results, before, rows.ask(daemon, data, budgets))
    if any(question.sides for question in data.questions):
        yield from two_sided.rows(daemon, data, results)


def imported(daemon: AnyDaemon, data: Dataset) -> int:
    """Import a set; return how many turns it has. Raises RuntimeError for none."""
    say(f"{data.name}: importing and embedding")
    added = data.observed_by(daemon)
    if not added:
        raise RuntimeError(f"nothing was imported of {data.paths}")
    daemon.wait_until_embedded()
    return added


# -- rows


def _how(data: Dataset) -> str:
    kinds = Counter(question.kind for question in data.questions)
    named = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    return f"{len(data.questions)} questions ({named}), {HITS} hits"


def _at_least(measure: str, value: float, target: float, how: str) -> Row:
    return Row(measure, f"{value:.3f}", f"≥ {target:.2f}".replace("0.", "."), value >= target, how)

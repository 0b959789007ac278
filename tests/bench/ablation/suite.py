"""Is the default ahead of each arm alone and of each published pipeline, and what is each of their stages worth?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ..datasets import Dataset, beam, locomo
from ..in_process import KEPT_VECTORS, DaemonInProcess
from ..options import Options
from ..quality.suite import imported
from ..scoring import Difference, any_found, evidence_recall, paired_bootstrap
from ..scratch import own_folder
from ..table import Row, say, skipped
from .gathering import HITS, Asked, ask
from .held_out import held_out
from .variants import variants

NAME = "ablation"
SEED, ROUNDS = 20261123, 1000
JUDGED = {"LoCoMo": "recall", "BEAM-100K": "any"}
"""The measure of each set by which the default is judged, at 5 and at 10."""

MEASURES = {"recall": evidence_recall, "any": any_found}
HELD_OUT = "default, not learned from it"
AHEAD = "ahead of each arm and each preset at 95 %"


@dataclass(frozen=True, slots=True)
class Line:
    """One pipeline's means by measure and depth, and how far the default is ahead, at 5 and at 10."""

    name: str
    is_rival: bool
    means: dict[tuple[str, int], float]
    ahead: tuple[Difference, Difference] | None = None

    def __str__(self) -> str:
        cells = [f"{self.means[measure, k]:.3f}" for measure in MEASURES for k in (5, 10)]
        return "  ".join([f"{self.name:32}", *cells, *(f"{gain!s:>24}" for gain in self.ahead or ())])


HEAD = "  ".join([f"{'':32}", "rec@5", "re@10", "any@5", "an@10", *(f"{f'default ahead @{k}':>24}" for k in (5, 10))])


def measure(options: Options) -> Iterator[Row]:
    """Take the rows of both sets, before any dream."""
    with own_folder(NAME) as scratch:
        sets = []
        file, folder = options.data / "locomo" / "dev.json", options.data / "beam-100k"
        if file.is_file():
            sets.append(locomo(file, scratch, options.of(10, 1)))
        else:
            yield skipped(f"LoCoMo dev, the default {AHEAD}", "", f"no {file}")
        if folder.is_dir():
            sets.append(beam(folder, options.of(20, 1)))
        else:
            yield skipped(f"BEAM-100K dev, the default {AHEAD}", "", f"no {folder}")
        yield from rows_of(sets, scratch, options)


def rows_of(sets: Sequence[Dataset], scratch: Path, options: Options, *, dreamed: bool = False) -> Iterator[Row]:
    """Import each set, have a dream if so told, and hold every pipeline against the default."""
    when = "after one daily dream" if dreamed else "before a dream"
    asked = {data.name: _ask(data, scratch / data.format, options, dreamed) for data in sets}
    unseen = held_out([one for part in asked.values() for one in part])
    for data in sets:
        part, unseen_here = asked[data.name], None
        if unseen is not None:
            unseen_here, unseen = unseen[: len(part)], unseen[len(part) :]
        lines = compare(part, unseen_here, JUDGED[data.name])
        _write(table_of(options, data.name, dreamed), lines)
        yield from (_row(line, data, when) for line in lines)
        yield _judged(lines, data, when)


def table_of(options: Options, name: str, dreamed: bool) -> Path:
    """Return where a set's table is written."""
    return options.results / NAME / f"{name}, {'after one daily dream' if dreamed else 'before a dream'}.txt"


def _ask(data: Dataset, folder: Path, options: Options, dreamed: bool) -> list[Asked]:
    kept = options.results / "embeddings.db" if options.quick else KEPT_VECTORS
    with DaemonInProcess(folder, kept) as daemon:
        imported(daemon, data)
        if dreamed:
            say(f"{data.name}: a daily dream")
            daemon.call("dream", kind="daily", wait=True)
            daemon.wait_until_embedded()
        say(f"{data.name}: {len(data.questions)} questions, ranked by each pipeline")
        return list(ask(daemon.store, data))


def compare(asked: Sequence[Asked], unseen: Sequence[tuple[str, ...]] | None, measure: str) -> list[Line]:
    """Return the lines of the default and of all others; `unseen` are its answers by weights learned elsewhere.

    What the default is ahead is counted by the latter where it is learned.
    """
    shipped = _scores(asked, [one.candidates[:HITS] for one in asked])
    lines = [Line("default", False, _means(shipped))]
    default = shipped
    if unseen is not None:
        default = _scores(asked, unseen)
        lines.append(Line(HELD_OUT, False, _means(default)))
    for variant in variants():
        other = _scores(asked, [one.found[variant.name] for one in asked])
        gains = [_gain(other, default, measure, k) for k in (5, 10)]
        lines.append(Line(variant.name, variant.is_rival, _means(other), (gains[0], gains[1])))
    return lines


Scores = dict[tuple[str, int], list[float]]


def _scores(asked: Sequence[Asked], found: Sequence[tuple[str, ...]]) -> Scores:
    return {
        (name, k): [score(turns, one.question.gold, k) for one, turns in zip(asked, found, strict=True)]
        for name, score in MEASURES.items()
        for k in (5, 10)
    }


def _means(scores: Scores) -> dict[tuple[str, int], float]:
    return {key: fmean(listed) for key, listed in scores.items()}


def _gain(other: Scores, default: Scores, measure: str, k: int) -> Difference:
    return paired_bootstrap(other[measure, k], default[measure, k], random.Random(SEED), ROUNDS)


def _row(line: Line, data: Dataset, when: str) -> Row:
    shown = ", ".join(f"{name}@{k} {line.means[name, k]:.3f}" for name in MEASURES for k in (5, 10))
    name, how = JUDGED[data.name], ""
    if line.ahead is not None:
        how = f"default - it, {name}@5 {line.ahead[0]}, {name}@10 {line.ahead[1]}"
    return Row(f"{data.name} dev {when}, {line.name}", shown, "", None, how)


def _judged(lines: Sequence[Line], data: Dataset, when: str) -> Row:
    default = next((line for line in lines if line.name == HELD_OUT), lines[0])
    rivals = [line for line in lines if line.is_rival]
    behind = [
        f"{line.name} @{k}"
        for line in rivals
        for k, gain in zip((5, 10), line.ahead or (), strict=True)
        if gain.low <= 0
    ]
    shown = ", ".join(f"{name}@{k} {default.means[name, k]:.3f}" for name in MEASURES for k in (5, 10))
    how = f"not surely ahead of {', '.join(behind)}" if behind else f"of {len(rivals)} at both depths"
    measured = f"{2 * len(rivals) - len(behind)} of {2 * len(rivals)}; {shown}"
    measure = f"{data.name} dev {when}, the default {AHEAD}, {JUDGED[data.name]}"
    return Row(measure, measured, "all", not behind, f"{how}; {len(data.questions)} questions")


def _write(file: Path, lines: Sequence[Line]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([HEAD, *map(str, lines), ""]))

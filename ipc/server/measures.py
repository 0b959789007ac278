"""Measures of the answers since the start, kept in memory, and their text in the exposition format of Prometheus.

They belong to the server's loop, so they need no lock: a sample costs a search among few bounds and three additions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ...store import Histogram

BOUNDS_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
"""The upper bounds of the buckets: from the fastest answer to one that a person gives up."""

OK: Final = "ok"

WAIT, WORK, ALL = "wait", "work", "all"
"""The steps of an answer: the wait for a thread, the work in it, and all from the request to its answer."""

OnAnswered = Callable[[str, float, str], None]
"""Called with the method, the seconds it took, and its outcome: `ok`, or the code of its error."""


class Measures:
    """The durations of answers by method and step, and their outcomes. Methods and codes are few, and bound them."""

    def __init__(self) -> None:
        self.durations: dict[tuple[str, str], Histogram] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.on_answered: OnAnswered | None = None

    def answered(self, method: str, outcome: str, began_s: float, worked_s: float, ended_s: float) -> None:
        """Count an answer; `worked_s` is 0 where no thread was waited for. All times are of the loop's clock."""
        self.outcomes[method, outcome] += 1
        if worked_s:
            self._add(method, WAIT, worked_s - began_s)
            self._add(method, WORK, ended_s - worked_s)
        self._add(method, ALL, ended_s - began_s)
        if self.on_answered is not None:
            self.on_answered(method, ended_s - began_s, outcome)

    def refused(self, code: int) -> None:
        """Count a request that named no method, or not as it is to be called."""
        self.outcomes["", str(code)] += 1

    def _add(self, method: str, step: str, seconds: float) -> None:
        histogram = self.durations.get((method, step))
        if histogram is None:
            histogram = self.durations[method, step] = Histogram(BOUNDS_S)
        histogram.counts[bisect_left(BOUNDS_S, seconds)] += 1
        histogram.total_s += seconds

    def families(self) -> Iterator[Family]:
        """Yield the metric families of it all; safe from another thread, which sees numbers of a moment ago."""
        yield Family(
            "dreamd_answers_total",
            "counter",
            "Answers by method and outcome: ok, or the code of the error.",
            [Sample({"method": name, "outcome": end}, number) for (name, end), number in list(self.outcomes.items())],
        )
        by_labels = [({"method": method, "step": step}, one) for (method, step), one in list(self.durations.items())]
        yield histograms(
            "dreamd_answer_seconds",
            "Time of an answer: until a thread was free (wait), in it (work), and all.",
            by_labels,
        )


class Sample(NamedTuple):
    """One value, with its labels and the ending of its name."""

    labels: Mapping[str, str]
    value: float
    ending: str = ""


class Family(NamedTuple):
    """The samples of one metric."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


def gauge(name: str, text: str, value: float, kind: str = "gauge") -> Family:
    """Return a metric of one sample."""
    return Family(name, kind, text, [Sample({}, value)])


def histograms(name: str, text: str, by_labels: Iterable[tuple[Mapping[str, str], Histogram]]) -> Family:
    """Return a metric of histograms, each with its labels."""
    samples: list[Sample] = []
    for labels, histogram in by_labels:
        below = 0
        for bound, number in zip((*histogram.bounds_s, None), list(histogram.counts), strict=True):
            below += number
            samples.append(Sample({**labels, "le": "+Inf" if bound is None else f"{bound:g}"}, below, "_bucket"))
        samples += [Sample(labels, round(histogram.total_s, 6), "_sum"), Sample(labels, below, "_count")]
    return Family(name, "histogram", text, samples)


def exposition(families: Iterable[Family]) -> str:
    """Write metrics in the text format of Prometheus 0.0.4."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        for sample in family.samples:
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
            braced = f"{{{labels}}}" if labels else ""
            value = int(sample.value) if float(sample.value).is_integer() else sample.value
            lines.append(f"{family.name}{sample.ending}{braced} {value}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

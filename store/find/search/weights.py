"""The weights of the learned scorer: written by `python -m tests.bench.ranking --write`, not by hand."""

from __future__ import annotations

WEIGHTS = {
    "keyword": 1.875,
    "vector": 5.524,
    "keyword and vector": -1.580,
    "keyword rank": -0.049,
    "phrases": 0.110,
    "before": 1.191,
    "after": 0.192,
    "beside": 0.929,
    "after the best": 0.215,
    "answers": 0.546,
    "window": 0.293,
    "session best": 1.640,
    "session's best": -0.130,
    "session": -0.388,
    "asks": -0.442,
    "assistant": -1.119,
    "tool": -2.088,
    "assistant, found": -0.092,
    "tool, found": -3.999,
    "speaker named": 0.000,
    "speaker named first": 0.000,
    "another named": 0.000,
    "length": 0.891,
    "short": -0.642,
    "long": -1.578,
}

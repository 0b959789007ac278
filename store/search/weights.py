"""The weights of the learned scorer: written by `python -m tests.bench.ranking --write`, not by hand."""

from __future__ import annotations

WEIGHTS = {
    "keyword": 2.077,
    "vector": 5.533,
    "keyword and vector": -1.831,
    "keyword rank": 0.057,
    "phrases": 0.950,
    "before": 1.351,
    "after": 0.376,
    "beside": 0.706,
    "after the best": 0.185,
    "answers": 0.561,
    "window": 0.211,
    "session best": 1.646,
    "session's best": -0.169,
    "session": -0.263,
    "asks": -0.413,
    "assistant": -1.240,
    "tool": -1.953,
    "assistant, found": 0.225,
    "tool, found": -4.558,
    "speaker named": 0.000,
    "speaker named first": 0.000,
    "another named": 0.000,
    "length": 0.823,
    "short": -0.602,
    "long": -1.471,
}

"""The weights of the learned scorer: written by `python -m tests.bench.ranking --write`, not by hand."""

from __future__ import annotations

WEIGHTS = {
    "keyword": 3.199,
    "vector": 5.464,
    "keyword and vector": -3.132,
    "keyword rank": 0.820,
    "phrases": 0.594,
    "before": 0.174,
    "after": 0.308,
    "beside": 1.216,
    "after the best": 0.208,
    "answers": 0.440,
    "window": 0.154,
    "session best": 4.684,
    "session's best": 0.233,
    "session": -0.809,
    "asks": -0.406,
    "assistant": -1.221,
    "tool": -2.018,
    "assistant, found": -1.101,
    "tool, found": -7.820,
    "speaker named": 0.544,
    "speaker named first": 0.996,
    "another named": -0.730,
    "length": 0.735,
    "short": -0.971,
    "long": -1.524,
}

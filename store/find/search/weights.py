"""The weights of the learned scorer: written by `python -m tests.bench.ranking --write`, not by hand."""

from __future__ import annotations

WEIGHTS = {
    "keyword": 3.083,
    "vector": 5.464,
    "keyword and vector": -2.637,
    "keyword rank": 0.903,
    "before": 0.174,
    "after": 0.338,
    "beside": 1.266,
    "after the best": 0.189,
    "answers": 0.428,
    "window": 0.154,
    "session best": 4.577,
    "session's best": 0.196,
    "session": -0.772,
    "asks": -0.391,
    "assistant": -1.240,
    "tool": -1.985,
    "assistant, found": -1.212,
    "tool, found": -7.760,
    "speaker named": 0.929,
    "another named": -1.248,
    "length": 0.846,
    "short": -0.909,
    "long": -1.635,
}

"""How many examples hypothesis tries: a quarter of them in `make test`, all of them in `make nightly`."""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("NIGHTLY") == "1"


def examples(full: int) -> int:
    """Return how many of a night's examples are tried now."""
    return full if NIGHTLY else max(1, full // 4)

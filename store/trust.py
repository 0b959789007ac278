"""Trust: what the feedback on a memory says of it, as one factor. The same for what fades and for what ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GAIN: Final = {"used": 0.05, "useful": 0.05, "not_useful": -0.10, "rejected": -0.02}
MOST_TRUST: Final = 2.0


def trust(feedback: Mapping[str, int]) -> float:
    """Return the feedback on a memory, counted by kind, as a factor in [0, MOST_TRUST], 1 where there is none."""
    factor = 1.0 + sum(GAIN.get(kind, 0.0) * times for kind, times in feedback.items())
    return min(MOST_TRUST, max(0.0, factor))

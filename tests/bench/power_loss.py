"""Cut the power at many random points and count what was lost: `python tests/bench/power_loss.py --points 500`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.store.disks.simulation import cut_at_random_point

# The simulated disks keep their own books of what is durable, so what lies below them may be memory.
MEMORY = Path("/dev/shm")

REQUESTS_A_POINT = 3
"""So many requests were acknowledged before a cut, on average, at least; about 15 are. With fewer nothing was tried."""


def main() -> int:
    """Print one JSON object; exit with 1 when anything was lost, or when too little was promised to say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lying", action="append", default=[], choices=["ledger", "vault"], help="does not sync")
    given = parser.parse_args()
    began = time.monotonic()
    acknowledged, lost = 0, {}
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for seed in range(given.seed, given.seed + given.points):
            with tempfile.TemporaryDirectory(dir=folder) as point:
                count, verdict = cut_at_random_point(Path(point, "machine"), seed, frozenset(given.lying))
            acknowledged += count
            if verdict is not None:
                lost[seed] = verdict
    too_little = (
        [] if acknowledged >= REQUESTS_A_POINT * given.points else [f"only {acknowledged} requests acknowledged"]
    )
    result = {
        "points": given.points,
        "seed": given.seed,
        "not_syncing": given.lying,
        "requests_acknowledged": acknowledged,
        "points_with_loss": len(lost),
        "lost": dict(list(lost.items())[:5]),
        "too_little": too_little,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return 1 if lost or too_little else 0


if __name__ == "__main__":
    sys.exit(main())

"""Growth alone: `python -m tests.bench.growth [--sizes 1000 10000 …] [--idle-s 600] [--no-upkeep]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..options import Options
from ..table import report
from . import suite


def main() -> int:
    """Take the rows; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=suite.SIZES)
    parser.add_argument("--questions", type=int, default=suite.QUESTIONS, help="distinct ones, for latency")
    parser.add_argument("--idle-s", type=float, default=60.0, help="how long the idle daemon is watched, 0 for not")
    parser.add_argument("--no-upkeep", action="store_true", help="neither rebuild nor dream")
    parser.add_argument("--kept", type=Path, default=suite.KEPT, help="where the memories are kept")
    given = parser.parse_args()
    plan = suite.Plan(given.sizes, given.questions, given.idle_s, upkeep=not given.no_upkeep)
    return report(suite.rows(plan, Options().data, given.kept))


if __name__ == "__main__":
    sys.exit(main())

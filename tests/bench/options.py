"""What a run of the benchmarks is told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Options:
    """`quick` takes a part of everything: to see that it works, not what it measures."""

    quick: bool = False
    results: Path = ROOT / "bench-results"
    data: Path = Path(os.environ.get("SHARED_DATA_DIR", ROOT.parent / "shared" / "data"))

    def of(self, whole: int, part: int) -> int:
        """Choose the size of something."""
        return part if self.quick else whole

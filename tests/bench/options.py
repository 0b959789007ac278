"""What a run of the benchmarks is told, and where its data sets are."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = Path(os.environ.get("SHARED_DATA_DIR", ROOT.parent / "shared" / "data"))
"""The folder of the data sets, which are no part of a clone."""


@dataclass(frozen=True, slots=True)
class Options:
    """`quick` takes a part of everything: to see that it works, not what it measures."""

    quick: bool = False
    results: Path = ROOT / "bench-results"
    sets: Path = SHARED_DATA

    @property
    def data(self) -> Path:
        """The folder of the data sets. Raises FileNotFoundError where there is none."""
        if not self.sets.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no data sets", str(self.sets))
        return self.sets

    def of(self, whole: int, part: int) -> int:
        """Choose the size of something."""
        return part if self.quick else whole


def is_absent_data(error: BaseException) -> bool:
    """Return True for a data set, or a folder of them, that was not found; it may be named on the command line."""
    named = getattr(error, "filename", None)
    if not isinstance(error, FileNotFoundError) or named is None:
        return False
    folders = (SHARED_DATA, *(Path(word).absolute() for word in sys.argv[1:] if "/" in word))
    return any(Path(os.fsdecode(named)).absolute().is_relative_to(folder) for folder in folders)


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """End with a sentence and exit code 2 where data is absent, else with the traceback."""
    if is_absent_data(error):
        place = getattr(error, "filename", SHARED_DATA)
        print(f"There is no {place}: set SHARED_DATA_DIR to the folder that holds the data sets.", file=sys.stderr)
        raise SystemExit(2)
    sys.__excepthook__(kind, error, trace)


def _is_program() -> bool:
    """Return True where a benchmark is the program that runs, not a test of one."""
    return str(getattr(sys.modules["__main__"].__spec__, "name", "")).startswith("tests.bench")


if _is_program():
    sys.excepthook = _report  # one place for every benchmark, however deep it opens a set

"""The one table: each promise with what was measured, what it should be, and how it was taken."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap

HOW_WIDTH = 64


@dataclass(frozen=True, slots=True)
class Row:
    """One measure. `ok` is None for what has no target or was not measured; `measured` then says why."""

    measure: str
    measured: str
    target: str
    ok: bool | None
    how: str

    @property
    def verdict(self) -> str:
        """Say it in one word."""
        return {True: "ok", False: "MISSED", None: "-"}[self.ok]


def say(step: str) -> None:
    """Tell what goes on, for the person who waits."""
    print(f"       {datetime.now(UTC):%H:%M:%S} {step}", file=sys.stderr, flush=True)


def skipped(measure: str, target: str, why: str) -> Row:
    """Name a measure that could not be taken."""
    return Row(measure, f"skipped: {why}", target, None, "")


def report(rows: Iterable[Row]) -> int:
    """Print each row on a line as it is taken; return 1 when one is missed, else 0."""
    missed = False
    for row in rows:
        target = f" ({row.target})" if row.target else ""
        print(f"{row.verdict:7}{row.measure}: {row.measured}{target} {row.how}", flush=True)
        missed = missed or row.ok is False
    return int(missed)


def about_this_machine() -> dict[str, object]:
    """Name what the figures depend on."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or None,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def as_text(rows: Sequence[Row], about: dict[str, object]) -> str:
    """Lay the table out for a terminal; what a row was taken by is wrapped in the last column."""
    cells = [("measure", "measured", "target", "", "how")]
    cells += [(row.measure, row.measured, row.target, row.verdict, row.how) for row in rows]
    widths = [max(len(line) for row in cells for line in wrap(row[i], 46) or [""]) for i in range(4)]
    lines = ["  ".join(f"{name}: {value}" for name, value in about.items()), ""]
    for row in cells:
        columns = [*(wrap(cell, 46) or [""] for cell in row[:4]), wrap(row[4], HOW_WIDTH) or [""]]
        for i in range(max(map(len, columns))):
            parts = [(column[i] if i < len(column) else "") for column in columns]
            lines.append("  ".join(part.ljust(width) for part, width in zip(parts, [*widths, 0], strict=True)).rstrip())
    return "\n".join(lines) + "\n"


def write(rows: Iterable[Row], folder: Path) -> str:
    """Write the table as JSON and as text; return the text."""
    kept, about = list(rows), about_this_machine()
    folder.mkdir(parents=True, exist_ok=True)
    text = as_text(kept, about)
    (folder / "table.json").write_text(json.dumps({**about, "rows": [asdict(row) for row in kept]}, indent=1) + "\n")
    (folder / "table.txt").write_text(text)
    return text

"""Is anything lost? The scripts that kill and cut the power, each a program of its own that prints one JSON object."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .options import ROOT, Options
from .table import Row, say, skipped

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Trial:
    """A script, how often it tries, and what it promises."""

    measure: str
    target: str
    script: str
    option: str
    times: int
    quick_times: int


KILLS = "no acknowledged memory lost, none refused, no half-applied dream, index equal to a rebuild"
TRIALS = (
    Trial("kill -9 at random instants, store and ipc", KILLS, "kill_store.py", "--kills", 1000, 10),
    Trial("kill -9 at random instants, the whole daemon", KILLS, "kill_daemon.py", "--kills", 60, 3),
    Trial(
        "kill -9 in half of random purges",
        "nothing of it in any byte, and nothing else lost",
        "purging.py",
        "--purges",
        200,
        6,
    ),
    Trial(
        "random schedules of observe: days, resends, kills, rebuilds",
        "every acknowledged turn found, once",
        "observing.py",
        "--schedules",
        500,
        5,
    ),
    Trial("power loss simulated at random points", "no acknowledged memory lost", "power_loss.py", "--points", 500, 20),
)


def measure(options: Options) -> Iterator[Row]:
    """Run each script that is there; its exit code is the verdict."""
    for trial in TRIALS:
        if not (HERE / trial.script).is_file():
            yield skipped(trial.measure, trial.target, f"no {trial.script}")
            continue
        times = options.of(trial.times, trial.quick_times)
        command = [sys.executable, str(HERE / trial.script), trial.option, str(times)]
        say(f"{trial.measure}: {times} times")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        told = _last_object(done.stdout)
        if not told:
            why = f"{trial.script} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"
            yield Row(trial.measure, "did not finish", trial.target, False, why)
            continue
        kept = done.returncode == 0
        yield Row(
            trial.measure,
            f"{times} times, {'nothing lost' if kept else 'BROKEN'}",
            trial.target,
            kept,
            _how(told, kept),
        )


def _how(told: dict[str, Any], kept: bool) -> str:
    """Give the script's numbers, and what it complains of."""
    numbers = [f"{name.replace('_', ' ')} {value}" for name, value in told.items() if isinstance(value, int | float)]
    complaints = (
        []
        if kept
        else [
            f"{name.replace('_', ' ')}: {value}"
            for name, value in told.items()
            if isinstance(value, list | dict) and value
        ]
    )
    return "; ".join([", ".join(numbers), *complaints])[:1500]


def _last_object(printed: str) -> dict[str, Any]:
    """Read the last JSON object of what was printed; {} if there is none."""
    decoder = json.JSONDecoder()
    starts = [0] if printed.startswith("{") else []
    starts += [position + 1 for position in range(len(printed)) if printed.startswith("\n{", position)]
    for start in reversed(starts):
        try:
            value = decoder.raw_decode(printed[start:])[0]
        except ValueError:
            continue
        return dict(value)
    return {}

"""Score sessions of people that nothing was tuned on: `python -m tests.bench.people SET`.

lives    every life of `lives/`, each in a daemon of its own: questions, prompts, statements that changed, turns kept
left-out the lives of both data sets that nothing shipped was trained on
entire   the real sessions of `entire/`: turns kept after a dream, prompts

`--before` asks without a dream, `--only NAME …` takes these lives. Each scorer's figures stand a column a person; the
last column is the mean over the items of all. Minutes a person, most of them the dream.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..train.examples import DATA, fold_of_people
from .daemon_under_test import DaemonUnderTest
from .options import Options
from .scratch import own_folder
from .table import say

OWN_LIVES = DATA / "lives"

_FIGURE = re.compile(r"^(?P<name>\S.*?)\s{2,}(?P<value>[\d.]+)\s+n=(?P<n>\d+)$", re.M)

Figures = Mapping[str, tuple[float, int]]
"""Of each measure's name its mean and the number of items that it is a mean of."""


def scored(scorer: Path, *arguments: str) -> Figures:
    """Run a scorer and return the figures that it prints. Raises CalledProcessError."""
    command = [sys.executable, "-m", "tests.bench.flat_scorer", str(scorer), *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {match["name"]: (float(match["value"]), int(match["n"])) for match in _FIGURE.finditer(printed)}


def over_all(people: Sequence[Figures]) -> Figures:
    """Return the means over the items of all people; a measure that one of them lacks is taken over the others."""
    names = dict.fromkeys(name for person in people for name in person)
    return {name: _mean([person[name] for person in people if name in person and person[name][1]]) for name in names}


def _mean(figures: Sequence[tuple[float, int]]) -> tuple[float, int]:
    items = sum(n for _, n in figures)
    return sum(value * n for value, n in figures) / max(1, items), items


def of_lives(folder: Path, scratch: Path, only: Sequence[str], dream: bool) -> Iterator[tuple[str, Figures]]:
    """Score each life in a daemon that knows nothing else."""
    lives = {life.stem: life for place in (folder, OWN_LIVES) for life in place.glob("*.json")}
    for life in (lives[name] for name in only or sorted(life.stem for life in folder.glob("*.json"))):
        sessions = scratch / life.stem / "sessions"
        scored(folder / "score.py", "claude", str(life), str(sessions))
        with DaemonUnderTest(scratch / life.stem / "daemon") as daemon:
            _take_in(daemon, sessions, life.stem, dream)
            yield life.stem, scored(folder / "score.py", "all", daemon.socket_path, str(life))


def of_left_out(folder: Path, scratch: Path, only: Sequence[str], dream: bool) -> Iterator[tuple[str, Figures]]:
    """Score the lives of the fold whose people the shipped weights have not seen."""
    folds = fold_of_people([life.stem for place in (folder, OWN_LIVES) for life in place.glob("*.json")])
    return of_lives(folder, scratch, only or [name for name, fold in sorted(folds.items()) if fold == 0], dream)


def of_entire(folder: Path, scratch: Path, only: Sequence[str], dream: bool) -> Iterator[tuple[str, Figures]]:
    """Score the real sessions, all in one daemon, as their people had them."""
    sessions = unpacked(folder / "sessions", scratch / "sessions")
    with DaemonUnderTest(scratch / "daemon") as daemon:
        _take_in(daemon, sessions, "entire", dream)
        figures: dict[str, tuple[float, int]] = {}
        for part, labels in (("worth", "turns"), ("prompts", "prompts")):
            figures |= scored(folder / "score.py", part, daemon.socket_path, str(folder / "labels" / f"{labels}.json"))
        yield "entire", figures


def scorer_of(folder: Path) -> Any:
    """Return the scorer of a folder of data sets as a module, for what it says of ids and of files."""
    spec = importlib.util.spec_from_file_location("lives_score", folder / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unpacked(packed: Path, into: Path) -> Path:
    """Unpack every `*.gz` of a folder into another, and return that."""
    into.mkdir(parents=True, exist_ok=True)
    for file in packed.glob("*.gz"):
        (into / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    return into


def _take_in(daemon: DaemonUnderTest, sessions: Path, name: str, dream: bool) -> None:
    say(f"{name}: importing")
    daemon.call("import", paths=[str(sessions)], format="claude-code")
    daemon.wait_until_embedded()
    if dream:
        say(f"{name}: dreaming")
        run = daemon.call("dream", kind="daily", wait=True)
        say(f"{name}: {run['state']}, {json.dumps(run['actions'])}")
        daemon.wait_until_embedded()


SETS = {"lives": of_lives, "left-out": of_left_out, "entire": of_entire}


def main() -> int:
    """Score a set and print its table; exit with 2 where its data is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.people", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--only", nargs="*", default=(), help="some lives, by the names of their files")
    parser.add_argument("--before", action="store_true", help="ask without a dream")
    given = parser.parse_args()
    folder = Options().data / ("entire" if given.set == "entire" else "lives")
    if not (folder / "score.py").is_file():
        print(f"There is no {folder}: set SHARED_DATA_DIR to the folder that holds the data sets.", file=sys.stderr)
        return 2
    with own_folder(given.set) as scratch:
        people = dict(SETS[given.set](folder, scratch, given.only, not given.before))
    _print(people | {"all": over_all(list(people.values()))})
    return 0


def _print(columns: Mapping[str, Figures]) -> None:
    print(f"{'':44}" + "".join(f"{name:>10}" for name in columns) + "         n")
    for name, (_, items) in columns["all"].items():
        values = (f"{person[name][0]:.3f}" if name in person else "-" for person in columns.values())
        print(f"{name:44}" + "".join(f"{value:>10}" for value in values) + f"{items:10}")


if __name__ == "__main__":
    sys.exit(main())

"""Plant changes in real code and see which facts are called past: `python -m tests.bench.code_changes [--facts N]`.

The code is of the packages of this environment. A fact names a value of a random line in that line's words; then the
value is changed on its line, renamed everywhere, or deleted; or, as a control, lines are added around, the file is
indented anew, or moved. Rightly past is counted of the first three, wrongly of the controls.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from dreamd.pipelines.workspace.code_values import CodeLines, kept_places, values_in
from dreamd.store.search.code_places import places_of

from .scratch import own_folder
from .table import say

SEED = 20261126
PACKAGES = ("httpx", "rich", "apscheduler", "pydantic_settings", "watchfiles", "loguru", "ollama", "typer")
_NUMBER = re.compile(r"(?<![\w.\"'])\d{2,5}(?:\.\d+)*(?![\w.])")
_NAME = re.compile(r"\b[a-z]+_[a-z_]{4,}\b")

Change = Callable[[Path, str, str], None]


def changed(file: Path, line: str, value: str) -> None:
    """Give the value's line another value of the same kind."""
    other = f"{value}1" if value[0].isdigit() else f"{value}_new"
    file.write_text(file.read_text().replace(line, line.replace(value, other)))


def renamed(file: Path, line: str, value: str) -> None:
    """Rename the value in every file."""
    for path in _root_of(file).rglob("*.py"):
        path.write_text(
            re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "z" + "y".join(value[:3]) + "9_q", path.read_text())
        )


def deleted(file: Path, line: str, value: str) -> None:
    """Delete every line with the value."""
    for path in _root_of(file).rglob("*.py"):
        kept = [one for one in path.read_text().splitlines() if not re.search(rf"(?<!\w){re.escape(value)}(?!\w)", one)]
        path.write_text("\n".join(kept))


def grown(file: Path, line: str, value: str) -> None:
    """Add lines above and below, some with other numbers."""
    file.write_text(f"# 1\n# 8443\nADDED_LIMIT = 77\n{file.read_text()}\n# the end, 1.2.3\n")


def indented(file: Path, line: str, value: str) -> None:
    """Indent the whole file anew."""
    file.write_text("\n".join(f"        {one.strip()}" for one in file.read_text().splitlines()))


def moved(file: Path, line: str, value: str) -> None:
    """Move the file to another folder."""
    (file.parent / "moved_here").mkdir(exist_ok=True)
    file.rename(file.parent / "moved_here" / file.name)


CHANGES: dict[str, tuple[Change, bool]] = {
    "value changed": (changed, True),
    "renamed": (renamed, True),
    "deleted": (deleted, True),
    "lines added": (grown, False),
    "indented": (indented, False),
    "file moved": (moved, False),
}


def _root_of(file: Path) -> Path:
    return next(parent for parent in file.parents if parent.name == "code")


def facts_of(root: Path, rng: random.Random) -> Iterator[tuple[str, Path, str, str]]:
    """Yield facts in the words of a line, with its file, the line and the value, in a random order."""
    files = sorted(root.rglob("*.py"))
    while True:
        file = rng.choice(files)
        lines = [line for line in file.read_text().splitlines() if 15 < len(line.strip()) < 100 and "#" not in line]
        if not lines:
            continue
        line = rng.choice(lines)
        number, name = _NUMBER.search(line), _NAME.search(line)
        value = number[0] if number and rng.random() < 0.6 else name[0] if name else ""
        words = [word.lower() for word in re.split(r"[\W_\d]+", line.replace(value, "")) if len(word) > 3]
        if value and words:
            yield f"{' '.join(words[:4])} in {file.stem}: it is {value}", file, line, value


def main() -> int:
    """Measure until so many facts kept a place and were changed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.code_changes", description=__doc__)
    parser.add_argument("--facts", type=int, default=200)
    wanted = parser.parse_args().facts
    rng = random.Random(SEED)
    site = Path(sys.prefix) / "lib"
    packages = [place for name in PACKAGES for place in site.glob(f"python*/site-packages/{name}")]
    past: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    without = 0
    with own_folder("code-changes") as scratch:
        root = scratch / "code"
        for package in packages:
            shutil.copytree(package, root / package.name, ignore=shutil.ignore_patterns("*.so", "*.pyc", "__pycache__"))
        for number, (fact, file, line, value) in enumerate(facts_of(root, rng)):
            kept = places_of(kept_places(fact, CodeLines(root, values_in(fact))))
            if not any(place.value == value for place in kept):
                without += 1
                continue
            name = list(CHANGES)[number % len(CHANGES)]
            change, _ = CHANGES[name]
            saved = {path: path.read_bytes() for path in root.rglob("*.py")}
            change(file, line, value)
            asked[name] += 1
            gone = CodeLines(root, values_in(fact), kept).changed(kept)
            past[name] += any(one.startswith(f"{value} ") for one in gone)
            for path in root.rglob("*.py"):
                if path not in saved:
                    path.unlink()
            for path, data in saved.items():
                path.write_bytes(data)
            if asked.total() == wanted:
                break
    for name, (_, is_past) in CHANGES.items():
        say(f"{name:15} called past {past[name]:3} of {asked[name]:3}  ({'rightly' if is_past else 'wrongly'})")
    rightly = sum(past[name] for name, (_, is_past) in CHANGES.items() if is_past)
    wrongly = sum(past[name] for name, (_, is_past) in CHANGES.items() if not is_past)
    of = sum(asked[name] for name, (_, is_past) in CHANGES.items() if is_past)
    shares = rightly / max(1, of), wrongly / max(1, asked.total() - of)
    say(f"told as past {shares[0]:.2f}, wrongly {shares[1]:.2f}; without a place {without}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

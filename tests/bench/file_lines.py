"""Proposals for lines of files that were planted in what people said: `python -m tests.bench.file_lines DATA`.

Each project of `DATA/lives` has a file of the lines of `tests/data/file_lines.toml`: some of them a later turn
overtook, the others hold. A line was written in the session that first said it. Beside them stand, as lines that hold,
the facts of a project's first session that no labelled pair changes, word for word. Facts are drawn, drift and the
stage run, as in a dream. Of both readers' sets the file has the earlier statement of every pair, and its later one is
said afterwards. `--show` prints every proposal.

Nothing of the stage is learned from these lines; the judge of changes was fitted on both readers' sets, and the judge
of turns, which draws the facts, has seen the lives.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from dreamd.pipelines.stages import drift, file_lines
from dreamd.pipelines.stages.consolidate import facts_of
from dreamd.pipelines.workspace.memo import Vectors
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import embedder_for
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.model import Kind, Level, Memory, Turn
from dreamd.store.settings import StoreSettings
from dreamd.store.text.judging import line_after
from dreamd.store.upkeep.file_copies import FOLDER, copy_in, entries_of, line_hash

from tests import memories
from tests.pipelines.fakes import FakeSource

LINES = Path(__file__).parents[1] / "data" / "file_lines.toml"
FIRST = datetime(2026, 9, 1, tzinfo=UTC)
FILE_LINES = 20
CHANGES = frozenset({"updates", "contradicts"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, since when it stands there, and the source of the facts that overtake it; none if it holds."""

    text: str
    since: datetime
    by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal: the line, what it would say, and whether its reason is the labelled one."""

    line: str
    says: str
    is_right: bool


def proposed(lines: Sequence[Line], facts: Sequence[Memory], embed: Any) -> Iterator[Proposed]:
    """Yield what a dream proposes of the files of one project, which have these lines."""
    copies = [_copy(place, lines[place : place + FILE_LINES]) for place in range(0, len(lines), FILE_LINES)]
    source = FakeSource()
    source.keep(*copies, *facts)
    view = View(source, History(), embed, "run")
    now = max(fact.created_at for fact in facts if fact.created_at) + timedelta(days=1)
    for stage in (drift, file_lines):
        view.apply(stage.plan(view, now).actions)
    written = [copy_in(copy.path, view.read(copy.path) or b"") for copy in copies]
    by_id = {fact.node_id: fact for fact in facts}
    for entry in (entry for copy in written if copy for entry in entries_of(copy)):
        line, fact = next(line for line in lines if entry["old"] in line.text), by_id[entry["because"]]
        yield Proposed(entry["old"], line_after(entry["old"], fact.text) or "", fact.sources[0] in line.by)


def _copy(number: int, lines: Sequence[Line]) -> Memory:
    times: dict[str, str] = {}
    for line in lines:
        times[line.since.isoformat()] = f"{times.get(line.since.isoformat(), '')} {line_hash(f'- {line.text}')}"
    return Memory(
        node_id=f"doc-{number}",
        level=Level.SESSION,
        kind=Kind.DOCUMENT,
        title="CLAUDE.md",
        text="\n".join(f"- {line.text}" for line in lines),
        channel="proj",
        path=f"{FOLDER}/{number}.md",
        extra={"key": "CLAUDE.md", "resource": f"/{number}", "file_sha256": "0", "line_times": times},
    )


def of_lives(data: Path) -> Iterator[tuple[str, list[Line], list[Line], list[Memory]]]:
    """Yield each project's planted lines, its quoted ones, and its facts."""
    planted = tomllib.loads(LINES.read_text())
    for person, projects in planted.items():
        life = json.loads((data / "lives" / f"{person}.json").read_text())
        at = {session["id"]: datetime.fromisoformat(session["at"]) for session in life["sessions"]}
        pairs = [pair for pair in life["pairs"] if pair["relation"] in CHANGES]
        for project, given in projects.items():
            sessions = [session for session in life["sessions"] if session["project"] == project]
            facts = [fact for session in sessions for fact in _facts(session, at[session["id"]])]
            first = min(at[session["id"]] for session in sessions)
            lines = [
                Line(text, _since(by, pairs, at, first), frozenset({by} if by else ())) for text, by in given.items()
            ]
            changed = {pair["earlier"] for pair in pairs}
            early = [fact for fact in facts if at[fact.sources[0].partition("#")[0]] == first]
            texts = {fact.text for fact in early if fact.sources[0] not in changed and "\n" not in fact.text}
            quoted = [Line(text, first + timedelta(hours=12)) for text in sorted(texts)]
            yield f"{person} {project}", lines, quoted, facts


def _since(by: str, pairs: Sequence[Mapping[str, str]], at: Mapping[str, datetime], first: datetime) -> datetime:
    """Return when a line was written: with the last session that said it before the turn that overtook it."""
    if not by:
        return first + timedelta(hours=12)
    said = [at[pair["earlier"].partition("#")[0]] for pair in pairs if pair["later"] == by]
    then = at[by.partition("#")[0]]
    return max((when for when in said if when < then), default=then - timedelta(days=1)) + timedelta(hours=12)


def _facts(session: Mapping[str, Any], at: datetime) -> list[Memory]:
    said = (turn for turn in session["turns"] if turn["role"] in ("user", "assistant"))
    turns = [Turn(session["id"], turn["n"], turn["role"], turn["text"], at, None) for turn in said]
    return facts_of(session["id"], "proj", turns, 1, at)


def of_pairs(data: Path, name: str) -> tuple[list[Line], list[Memory]]:
    """Return the earlier statements of a readers' set as lines, each once, and the later ones as facts."""
    pairs = json.loads((data / name / "pairs.json").read_text())
    by: dict[str, set[str]] = {}
    for pair in pairs:
        by.setdefault(pair["earlier"], set()).update([pair["id"]] if pair["relation"] in CHANGES else [])
    lines = [Line(text, FIRST, frozenset(ids)) for text, ids in by.items()]
    # Each is said by itself, so that no two of them are of one turn.
    later = {pair["later"]: pair["id"] for pair in pairs}
    at = FIRST + timedelta(days=30)
    return lines, [memories.fact(text, created_at=at, sources=(name,)) for text, name in later.items()]


def main() -> None:
    """Print, of each set, the proposals that are right and those that are not, and the lines to propose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    embedder = embedder_for(StoreSettings().embedding, Path("/nonexistent"))
    embedder.start()
    embedder.wait(120)
    embed = _embedding(embedder)
    totals: dict[str, list[int]] = {}
    for name, lines, quoted, facts in of_lives(options.data):
        for kind, some in (("planted", lines), ("quoted", quoted)):
            _count(totals, f"lives, {kind}", some, facts, embed, options.show, name)
    for name in ("readers", "readers-2"):
        if (options.data / name / "pairs.json").is_file():
            _count(totals, name, *of_pairs(options.data, name), embed, options.show, name)
    print(f"{'':18}{'right':>7}{'wrong':>7}{'overtaken':>11}{'hold':>6}")
    for name, numbers in totals.items():
        print(f"{name:18}{numbers[0]:7}{numbers[1]:7}{numbers[2]:11}{numbers[3]:6}")


def _count(
    totals: dict[str, list[int]],
    kind: str,
    lines: Sequence[Line],
    facts: Sequence[Memory],
    embed: Any,
    show: bool,
    name: str,
) -> None:
    found = list(proposed(lines, facts, embed)) if lines and facts else []
    for one in found if show else ():
        print(f"{'right' if one.is_right else 'WRONG'} {name} ({kind}): {one.line!r} -> {one.says!r}")
    right = sum(one.is_right for one in found)
    overtaken = sum(bool(line.by) for line in lines)
    numbers = totals.setdefault(kind, [0, 0, 0, 0])
    for place, number in enumerate((right, len(found) - right, overtaken, len(lines) - overtaken)):
        numbers[place] += number


def _embedding(embedder: Embedder) -> Any:
    def embed(texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, embedder.dimension), np.float32)
        return np.array(embedder.embed_passages(texts), np.float32)

    return embed


if __name__ == "__main__":
    main()

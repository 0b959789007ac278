"""Replay sessions act by act: `python -m tests.bench.acts FOLDER [--dreams N] [--out FILE]`.

Sessions are taken in the order of their beginnings, all in one channel, since people work in several clones of one
project. At each failed command and before each edit the memory is asked for what earlier sessions know of
it, then the session is imported; after every N sessions a dream consolidates. All that is given is written down for a
reader to judge, with the act and what followed it; printed are the counts and the time of an answer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import quantiles

from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import SessionRead
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.text import acts
from dreamd.store.working.cues import CueLine

from .in_process import DaemonInProcess
from .scratch import own_folder
from .table import say

CHANNEL = "acts"


def sessions_of(folder: Path) -> list[tuple[SessionHead, Path, list[NewTurn]]]:
    """Return the sessions of a folder with their files and turns, the oldest first."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        pieces = [item for item in read(file) if isinstance(item, SessionRead)]
        if pieces:
            found.append((pieces[0].head, file, [turn for piece in pieces for turn in piece.turns]))
    return sorted(found, key=lambda one: str(one[2][0].at))


def asked_in(
    daemon: DaemonInProcess, head: SessionHead, turns: Sequence[NewTurn]
) -> Iterator[tuple[str, str, list[CueLine], float]]:
    """Ask at every act of a session; yield the occasion, the act, the lines and the seconds that they took."""
    cues = daemon.store.operations.cues
    done = acts.acts_in(enumerate(turn.text for turn in turns))
    for act in done:
        began = time.perf_counter()
        if act.is_edit:
            lines = cues.before_edit(CHANNEL, head.session_id, act.words, "")
            yield "edit", f"{act.tool} {act.words}", lines, time.perf_counter() - began
        elif act.tool == acts.SHELL and act.failed:
            lines = cues.after_failure(CHANNEL, head.session_id, act.words, act.output)
            yield "failure", f"{act.words}\n{act.output[:700]}", lines, time.perf_counter() - began


def asked_again(
    daemon: DaemonInProcess, sessions: Sequence[tuple[SessionHead, Path, list[NewTurn]]]
) -> Iterator[tuple[str, str, list[CueLine], float]]:
    """Ask for every failed command of all sessions once more, from a session that is none of them."""
    for _, _, turns in sessions:
        for act in acts.acts_in(enumerate(turn.text for turn in turns)):
            if act.failed and act.tool == acts.SHELL:
                began = time.perf_counter()
                lines = daemon.store.after_failure(CHANNEL, "again", act.words, act.output)
                yield "again", f"{act.words}\n{act.output[:700]}", lines, time.perf_counter() - began


def main() -> int:
    """Replay a folder of sessions."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.acts", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dreams", type=int, default=0, metavar="N", help="dream after every N sessions")
    parser.add_argument("--out", type=Path, default=Path("bench-results/acts.md"))
    options = parser.parse_args()
    asked: Counter[str] = Counter()
    given: Counter[str] = Counter()
    took: list[float] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    sessions = sessions_of(options.folder)

    def note(found: tuple[str, str, list[CueLine], float], where: str) -> None:
        occasion, act, lines, seconds = found
        asked[occasion] += 1
        given[occasion] += bool(lines)
        took.append(seconds)
        text = "\n".join(f"> {line.text}" for line in lines) or "(nothing)"
        if lines or occasion == "again":
            report.write(f"\n## {occasion}, {where}\n\n    {act}\n\n{text}\n")

    with (
        options.out.open("w", encoding="utf-8") as report,
        own_folder("acts") as scratch,
        DaemonInProcess(scratch) as daemon,
    ):
        for number, (head, file, turns) in enumerate(sessions, start=1):
            for found in asked_in(daemon, head, turns):
                note(found, f"{turns[0].at}, {head.session_id}")
            daemon.call("import", paths=[str(file)], channel=CHANNEL)
            if options.dreams and number % options.dreams == 0:
                daemon.wait_until_embedded()
                daemon.call("dream", kind="daily", wait=True)
            daemon.store.settle()
        for found in asked_again(daemon, sessions):
            note(found, "after all")
    for occasion, times in asked.items():
        say(f"{occasion:8} asked {times:5}  given {given[occasion]:4}")
    say(f"an answer took {quantiles(took, n=20)[-1] * 1e3:.2f} ms (p95), {max(took) * 1e3:.1f} ms at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())

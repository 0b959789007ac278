"""Replay sessions act by act: `python -m tests.bench.acts [FOLDER] [--dreams N] [--out FILE]`.

Sessions are taken in the order of their beginnings, all in one channel, since people work in several clones of one
project. At each failed command and before each edit the memory is asked for what earlier sessions know of
it, then the session is imported; after every N sessions a dream consolidates. All that is given is written down for a
reader to judge, with the act and what followed it; printed are the counts and the time of an answer.

At the end every failed command of `acts.json` is asked again, with its whole output, from a session that is none of
them. A careful reader noted there which later turns of its session state the cause or the fix, which edits and which
commands were the fix, or that there is none; no text is in it. An answer is right if its first line quotes one of them.
Without a FOLDER the sessions are those of `entire`, for which the labels are. Half of the sessions, by their ids, were
left alone while the code was changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import quantiles
from typing import Any, TextIO

from dreamd.daemon.agents.act_hooks import READ_CHARS, AgentAct, text_at_act
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import SessionRead
from dreamd.ipc.channels import channel_of
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.text import acts
from dreamd.store.working.cues import CueLine

from .in_process import DaemonInProcess
from .options import SHARED_DATA
from .people import unpacked
from .scratch import own_folder
from .table import say

FOLDER = "/acts"
CHANNEL = channel_of(None, FOLDER)


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


@dataclass(frozen=True, slots=True)
class Label:
    """A failed command, by the ordinal of its result, and what ended it; `is_held_out`: of the other half."""

    session: str
    at: int
    sha: str
    turns: Sequence[int]
    edits: Sequence[int]
    commands: Sequence[int]

    @property
    def right(self) -> frozenset[int]:
        """The ordinals of the turns that an answer may quote."""
        return frozenset((*self.turns, *self.edits, *self.commands))

    @property
    def is_held_out(self) -> bool:
        """True for the sessions that were labelled with the others, and left alone while the code was changed."""
        return sha256(self.session.encode()).digest()[-1] % 2 == 1


@dataclass(frozen=True, slots=True)
class Again:
    """A labelled failure that was asked again: the text handed over, and the turns that its lines quote."""

    label: Label
    act: acts.Act
    text: str
    quoted: Sequence[str]
    right: Set[str]
    seconds: float

    @property
    def is_right(self) -> bool:
        """True if the first line quotes what the reader noted, of this failure or of one with the same error."""
        return bool(self.quoted) and self.quoted[0] in self.right


def labels() -> list[Label]:
    """Read the labels."""
    return [Label(**one) for one in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))]


def errors_in(file: Path) -> Mapping[str, str]:
    """Return the whole outputs of the failed calls in a file of Claude Code, by the ids of their messages."""
    found: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            value: Mapping[str, Any] = json.loads(line)
        except ValueError:
            continue
        content = (value.get("message") or {}).get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result" and block.get("is_error"):
                inner = block.get("content")
                texts = [inner] if isinstance(inner, str) else [one.get("text", "") for one in inner or ()]
                found[str(value.get("uuid"))] = "\n".join(texts)
    return found


def asked_again(
    daemon: DaemonInProcess, sessions: Sequence[tuple[SessionHead, Path, list[NewTurn]]], *, elsewhere: bool = False
) -> Iterator[Again]:
    """Ask for every labelled failure once more, from a session that is none of them; `elsewhere`: from its own."""
    by_id = {head.session_id: (file, turns) for head, file, turns in sessions}
    right: dict[str, set[str]] = {}
    failed: list[tuple[Label, acts.Act, str]] = []
    for label in labels():
        file, turns = by_id[label.session]
        done = acts.acts_in(enumerate(turn.text for turn in turns))
        act = next(act for act in done if act.ended_at == label.at)
        if sha256(f"{act.words}\0{act.output[:100]}".encode()).hexdigest()[:12] != label.sha:
            say(f"the notes of {label.session} at {label.at} are others than those that were labelled")
        output = errors_in(file).get(turns[label.at].external_id or "", act.output)[:READ_CHARS]
        failed.append((label, act, output))
        for key in acts.error_keys(output):
            right.setdefault(key, set()).update(f"{label.session}#{at + 1}" for at in label.right)
    for number, (label, act, output) in enumerate(failed):
        asking = label.session if elsewhere else "again"
        session = daemon.store.handed.get("bench", f"{asking} {number} {elsewhere}")
        began = time.perf_counter()
        call = AgentAct(act.tool, act.words, "", output, failed=True)
        text = text_at_act(daemon.store, asking, (CHANNEL, FOLDER), call, session, 1500)
        took = time.perf_counter() - began
        known = set[str]().union(*(right[key] for key in acts.error_keys(output)))
        yield Again(label, act, text, [node_id for _, node_id in session.named], known, took)


def summary(again: Sequence[Again]) -> str:
    """Return how many failures with a fix were answered rightly, and how many answers are right."""
    fixed = [one for one in again if one.label.right]
    told = [one for one in again if one.text]
    right = sum(one.is_right for one in fixed)
    return (
        f"cause or fix given {right}/{len(fixed)} = {right / max(1, len(fixed)):.2f}, "
        f"right {right}/{len(told)} = {right / max(1, len(told)):.2f}, "
        f"without a fix {sum(bool(one.text) for one in again if not one.label.right)}/{len(again) - len(fixed)} given"
    )


def main() -> int:
    """Replay a folder of sessions."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.acts", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--dreams", type=int, default=0, metavar="N", help="dream after every N sessions")
    parser.add_argument("--out", type=Path, default=Path("bench-results/acts.md"))
    options = parser.parse_args()
    asked: Counter[str] = Counter()
    given: Counter[str] = Counter()
    took: list[float] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with (
        options.out.open("w", encoding="utf-8") as report,
        own_folder("acts") as scratch,
        DaemonInProcess(scratch / "daemon") as daemon,
    ):
        folder = options.folder or unpacked(SHARED_DATA / "entire" / "sessions", scratch / "sessions")
        sessions = sessions_of(folder)
        for number, (head, file, turns) in enumerate(sessions, start=1):
            for occasion, act, lines, seconds in asked_in(daemon, head, turns):
                asked[occasion] += 1
                given[occasion] += bool(lines)
                took.append(seconds)
                if lines:
                    text = "\n".join(f"> {line.text}" for line in lines)
                    report.write(f"\n## {occasion}, {turns[0].at}, {head.session_id}\n\n    {act}\n\n{text}\n")
            daemon.call("import", paths=[str(file)], channel=CHANNEL)
            if options.dreams and number % options.dreams == 0:
                daemon.wait_until_embedded()
                daemon.call("dream", kind="daily", wait=True)
            daemon.store.settle()
        for occasion, times in asked.items():
            say(f"{occasion:8} asked {times:5}  given {given[occasion]:4}")
        say(f"an answer took {quantiles(took, n=20)[-1] * 1e3:.2f} ms (p95), {max(took) * 1e3:.1f} ms at most")
        if options.folder is None:
            report_labelled(daemon, sessions, report)
    return 0


def report_labelled(
    daemon: DaemonInProcess, sessions: Sequence[tuple[SessionHead, Path, list[NewTurn]]], report: TextIO
) -> None:
    """Ask for the labelled failures again; print what is right, and write down every text."""
    again = list(asked_again(daemon, sessions))
    for name, is_held_out in (("looked at", False), ("held out", True)):
        say(f"{name}: {summary([one for one in again if one.label.is_held_out == is_held_out])}")
    for one in again:
        mark = "right" if one.is_right else "wrong" if one.text else "silent"
        place = f"{one.label.session} at {one.label.at}"
        report.write(f"\n## again, {mark}, {place}\n\n    {one.act.words}\n{one.act.output[:700]}\n\n{one.text}\n")
    elsewhere = [one for one in asked_again(daemon, sessions, elsewhere=True) if one.text]
    say(f"of other sessions alone: {len(elsewhere)} of {len(again)} answered; to be read")
    for one in elsewhere:
        place = f"{one.label.session} at {one.label.at}"
        report.write(f"\n## elsewhere, {place}\n\n    {one.act.words}\n{one.act.output[:700]}\n\n{one.text}\n")


if __name__ == "__main__":
    sys.exit(main())

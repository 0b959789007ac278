"""Replay a person's sessions through the hooks of an agent, each on its own day, and write down every text handed over.

`python -m tests.bench.handed [SET]`: SET is `readers-2`, `readers`, `entire`, a life of `lives/` by its name, or a
folder of Claude Code's session files. Every session has its start, each prompt of its person, each tool call, its
transcript growing line by line, its stops and its end; a weekly dream comes each Monday at 02:00 (`--no-dreams`: none),
and after the last one each project is opened once more. The texts go to bench-results/handed/SET.md for a reader to
judge.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dreamd.store import session_id
from loguru import logger

from .in_process import DaemonInProcess
from .options import SHARED_DATA, Options
from .people import OWN_LIVES, scored, unpacked
from .readers.reading import tokens_of
from .scratch import own_folder
from .table import say

AGENT = "claude-code"
DREAM_HOUR = 2
SETTLE_S = 60.0
LONGEST_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Recorded:
    """A session file: its id, its folder, and its lines in their order, each with its day and time."""

    name: str
    session_id: str
    cwd: str
    lines: Sequence[tuple[datetime, Mapping[str, Any]]]


@dataclass(slots=True)
class Handed:
    """One moment at which a hook was asked; `text` is "" where it handed nothing over."""

    event: str
    asked: str
    text: str


@dataclass(slots=True)
class Page:
    """A session's title, its day, and its moments in their order."""

    title: str
    day: datetime
    moments: list[Handed] = field(default_factory=list)


class Clock:
    """The time of the replay."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Replay:
    """Plays sessions into the hooks of one daemon, and keeps what they hand over."""

    def __init__(self, daemon: DaemonInProcess, clock: Clock, folder: Path) -> None:
        self._daemon = daemon
        self._clock = clock
        self._folder = folder
        self.pages: list[Page] = []

    def play(self, session: Recorded) -> None:
        """Play one session from its start to its end."""
        self._clock.now = session.lines[0][0] - timedelta(seconds=1)
        self.pages.append(Page(session.name, self._clock.now))
        file = self._folder / session.cwd.replace("/", "-") / f"{session.session_id}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        self._common = {"session_id": session.session_id, "cwd": session.cwd, "transcript_path": str(file)}
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._ask("SessionStart", source="startup")
        answer: str | None = None
        for at, line in session.lines:
            self._clock.now = max(at, self._clock.now)
            if prompt := prompt_of(line):
                if answer is not None:
                    self._stop(answer)
                self._ask("UserPromptSubmit", prompt, prompt=prompt, prompt_id=line.get("uuid", ""))
                answer = ""
            self._line(line, file)
            if line.get("type") == "assistant":
                answer = "\n".join(block["text"] for block in blocks_of(line, "text")) or answer
        self._stop(answer or "")
        self._ask("SessionEnd", reason="prompt_input_exit")
        self._read_on()
        self._daemon.hooks.undreamt.judge(session_id(session.session_id))

    def _line(self, line: Mapping[str, Any], file: Path) -> None:
        """Write one line of a transcript, between the hooks of the tools that it calls or gives the results of."""
        for call in blocks_of(line, "tool_use"):
            self._calls[call["id"]] = call
            self._ask_of_tool("PreToolUse", call)
        with file.open("a", encoding="utf-8") as transcript:
            transcript.write(json.dumps(line, ensure_ascii=False) + "\n")
        for result in blocks_of(line, "tool_result"):
            call = self._calls.pop(result["tool_use_id"], {})
            if call and result.get("is_error"):
                self._ask_of_tool("PostToolUseFailure", call, error=str(result.get("content")))
            elif call:
                self._ask_of_tool("PostToolUse", call, tool_response=line.get("toolUseResult", result.get("content")))

    def open_once(self, cwd: str) -> None:
        """Ask for the start of a session that goes no further."""
        self.pages.append(Page(f"start in {cwd}", self._clock.now))
        self._common = {"session_id": f"last {cwd}", "cwd": cwd}
        self._ask("SessionStart", source="startup")

    def dream(self, at: datetime) -> None:
        """Have a weekly dream at a time."""
        self._clock.now = at
        began = time.monotonic()
        run = self._daemon.call("dream", kind="weekly", wait=True)
        self._daemon.wait_until_embedded()
        say(f"{at:%d %b}: dream {run['state']}, {time.monotonic() - began:.0f} s, {json.dumps(run['actions'])}")

    def _stop(self, answer: str) -> None:
        self._ask("Stop", last_assistant_message=answer)
        self._read_on()

    def _ask_of_tool(self, event: str, call: Mapping[str, Any], **given: Any) -> None:
        name, arguments = call["name"], call["input"]
        shown = f"{name} {json.dumps(arguments, ensure_ascii=False)}"
        self._ask(event, shown, tool_name=name, tool_input=arguments, tool_use_id=call["id"], **given)

    def _ask(self, event: str, shown: str = "", **given: Any) -> None:
        given |= {**self._common, "hook_event_name": event}
        output = self._daemon.call("hook", agent=AGENT, event=event, given=given, cwd=given["cwd"])["output"]
        text = str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""
        self.pages[-1].moments.append(Handed(event, shown, text))

    def _read_on(self) -> None:
        """Have the transcript read on, and wait until its turns are found."""
        while self._daemon.follower.step_live():
            pass
        self._daemon.store.settle(SETTLE_S)
        self._daemon.wait_until_embedded()


# ---- the sessions


def blocks_of(line: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks of one kind of a line's message; a message that is a text is one text block."""
    content = line.get("message", {}).get("content") or ()
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return (block for block in blocks if block.get("type") == kind)


def prompt_of(line: Mapping[str, Any]) -> str:
    """Return the words that a person typed in a line, "" for every other line."""
    if line.get("type") != "user" or any(line.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary")):
        return ""
    text = "\n".join(block["text"] for block in blocks_of(line, "text"))
    return "" if text.startswith(("<", "[Request interrupted by user")) else text.strip()


def read_session(file: Path) -> Recorded | None:
    """Read a session file of Claude Code; None where no person says anything in it."""
    lines = list(_objects(file.read_text(encoding="utf-8").split("\n")))
    named = {key: line[key] for line in lines for key in ("sessionId", "cwd") if isinstance(line.get(key), str)}
    times = [datetime.fromisoformat(line["timestamp"]) if "timestamp" in line else None for line in lines]
    first = next(filter(None, times), None)
    if first is None or not any(map(prompt_of, lines)):
        return None
    dated = itertools.accumulate(times, lambda before, at: at or before, initial=first)
    next(dated)
    return Recorded(file.stem, named["sessionId"], named["cwd"], list(zip(dated, lines, strict=True)))


def _objects(lines: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the lines that are whole: real files hold some that two processes wrote into one."""
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)


def sessions_of(name: str, scratch: Path) -> list[Recorded]:
    """Read the sessions of a set, the earliest first."""
    lives = {life.stem: life for place in (SHARED_DATA / "lives", OWN_LIVES) for life in place.glob("*.json")}
    if name in lives:
        scored(SHARED_DATA / "lives" / "score.py", "claude", str(lives[name]), str(scratch))
        folder = scratch
    elif name == "entire":
        folder = unpacked(SHARED_DATA / name / "sessions", scratch)
    else:
        folder = SHARED_DATA / name / "sessions" if (SHARED_DATA / name).is_dir() else Path(name)
    found = [session for file in sorted(folder.rglob("*.jsonl")) if (session := read_session(file))]
    return sorted(found, key=lambda session: session.lines[0][0])


def mondays(after: datetime, until: datetime) -> Iterator[datetime]:
    """Return the times of the weekly dreams between two moments."""
    first = (after - timedelta(days=after.weekday())).replace(hour=DREAM_HOUR, minute=0, second=0, microsecond=0)
    every = (first + timedelta(weeks=number) for number in itertools.count())
    return itertools.takewhile(lambda day: day < until, itertools.dropwhile(lambda day: day <= after, every))


def replayed(
    daemon: DaemonInProcess, clock: Clock, sessions: Sequence[Recorded], folder: Path, dreams: bool
) -> list[Page]:
    """Play sessions with the dreams between them; return what was handed over, by session."""
    replay = Replay(daemon, clock, folder)
    last = sessions[0].lines[0][0]
    for session in sessions:
        for at in mondays(last, session.lines[0][0]) if dreams else ():
            replay.dream(at)
        last = session.lines[0][0]
        say(f"{last:%d %b} {session.name}")
        replay.play(session)
    after = next(mondays(clock.now, clock.now + timedelta(weeks=2)))
    if dreams:
        replay.dream(after)
    clock.now = after.replace(hour=9)
    for cwd in dict.fromkeys(session.cwd for session in sessions):
        replay.open_once(cwd)
    return replay.pages


# ---- what is read


def as_text(pages: Sequence[Page]) -> str:
    """Lay out every text under its moment; a prompt that got none stands alone, in one line."""
    parts: list[str] = []
    for page in pages:
        parts.append(f"\n## {page.title}, {page.day:%A %-d %B %Y}\n")
        for one in page.moments:
            shown = " ".join(one.asked.split())[:LONGEST_SHOWN]
            if one.text:
                parts.append(f"**{one.event}** {shown}\n```\n{one.text}\n```")
            elif one.event == "UserPromptSubmit":
                parts.append(f"- {shown}")
    return "\n".join(parts) + "\n"


def totals(pages: Sequence[Page]) -> Iterator[str]:
    """Yield the sums: how many moments of each kind got a text, their lines, and tokens by session."""
    moments = [one for page in pages for one in page.moments]
    for event in dict.fromkeys(one.event for one in moments):
        every = [one for one in moments if one.event == event]
        texts = [one.text for one in every if one.text]
        lines = sum(line.startswith("- ") for text in texts for line in text.splitlines())
        mean = sum(map(tokens_of, texts)) / max(1, len(texts))
        yield f"{event:20}{len(texts):5} of {len(every):4} with a text,{lines:5} lines,{mean:6.0f} tokens each"
    costs = [sum(tokens_of(one.text) for one in page.moments) for page in pages]
    yield f"tokens a session: {sum(costs) / max(1, len(costs)):.0f} on average, {max(costs, default=0):.0f} at most"


def main() -> int:
    """Replay a set; print the totals and the file that holds the texts."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.handed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", nargs="?", default="readers-2")
    parser.add_argument("--most", type=int, help="the first sessions only")
    parser.add_argument("--no-dreams", action="store_true")
    parser.add_argument("--folder", type=Path, help="keep the store there, to look at it (a folder that is empty)")
    given = parser.parse_args()
    logger.remove()
    began = time.monotonic()
    with own_folder("handed") as scratch:
        sessions = sessions_of(given.set, scratch / "recorded")[: given.most]
        clock = Clock(sessions[0].lines[0][0].astimezone(UTC))
        with DaemonInProcess(given.folder or scratch / "daemon", now=clock) as daemon:
            pages = replayed(daemon, clock, sessions, scratch / "played", not given.no_dreams)
    file = Options().results / "handed" / f"{Path(given.set).name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_text(pages) + "\n" + "\n".join(totals(pages)) + "\n", encoding="utf-8")
    print(*totals(pages), f"took {time.monotonic() - began:.0f} s; to be read: {file}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What do hooks cost? How long they take, also beside other work and without a daemon, and how much they hand over.

`python -m tests.bench.agents [--only wall|starts|away|size]`; what they hand over along sessions: `tests.bench.handed`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .daemon_under_test import DaemonUnderTest
from .datasets import many_queries, many_turns, write_chat
from .options import Options
from .scratch import end_in_order, own_folder
from .table import Row, report, say

SEED = 20261122
MEMORIES = 10_000
TIMES = 40
MOST_CHARACTERS = 8000
MOST_SHELLS = 3
MOST_AWAY_MS = 150
STARTS = 50
BUSY = 10
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")
SIZES = (9_900, 10_100, 60_000)
AGENT = "claude-code"


def measure(options: Options) -> Iterator[Row]:
    """Take every row."""
    for part in PARTS.values():
        yield from part(options)


# ---- how a hook is asked


def asked(daemon: DaemonUnderTest, session_id: str, cwd: str, event: str, **given: Any) -> str:
    """Return the text that a hook hands over, "" for none."""
    given |= {"session_id": session_id, "cwd": cwd, "hook_event_name": event}
    output = daemon.call("hook", agent=AGENT, event=event, given=given, cwd=cwd)["output"]
    return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


# ---- how long it takes


def wall(options: Options) -> Iterator[Row]:
    """Start the hook of a prompt as an agent does, beside an interpreter that does nothing."""
    rng = random.Random(SEED)
    with own_folder("hook-wall") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        turns = many_turns(options.of(MEMORIES, 200), options.data, rng)
        queries = many_queries(options.of(TIMES, 8), turns, rng)
        daemon.call("import", paths=[str(write_chat(scratch / "chat.jsonl", turns))], channel="bench")
        say("embedding")
        daemon.wait_until_embedded()
        nothing, hook, recall = [], [], []
        for number, query in enumerate(queries):
            given = {"session_id": f"wall-{number}", "prompt": query, "cwd": str(scratch)}
            nothing.append(timed(lambda: run([sys.executable, "-c", "pass"], daemon, {})))
            command = [str(Path(sys.executable).with_name("dreamctl")), "hook", AGENT, "UserPromptSubmit"]
            hook.append(timed(lambda command=command, given=given: run(command, daemon, given)))  # type: ignore[misc]
            recall.append(timed(lambda query=query: daemon.call("context", query=query, cwd=str(scratch))))  # type: ignore[misc]
        daemon.stop()
    bare, whole, answer = (statistics.median(times) * 1e3 for times in (nothing, hook, recall))
    yield Row(
        "a prompt's hook, from its start to its end",
        f"{whole:.0f} ms",
        f"≤ {MOST_SHELLS} × `python -c pass` + the recall",
        whole <= MOST_SHELLS * bare + answer,
        f"median of {len(hook)}, {len(turns)} memories; `python -c pass` {bare:.0f} ms, the recall {answer:.0f} ms",
    )


def run(command: Sequence[str], daemon: DaemonUnderTest, given: dict[str, Any]) -> None:
    """Run a command as an agent runs a hook."""
    subprocess.run(command, input=json.dumps(given).encode(), env=daemon.environ, capture_output=True, check=True)


def timed(act: Callable[[], object]) -> float:
    """Return how many seconds something takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


# ---- starts on a busy machine


def starts(options: Options) -> Iterator[Row]:
    """Start the hook of a session's start as an agent does, beside so many loops that the machine's load is ten."""
    with own_folder("hook-starts") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        daemon.wait_until_embedded()
        daemon.call("remember", text="Never push on Fridays.", kind="preference", channel="_global")
        daemon.call("list")
        busy = max(0, BUSY - round(os.getloadavg()[0]))
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            took, lost = [], 0
            for number in range(options.of(STARTS, 5)):
                given = json.dumps({"session_id": f"start-{number}", "cwd": str(scratch), "source": "startup"})
                command = [str(Path(sys.executable).with_name("dreamctl")), "hook", AGENT, "SessionStart"]
                began = time.perf_counter()
                done = subprocess.run(command, input=given.encode(), env=daemon.environ, capture_output=True)
                took.append(1e3 * (time.perf_counter() - began))
                lost += b"Fridays" not in done.stdout
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        daemon.stop()
    load = os.getloadavg()[0]
    yield Row(
        f"starts of sessions whose text is lost, at a load of {BUSY}",
        f"{lost} of {len(took)}",
        "0",
        lost == 0,
        f"a start takes {statistics.median(took):.0f} ms, {max(took):.0f} at most; load {load:.1f} at the end",
    )


# ---- what it costs where the daemon is away


def away(options: Options) -> Iterator[Row]:
    """Start hooks, of every moment of a session, while the daemon is stopped, and then killed."""
    with own_folder("hook-away") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        daemon.wait_until_embedded()
        for state, act in (("stopped", daemon.pause), ("killed", daemon.kill)):
            act()
            took, bare = [], []
            for number in range(options.of(10, 2)):
                took += [1e3 * _hook(daemon, event, number) for event in EVENTS]
                bare.append(1e3 * timed(lambda: run([sys.executable, "-c", "pass"], daemon, {})))
            worst, median = max(took), statistics.median(took)
            yield Row(
                f"a hook while the daemon is {state}",
                f"{median:.0f} ms",
                f"≤ {MOST_AWAY_MS} ms",
                median <= MOST_AWAY_MS,
                f"median of {len(took)}, worst {worst:.0f}; exit 0 and no output each; an empty interpreter takes "
                f"{statistics.median(bare):.0f} ms",
            )


def _hook(daemon: DaemonUnderTest, event: str, number: int) -> float:
    """Run a hook that gets no answer; return how many seconds it takes."""
    command = [str(Path(sys.executable).with_name("dreamctl")), "hook", AGENT, event]
    given = json.dumps({"session_id": f"away-{number}", "prompt": "Which port?", "cwd": str(daemon.folder)})
    began = time.perf_counter()
    done = subprocess.run(command, input=given.encode(), env=daemon.environ, capture_output=True)
    took = time.perf_counter() - began
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
    return took


# ---- how much it is


def sizes(options: Options) -> Iterator[Row]:
    """Keep memories of many characters, and ask for them: what comes out stays below what an agent puts aside."""
    with own_folder("hook-size") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        daemon.wait_until_embedded()
        most = 0
        for size in SIZES:
            word = f"gannet{size}"
            sentence = f"The {word} archive is kept on the blue disk in the cellar of the old mill, row {{}}. "
            text = "".join(sentence.format(row) for row in range(size // len(sentence) + 1))[:size]
            folder = scratch / word
            folder.mkdir()
            turns = [{"role": "user", "text": text}, {"role": "user", "text": text.replace(". ", " ").strip()}]
            daemon.call("observe", session={"session_id": f"said-{size}", "cwd": str(folder)}, turns=turns)
            daemon.call("list")
            daemon.wait_until_embedded()
            for event, given in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {})):
                prompt = f"Where is the {word} archive kept?"
                out = asked(daemon, f"size-{size}", str(folder), event, prompt=prompt, **given)
                most = max(most, len(out))
        daemon.stop()
    yield Row(
        "the longest text that a hook hands over",
        f"{most} characters",
        f"≤ {MOST_CHARACTERS}",
        most <= MOST_CHARACTERS,
        f"of turns of {', '.join(f'{size:,}' for size in SIZES)} characters",
    )


PARTS: dict[str, Callable[[Options], Iterator[Row]]] = {
    "wall": wall,
    "starts": starts,
    "away": away,
    "size": sizes,
}


def main() -> int:
    """Take the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agents", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), action="append")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    end_in_order()
    options = Options(quick=given.quick)
    return report(row for name in given.only or PARTS for row in PARTS[name](options))


if __name__ == "__main__":
    sys.exit(main())

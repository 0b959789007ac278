"""Trace a way through the daemon: `python -m tests.ways recall|remember|prompt|context …`.

A daemon in this process (stub model) has a small memory. Each way is gone once to warm up, then traced RUNS times, from
the request's first byte to the answer's last; the run with the fewest changes of file is printed: background threads
that happened to work meanwhile are not of the way.

Counted are the functions of store, ipc and daemon, on all threads: `files` and `functions` that were entered, and
`changes of file`: calls whose nearest calling frame of ours lies in another file (a first call of a thread has none).
Returns are not counted, nor is a generator that goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
ROOMS = ("store", "ipc", "daemon")
RUNS = 5
SETTLED_S = 0.3
"""A pause before each run, in which the background work of the last one ends."""

CHANNEL = "workshop"
TURNS = (
    ("user", "We moved the nightly backup of the kiln data to the blue disk in the cellar."),
    ("assistant", "Noted. Should the backup still begin at two in the morning?"),
    ("user", "Yes, at two, and it must end before six when the press starts."),
    ("user", "Anna's workshop in Lisbon opens on Fridays; the key is with the neighbour."),
    ("assistant", "I will remind you on Thursday evening about the key."),
)
FACTS = ("The kiln is fired at 1,240 degrees.", "The glaze for the tiles is called Celadon 7.")
QUESTION = "When does the nightly backup of the kiln data begin?"


def _ways(session: str) -> dict[str, Callable[[int], tuple[str, dict[str, Any]]]]:
    """Return the request of each way's n-th run."""
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": "/tmp", "transcript_path": ""}
    return {
        "recall": lambda n: ("recall", {"query": QUESTION, "channel": CHANNEL}),
        "context": lambda n: ("context", {"query": QUESTION, "channel": CHANNEL, "budget_tokens": 500}),
        "remember": lambda n: ("remember", {"text": f"The {n}th shelf holds the clay of May.", "channel": CHANNEL}),
        "prompt": lambda n: (
            "hook",
            {
                "agent": "claude-code",
                "event": "UserPromptSubmit",
                "given": {**prompt, "session_id": f"{session}{n}", "prompt": QUESTION},
            },
        ),
    }


@dataclass
class Trace:
    """What was entered while it recorded. `entered` counts functions, `changes` pairs of files, caller and callee."""

    is_on: bool = False
    entered: Counter[CodeType] = field(default_factory=Counter)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        """Record a call; the interpreter calls this in every thread that `threading.setprofile` reached."""
        code = frame.f_code
        if event != "call" or not self.is_on or (file := _file_of(code)) is None or not _begins(frame):
            return
        self.entered[code] += 1
        caller = frame.f_back
        while caller is not None and (from_file := _file_of(caller.f_code)) is None:
            caller = caller.f_back
        if caller is not None and from_file != file:
            self.changes[str(from_file), file] += 1

    def figures(self) -> dict[str, int]:
        """Return the three figures."""
        return {
            "files": len({_file_of(code) for code in self.entered}),
            "functions": len(self.entered),
            "changes": self.changes.total(),
        }

    def lines(self) -> list[str]:
        """Return each file with the calls from other files and the functions entered, most calls first."""
        into: Counter[str] = Counter()
        for (_, file), calls in self.changes.items():
            into[file] += calls
        names: dict[str, list[str]] = {}
        for code in self.entered:
            names.setdefault(str(_file_of(code)), []).append(f"{code.co_name} {self.entered[code]}")
        order = sorted(names, key=lambda file: (-into[file], file))
        return [f"{into[file]:5}  {file}: {', '.join(sorted(names[file]))}" for file in order]


_files: dict[CodeType, str | None] = {}


def _file_of(code: CodeType) -> str | None:
    """Return the file of a function of ours, from the root; None for any other."""
    if code not in _files:
        path = Path(code.co_filename).resolve()
        inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
        _files[code] = str(inside) if inside is not None and inside.parts[0] in ROOMS else None
    return _files[code]


def _begins(frame: FrameType) -> bool:
    """Return True if a frame is at its first instructions: a generator or coroutine that goes on is further."""
    return frame.f_lasti <= 2 * len(frame.f_code.co_cellvars + frame.f_code.co_freevars) + 4


class Client:
    """One connection from a thread that is not traced."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        deadline = time.monotonic() + 30
        while True:
            try:
                self._socket.connect(path)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a method. Raises RuntimeError with the daemon's error."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        held = b""
        while not held.endswith(b"\n"):
            held += self._socket.recv(2**20)
        answer = json.loads(held.splitlines()[-1])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


def _fill(client: Client) -> None:
    turns = [{"role": role, "text": text} for role, text in TURNS]
    client.call("observe", {"session": {"session_id": "fired", "channel": CHANNEL}, "turns": turns})
    for text in FACTS:
        client.call("remember", {"text": text, "channel": CHANNEL})
    while (status := client.call("status", {}))["pending_embeddings"] or status["not_found_yet"]:
        time.sleep(0.05)


def _go(trace: Trace, wanted: Sequence[str], found: dict[str, Trace], path: str) -> None:
    """Fill the memory, then go each way; for a thread of its own."""
    client = Client(path)
    _fill(client)
    for name in wanted:
        request = _ways(f"session-{name}")[name]
        client.call(*request(0))
        for run in range(1, RUNS + 1):
            time.sleep(SETTLED_S)
            trace.entered, trace.changes, trace.is_on = Counter(), Counter(), True
            client.call(*request(run))
            trace.is_on = False
            of_run = Trace(entered=trace.entered, changes=trace.changes)
            if name not in found or of_run.figures()["changes"] < found[name].figures()["changes"]:
                found[name] = of_run


def traced(wanted: Sequence[str]) -> dict[str, Trace]:
    """Return the trace of each way that is wanted; runs a daemon in this process, and needs its main thread."""
    trace, found = Trace(), dict[str, Trace]()
    with tempfile.TemporaryDirectory(prefix="dreamd-") as folder:
        path = str(Path(folder) / "s")
        os.environ |= {
            "HOME": folder,
            "DREAMD_DATA_DIR": str(Path(folder) / "data"),
            "DREAMD_SOCKET": path,
            "DREAMD_STORE__EMBEDDING__MODEL": "stub",
            "DREAMD_STORE__SEARCH__CACHE__ENTRIES": "0",
            "DREAMD_PIPELINES__SCHEDULE__ENABLED": "false",
        }
        from dreamd.daemon.app import Daemon
        from dreamd.daemon.settings import load

        daemon = Daemon(load())
        failed: list[BaseException] = []

        def drive() -> None:
            try:
                _go(trace, wanted, found, path)
            except BaseException as error:
                failed.append(error)
            finally:
                loop.call_soon_threadsafe(daemon.stop)

        async def serve() -> None:
            nonlocal loop
            loop = asyncio.get_running_loop()
            client = threading.Thread(target=drive)
            client.start()
            threading.setprofile(trace.profile)  # every thread that begins from here on, so not the client's
            sys.setprofile(trace.profile)
            try:
                await daemon.run()
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
                client.join()

        loop: asyncio.AbstractEventLoop
        asyncio.run(serve())
        if failed:
            raise failed[0]
    return found


def main() -> int:
    """Print the figures of each way, and of one alone its files."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.ways", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("way", nargs="*", help="recall, context, remember, prompt; all of them where none is given")
    parser.add_argument("--json", action="store_true", help="the figures alone, as JSON")
    given = parser.parse_args()
    ways = given.way or list(_ways(""))
    found = traced(ways)
    if given.json:
        print(json.dumps({name: one.figures() for name, one in found.items()}))
        return 0
    for name, one in found.items():
        print(f"{name}: {{files}} files, {{functions}} functions, {{changes}} changes of file".format(**one.figures()))
        if len(found) == 1:
            print("\n".join(one.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

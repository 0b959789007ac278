"""The loop of a runner: requests as lines of JSON on stdin, answers on stdout, the seconds of each call in the answer.

A runner is executed by its peer's own interpreter, so nothing here or beside it imports more than the standard library
and that peer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Given:
    """Where a peer keeps its data, and where vectors come from: `url` has no path."""

    folder: Path
    url: str
    model: str
    dimension: int


Turn = dict[str, str]
"""`id`, `channel`, `session`, `speaker`, `text`, `said` (the text with its speaker before it) and `at` (ISO 8601)."""


class Memory(Protocol):
    """A peer, opened."""

    def add(self, turns: list[Turn]) -> None:
        """Keep turns of one channel, one memory a turn."""

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        """Return the ids of the turns found in a channel, best first."""


def serve(open_memory: Callable[[Given], Memory]) -> None:
    """Answer until stdin ends; an error ends the runner with its traceback on stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the peer prints is no answer
    memory: Memory | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        result: Any = None
        began = time.perf_counter()
        if asked["op"] == "open":
            memory = open_memory(Given(Path(asked["folder"]), asked["url"], asked["model"], asked["dimension"]))
        elif memory is None:
            raise RuntimeError("not opened")
        elif asked["op"] == "add":
            memory.add(asked["turns"])
        elif asked["op"] == "search":
            result = memory.search(asked["channel"], asked["query"], asked["limit"])
        seconds = time.perf_counter() - began
        answers.write(json.dumps({"result": result, "seconds": seconds}) + "\n")
        answers.flush()

"""A peer in a process of its own: its interpreter runs its runner, requests and answers are lines of JSON."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import psutil

from ..daemon_under_test import MIB
from .memories import Turn
from .roster import HERE, Peer
from .stop_words import lay_out

CLOSED = "http://127.0.0.1:9"
"""The proxy of everything that is not loopback: a port on which nothing listens."""

QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "CHROMA_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "MEM0_TELEMETRY": "False",
    "POSTHOG_DISABLED": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


class PeerFailed(RuntimeError):
    """The runner ended or did not answer in time; the end of its log is in the message."""


class PeerProcess:
    """A context in which a peer runs on a folder of its own."""

    def __init__(self, peer: Peer, python: Path, folder: Path, url: str, model: str, dimension: int) -> None:
        self.peer = peer
        folder.mkdir(parents=True)
        self._log = folder / "log"
        self._folder = folder / "data"
        self._folder.mkdir()
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "PYTHONPATH": str(HERE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FASTEMBED_CACHE_PATH": str(lay_out(folder / "fastembed")),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{url}/v1",
            **{f"{scheme}_proxy": CLOSED for scheme in ("http", "https", "all")},
            "no_proxy": "127.0.0.1,localhost",
            **QUIET,
        }
        self._opening = {"folder": str(self._folder), "url": url, "model": model, "dimension": dimension}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", peer.module],
                env=environ,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def open(self, timeout_s: float = 120) -> None:
        """Have it open an empty memory. Raises PeerFailed."""
        self._ask(timeout_s, op="open", **self._opening)

    def add(self, turns: Sequence[Turn], timeout_s: float) -> float:
        """Have it keep turns of one channel; return the seconds. Raises PeerFailed."""
        given = [asdict(turn) | {"said": turn.said} for turn in turns]
        seconds: float = self._ask(timeout_s, op="add", turns=given)["seconds"]
        return seconds

    def search(self, channel: str, query: str, limit: int, timeout_s: float = 60) -> tuple[list[str], float]:
        """Return the ids it finds and the seconds of its own call. Raises PeerFailed."""
        answer = self._ask(timeout_s, op="search", channel=channel, query=query, limit=limit)
        return answer["result"], answer["seconds"]

    def resident_mib(self) -> float:
        """Resident memory of the process and its children now, in MiB."""
        top = psutil.Process(self._process.pid)
        return sum(process.memory_info().rss for process in (top, *top.children(recursive=True))) / MIB

    def _ask(self, timeout_s: float, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerFailed(self._how_it_ended()) from error
        deadline, line = time.monotonic() + timeout_s, b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise PeerFailed(f"no answer to {request['op']} within {timeout_s:g} s")
            read = os.read(self._process.stdout.fileno(), 2**20)
            if not read:
                raise PeerFailed(self._how_it_ended())
            line += read
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _how_it_ended(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:200] if lines else "it ended without a word"

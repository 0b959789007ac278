"""Try random schedules of `observe` on one store each: `python tests/bench/observing.py --schedules 500`.

A schedule is a few lives of a store in one folder. In each, batches of turns of a few sessions are observed: of days in
any order, with and without the session's start, some sent again, while the index is made anew or not. A life ends by
`close` or by a kill at a random instant. The last life asks for every acknowledged turn by its own word: recall finds
it, and its session's one file holds it once. Some schedules rebuild before that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads in the parent: it forks

from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead, StoreBusy
from dreamd.store.settings import StoreSettings

FIRST_DAY = datetime(2026, 11, 1, 9, tzinfo=UTC)
SESSIONS, DAYS, LIVES, BATCHES = 3, 9, 3, 8
SETTLED_S, CHECKED_S = 120.0, 300.0

Say = Callable[..., None]


def open_store(folder: Path) -> MemoryStore:
    """Open the store of a folder with an embedder that needs no model."""
    index = folder / "index"
    paths = StorePaths(
        folder / "vault", folder / "ledger.db", index / "index.db", index / "embeddings.db", folder / "runs"
    )
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: datetime.now(UTC))


def word_of(number: int) -> str:
    """Return a word that no other turn has."""
    return f"gadget{number:05d}x"


def write(folder: Path, say: Say, rng: random.Random, first: int) -> None:
    """Observe batches and say which turns were acknowledged; the index is made anew beside some of them."""
    store = open_store(folder)
    if rng.random() < 0.3:
        threading.Thread(target=_rebuild, args=(store,), daemon=True).start()
    for batch in range(rng.randint(1, BATCHES)):
        day = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
        numbers = range(first + batch * 10, first + batch * 10 + rng.randint(1, 5))
        at = day if rng.random() < 0.9 else None
        turns = [NewTurn("user", f"We chose {word_of(number)} for the job.", at, str(number)) for number in numbers]
        head = SessionHead(f"chat-{rng.randrange(SESSIONS)}", "p", started_at=day if rng.random() < 0.3 else None)
        for _ in range(rng.choice((1, 1, 2))):
            store.observe(head, turns).result()
        say("kept", session=head.session_id, numbers=list(numbers))
        if rng.random() < 0.2:
            store.settle(SETTLED_S)
    if rng.random() < 0.5:
        store.close()


def _rebuild(store: MemoryStore) -> None:
    with contextlib.suppress(StoreBusy):  # it was closed meanwhile
        store.rebuild()


def check(folder: Path, say: Say, kept: dict[int, str], *, rebuild: bool) -> None:
    """Say which acknowledged turns are not found, or are there twice."""
    store = open_store(folder)
    if rebuild:
        store.rebuild()
    while not store.settle(SETTLED_S) or store.status().catching_up:
        time.sleep(0.01)
    store.settle(SETTLED_S)
    files = {path.stem: path.read_text() for path in store.paths.vault.rglob("sessions/**/chat-*.md")}
    count = len(list(store.paths.vault.rglob("sessions/**/chat-*.md")))
    if count != len(files):
        say("failed", what=f"{count} files of {len(files)} sessions")
    for number, session in kept.items():
        word = word_of(number)
        if not any(f"{word} " in hit.text for hit in store.recall(word, channel="p").hits):
            say("lost", what=f"{session} {number} is not found")
        if files.get(session, "").count(f"{word} ") != 1:
            say("lost", what=f"{session} {number} is not there once")
    store.close()
    say("done")


class Life:
    """One process, as its parent hears it."""

    def __init__(self, job: Callable[[Say], None]) -> None:
        self.told: list[dict[str, Any]] = []
        self._rest = b""
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reading)
            _live(job, writing)
        os.close(writing)

    def end(self, within_s: float) -> list[dict[str, Any]]:
        """Hear it until it ends, kill it after so many seconds, and return what it said."""
        until = time.monotonic() + within_s
        while (left_s := until - time.monotonic()) > 0 and select.select([self._reading], [], [], left_s)[0]:
            if not self._hear():
                break
        os.kill(self._pid, signal.SIGKILL)
        while self._hear():
            pass
        os.waitpid(self._pid, 0)
        os.close(self._reading)
        return self.told

    def _hear(self) -> bool:
        data = os.read(self._reading, 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.told += map(json.loads, lines)
        return bool(data)


def _live(job: Callable[[Say], None], pipe: int) -> NoReturn:
    def say(op: str, **what: object) -> None:
        os.write(pipe, json.dumps({"op": op, **what}).encode() + b"\n")

    try:
        job(say)
    except BaseException:
        say("failed", what=traceback.format_exc()[-1500:])
    os._exit(0)


def schedule(seed: int) -> tuple[int, list[str]]:
    """Run one schedule; return how many turns were acknowledged, and what was wrong."""
    rng = random.Random(seed)
    kept: dict[int, str] = {}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for life in range(LIVES):
            own = random.Random(rng.random())
            first = life * 100 * BATCHES
            job = Life(lambda say, own=own, first=first: write(folder, say, own, first))  # type: ignore[misc]
            for line in job.end(rng.choice((0.05, 0.1, 0.2, 0.4, 60.0))):
                if line["op"] == "failed":
                    wrong.append(line["what"])
                else:
                    kept |= dict.fromkeys(line["numbers"], line["session"])
        said = Life(lambda say: check(folder, say, kept, rebuild=rng.random() < 0.3)).end(CHECKED_S)
    wrong += [line["what"] for line in said if "what" in line]
    return len(kept), wrong if any(line["op"] == "done" for line in said) else [*wrong, "the check did not finish"]


def main() -> int:
    """Print one JSON object; exit with 1 when an acknowledged turn was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    outcomes = [schedule(given.seed + number) for number in range(given.schedules)]
    wrong = [what for _, some in outcomes for what in some]
    result = {
        "schedules": given.schedules,
        "acknowledged": sum(kept for kept, _ in outcomes),
        "violations": len(wrong),
        "first_violations": wrong[:5],
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return int(bool(wrong) or not result["acknowledged"])


if __name__ == "__main__":
    sys.exit(main())

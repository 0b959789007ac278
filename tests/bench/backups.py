"""Is a backup whole that is made while 32 clients write, and how long does a write wait for it?"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dreamd.store import StorePaths, restore_backup

from .daemon_under_test import MIB, DaemonUnderTest
from .options import Options
from .scratch import own_folder
from .table import Row, say

WRITERS, NOTES = 32, 2000
STUB = {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}
LONGEST_WAIT_S = 1.0


class Writer(threading.Thread):
    """Observes one turn after the other in a session of its own, and keeps the time of each."""

    def __init__(self, daemon: DaemonUnderTest, number: int, stop: threading.Event) -> None:
        super().__init__()
        self._wire, self._number, self._ended = daemon.wire(), number, stop
        self.acknowledged = 0
        self.took_s: list[float] = []

    def run(self) -> None:
        """Write until told to stop."""
        session = {"session_id": f"writer-{self._number}", "channel": "bench"}
        while not self._ended.is_set():
            began = time.perf_counter()
            text = f"{self._number} says {self.acknowledged}"
            turn = {"role": "user", "text": text, "external_id": f"t{self.acknowledged}"}
            self._wire.call("observe", session=session, turns=[turn])
            self.took_s.append(time.perf_counter() - began)
            self.acknowledged += 1
        self._wire.close()


def measure(options: Options) -> Iterator[Row]:
    """Make backups under load and one at rest, restore them elsewhere, and compare each with what was kept."""
    backups, notes = (2, 50) if options.quick else (5, NOTES)
    with own_folder("backups") as folder:
        with DaemonUnderTest(folder / "one", STUB) as daemon:
            with closing(daemon.wire()) as wire:
                for number in range(notes):
                    wire.call("remember", text=f"Note {number} of the bench says {number * 7919}.", channel="notes")
            stop = threading.Event()
            writers = [Writer(daemon, number, stop) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            held, seconds, done, before = 0.0, 0.0, {}, []
            for number in range(backups):
                before = [writer.acknowledged for writer in writers]
                done = daemon.call("backup", path=str(folder / f"{number}.tar.gz"))
                held, seconds = max(held, done["held_s"]), max(seconds, done["seconds"])
                say(f"{done['files']} files, {done['size_bytes'] / MIB:.1f} MiB in {done['seconds']:.1f} s")
            stop.set()
            for writer in writers:
                writer.join()
            took = sorted(one for writer in writers for one in writer.took_s)
            rest, run_id = _at_rest(daemon)
            still = daemon.call("backup", path=str(folder / "still.tar.gz"))["path"]
            undone = daemon.call("undo", run_id=run_id)
        how = f"{WRITERS} writers, {len(took):,} turns, {done['files']:,} files"
        wrong = _compare(folder, done["path"], before, [writer.acknowledged for writer in writers])
        with _restored(folder / "three", still) as daemon:
            found = _held(daemon)
            differ = [name for name, part in rest.items() if part != found[name]]
            for name in differ:
                say(f"{name}: {_difference(rest[name], found[name])}")
            differ += ["undo"] if daemon.call("undo", run_id=run_id) != undone else []
    yield Row("backup under load, then restored", f"{wrong} sessions lost, torn or ahead", "0", not wrong, how)
    parts = f"{len(rest['memories'])} memories with links and counters, {len(rest['runs'])} runs, an undo"
    yield Row("backup at rest, then restored", f"differs in {', '.join(differ) or 'nothing'}", "0", not differ, parts)
    yield Row(
        "longest write beside a backup",
        f"{took[-1]:.2f} s (half {1e3 * took[len(took) // 2]:.0f} ms); held {1e3 * held:.0f} ms of {seconds:.1f} s",
        f"{LONGEST_WAIT_S:g} s",
        took[-1] <= LONGEST_WAIT_S,
        how,
    )


def _at_rest(daemon: DaemonUnderTest) -> tuple[dict[str, Any], str]:
    """Link, forget, judge and ask, and return what is held once all is found, with the run of the forgetting."""
    one, two, three, *_ = (listed["node_id"] for listed in _pages(daemon, level="L1"))
    daemon.call("link", **{"from": one, "to": two, "relation": "RelatesTo"})
    daemon.call("feedback", node_id=two, verdict="useful")
    run_id = daemon.call("forget", node_id=three)["run_id"]
    daemon.call("recall", query="What does note 7 of the bench say?", channel="notes", agent_id="bench")
    daemon.wait_until_linked()
    say("all is written, found and linked")
    return _held(daemon), str(run_id)


def _held(daemon: DaemonUnderTest) -> dict[str, Any]:
    """Return memories whole, with their links and counters, the sessions by their turns, runs, and what was told."""
    with closing(daemon.wire()) as wire:
        memories = {one["node_id"]: wire.call("show", node_id=one["node_id"]) for one in _pages(daemon, level="L1")}
        for shown in memories.values():
            del shown["use"]["used"]  # to open what was found is a use of it: reading it here adds to it
        sessions = {one["node_id"]: one for one in _pages(daemon, level="L0")}
        status = wire.call("status")
        counts = {name: status[name] for name in ("memories", "turns", "turns_forgotten", "channels", "runs", "told")}
        runs = wire.call("runs", all=True, limit=1000)["runs"]
        return {"memories": memories, "sessions": sessions, "counters": counts, "runs": runs}


def _difference(kept: Any, found: Any) -> str:
    """Return how many parts differ, and the first of them from both sides."""
    if not isinstance(kept, dict) or not isinstance(found, dict):
        return f"{str(kept)[:200]} was, {str(found)[:200]} is"
    names = [name for name in {**kept, **found} if kept.get(name) != found.get(name)]
    first = _difference(kept.get(names[0]), found.get(names[0]))
    return f"{len(names)} of {len(kept)}; {names[0]}: {first}"


def _pages(daemon: DaemonUnderTest, **of: Any) -> Iterator[dict[str, Any]]:
    at: int | None = 0
    while at is not None:
        page = daemon.call("list", limit=100, offset=at, **of)
        yield from page["memories"]
        at = page["next"]


@contextmanager
def _restored(folder: Path, archive: str) -> Iterator[DaemonUnderTest]:
    """Run a daemon on what an archive holds; its start places what was in the journal."""
    index = folder / "data" / "index"
    vault, ledger = folder / "data" / "vault", folder / "data" / "ledger.db"
    paths = StorePaths(vault, ledger, index / "index.db", index / "embeddings.db", folder / "data" / "runs")
    restore_backup(Path(archive), folder / "data", paths)
    with DaemonUnderTest(folder, STUB) as daemon:
        daemon.wait_until_embedded()
        yield daemon


def _compare(folder: Path, archive: str, before: Sequence[int], after: Sequence[int]) -> int:
    """Count the sessions that lost an acknowledged turn, have a gap, or hold what was never written."""
    vault = folder / "two" / "data" / "vault"
    with _restored(folder / "two", archive):
        say("the restored sessions are there")
    wrong = 0
    for number in range(WRITERS):
        (file,) = vault.rglob(f"writer-{number}.md")
        turns = [int(turn) for turn in re.findall(rf"^{number} says (\d+)$", file.read_text(), re.MULTILINE)]
        wrong += turns != list(range(len(turns))) or not before[number] <= len(turns) <= after[number]
    return wrong

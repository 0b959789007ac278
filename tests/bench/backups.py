"""Is a backup whole that is made while 32 clients write, and how long does a write wait for it?"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

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
    """Make backups under load, restore the last elsewhere, and compare it with what was acknowledged."""
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
        how = f"{WRITERS} writers, {len(took):,} turns, {done['files']:,} files"
        wrong = _compare(folder, done["path"], before, [writer.acknowledged for writer in writers])
    yield Row("backup under load, then restored", f"{wrong} sessions lost, torn or ahead", "0", not wrong, how)
    yield Row(
        "longest write beside a backup",
        f"{took[-1]:.2f} s (half {1e3 * took[len(took) // 2]:.0f} ms); held {1e3 * held:.0f} ms of {seconds:.1f} s",
        f"{LONGEST_WAIT_S:g} s",
        took[-1] <= LONGEST_WAIT_S,
        how,
    )


def _compare(folder: Path, archive: str, before: Sequence[int], after: Sequence[int]) -> int:
    """Count the sessions that lost an acknowledged turn, have a gap, or hold what was never written."""
    data = folder / "two" / "data"
    index = data / "index"
    paths = StorePaths(data / "vault", data / "ledger.db", index / "index.db", index / "embeddings.db", data / "runs")
    restore_backup(Path(archive), data, paths)
    with DaemonUnderTest(folder / "two", STUB) as daemon:  # its start places what was in the journal
        daemon.wait_until_embedded()
    wrong = 0
    for number in range(WRITERS):
        (file,) = paths.vault.rglob(f"writer-{number}.md")
        turns = [int(turn) for turn in re.findall(rf"^{number} says (\d+)$", file.read_text(), re.MULTILINE)]
        wrong += turns != list(range(len(turns))) or not before[number] <= len(turns) <= after[number]
    return wrong

"""Schedules of chance on three machines that share one memory, and the times of a first and a later sync.

python -m tests.bench.sync [--schedules 300] [--steps 60] [--memories 10000] [--seed 0] [--races]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from dreamd.daemon.sync.segments import Sealer

from tests.daemon.sync.machines import CHANNEL, Clock, Machine, Schedule


def schedules(count: int, steps: int, seed: int, *, races: bool) -> int:
    """Run schedules; print those after which something is not as it must be, and return their number."""
    bad, killed = 0, Counter[str]()
    began = time.monotonic()
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            schedule = Schedule(Path(folder), number, races=races)
            try:
                schedule.run(steps)
                schedule.settle()
                found = schedule.problems()
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
                import traceback

                traceback.print_exc()
            finally:
                schedule.close()
        killed += schedule.killed
        if found:
            bad += 1
            print(f"schedule {number}: {found}\n  {schedule.log}", flush=True)
        if (number + 1 - seed) % 10 == 0:
            print(f"{number + 1 - seed} of {count}, {bad} with problems", flush=True)
    print(f"killed in the middle of: {dict(killed)}")
    print(f"{count} schedules of {steps} steps, {bad} with problems, {time.monotonic() - began:.0f} s")
    return bad


def times(memories: int) -> None:
    """Print how long a first sync takes, and one of a single memory more."""
    with tempfile.TemporaryDirectory() as folder:
        remote, key, clock = Path(folder) / "remote.git", Sealer.new_key(), Clock()
        first, second = (Machine(Path(folder) / name, remote, key, clock) for name in "ab")
        futures = [
            first.store.remember(
                f"Fact {number} of the kiln: oven {number * 7} burns at {number} degrees.", channel=CHANNEL
            )
            for number in range(memories)
        ]
        for future in futures:
            future.result()
        first.store.settle(600)
        first.store.settle_links(600)
        for what in ("first sync", "one memory more"):
            if what == "one memory more":
                first.store.remember("The kiln is closed on Mondays.", channel=CHANNEL).result()
                first.store.settle(60)
            began = time.monotonic()
            first.sync()
            written = time.monotonic()
            second.sync()
            done = time.monotonic()
            print(f"{what}: written in {written - began:.2f} s, let in in {done - written:.2f} s")
        assert first.files() == second.files()
        plain = b"burns at"
        held = [path for path in remote.rglob("*") if path.is_file() and plain in path.read_bytes()]
        print(f"{memories} memories, {sum(p.stat().st_size for p in remote.rglob('*') if p.is_file()) / 2**20:.1f} MiB")
        print(f"files of the remote with plain text: {len(held)}")
        first.close()
        second.close()


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=300)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--races", action="store_true", help="let machines push without having read each other")
    options = parser.parse_args()
    if options.memories:
        times(options.memories)
    return min(1, schedules(options.schedules, options.steps, options.seed, races=options.races))


if __name__ == "__main__":
    sys.exit(main())

"""A session that grows fast, followed: how soon what is said in it is found, and what that costs in memory."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from .daemon_under_test import MIB, DaemonUnderTest, Wire
from .options import Options
from .table import Row, say

TOTAL_MIB, QUICK_MIB, MIB_A_SECOND = 200, 20, 5
TURNS_A_MIB = 25
"""Messages in a megabyte of a session; the rest is what tools returned."""
MAX_LAG_S, MAX_GROWTH_MIB = 2.0, 60
WORDS = "kettle ledger orchard harbour copper window ticket branch bakery lantern meadow signal".split()
WAIT_S = 60.0


def measure(options: Options) -> Iterator[Row]:
    """Write a session of 200 MB at 5 MB a second, and look for what is said in it once a second."""
    total = QUICK_MIB if options.quick else TOTAL_MIB
    say(f"following a session of {total} MiB")
    with DaemonUnderTest() as daemon:
        sessions = daemon.folder / "sessions"
        sessions.mkdir()
        daemon.call("watch", path=str(sessions))
        daemon.wait_until_embedded()
        before = daemon.rss_bytes()
        lags, peak, turns = _write(daemon, sessions / "s.jsonl", total)
        kept = _turns_kept(daemon, turns)
    growth = (peak - before) / MIB
    how = f"{total} MiB at {MIB_A_SECOND} MiB/s, {turns} messages; the daemon had {before / MIB:.0f} MiB"
    target = f"<= {MAX_LAG_S:g} s"
    yield Row("followed session: lag until found by words", f"{max(lags):.2f} s", target, max(lags) <= MAX_LAG_S, how)
    yield Row(
        "followed session: memory", f"+{growth:.0f} MiB", f"<= {MAX_GROWTH_MIB} MiB", growth <= MAX_GROWTH_MIB, how
    )
    yield Row("followed session: messages kept", f"{kept} of {turns}", "all", kept == turns, how)


def _write(daemon: DaemonUnderTest, path: Path, total_mib: int) -> tuple[list[float], int, int]:
    """Return the lag of each mark, the most memory that was seen, and how many messages were written."""
    rng = random.Random(7)
    wire = daemon.wire()
    lags, peak, turns = [], 0, 0
    began_s = time.monotonic()
    with path.open("ab") as file:
        for mib in range(total_mib):
            content, said = _mebibyte(rng, mib)
            file.write(content)
            file.flush()
            turns += said
            if mib % MIB_A_SECOND == 0:
                lags.append(_lag(wire, f"mark{mib:04}zq"))
            peak = max(peak, daemon.rss_bytes())
            time.sleep(max(0.0, began_s + (mib + 1) / MIB_A_SECOND - time.monotonic()))
    wire.close()
    return lags, max(peak, daemon.rss_bytes()), turns


def _lag(wire: Wire, mark: str) -> float:
    """Return the seconds until a word is found."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < WAIT_S:
        found = wire.call("recall", query=mark, channel="*", limit=3)["hits"]
        if any(mark in hit["text"] for hit in found):
            return time.monotonic() - began_s
        time.sleep(0.02)
    return WAIT_S


def _mebibyte(rng: random.Random, number: int) -> tuple[bytes, int]:
    """Return about a megabyte of a session, and its messages; the last one says the mark."""
    lines: list[bytes] = []
    output = " ".join(rng.choices(WORDS, k=MIB // TURNS_A_MIB // 8))
    for place in range(TURNS_A_MIB):
        mark = f" mark{number:04}zq" if place == TURNS_A_MIB - 1 else ""
        lines.append(_line(f"r{number}-{place}", [{"type": "tool_result", "tool_use_id": "x", "content": output}]))
        lines.append(_line(f"m{number}-{place}", " ".join(rng.choices(WORDS, k=30)) + mark))
    return b"".join(lines), TURNS_A_MIB


def _line(uuid: str, content: object) -> bytes:
    value = {
        "type": "user",
        "uuid": uuid,
        "sessionId": "fast",
        "cwd": "/nowhere/kettle",
        "timestamp": datetime.now(UTC).isoformat(),
        "message": {"role": "user", "content": content},
    }
    return json.dumps(value).encode() + b"\n"


def _turns_kept(daemon: DaemonUnderTest, turns: int) -> int:
    deadline = time.monotonic() + WAIT_S
    while (kept := int(daemon.call("status")["turns"])) < turns and time.monotonic() < deadline:
        time.sleep(0.1)
    return kept

"""The check after applying: the gate's probes, asked of the living store before a changeset is applied and after.

It undoes what the gate did not see: recall that is worse than it was, and worse than it became in the copy. The few of
all probes that are asked here would else undo what the gate weighed and let pass, one lost for one gained.

The only module of the gate that runs in the daemon's process; it sees the store through `Searchable` alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event

from ...store.ledger.questions import Probe
from ..protocol import Check
from .gate import worse
from .probes import ProbeCase, Score, Searchable, ask

LONGEST_S = 20.0
GLANCE_S = 0.05


class Recheck:
    """Asks the same probes twice, within LONGEST_S each time; while `is_busy` (requests are in flight) it waits."""

    def __init__(self, store: Searchable, checks: Sequence[Check], is_busy: Callable[[], bool]) -> None:
        self._store = store
        self._is_busy = is_busy
        known = [one for one in checks if one.gold]
        self._asked = [
            ProbeCase(Probe(one.text, one.channel, one.gold), one.words, one.synthetic, one.details) for one in known
        ]
        self._before = self._ask_all()
        self._foreseen = [
            Score(one.foreseen.recall, one.foreseen.coverage, one.foreseen.told) if one.foreseen else before
            for one, before in zip(known, self._before, strict=False)
        ]

    def reasons(self) -> list[str]:
        """Return in which ways recall is worse than the gate foresaw, [] if in none or if it is as when constructed."""
        now = self._ask_all()
        both = min(len(self._before), len(now))  # there may have been time for more of them before, or after
        return worse(self._before[:both], now[:both]) and worse(self._foreseen[:both], now[:both])

    def _ask_all(self) -> list[Score]:
        """Ask as many probes as there is time for."""
        until = time.monotonic() + LONGEST_S
        scores: list[Score] = []
        for case in self._asked:
            while self._is_busy() and time.monotonic() < until:
                Event().wait(GLANCE_S)
            if time.monotonic() >= until:
                break
            scores.append(ask(self._store, case))
        return scores

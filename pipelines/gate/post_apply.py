"""The check after applying: the gate's probes, asked of the real store before and after a changeset is applied.

A run is undone if recall is worse than before and also worse than in the copy. The second condition is needed since
only a few of the probes are asked here: those alone could show a loss that the gate saw balanced by a gain.

The only module of the gate that runs in the daemon's process; it sees the store through `Searchable` alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event

from ...store.ledger.questions import Probe
from ..messages import Check
from .gate import worse
from .probes import ProbeCase, Score, Searchable, ask

LONGEST_S = 20.0
GLANCE_S = 0.05


class Recheck:
    """Asks the same probes twice, within LONGEST_S each time; it waits while `is_busy` (requests are in flight)."""

    def __init__(self, store: Searchable, checks: Sequence[Check], is_busy: Callable[[], bool]) -> None:
        self._store = store
        self._is_busy = is_busy
        known = [one for one in checks if one.gold]
        self._asked = [
            ProbeCase(Probe(one.text, one.channel, one.gold), one.words, one.synthetic, one.details) for one in known
        ]
        self._before = self._ask_all()
        self._foreseen = [
            Score(one.foreseen.recall, one.foreseen.coverage, one.foreseen.details) if one.foreseen else before
            for one, before in zip(known, self._before, strict=False)
        ]

    def reasons(self) -> list[str]:
        """Return the reasons why recall is worse than at construction and than the gate foresaw, [] if it is not."""
        now = self._ask_all()
        both = min(len(self._before), len(now))  # the time limit may have cut either off
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

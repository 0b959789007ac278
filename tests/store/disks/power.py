"""A power supply for tests: it fails at a chosen operation, and from then on nothing reaches any disk."""

from __future__ import annotations

import random


class PowerCut(BaseException):
    """The lights are out. Not an Exception, so that nothing under test can survive it."""


class Power:
    """Counts the operations of the simulated disks that it feeds, and fails at the one chosen (0: never).

    `lying` names the layers whose sync does nothing: the mutation that a test of durability must find.
    """

    def __init__(self, rng: random.Random, fails_at: int = 0, lying: frozenset[str] = frozenset()) -> None:
        self.rng = rng
        self.fails_at = fails_at
        self.lying = lying
        self.operations = 0
        self.is_off = False
        self.is_aftermath = False  # handles may be closed now; nothing that they do counts

    def fails(self) -> bool:
        """Count an operation and tell whether the power fails during it; it may be done, in part or not at all."""
        if self.is_aftermath:
            return False
        if self.is_off:
            raise PowerCut
        self.operations += 1
        self.is_off = self.operations == self.fails_at
        return self.is_off

    def keeps(self) -> bool:
        """Toss whether something that was not synced is there all the same."""
        return self.rng.random() < 0.5

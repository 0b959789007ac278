"""Registry of the stages: their order, the dreams in which they run, and the switches that turn them off.

Settings read it, so no stage is imported before a dream runs. A cursor needs no entry: the number that a stage stores
under its name is what `View.cursor` returns in the next dream.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any


class Stage(StrEnum):
    """The switches in the settings; related steps share one."""

    CONSOLIDATE = "consolidate"
    DRIFT = "drift"
    SYNTHESIS = "synthesis"
    LINT = "lint"
    DECAY = "decay"


COMPACTION = frozenset({Stage.CONSOLIDATE, Stage.DRIFT})
"""The switches whose steps also run in a compaction: they read only new turns and facts."""


@dataclass(frozen=True, slots=True)
class DreamStep:
    """A function of a module of `stages`. Its actions, reports and cursors bear `name`."""

    switch: Stage
    module: str
    name: str
    weekly_only: bool = False
    function: str = "plan"

    def load(self) -> Any:
        """Import the module and return the function: `(view, now) -> workspace.proposals.Proposals`."""
        return getattr(import_module(f".stages.{self.module}", __package__), self.function)


# Facts come first, then what they change, then the pages made of them. Repairs and fading come last, because they
# concern whatever the steps before have left.
STEPS: tuple[DreamStep, ...] = (
    DreamStep(Stage.CONSOLIDATE, "consolidate", "consolidate"),
    DreamStep(Stage.DRIFT, "drift", "drift"),
    DreamStep(Stage.CONSOLIDATE, "scenarios", "scenarios"),
    DreamStep(Stage.CONSOLIDATE, "profiles", "profiles"),
    DreamStep(Stage.CONSOLIDATE, "know_how", "know_how"),
    DreamStep(Stage.CONSOLIDATE, "entities", "entities"),
    DreamStep(Stage.DRIFT, "staleness", "staleness"),
    DreamStep(Stage.DRIFT, "profiles", "refresh", function="refresh"),
    DreamStep(Stage.DRIFT, "file_lines", "file_lines"),
    DreamStep(Stage.SYNTHESIS, "synthesis", "synthesis", weekly_only=True),
    DreamStep(Stage.LINT, "lint", "lint"),
    DreamStep(Stage.DECAY, "decay", "decay"),
    DreamStep(Stage.DECAY, "profiles", "refresh after decay", function="refresh"),
)

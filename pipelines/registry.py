"""Registry of the stages: in which order they run, in which dreams, and what switches them off.

Settings read it, so no stage is imported before a dream runs. A cursor needs no entry: what a stage stores under its
name, `View.cursor` gives back at the next dream.
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
"""The switches whose steps run in a compaction, too: they read only what is new."""


@dataclass(frozen=True, slots=True)
class Step:
    """One module of `stages`, at its place in a dream. `name` is that of its actions, reports and cursors."""

    switch: Stage
    module: str
    name: str
    weekly_only: bool = False

    def plan(self) -> Any:
        """Import the module and return its `plan(view, now)`; it proposes changes (`workspace.proposals.Planned`)."""
        return import_module(f".stages.{self.module}", __package__).plan


# In this order: facts, what they change, the pages made of them; mending and fading come late.
STEPS: tuple[Step, ...] = (
    Step(Stage.CONSOLIDATE, "consolidate", "consolidate"),
    Step(Stage.DRIFT, "drift", "drift"),
    Step(Stage.CONSOLIDATE, "scenarios", "scenarios"),
    Step(Stage.CONSOLIDATE, "profiles", "profiles"),
    Step(Stage.DRIFT, "staleness", "staleness"),
    Step(Stage.DRIFT, "refresh", "refresh"),
    Step(Stage.SYNTHESIS, "synthesis", "synthesis", weekly_only=True),
    Step(Stage.LINT, "lint", "lint"),
    Step(Stage.DECAY, "decay", "decay"),
    Step(Stage.DECAY, "refresh", "refresh after decay"),
)

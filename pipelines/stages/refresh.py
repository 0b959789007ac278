"""Refresh: the pages whose evidence tonight's dream has changed are made anew the same night, from what still lives."""

from __future__ import annotations

from datetime import datetime

from ..workspace.proposals import Planned
from ..workspace.view import View
from . import profiles, scenarios

STAGE = "refresh"


def plan(view: View, now: datetime) -> Planned:
    """Propose again what scenarios and profiles would; where no fact has changed since, that is nothing."""
    planned = Planned()
    for again in (scenarios.plan(view, now), profiles.plan(view, now)):
        planned.actions += again.actions
        planned.cursors |= again.cursors
        for what, number in again.counts.items():
            planned.count(what, number)
    return planned

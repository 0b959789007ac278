"""Refresh: pages whose sources this run has changed are made anew in the same run, from living facts."""

from __future__ import annotations

from datetime import datetime

from ..workspace.proposals import Planned
from ..workspace.view import View
from . import profiles, scenarios

STAGE = "refresh"


def plan(view: View, now: datetime) -> Planned:
    """Run scenarios and profiles again; they propose nothing where no fact has changed since."""
    planned = Planned()
    for again in (scenarios.plan(view, now), profiles.plan(view, now)):
        planned.actions += again.actions
        planned.cursors |= again.cursors
        for what, number in again.counts.items():
            planned.count(what, number)
    return planned

"""Synthesis, once a week: what comes up again across the sessions of a channel.

Profiles are made anew in every run; synthesis is the work that must compare everything at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from ...store.ledger.questions import Gap
from ...store.model import ActionKind, Level
from ..workspace.proposals import Planned
from ..workspace.view import View
from . import insights

STAGE = "synthesis"
ALIKE = 0.7
"""Cosine from which two questions count as the same."""

MOST_GAPS = 300


def plan(view: View, now: datetime) -> Planned:
    """Propose insights for every channel whose facts have changed since they were last compared."""
    planned = Planned()
    if view.history.paused:
        return planned
    channels = {fact.channel for fact in view.memories(Level.FACT)} - view.history.channels_off
    for channel in view.steps.counted(sorted(channels), "channels"):
        fingerprint = view.fingerprint(Level.FACT, channel)
        if view.cursor(STAGE, channel) == fingerprint:
            continue
        planned.cursors[STAGE, channel] = fingerprint
        for action in insights.actions(view, channel, now, STAGE):
            planned.actions.append(action)
            planned.count("insights" if action.kind is ActionKind.CREATE else "insights changed")
    return planned


def recurring(view: View, gaps: Sequence[Gap]) -> list[tuple[str, int]]:
    """Merge similar gaps: return the latest wording and the number of times of each, the most frequent first."""
    some = sorted(gaps, key=lambda gap: gap.last_at, reverse=True)[:MOST_GAPS]
    if not some:
        return []
    vectors = view.vectors([gap.text for gap in some])
    heads: list[int] = []
    times: dict[int, int] = {}
    for row, gap in enumerate(some):
        cosines = vectors[heads] @ vectors[row] if heads else np.empty(0, np.float32)
        same = heads[int(cosines.argmax())] if len(heads) and float(cosines.max()) >= ALIKE else row
        if same == row:
            heads.append(row)
        times[same] = times.get(same, 0) + gap.times
    return sorted(((some[row].text, number) for row, number in times.items()), key=lambda gap: (-gap[1], gap[0]))

"""Synthesis, once a week: relations of scenarios, themes that recur in several, facts that are used together.

Profiles are made anew in every run; synthesis is the work that must compare everything at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from ...store.keep.ledger.questions import Gap
from ...store.model import ActionKind, Kind, Level, Memory
from ..workspace.proposals import Planned, cursor_of
from ..workspace.view import View
from . import insights, related

STAGE = "synthesis"
ALIKE = 0.7
"""Cosine from which two questions count as the same."""

MOST_GAPS = 300


def plan(view: View, now: datetime) -> Planned:
    """Propose relations and insights for every channel whose scenarios have changed since they were last compared."""
    planned = Planned()
    if view.history.paused:
        return planned
    for channel in sorted({scenario.channel for scenario in _scenarios(view)} - view.history.channels_off):
        scenarios = [scenario for scenario in _scenarios(view) if scenario.channel == channel]
        fingerprint = cursor_of(f"{scenario.node_id} {scenario.text}" for scenario in scenarios)
        if view.cursor(STAGE, channel) != fingerprint:
            planned.cursors[STAGE, channel] = fingerprint
            _compare(view, channel, scenarios, now, planned)
    _link_used_together(view, planned)
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


def _compare(view: View, channel: str, scenarios: Sequence[Memory], now: datetime, planned: Planned) -> None:
    facts = {fact.node_id: fact for fact in view.memories(Level.FACT, channel)}
    found = related.among(view, scenarios, facts)
    for action in related.actions(view, found, scenarios, STAGE):
        planned.actions.append(action)
        planned.count("scenarios related")
    for action in insights.actions(view, channel, scenarios, facts, now, STAGE):
        planned.actions.append(action)
        planned.count("insights" if action.kind is ActionKind.CREATE else "insights changed")


def _link_used_together(view: View, planned: Planned) -> None:
    facts = view.memories(Level.FACT)
    found = related.used_together(view.history.probes, facts)
    named = {node_id for relation in found for node_id in (relation.one, relation.other)}
    some = [fact for fact in facts if fact.node_id in named]
    for action in related.actions(view, found, some, STAGE):
        planned.actions.append(action)
        planned.count("facts linked")


def _scenarios(view: View) -> list[Memory]:
    return [page for page in view.memories(Level.SCENARIO) if page.kind is Kind.SCENARIO]

"""Insights: one page a channel of what comes up again in several sessions, in the words of its facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...store import okf
from ...store.model import Action, Kind, Level, Memory
from ...store.okf.memory_file import BY_HAND, body_hash
from ..pages import recurring
from ..pages.quotes import with_footnotes
from ..workspace.proposals import archive, brought_back, create, may_come_back, newest, replace_text
from ..workspace.view import View

TITLE = "What comes up again"
MOST_ARCHIVED = 8
"""Pages that a run puts away; the gate lets a run remove ten."""


def actions(view: View, channel: str, now: datetime, stage: str) -> Iterator[Action]:
    """Yield the actions that create, rewrite or archive a channel's insights."""
    facts = [fact for fact in view.whole(Level.FACT, channel) if fact.is_live]
    vectors = dict(zip((fact.node_id for fact in facts), view.vectors([fact.text for fact in facts]), strict=True))
    page = _page(view, channel, recurring.recurring(facts, vectors), facts, now)
    paths = {fact.node_id: fact.path for fact in facts}
    if page is not None:
        build = replace_text if view.holds(page.node_id) else create
        if action := build(view, page, stage, "it comes up in several sessions", paths):
            yield action
    insights = [one for one in view.memories(Level.SCENARIO, channel) if one.kind is Kind.INSIGHT]
    for known in [one for one in insights if page is None or one.node_id != page.node_id][:MOST_ARCHIVED]:
        if gone := archive(view, known, stage, "it comes up no more", now):
            yield gone


def _page(view: View, channel: str, groups: recurring.Groups, facts: Sequence[Memory], now: datetime) -> Memory | None:
    if not groups:
        return None
    text, ids = recurring.body(groups)
    text = with_footnotes(text, ids, facts)
    node_id = okf.fact_id(channel, f"insight {TITLE}")
    if view.holds(node_id) and (known := view.memory(node_id)):
        return brought_back(known, text, ids, view.run_id) if may_come_back(known) else known
    return Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.INSIGHT,
        title=TITLE,
        text=text,
        channel=channel,
        description="What was said or met more than once, newest first.",
        created_at=newest([fact.created_at for _, found in groups for group in found for fact in group]),
        provenance="extracted",
        sources=ids,
        run=view.run_id,
        path=okf.path_for(Level.SCENARIO, TITLE, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )

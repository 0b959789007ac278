"""Insights: themes that recur in several scenarios, in the words of their facts.

Nothing is invented: every line is a fact of a scenario, and every line cites the scenario that it is from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import log

from ...store.keep import okf
from ...store.model import Action, Kind, Level, Memory, NodeId
from ..language.nouns import nouns_of, stems_in
from ..pages import bullets
from ..workspace.proposals import BY_HAND, archive, body_hash, create, newest, replace_text
from ..workspace.view import View

LEAST_SCENARIOS = 3
LEAST_SESSIONS = 3
LARGEST_SHARE = 0.3
"""The largest share of a channel's scenarios: a theme of more of them is what the channel is about, and no insight."""

MOST_SCENARIOS = 12
MOST_INSIGHTS = 12
LINES_OF_A_SCENARIO = 4


@dataclass(frozen=True, slots=True)
class Theme:
    """A word that recurs in several scenarios, with the facts of each that hold it."""

    root: str
    word: str
    facts: Mapping[NodeId, Sequence[Memory]]

    @property
    def sessions(self) -> set[str]:
        """The sessions in which it occurs."""
        return {source.partition("#")[0] for held in self.facts.values() for fact in held for source in fact.sources}


def themes(scenarios: Sequence[Memory], facts: Mapping[NodeId, Memory]) -> list[Theme]:
    """Find the themes of a channel's scenarios, the most salient first; of themes with the same facts one."""
    facts_by_root: dict[str, dict[NodeId, list[Memory]]] = defaultdict(lambda: defaultdict(list))
    nouns = nouns_of(fact.text for fact in facts.values())
    for scenario in scenarios:
        for source in scenario.sources:
            for root in stems_in(facts[source].text, nouns) if source in facts else ():
                facts_by_root[root][scenario.node_id].append(facts[source])
    most = max(LEAST_SCENARIOS, int(LARGEST_SHARE * len(scenarios)))
    found = [
        Theme(root, nouns[root], held)
        for root, held in facts_by_root.items()
        if LEAST_SCENARIOS <= len(held) <= min(most, MOST_SCENARIOS)
    ]
    found = [theme for theme in found if len(theme.sessions) >= LEAST_SESSIONS]
    found.sort(key=lambda theme: (-len(theme.facts) * log(1 + len(scenarios) / len(theme.facts)), theme.root))
    return _distinct(found)[:MOST_INSIGHTS]


def actions(
    view: View, channel: str, scenarios: Sequence[Memory], facts: Mapping[NodeId, Memory], now: datetime, stage: str
) -> Iterator[Action]:
    """Yield the actions that create, rewrite or archive the pages of a channel's themes."""
    paths = {scenario.node_id: scenario.path for scenario in scenarios}
    by_id = {scenario.node_id: scenario for scenario in scenarios}
    wanted: set[NodeId] = set()
    for theme in themes(scenarios, facts):
        page = _page(view, channel, theme, by_id, now)
        wanted.add(page.node_id)
        if view.holds(page.node_id) and not view.is_live(page.node_id):
            continue
        if view.holds(page.node_id):
            action = replace_text(view, page, stage, "its scenarios have changed", paths)
        else:
            action = create(view, page, stage, f"{theme.word} comes up in {len(theme.facts)} scenarios", paths)
        if action:
            yield action
    for known in view.memories(Level.SCENARIO, channel):
        if known.kind is Kind.INSIGHT and known.node_id not in wanted and (gone := _archived(view, known, stage, now)):
            yield gone


def _archived(view: View, page: Memory, stage: str, now: datetime) -> Action | None:
    """Archive a page that has fewer than LEAST_SCENARIOS living sources."""
    living = [source for source in page.sources if view.is_live(source)]
    if len(living) >= LEAST_SCENARIOS:
        return None
    return archive(view, page, stage, "the scenarios that it rests on are gone", now)


def _distinct(themes: Sequence[Theme]) -> list[Theme]:
    """Return the themes of which at least half the facts are not in an earlier theme."""
    taken: set[NodeId] = set()
    kept = []
    for theme in themes:
        facts = {fact.node_id for held in theme.facts.values() for fact in held}
        if len(facts & taken) * 2 <= len(facts):
            taken |= facts
            kept.append(theme)
    return kept


def _page(view: View, channel: str, theme: Theme, scenarios: Mapping[NodeId, Memory], now: datetime) -> Memory:
    began = {
        node_id: min((fact.created_at.timestamp() for fact in held if fact.created_at), default=0.0)
        for node_id, held in theme.facts.items()
    }
    ordered = sorted(theme.facts, key=lambda node_id: (began[node_id], node_id))
    labels = okf.source_ids(ordered)
    lines: list[str] = []
    for node_id in ordered:
        lines += ["", f"## {scenarios[node_id].title}", ""] if lines else [f"## {scenarios[node_id].title}", ""]
        for fact in bullets.chronological(theme.facts[node_id])[:LINES_OF_A_SCENARIO]:
            lines.append(f"- {' '.join(fact.text.split())} [^{labels[node_id]}]")
    text = "\n".join(lines)
    facts = bullets.chronological([fact for held in theme.facts.values() for fact in held])
    node_id = okf.fact_id(channel, f"insight {theme.root}")
    sentence = f"{len(ordered)} scenarios, {bullets.by_day(facts[0])} to {bullets.by_day(facts[-1])}."
    title = f"{theme.word[:1].upper()}{theme.word[1:]} across {len(ordered)} scenarios"
    if view.holds(node_id) and (known := view.memory(node_id)):
        extra = dict(known.extra) | {BY_HAND: body_hash(text)}
        return replace(
            known, title=title, text=text, description=sentence, sources=tuple(ordered), run=view.run_id, extra=extra
        )
    return Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.INSIGHT,
        title=title,
        text=text,
        channel=channel,
        description=sentence,
        created_at=newest([fact.created_at for fact in facts]),
        provenance="extracted",
        sources=tuple(ordered),
        run=view.run_id,
        path=okf.path_for(Level.SCENARIO, theme.word, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )

"""Synthesis: tags of what facts name, and once a week relations and a page of what belongs together.

A group of the page is a pitfall, procedure, correction or wish with similar facts of several sessions. All facts must
be compared with each other, so it is not done in every run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from operator import itemgetter
from typing import Final

from ...store import okf
from ...store.changes.links import LinkEdits
from ...store.filters import fold_tag
from ...store.index.projection import ids_listed, related_to
from ...store.index.tombstones import pair_key
from ...store.ledger.work import START
from ...store.model import Action, ActionKind, Kind, Level, Memory, NodeId
from ...store.okf.entity_page import MOST_MENTIONS, entity_of, key_of
from ...store.okf.memory_file import BY_HAND, body_hash
from ...store.results import ToldText
from ..pages.current_facts import dated, labels_of, line, newest_first, place_of, with_footnotes
from ..settings import MOST_PAGES_ARCHIVED
from ..workspace.memo import Vectors
from ..workspace.proposals import Proposals, archive, create, is_curated, may_be_revived, newest, replace_text, revived
from ..workspace.view import View

STAGE = "synthesis"

TITLE = "What comes up again"

RECURS = (
    ("Refused", frozenset({Kind.NEGATIVE})),
    ("Procedures", frozenset({Kind.PROCEDURE})),
    ("Corrections and wishes", frozenset({Kind.CORRECTION, Kind.PREFERENCE})),
)

# Cosine from which two facts of one kind have the same subject; random facts of one project lie around .2.
SAME_MATTER = 0.6

FEWEST_SESSIONS, FEWEST_GROUPS, MOST_GROUPS, MOST_LINES = 2, 2, 8, 4

TAGS, INFERRED_TAGS = "tags", "inferred_tags"
"""The step that tags facts, and the key of the tags that it gave: one that a person takes away is not given again."""

MOST_TAGS: Final = 3
FEWEST_TAGGED: Final = 2
MOST_SHARE: Final = 0.5
"""The tags that a fact is given at most, the facts that a tag is for, and the share of a channel's facts that it may
have: what is on most of them parts none from the others."""

RELATIONS: Final = "relations"
TOGETHER: Final = 3
LEAST_OVERLAP: Final = 0.5
MOST_OF_ONE, MOST_PAIRS = 3, 30
"""Two facts are related that were told in one answer in so many sessions, in so large a share of those that had either,
and of which an agent used one: at most so many pairs of one fact, and in one dream."""

FIRST_WEIGHT, MORE_WEIGHT = 0.7, 0.1
"""The weight of a relation of TOGETHER sessions, and of each session more."""

USED: Final = frozenset({"used", "useful"})

MOST_LINES_TOLD: Final = 40

Groups = list[tuple[str, list[list[Memory]]]]


def plan(view: View, now: datetime) -> Proposals:
    """Propose insights for every channel whose facts have changed since they were last compared."""
    planned = Proposals()
    if view.history.paused:
        return planned
    channels = {fact.channel for fact in view.memories(Level.FACT)} - view.history.channels_off
    for channel in view.steps.counted(sorted(channels), "channels"):
        fingerprint = view.fingerprint(Level.FACT, channel)
        if view.cursor(STAGE, channel) == fingerprint:
            continue
        planned.cursors[STAGE, channel] = fingerprint
        for action in actions(view, channel, now, STAGE):
            planned.actions.append(action)
            planned.count("insights" if action.kind is ActionKind.CREATE else "insights changed")
    return planned


def tag(view: View, now: datetime) -> Proposals:
    """Propose as tags of each fact the people and things that it names and that have a page."""
    planned = Proposals()
    if view.history.paused:
        return planned
    edits = LinkEdits(view.read, TAGS)
    everything = view.memories(Level.FACT)
    spelt = Counter(tag for fact in everything for tag in fact.tags)
    spelling = {fold_tag(tag): tag for tag, _ in reversed(spelt.most_common())}
    for channel in sorted({fact.channel for fact in everything} - view.history.channels_off):
        facts = [fact for fact in everything if fact.channel == channel and _turn_of(fact)]
        named = _named_in(facts, _pages_by_name(view, channel))
        for fact in facts:
            wanted = [spelling.get(fold_tag(tag), tag) for tag in named.get(fact.node_id, ())]
            if not {*map(fold_tag, wanted)} <= {*map(fold_tag, fact.tags)}:
                _add_tags(view, edits, fact, wanted)
    planned.actions = edits.actions()
    if planned.actions:
        planned.count("facts tagged", len(planned.actions))
    return planned


def _turn_of(fact: Memory) -> NodeId | None:
    """Return the turn that a fact was drawn from."""
    return next((source for source in fact.sources[:1] if "#" in source), None)


def _pages_by_name(view: View, channel: str) -> dict[str, tuple[str, set[NodeId] | None]]:
    """Map each folded name that one page of a channel has to the page's tag and the turns that name it.

    None for the turns where the page lists the newest alone.
    """
    pages = [page for memory in view.whole(Level.PROFILE, channel) if memory.is_live and (page := entity_of(memory))]
    times = Counter(key for page in pages for key in page.keys)
    return {
        key: (key_of(page.name).replace(" ", "-"), None if len(page.mentions) >= MOST_MENTIONS else {*page.mentions})
        for page in pages
        for key in page.keys
        if times[key] == 1
    }


def _named_in(facts: Sequence[Memory], pages: Mapping[str, tuple[str, set[NodeId] | None]]) -> dict[NodeId, list[str]]:
    """Return the tags of the pages that each fact names, in its order, without those of few or of most facts."""
    by_first: dict[str, list[str]] = defaultdict(list)
    for name in pages:
        by_first[name.partition(" ")[0]].append(name)
    found: dict[NodeId, list[str]] = {}
    for fact in facts:
        words = key_of(fact.text)
        spaced = f" {words} "
        names = [name for word in dict.fromkeys(words.split()) for name in by_first.get(word, ())]
        near = [pages[name] for name in names if f" {name} " in spaced]
        turn = _turn_of(fact)
        found[fact.node_id] = list(dict.fromkeys(tag for tag, turns in near if turns is None or turn in turns))
    times = Counter(tag for tags in found.values() for tag in tags)
    most = max(MOST_SHARE * len(facts), FEWEST_TAGGED)
    tells = {tag for tag, number in times.items() if FEWEST_TAGGED <= number <= most}
    return {node_id: [tag for tag in tags if tag in tells][:MOST_TAGS] for node_id, tags in found.items()}


def _add_tags(view: View, edits: LinkEdits, fact: Memory, wanted: Sequence[str]) -> None:
    """Add tags to a fact that a dream wrote, but for those that it was given before, or that a person undid."""
    tombstone_key = f"{TAGS}:{fact.node_id}"
    whole = view.memory(fact.node_id)
    if whole is None or is_curated(whole) or view.is_forbidden(tombstone_key):
        return
    given = ids_listed(whole.extra.get(INFERRED_TAGS))
    known = {*map(fold_tag, (*given, *whole.tags))}
    if fresh := [tag for tag in wanted if fold_tag(tag) not in known]:
        changes = {TAGS: [*whole.tags, *fresh], INFERRED_TAGS: [*given, *fresh]}
        edits.edit(whole, changes, "it names what has a page", tombstone_key)


def relate(view: View, now: datetime) -> Proposals:
    """Propose relations between facts that answers of several sessions had together, and that were of use there."""
    planned = Proposals()
    if view.history.paused:
        return planned
    facts = {fact.node_id: fact for fact in view.memories(Level.FACT)}
    drawn = {turn: fact.node_id for fact in facts.values() if (turn := _turn_of(fact))}
    edits, of_one = LinkEdits(view.read, RELATIONS), Counter[NodeId]()
    for (one, other), sessions in _told_together(view.history.told, facts, drawn):
        if max(of_one[one], of_one[other]) >= MOST_OF_ONE or of_one.total() >= 2 * MOST_PAIRS:
            continue
        tombstone_key = f"{RELATIONS}:{pair_key(one, other)}"
        source, target = view.memory(one), view.memory(other)
        if source is None or target is None or view.is_forbidden(tombstone_key) or _are_parted(source, target):
            continue
        of_one.update((one, other))
        weight = round(min(1.0, FIRST_WEIGHT + MORE_WEIGHT * (sessions - TOGETHER)), 2)
        if related_to(target).get(one, -1.0) < weight:
            edits.relate(source, target, f"answers of {sessions} sessions had both", weight, tombstone_key)
    planned.actions = edits.actions()
    if planned.actions:
        planned.count("facts related", len(planned.actions))
    return planned


def _told_together(
    told: Sequence[ToldText], facts: Mapping[NodeId, Memory], drawn: Mapping[NodeId, NodeId]
) -> list[tuple[tuple[NodeId, NodeId], int]]:
    """Return the pairs of facts that belong together with their sessions' number, most first.

    What a session starts with answers no question, and is left out.
    """
    of_fact: dict[NodeId, set[NodeId]] = defaultdict(set)
    of_pair: dict[tuple[NodeId, NodeId], set[NodeId]] = defaultdict(set)
    used: set[tuple[NodeId, NodeId]] = set()
    for text in told:
        if text.moment == START or text.lost:
            continue
        lines = [(one.node_id, one.became in USED) for one in text.lines[:MOST_LINES_TOLD] if one.node_id]
        became = {drawn.get(name, name): was_used for name, was_used in sorted(lines, key=itemgetter(1))}
        names = sorted(name for name in became if name in facts)
        for name in names:
            of_fact[name].add(text.session_id)
        for pair in combinations(names, 2):
            of_pair[pair].add(text.session_id)
            if became[pair[0]] or became[pair[1]]:
                used.add(pair)
    found = [
        (pair, len(sessions))
        for pair, sessions in of_pair.items()
        if pair in used
        and len(sessions) >= TOGETHER
        and len(sessions) >= LEAST_OVERLAP * len(of_fact[pair[0]] | of_fact[pair[1]])
        and facts[pair[0]].channel == facts[pair[1]].channel
        and _turn_of(facts[pair[0]]) != _turn_of(facts[pair[1]])
    ]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def _are_parted(one: Memory, other: Memory) -> bool:
    """Return True if one of two memories says more of the other than that they are related."""
    return other.node_id in _named_by(one) or one.node_id in _named_by(other)


def _named_by(memory: Memory) -> set[NodeId | None]:
    return {*memory.supersedes, *memory.contradicts, *memory.later, memory.superseded_by}


def actions(view: View, channel: str, now: datetime, stage: str) -> Iterator[Action]:
    """Yield the actions that create, rewrite or archive a channel's insights."""
    facts = [fact for fact in view.whole(Level.FACT, channel) if fact.is_live]
    vectors = dict(zip((fact.node_id for fact in facts), view.vectors([fact.text for fact in facts]), strict=True))
    page = _page(view, channel, recurring_facts(facts, vectors), facts, now)
    paths = {fact.node_id: fact.path for fact in facts}
    if page is not None:
        build = replace_text if view.exists(page.node_id) else create
        if action := build(view, page, stage, "it comes up in several sessions", paths):
            yield action
    insights = [one for one in view.memories(Level.SCENARIO, channel) if one.kind is Kind.INSIGHT]
    for known in [one for one in insights if page is None or one.node_id != page.node_id][:MOST_PAGES_ARCHIVED]:
        if gone := archive(view, known, stage, "it comes up no more", now):
            yield gone


def _page(view: View, channel: str, groups: Groups, facts: Sequence[Memory], now: datetime) -> Memory | None:
    if not groups:
        return None
    text, ids = insight_body(groups)
    text = with_footnotes(text, ids, facts)
    node_id = okf.fact_id(channel, f"insight {TITLE}")
    if view.exists(node_id) and (known := view.memory(node_id)):
        return revived(known, text, ids, view.run_id) if may_be_revived(known) else known
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
        path=view.path_for(Level.SCENARIO, Kind.INSIGHT, TITLE, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )


def recurring_facts(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> Groups:
    """Return the groups of live facts that recur in several sessions, by heading; [] if they are too few for a page."""
    found: Groups = []
    for heading, kinds in RECURS:
        alike = _alike([fact for fact in newest_first(facts) if fact.is_live and fact.kind in kinds], vectors)
        groups = [group for group in alike if len(_sessions(group)) >= FEWEST_SESSIONS]
        groups.sort(key=lambda group: -len(_sessions(group)))
        found += [(heading, groups[:MOST_GROUPS])] if groups else []
    return found if sum(len(groups) for _, groups in found) >= FEWEST_GROUPS else []


def insight_body(parts: Groups) -> tuple[str, tuple[NodeId, ...]]:
    """Render each group as its newest fact, with the earlier ones below; return the text and the cited ids."""
    labels = labels_of([fact for _, groups in parts for group in groups for fact in group[:MOST_LINES]])
    lines: list[str] = []
    for heading, groups in parts:
        lines += [*([""] if lines else []), f"## {heading}", ""]
        for first, *rest in groups:
            lines.append(line(first, labels[first.node_id], dated))
            lines += [f"  {line(fact, labels[fact.node_id], dated)}" for fact in rest[: MOST_LINES - 1]]
    return "\n".join(lines), tuple(labels)


def _alike(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> list[list[Memory]]:
    """Put each fact to the first group whose newest fact it is like."""
    groups: list[list[Memory]] = []
    for fact in facts:
        near = (group for group in groups if float(vectors[group[0].node_id] @ vectors[fact.node_id]) >= SAME_MATTER)
        group = next(near, None)
        if group is None:
            groups.append([fact])
        else:
            group.append(fact)
    return groups


def _sessions(group: Sequence[Memory]) -> set[str]:
    """Return the sessions in which any fact of a group was stated or repeated."""
    own = {place_of(fact)[0] for fact in group}
    return own | {source.partition("#")[0] for fact in group for source in fact.sources if "#" in source}

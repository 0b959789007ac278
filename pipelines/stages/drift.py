"""Drift: newer facts that update or contradict older ones about the same thing.

An update supersedes the older fact, which stays a file and says until when it was true. A contradiction is kept, both
sides living, and waits for its person. Facts are compared only where they share rare words, so that the work grows
with what is alike and not with the square of the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log

from ...store.changes.decisions import is_reviewed, pair_key
from ...store.changes.link_edits import LinkEdits
from ...store.model import Level, Memory, NodeId
from ...store.text.comparison import Comparison, compare, denied_part
from ...store.text.statement import Statement, read
from ..workspace.proposals import Planned
from ..workspace.view import View

STAGE = "drift"
WHOLE_EVERY = timedelta(days=6, hours=12)
"""The interval of comparing the whole store, not only new facts: weekly, a little early rather than a day late."""

COMMON = 400
"""A word that more facts of a channel share than this is not compared by: it distinguishes nothing."""

COMPARED, CANDIDATES = 100, 10
"""The number of older facts that one fact is compared with, those that share most, and of those that it may change."""

NEAR = {Comparison.UPDATES: 0.4, Comparison.CONTRADICTS: 0.25}
"""Cosine below which two facts are about different things whatever they share; random ones lie around .2. A person
looks at what contradicts, and a denial is far from what it denies."""

MOST_DENIED, DENIED_WEIGHT = 5, 0.75
"""Of the older facts that one denial contradicts, the most that wait for a person, and their least share of the
likeliest one's weight."""


@dataclass(frozen=True, slots=True)
class _Found:
    """An older fact that a newer one updates or contradicts; `weight` ranks pairs of the same relation."""

    older: Memory
    newer: Memory
    relation: Comparison
    weight: float


def plan(view: View, now: datetime) -> Planned:
    """Propose supersessions and open questions for every channel in which something was learned."""
    planned = Planned()
    if view.history.paused:
        return planned
    for channel, facts in _by_channel(view).items():
        since = view.cursor(STAGE, channel)
        whole = now.timestamp() - since >= WHOLE_EVERY.total_seconds()
        fresh = {
            fact.node_id
            for fact in facts
            if whole or fact.run == view.run_id or (fact.created_at and fact.created_at.timestamp() > since)
        }
        if whole:
            planned.cursors[STAGE, channel] = int(now.timestamp())
        if fresh:
            _propose(view, planned, _near(view, _related(view, facts, fresh)))
    return planned


def _by_channel(view: View) -> dict[str, list[Memory]]:
    """Return the facts that people stated by channel, in the order in which they were said."""
    facts: dict[str, list[Memory]] = defaultdict(list)
    for fact in view.memories(Level.FACT):
        if fact.channel not in view.history.channels_off and fact.tags != ("assistant",):
            facts[fact.channel].append(fact)
    for channel in facts:
        facts[channel].sort(key=_said)
    return facts


def _said(fact: Memory) -> tuple[float, str, int, NodeId]:
    """Return the sort key of a fact: when it was said; within a session, the order of turns."""
    turn = fact.sources[0] if fact.sources else ""
    session, _, ordinal = turn.partition("#")
    at = fact.created_at.timestamp() if fact.created_at else 0.0
    return at, session, int(ordinal) if ordinal.isdigit() else 0, fact.node_id


def _related(view: View, facts: Sequence[Memory], fresh: set[NodeId]) -> list[_Found]:
    """Compare each fact with older ones, if one of the two is fresh."""
    # An inverted index, filled while the facts are read in the order in which they were said: `said` maps each stem to
    # the facts before this one that hold it. So a fact meets only older ones, and only those that share a rare stem.
    #
    # An example: 0 "The office is in Oslo", 1 "The kettle is blue", 2 "The office is in Bergen now". When 2 is read,
    # `said` has office -> [0], oslo -> [0], kettle -> [1], blue -> [1]; 2 shares "office" with 0 and nothing with 1, so
    # one pair of three is compared. A stem that more than COMMON facts hold has no rarity and makes no pair.
    statements = [read(fact.text) for fact in facts]
    spread = Counter(stem for statement in statements for stem in statement.stems)
    rarity = {stem: log(1 + len(facts) / count) for stem, count in spread.items() if count <= COMMON}
    said: dict[str, list[int]] = defaultdict(list)
    found: list[_Found] = []
    for place, statement in enumerate(view.steps.counted(statements, "facts compared")):
        if statement.values or statement.denied:
            alike = _alike(statement, said, rarity)
            pairs = ((facts[old], facts[place], weight) for old, weight in alike)
            found += _strongest(_judged(pair for pair in pairs if fresh & {pair[0].node_id, pair[1].node_id}))
        for stem in statement.stems & rarity.keys():
            said[stem].append(place)
    return found


def _alike(statement: Statement, said: dict[str, list[int]], rarity: dict[str, float]) -> list[tuple[int, float]]:
    """Return the older facts that share most, with the summed rarity of the shared stems."""
    shared: dict[int, float] = defaultdict(float)
    for stem in statement.stems:
        for old in said.get(stem, ()):
            shared[old] += rarity[stem]
    return sorted(shared.items(), key=lambda pair: (-pair[1], -pair[0]))[:COMPARED]


def _judged(pairs: Iterable[tuple[Memory, Memory, float]]) -> Iterator[_Found]:
    for older, newer, weight in pairs:
        if (
            _same_speaker(older, newer)
            and not _same_turn(older, newer)
            and (relation := compare(older.text, newer.text)) is not Comparison.NONE
        ):
            denied = denied_part(read(newer.text), read(older.text))
            yield _Found(older, newer, relation, denied or weight)


def _same_speaker(older: Memory, newer: Memory) -> bool:
    """Return True if one person said both; a user whose name is known in one session is "user" in another."""
    return older.tags == newer.tags or ("user",) in (older.tags, newer.tags)


def _same_turn(older: Memory, newer: Memory) -> bool:
    """Return True if one turn says both: nobody changes their mind within it."""
    return bool(older.sources) and older.sources[:1] == newer.sources[:1]


def _strongest(found: Iterable[_Found]) -> list[_Found]:
    """Keep the strongest updates of one fact, and the likeliest few of its contradictions."""
    ranked = sorted(found, key=lambda one: -one.weight)
    changes = [one for one in ranked if one.relation is Comparison.UPDATES]
    denials = [one for one in ranked if one.relation is Comparison.CONTRADICTS]
    likely = [one for one in denials[:MOST_DENIED] if one.weight >= DENIED_WEIGHT * denials[0].weight]
    return [*changes[:CANDIDATES], *likely]


def _near(view: View, found: Sequence[_Found]) -> list[_Found]:
    """Keep the pairs that are near in meaning too: words alone can be shared by chance."""
    texts = list(dict.fromkeys(fact.text for one in found for fact in (one.older, one.newer)))
    vectors = dict(zip(texts, view.vectors(texts), strict=True))
    return [one for one in found if float(vectors[one.older.text] @ vectors[one.newer.text]) >= NEAR[one.relation]]


def _propose(view: View, planned: Planned, found: Sequence[_Found]) -> None:
    """Turn the pairs into edits; a fact is superseded once, and a superseded one has no open questions."""
    edits = LinkEdits(view.read, STAGE)
    gone: set[NodeId] = set()
    for one in sorted(found, key=lambda one: (one.relation is not Comparison.UPDATES, -one.weight)):
        tombstone_key = pair_key(one.older.node_id, one.newer.node_id)
        if view.is_forbidden(tombstone_key) or {one.older.node_id, one.newer.node_id} & gone:
            continue
        older, newer = view.memory(one.older.node_id), view.memory(one.newer.node_id)
        if older is None or newer is None or newer.node_id in older.contradicts:
            continue
        if is_reviewed(older.extra) or is_reviewed(newer.extra):  # a person looked at it: the dream has no say
            continue
        if one.relation is Comparison.UPDATES:
            gone.add(older.node_id)
            planned.count("superseded")
            edits.supersede(older, newer, tombstone_key)
        else:
            planned.count("contradictions")
            edits.contradict(older, newer, tombstone_key)
    planned.actions += edits.actions()

"""Promotion, once a week: a wish of a person in several projects is proposed for all of them, in `_global`.

A rule that was said in two projects is proposed as it stands; one of a single project only after it was said again and
used. A rule that names a project, its files, its people or its values stays there, and one that another opposes.
The proposal waits for its person, and names the facts that it comes from. Two wishes are one in nearly the same words
alone: by their vectors, pairs that mean the same lie no nearer than pairs that do not (`tests/bench/promotion-2.json`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...store import okf
from ...store.channel import ALONE, WITHIN, channels_in_reach, of_one_project, user_part
from ...store.index.projection import ids_listed
from ...store.model import AWAITS_REVIEW, GLOBAL_CHANNEL, PROMOTED_FROM, Action, Kind, Level, Memory, NodeId, Status
from ...store.roles import Role
from ...store.text import acts
from ...store.text.judging import RELATED_FROM, EarlierStatement, Relation, judge, repeats
from ...store.text.languages import phrases
from ...store.text.quotes import read_reply
from ...store.text.statements import MANY_VALUED, Statement, read
from ...store.text.words import content_stems, normal_form
from ..extract.attributes import REPLY, STANDING, WORTH, is_worded_as_rule
from ..extract.facts import PUTS_RIGHT
from ..pages.briefing import is_rule, is_worth_a_line
from ..pages.current_facts import in_time
from ..settings import PromotionSettings
from ..workspace.memo import Vectors
from ..workspace.proposals import Proposals, create
from ..workspace.view import View

STAGE = "promotion"

# Rules that are compared, the newest, and those proposed in one week: a person reviews each.
MOST_COMPARED, MOST_PROPOSED, MOST_SOURCES = 2000, 8, 12

# A rule for all work is one or two sentences; a longer text is about one task.
LONGEST_RULE, SHORTEST_RULE = 240, 2

_RULES = frozenset({Kind.PREFERENCE, Kind.NEGATIVE, Kind.CORRECTION, Kind.PROCEDURE, Kind.DECISION})
_OPPOSES = frozenset({Relation.CONTRADICTS, Relation.UPDATES, Relation.LATER})

# A path, a name in code, a version, a port or a time of day, an address, a mark of something that was taken out.
_OF_CODE = re.compile(
    r"(?:^|\s)[~.]{0,2}/\w|\w/\w+/|`|\w_\w|[a-z][A-Z]|\(\)|::|\w@\w|https?:|\$\w|#\d|\[REDACTED|\d[.:]\d|\d{3,}|\d[a-z]|[a-z]\d"
)


@dataclass(frozen=True, slots=True)
class _Group:
    """Facts that say the same, the oldest first; `cosine` is the smallest to the first of them."""

    facts: tuple[Memory, ...]
    cosine: float = 1.0

    @property
    def projects(self) -> set[str]:
        """The projects that the facts are of: a part of a project is no other one."""
        return {min(of_one_project(fact.channel.partition(WITHIN)[0])) for fact in self.facts}

    @property
    def sessions(self) -> set[str]:
        return {source.partition("#")[0] for fact in self.facts for source in fact.sources}

    @property
    def told(self) -> Memory:
        """The fact that says most: the others grant it too, as "no emoji" grants "no emoji in commits"."""
        return max(self.facts, key=lambda fact: len(read(_words(fact)).content))

    @property
    def is_correction(self) -> bool:
        return all(fact.kind is Kind.CORRECTION or fact.extra.get(REPLY) in PUTS_RIGHT for fact in self.facts)


def plan(view: View, now: datetime) -> Proposals:
    """Propose rules that hold beyond their project, and take back those that wait and no longer hold."""
    planned = Proposals()
    settings = view.settings.promotion
    if view.history.paused or not settings.enabled:
        return planned
    planned.actions += _withdrawn(view, now)
    by_user: dict[tuple[str, object], list[Memory]] = defaultdict(list)
    said = _said_in_projects(view, settings)
    for fact in said:
        by_user[user_part(fact.channel), fact.extra.get("user_id")].append(fact)
    known = _promoted(view)
    for (part, _), facts in by_user.items():
        channel = f"{GLOBAL_CHANNEL}{WITHIN}{part}" if part else GLOBAL_CHANNEL
        rules = [fact for fact in facts if is_beyond_its_project(fact, _names_of(view, fact.channel))]
        for group in groups_of(rules[-MOST_COMPARED:], view, settings):
            if len(planned.actions) >= MOST_PROPOSED:
                return planned
            if known & {fact.node_id for fact in group.facts} or not _is_earned(group, view, settings):
                continue
            if not _is_opposed(group, facts, view) and (action := _proposal(view, group, channel, settings, now)):
                planned.actions.append(action)
                planned.count("proposed for all projects")
    return planned


def _said_in_projects(view: View, settings: PromotionSettings) -> list[Memory]:
    """Return the rules that their person said in projects from which something may be told elsewhere, the oldest first.

    Certain ones alone: a doubtful one is no rule, and opposes none.
    """
    private = view.history.channels_off.union(settings.private)
    listed = (
        fact
        for fact in view.memories(Level.FACT)
        if fact.kind in _RULES
        and not fact.channel.startswith((GLOBAL_CHANNEL, ALONE))
        and private.isdisjoint(channels_in_reach(fact.channel))
    )
    whole = (memory for fact in listed if (memory := view.memory(fact.node_id)) is not None)
    return in_time(
        [fact for fact in whole if fact.said_by in (Role.USER, None) and (fact.certainty or 0.0) >= settings.certainty]
    )


def is_beyond_its_project(fact: Memory, names: frozenset[str]) -> bool:
    """Check for a short standing rule that names nothing of its project. `names` are stems of the project's names."""
    words, reply_to = read_reply(fact.text)
    one = read(words)
    if (
        reply_to
        or "?" in words
        or fact.days
        or (fact.slot and fact.slot.attribute not in MANY_VALUED)
        or not (is_rule(fact, fact.kind) or is_worded_as_rule(words))
    ):
        return False
    if one.is_open or one.is_brief or one.is_undone or one.is_added or not len(one.content) >= SHORTEST_RULE:
        return False
    # A day, a month or a code is a value of the project's, a plain number ("five points at most") need not be.
    if any(value.sort != "number" for value in one.values):
        return False
    if len(words) > LONGEST_RULE or _OF_CODE.search(words) or acts.files_named(words):
        return False
    return not phrases("kind.here").search(words) and not names & set(content_stems(words))


def _names_of(view: View, channel: str) -> frozenset[str]:
    """Return the stems of the names of a project, and of the people and things that have a page in it."""
    pages = [page.title for page in view.memories(Level.PROFILE, channel) if page.kind is Kind.ENTITY]
    return frozenset(
        stem for name in (channel.partition(WITHIN)[0].rpartition("-")[0], *pages) for stem in content_stems(name)
    )


def groups_of(facts: Sequence[Memory], view: View, settings: PromotionSettings) -> list[_Group]:
    """Put each fact to the first group whose first fact says the same; `facts` are the oldest first."""
    if not facts:
        return []
    vectors = view.vectors([_words(fact) for fact in facts])
    heads: list[int] = []
    members: dict[int, list[int]] = {}
    for at, fact in enumerate(facts):
        near = _near_to(vectors, heads, at)
        like = (
            head
            for place, head in enumerate(heads)
            if near[place] >= settings.cosine and says_the_same(facts[head], fact, float(near[place]))
        )
        head = next(like, None)
        if head is None:
            heads.append(at)
            members[at] = [at]
        else:
            members[head].append(at)
    return [_Group(tuple(facts[at] for at in ats), _smallest(vectors, ats)) for ats in members.values()]


def _near_to(vectors: Vectors, heads: Sequence[int], at: int) -> Sequence[float]:
    """Return the cosines of some facts to another."""
    return [float(cosine) for cosine in vectors[heads] @ vectors[at]] if heads else []


def _smallest(vectors: Vectors, ats: Sequence[int]) -> float:
    return round(float((vectors[ats] @ vectors[ats[0]]).min()), 3)


def says_the_same(one: Memory, other: Memory, cosine: float) -> bool:
    """Check that two rules say the same in other words: equal names, numbers and denials, and neither adds a thing."""
    first, second = read(_words(one)), read(_words(other))
    if normal_form(_words(one)) == normal_form(_words(other)):
        return True
    if first.is_negated != second.is_negated or _values(first) != _values(second):
        return False
    return repeats(first, second, cosine) or repeats(second, first, cosine)


def _values(statement: Statement) -> set[tuple[str, str]]:
    return {(value.sort, value.said) for value in statement.values}


def _is_earned(group: _Group, view: View, settings: PromotionSettings) -> bool:
    """Check that a rule was said in two projects, or said again in one and used."""
    if len(group.projects) > 1:
        return True
    # Of one project only what is surely a rule, and of no named thing: the second project has not confirmed it.
    told = group.told
    if (
        told.kind in {Kind.DECISION, Kind.PROCEDURE}
        or not is_worth_a_line(told)
        or read(_words(told)).values
        or _is_named(told)
    ):
        return False
    if _is_always_corrected(group, settings):
        return True
    return len(group.sessions) >= settings.conversations and _uses(group, view) >= settings.uses


def _is_always_corrected(group: _Group, settings: PromotionSettings) -> bool:
    """Check for a rule that its person put right again and again: unused, it had to be said once more."""
    return group.is_correction and len(group.sessions) >= settings.corrections


def _is_named(fact: Memory) -> bool:
    words = _words(fact)
    return any(word[:1].isupper() for word in words.split()[1:])


def _uses(group: _Group, view: View) -> int:
    """Return how often the facts of a group, or the turns that they were said in, were shown."""
    names = {name for fact in group.facts for name in (fact.node_id, *fact.sources)}
    return sum(view.history.usage[name].shown for name in names if name in view.history.usage)


def _is_opposed(group: _Group, facts: Sequence[Memory], view: View) -> bool:
    """Check for a live rule of any project that says otherwise."""
    own = {fact.node_id for fact in group.facts}
    others = [fact for fact in facts if fact.node_id not in own]
    if not others:
        return False
    told = _words(group.told)
    near = view.vectors([_words(fact) for fact in others]) @ view.vectors([told])[0]
    return any(
        judged.relation in _OPPOSES
        for fact, cosine in zip(others, near, strict=True)
        if cosine >= RELATED_FROM
        for later, earlier in ((_words(fact), told), (told, _words(fact)))
        for judged in judge(later, [EarlierStatement(fact.node_id, earlier, float(cosine))])
    )


def _proposal(view: View, group: _Group, channel: str, settings: PromotionSettings, now: datetime) -> Action | None:
    told = group.told
    node_id = okf.fact_id(channel, told.text)
    if view.exists(node_id):
        return None
    # What was remembered has no turn: the fact itself is the evidence then.
    every = (told, *group.facts)
    sources = tuple(dict.fromkeys(name for fact in every for name in fact.sources or (fact.node_id,)))
    paths = {**view.session_paths(), **view.memory_paths()}
    memory = Memory(
        node_id=node_id,
        level=Level.FACT,
        kind=Kind.FACT if settings.review else told.kind,
        title=told.title,
        text=told.text,
        channel=channel,
        scope="global",
        created_at=told.created_at,
        tense=told.tense,
        certainty=min(fact.certainty or 0.0 for fact in group.facts),
        provenance="extracted",
        sources=sources[:MOST_SOURCES],
        said_by=told.said_by,
        about=told.about,
        run=view.run_id,
        path=view.path_for(Level.FACT, told.kind, told.title, node_id, channel),
        extra=_keys(view, group, settings, now),
    )
    return create(view, memory, STAGE, _because(group), paths)


def _keys(view: View, group: _Group, settings: PromotionSettings, now: datetime) -> Mapping[str, object]:
    """Return the keys of a proposal: the facts that it comes from, the values that decided, what it waits for."""
    told = group.told
    keys: dict[str, object] = {
        name: told.extra[name] for name in (WORTH, REPLY, STANDING, "user_id") if name in told.extra
    }
    keys["learned_at"] = now.isoformat()
    keys[PROMOTED_FROM] = [fact.node_id for fact in group.facts]
    keys["promotion"] = {
        "projects": len(group.projects),
        "conversations": len(group.sessions),
        "uses": _uses(group, view),
        "cosine": group.cosine,
    }
    if settings.review:
        always = {"always": 1} if _is_always_corrected(group, settings) else {}
        keys[AWAITS_REVIEW] = {"kind": told.kind.value, **always, "because": _because(group)}
    return keys


def _because(group: _Group) -> str:
    projects, sessions = len(group.projects), len(group.sessions)
    if projects > 1:
        return f"said in {projects} projects"
    if group.is_correction:
        return f"put right in {sessions} conversations"
    return f"said in {sessions} conversations, and used"


def _promoted(view: View) -> set[NodeId]:
    """Return the facts that were proposed before, whatever became of it."""
    proposed = (
        view.memory(memory.node_id) for memory in view.every(Level.FACT) if memory.channel.startswith(GLOBAL_CHANNEL)
    )
    return {name for memory in proposed if memory for name in ids_listed(memory.extra.get(PROMOTED_FROM))}


def _withdrawn(view: View, now: datetime) -> Iterator[Action]:
    """Yield the archiving of proposals that still wait and whose facts were all replaced or archived."""
    for waiting in view.waiting():
        memory = view.memory(waiting.node_id)
        names = ids_listed(memory.extra.get(PROMOTED_FROM)) if memory else ()
        data = view.read(waiting.path)
        if data is None or not names or any(view.is_live(name) for name in names):
            continue
        content = okf.edit(data, {"status": Status.DEPRECATED.value, "archived_at": now.isoformat()})
        reason = "what it came from holds no more"
        yield Action.replacing(waiting.path, waiting.node_id, data, content, stage=STAGE, reason=reason)


def _words(fact: Memory) -> str:
    return read_reply(fact.text)[0]

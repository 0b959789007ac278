"""Synthesis, once a week: one page a channel of facts that recur in several sessions, and one of the person's tools.

A group is a pitfall, procedure, correction or wish with similar facts. All facts must be compared with each other, and
all sessions of all projects read, so it is not done in every run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ...store import okf
from ...store.channel import ALONE, WITHIN, enclosing, user_part
from ...store.model import GLOBAL_CHANNEL, Action, ActionKind, Kind, Level, Memory, NodeId, Turn
from ...store.okf.memory_file import BY_HAND, body_hash
from ...store.text import acts
from ...store.text.dates import format_date
from ..extract.attributes import OBSERVED
from ..pages.current_facts import dated, labels_of, line, newest_first, place_of, with_footnotes
from ..settings import MOST_PAGES_ARCHIVED
from ..workspace.memo import Vectors
from ..workspace.proposals import Proposals, archive, create, may_be_revived, newest, replace_text, revived
from ..workspace.snapshot import SessionState
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
    for action in _of_persons(view, planned, now):
        planned.actions.append(action)
        planned.count("pages of a person's tools")
    return planned


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


# ---- what a person works with, by the files that were edited and the commands that worked

WORKED_WITH = "Worked with"

FEWEST_PROJECTS, FEWEST_TIMES, MOST_TOOLS = 2, 3, 12
"""Projects and sessions in which a language or a tool was used: less is of one project, or was tried once."""

LANGUAGES = {
    "c": "C",
    "cc": "C++",
    "cpp": "C++",
    "cs": "C#",
    "css": "CSS",
    "dart": "Dart",
    "ex": "Elixir",
    "exs": "Elixir",
    "go": "Go",
    "hs": "Haskell",
    "html": "HTML",
    "java": "Java",
    "js": "JavaScript",
    "jsx": "JavaScript",
    "kt": "Kotlin",
    "lua": "Lua",
    "mjs": "JavaScript",
    "php": "PHP",
    "py": "Python",
    "rb": "Ruby",
    "rs": "Rust",
    "scala": "Scala",
    "sh": "Shell",
    "sql": "SQL",
    "svelte": "Svelte",
    "swift": "Swift",
    "tex": "LaTeX",
    "tf": "Terraform",
    "ts": "TypeScript",
    "tsx": "TypeScript",
    "vue": "Vue",
    "zig": "Zig",
}
"""The language of a file's ending."""

_HASH = re.compile(r"-[0-9a-f]{6}\Z")
_TOOL = re.compile(r"[a-z][a-z0-9+-]{1,24}")
_OF_MANY = frozenset({"docker", "gh"})
"""Common programs of a shell that still are a tool that a person works with."""


@dataclass(slots=True)
class _Used:
    """The uses of one language or tool: its projects, its sessions, and the turns of the first and last use."""

    shown: str = ""
    projects: set[str] = field(default_factory=set)
    sessions: set[NodeId] = field(default_factory=set)
    turns: list[Turn] = field(default_factory=list)

    def note(self, project: str, turn: Turn, shown: str) -> None:
        """Count a use; `shown` stands in its turn."""
        self.projects.add(project)
        self.sessions.add(turn.session_id)
        at = turn.at is not None, turn.at
        if not self.turns or at >= (self.turns[-1].at is not None, self.turns[-1].at):
            self.shown = shown
            self.turns = [*self.turns[:1], turn]
        elif at < (self.turns[0].at is not None, self.turns[0].at):
            self.turns = [turn, *self.turns[-1:]]

    @property
    def is_usual(self) -> bool:
        """True for a language or tool of several projects."""
        return len(self.projects) >= FEWEST_PROJECTS and len(self.sessions) >= FEWEST_TIMES


def _of_persons(view: View, planned: Proposals, now: datetime) -> Iterator[Action]:
    """Yield the changes of each person's page, for whom a session of any project has grown."""
    sessions: dict[str, list[SessionState]] = defaultdict(list)
    settings = view.settings.promotion
    for session in view.sessions() if settings.enabled else ():
        is_private = not set(settings.private).isdisjoint(enclosing(session.channel))
        if not is_private and not session.channel.startswith((GLOBAL_CHANNEL, ALONE)):
            sessions[user_part(session.channel)].append(session)
    for part, own in sessions.items():
        channel = f"{GLOBAL_CHANNEL}{WITHIN}{part}" if part else GLOBAL_CHANNEL
        grown = sum(session.last_ordinal for session in own)
        if channel in view.history.channels_off or view.cursor(WORKED_WITH, channel) == grown:
            continue
        planned.cursors[WORKED_WITH, channel] = grown
        if action := _page_of_tools(view, channel, own, now):
            yield action


def _page_of_tools(view: View, channel: str, sessions: Sequence[SessionState], now: datetime) -> Action | None:
    node_id = okf.fact_id(channel, f"profile {WORKED_WITH}")
    known = view.memory(node_id) if view.exists(node_id) else None
    paths = {session.session_id: session.path for session in sessions}
    parts = _used_in(view, sessions)
    if not parts:
        return archive(view, known, STAGE, "nothing is used in several projects", now) if known else None
    text, ids = _lines_of_tools(parts, paths)
    if known is not None:
        page = revived(known, text, ids, view.run_id) if may_be_revived(known) else known
        return replace_text(view, page, STAGE, "it was used again", paths)
    page = Memory(
        node_id=node_id,
        level=Level.PROFILE,
        kind=Kind.PROFILE,
        title=WORKED_WITH,
        text=text,
        channel=channel,
        scope="global",
        description="Languages and tools that sessions of several projects used.",
        created_at=newest([one.turns[-1].at for _, used in parts for _, one in used]),
        provenance=OBSERVED,
        sources=ids,
        run=view.run_id,
        path=view.path_for(Level.PROFILE, Kind.PROFILE, WORKED_WITH, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )
    return create(view, page, STAGE, "it was used in several projects", paths)


def _used_in(view: View, sessions: Sequence[SessionState]) -> list[tuple[str, list[tuple[str, _Used]]]]:
    """Return the languages and the tools of several projects, those of most sessions first."""
    languages, tools = defaultdict[str, _Used](_Used), defaultdict[str, _Used](_Used)
    for session in sorted(sessions, key=lambda one: one.session_id):
        # Clones and worktrees of one name are one project: their number says nothing of a person.
        project = _HASH.sub("", session.channel.partition(WITHIN)[0])
        turns = {turn.ordinal: turn for turn in view.turns(session.session_id)}
        for act in acts.acts_in((turn.ordinal, turn.text) for turn in turns.values()):
            if act.is_edit:
                name = acts.file_key(act.words).rpartition("/")[2]
                if language := LANGUAGES.get(name.rpartition(".")[2].lower()):
                    languages[language].note(project, turns[act.at], name)
            elif act.tool == acts.SHELL and act.ended_at is not None and not act.failed:
                program = acts.command_key(act.words).partition(" ")[0]
                if _TOOL.fullmatch(program) and (acts.is_of_project(program) or program in _OF_MANY):
                    tools[program].note(project, turns[act.at], program)
    parts = []
    for heading, found in (("Languages", languages), ("Tools", tools)):
        usual = [(name, used) for name, used in found.items() if used.is_usual]
        usual.sort(key=lambda one: (-len(one[1].sessions), one[0]))
        parts += [(heading, usual[:MOST_TOOLS])] if usual else []
    return parts


def _lines_of_tools(
    parts: Sequence[tuple[str, Sequence[tuple[str, _Used]]]], paths: Mapping[NodeId, str]
) -> tuple[str, tuple[NodeId, ...]]:
    cited = {used.turns[-1].node_id: used.turns[-1] for _, found in parts for _, used in found}
    labels = okf.source_ids(cited)
    lines: list[str] = []
    for heading, found in parts:
        lines += [*([""] if lines else []), f"## {heading}", ""]
        for name, used in found:
            first, last = (format_date(turn.at.date()) if turn.at else "" for turn in (used.turns[0], used.turns[-1]))
            when = f", {first} to {last}" if first and first != last else f", {last}" if last else ""
            named = f"`{name}`" if name == used.shown else f"{name}, as in `{used.shown}`"
            number = f"{len(used.projects)} projects, {len(used.sessions)} sessions"
            lines.append(f"- {named}: {number}{when} [^{labels[used.turns[-1].node_id]}]")
    notes = (
        f"[^{label}]: [{name}](/{paths[cited[name].session_id].replace(' ', '%20')})" for name, label in labels.items()
    )
    return "\n".join([*lines, "", *notes]), tuple(cited)

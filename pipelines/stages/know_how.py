"""Know-how, as sessions show it: a channel's pages of commands and procedures, a person's of their tools and prompts.

A command is told that worked in several sessions; a procedure too, every step as it ran last, unless its person
corrected it; a language or a tool that was used in several projects; the languages and the length of prompts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from ...store import okf
from ...store.channel import ALONE, WITHIN, enclosing, user_part
from ...store.model import GLOBAL_CHANNEL, SKILL, SKILL_DRAFT, STRATEGY, Action, Kind, Level, Memory, NodeId, Turn
from ...store.okf.memory_file import BY_HAND, body_hash
from ...store.roles import Role
from ...store.text import acts
from ...store.text.dates import format_date
from ...store.text.languages import name_of
from ...store.text.sentences import first_sentences
from ...store.text.words import content_stems, plain_language
from ..extract.attributes import OBSERVED
from ..extract.contexts import Speaker, TurnContext, contexts_of, judged, own_words
from ..extract.facts import PUTS_RIGHT
from ..extract.procedures import ALIKE, Procedure, ProcedureRun, StepRun, procedures_of, step_runs
from ..workspace.proposals import Proposals, archive, create, is_edited, may_be_revived, newest, replace_text, revived
from ..workspace.snapshot import SessionState
from ..workspace.view import View

STAGE = "know_how"

TITLE = "Commands that work"

# A command of one session may have been of that session's work alone.
FEWEST_SESSIONS = 2
MOST_COMMANDS = 8

# Characters of a command on the page; a longer one is a script that was written once.
LONGEST_COMMAND = 100

# Sessions in which a procedure worked: with as many it has a page, and without a correction it may become a skill.
FEWEST_RUNS = 3
# With fewer, its requests must have words in common: two runs of the same steps for unlike reasons are chance.
SHARED_WORDS = 2
# The share of its requests that has a request's words, on average, where that names the procedure.
NAMES_IT = 1 / 3
# The share of its runs that its person did not correct.
RIGHT = 2 / 3

MOST_REQUESTS = 3
LONGEST_TITLE = 70

# The ends of a command that goes on where it is not shown.
_CUT = ("…", "\\")

# The key of the page's frontmatter that has the steps of the procedure.
STEPS = "steps"


@dataclass(slots=True)
class _Command:
    """The runs of one command: sessions in which it worked after an edit, and its forms with their last turns."""

    sessions: set[NodeId] = field(default_factory=set)
    forms: dict[str, list[Turn]] = field(default_factory=dict)

    def note(self, session: NodeId, form: str, turn: Turn) -> None:
        """Count a run that worked."""
        self.sessions.add(session)
        self.forms.setdefault(form, []).append(turn)

    @property
    def usual(self) -> str:
        """The form that worked most often, of equals the shortest."""
        return min(self.forms, key=lambda form: (-len(self.forms[form]), len(form), form))

    @property
    def last(self) -> Turn:
        """The turn of the last run in the usual form."""
        return max(self.forms[self.usual], key=lambda turn: (turn.at is not None, turn.at, turn.node_id))


def plan(view: View, now: datetime) -> Proposals:
    """Propose the pages of every channel in which a session has grown since the last dream, or a skill is offered.

    A skill that waits for its person is judged anew each time: the rules by which it was offered may have changed.
    """
    planned = Proposals()
    of_channel: dict[str, list[SessionState]] = {}
    for session in view.sessions():
        of_channel.setdefault(session.channel, []).append(session)
    for channel in view.steps.counted(sorted(of_channel), "channels"):
        sessions = sorted(of_channel[channel], key=lambda one: one.session_id)
        grown = sum(session.last_ordinal for session in sessions)
        offers = any(SKILL_DRAFT in page.tags for page in view.memories(Level.SCENARIO, channel))
        if view.cursor(STAGE, channel) == grown and not offers:
            continue
        planned.cursors[STAGE, channel] = grown
        turns = {session.session_id: view.turns(session.session_id) for session in sessions}
        paths = {session.session_id: session.path for session in sessions}
        if action := _change_of(view, _page_of_commands(view, channel, turns, paths, now), paths, now):
            planned.actions.append(action)
            planned.count("pages of commands")
        for action in _actions_of_procedures(view, channel, turns, paths, now):
            planned.actions.append(action)
            planned.count("pages of procedures")
    return planned


Turns = Mapping[NodeId, Sequence[Turn]]
Paths = Mapping[NodeId, str]


def _change_of(view: View, page: Memory, paths: Paths, now: datetime) -> Action | None:
    """Return the change by which a page that is made anew comes to be; one without a text is put away."""
    known = view.memory(page.node_id) if view.exists(page.node_id) else None
    if not page.text:
        return archive(view, known, STAGE, "too few sessions show it", now) if known and known.is_live else None
    if known is None:
        return create(view, page, STAGE, "several sessions show it", paths)
    renewed = revived(known, page.text, page.sources, view.run_id) if may_be_revived(known) else known
    return replace_text(view, renewed, STAGE, "later sessions show it again", paths)


def _page_of_commands(view: View, channel: str, turns: Turns, paths: Paths, now: datetime) -> Memory:
    """Return the page of the commands that worked, without a text where there is none."""
    commands = _worked(turns)
    text, ids = _body(commands, paths)
    node_id = okf.fact_id(channel, f"know-how {TITLE}")
    return Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.PROCEDURE,
        title=TITLE,
        text=text,
        channel=channel,
        description="Commands of this project that worked in several sessions, after edits.",
        created_at=newest([command.last.at for command in commands]),
        provenance=OBSERVED,
        sources=ids,
        run=view.run_id,
        path=view.path_for(Level.SCENARIO, Kind.PROCEDURE, TITLE, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )


def _worked(of_sessions: Turns) -> list[_Command]:
    """Return the commands that worked in several sessions after an edit, those of most sessions first."""
    found: dict[str, _Command] = {}
    for session_id, said in of_sessions.items():
        turns = {turn.ordinal: turn for turn in said}
        for act, form in _runs_after_edits(said):
            found.setdefault(acts.command_key(act.words), _Command()).note(session_id, form, turns[act.at])
    usual = [one for one in found.values() if len(one.sessions) >= FEWEST_SESSIONS]
    return sorted(usual, key=lambda one: (-len(one.sessions), one.usual))[:MOST_COMMANDS]


def _runs_after_edits(turns: Iterable[Turn]) -> Iterator[tuple[acts.Act, str]]:
    """Yield the commands of the project that worked after an edit, with the form in which they were run."""
    has_edited = False
    for act in acts.acts_in((turn.ordinal, turn.text) for turn in turns):
        has_edited |= act.is_edit
        if not has_edited or act.tool != acts.SHELL or act.ended_at is None or act.failed:
            continue
        form = acts.plain_command(act.words)
        if acts.is_of_project(acts.command_key(act.words)) and len(form) <= LONGEST_COMMAND and "`" not in form:
            yield act, form


def _body(commands: Sequence[_Command], paths: Mapping[NodeId, str]) -> tuple[str, tuple[NodeId, ...]]:
    ids = tuple(command.last.node_id for command in commands)
    labels = okf.source_ids(ids)
    lines, notes = [], []
    for command in commands:
        label, day = labels[command.last.node_id], _day_of(command.last)
        lines.append(f"- `{command.usual}`: worked in {len(command.sessions)} sessions, last on {day} [^{label}]")
        notes.append(f"[^{label}]: [{day}](/{paths[command.last.session_id].replace(' ', '%20')})")
    return "\n".join([*lines, "", *notes]), ids


def _day_of(turn: Turn) -> str:
    """Return the day of a turn."""
    return format_date(turn.at.date()) if turn.at else "an unknown day"


# ---- procedures


@dataclass(frozen=True, slots=True)
class _Told:
    """A procedure with the requests that its runs served, and those runs that its person did not correct."""

    procedure: Procedure
    requests: tuple[TurnContext, ...]
    right: tuple[ProcedureRun, ...]

    @property
    def is_told(self) -> bool:
        """True for one that its person may rely on."""
        if len(self.right) < RIGHT * len(self.procedure.runs):
            return False
        return len(self.right) >= FEWEST_RUNS or (len(self.right) > 1 and self._asked_alike() >= SHARED_WORDS)

    @property
    def may_be_skill(self) -> bool:
        """True for one that was never corrected, whose steps are known to have worked, the same in every session.

        A step with a file, a number or a message of one session is that session's alone, and wrong in the next; of one
        that is cut the rest may be.
        """
        is_right = len(self.right) == len(self.procedure.runs)
        worded = {tuple(map(_command_of, run.steps)) for run in self.right}
        is_whole = not any(command.endswith(_CUT) for commands in worded for command in commands)
        is_sure = sum(run.is_sure for run in self.right) >= FEWEST_RUNS
        return is_right and is_sure and is_whole and len(worded) == 1

    @property
    def last(self) -> ProcedureRun:
        """The newest run that may be quoted, if there is one of which all is known."""
        return next((run for run in reversed(self.right) if run.is_sure), self.right[-1])

    @property
    def title(self) -> str:
        """The request that names it; its steps, where none does."""
        named = self._naming()
        return named.rstrip(" .:,;") if named else _shortened(", ".join(self.procedure.keys), LONGEST_TITLE)

    @property
    def asked(self) -> list[TurnContext]:
        """The newest requests, each wording once, where they are of one kind; of many none says what it is for."""
        shown = {_asked(request): request for request in self.requests if _asked(request)} if self._naming() else {}
        return list(shown.values())[::-1][:MOST_REQUESTS]

    def _naming(self) -> str:
        """Return the request whose words most of the others have too, "" without one."""
        shared = Counter(stem for request in self.requests for stem in set(content_stems(_asked(request))))
        likeness = [
            (sum(shared[stem] for stem in stems) / len(stems) / len(self.requests), -len(words), words)
            for words in map(_asked, self.requests)
            if (stems := set(content_stems(words))) and len(words) <= LONGEST_TITLE
        ]
        best = max(likeness, default=(0.0, 0, ""))
        return best[2] if best[0] > NAMES_IT else ""

    def _asked_alike(self) -> int:
        stems = [set(content_stems(_asked(request))) for request in self.requests]
        return len(set.intersection(*stems)) if stems else 0


def _actions_of_procedures(view: View, channel: str, turns: Turns, paths: Paths, now: datetime) -> Iterator[Action]:
    """Yield the changes of the pages: of a procedure that grew its page goes on, of one that is no more it is put away.

    Sessions without a time come first, so that the newest are the last.
    """
    left = [
        page
        for memory in view.memories(Level.SCENARIO, channel)
        if STRATEGY in memory.tags and (page := view.memory(memory.node_id))
    ]
    order = sorted(turns, key=lambda name: (_began(turns[name]), name))
    for procedure in procedures_of({name: step_runs(turns[name]) for name in order}):
        told = _told_of(procedure, turns)
        if not told.is_told:
            continue
        known = next((page for page in left if _is_of(page, procedure)), None)
        if known is not None:
            left.remove(known)
        page = _page(view, channel, told, turns, paths, now)
        if known is None and view.exists(page.node_id):
            known = view.memory(page.node_id)
        if known is None:
            action = create(view, page, STAGE, "it worked in several sessions", paths)
        else:
            action = _rewritten(view, known, page, paths)
        if action is not None:
            yield action
    for page in left:
        if (action := archive(view, page, STAGE, "it is run no more", now)) is not None:
            yield action


def _rewritten(view: View, known: Memory, page: Memory, paths: Paths) -> Action | None:
    """Return the change of a known page to what it says now; None for one that a person put away."""
    if not may_be_revived(known):
        return None
    renewed = revived(known, page.text, page.sources, view.run_id)
    # Of a skill its person decides again only where the steps are others.
    skill = known.extra.get(SKILL)
    is_decided = skill is not None and (not skill or known.extra.get(STEPS) == page.extra[STEPS])
    draft = tuple(tag for tag in page.tags if tag == SKILL_DRAFT and not is_decided)
    tags = (*(tag for tag in known.tags if tag != SKILL_DRAFT), *draft)
    extra = dict(renewed.extra) | {STEPS: page.extra[STEPS]}
    renewed = replace(renewed, title=page.title, description=page.description, tags=tags, extra=extra)
    return replace_text(view, renewed, STAGE, "it was run again", paths) or _withdrawn(view, known, tags)


def _withdrawn(view: View, known: Memory, tags: Sequence[str]) -> Action | None:
    """Return the change by which a skill that nobody decided about is offered no more; None where it still is."""
    data = view.read(known.path)
    if data is None or SKILL_DRAFT not in known.tags or SKILL_DRAFT in tags or is_edited(data):
        return None
    content = okf.edit(data, {"tags": list(tags)})
    return Action.replacing(known.path, known.node_id, data, content, stage=STAGE, reason="it is no skill any more")


def _began(turns: Sequence[Turn]) -> str:
    return next((turn.at.isoformat() for turn in turns if turn.at), "")


def _is_of(page: Memory, procedure: Procedure) -> bool:
    listed = page.extra.get(STEPS)
    steps = set(listed) if isinstance(listed, list) else set()
    return len(steps & set(procedure.keys)) >= ALIKE * max(len(steps), len(procedure.keys))


def _told_of(procedure: Procedure, turns: Turns) -> _Told:
    requests, right = [], []
    for run in procedure.runs:
        contexts = contexts_of(turns[run.session_id])
        own = [context for context in contexts if context.speaker is Speaker.USER and context.text.strip()]
        if before := [context for context in own if context.turn.ordinal < run.steps[-1].at]:
            requests.append(before[-1])
        after = next((context for context in own if context.turn.ordinal > run.steps[-1].ended_at), None)
        if after is None or not _puts_right(contexts, after):
            right.append(run)
    return _Told(procedure, tuple(requests), tuple(right))


def _puts_right(contexts: Sequence[TurnContext], turn: TurnContext) -> bool:
    """Return True if a person's turn corrects or refuses what was done before it."""
    until = contexts[: contexts.index(turn) + 1]
    return any(judgement.reply in PUTS_RIGHT for judgement in judged(until, turn.turn.ordinal).values())


def _page(view: View, channel: str, told: _Told, turns: Turns, paths: Paths, now: datetime) -> Memory:
    procedure, last = told.procedure, told.last
    said = {turn.ordinal: turn for turn in turns[last.session_id]}
    steps = [said[step.at] for step in last.steps]
    asked = [request.turn for request in told.asked]
    cited = {turn.node_id: turn for turn in (*steps, *asked)}
    text = "\n".join(_lines_of(told, steps, asked, okf.source_ids(cited)))
    notes = (
        f"[^{label}]: [{_day_of(cited[name])}](/{paths[cited[name].session_id].replace(' ', '%20')})"
        for name, label in okf.source_ids(cited).items()
    )
    text = "\n".join([text, "", *notes])
    node_id = okf.fact_id(channel, f"know-how {' → '.join(procedure.keys)}")
    return Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.PROCEDURE,
        title=told.title,
        text=text,
        channel=channel,
        description=f"A procedure of {len(procedure.keys)} steps that worked in {len(told.right)} sessions.",
        tags=(STRATEGY, SKILL_DRAFT) if told.may_be_skill else (STRATEGY,),
        created_at=steps[-1].at,
        provenance=OBSERVED,
        sources=tuple(cited),
        run=view.run_id,
        path=view.path_for(Level.SCENARIO, Kind.PROCEDURE, told.title, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text), STEPS: list(procedure.keys)},
    )


def _lines_of(told: _Told, steps: Sequence[Turn], asked: Sequence[Turn], labels: Mapping[NodeId, str]) -> Iterator[str]:
    procedure, last = told.procedure, told.last
    words = {request.turn.node_id: _asked(request) for request in told.requests}
    if asked:
        yield f"Asked: {', '.join(f'“{words[turn.node_id]}” [^{labels[turn.node_id]}]' for turn in asked)}"
        yield ""
    for number, (step, turn) in enumerate(zip(last.steps, steps, strict=True), start=1):
        yield f"{number}. `{_command_of(step)}`{', exit 0' if step.is_sure else ''} [^{labels[turn.node_id]}]"
    corrected = len(procedure.runs) - len(told.right)
    yield ""
    yield (
        f"Worked in {len(told.right)} sessions, last on {_day_of(steps[-1])}"
        + (f"; its person put {corrected} more right." if corrected else ".")
    )
    if procedure.left_out:
        left_out = ", ".join(f"`{key}`" for key in procedure.left_out)
        yield f"Left out, since it failed in the last two sessions: {left_out}."
    failures = [sum(run.failures[place] for run in procedure.runs) for place in range(len(procedure.keys))]
    if any(failures):
        often = (f"`{key}` {count}×" for key, count in zip(procedure.keys, failures, strict=True) if count)
        yield f"Failed on the way: {', '.join(often)}."


def _asked(request: TurnContext) -> str:
    """Return the first sentences of a request, whole; "" where the first is too long to be shown."""
    words = first_sentences(request.text, LONGEST_COMMAND)
    return "" if words.endswith("…") else words


def _command_of(step: StepRun) -> str:
    return _shortened(acts.plain_command(step.command).replace("`", "'"), LONGEST_COMMAND)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


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


def worked_with(view: View, now: datetime) -> Proposals:
    """Propose the page of each person's languages and tools, where a session of any project has grown; once a week."""
    planned = Proposals()
    sessions: dict[str, list[SessionState]] = defaultdict(list)
    settings = view.settings.promotion
    for session in view.sessions() if settings.enabled and not view.history.paused else ():
        is_private = not set(settings.private).isdisjoint(enclosing(session.channel))
        if not is_private and not session.channel.startswith((GLOBAL_CHANNEL, ALONE)):
            sessions[user_part(session.channel)].append(session)
    for part, own in sessions.items():
        channel = f"{GLOBAL_CHANNEL}{WITHIN}{part}" if part else GLOBAL_CHANNEL
        grown = sum(session.last_ordinal for session in own)
        if channel in view.history.channels_off or view.cursor(WORKED_WITH, channel) == grown:
            continue
        planned.cursors[WORKED_WITH, channel] = grown
        paths = {session.session_id: session.path for session in own}
        for told in (_tools_of(view, own, paths), _style_of(view, own, paths)):
            if action := _change_of(view, _page_of_person(view, channel, told, now), paths, now):
                planned.actions.append(action)
                planned.count("pages of a person")
    return planned


class _OfPerson(NamedTuple):
    """A page of a person over all their projects; without a text where there is none. `cited` are turns by id."""

    title: str
    description: str
    text: str = ""
    cited: Mapping[NodeId, Turn] = {}


def _page_of_person(view: View, channel: str, told: _OfPerson, now: datetime) -> Memory:
    node_id = okf.fact_id(channel, f"profile {told.title}")
    return Memory(
        node_id=node_id,
        level=Level.PROFILE,
        kind=Kind.PROFILE,
        title=told.title,
        text=told.text,
        channel=channel,
        scope="global",
        description=told.description,
        created_at=newest([turn.at for turn in told.cited.values()]),
        provenance=OBSERVED,
        sources=tuple(told.cited),
        run=view.run_id,
        path=view.path_for(Level.PROFILE, Kind.PROFILE, told.title, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(told.text)},
    )


def _tools_of(view: View, sessions: Sequence[SessionState], paths: Paths) -> _OfPerson:
    """Return the languages and tools of a person's work."""
    parts = _used_in(view, sessions)
    cited = {used.turns[-1].node_id: used.turns[-1] for _, found in parts for _, used in found}
    description = "Languages and tools that sessions of several projects used."
    return _OfPerson(WORKED_WITH, description, _lines_of_tools(parts, cited, paths), cited)


def _project_of(session: SessionState) -> str:
    """Return the name of a session's project: clones and worktrees are one, their number says nothing of a person."""
    return _HASH.sub("", session.channel.partition(WITHIN)[0])


def _used_in(view: View, sessions: Sequence[SessionState]) -> list[tuple[str, list[tuple[str, _Used]]]]:
    """Return the languages and the tools of several projects, those of most sessions first."""
    languages, tools = defaultdict[str, _Used](_Used), defaultdict[str, _Used](_Used)
    for session in sorted(sessions, key=lambda one: one.session_id):
        project = _project_of(session)
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
    parts: Sequence[tuple[str, Sequence[tuple[str, _Used]]]], cited: Mapping[NodeId, Turn], paths: Paths
) -> str:
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
    return "\n".join([*lines, "", *_notes(cited, paths)])


def _notes(cited: Mapping[NodeId, Turn], paths: Paths) -> Iterator[str]:
    """Yield the footnotes of turns, each with a link to its session."""
    for name, label in okf.source_ids(cited).items():
        yield f"[^{label}]: [{name}](/{paths[cited[name].session_id].replace(' ', '%20')})"


# ---- how a person writes to agents

STYLE = "Style"

FEWEST_PROMPTS: Final = 50
"""The prompts of which something is told."""

_OF_PROGRAMS: Final = "/["
"""The beginnings of a command of a program ("/clear") and of its note ("[Request interrupted …]")."""

MOSTLY, ALSO = 0.35, 0.05
"""The shares of prompts that are plainly in a language from which it is told: of the commonest one, without which none
is, and of a further one. Of 22 invented people the commonest of ten is told, always rightly; of those who write a
language that has no file at most .24 of the prompts are plainly in one that has."""

FEWEST_SPOKEN: Final = 6
"""The words of a prompt by which its language may be known."""


def _style_of(view: View, sessions: Sequence[SessionState], paths: Paths) -> _OfPerson:
    """Return the languages and the length of a person's prompts over several projects, counted in their own words."""
    told = _OfPerson(STYLE, "The languages and the length of prompts in several projects, counted.")
    projects: set[str] = set()
    prompts: list[tuple[str, Turn]] = []
    for session in sessions:
        said = [(own_words(turn.text), turn) for turn in view.turns(session.session_id) if turn.role == Role.USER]
        if own := [(words, turn) for words, turn in said if words and words[0] not in _OF_PROGRAMS]:
            prompts += own
            projects.add(_project_of(session))
    if len(prompts) < FEWEST_PROMPTS or len(projects) < FEWEST_PROJECTS:
        return told
    lines = [line for line in (_languages_in(prompts), _lengths_of(prompts)) if line]
    cited = {turn.node_id: turn for _, turn in lines}
    labels = okf.source_ids(cited)
    text = "\n".join([*(f"- {words} [^{labels[turn.node_id]}]" for words, turn in lines), "", *_notes(cited, paths)])
    return told._replace(text=text, cited=cited)


def _languages_in(prompts: Sequence[tuple[str, Turn]]) -> tuple[str, Turn] | None:
    """Return a line on the languages of prompts, with one in the commonest; None where most are plainly in none."""
    long = [(plain_language(words), turn) for words, turn in prompts if len(words.split()) >= FEWEST_SPOKEN]
    spoken = Counter(language for language, _ in long if language).most_common()
    if not spoken or spoken[0][1] < MOSTLY * len(long):
        return None
    listed = [f"{number:,} are plainly in {name_of(language)}" for language, number in spoken[:1]]
    listed += [f"{number:,} in {name_of(code)}" for code, number in spoken[1:] if number >= ALSO * len(long)]
    shown = next(turn for language, turn in long if language == spoken[0][0])
    return f"Of {len(long):,} prompts of {FEWEST_SPOKEN} words or more {', '.join(listed)}", shown


def _lengths_of(prompts: Sequence[tuple[str, Turn]]) -> tuple[str, Turn]:
    """Return a line on the length of prompts, with one of the middle.

    It is told in characters, since not every language parts its words.
    """
    ordered = sorted(prompts, key=lambda one: (len(one[0]), one[1].node_id))
    (half, shown), (most, _) = ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]
    number = f"Of {len(ordered):,} prompts half have {len(half):,} characters or fewer"
    return f"{number}, nine in ten {len(most):,} or fewer", shown

"""Know-how: a page a channel of the commands that worked there, in several sessions and after edits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ...store import okf
from ...store.model import Action, Kind, Level, Memory, NodeId, Turn
from ...store.okf.memory_file import BY_HAND, body_hash
from ...store.text import acts
from ...store.text.dates import format_date
from ..workspace.proposals import Proposals, archive, create, may_be_revived, newest, replace_text, revived
from ..workspace.snapshot import SessionState
from ..workspace.view import View

STAGE = "know_how"

TITLE = "Commands that work"

# A command of one session may have been of that session's work alone.
FEWEST_SESSIONS = 2
MOST_COMMANDS = 8

# Characters of a command on the page; a longer one is a script that was written once.
LONGEST_COMMAND = 100


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
    """Propose the page of every channel in which a session has grown since the last dream."""
    planned = Proposals()
    of_channel: dict[str, list[SessionState]] = {}
    for session in view.sessions():
        of_channel.setdefault(session.channel, []).append(session)
    for channel in view.steps.counted(sorted(of_channel), "channels"):
        sessions = sorted(of_channel[channel], key=lambda one: one.session_id)
        grown = sum(session.last_ordinal for session in sessions)
        if view.cursor(STAGE, channel) == grown:
            continue
        planned.cursors[STAGE, channel] = grown
        if action := _action(view, channel, sessions, now):
            planned.actions.append(action)
            planned.count("pages of commands")
    return planned


def _action(view: View, channel: str, sessions: Sequence[SessionState], now: datetime) -> Action | None:
    paths = {session.session_id: session.path for session in sessions}
    node_id = okf.fact_id(channel, f"know-how {TITLE}")
    known = view.memory(node_id) if view.exists(node_id) else None
    commands = _worked(view, sessions)
    if not commands:
        return archive(view, known, STAGE, "none works in several sessions", now) if known and known.is_live else None
    text, ids = _body(commands, paths)
    if known is not None:
        page = revived(known, text, ids, view.run_id) if may_be_revived(known) else known
        return replace_text(view, page, STAGE, "they were run again", paths)
    page = Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.PROCEDURE,
        title=TITLE,
        text=text,
        channel=channel,
        description="Commands of this project that worked in several sessions, after edits.",
        created_at=newest([command.last.at for command in commands]),
        provenance="observed",
        sources=ids,
        run=view.run_id,
        path=okf.path_for(Level.SCENARIO, TITLE, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )
    return create(view, page, STAGE, "they worked in several sessions", paths)


def _worked(view: View, sessions: Sequence[SessionState]) -> list[_Command]:
    """Return the commands that worked in several sessions after an edit, those of most sessions first."""
    found: dict[str, _Command] = {}
    for session in sessions:
        turns = {turn.ordinal: turn for turn in view.turns(session.session_id)}
        for act, form in _runs_after_edits(turns.values()):
            turn = turns[act.at]
            found.setdefault(acts.command_key(act.words), _Command()).note(session.session_id, form, turn)
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

"""The briefing that a session starts with: as many lines on the state of a channel as its budget takes.

It is read from the facts of dreams and from those that the judges see in the sessions since, so that the second session
of a first day has one too. Statements in the program's own files of instructions are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ...ipc.channels import searched_channel
from ...store import estimate_tokens, fenced, redact, unmarked
from ...store.channel import channels_in_reach, user_part
from ...store.model import Kind, Level, NodeId
from ...store.roles import Role
from .instruction_files import InstructionFiles

if TYPE_CHECKING:
    from ...pipelines.pages.briefing import BriefLine, BriefPart
    from ...store import MemoryStore
    from ...store.results import ListedNode
    from .undreamt_sessions import UndreamtSessions


BRIEF_TOKENS = 500
LONGEST_LINE_TOKENS = 70
# Tokens in an estimate that a text has once, however many lines it is made of.
WHOLE_TEXT_TOKENS = 2
# Of each kind: a folder of notes, or what an assistant found, pushes no rule out. Of 150 real sessions one project had
# 53 decisions, the most of a kind that is told; all that are read are compared in pairs, some 15 µs each.
FACTS_READ = 60
# Of all channels: a person's role is told to one project and holds in the others. No line of theirs is shown.
PEOPLE_READ = 50
SESSIONS_READ, SESSIONS_PREPARED = 4, 24

# The commands of a line, each in backticks, and as many as an agent needs to check its work.
COMMANDS = "Commands that worked here"
MOST_COMMANDS = 5
_COMMAND = re.compile(r"^- (`[^`\n]+`)", re.MULTILINE)

OPENING = "Remembered of this project, quoted:"


@dataclass(frozen=True, slots=True)
class Start:
    """A session's start: its channel and its own id ("" for none), its program, and its folder.

    With `since` only later statements of other sessions are wanted. `given` are lines that the session has already.
    """

    channel: str
    session_id: NodeId = ""
    agent: str = ""
    folder: str = ""
    since: datetime | None = None
    given: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BriefSection:
    """A heading of a briefing, the lines under it, and the memory or turn of each; commands have none."""

    heading: str
    lines: tuple[str, ...]
    nodes: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Brief:
    """A briefing by its sections, and as the text that an agent gets, fenced; "" without any line."""

    text: str
    sections: tuple[BriefSection, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The lines of all sections."""
        return [line for section in self.sections for line in section.lines]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """The memories or turns of the first lines, in their order."""
        return tuple(node for section in self.sections for node in section.nodes)


class Briefs:
    """Builds briefings from the store. Any thread may call."""

    def __init__(self, store: MemoryStore, undreamt: UndreamtSessions, now: Callable[[], datetime]) -> None:
        self._store = store
        self._undreamt = undreamt
        self._now = now

    def brief(self, start: Start, budget_tokens: int = BRIEF_TOKENS) -> Brief:
        """Return the briefing for a start, of at most so many tokens."""
        today, last = self._now().date(), self._last_session(start)
        known = InstructionFiles.read(start.agent, Path(start.folder), Path.home()) if start.agent else None
        chosen: dict[str, list[tuple[str, NodeId]]] = {}
        commands = [line for line in self._commands(start.channel) if not any(line in one for one in start.given)]
        left = budget_tokens - estimate_tokens(fenced("\n".join((OPENING, COMMANDS, *commands))))
        parts = self._parts(start, today, last)
        named = [line.fact.node_id for part in parts for line in part.lines]
        changed = self._store.code.changed(named, start.folder)

        def is_needless(line: BriefLine, text: str, part: BriefPart) -> bool:
            is_said = any(text in before for before in start.given) or (known is not None and known.say(line.words))
            return is_said or line.fact.node_id in changed or (part.session is not None and _opens(line, last))

        for part in parts:
            heading = _heading(part, last, today)
            room = min(left, part.most_tokens or left) - estimate_tokens(heading)
            for line in part.lines:
                text = rendered(line, today, is_dated=part.session is None)
                cost = estimate_tokens(text) - WHOLE_TEXT_TOKENS
                longest = room if line.is_always else min(room, LONGEST_LINE_TOKENS)
                if cost > longest or not _is_wanted(line, start):
                    continue
                if is_needless(line, text, part):
                    continue
                left -= cost + (estimate_tokens(heading) if heading not in chosen else 0)
                room -= cost
                # A fact to be is none yet; the turn is there that it will be drawn from.
                node = line.fact.node_id if line.fact.run or not line.fact.sources else line.fact.sources[0]
                chosen.setdefault(heading, []).append((text, node))
        sections = [
            BriefSection(heading, tuple(text for text, _ in lines), tuple(node for _, node in lines))
            for heading, lines in chosen.items()
        ]
        sections += [BriefSection(COMMANDS, tuple(commands))] if commands else []
        laid_out = chain.from_iterable((f"{section.heading}:", *section.lines) for section in sections)
        return Brief(fenced("\n".join((OPENING, *laid_out))) if sections else "", tuple(sections))

    def _commands(self, channel: str) -> list[str]:
        """Return the commands that worked in several sessions, on one line, as the page of a dream has them."""
        from ...pipelines.stages.know_how import TITLE

        for listed in self._store.list(channel=channel, level=Level.SCENARIO, kind=Kind.PROCEDURE):
            if listed.live and listed.title == TITLE:
                commands = _COMMAND.findall(self._store.show(listed.node_id, wanted=False).text)
                return [f"- {', '.join(map(_shown, commands[:MOST_COMMANDS]))}"] if commands else []
        return []

    def prepare(self) -> None:
        """Build the briefings of the newest channels once, so that the first start waits for no loading."""
        newest = self._store.list(level=Level.SESSION, limit=SESSIONS_PREPARED)
        for channel in dict.fromkeys(one.channel for one in newest):
            self.brief(Start(channel))

    def of_channel(self, channel: str | None, cwd: str | None, user: str | None = None) -> tuple[str, Brief]:
        """Return a channel, by its name or else by a working directory, and the briefing of its sessions."""
        named = searched_channel(channel, cwd, self._store.channel_names_with, user=user)
        return named, self.brief(Start(named))

    def _parts(self, start: Start, today: date, last: ListedNode | None) -> list[BriefPart]:
        # Loaded at the first briefing, since the daemon's start is to be short.
        from ...pipelines.pages.briefing import parts_of

        channels = channels_in_reach(start.channel, start.session_id or None)
        facts = [
            fact
            for channel in channels
            for fact in (*self._store.facts_of_each_kind(channel, FACTS_READ), *self._undreamt.facts_of(channel))
        ]
        shared = ("", user_part(start.channel))  # a person whom another user knows is not this one's
        people = [
            fact
            for fact in self._store.facts(None, PEOPLE_READ, Kind.PERSON)
            if fact.channel not in channels and user_part(fact.channel) in shared
        ]
        return parts_of(facts, today, last.node_id if last else None, people)

    def _last_session(self, start: Start) -> ListedNode | None:
        """Return the newest session of the channel that is not the one which starts."""
        newest = self._store.list(channel=start.channel, level=Level.SESSION, limit=SESSIONS_READ)
        return next((one for one in newest if one.node_id != start.session_id), None)


def _is_wanted(line: BriefLine, start: Start) -> bool:
    """Check that a line is news to a session that goes on; every line is to one that begins."""
    if start.since is None:
        return True
    said_at = line.fact.created_at
    return said_at is not None and said_at > start.since and line.fact.session_id != start.session_id


def _heading(part: BriefPart, last: ListedNode | None, today: date) -> str:
    if part.session is None or last is None or last.created_at is None:
        return part.heading
    # A session without a title of its own has its first words, cut in the middle of a sentence.
    title = _shown(_whole_sentences(last.title))
    return f"{part.heading}, {_day(last.created_at.date(), today)}{f', “{title}”' if title else ''}"


def _opens(line: BriefLine, last: ListedNode | None) -> bool:
    """Check that a line repeats the title of the last session, which stands in the heading."""
    title = _whole_sentences(last.title) if last is not None else ""
    return bool(title) and " ".join(line.words.split()).startswith(title)


def _whole_sentences(title: str) -> str:
    """Return a title without the sentence that is cut at its end."""
    if not title.endswith("…"):
        return title
    return title[: max(title.rfind(mark) for mark in (". ", "! ", "? ")) + 1]


def rendered(line: BriefLine, today: date, *, is_dated: bool) -> str:
    """Return a line as it is handed over: its day, whose words they are where not the person's own, and the quote."""
    fact = line.fact
    said_on = _day(fact.created_at.date(), today) if fact.created_at else ""
    quote = f"“{_shown(line.words)}”"
    if line.steps_left_out:
        quote += ", in steps: `recall` has them"
    if line.reply_to:
        quote = f"“{_shown(line.reply_to)}” – {quote}"
    if line.is_open and line.day is None:
        quote = f"left open: {quote}"
    named = f", {_shown(fact.said_by)}" if fact.said_by not in (None, Role.USER) else ""
    if line.day is not None:
        return f"- {_day(line.day, today)}, {_days_left(line.day, today)}: {quote} (said {said_on}{named})"
    head = f"{said_on if is_dated else ''}{named}".removeprefix(", ")
    return f"- {head}: {quote}" if head else f"- {quote}"


def _shown(text: str | None) -> str:
    return unmarked(redact(text or "").text)


def _day(day: date, today: date) -> str:
    return f"{day:%-d %b}" if day.year == today.year else f"{day:%-d %b %Y}"


def _days_left(day: date, today: date) -> str:
    days = (day - today).days
    return "today" if not days else "tomorrow" if days == 1 else f"in {days} days"


MOST_THREADS = 3
# An older anchor of a session without an end is of another day's work, and is left to `anchor_recover`.
LOST_WITHIN = timedelta(days=1)

THREADS_OPENING = "Left open by earlier sessions:"
# The sources of a start at which an agent continues its session. Resumed, it has its context, and needs no anchor.
COMPACTED, RESUMED = "compact", "resume"


def open_work(store: MemoryStore, channel: str, session_id: str, source: str, now: datetime) -> str:
    """Return the anchor from which a session continues, and the open threads of its channel; "" without any."""
    if source in (COMPACTED, RESUMED):
        return store.anchor_of_session(session_id).text if source == COMPACTED else ""
    lost = store.lost_anchor(channel, session_id)
    anchor = lost.text if lost.anchor is not None and now - lost.anchor.set_at <= LOST_WITHIN else ""
    return "\n".join(filter(None, (anchor, _threads(store, channel))))


def _threads(store: MemoryStore, channel: str) -> str:
    lines = [
        f"- since {(goal.thread_since or goal.changed_at):%-d %B %Y}, {goal.state}: “{unmarked(goal.text)}”"
        for goal in store.threads(channel)[:MOST_THREADS]
    ]
    return fenced("\n".join((THREADS_OPENING, *lines))) if lines else ""

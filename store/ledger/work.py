"""Work under way: each session's anchor, goals and handed texts, and the statements that write them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from ..model import NodeId
from ..results import Anchor, Goal, ToldCounts, ToldLine, ToldText
from .records import Write, stored

ANCHORS: Final = (
    "SELECT session_id, channel, at, task, plan, decisions, next_step, ended_at, asked, edited, failing FROM anchor"
)
GOALS: Final = "SELECT goal_id, session_id, channel, text, state, parent, opened_at, at, thread_since FROM goal"

KEPT_DAYS: Final = 30
MOST_ANCHORS: Final = 500
MOST_CLOSED_GOALS: Final = 500
"""The bounds of anchors and closed goals, in days and in number."""

THREAD_DAYS: Final = 180
"""An open goal of an ended session is removed when it was not changed for this time; one of a running session stays."""


HANDED: Final = "SELECT key, at, tokens, prompts, lines FROM handed WHERE key = ?"
HANDED_KEPT: Final = timedelta(days=2)
"""After this time without a prompt a session counts as a new one."""

MOST_HANDED: Final = 256


TOLD: Final = "SELECT id, at, session_id, channel, agent, moment, tokens, answered, lost, lines FROM told"
TOLD_DAYS: Final = 30
MOST_TOLD: Final = 2000
"""The bounds of the texts that agents were handed, in days and in number."""

START, PROMPT = "start", "prompt"
"""The moments of a session's first text, and of those that answer its prompts."""


class Handed(NamedTuple):
    """The lines that a session was handed, their tokens, and how many prompts it had."""

    key: str
    at: datetime
    tokens: int
    prompts: int
    lines: tuple[str, ...]


class Work(NamedTuple):
    """An anchor or a goal as a purge sees it."""

    session_id: NodeId
    channel: str
    at: datetime
    text: str


def anchor_of_row(row: Sequence[Any]) -> Anchor:
    """Return the anchor of a row of ANCHORS."""
    session_id, channel, at, task, plan, decisions, next_step, ended_at, asked, edited, failing = row
    own = task, plan, tuple(json.loads(decisions)), next_step, _instant(ended_at)
    return Anchor(session_id, channel, datetime.fromisoformat(at), *own, asked, tuple(json.loads(edited)), failing)


def goal_of_row(row: Sequence[Any]) -> Goal:
    """Return the goal of a row of GOALS."""
    goal_id, session_id, channel, text, state, parent, opened_at, at, thread_since = row
    opened, changed = datetime.fromisoformat(opened_at), datetime.fromisoformat(at)
    return Goal(goal_id, session_id, channel, text, state, parent, opened, changed, _instant(thread_since))


def work_text(anchor: Anchor) -> str:
    """Return the text of an anchor."""
    return "\n".join((own_text(anchor), anchor.asked, *anchor.edited, anchor.failing))


def own_text(anchor: Anchor) -> str:
    """Return the text of an anchor that its agent wrote."""
    return "\n".join((anchor.task, anchor.plan, *anchor.decisions, anchor.next_step))


def set_anchor(anchor: Anchor) -> list[Write]:
    """Write a session's anchor in place of its last one, and remove anchors that are too old or too many."""
    row = (
        *(anchor.session_id, anchor.channel, stored(anchor.set_at), anchor.ended_at and stored(anchor.ended_at)),
        *(anchor.task, anchor.plan, json.dumps(anchor.decisions, ensure_ascii=False), anchor.next_step),
        *(anchor.asked, json.dumps(anchor.edited, ensure_ascii=False), anchor.failing),
    )
    return [
        Write("INSERT OR REPLACE INTO anchor VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row),
        Write("DELETE FROM anchor WHERE at < ?", (stored(anchor.set_at - timedelta(days=KEPT_DAYS)),)),
        Write(
            "DELETE FROM anchor WHERE session_id IN (SELECT session_id FROM anchor ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MOST_ANCHORS,),
        ),
    ]


def set_goal(goal: Goal) -> list[Write]:
    """Write a goal, and remove closed ones that are too old or too many, and threads that were not taken up."""
    row = (
        *(goal.goal_id, goal.session_id, goal.channel, goal.text, goal.state, goal.parent),
        *(stored(goal.opened_at), stored(goal.changed_at), goal.thread_since and stored(goal.thread_since)),
    )
    closed = "state IN ('completed', 'abandoned')"
    return [
        Write("INSERT OR REPLACE INTO goal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row),
        Write("DELETE FROM goal WHERE thread_since < ?", (stored(goal.changed_at - timedelta(days=THREAD_DAYS)),)),
        Write(f"DELETE FROM goal WHERE {closed} AND at < ?", (stored(goal.changed_at - timedelta(days=KEPT_DAYS)),)),
        Write(
            f"DELETE FROM goal WHERE goal_id IN (SELECT goal_id FROM goal WHERE {closed} ORDER BY at DESC"
            " LIMIT -1 OFFSET ?)",
            (MOST_CLOSED_GOALS,),
        ),
    ]


def handed_of_row(row: Sequence[Any]) -> Handed:
    """Return the handed lines of a row of HANDED."""
    key, at, tokens, prompts, lines = row
    return Handed(key, datetime.fromisoformat(at), tokens, prompts, tuple(json.loads(lines)))


def set_handed(handed: Handed) -> list[Write]:
    """Write the lines that a session was handed, and remove sessions that are too old or too many."""
    row = handed.key, stored(handed.at), handed.tokens, handed.prompts, json.dumps(handed.lines, ensure_ascii=False)
    return [
        Write("INSERT OR REPLACE INTO handed VALUES (?, ?, ?, ?, ?)", row),
        Write("DELETE FROM handed WHERE at < ?", (stored(handed.at - HANDED_KEPT),)),
        Write(
            "DELETE FROM handed WHERE key IN (SELECT key FROM handed ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MOST_HANDED,),
        ),
    ]


def forget_handed() -> Write:
    """Remove the handed lines of every session."""
    return Write("DELETE FROM handed", ())


def told_of_row(row: Sequence[Any]) -> ToldText:
    """Return the text of a row of TOLD."""
    told_id, at, session_id, channel, agent, moment, tokens, answered, lost, lines = row
    read = tuple(ToldLine(text, node_id, became) for text, node_id, became in json.loads(lines))
    about = datetime.fromisoformat(at), session_id, channel, agent, moment
    return ToldText(*about, tokens, bool(answered), lost, read, told_id)


def set_told(told: ToldText) -> list[Write]:
    """Write a text that an agent was handed, in place of its last record; remove those too old or too many."""
    lines = [(line.text, line.node_id, line.became) for line in told.lines]
    row = (
        *(told.told_id, stored(told.at), told.session_id, told.channel, told.agent, told.moment, told.tokens),
        *(int(told.answered), told.lost, json.dumps(lines, ensure_ascii=False)),
    )
    oldest = told.at - timedelta(days=TOLD_DAYS)
    return [
        Write("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row),
        Write("DELETE FROM told WHERE id < ?", (told_id_of(oldest),)),
        Write("DELETE FROM told WHERE id IN (SELECT id FROM told ORDER BY id DESC LIMIT -1 OFFSET ?)", (MOST_TOLD,)),
    ]


def told_id_of(at: datetime) -> int:
    """Return the least id of a text of this time."""
    return int(at.timestamp() * 1e6)


def erase_told(told_id: int) -> Write:
    """Remove a text that an agent was handed."""
    return Write("DELETE FROM told WHERE id = ?", (told_id,))


def told_counts(texts: Iterable[ToldText]) -> ToldCounts:
    """Count texts that were handed over, and moments whose text was lost."""
    texts = list(texts)
    told = [one for one in texts if one.lines and not one.lost]
    lost = [one.moment for one in texts if one.lost]
    by_moment: Counter[str] = Counter()
    for one in told:
        by_moment[one.moment] += one.tokens
    return ToldCounts(
        len(told),
        len({one.session_id for one in told}),
        sum(one.tokens for one in told),
        sum(any(line.became in ("used", "useful") for line in one.lines) for one in told),
        lost.count(START),
        lost.count(PROMPT),
        by_moment=by_moment,
    )


def end_session(session_id: NodeId, at: datetime) -> list[Write]:
    """Mark a session's anchor as that of one that is over, and its open goals as threads of its channel."""
    open_ = "state IN ('active', 'blocked') AND thread_since IS NULL"
    return [
        Write("UPDATE anchor SET ended_at = ? WHERE session_id = ?", (stored(at), session_id)),
        Write(f"UPDATE goal SET thread_since = ? WHERE session_id = ? AND {open_}", (stored(at), session_id)),
    ]


def erase_work(sessions: Iterable[NodeId], goals: Iterable[str]) -> list[Write]:
    """Remove the anchors of these sessions, and these goals."""
    return [
        *(Write("DELETE FROM anchor WHERE session_id = ?", (session_id,)) for session_id in sessions),
        *(Write("DELETE FROM goal WHERE goal_id = ?", (goal_id,)) for goal_id in goals),
    ]


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

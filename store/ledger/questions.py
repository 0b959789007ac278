"""Past questions: those with a useful memory are probes, those that found none are gaps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from ..model import NodeId
from .records import Write, stored

QUESTION_DAYS: Final = 30
MOST_QUESTIONS: Final = 2000

FILLED: Final = "filled"
"""The key, in the summary of a dream, of the questions in vain that it found an answer to, by number."""

LONGEST_QUESTION_CHARS: Final = 2000
"""A longer one is a document that was pasted: it asks for nothing in particular, and is not kept."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A past question and its gold, which it must go on finding: turns, or memories that cite none.

    `channel` is the one that was searched; None: the global one alone.
    """

    text: str
    channel: str | None
    gold: tuple[NodeId, ...]
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A question to which nothing was found that was near or of use, how often it was asked, and the memories shown."""

    text: str
    channel: str | None
    times: int
    last_at: datetime
    shown: tuple[NodeId, ...] = ()
    question_id: int = 0


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """A question with the memories shown for it, as one row."""

    SELECT: ClassVar[str] = (
        "SELECT text, channel, times, last_at, shown, near, gold, declined, id FROM question"
        " ORDER BY last_at DESC, id DESC"
    )

    text: str
    channel: str | None
    times: int
    last_at: datetime
    shown: tuple[NodeId, ...]
    near: bool
    gold: tuple[NodeId, ...]
    declined: bool
    question_id: int = 0

    @property
    def is_gap(self) -> bool:
        """True if no memory was useful, and those shown were not near or were rejected."""
        return not self.gold and (self.declined or not self.near)


def past_question_of_row(row: Sequence[Any]) -> PastQuestion:
    """Return the question of a row of `PastQuestion.SELECT`."""
    text, channel, times, last_at, shown, near, gold, declined, question_id = row
    return PastQuestion(
        text,
        channel or None,
        times,
        datetime.fromisoformat(last_at),
        tuple(json.loads(shown)),
        bool(near),
        tuple(json.loads(gold)),
        bool(declined),
        question_id,
    )


def record_question(text: str, channel: str | None, shown: Iterable[NodeId], near: bool, at: datetime) -> Write:
    """Keep a question, already redacted; asked again, it is counted, and its gold stays."""
    return Write(
        "INSERT INTO question (text, channel, last_at, shown, near) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (channel, text) DO UPDATE SET times = times + 1, last_at = excluded.last_at,"
        " shown = excluded.shown, near = excluded.near, declined = 0",
        (text, channel or "", stored(at), json.dumps(list(shown)), int(near)),
    )


def add_gold(text: str, channel: str | None, gold: Iterable[NodeId]) -> Write:
    """Add useful memories to the gold of a question."""
    return Write(
        "UPDATE question SET declined = 0, gold = (SELECT json_group_array(value) FROM"
        " (SELECT value FROM json_each(gold) UNION SELECT value FROM json_each(?))) WHERE text = ? AND channel = ?",
        (json.dumps(list(gold)), text, channel or ""),
    )


def drop_gold(text: str, channel: str | None, gold: Iterable[NodeId]) -> Write:
    """Remove useless memories from the gold of a question, and mark it as declined."""
    return Write(
        "UPDATE question SET declined = 1, gold = (SELECT json_group_array(value) FROM json_each(gold)"
        " WHERE value NOT IN (SELECT value FROM json_each(?))) WHERE text = ? AND channel = ?",
        (json.dumps(list(gold)), text, channel or ""),
    )


def prune_questions(now: datetime) -> list[Write]:
    """Remove questions older than 30 days, and the oldest beyond 2,000."""
    return [
        Write("DELETE FROM question WHERE last_at < ?", (stored(now - timedelta(days=QUESTION_DAYS)),)),
        Write(
            "DELETE FROM question WHERE id IN"
            " (SELECT id FROM question ORDER BY last_at DESC, id DESC LIMIT -1 OFFSET ?)",
            (MOST_QUESTIONS,),
        ),
    ]


def forget_questions() -> list[Write]:
    """Remove every question, also from feedback and from the history of nodes."""
    return [
        Write("DELETE FROM question", ()),
        Write("UPDATE feedback SET query = NULL WHERE query IS NOT NULL", ()),
        Write("UPDATE event SET detail = json_remove(detail, '$.asked') WHERE instr(detail, '\"asked\"') > 0", ()),
    ]

"""Turns gathered by session and handed on in batches, so that no file has to fit in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from ....store.model import NewTurn, NodeId, SessionHead
from ....store.roles import Role
from .items import SessionRead
from .sanitize import first_line

MAX_TURNS = 500
MAX_CHARS = 2**20

Titled = Callable[[SessionHead, tuple[NewTurn, ...]], SessionHead]
_TITLE_CHARS = 80


def by_first_words(head: SessionHead, turns: tuple[NewTurn, ...]) -> SessionHead:
    """Complete a head: its title, else the person's first words; its beginning, else the first turn's."""
    asked = next((turn.text for turn in turns if turn.role == Role.USER), turns[0].text)
    started_at = head.started_at or next((turn.at for turn in turns if turn.at), None)
    return replace(head, title=first_line(head.title or asked, _TITLE_CHARS), started_at=started_at)


class Batches:
    """The open sessions of one file.

    A session keeps the head of its first piece; `titled` may complete it then, when the first turns are known.
    """

    def __init__(self, titled: Titled = lambda head, turns: head) -> None:
        self._titled = titled
        self._heads: dict[NodeId, SessionHead] = {}
        self._begun: set[NodeId] = set()
        self._turns: dict[NodeId, list[NewTurn]] = {}
        self._left_out: Counter[NodeId] = Counter()
        self._chars = 0
        self._count = 0

    def knows(self, session_id: NodeId) -> bool:
        """Say whether the session has a head."""
        return session_id in self._heads

    def has_begun(self, session_id: NodeId) -> bool:
        """Say whether a piece of the session was handed on: its head is complete."""
        return session_id in self._begun

    def open(self, head: SessionHead) -> None:
        """Give a session its head."""
        self._heads[head.session_id] = head

    def add(self, session_id: NodeId, turn: NewTurn, contents_left_out: int = 0) -> Iterator[SessionRead]:
        """Take one turn; hands on everything gathered once that is enough."""
        self._left_out[session_id] += contents_left_out
        self._turns.setdefault(session_id, []).append(turn)
        self._chars += len(turn.text)
        self._count += 1
        if self._chars >= MAX_CHARS or self._count >= MAX_TURNS:
            yield from self.rest()

    def rest(self) -> Iterator[SessionRead]:
        """Hand on what is gathered."""
        gathered, self._turns, self._chars, self._count = self._turns, {}, 0, 0
        for session_id, turns in gathered.items():
            if session_id not in self._begun:
                self._begun.add(session_id)
                self._heads[session_id] = self._titled(self._heads[session_id], tuple(turns))
            yield SessionRead(self._heads[session_id], tuple(turns), self._left_out.pop(session_id, 0))

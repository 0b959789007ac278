"""Turns of a session: gathered in batches under its head, and identified by their place where a line has no id."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...store import session_id
from ...store.channel import channel_of_folder
from ...store.model import NewTurn, NodeId, SessionHead
from ...store.roles import Role
from .ignore_files import OpenCalls
from .items import NO_TURN, SessionRead, Skipped
from .sanitize import first_line, instant, tidy

if TYPE_CHECKING:
    from ...store import MemoryStore

MAX_TURNS = 500
MAX_CHARS = 2**20

Titled = Callable[[SessionHead, tuple[NewTurn, ...]], SessionHead]
_TITLE_CHARS = 80


def head_of_agent(
    agent: str, given: object, cwd: object, path: Path, started_at: datetime | None, title: str = ""
) -> SessionHead:
    """Return the head of an agent's session, named by its given id, else by its file.

    Its channel is that of its working directory, else of the file's folder.
    """
    folder = cwd if isinstance(cwd, str) and cwd else None
    return SessionHead(
        session_id=session_id(given if isinstance(given, str) and given else path.stem),
        channel=channel_of_folder(Path(folder) if folder else path.parent),
        title=title,
        started_at=started_at,
        agent_id=agent,
        cwd=folder,
    )


def by_first_words(head: SessionHead, turns: tuple[NewTurn, ...]) -> SessionHead:
    """Complete a head without a title by the person's first words, without a beginning by the first turn."""
    asked = next((turn.text for turn in turns if turn.role == Role.USER), turns[0].text)
    started_at = head.started_at or next((turn.at for turn in turns if turn.at), None)
    return replace(head, title=first_line(head.title or asked, _TITLE_CHARS), started_at=started_at)


class Batches:
    """The open sessions of one file, handed on in batches, so that no file has to fit in memory.

    A session keeps the head of its first piece, which `titled` completes once the first turns are known.
    """

    def __init__(self, titled: Titled = by_first_words) -> None:
        self._titled = titled
        self._heads: dict[NodeId, SessionHead] = {}
        self._begun: set[NodeId] = set()
        self._turns: dict[NodeId, list[NewTurn]] = {}
        self._left_out: Counter[NodeId] = Counter()
        self._chars = 0
        self._count = 0

    def knows(self, session: NodeId) -> bool:
        """Return True if the session has a head."""
        return session in self._heads

    def has_begun(self, session: NodeId) -> bool:
        """Return True if a piece of the session was handed on, which makes its head final."""
        return session in self._begun

    def open(self, head: SessionHead) -> None:
        """Set a session's head."""
        self._heads[head.session_id] = head

    def add(self, session: NodeId, turn: NewTurn, contents_left_out: int = 0) -> Iterator[SessionRead]:
        """Add a turn; yield the gathered pieces of all sessions once they are large enough."""
        self._left_out[session] += contents_left_out
        self._turns.setdefault(session, []).append(turn)
        self._chars += len(turn.text)
        self._count += 1
        if self._chars >= MAX_CHARS or self._count >= MAX_TURNS:
            yield from self.rest()

    def rest(self) -> Iterator[SessionRead]:
        """Yield the gathered pieces."""
        gathered, self._turns, self._chars, self._count = self._turns, {}, 0, 0
        for session, turns in gathered.items():
            if session not in self._begun:
                self._begun.add(session)
                # A head is completed once, with the first piece; later pieces must have the same head.
                self._heads[session] = self._titled(self._heads[session], tuple(turns))
            yield SessionRead(self._heads[session], tuple(turns), self._left_out.pop(session, 0))


def in_batches(head: SessionHead, turns: Iterable[NewTurn]) -> Iterator[SessionRead]:
    """Yield the pieces of one session whose turns are all known."""
    batches = Batches()
    batches.open(head)
    for turn in turns:
        yield from batches.add(head.session_id, turn)
    yield from batches.rest()


class Conversation:
    """The one session of a transcript while it is read: its head, its calls, its turns, and why there are none.

    The head is made of `given` (the session's id), `cwd`, `title` and `started_at` when the first turn comes. No turn
    is kept of a session that is left out as a whole, for the reason in `left_out`. Without a cwd its channel is that of
    `folder`.
    """

    def __init__(self, agent: str, path: Path) -> None:
        self.calls = OpenCalls()
        self.given: object = None
        self.cwd: object = None
        self.title = ""
        self.started_at: object = None
        self.left_out = ""
        self.folder = path.parent
        self._agent = agent
        self._path = path
        self._batches = Batches()
        self._session: NodeId | None = None
        self._has_parts = False

    def called(self, name: object, arguments: object, call_id: object, full_name: str = "") -> str:
        """Return the note of a call, "" without one."""
        if not isinstance(name, str):
            return ""
        return self.calls.called(name, arguments, call_id, self.cwd, full_name)

    def add(self, role: Role, text: str, at: object, external_id: str) -> Iterator[SessionRead]:
        """Add a turn, unless its text is empty; yield the gathered pieces once they are large enough."""
        text = tidy(text)
        if self.left_out or not text:
            return
        if self._session is None:
            named, started_at = self.folder / self._path.name, instant(self.started_at)
            head = head_of_agent(self._agent, self.given, self.cwd, named, started_at, tidy(self.title))
            self._session = head.session_id
            self._batches.open(head)
        turn = NewTurn(role.value, text, instant(at), external_id, self.calls.brought_foreign_words())
        yield from self._batches.add(self._session, turn, self.calls.notes.left_out())

    @property
    def has_turns(self) -> bool:
        """Return True if a turn was added."""
        return self._session is not None

    def unknown(self, number: int, reason: str) -> Skipped:
        """Return the part that says that a line is none of the program's."""
        self._has_parts = True
        return Skipped(self._path, number, reason)

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the pieces that are still gathered, or the reason why the transcript has no turn."""
        yield from self._batches.rest()
        if self.left_out:
            yield Skipped(self._path, None, self.left_out)
        elif self._session is None and not self._has_parts:
            yield Skipped(self._path, None, NO_TURN)


# ---- lines without ids
# A turn without an id is identified by its place, such as its line. A file may be rewritten, so that another text is at
# a known place: the new turn's id then gets a hash of its text, and both turns are kept.

_BY_PLACE = re.compile(r"line \d+(?:/result)?|.+-[0-9a-f]{6}:\d+")
_HASH_DIGITS = 6


def is_by_place(turns: Sequence[NewTurn]) -> bool:
    """Return True if a turn has no id but its place."""
    return any(_BY_PLACE.fullmatch(turn.external_id or "") for turn in turns)


def known_by_place(store: MemoryStore, session_id: NodeId) -> Mapping[str, str]:
    """Map the places of a session's turns to hashes of their texts, without turns that were erased."""
    return {
        node.external_id: text_hash(node.text)
        for node in store.turns_of(session_id)
        if node.external_id and not node.forgotten and _BY_PLACE.fullmatch(node.external_id)
    }


def renewed(store: MemoryStore, turns: Sequence[NewTurn], known: Mapping[str, str]) -> tuple[NewTurn, ...]:
    """Return the turns with the ids to keep them by; `known` is that of `known_by_place`."""
    return tuple(
        _renewed(turn, known.get(turn.external_id or ""), text_hash(store.as_kept(turn.text))) for turn in turns
    )


def _renewed(turn: NewTurn, known_hash: str | None, text_hash: str) -> NewTurn:
    if known_hash in (None, text_hash):
        return turn
    return replace(turn, external_id=f"{turn.external_id} {text_hash}")


def text_hash(text: str) -> str:
    """Return a short hash of a text's words, whatever stands between them."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:_HASH_DIGITS]

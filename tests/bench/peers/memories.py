"""What every side is given: the turns of a set's conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dreamd.store.model import NewTurn, SessionHead

from ..datasets import Dataset


@dataclass(frozen=True, slots=True)
class Turn:
    """One message; `at` is ISO 8601, or empty where the set has no date; `id` is the set's own."""

    id: str
    channel: str
    session: str
    speaker: str
    text: str
    at: str

    @property
    def said(self) -> str:
        """The text with its speaker before it: what a peer that has no field for the speaker is given."""
        return f"{self.speaker}: {self.text}"


def turns_of(data: Dataset) -> Iterator[Turn]:
    """Yield every turn of a set, conversation by conversation, in order."""
    for read in data.sessions():
        yield from _turns(read.head, read.turns)


def _turns(head: SessionHead, turns: Sequence[NewTurn]) -> Iterator[Turn]:
    for turn in turns:
        assert turn.external_id
        assert head.channel
        at = turn.at.isoformat() if turn.at else ""
        yield Turn(turn.external_id, head.channel, head.session_id, turn.role, turn.text, at)

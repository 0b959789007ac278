"""Rows: the labelled turns of all people as the sequences that the encoder is trained and measured on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dreamd.pipelines.extract.contexts import own_words
from dreamd.store.judges.judge import KINDS, REPLIES, Given, Span, of_turn

from tests.train.examples import Example, People


@dataclass(frozen=True, slots=True)
class Row:
    """A window of a turn with what a careful reader said of it. `turn` is the same for the windows of one turn.

    `good`: these words are worth keeping. `kind` and `reply` are -1 where nothing was said. `kept` says it of each
    token of the turn's own.
    """

    example: Example
    turn: int
    given: Given
    good: bool
    kind: int
    reply: int
    kept: tuple[bool, ...]

    @property
    def is_invented(self) -> bool:
        """Return True for a turn of an invented life; only those say which claims were refuted."""
        return self.example.person.isalpha()

    @property
    def weight(self) -> float:
        """Return how much it counts: half where its reader was not sure."""
        return 1.0 if self.example.sure else 0.5


def rows() -> list[Row]:
    """Return every window of every person's turns. Raises FileNotFoundError where the shared data is absent."""
    spoken = (example for example in People().examples() if example.role in ("user", "assistant"))
    return [row for turn, example in enumerate(spoken) for row in _of_turn(example, turn)]


def without_context(data: Sequence[Row]) -> list[Row]:
    """Return people's turns once more, with nothing before them: so is judged what a person asks to remember."""
    return [
        again
        for row in data
        if row.example.role == "user" and row.example.before and row.reply >= 0
        for again in _of_turn(replace(row.example, before=""), row.turn)
        if again.given.spans[:1] == row.given.spans[:1]
    ]


def _of_turn(example: Example, turn: int) -> Iterator[Row]:
    text = own_words(example.text)
    spans = list(_places_in(text, example))
    for number, given in enumerate(of_turn(example.role, text, example.before, example.after)):
        kept = tuple(any(start < e and end > s for s, e in spans) for start, end in given.spans)
        yield Row(
            example,
            turn,
            given,
            example.is_worth_keeping and (any(kept) if spans else number == 0),
            KINDS.index(example.keep) if example.keep in KINDS else -1,
            REPLIES.index(example.reply) if number == 0 and example.reply in REPLIES else -1,
            kept,
        )


def _places_in(text: str, example: Example) -> Iterator[Span]:
    """Yield where the words worth keeping stand in the speaker's own words."""
    for start, end in example.words:
        at = text.find(example.text[start:end].strip())
        if at >= 0:
            yield at, at + end - start

"""Steps: a numbered list of a text, told whole where it is short, else step by step, each with its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..sentences import Sentence, joined_as_one, start_of_item
from ..token_count import estimate_tokens

FEWEST_STEPS = 2
"""A number alone is no list: "2019. We moved." """


def with_steps(pieces: Sequence[Sentence], text: str, whole_tokens: int) -> Iterator[Sentence]:
    """Yield the pieces of a text, each list of up to `whole_tokens` as one, and the steps of a longer one numbered."""
    place = 0
    while place < len(pieces):
        end = _end_of_list(pieces, place)
        steps = [_numbered(piece, text) for piece in pieces[place:end]]
        count = sum(piece.step > 0 for piece in steps)
        if count < FEWEST_STEPS:
            yield pieces[place]
            place += 1
            continue
        whole = joined_as_one(steps, text)
        if estimate_tokens(whole.text) <= whole_tokens:
            yield replace(whole, shape=steps[0].shape, block=steps[0].block, step=0)
        else:
            yield from (replace(piece, steps=count if piece.step else 0) for piece in steps)
        place = end


def _end_of_list(pieces: Sequence[Sentence], place: int) -> int:
    """Return the place after the list that begins at one, with what stands between its steps; `place` for no list."""
    last, end = 0, place
    for number in range(place, len(pieces)):
        piece = pieces[number]
        if piece.shape in {"heading", "row"} or not (last or piece.step):
            break
        if piece.step:
            if last and piece.step != last + 1:
                break
            last, end = piece.step, number + 1
        elif end == number and piece.block == pieces[end - 1].block:
            end = number + 1
    return end


def _numbered(piece: Sentence, text: str) -> Sentence:
    """Return a step from its number on, as the text has it."""
    start = start_of_item(text, piece.start) if piece.step else piece.start
    return replace(piece, text=text[start : piece.end], start=start)

"""Steps: a numbered list of a text, told whole where it is short, else step by step, each with its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from ..sentences import Sentence, side_by_side, told
from ..token_count import estimate_tokens

FEWEST_STEPS = 2
"""A number alone is no list: "2019. We moved." """


def with_steps(pieces: Sequence[Sentence], whole_tokens: int) -> Iterator[Sentence]:
    """Yield the pieces of a text, each list of up to `whole_tokens` as one, and the steps of a longer one numbered."""
    place = 0
    while place < len(pieces):
        end = _end_of_list(pieces, place)
        steps = [_numbered(piece) for piece in pieces[place:end]]
        count = sum(piece.step > 0 for piece in steps)
        if count < FEWEST_STEPS:
            yield pieces[place]
            place += 1
            continue
        text = reduce(side_by_side, map(told, steps))
        if estimate_tokens(text) <= whole_tokens:
            yield replace(steps[0], text=text, end=steps[-1].end, step=0)
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


def _numbered(piece: Sentence) -> Sentence:
    return replace(piece, text=f"{piece.step}. {piece.text}") if piece.step else piece

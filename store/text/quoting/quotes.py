"""Quotes: sentences of one text side by side, with a mark where some between them are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ..languages import phrases
from ..sentences import GAP, Sentence, side_by_side

MOST_LEADING = 3
"""Sentences that are told before one for its sake, at most."""


def leans(text: str) -> bool:
    """Check for a sentence that opens with what was named before it: "so …", "he …", "es …"."""
    return bool(phrases("speech.leaning").match(text) or phrases("speech.pointing").match(text))


def leading(pieces: Sequence[Sentence], place: int) -> dict[int, str]:
    """Return the sentences right before one, by place, up to the first that leans on none; none if it leans on none."""
    first = place
    while first > max(0, place - MOST_LEADING) and leans(pieces[first].text):
        first -= 1
    return {before: pieces[before].text for before in range(first, place)}


def quote(texts: Mapping[int, str], pieces: Sequence[Sentence], source: str) -> str:
    """Return texts by their place among the sentences of a source as one; of a list told in part how much it is.

    What is none of the sentences, as a fact, lies where the first stands that it holds or is part of.
    """
    spans = sorted((_span(place, text, pieces), text) for place, text in texts.items())
    shares = _shares({place for span, _ in spans for place in range(span[0], span[1] + 1)}, pieces)
    said, last, before = "", -1, ""
    for (first, end), text in spans:
        if said:
            follows = first == last + 1 and _goes_on(before, text, pieces, first)
            between = source[pieces[last].end : pieces[first].start] if follows else None
            said = f"{said} {GAP} {text}" if between is None else side_by_side(said, between, text)
        else:
            said = text
        last, before = max(last, end), text
        said += shares.get(end, "")
    return said


def _goes_on(before: str, text: str, pieces: Sequence[Sentence], first: int) -> bool:
    """Check that two texts are neighbours: one ends with the sentence right before the one that the other opens with.

    Rows are not: each is told behind its head.
    """
    if not 0 < first < len(pieces):
        return False
    one, other = pieces[first - 1], pieces[first]
    return "row" not in {one.shape, other.shape} and before.endswith(one.text) and text.startswith(other.text)


def _shares(told: AbstractSet[int], pieces: Sequence[Sentence]) -> dict[int, str]:
    """Return how much is told of each list that is told in part, by the place of the last step that is."""
    lists: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if piece.steps:
            goes_on = lists and piece.step == pieces[lists[-1][-1]].step + 1
            lists[-1:] = [[*lists[-1], place]] if goes_on else [*lists[-1:], [place]]
    parts = [(sorted(told & {*steps}), len(steps)) for steps in lists]
    return {part[-1]: f" ({len(part)} of {count} steps)" for part, count in parts if 0 < len(part) < count}


def _span(place: int, text: str, pieces: Sequence[Sentence]) -> tuple[int, int]:
    """Return the places of the first and the last sentence that a text holds, or is part of."""
    if 0 <= place < len(pieces) and pieces[place].text == text:
        return place, place
    held = [number for number, piece in enumerate(pieces) if piece.text in text or text in piece.text]
    return (held[0], held[-1]) if held else (place, place)

"""Quotes: the forms in which a text is shown: its sentences in order, steps of lists, replies, titles.

A mark (`GAP`) replaces omitted sentences. A reply is a fact below a quotation of the text that it answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ..limits import FEWEST_WORDS
from .languages import phrases
from .sentences import GAP, Sentence, joined_as_one, side_by_side, start_of_item
from .token_count import estimate_tokens

MOST_LEADING = 3
"""The most sentences that are shown before one so that it can be understood."""


def leans(text: str) -> bool:
    """Return True for a sentence that opens with a reference to the one before: "so …", "he …", "es …"."""
    return bool(phrases("speech.leaning").match(text) or phrases("speech.pointing").match(text))


def leading(pieces: Sequence[Sentence], place: int) -> dict[int, str]:
    """Return the sentences right before one, by place, up to the first that leans on none; none if it leans on none."""
    first = place
    # Each of them may refer to the one before it in turn.
    while first > max(0, place - MOST_LEADING) and leans(pieces[first].text):
        first -= 1
    return {before: pieces[before].text for before in range(first, place)}


def quote(texts: Mapping[int, str], pieces: Sequence[Sentence], source: str) -> str:
    """Join texts by their place among the sentences of a source; of a list in part, say which part it is.

    A text that is none of the sentences, as a fact, has the place of the first that it contains or is part of.
    """
    # In the order of the source, however they were ranked.
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
    """Return True for neighbours: one ends with the sentence right before the one that opens the other.

    Rows are none: each is shown behind its head.
    """
    if not 0 < first < len(pieces):
        return False
    one, other = pieces[first - 1], pieces[first]
    return "row" not in {one.shape, other.shape} and before.endswith(one.text) and text.startswith(other.text)


def _shares(shown: AbstractSet[int], pieces: Sequence[Sentence]) -> dict[int, str]:
    """Return the part ("2 of 5 steps") of each list that is shown in part, by the place of its last shown step."""
    lists: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if piece.steps:
            goes_on = lists and piece.step == pieces[lists[-1][-1]].step + 1
            lists[-1:] = [[*lists[-1], place]] if goes_on else [*lists[-1:], [place]]
    parts = [(sorted(shown & {*steps}), len(steps)) for steps in lists]
    return {part[-1]: f" ({len(part)} of {count} steps)" for part, count in parts if 0 < len(part) < count}


def _span(place: int, text: str, pieces: Sequence[Sentence]) -> tuple[int, int]:
    """Return the places of the first and the last sentence that a text contains, or is part of."""
    if 0 <= place < len(pieces) and pieces[place].text == text:
        return place, place
    held = [number for number, piece in enumerate(pieces) if piece.text in text or text in piece.text]
    return (held[0], held[-1]) if held else (place, place)


FEWEST_STEPS = 2
"""A number alone is no list: "2019. We moved." """


def with_steps(pieces: Sequence[Sentence], text: str, whole_tokens: int) -> Iterator[Sentence]:
    """Yield the pieces of a text: each list of up to `whole_tokens` as one, the steps of a longer one with numbers."""
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
    """Return the place after the list that begins at one, with the text between its steps; `place` for no list."""
    last, end = 0, place
    for number in range(place, len(pieces)):
        piece = pieces[number]
        if piece.shape in {"heading", "row"} or not (last or piece.step):
            break
        if piece.step:
            if last and piece.step != last + 1:
                break
            last, end = piece.step, number + 1
        elif end == number and piece.block == pieces[end - 1].block:  # a further sentence of the same step
            end = number + 1
    return end


def _numbered(piece: Sentence, text: str) -> Sentence:
    """Return a step from its number on, as the text has it."""
    start = start_of_item(text, piece.start) if piece.step else piece.start
    return replace(piece, text=text[start : piece.end], start=start)


_MARK = "> "
_MARKS = re.compile(r"^> ?", re.MULTILINE)
_BETWEEN = "\n\n"


def write_reply(words: str, to: str) -> str:
    """Return the text of a reply: "> shall we …", an empty line, "yes, do that"."""
    return f"{_MARK}{f'{chr(10)}{_MARK}'.join(to.splitlines())}{_BETWEEN}{words}"


def read_reply(text: str) -> tuple[str, str]:
    """Return the words of a text, and the text that they answer; "" where it is no reply."""
    to, _, words = text.partition(_BETWEEN)
    if not (to.startswith(_MARK) and words.strip()):
        return text, ""
    return words, _MARKS.sub("", to)


FACT_CHARS = 72


def title_of(text: str, limit: int) -> str:
    """Return a text on one line; beyond `limit` characters it is cut at a word, and GAP put after it."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0].rstrip(" ,;:–-") + GAP


def title_of_fact(text: str) -> str:
    """Return the beginning of a fact's own words; with the text that they answer where they are too few alone."""
    words, reply_to = read_reply(text)
    alone = not reply_to or len(words.split()) >= FEWEST_WORDS
    return title_of(words if alone else f"{words} {GAP} {reply_to}", FACT_CHARS).rstrip(".!")

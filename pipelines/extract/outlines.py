"""Outlines: an assistant's long answer as its conclusions and the points that it made."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...store.text.sentences import Sentence
from ...store.text.word_lists import phrases
from .salience import Speaker, judge
from .trimming import plain, request_weight

MOST_CONCLUSIONS = 4  # of one turn; its full text stays one link away
MOST_POINTS = 12
_EMPTY_HEADING = re.compile(phrases("empty_headings"), re.IGNORECASE)
_BOLD_OPENING = re.compile(r"\*\*([^*]{3,80})\*\*")
_NUMBERED = re.compile(r"^(?:step )?\d+[.:)]\s*", re.IGNORECASE)


def conclusions(sentences: Sequence[Sentence], names: frozenset[str]) -> list[str]:
    """Return the first sentences that decide, conclude, or report what was done."""
    spoken = [plain(sentence.text) for sentence in sentences if sentence.shape not in {"heading", "row"}]
    return [text for text in spoken if judge(text, Speaker.ASSISTANT, names).kept][:MOST_CONCLUSIONS]


def points(sentences: Sequence[Sentence]) -> list[str]:
    """Return the headings and bold openings, the subjects of an answer; [] for fewer than two."""
    found: list[str] = []
    for sentence in sentences:
        bold = _BOLD_OPENING.match(sentence.text)
        if sentence.shape != "heading" and not bold:
            continue
        point = _NUMBERED.sub("", plain(bold[1] if bold else sentence.text).rstrip(":. "))
        if request_weight(point) and point not in found and not _EMPTY_HEADING.fullmatch(point):
            found.append(point)
    return found[:MOST_POINTS] if len(found) >= 2 else []

"""Signs: features of a passage in its place that speak for keeping it for months, or against it.

None knows a data set: they are moods, small triggers of each language (`store/text/data/languages/`), and how specific
the passage is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ...store.text.dates import find
from ...store.text.languages import phrases, table
from ...store.text.words import CAPITAL, CODE_SPAN, language_of, words_of_turn
from .places import Place, Speaker

_AMOUNT = re.compile(r"(?<![\w.])[$€£]?\d[\d.,:]*\s?(?:%|[^\W\d_]{0,3}\b)")
_NAME = re.compile(rf"(?<=[^\W\d_][ ,;:(]){CAPITAL}[^\W\d_A-Z]{{2,}}\b")
_LOG = re.compile(
    r"^\W{0,80}(?:[A-Z][a-z]{2} +\d+ |\d{4}-\d\d-\d\d[T ]\d\d|at [\w.$]+\(|[A-Z_]{4,}[ :=]|-----)"
    r"|(?<![\w.])[\w.]+\([\w.]+:\d+\)"
)
_QUESTION = re.compile(r"\?[\s\"')*_]*$")
_SECRET_LIKE = re.compile(r"(?<!\S)(?=\S*\d)(?=\S*[A-Za-z])(?=\S*[^\w\s./:,;()'\"@=-])\S{9,}")
_NUMBERED = re.compile(r"(?:^|\s)1[.)] .*\s2[.)] ", re.DOTALL)


def signs_of(passage: str, place: Place) -> frozenset[str]:
    """Return the names of the signs that a passage of a turn bears."""
    return frozenset(_signs(" ".join(passage.split()), place))


def is_question(text: str) -> bool:
    """Check for a question, with its mark or by its first word."""
    return bool(_QUESTION.search(text)) or opens("speech.question", text)


def opens(section: str, text: str) -> bool:
    """Check that a text begins with a phrase of a section."""
    return bool(phrases(section).match(text.lstrip("¿¡\"'([* ")))


def without_greeting(text: str) -> str:
    """Drop "Hey Mel!", "haha" and "Nice," from the front of a text, where something else follows."""
    while found := re.match(rf"(?:{phrases('speech.chat').pattern})(?: \w+)?[\s,.!:–-]+(?=\w)", text, re.IGNORECASE):
        text = text[found.end() :]
    return text


def points_back(text: str) -> bool:
    """Check that a text speaks of something that was named before it: "it was …", "I like their …"."""
    said = re.sub(rf"^(?:{phrases('speech.accept').pattern}[\s,.!]+)+", "", without_greeting(text), flags=re.IGNORECASE)
    if opens("speech.leaning", said):
        return True
    found = phrases("speech.pointing").search(said)
    return found is not None and not words_of_turn(said[: found.start()])


def _repeats(text: str) -> bool:
    """Check for lines that each stand there twice or more: a program says so, no person."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return len(lines) > 1 and 2 * len(set(lines)) <= len(lines)


@cache
def _counts(language: str) -> frozenset[str]:
    """Return the words for two and more: in one language, since "to" is two in another."""
    return frozenset(word for word, count in table(language, "days.counts").items() if count > 1)


def _signs(passage: str, place: Place) -> Iterator[str]:
    passage = without_greeting(passage)
    plain = CODE_SPAN.sub("`", passage).replace("’", "'")
    words = plain.split()
    yield from (name for name in _TRIGGERS if phrases(name).search(plain))
    if opens("speech.reject", plain):
        yield "opens speech.reject"
    if is_question(passage):
        yield "question"
    counts = _counts(language_of(plain))
    numbers = [*_AMOUNT.findall(passage), *(word for word in plain.lower().split() if word in counts)]
    if numbers:
        yield "number"
    if _NAME.search(plain):
        yield "name"
    if place.turn.at and find(passage, place.turn.at.date()):
        yield "a day"
    if len(words_of_turn(plain)) < FEW_CONTENT:
        yield "bare"
    if points_back(plain):
        yield "points back"
    if len(words) <= 3:
        yield "tiny"
    if len(words) >= 12:
        yield "long"
    if _NUMBERED.search(passage):
        yield "steps"
    if _LOG.search(passage) or _repeats(place.text):
        yield "pasted"
    if _SECRET_LIKE.search(passage):
        yield "secret"
    if place.before is not None and place.speaker is not Speaker.ASSISTANT:
        last = place.before.sentences[-1] if place.before.sentences else ""
        yield "after a question" if is_question(last) else "after a statement"


FEW_CONTENT = 2
"""Fewer words than these with a meaning of their own say nothing."""

_TRIGGERS = ("worth.decision", "worth.preference", "worth.doing")

"""Worth of a passage of talk among people: a sum of weighted signs, read in the context of the turn.

The judge was trained on talk between a person and an assistant alone, so the weights here are set by hand, in quarters.
Signs are moods, short phrases of each language (`store/text/data/languages/`), and how specific a passage is; none is
specific to a data set. Reports count (when, who, which act); comments on another's words do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from ...store.text.dates import find
from ...store.text.languages import phrases, table
from ...store.text.words import CAPITAL, CODE_SPAN, language_of, words_of_turn
from .contexts import Speaker, TurnContext

# Smallest sum of weights of a passage that is kept.
KEPT_FROM = 0.5

_WEIGHTS: Mapping[str, float] = {
    "a day": 1.5,
    "name": 1.0,
    "number": 0.5,
    "worth.doing": 0.5,
    "worth.preference": 0.5,
    "long": 0.25,
    "after a statement": -1.0,
    "question": -0.5,
    "worth.decision": -0.5,
    "points back": -0.25,
    "tiny": -0.75,
    "bare": -0.75,
    "pasted": -1.5,
    "secret": -5.0,
}

_AMOUNT = re.compile(r"(?<![\w.])[$€£]?\d[\d.,:]*\s?(?:%|[^\W\d_]{0,3}\b)")
_NAME = re.compile(rf"(?<=[^\W\d_][ ,;:(]){CAPITAL}[^\W\d_A-Z]{{2,}}\b")

# Lines of a log or a stack trace.
_LOG = re.compile(
    r"^\W{0,80}(?:[A-Z][a-z]{2} +\d+ |\d{4}-\d\d-\d\d[T ]\d\d|at [\w.$]+\(|[A-Z_]{4,}[ :=]|-----)"
    r"|(?<![\w.])[\w.]+\([\w.]+:\d+\)"
)

_QUESTION = re.compile(r"\?[\s\"')*_]*$")
# A word of nine characters or more with digits, letters and a symbol that no path, date or address has.
_SECRET_LIKE = re.compile(r"(?<!\S)(?=\S*\d)(?=\S*[A-Za-z])(?=\S*[^\w\s./:,;()'\"@=-])\S{9,}")
_NUMBERED = re.compile(r"(?:^|\s)1[.)] .*\s2[.)] ", re.DOTALL)

# A passage with fewer content words has no substance.
FEW_CONTENT = 2

_TRIGGERS = ("worth.decision", "worth.preference", "worth.doing")


def worth_of(passage: str, context: TurnContext) -> float:
    """Return the worth of a passage; below 0 it is not worth keeping."""
    return sum(_WEIGHTS.get(sign, 0.0) for sign in signs_of(passage, context)) - KEPT_FROM


def signs_of(passage: str, context: TurnContext) -> frozenset[str]:
    """Return the names of the signs of a passage."""
    return frozenset(_signs(" ".join(passage.split()), context))


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
    """Check that a text refers to something named before it: "it was …", "I like their …"."""
    said = re.sub(rf"^(?:{phrases('speech.accept').pattern}[\s,.!]+)+", "", without_greeting(text), flags=re.IGNORECASE)
    if opens("speech.leaning", said):
        return True
    found = phrases("speech.pointing").search(said)
    return found is not None and not words_of_turn(said[: found.start()])


def _repeats(text: str) -> bool:
    """Check for lines that each occur twice or more, as in a program's output."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return len(lines) > 1 and 2 * len(set(lines)) <= len(lines)


@cache
def _counts(language: str) -> frozenset[str]:
    """Return the words for two and more, of one language only: "to" is two in another."""
    return frozenset(word for word, count in table(language, "days.counts").items() if count > 1)


def _signs(passage: str, context: TurnContext) -> Iterator[str]:
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
    if context.turn.at and find(passage, context.turn.at.date()):
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
    if _LOG.search(passage) or _repeats(context.text):
        yield "pasted"
    if _SECRET_LIKE.search(passage):
        yield "secret"
    if context.before is not None and context.speaker is not Speaker.ASSISTANT:
        last = context.before.sentences[-1] if context.before.sentences else ""
        yield "after a question" if is_question(last) else "after a statement"

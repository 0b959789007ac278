"""The bounded text of a question: a pasted log or a picture made of marks costs no more than words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...model import InvalidInput
from ...text.token_count import beginning

READ_CHARS = 2_000
MEANT_TOKENS = 128
"""The length that the shipped model was trained on; its time grows with the tokens: 6 ms for ten, 40 for 128, 300 for
512."""

SAME_MARKS = 3
"""Of one mark in a row, so many are read: the rest of a ruled line says nothing, and a model reads each."""

_RUN_OF_MARKS = re.compile(rf"([^\w\s])\1{{{SAME_MARKS},}}")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A question as it is read: `words` as asked, `meant` is embedded, `note` says what was left out.

    Both are empty for a question of marks alone, which has no meaning for a model either.
    """

    words: str
    meant: str
    note: str = ""


def read_query(text: str) -> QueryText:
    """Cut a question to what is read of it. Linear in the text, and what follows is bounded.

    Raises InvalidInput for one that says nothing.
    """
    text = text.strip()
    if not text:
        raise InvalidInput("the question is empty", hint="Say in a few words what to look for.")
    if not any(map(str.isalnum, text[:READ_CHARS])):
        return QueryText("", "", f"the question holds no words in its first {READ_CHARS:,} characters")
    words = _RUN_OF_MARKS.sub(lambda run: run[1] * SAME_MARKS, text[:READ_CHARS])
    meant = beginning(words, MEANT_TOKENS)
    if len(text) > READ_CHARS:
        return QueryText(
            words, meant, f"the question is long: only its first {READ_CHARS:,} characters were looked for"
        )
    if len(meant) < len(words):
        note = f"the question is long: its first {len(meant):,} characters were looked for by meaning, all by words"
        return QueryText(words, meant, note)
    return QueryText(words, meant)

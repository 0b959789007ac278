"""The bounded text of a question: a pasted log or a picture made of marks costs no more than words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...model import InvalidInput
from ...text.languages import entries, language_of, phrases, words_in
from ...text.terms import WORD
from ...text.token_count import beginning

READ_CHARS = 2_000
MEANT_TOKENS = 128
"""The length that the shipped model was trained on; its time grows with the tokens: 6 ms for ten, 40 for 128, 300 for
512."""

SAME_MARKS = 3
"""Of one mark in a row, so many are read: the rest of a ruled line says nothing, and a model reads each."""

ASKED_CHARS = 400
"""Beyond this length a text is pasted rather than asked."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_RUN_OF_MARKS = re.compile(rf"([^\w\s])\1{{{SAME_MARKS},}}")


@dataclass(frozen=True, slots=True)
class QueryText:
    """A question as it is read: `words` as asked, `meant` is embedded, `note` says what was left out.

    Both are empty for a question of marks alone, which has no meaning for a model either. `recounts` is what a question
    about the conversation itself is about, "" for any other one.
    """

    words: str
    meant: str
    note: str = ""
    recounts: str = ""

    @property
    def looked_up(self) -> str:
        """Return the text whose words are looked up."""
        return self.recounts or self.words


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
    if recounts := recounted(words):
        return QueryText(words, beginning(recounts, MEANT_TOKENS), recounts=recounts)
    meant = beginning(words, MEANT_TOKENS)
    if len(text) > READ_CHARS:
        return QueryText(
            words, meant, f"the question is long: only its first {READ_CHARS:,} characters were looked for"
        )
    if len(meant) < len(words):
        note = f"the question is long: its first {len(meant):,} characters were looked for by meaning, all by words"
        return QueryText(words, meant, note)
    return QueryText(words, meant)


def recounted(question: str) -> str:
    """Return what a question about the conversation is about, without the words that frame it; "" for any other one.

    No memory says "summary", "brought up" or "throughout our conversations" because it is part of one, so these words
    find what happens to hold them. Each sentence is cut to what lies between its first and last word of another kind:
    of "List the order in which I brought up roof repairs in our talks. Mention five items." "roof repairs" is left.
    """
    if len(question) > ASKED_CHARS or not phrases("recounting.asked").search(question):
        return ""
    return " ".join(_subjects(question))


def _subjects(question: str) -> Iterator[str]:
    language = language_of(question)
    framing = words_in("question_words").union(
        *(entries(language, section) for section in ("recounting.words", "function_words", "state.numbers"))
    )
    for sentence in _SENTENCE_END.split(question):
        if meant := [word for word in WORD.finditer(sentence) if word.group().lower() not in framing]:
            yield sentence[meant[0].start() : meant[-1].end()]

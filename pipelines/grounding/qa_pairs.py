"""Question-answer pairs: the statements that a question and its answer make together.

"Where did you move from?" – "Sweden." states that she moved from Sweden; "Do you like it?" – "No." that she does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..language.inflection import past_of
from .tokens import SourceSentence, Token, read

_WH = frozenset("what where when who which how whose".split())
_BE_LIKE = frozenset("is was has had will would can could should may might must".split())
_DO = frozenset(["do", "does", "did"])
_YES = frozenset("yes yeah yep yup definitely absolutely sure totally exactly".split())
_NO = frozenset("no nope nah".split())
_LONGEST_SUBJECT = 4
_LONGEST_ANSWER = 24


@dataclass(frozen=True, slots=True)
class QaPair:
    """A question, and the first sentence of the other's answer."""

    question: SourceSentence
    answer: SourceSentence


@lru_cache(maxsize=1024)
def statements(pair: QaPair) -> tuple[tuple[Token, ...], ...]:
    """Return the statements that question and answer make together, one for each order of words."""
    asked = [token for token in read(pair.question) if token.shape != "mark" or token.form == ","]
    answered = list(read(pair.answer))
    told = [token for token in answered if token.shape != "mark"]
    if not asked or not told or len(told) > _LONGEST_ANSWER or "?" in {token.form for token in answered}:
        return ()
    both = (*asked, *told)  # "Where did Mel move from? – Sweden"
    asked = _from_question_word(asked)
    return (both, *(tuple(way) for way in _ways(asked, answered, told)))


def _from_question_word(asked: list[Token]) -> list[Token]:
    """Drop what leads to a question: "Cool, where did …", "So, do you …"."""
    opens = _WH | _BE_LIKE | _DO
    starts = [at for at, token in enumerate(asked) if token.form == ","]
    for comma in reversed(starts):
        if comma + 1 < len(asked) and asked[comma + 1].form in opens and comma <= 3:
            return [token for token in asked[comma + 1 :] if token.shape != "mark"]
    bare = [token for token in asked if token.shape != "mark"]
    return bare[1:] if len(bare) > 1 and bare[0].form in {"so", "and", "but", "oh"} else bare


def _ways(asked: Sequence[Token], answered: Sequence[Token], told: Sequence[Token]) -> Iterator[Sequence[Token]]:
    first = asked[0].form
    if first in _BE_LIKE | _DO:
        yield from _yes_or_no(asked, told)
    elif first in _WH:
        yield from _told(asked, told)


def _yes_or_no(asked: Sequence[Token], told: Sequence[Token]) -> Iterator[Sequence[Token]]:
    said = [token.form for token in told]
    if len(said) > 2 or said[0] not in _YES | _NO or (len(said) == 2 and said[1] not in _YES | _NO):
        return
    denied = [Token("not", "not")] if said[0] in _NO else []
    for subject, rest in _subjects(asked[1:]):
        if denied and asked[0].form in _DO:
            yield [*subject, asked[0], *denied, *rest]
        else:
            yield [*subject, *_verb(asked[0], rest, denied)]


def _told(asked: Sequence[Token], told: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Put the answer into a question for a thing: at the end, or in front where it is the subject."""
    for at in range(1, min(5, len(asked))):
        if asked[at].form not in _BE_LIKE | _DO:
            continue
        kind = [replace(token, may_lack=True) for token in asked[1:at]]  # "what kind of music": jazz (music)
        link = _preposition(asked[:at])
        for subject, rest in _subjects(asked[at + 1 :]):
            yield [*subject, *_verb(asked[at], rest, []), *link, *told, *kind]
        if asked[at].form in _BE_LIKE:
            yield [*asked[at + 1 :], asked[at], *link, *told]
        break
    if asked[0].form == "who" and len(asked) > 1 and asked[1].form not in _DO:
        yield [*told, *asked[1:]]


def _subjects(tokens: Sequence[Token]) -> Iterator[tuple[Sequence[Token], Sequence[Token]]]:
    if tokens and (tokens[0].person == tokens[0].form or tokens[0].form in {"he", "she", "it", "they"}):
        yield tokens[:1], tokens[1:]
        return
    for end in range(1, min(_LONGEST_SUBJECT, len(tokens)) + 1):
        yield tokens[:end], tokens[end:]


def _verb(auxiliary: Token, rest: Sequence[Token], denied: list[Token]) -> list[Token]:
    """ "did … go" as "went", "do … go" as "go(es)", any other as it is."""
    if auxiliary.form not in _DO or not rest:
        return [auxiliary, *denied, *rest]
    if auxiliary.form == "did":
        return [replace(rest[0], form=past_of(rest[0].form), is_verb=False), *rest[1:]]
    return [replace(rest[0], is_verb=True), *rest[1:]]


def _preposition(question: Sequence[Token]) -> list[Token]:
    """Return the prepositions that may stand before a bare answer."""
    words = [token.form for token in question]
    fitting = {"when": "in", "where": "in"}.get(words[0], "for" if words[:2] == ["how", "long"] else "")
    return [Token(fitting, fitting, may_lack=True)] if fitting else []

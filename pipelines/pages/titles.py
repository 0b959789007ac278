"""Titles of episodes: the session's own title, else a sentence of its person near the beginning.

A title is verbatim: a whole sentence, or the whole first clause of a longer one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...store.model import Turn
from ...store.text.languages import phrases
from ...store.text.sentences import CLAUSE_END_OR_ASIDE, Sentence, joined_as_one, on_one_line, split
from ...store.text.words import content_words, stem
from ..extract.contexts import Speaker, TurnContext, contexts_of
from ..extract.worth import opens, points_back, worth_of
from ..workspace.memo import Vectors

LONGEST_CHARS, FEWEST_WORDS = 90, 3

# Weights of the share of covered facts, and of a sign of a title, relative to a cosine of 1.
COVER, SIGN = 0.5, 0.1

# Loss for each earlier sentence, and the number that count: a request to an assistant begins with its purpose, talk
# among people with greetings.
LATER, FARTHEST = {Speaker.USER: 0.05, Speaker.PEER: 0.03}, 10

# Cosine from which a sentence covers a fact, and the smallest share of an episode's other facts that it must cover.
ALIKE, FEWEST_COVERED = 0.3, 0.25

# Smallest score of a title. Talk without a subject, or with too many, has no such sentence.
LEAST_SCORE = {Speaker.USER: 0.5, Speaker.PEER: 0.6}

_REPLIES = ("chat", "accept", "reject", "praise")
_DIGITS = re.compile(r"\d+")

# Addresses, paths, ids, code and the output of programs, which no reader wants as a title.
_NO_WORDS = re.compile(
    r"^[^\w\"'“„«¿¡(`_*]|https?://|[/\\][\w./\\-]|\b(?=\w*\d)(?=\w*[a-z])\w{8,}\b|\[\w+:|[<>{}|]|\w=\w|```",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an episode: its facts, their vectors, and the direction in which they differ from the others."""

    facts: Sequence[str]
    vectors: Vectors
    apart: Vectors

    def likeness(self, words: str, vector: Vectors) -> float:
        """Return the likeness of a sentence to the subject, about 0 to 1.7; -1 where it covers too few facts."""
        # The fact that contains the sentence itself would always be covered.
        others = np.array([words not in " ".join(fact.split()) for fact in self.facts])
        cover = float(np.mean(self.vectors[others] @ vector >= ALIKE)) if others.any() else 0.0
        is_kept = not others.all()
        return float(vector @ self.apart) + COVER * cover + SIGN * is_kept if cover >= FEWEST_COVERED else -1.0


def own_title(title: str, turns: Sequence[Turn], others: Iterable[str]) -> str:
    """Return a session's title if a person or a program chose it; "" for a number, an id, or the cut first words."""
    bare = title.rstrip("…. ").strip()
    is_numbered = any(_DIGITS.sub("#", other) == _DIGITS.sub("#", title) for other in others)
    if is_numbered or not stems_of_title(bare) or _NO_WORDS.search(bare):
        return ""
    # Programs title a session by its first words, cut off: such a title is no choice.
    opening = " ".join(bare.split()).casefold()
    said_first = any(" ".join(turn.text.split()).casefold().startswith(opening) for turn in turns)
    return "" if said_first or (turns and bare == turns[0].session_id) else title.strip()


def sentence_title(turns: Sequence[Turn], subject: Subject, embed: Callable[[Sequence[str]], Vectors]) -> str:
    """Return the sentence of a person that covers most of an episode's subject; "" if none covers enough.

    Among people the speaker's name comes before it.
    """
    said = [one for one in _sentences(turns) if _is_independent(one.words)]
    if not said:
        return ""
    vectors = embed([one.words for one in said])
    scores = [one.score(subject, vector) for one, vector in zip(said, vectors, strict=True)]
    return said[scores.index(max(scores))].title if max(scores) >= 0 else ""


@dataclass(frozen=True, slots=True)
class _TitleCandidate:
    """A sentence of a person that can be a title; `number` counts the candidates before it."""

    words: str
    context: TurnContext
    number: int

    @property
    def title(self) -> str:
        """The words, with the speaker's name in front among people."""
        return self.words if self.context.speaker is Speaker.USER else f"{self.context.turn.role}: {self.words}"

    @property
    def own_weight(self) -> float:
        """Return its own weight: 1 for a request to an assistant, else 0; among people its worth, -2 to 2."""
        if self.context.speaker is Speaker.USER:
            return float(bool(phrases("speech.seeking").search(self.words)))
        return max(-2.0, min(2.0, worth_of(self.words, self.context)))

    def score(self, subject: Subject, vector: Vectors) -> float:
        """Return its score minus LEAST_SCORE: below 0 it is no title."""
        speaker = self.context.speaker
        late = LATER[speaker] * min(self.number, FARTHEST)
        return subject.likeness(self.words, vector) + SIGN * self.own_weight - late - LEAST_SCORE[speaker]


def _sentences(turns: Sequence[Turn]) -> Iterator[_TitleCandidate]:
    """Yield the sentences of people that can be a title, except questions among people."""
    names = {word for turn in turns for word in stems_of_title(turn.role)}
    spoken = [context for context in contexts_of(turns) if context.speaker is not Speaker.ASSISTANT]
    titles = ((title, context) for context in spoken for title in _titles_in(context.text, names))
    for number, (words, context) in enumerate(titles):
        if context.speaker is Speaker.USER or not words.endswith("?"):
            yield _TitleCandidate(words, context, number)


def _is_independent(words: str) -> bool:
    """Check that a sentence neither replies nor refers to anything before it."""
    first_clause = re.split(phrases("grounding.seams"), CLAUSE_END_OR_ASIDE.split(words, maxsplit=1)[0], maxsplit=1)[0]
    refers = points_back(words) or phrases("speech.pointing").search(first_clause)
    return not (refers or any(opens(f"speech.{one}", words) for one in _REPLIES))


def _titles_in(text: str, names: Collection[str]) -> Iterator[str]:
    """Yield the sentences of a turn that can be a title, a short one together with the next: "Museum day. We …"."""
    lead: Sentence | None = None
    for sentence in split(text):
        words = on_one_line(sentence.text)
        led = joined_as_one([*([lead] if lead else []), sentence], text).text
        if title := _fitted(led) or _fitted(words):
            yield title
        lead = sentence if not title and _names_subject(words, names) else None


def _names_subject(words: str, names: Collection[str]) -> bool:
    """Check that a short sentence names a subject, and does not greet, ask or address anyone."""
    addresses = words.endswith(("!", "?", ":")) or phrases("speech.you").search(words)
    return not addresses and len(stems_of_title(words) - set(names)) > 1


def _fitted(sentence: str) -> str:
    """Return a sentence, or its first clauses where it is too long for a title; "" if it has too few content words.

    No title is a clause that rests on the one left out ("If you merge in main"), or that introduces what follows.
    """
    ends = [match for match in CLAUSE_END_OR_ASIDE.finditer(sentence) if match.start() <= LONGEST_CHARS]
    is_part = len(sentence) > LONGEST_CHARS
    if sentence.endswith(":") or (is_part and any(opens(one, sentence) for one in ("grounding.seams", "state.open"))):
        return ""
    pieces = [sentence[: end.start()] for end in ends if end[0][0] != ":"] if is_part else [sentence]
    praise = phrases("speech.praise")
    telling = (piece for piece in pieces if len(stems_of_title(praise.sub(" ", piece))) >= FEWEST_WORDS)
    fitted = next(telling, "").rstrip(" .!,;:–—-")
    return "" if _NO_WORDS.search(fitted) else fitted


def stems_of_title(text: str) -> set[str]:
    """Return the stems of a text's content words of three letters or more."""
    return {stem(word) for word in content_words(text) if len(word) > 2 and not word.isdigit()}

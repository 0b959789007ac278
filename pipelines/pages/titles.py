"""Titles of episodes, as people title: the session's own title, else the words with which its person began.

Words are never made up: a title is a whole sentence, or the whole first clause of a longer one, as it was said.
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
from ..extract.places import Place, Speaker, places_of
from ..extract.signs import opens, points_back
from ..extract.worth import worth_of
from ..workspace.view import Vectors

LONGEST_CHARS, FEWEST_WORDS = 90, 3
COVER, SIGN = 0.5, 0.1
"""Cosine that the covered facts are worth, and a sign that a sentence may be a title."""

LATER, FARTHEST = {Speaker.USER: 0.05, Speaker.PEER: 0.03}, 10
"""The loss of a sentence to each one before it, at most so many: who asks an assistant says at once what for, people
greet each other first."""

ALIKE, FEWEST_COVERED = 0.3, 0.25
"""Cosine from which a fact is about what a sentence says, and the least share of an episode's other facts that are."""

ENOUGH = {Speaker.USER: 0.5, Speaker.PEER: 0.6}
"""The least score of a title. Talk about nothing, or about too much, has no such sentence."""

_REPLIES = ("chat", "accept", "reject", "praise")

_DIGITS = re.compile(r"\d+")
_NO_WORDS = re.compile(
    r"https?://|[/\\][\w./\\-]|\b(?=\w*\d)(?=\w*[a-z])\w{8,}\b|\[\w+:|[<>{}|]|\w=\w|```", re.IGNORECASE
)
"""Addresses, paths, ids and code: they say nothing to a reader."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an episode: its facts, their vectors, and the direction in which they differ from the others."""

    facts: Sequence[str]
    vectors: Vectors
    apart: Vectors

    def likeness(self, words: str, vector: Vectors) -> float:
        """Return how much of the subject words tell, about 0 to 1.7; -1 where they tell of too few of its facts."""
        others = np.array([words not in " ".join(fact.split()) for fact in self.facts])
        cover = float(np.mean(self.vectors[others] @ vector >= ALIKE)) if others.any() else 0.0
        is_kept = not others.all()
        return float(vector @ self.apart) + COVER * cover + SIGN * is_kept if cover >= FEWEST_COVERED else -1.0


def own_title(title: str, turns: Sequence[Turn], others: Iterable[str]) -> str:
    """Return a session's title if it was given to it; "" for a number, an id, or what was said first, cut off."""
    bare = title.rstrip("…. ").strip()
    is_numbered = any(_DIGITS.sub("#", other) == _DIGITS.sub("#", title) for other in others)
    if is_numbered or not stems_of_title(bare) or _NO_WORDS.search(bare):
        return ""
    opening = " ".join(bare.split()).casefold()
    said_first = any(" ".join(turn.text.split()).casefold().startswith(opening) for turn in turns)
    return "" if said_first or (turns and bare == turns[0].session_id) else title.strip()


def said_title(turns: Sequence[Turn], subject: Subject, embed: Callable[[Sequence[str]], Vectors]) -> str:
    """Return the words of a person that tell most of what an episode is about; "" if none tell enough.

    Among people the words stand after their speaker's name.
    """
    said = [one for one in _sentences(turns) if _stands_alone(one.words)]
    if not said:
        return ""
    vectors = embed([one.words for one in said])
    scores = [one.score(subject, vector) for one, vector in zip(said, vectors, strict=True)]
    return said[scores.index(max(scores))].title if max(scores) >= 0 else ""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a person that can be a title; `number` counts those before it."""

    words: str
    place: Place
    number: int

    @property
    def title(self) -> str:
        """The words, among people after their speaker's name."""
        return self.words if self.place.speaker is Speaker.USER else f"{self.place.turn.role}: {self.words}"

    @property
    def telling(self) -> float:
        """Return how much it tells by itself: 1 for what is asked of an assistant; among people its worth, -2 to 2."""
        if self.place.speaker is Speaker.USER:
            return float(bool(phrases("speech.seeking").search(self.words)))
        return max(-2.0, min(2.0, worth_of(self.words, self.place)))

    def score(self, subject: Subject, vector: Vectors) -> float:
        """Return by how much it is better than a title must be; less than 0 if it is none."""
        speaker = self.place.speaker
        late = LATER[speaker] * min(self.number, FARTHEST)
        return subject.likeness(self.words, vector) + SIGN * self.telling - late - ENOUGH[speaker]


def _sentences(turns: Sequence[Turn]) -> Iterator[_Sentence]:
    """Yield the sentences of people that can be a title; what people ask each other cannot."""
    names = {word for turn in turns for word in stems_of_title(turn.role)}
    spoken = [place for place in places_of(turns) if place.speaker is not Speaker.ASSISTANT]
    titles = ((title, place) for place in spoken for title in _titles_in(place.text, names))
    for number, (words, place) in enumerate(titles):
        if place.speaker is Speaker.USER or not words.endswith("?"):
            yield _Sentence(words, place, number)


def _stands_alone(words: str) -> bool:
    """Check for words that reply to nothing, and speak of nothing that was named before them."""
    first_clause = re.split(phrases("grounding.seams"), CLAUSE_END_OR_ASIDE.split(words, maxsplit=1)[0], maxsplit=1)[0]
    refers = points_back(words) or phrases("speech.pointing").search(first_clause)
    return not (refers or any(opens(f"speech.{one}", words) for one in _REPLIES))


def _titles_in(text: str, names: Collection[str]) -> Iterator[str]:
    """Yield the sentences of a turn that can be a title, one of few words with the next: "Museum day. We …"."""
    lead: Sentence | None = None
    for sentence in split(text):
        words = on_one_line(sentence.text)
        led = joined_as_one([*([lead] if lead else []), sentence], text).text
        if title := _fitted(led) or _fitted(words):
            yield title
        lead = sentence if not title and _leads(words, names) else None


def _leads(words: str, names: Collection[str]) -> bool:
    """Check for a few words that name a subject, and do not greet, ask or address another."""
    addresses = words.endswith(("!", "?")) or phrases("speech.you").search(words)
    return not addresses and len(stems_of_title(words) - set(names)) > 1


def _fitted(sentence: str) -> str:
    """Return a sentence, or its first clauses where it is too long for a title; "" if it says too little."""
    ends = (match.start() for match in CLAUSE_END_OR_ASIDE.finditer(sentence) if match.start() <= LONGEST_CHARS)
    pieces = [sentence] if len(sentence) <= LONGEST_CHARS else [sentence[:end] for end in ends]
    praise = phrases("speech.praise")
    telling = (piece for piece in pieces if len(stems_of_title(praise.sub(" ", piece))) >= FEWEST_WORDS)
    fitted = next(telling, "").rstrip(" .!,;:–—-")
    return "" if _NO_WORDS.search(fitted) else fitted


def stems_of_title(text: str) -> set[str]:
    """Return the stems of the words that say what a text is about."""
    return {stem(word) for word in content_words(text) if len(word) > 2 and not word.isdigit()}

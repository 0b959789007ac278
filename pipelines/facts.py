"""Facts: the turns of a session read in order, and what they state as drafts that stand alone.

A draft is one sentence, with those after it that lean on it ("It was tough, but …"). A short answer takes the
question before it along. An assistant's long answer is kept as its conclusions and the outline of what it advised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..store.model import Kind, NodeId, Turn
from .kinds import IMPLIED, Nature, nature
from .rewriting import ASSISTANT, USER, Voices, stand_alone
from .sentences import Sentence, split
from .trimming import plain, request_weight, trim, without_request
from .words import content_words, words
from .worth import Speaker, is_question, judge, names_of

_LEANS = re.compile(
    r"^(?:it|it's|its|that|that's|this|they|they're|them|he|he's|she|she's|her|his|their|these|those|there|both|and|but|so|also|plus|"
    r"then|because|which|especially|even)\b",
    re.IGNORECASE,
)
_LONGEST_FACT_WORDS = 60  # a fact that leans on and on is cut here, well inside one chunk
_SHORT_ANSWER_WORDS = 4
_LONGEST_QUESTION_WORDS = 25
_CONCLUSIONS = 4  # of one assistant turn; its full text stays one link away
_OUTLINE_ITEMS = 12
_IMAGE = re.compile(r"\[image:\s*([^\]]+)\]", re.IGNORECASE)
_RECALLED = re.compile(
    r"<(?P<tag>dreamd|memory|memories|recalled|recall|system-reminder)\b[^>]*>.*?</(?P=tag)>", re.DOTALL | re.IGNORECASE
)
_MY_NAME = re.compile(r"\b(?:[Mm]y name is|[Ii](?:'|’)m|[Ii] am|[Cc]all me) ([A-Z][a-z]{2,}(?: [A-Z][a-z]+)?)(?=[,.!]| and\b|$)")
_ASSISTANT_ROLES = frozenset({"assistant", "model", "ai", "bot", "system", "tool"})
_USER_ROLES = frozenset({"user", "human"})


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact before it is a file. `sources` are node ids of turns, the one that states it first."""

    text: str
    nature: Nature
    sources: tuple[NodeId, ...]
    at: datetime | None


@dataclass(frozen=True, slots=True)
class _Part:
    """A kept sentence on its way into a draft."""

    original: str
    text: str
    leans: bool
    block: int


def drafts_of(turns: Sequence[Turn], new_from: int = 1) -> list[Draft]:
    """The facts of the turns from ordinal `new_from` on; the ones before are context."""
    roles = _people(turns)
    drafts: list[Draft] = []
    user_name = ""
    for position, turn in enumerate(turns):
        if turn.role.lower() in _USER_ROLES and not user_name and (match := _MY_NAME.search(turn.text)):
            user_name = match[1]
        if turn.ordinal < new_from or turn.role.lower() in {"system", "tool"}:
            continue
        previous = turns[position - 1] if position else None
        drafts += _of_turn(turn, previous, _voices(turn.role, roles, user_name))
    return drafts


def speaker_of(role: str) -> Speaker:
    """What kind of speaker a role is: a name is a person among people."""
    if role.lower() in _ASSISTANT_ROLES:
        return Speaker.ASSISTANT
    return Speaker.USER if role.lower() in _USER_ROLES else Speaker.PEER


def _people(turns: Sequence[Turn]) -> list[str]:
    return list(dict.fromkeys(turn.role for turn in turns if speaker_of(turn.role) is Speaker.PEER))


def _voices(role: str, people: list[str], user_name: str) -> Voices:
    user = user_name or USER
    match speaker_of(role):
        case Speaker.USER:
            return Voices(user, ASSISTANT, people=False)
        case Speaker.ASSISTANT:
            return Voices(ASSISTANT, user, people=False)
    others = [name for name in people if name != role]
    return Voices(role, others[0] if len(others) == 1 else None)


def _of_turn(turn: Turn, previous: Turn | None, voices: Voices) -> Iterator[Draft]:
    text = _RECALLED.sub(" ", turn.text)
    captions = _IMAGE.findall(text)
    sentences = split(_IMAGE.sub(" ", text))
    speaker = speaker_of(turn.role)
    if speaker is Speaker.ASSISTANT:
        yield from _of_assistant(turn, sentences, voices)
        return
    parts = list(_parts(sentences, speaker, voices, turn))
    question = _question_before(previous, turn, voices)
    if question and (answer := _short_answer(sentences, parts, voices)):
        parts = [part for part in parts if part is not answer[1]]
        yield _answered(turn, question, answer[0], voices, previous)
    for group in _groups(parts):
        joined = " ".join(part.text for part in group)
        yield Draft(joined, nature(" ".join(part.original for part in group), speaker), (turn.node_id,), turn.at)
    for caption in captions:
        shared = f"{_capital(voices.speaker)} shared an image: {caption.strip()}"
        yield Draft(shared, Nature(Kind.EPISODE, "past", IMPLIED, "observed"), (turn.node_id,), turn.at)


def _parts(sentences: Sequence[Sentence], speaker: Speaker, voices: Voices, turn: Turn) -> Iterator[_Part]:
    names = names_of(voices.speaker, voices.addressee)
    addressee = voices.addressee if voices.people else None
    for sentence in sentences:
        if sentence.shape == "heading" and speaker is Speaker.PEER:
            continue
        trimmed = trim(plain(sentence.text), addressee)
        if speaker is Speaker.USER:
            trimmed = without_request(trimmed)
        if not judge(trimmed, speaker, names).kept:
            continue
        text = _told(trimmed, speaker, voices, turn)
        yield _Part(trimmed, text, bool(_LEANS.match(trimmed)), sentence.block)


def _told(trimmed: str, speaker: Speaker, voices: Voices, turn: Turn) -> str:
    rewritten = stand_alone(trimmed, voices, turn.at.date() if turn.at else None)
    if speaker is Speaker.USER and is_question(trimmed) and voices.speaker.lower() not in rewritten.lower()[:40]:
        return f"{_capital(voices.speaker)} asked: {rewritten[:1].lower() + rewritten[1:]}"
    return rewritten


def _groups(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Each sentence with those after it that lean on it."""
    group: list[_Part] = []
    for part in parts:
        length = sum(len(words(kept.text)) for kept in [*group, part])
        if group and part.leans and length <= _LONGEST_FACT_WORDS:
            group.append(part)
            continue
        if group:
            yield group
        group = [part]
    if group:
        yield group


def _question_before(previous: Turn | None, turn: Turn, voices: Voices) -> str | None:
    """The last question of the turn before, told by its asker, if somebody else asked it."""
    if previous is None or previous.role == turn.role or speaker_of(previous.role) is Speaker.ASSISTANT:
        return None
    asked = [sentence.text for sentence in split(previous.text) if is_question(sentence.text)]
    if not asked or len(words(asked[-1])) > _LONGEST_QUESTION_WORDS or voices.addressee is None:
        return None
    question = trim(plain(asked[-1]), voices.speaker)
    asker = Voices(voices.addressee, voices.speaker, voices.people)
    return stand_alone(question, asker, previous.at.date() if previous.at else None)


def _short_answer(
    sentences: Sequence[Sentence], parts: Sequence[_Part], voices: Voices
) -> tuple[str, _Part | None] | None:
    """The first thing said, if it is no sentence of its own; with the part that it would have been."""
    for sentence in sentences:
        trimmed = trim(plain(sentence.text), voices.addressee)
        weight = len(content_words(trimmed))
        if not weight or is_question(trimmed):
            continue
        part = next((part for part in parts if part.original == trimmed), None)
        if part is None:
            continue
        leans = part.leans
        bare = weight <= _SHORT_ANSWER_WORDS and not re.match(r"(?:I|We|My|Our|You)\b", trimmed)
        return (trimmed, part) if bare or leans else None
    return None


def _answered(turn: Turn, question: str, answer: str, voices: Voices, previous: Turn | None) -> Draft:
    told = stand_alone(answer, voices, turn.at.date() if turn.at else None)
    sources = (turn.node_id, previous.node_id) if previous else (turn.node_id,)
    return Draft(f"{question} – {told}", nature(answer, speaker_of(turn.role)), sources, turn.at)


def _of_assistant(turn: Turn, sentences: Sequence[Sentence], voices: Voices) -> Iterator[Draft]:
    kept = []
    for sentence in sentences:
        if sentence.shape in {"heading", "row"}:
            continue
        text = plain(sentence.text)
        if judge(text, Speaker.ASSISTANT, names_of(voices.speaker, voices.addressee)).kept:
            kept.append(text)
    for text in kept[:_CONCLUSIONS]:
        told = stand_alone(text, voices, turn.at.date() if turn.at else None)
        yield Draft(told, nature(text, Speaker.ASSISTANT), (turn.node_id,), turn.at)
    if outline := _outline(sentences):
        told = f"{_capital(voices.speaker)} outlined: {'; '.join(outline)}"
        yield Draft(told, Nature(Kind.EPISODE, "past", IMPLIED, "extracted"), (turn.node_id,), turn.at)


def _outline(sentences: Sequence[Sentence]) -> list[str]:
    """The headings and bold openings of a long answer, which say what it is about."""
    points: list[str] = []
    for sentence in sentences:
        bold = re.match(r"\*\*([^*]{3,80})\*\*", sentence.text)
        if sentence.shape == "heading" or bold:
            point = plain(bold[1] if bold else sentence.text).rstrip(":. ")
            point = re.sub(r"^(?:step )?\d+[.:)]\s*", "", point, flags=re.IGNORECASE)
            if request_weight(point) >= 1 and point not in points:
                points.append(point)
    return points[:_OUTLINE_ITEMS] if len(points) >= 2 else []


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def renumbered(draft: Draft, text: str) -> Draft:
    """The draft with another text."""
    return replace(draft, text=text)

"""Facts: the turns of a session, read in order, to drafts that stand alone.

A draft is one sentence, with those after it that lean on it ("It was tough, but …"). A short answer takes the
question before it along. An assistant's long answer is kept as its conclusions and the outline of what it advised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from ...store.model import Kind, NodeId, Turn
from ...store.roles import MACHINES, Role
from ...store.text.normal_form import words
from ...store.text.sentences import Sentence, split
from . import outlines, short_answers
from .classify import IMPLIED, FactAttributes, classify
from .decontextualize import ASSISTANT, USER, Participants, decontextualize
from .salience import Speaker, is_question, judge, names_of
from .short_answers import LEANS
from .trimming import ASKED, plain, trim, without_request

_LONGEST_FACT_WORDS = 60  # a fact that leans on and on is cut here, well inside one chunk
_PHOTO_OF = re.compile(
    r"^an? (?:photo(?:graph|graphy)?|picture|image|screenshot|close[- ]?up)(?: shot)? of\s+", re.IGNORECASE
)
_IMAGE = re.compile(r"\[image:\s*([^\]]+)\]", re.IGNORECASE)
_RECALLED = re.compile(
    r"<(?P<tag>dreamd-memory|dreamd|memory|memories|recalled|recall|system-reminder)\b[^>]*>.*?</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)
_TELLS = re.compile(r"(?:I|I['’]\w+|[Mm]y|[Ww]e) ")
"""Openings of a statement, even where it ends in a question: "I have 3 hours left, how can I finish?"."""
_MY_NAME = re.compile(
    r"\b(?:[Mm]y name is|[Ii](?:'|’)m|[Ii] am|[Cc]all me) ([A-Z][a-z]{2,}(?: [A-Z][a-z]+)?)(?=[,.!]| and\b|$)"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact before it is a file. `sources` are node ids of turns, the one that states it first."""

    text: str
    attributes: FactAttributes
    sources: tuple[NodeId, ...]
    at: datetime | None
    about: str = ""
    """The speaker, as a tag: a name, `user` or `assistant`."""
    by_model: bool = False
    """True if a language model worded it, and grounding accepted that."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A kept sentence on its way into a draft."""

    original: str
    text: str
    leans: bool


def drafts_of(turns: Sequence[Turn], new_from: int = 1) -> list[Draft]:
    """Return the facts of the turns from ordinal `new_from` on; the turns before are context."""
    drafts: list[Draft] = []
    everyone = participants_of(turns)
    for position, (turn, participants) in enumerate(zip(turns, everyone, strict=True)):
        if turn.ordinal < new_from or turn.role in (Role.SYSTEM, Role.TOOL):
            continue
        previous = turns[position - 1] if position else None
        about = participants.speaker.removeprefix("the ")
        drafts += [replace(draft, about=about) for draft in _of_turn(turn, previous, participants)]
    return drafts


def participants_of(turns: Sequence[Turn]) -> list[Participants]:
    """Return the participants of each turn."""
    roles = _people(turns)
    user_name = ""
    found = []
    for turn in turns:
        if turn.role == Role.USER and not user_name and (match := _MY_NAME.search(turn.text)):
            user_name = match[1]
        found.append(_participants(turn.role, roles, user_name))
    return found


def evidence_text(turn: Turn) -> str:
    """Return the words of a turn, without recalled memories and without captions of images."""
    return _IMAGE.sub(" ", _RECALLED.sub(" ", turn.text))


def speaker_of(role: str) -> Speaker:
    """Return the kind of speaker of a role; a name is a person among people."""
    if role in MACHINES:
        return Speaker.ASSISTANT
    return Speaker.USER if role == Role.USER else Speaker.PEER


def _people(turns: Sequence[Turn]) -> list[str]:
    return list(dict.fromkeys(turn.role for turn in turns if speaker_of(turn.role) is Speaker.PEER))


def _participants(role: str, people: list[str], user_name: str) -> Participants:
    user = user_name or USER
    match speaker_of(role):
        case Speaker.USER:
            return Participants(user, ASSISTANT, people=False)
        case Speaker.ASSISTANT:
            return Participants(ASSISTANT, user, people=False)
    others = [name for name in people if name != role]
    return Participants(role, others[0] if len(others) == 1 else None)


def _of_turn(turn: Turn, previous: Turn | None, participants: Participants) -> Iterator[Draft]:
    text = _RECALLED.sub(" ", turn.text)
    sentences = split(_IMAGE.sub(" ", text))
    speaker = speaker_of(turn.role)
    if speaker is Speaker.ASSISTANT:
        yield from _of_assistant(turn, sentences, participants)
        return
    parts = list(_parts(sentences, speaker, participants, turn))
    if previous is not None and (answered := _answered(turn, previous, sentences, parts, participants)):
        draft, used = answered
        parts = [part for part in parts if part is not used]
        yield draft
    yield from _with_images([_draft(turn, group, participants) for group in _groups(parts)], text, turn, participants)


def _of_assistant(turn: Turn, sentences: Sequence[Sentence], participants: Participants) -> Iterator[Draft]:
    for text in outlines.conclusions(sentences, names_of(participants.speaker, participants.addressee)):
        told = attributed(decontextualize(text, participants, day_of(turn)), participants)
        yield Draft(told, classify(text, Speaker.ASSISTANT), (turn.node_id,), turn.at)
    if points := outlines.points(sentences):
        told = f"{_capital(participants.speaker)} outlined: {'; '.join(points)}"
        yield Draft(told, FactAttributes(Kind.EPISODE, "past", IMPLIED, "extracted"), (turn.node_id,), turn.at)


def _answered(
    turn: Turn, previous: Turn, sentences: Sequence[Sentence], parts: Sequence[_Part], participants: Participants
) -> tuple[Draft, _Part | None] | None:
    """Return question and answer as one draft, and the part that the answer would have been."""
    if previous.role == turn.role or participants.addressee is None or speaker_of(previous.role) is Speaker.ASSISTANT:
        return None
    answer = short_answers.short_answer(sentences, participants.addressee)
    answer = answer or (None if parts else short_answers.yes_or_no(sentences))
    question = short_answers.question_of(previous, participants.speaker) if answer else None
    if answer is None or question is None:
        return None
    asker = Participants(participants.addressee, participants.speaker, participants.people)
    told = (
        f"{decontextualize(question, asker, day_of(previous))} – {decontextualize(answer, participants, day_of(turn))}"
    )
    sources = (turn.node_id, previous.node_id)
    used = next((part for part in parts if part.original == answer), None)
    return Draft(told, classify(answer, speaker_of(turn.role)), sources, turn.at), used


def _with_images(drafts: list[Draft], text: str, turn: Turn, participants: Participants) -> list[Draft]:
    """Add the captions of a turn's images to its last draft."""
    captions = [_PHOTO_OF.sub("", caption.strip()) for caption in _IMAGE.findall(text)]
    if not captions:
        return drafts
    shown = f"[image: {'; '.join(captions)}]"
    if drafts:
        return [*drafts[:-1], replace(drafts[-1], text=f"{drafts[-1].text} {shown}")]
    told = f"{_capital(participants.speaker)} shared {shown}"
    return [Draft(told, FactAttributes(Kind.EPISODE, "past", IMPLIED, "observed"), (turn.node_id,), turn.at)]


def _parts(sentences: Sequence[Sentence], speaker: Speaker, participants: Participants, turn: Turn) -> Iterator[_Part]:
    names = names_of(participants.speaker, participants.addressee)
    addressee = participants.addressee if participants.people else None
    for sentence in sentences:
        if sentence.shape == "heading" and speaker is Speaker.PEER:
            continue
        trimmed = trim(plain(sentence.text), addressee)
        if speaker is Speaker.USER:
            trimmed = without_request(trimmed)
        if not judge(trimmed, speaker, names).kept:
            continue
        text = _told(trimmed, speaker, participants, turn)
        yield _Part(trimmed, text, bool(LEANS.match(trimmed)))


def _told(trimmed: str, speaker: Speaker, participants: Participants, turn: Turn) -> str:
    if speaker is Speaker.USER and _MY_NAME.search(trimmed):
        participants = replace(participants, speaker=USER)  # "The user is Craig", not "Craig is Craig"
    rewritten = decontextualize(trimmed.removeprefix(ASKED), participants, day_of(turn))
    if speaker is Speaker.USER and (is_question(trimmed) or trimmed.startswith(ASKED)) and not _TELLS.match(trimmed):
        named = rewritten.startswith(_capital(participants.speaker))
        return (
            f"{_capital(participants.speaker)} asked: {rewritten if named else rewritten[:1].lower() + rewritten[1:]}"
        )
    return rewritten


def _draft(turn: Turn, group: Sequence[_Part], participants: Participants) -> Draft:
    text = attributed(" ".join(part.text for part in group), participants)
    stated = classify(" ".join(part.original for part in group), speaker_of(turn.role))
    return Draft(text, stated, (turn.node_id,), turn.at)


def attributed(text: str, participants: Participants) -> str:
    """Put the speaker in front of a text that names neither of the two."""
    if any(name and name.lower() in text.lower() for name in (participants.speaker, participants.addressee)):
        return text
    return f"{_capital(participants.speaker)}: {text}"


def _groups(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Yield each sentence with those after it that point back to it."""
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


def day_of(turn: Turn) -> date | None:
    """Return the day of a turn."""
    return turn.at.date() if turn.at else None


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]

"""Places: each turn with what its worth depends on: who speaks to whom, what was said before, what a tool had done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...store.judges.judge import JudgedTurn, Judgement, judge
from ...store.model import Turn
from ...store.redaction import REDACTED, redact
from ...store.roles import MACHINES, Role
from ...store.text.fence import reads_the_web
from ...store.text.sentences import sentences_of
from .own_words import own_words

_TOOL_CALL = re.compile(r"\s*\[[A-Z]\w*(?::? [^\n]*)?\]?\s*(?:\n.*)?", re.DOTALL)
"""The line that stands for a call: "[Bash: ls]", "[Edit /src/app.py]"."""


class Speaker(StrEnum):
    """The kind of a speaker: a person to a person, a person to an assistant, or the assistant."""

    PEER = "peer"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Place:
    """A turn in its place.

    `before` is what another said right before it, or None. `after_tool`: a tool ran since a person spoke; `with_tools`:
    one ran in this session, so that its assistant does things, and does not only advise. `after_web`: one that reads
    the web ran since a person spoke, so that these may be a stranger's words.
    """

    turn: Turn
    speaker: Speaker
    text: str
    sentences: tuple[str, ...]
    before: Place | None
    after_tool: bool
    with_tools: bool
    after_web: bool = False


def places_of(turns: Sequence[Turn]) -> list[Place]:
    """Return the turns in which something is said, in order, each in its place."""
    places: list[Place] = []
    after_tool = with_tools = after_web = False
    for turn in turns:
        if turn.role in (Role.SYSTEM, Role.TOOL) or is_tool_call(turn):
            after_tool = with_tools = True
            after_web = after_web or reads_the_web(turn.text)
            continue
        speaker = speaker_of(turn.role)
        after_tool = after_tool and speaker is Speaker.ASSISTANT
        after_web = after_web and speaker is Speaker.ASSISTANT
        before = places[-1] if places and places[-1].turn.role != turn.role else None
        text = own_words(turn.text)
        said = tuple(sentence for sentence in sentences_of(text) if REDACTED not in redact(sentence).text)
        places.append(Place(turn, speaker, text, said, before, after_tool, with_tools, after_web))
    return places


def judged(places: Sequence[Place], new_from: int = 1) -> dict[int, Judgement]:
    """Judge the places of the turns from ordinal `new_from` on, by their index; those before and after are context.

    What people say to each other is left out: the judge has seen nobody's talk with another person.
    """
    chosen = [
        at for at, place in enumerate(places) if place.turn.ordinal >= new_from and place.speaker is not Speaker.PEER
    ]
    judgements = judge().turns([_said(places, at) for at in chosen])
    return dict(zip(chosen, judgements, strict=True))


def _said(places: Sequence[Place], at: int) -> JudgedTurn:
    place = places[at]
    others = (other.turn for other in reversed(places[:at]) if other.turn.role != place.turn.role)
    following = (other.turn for other in places[at + 1 :] if other.turn.role != place.turn.role)
    role = Role.ASSISTANT if place.speaker is Speaker.ASSISTANT else Role.USER
    before, after = (next((turn.text for turn in turns), "") for turns in (others, following))
    return JudgedTurn(role, place.text, before, after)


def is_tool_call(turn: Turn) -> bool:
    """Check for a turn that says nothing, but stands for the call of a tool."""
    return turn.role == Role.ASSISTANT and bool(_TOOL_CALL.fullmatch(turn.text)) and turn.text.rstrip().endswith("]")


def speaker_of(role: str) -> Speaker:
    """Return the kind of speaker of a role; a name is a person among people."""
    if role in MACHINES:
        return Speaker.ASSISTANT
    return Speaker.USER if role == Role.USER else Speaker.PEER

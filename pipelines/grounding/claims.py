"""Extraction: a language model is asked, a window of turns at a time, what a session states; grounding decides.

What survives takes the place of the deterministic draft that it covers, or is added where there was none; no draft is
ever lost to it. A claim may name the wrong turn of its window: it is put down to the one that bears it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...llm.budget import CHARS_A_TOKEN, Asker
from ...llm.model import LlmRefused, LlmUnavailable
from ...store.model import NodeId, Turn
from ...store.roles import Role
from ...store.text.normal_form import normal_form, words
from ...store.text.word_lists import lexicon
from ..extract.classify import nature
from ..extract.decontextualize import Voices, stand_alone
from ..extract.facts import Draft, attributed, day_of, evidence_text, speaker_of, voices_of
from ..extract.salience import is_question, judge, names_of
from ..extract.trimming import plain, trim
from ..language.content import content_stems
from ..language.sentences import split
from . import prompts
from .qa_pairs import Exchange, statements
from .tokens import Evidence
from .verify import Verdict, ground

_NUMBER = re.compile(r"^\s*\[\d+\]\s*")
MOST_TURNS = 12
TOKENS_A_TURN = 700
"""A model with little context is a small one, and loses itself where it sees more than a turn or two."""
MOST_TURN_CHARS = 1200
MOST_CLAIMS = 24
MOST_CLAIM_CHARS = 240
"""A small model that has begun to repeat itself would fill its whole answer with one claim."""
MORE_CHARS = 60
"""What names and dates may add to what was said."""
PROMPT_TOKENS = 400
"""What the prompt takes without its record."""
Tell = Callable[[int, int], None]
Remembered = Callable[[Sequence[str], Callable[[], bytes]], bytes]
"""Gives the bytes that were made of these parts before, or makes them."""


@dataclass(slots=True)
class Extracted:
    """The drafts of a session; what became of the claims, by reason; and why some windows were not asked about."""

    drafts: list[Draft]
    counts: Counter[str] = field(default_factory=Counter)
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A turn as evidence."""

    turn: Turn
    voices: Voices
    pieces: tuple[Evidence | Exchange, ...]
    sources: tuple[NodeId, ...]

    def keeps(self, piece: Evidence | Exchange) -> bool:
        """Whether a claim that this piece bears can say something that lasts."""
        if isinstance(piece, Exchange):
            return bool(statements(piece))
        trimmed = trim(plain(piece.text), self.voices.addressee if self.voices.people else None)
        names = names_of(self.voices.speaker, self.voices.addressee)
        return bool(trimmed) and judge(trimmed, speaker_of(self.turn.role), names).kept


def extract(
    turns: Sequence[Turn], new_from: int, drafts: Sequence[Draft], model: Asker, remembered: Remembered, tell: Tell
) -> Extracted:
    """Let the model better the deterministic drafts of the turns from ordinal `new_from` on."""
    found = Extracted(list(drafts))
    windows = list(_windows(_telling(_spoken(turns, new_from)), model))
    for done, window in enumerate(windows):
        tell(done, len(windows))
        try:
            answer = json.loads(remembered(*_asked(window, model)))
        except LlmUnavailable as error:
            found.why_not = str(error)
            found.counts["windows without the model"] += len(windows) - done
            break
        except LlmRefused:
            found.counts["windows refused"] += 1
            continue
        for claim in _claims(answer):
            _take(found, claim, window)
    return found


def _spoken(turns: Sequence[Turn], new_from: int) -> list[_Spoken]:
    voices = voices_of(turns)
    spoken = []
    for position, turn in enumerate(turns):
        if turn.ordinal >= new_from and turn.role not in (Role.SYSTEM, Role.TOOL) and turn.text.strip():
            previous = position - 1 if position and turns[position - 1].role != turn.role else None
            pieces = list(_sentences(turn, voices[position]))
            sources: tuple[NodeId, ...] = (turn.node_id,)
            if previous is not None and pieces:
                asked = [piece for piece in _sentences(turns[previous], voices[previous]) if is_question(piece.text)]
                pieces += [Exchange(asked[-1], pieces[0])] if asked and isinstance(pieces[0], Evidence) else []
                sources = (turn.node_id, turns[previous].node_id)
            spoken.append(_Spoken(turn, voices[position], tuple(pieces), sources))
    return spoken


def _sentences(turn: Turn, voices: Voices) -> Iterator[Any]:
    before = ""
    for sentence in split(evidence_text(turn)):
        yield Evidence(sentence.text, voices, day_of(turn), before)
        before = sentence.text


def _telling(spoken: Sequence[_Spoken]) -> list[_Spoken]:
    """The turns that may yield a fact, and the questions which they answer: nobody is asked about a greeting."""
    wanted: set[NodeId] = set()
    for one in spoken:
        kept = [piece for piece in one.pieces if one.keeps(piece)]
        wanted |= {one.turn.node_id} if kept else set()
        wanted |= set(one.sources) if any(isinstance(piece, Exchange) for piece in kept) else set()
    return [one for one in spoken if one.turn.node_id in wanted]


def _windows(spoken: Sequence[_Spoken], model: Asker) -> Iterator[list[_Spoken]]:
    """Runs of turns that fit into the model's context with their answer."""
    room = max(400, (model.context_tokens - model.answer_tokens - PROMPT_TOKENS) * CHARS_A_TOKEN)
    most = max(1, min(MOST_TURNS, model.context_tokens // TOKENS_A_TURN))
    window: list[_Spoken] = []
    size = 0
    for one in spoken:
        length = len(_line(one))
        if window and (size + length > room or len(window) == most):
            yield window
            window, size = [], 0
        window.append(one)
        size += length
    if window:
        yield window


def _line(one: _Spoken) -> str:
    return f"{one.voices.speaker} – {plain(evidence_text(one.turn))[:MOST_TURN_CHARS]}"


def _asked(window: Sequence[_Spoken], model: Asker) -> tuple[list[str], Callable[[], bytes]]:
    """What decides the answer, and how to get it."""
    prompt = prompts.filled("facts", [_line(one) for one in window])
    schema = _schema(window)
    return ["facts", model.name, prompt, json.dumps(schema)], lambda: json.dumps(model.ask(prompt, schema)).encode()


def _schema(window: Sequence[_Spoken]) -> Mapping[str, Any]:
    """What an answer may be: no more facts, and none longer, than can come of what was said."""
    longest = min(MOST_CLAIM_CHARS, max(len(_line(one)) for one in window) + MORE_CHARS)
    claim = {
        "type": "object",
        "properties": {
            "turn": {"type": "integer", "enum": [*range(1, len(window) + 1)]},
            "fact": {"type": "string", "minLength": 16, "maxLength": longest},
        },
        "required": ["turn", "fact"],
    }
    kept = sum(one.keeps(piece) for one in window for piece in one.pieces)
    most = min(MOST_CLAIMS, max(len(window), kept) + 1)
    facts = {"type": "array", "items": claim, "minItems": 1, "maxItems": most}
    return {"type": "object", "properties": {"facts": facts}, "required": ["facts"]}


def _claims(answer: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Each claim as the turn that it names and one sentence."""
    for claim in answer["facts"]:
        sentences = [sentence.text for sentence in split(_NUMBER.sub("", str(claim["fact"])))]
        for text in sentences or [""]:
            yield int(claim["turn"]) - 1, text


def _take(found: Extracted, claim: tuple[int, str], window: Sequence[_Spoken]) -> None:
    """Judge one claim, and let what is grounded into the drafts."""
    named, text = claim
    found.counts["claims"] += 1
    one, verdict = _borne(text, window, named)
    if verdict.refusal is not None or verdict.evidence is None:
        found.counts["refused"] += 1
        found.counts[f"refused, {verdict.refusal}"] += 1
        return
    found.counts["claims accepted"] += 1
    draft = _draft(text, one, verdict.evidence)
    if draft is None:
        found.counts["accepted, not worth keeping"] += 1
    else:
        found.counts[_place(found.drafts, draft)] += 1


def _borne(text: str, window: Sequence[_Spoken], named: int) -> tuple[_Spoken, Verdict]:
    """The turn that bears a claim: the one that it names, else another of the window that does."""
    first = window[named]
    verdict = ground(text, first.pieces)
    if verdict.is_grounded:
        return first, verdict
    for other in window:
        if other is not first and (better := ground(text, other.pieces)).is_grounded:
            return other, better
    return first, verdict


def _draft(text: str, one: _Spoken, evidence: Evidence | Exchange) -> Draft | None:
    """The claim as a draft, rewritten to stand alone as all drafts are; None where it says nothing that lasts."""
    answer = evidence.answer if isinstance(evidence, Exchange) else evidence
    stated = _stated(text, one.voices)
    if not stated or is_question(stated) or not one.keeps(evidence):
        return None
    told = attributed(stand_alone(stated, one.voices, day_of(one.turn)), one.voices)
    sources = one.sources if isinstance(evidence, Exchange) else one.sources[:1]
    about = one.voices.speaker.removeprefix("the ")
    return Draft(told, nature(answer.text, speaker_of(one.turn.role)), sources, one.turn.at, about, by_model=True)


def _stated(text: str, voices: Voices) -> str:
    """A claim as a sentence alone: without "Ann –" in front and marks of JSON behind, and without a greeting."""
    untagged = re.sub(rf"^(?:(?:{re.escape(voices.speaker)}|I)\s*[:–—-]\s+)+", "", text, flags=re.IGNORECASE)
    untagged = re.sub(r"[\s,;:{}\[\]\\]+$", "", untagged)
    return trim(plain(untagged), voices.addressee if voices.people else None)


def _place(drafts: list[Draft], new: Draft) -> str:
    """Put a grounded draft where it belongs; what was done with it."""
    stems = set(content_stems(new.text))
    last = -1
    for at, old in enumerate(drafts):
        if not set(old.sources) & set(new.sources):
            continue
        last = at
        known = set(content_stems(old.text))
        if normal_form(old.text) == normal_form(new.text) or (
            known == stems and _leaning(new.text) <= _leaning(old.text)
        ):
            drafts[at] = replace(old, text=new.text, by_model=True)
            return "confirmed"
        if known < stems and _leaning(new.text) <= _leaning(old.text) and old.sources[0] in new.sources:
            drafts[at] = replace(new, sources=tuple(dict.fromkeys([*old.sources, *new.sources])))
            return "taken over"
        if stems <= known:
            return "known already"
    drafts.insert(last + 1 if last >= 0 else len(drafts), new)
    return "added"


def _leaning(text: str) -> int:
    """How many words of a text point at something outside it."""
    return sum(word in lexicon("third_person") or word in {"it", "that", "this"} for word in words(text))

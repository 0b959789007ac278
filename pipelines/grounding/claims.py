"""Claims: a language model is asked for the facts of a session, a window of turns at a time; verification decides.

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
from ...store.text.sentences import split
from ...store.text.word_lists import lexicon
from ..extract.classify import classify
from ..extract.decontextualize import Participants, decontextualize
from ..extract.facts import Draft, attributed, day_of, evidence_text, participants_of, speaker_of
from ..extract.salience import is_question, judge, names_of
from ..extract.trimming import plain, trim
from ..language.content import content_stems
from . import prompts
from .qa_pairs import QaPair, statements
from .tokens import SourceSentence
from .verify import GroundingResult, ground

_NUMBER = re.compile(r"^\s*\[\d+\]\s*")
MOST_TURNS = 12
TOKENS_A_TURN = 700
"""A model with little context is a small one, and loses itself where it sees more than a turn or two."""
MOST_TURN_CHARS = 1200
MOST_CLAIMS = 24
MOST_CLAIM_CHARS = 240
"""A small model that has begun to repeat itself would fill its whole answer with one claim."""
MORE_CHARS = 60
"""Characters that names and dates may add to a source sentence."""
PROMPT_TOKENS = 400
"""Tokens of the prompt without its record."""
OnProgress = Callable[[int, int], None]
Remembered = Callable[[Sequence[str], Callable[[], bytes]], bytes]
"""Gives the bytes that were made of these parts before, or makes them."""


@dataclass(slots=True)
class Extraction:
    """The drafts of a session; the number of claims by outcome; the reason why some windows were left out."""

    drafts: list[Draft]
    counts: Counter[str] = field(default_factory=Counter)
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class _CitedTurn:
    """A turn with its source sentences."""

    turn: Turn
    participants: Participants
    pieces: tuple[SourceSentence | QaPair, ...]
    sources: tuple[NodeId, ...]

    def keeps(self, piece: SourceSentence | QaPair) -> bool:
        """Check that a claim supported by this piece can be worth keeping."""
        if isinstance(piece, QaPair):
            return bool(statements(piece))
        trimmed = trim(plain(piece.text), self.participants.addressee if self.participants.people else None)
        names = names_of(self.participants.speaker, self.participants.addressee)
        return bool(trimmed) and judge(trimmed, speaker_of(self.turn.role), names).kept


def extract(
    turns: Sequence[Turn],
    new_from: int,
    drafts: Sequence[Draft],
    model: Asker,
    remembered: Remembered,
    on_progress: OnProgress,
) -> Extraction:
    """Improve the deterministic drafts of the turns from ordinal `new_from` on with the model's claims."""
    found = Extraction(list(drafts))
    windows = list(_windows(_promising(_cited_turns(turns, new_from)), model))
    for done, window in enumerate(windows):
        on_progress(done, len(windows))
        try:
            answer = json.loads(remembered(*_request(window, model)))
        except LlmUnavailable as error:
            found.why_not = str(error)
            found.counts["windows without the model"] += len(windows) - done
            break
        except LlmRefused:
            found.counts["windows refused"] += 1
            continue
        for claim in _claims(answer):
            _merge_claim(found, claim, window)
    return found


def _cited_turns(turns: Sequence[Turn], new_from: int) -> list[_CitedTurn]:
    participants = participants_of(turns)
    cited = []
    for position, turn in enumerate(turns):
        if turn.ordinal >= new_from and turn.role not in (Role.SYSTEM, Role.TOOL) and turn.text.strip():
            previous = position - 1 if position and turns[position - 1].role != turn.role else None
            pieces = list(_sentences(turn, participants[position]))
            sources: tuple[NodeId, ...] = (turn.node_id,)
            if previous is not None and pieces:
                asked = [
                    piece for piece in _sentences(turns[previous], participants[previous]) if is_question(piece.text)
                ]
                pieces += [QaPair(asked[-1], pieces[0])] if asked and isinstance(pieces[0], SourceSentence) else []
                sources = (turn.node_id, turns[previous].node_id)
            cited.append(_CitedTurn(turn, participants[position], tuple(pieces), sources))
    return cited


def _sentences(turn: Turn, participants: Participants) -> Iterator[Any]:
    before = ""
    for sentence in split(evidence_text(turn)):
        yield SourceSentence(sentence.text, participants, day_of(turn), before)
        before = sentence.text


def _promising(cited: Sequence[_CitedTurn]) -> list[_CitedTurn]:
    """Return the turns that may yield a fact, and the questions that they answer; a greeting yields none."""
    wanted: set[NodeId] = set()
    for one in cited:
        kept = [piece for piece in one.pieces if one.keeps(piece)]
        wanted |= {one.turn.node_id} if kept else set()
        wanted |= set(one.sources) if any(isinstance(piece, QaPair) for piece in kept) else set()
    return [one for one in cited if one.turn.node_id in wanted]


def _windows(cited: Sequence[_CitedTurn], model: Asker) -> Iterator[list[_CitedTurn]]:
    """Yield runs of turns that fit into the model's context with their answer."""
    room = max(400, (model.context_tokens - model.answer_tokens - PROMPT_TOKENS) * CHARS_A_TOKEN)
    most = max(1, min(MOST_TURNS, model.context_tokens // TOKENS_A_TURN))
    window: list[_CitedTurn] = []
    size = 0
    for one in cited:
        length = len(_line(one))
        if window and (size + length > room or len(window) == most):
            yield window
            window, size = [], 0
        window.append(one)
        size += length
    if window:
        yield window


def _line(one: _CitedTurn) -> str:
    return f"{one.participants.speaker} – {plain(evidence_text(one.turn))[:MOST_TURN_CHARS]}"


def _request(window: Sequence[_CitedTurn], model: Asker) -> tuple[list[str], Callable[[], bytes]]:
    """Return the parts that the answer depends on, and the call that gets it."""
    prompt = prompts.filled("facts", [_line(one) for one in window])
    schema = _schema(window)
    return ["facts", model.name, prompt, json.dumps(schema)], lambda: json.dumps(model.ask(prompt, schema)).encode()


def _schema(window: Sequence[_CitedTurn]) -> Mapping[str, Any]:
    """Return the schema of an answer: no more facts, and none longer, than the turns can yield."""
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
    """Yield each claim as the turn that it names and one sentence."""
    for claim in answer["facts"]:
        sentences = [sentence.text for sentence in split(_NUMBER.sub("", str(claim["fact"])))]
        for text in sentences or [""]:
            yield int(claim["turn"]) - 1, text


def _merge_claim(found: Extraction, claim: tuple[int, str], window: Sequence[_CitedTurn]) -> None:
    """Verify one claim, and merge it into the drafts if it is grounded."""
    named, text = claim
    found.counts["claims"] += 1
    one, verdict = _grounded(text, window, named)
    if verdict.refusal is not None or verdict.evidence is None:
        found.counts["refused"] += 1
        found.counts[f"refused, {verdict.refusal}"] += 1
        return
    found.counts["claims accepted"] += 1
    draft = _draft(text, one, verdict.evidence)
    if draft is None:
        found.counts["accepted, not worth keeping"] += 1
    else:
        found.counts[_merge(found.drafts, draft)] += 1


def _grounded(text: str, window: Sequence[_CitedTurn], named: int) -> tuple[_CitedTurn, GroundingResult]:
    """Return the turn that supports a claim: the one that it names, else another of the window."""
    first = window[named]
    verdict = ground(text, first.pieces)
    if verdict.is_grounded:
        return first, verdict
    for other in window:
        if other is not first and (better := ground(text, other.pieces)).is_grounded:
            return other, better
    return first, verdict


def _draft(text: str, one: _CitedTurn, evidence: SourceSentence | QaPair) -> Draft | None:
    """Return the claim as a decontextualized draft; None if it is not worth keeping."""
    answer = evidence.answer if isinstance(evidence, QaPair) else evidence
    stated = _stated(text, one.participants)
    if not stated or is_question(stated) or not one.keeps(evidence):
        return None
    worded = attributed(decontextualize(stated, one.participants, day_of(one.turn)), one.participants)
    attributes = classify(answer.text, speaker_of(one.turn.role))
    sources = one.sources if isinstance(evidence, QaPair) else one.sources[:1]
    about = one.participants.speaker.removeprefix("the ")
    return Draft(worded, attributes, sources, one.turn.at, about, by_model=True)


def _stated(text: str, participants: Participants) -> str:
    """Return a claim as a bare sentence: without "Ann –" in front, marks of JSON behind, and greetings."""
    untagged = re.sub(rf"^(?:(?:{re.escape(participants.speaker)}|I)\s*[:–—-]\s+)+", "", text, flags=re.IGNORECASE)
    untagged = re.sub(r"[\s,;:{}\[\]\\]+$", "", untagged)
    return trim(plain(untagged), participants.addressee if participants.people else None)


def _merge(drafts: list[Draft], new: Draft) -> str:
    """Merge a grounded draft into the others; return how."""
    stems = set(content_stems(new.text))
    last = -1
    for at, old in enumerate(drafts):
        if not set(old.sources) & set(new.sources):
            continue
        last = at
        known = set(content_stems(old.text))
        if normal_form(old.text) == normal_form(new.text) or (
            known == stems and _pointing_words(new.text) <= _pointing_words(old.text)
        ):
            drafts[at] = replace(old, text=new.text, by_model=True)
            return "confirmed"
        if known < stems and _pointing_words(new.text) <= _pointing_words(old.text) and old.sources[0] in new.sources:
            drafts[at] = replace(new, sources=tuple(dict.fromkeys([*old.sources, *new.sources])))
            return "taken over"
        if stems <= known:
            return "known already"
    drafts.insert(last + 1 if last >= 0 else len(drafts), new)
    return "added"


def _pointing_words(text: str) -> int:
    """Count the words of a text that point at something outside it."""
    return sum(word in lexicon("third_person") or word in {"it", "that", "this"} for word in words(text))

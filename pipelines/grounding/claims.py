"""Claims: a language model is asked what of a session is worth remembering, a window of turns at a time.

It chooses, and what is kept is the quote: the whole sentences in which its claim stands. Of what the rules leave out it
may add only what is nearly worth keeping by them, so that a model that babbles cannot fill a memory; and no draft is
ever lost to it. A claim may name the wrong turn of its window: it is put down to the one that bears it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...llm.budget import CHARS_A_TOKEN, Asker
from ...llm.model import LlmRefused, LlmUnavailable
from ...store.judges.judge import Judgement
from ...store.model import Turn
from ..extract.facts import NEARLY, Draft, draft_of
from ..extract.keys import Names
from ..extract.passages import Passage, passages_of
from ..extract.places import Place, judged, places_of
from ..extract.proposals import replied_to
from ..extract.worth import worth_of
from . import prompts
from .verify import GroundingResult, Refusal, Source, ground, is_quoted

_CITATION = re.compile(r"^\s*\[\d+\]\s*")
MOST_TURNS = 12
TOKENS_A_TURN = 700
"""A model with little context is a small one, and loses itself where it sees more than a turn or two."""
MOST_TURN_CHARS = 1200
MOST_CLAIMS = 24
MOST_CLAIM_CHARS = 240
"""A small model that has begun to repeat itself would fill its whole answer with one claim."""
MORE_CHARS = 60
"""Characters that a speaker's name may add to a source sentence."""
NEARLY_AMONG_PEOPLE = -1.0
"""Least worth, by signs, of what a model may keep of people's talk."""
PROMPT_TOKENS = 400
"""Tokens of the prompt without its record."""
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class Extraction:
    """The drafts of a session; the number of claims by outcome; the reason why some windows were left out."""

    drafts: list[Draft]
    counts: Counter[str] = field(default_factory=Counter)
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A turn that may yield a fact, with its passages."""

    place: Place
    judgement: Judgement | None
    passages: tuple[Passage, ...]

    def sources(self) -> list[Source]:
        """Return the passages as what a claim may rest on."""
        said_on = self.place.turn.at.date() if self.place.turn.at else None
        other = self.place.before.turn.role if self.place.before else ""
        return [Source(passage.text, self.place.turn.role, other, said_on) for passage in self.passages]


def extract(
    turns: Sequence[Turn],
    new_from: int,
    drafts: Sequence[Draft],
    model: Asker,
    remembered: prompts.Remembered,
    on_progress: OnProgress,
) -> Extraction:
    """Add to the drafts of the turns from ordinal `new_from` on what the model chooses beside them."""
    found = Extraction(list(drafts))
    places = places_of(turns)
    names = Names(places)
    windows = list(_windows(list(_candidates(places, new_from)), model))
    for done, window in enumerate(windows):
        on_progress(done, len(windows))
        try:
            prompt = prompts.filled("facts", [_line(one) for one in window])
            answer = prompts.answer_to(prompt, _schema(window), model, remembered)
        except LlmUnavailable as error:
            found.why_not = str(error)
            found.counts["windows without the model"] += len(windows) - done
            break
        except LlmRefused:
            found.counts["windows refused"] += 1
            continue
        for named, text in _claims(answer):
            _take_claim(found, text, window, named, names)
    return found


def _candidates(places: Sequence[Place], new_from: int) -> Iterator[_Candidate]:
    """Yield the turns of which something is nearly worth keeping; a greeting is not."""
    judgements = judged(places, new_from)
    for at, place in enumerate(places):
        passages = passages_of(place) if place.turn.ordinal >= new_from else []
        judgement = judgements.get(at)
        is_near = judgement.worth >= NEARLY if judgement else any(_is_near(one.text, place) for one in passages)
        if passages and is_near:
            yield _Candidate(place, judgement, tuple(passages))


def _is_near(passage: str, place: Place) -> bool:
    return worth_of(passage, place) >= NEARLY_AMONG_PEOPLE


def _windows(candidates: Sequence[_Candidate], model: Asker) -> Iterator[list[_Candidate]]:
    """Yield runs of turns that fit into the model's context with their answer."""
    room = max(400, (model.context_tokens - model.answer_tokens - PROMPT_TOKENS) * CHARS_A_TOKEN)
    most = max(1, min(MOST_TURNS, model.context_tokens // TOKENS_A_TURN))
    window: list[_Candidate] = []
    size = 0
    for one in candidates:
        length = len(_line(one))
        if window and (size + length > room or len(window) == most):
            yield window
            window, size = [], 0
        window.append(one)
        size += length
    if window:
        yield window


def _line(one: _Candidate) -> str:
    return f"{one.place.turn.role} – {' '.join(one.place.text.split())[:MOST_TURN_CHARS]}"


def _schema(window: Sequence[_Candidate]) -> Mapping[str, Any]:
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
    most = min(MOST_CLAIMS, sum(len(one.passages) for one in window) + 1)
    facts = {"type": "array", "items": claim, "minItems": 1, "maxItems": most}
    return {"type": "object", "properties": {"facts": facts}, "required": ["facts"]}


def _claims(answer: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield each claim as the turn that it names and its text."""
    for claim in answer["facts"]:
        yield int(claim["turn"]) - 1, _CITATION.sub("", str(claim["fact"]))


def _take_claim(found: Extraction, text: str, window: Sequence[_Candidate], named: int, names: Names) -> None:
    """Keep the quote on which a claim rests, if it is nearly worth keeping and not there yet."""
    found.counts["claims"] += 1
    one, verdict = _grounded(text, window, named)
    if verdict.evidence is None:
        found.counts["refused"] += 1
        found.counts[f"refused, {verdict.refusal}"] += 1
        return
    found.counts["claims accepted"] += 1
    passage = next(passage for passage in one.passages if passage.text == verdict.evidence.text)
    if one.judgement is None and not _is_near(passage.text, one.place):
        found.counts["accepted, not worth keeping"] += 1
    else:
        found.counts[_merge(found.drafts, one, passage, names)] += 1


def _grounded(text: str, window: Sequence[_Candidate], named: int) -> tuple[_Candidate, GroundingResult]:
    """Return the turn that supports a claim: the one that it names, else another of the window."""
    first = window[named]
    refused = GroundingResult(Refusal.NO_EVIDENCE)
    for one in (first, *(other for other in window if other is not first)):
        stated = re.sub(rf"^(?:{re.escape(one.place.turn.role)}\s*[:–—-]\s+)+", "", text, flags=re.IGNORECASE)
        quoted = next((source for source in one.sources() if is_quoted(stated, source.text)), None)
        verdict = GroundingResult(None, quoted) if quoted else ground(stated, one.sources())
        if verdict.is_grounded:
            return one, verdict
        refused = verdict if one is first else refused
    return first, refused


def _merge(drafts: list[Draft], one: _Candidate, passage: Passage, names: Names) -> str:
    """Mark the draft that has this passage as chosen by the model too, or add it; return how."""
    last = -1
    for at, old in enumerate(drafts):
        if old.sources[0] == one.place.turn.node_id:
            last = at
            if passage.text in old.text:
                drafts[at] = replace(old, by_model=True)
                return "confirmed"
    proposal = replied_to(one.place, one.judgement.reply if one.judgement else "")
    new = replace(draft_of(passage.text, one.place, names, one.judgement, proposal), by_model=True)
    drafts.insert(last + 1 if last >= 0 else len(drafts), new)
    return "added"

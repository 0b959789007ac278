"""Claims: a language model chooses from a session the facts worth remembering, a window of turns at a time.

The quote is kept, never the model's words: the whole sentences that support its claim. It may only add turns that the
rules find nearly worth keeping, so that a verbose model cannot fill a memory, and it removes no draft. A claim that
names the wrong turn of its window is assigned to the turn that supports it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...llm.budget import CHARS_A_TOKEN, Asker
from ...llm.language_model import LlmRefused, LlmUnavailable
from ...store.judges.judge import Judgement
from ...store.model import Turn
from ..extract.contexts import TurnContext, contexts_of, judged
from ..extract.facts import Draft, Names, draft_of
from ..extract.passages import TurnPassage, passages_of
from ..extract.replies import replied_to
from ..extract.worth import worth_of
from ..settings import NEARLY_WORTH
from .verify import ClaimRefusal, ClaimSource, GroundingResult, ground, is_quoted

Remembered = Callable[[Sequence[str], Callable[[], bytes]], bytes]
"""Returns the bytes made from these parts by an earlier call, or makes them (`workspace.memo.once`)."""

_FOLDER = Path(__file__).parent / "templates"
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+"
)
_MARKS = str.maketrans({"<": "‹", ">": "›", "{": "(", "}": ")", "|": "¦"})
_INST = re.compile(r"\[\s*(/?)\s*(INST|SYS|SYSTEM|USER|ASSISTANT|TOOL_CALLS|AVAILABLE_TOOLS)\s*\]", re.IGNORECASE)
_HASHES = re.compile(r"#{2,}|`{3,}|={4,}|-{4,}|\*{3,}")
_ROLE = re.compile(r"\b(system|user|assistant|human|ai|model|tool|developer|instructions?|record)(\s*):", re.IGNORECASE)

_CITATION = re.compile(r"^\s*\[\d+\]\s*")
MOST_TURNS = 12

# A model with a short context is a small one and fails on more than one or two turns.
TOKENS_A_TURN = 700
MOST_TURN_CHARS = 1200
MOST_CLAIMS = 24

# A small model that begins to repeat itself would fill its whole answer with one claim.
MOST_CLAIM_CHARS = 240

# Characters that the speaker's name may add to a claim.
MORE_CHARS = 60

# Smallest worth, by signs, of a passage among people that a model may keep.
NEARLY_AMONG_PEOPLE = -1.0

# Length of the prompt without its record.
PROMPT_TOKENS = 400
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class Extraction:
    """The drafts of a session; the number of claims by outcome; the reason why some windows were left out."""

    drafts: list[Draft]
    counts: Counter[str] = field(default_factory=Counter)
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class _CandidateTurn:
    """A turn that may yield a fact, with its passages."""

    context: TurnContext
    judgement: Judgement | None
    passages: tuple[TurnPassage, ...]

    def sources(self) -> list[ClaimSource]:
        """Return the passages as sources of a claim."""
        said_on = self.context.turn.at.date() if self.context.turn.at else None
        other = self.context.before.turn.role if self.context.before else ""
        return [ClaimSource(passage.text, self.context.turn.role, other, said_on) for passage in self.passages]


def extract(
    turns: Sequence[Turn],
    new_from: int,
    drafts: Sequence[Draft],
    model: Asker,
    remembered: Remembered,
    on_progress: OnProgress,
) -> Extraction:
    """Return the drafts of the turns from ordinal `new_from` on, with the model's choices added."""
    found = Extraction(list(drafts))
    contexts = contexts_of(turns)
    names = Names(contexts)
    windows = list(_windows(list(_candidates(contexts, new_from)), model))
    for done, window in enumerate(windows):
        on_progress(done, len(windows))
        try:
            prompt = filled("facts", [_line(one) for one in window])
            answer = answer_to(prompt, _schema(window), model, remembered)
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


def _candidates(contexts: Sequence[TurnContext], new_from: int) -> Iterator[_CandidateTurn]:
    """Yield the turns that are nearly worth keeping; a greeting is not."""
    judgements = judged(contexts, new_from)
    for at, context in enumerate(contexts):
        passages = passages_of(context) if context.turn.ordinal >= new_from else []
        judgement = judgements.get(at)
        is_near = judgement.worth >= NEARLY_WORTH if judgement else any(_is_near(one.text, context) for one in passages)
        if passages and is_near:
            yield _CandidateTurn(context, judgement, tuple(passages))


def _is_near(passage: str, context: TurnContext) -> bool:
    return worth_of(passage, context) >= NEARLY_AMONG_PEOPLE


def _windows(candidates: Sequence[_CandidateTurn], model: Asker) -> Iterator[list[_CandidateTurn]]:
    """Yield runs of turns that fit into the model's context with their answer."""
    room = max(400, (model.context_tokens - model.answer_tokens - PROMPT_TOKENS) * CHARS_A_TOKEN)
    most = max(1, min(MOST_TURNS, model.context_tokens // TOKENS_A_TURN))
    window: list[_CandidateTurn] = []
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


def _line(one: _CandidateTurn) -> str:
    return f"{one.context.turn.role} – {' '.join(one.context.text.split())[:MOST_TURN_CHARS]}"


def _schema(window: Sequence[_CandidateTurn]) -> Mapping[str, Any]:
    """Return the schema of an answer; number and length of facts are bounded by the turns."""
    longest = min(MOST_CLAIM_CHARS, max(len(_line(one)) for one in window) + MORE_CHARS)
    claim = {
        "type": "object",
        "properties": {
            "turn": {"type": "integer", "enum": [*range(1, len(window) + 1)]},
            "fact": {"type": "string", "minLength": 16, "maxLength": longest},
        },
        "required": ["turn", "fact"],
    }
    # A constrained answer cannot run away: a model that would go on is cut by the schema.
    most = min(MOST_CLAIMS, sum(len(one.passages) for one in window) + 1)
    facts = {"type": "array", "items": claim, "minItems": 1, "maxItems": most}
    return {"type": "object", "properties": {"facts": facts}, "required": ["facts"]}


def _claims(answer: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield each claim as the index of its turn and its text."""
    for claim in answer["facts"]:
        yield int(claim["turn"]) - 1, _CITATION.sub("", str(claim["fact"]))


def _take_claim(found: Extraction, text: str, window: Sequence[_CandidateTurn], named: int, names: Names) -> None:
    """Keep the quote that supports a claim, if it is nearly worth keeping and new."""
    found.counts["claims"] += 1
    one, verdict = _grounded(text, window, named)
    if verdict.evidence is None:
        found.counts["refused"] += 1
        found.counts[f"refused, {verdict.refusal}"] += 1
        return
    found.counts["claims accepted"] += 1
    passage = next(passage for passage in one.passages if passage.text == verdict.evidence.text)
    if one.judgement is None and not _is_near(passage.text, one.context):
        found.counts["accepted, not worth keeping"] += 1
    else:
        found.counts[_merge(found.drafts, one, passage, names)] += 1


def _grounded(text: str, window: Sequence[_CandidateTurn], named: int) -> tuple[_CandidateTurn, GroundingResult]:
    """Return the turn that supports a claim: the one that it names, else another of the window."""
    first = window[named]
    refused = GroundingResult(ClaimRefusal.NO_EVIDENCE)
    for one in (first, *(other for other in window if other is not first)):
        # Models put the speaker's name in front, as the record does: "Ines: I prefer tea".
        stated = re.sub(rf"^(?:{re.escape(one.context.turn.role)}\s*[:–—-]\s+)+", "", text, flags=re.IGNORECASE)
        quoted = next((source for source in one.sources() if is_quoted(stated, source.text)), None)
        verdict = GroundingResult(None, quoted) if quoted else ground(stated, one.sources())
        if verdict.is_grounded:
            return one, verdict
        refused = verdict if one is first else refused
    return first, refused


def _merge(drafts: list[Draft], one: _CandidateTurn, passage: TurnPassage, names: Names) -> str:
    """Mark the draft of this passage as chosen by the model, or add one; return the outcome's name."""
    last = -1
    for at, old in enumerate(drafts):
        if old.sources[0] == one.context.turn.node_id:
            last = at
            if passage.text in old.text:
                drafts[at] = replace(old, by_model=True)
                return "confirmed"
    proposal = replied_to(one.context, one.judgement.reply if one.judgement else "")
    new = replace(draft_of(passage.text, one.context, names, one.judgement, proposal), by_model=True)
    drafts.insert(last + 1 if last >= 0 else len(drafts), new)
    return "added"


# ---- prompts: the templates of the folder, filled with a conversation that cannot instruct the model
#
# The conversation is data. It is enclosed in two fences with the hash of the enclosed text, so no text can imitate its
# fence. Each turn is one line of JSON, like the answer: even a very small model then copies rather than invents. Marks
# of a role or a template are broken up. A transcript may still mislead a model: its answers are claims, and grounded.


@cache
def prompt(name: str) -> str:
    """Return the template of one prompt, with its {places}."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def filled(name: str, turns: Sequence[str]) -> str:
    """Fill a prompt with these turns as its record, numbered from 1."""
    return with_record(name, [{"turn": number, "said": harmless(text)} for number, text in enumerate(turns, start=1)])


def with_record(name: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Fill a prompt with these lines as its record; their texts must be `harmless`."""
    record = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    fence = sha256(record.encode("utf-8", "replace")).hexdigest()[:16]
    return prompt(name).replace("{fence}", fence).replace("{record}", record)


def answer_to(prompt: str, schema: Mapping[str, Any], model: Asker, remembered: Remembered) -> dict[str, Any]:
    """Return a model's answer, remembered if it was asked the same before. Raises LlmUnavailable, LlmRefused."""
    ask = lambda: json.dumps(model.ask(prompt, schema), ensure_ascii=False).encode()  # noqa: E731
    answer: dict[str, Any] = json.loads(remembered([model.name, prompt, json.dumps(schema)], ask))
    return answer


def harmless(text: str) -> str:
    """Return a text on one line with every mark of a role, a template or a fence broken up, readable as before."""
    line = " ".join(_INVISIBLE.sub(" ", text).split())
    line = _INST.sub(lambda mark: f"({mark[1]}{mark[2]})", line.translate(_MARKS))
    line = _HASHES.sub(lambda mark: mark[0][0], line)
    return _ROLE.sub(lambda mark: f"{mark[1]}{mark[2]} -", line).encode("utf-8", "replace").decode()

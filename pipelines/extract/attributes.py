"""Attributes of a quote: the kind, tense, certainty and provenance of its fact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...store.changes.agent_statements import STEERING
from ...store.judges.judge import Judgement
from ...store.model import Kind, Memory, Turn
from ...store.okf.memory_file import is_by_hand
from ...store.roles import Role
from ...store.text.fence import plain
from ...store.text.languages import phrases
from ...store.text.quotes import read_reply
from ...store.text.words import CODE_SPAN
from .contexts import Speaker, TurnContext, contexts_of, quotes_another, without_marked
from .worth import signs_of

EXPLICIT, IMPLIED, INFERRED = 0.95, 0.85, 0.70

# Phrases that decide the kind of a statement, outside quotation marks and code, the surest first.
_BY_WORDS = (
    ("kind.decided", Kind.DECISION),
    ("kind.rule", Kind.PREFERENCE),
    ("worth.preference", Kind.PREFERENCE),
    ("worth.decision", Kind.DECISION),
)

DONE = "done"
"""The judge's label for a change that an assistant made. It makes no fact: the work itself shows it."""

OBSERVED = "observed"
"""The provenance of what an agent did, or found beside the outcome of a tool."""

WORTH, REPLY, STANDING = "worth", "reply", "standing"
"""The frontmatter keys of a fact's worth at extraction, 0 to 1, of the judge's label for how its turn replies, and of
the probability that it says how things are to be from now on."""

# Worth of words that a person had remembered, or put in place of others, and of a fact from before worth was recorded.
REMEMBERED_WORTH, UNKNOWN_WORTH = 1.0, 0.5

# Worth added for each further session in which it was said.
SAID_AGAIN_WORTH = 1.0


@dataclass(frozen=True, slots=True)
class FactAttributes:
    """The attributes of a fact, for its frontmatter."""

    kind: Kind
    tense: str
    certainty: float
    provenance: str


def attributes_of(quote: str, context: TurnContext, judgement: Judgement) -> FactAttributes:
    """Return the attributes of a quote of a judged turn; possibly foreign words never become a rule or a preference."""
    kind = Kind(judgement.kind)
    is_assistant = context.speaker is Speaker.ASSISTANT
    is_foreign = context.after_web if is_assistant else quotes_another(plain(context.turn.text))
    if is_foreign and kind in STEERING:
        kind = Kind.FACT
    certainty = IMPLIED if is_assistant else EXPLICIT
    return FactAttributes(kind, _tense(quote), INFERRED if context.after_web else certainty, _provenance(kind, context))


def by_words(quote: str, context: TurnContext) -> FactAttributes:
    """Return the attributes by phrases, for talk among people and notes: the judge was trained on neither."""
    tense = _tense(quote)
    kind = _kind_by_words(quote, tense, context)
    return FactAttributes(kind, tense, EXPLICIT, _provenance(kind, context))


def _kind_by_words(quote: str, tense: str, context: TurnContext) -> Kind:
    # Numbered steps and refusals are surer signs than any phrase, so they come first.
    signs = signs_of(quote, context)
    if "steps" in signs:
        return Kind.PROCEDURE
    if context.speaker is Speaker.USER and "opens speech.reject" in signs:
        return Kind.PREFERENCE
    # A rule in quotation marks or code is quoted, not stated.
    own = CODE_SPAN.sub(" ", without_marked(quote))
    found = next((kind for section, kind in _BY_WORDS if phrases(section).search(own)), None)
    return found or (Kind.EPISODE if context.speaker is Speaker.PEER and tense == "past" else Kind.FACT)


def is_worded_as_rule(words: str) -> bool:
    """Check for the words of a rule ("never", "always") and no question."""
    return "?" not in words and phrases("kind.rule").search(words) is not None


def _tense(quote: str) -> str:
    if phrases("tense.future").search(quote):
        return "future"
    return "past" if phrases("tense.past").search(quote) and not phrases("worth.state").search(quote) else "current"


def _provenance(kind: Kind, context: TurnContext) -> str:
    """Return the provenance; an assistant's statement after reading the web is only inferred."""
    if context.speaker is Speaker.ASSISTANT:
        return "inferred" if context.after_web else OBSERVED
    return "user_corrected" if kind is Kind.CORRECTION else "user_stated"


def is_written(memory: Memory) -> bool:
    """Check for words that a person had remembered, or wrote in place of those that were said: none of them are judged.

    The keys of a judgement in its file are of the words before.
    """
    return not memory.sources or is_by_hand(memory)


@dataclass(frozen=True, slots=True)
class MemoryAttributes:
    """The kind and tense of a memory's statement, and its worth relative to others."""

    kind: Kind
    tense: str
    worth: float


def read_memory(memory: Memory) -> MemoryAttributes | None:
    """Return the attributes of a fact or a note; None where nothing is left without secrets.

    Kind and tense are taken from the memory where its words are those of a turn, else read from the words, as of a
    person's turn without context.
    """
    words, _ = read_reply(memory.text)
    found = _alone(words, memory.said_by or Role.USER)
    if found is None:
        return None
    sessions = {source.partition("#")[0] for source in memory.sources}
    known = memory.extra.get(WORTH)
    is_own = is_written(memory)
    worth = REMEMBERED_WORTH if is_own else float(known) if isinstance(known, int | float) else UNKNOWN_WORTH
    kind, tense = found
    is_unread = is_own and memory.kind in {Kind.NOTE, Kind.FACT}
    return MemoryAttributes(
        kind if is_unread and kind is not Kind.FACT else memory.kind,
        memory.tense or (tense if is_unread else ""),
        worth + SAID_AGAIN_WORTH * max(0, len(sessions) - 1),
    )


@lru_cache(maxsize=4096)
def _alone(words: str, role: str) -> tuple[Kind, str] | None:
    contexts = contexts_of([Turn("", 1, role, words, None, None)])
    if not contexts or not contexts[0].sentences:
        return None
    found = by_words(" ".join(contexts[0].sentences), contexts[0])
    return found.kind, found.tense

"""Statements of agents: whose words they may be, and those that wait for review by their person.

A page that an agent read may have told it what to have remembered. So each session that goes on is followed: had its
agent read a stranger's words since its person last spoke? Of the text only hashes are held, a bounded number, in
memory; a session that is not known is not trusted.

A statement that may be a stranger's is kept as the agent's own word and waits for review. It is found and quoted
meanwhile, but steers nothing: it is no instruction or procedure, is in no envelope unasked, and no dream builds on it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock
from typing import Any, Final

from ..channel import TEAM
from ..index.projection import CURATED, MOST_PRIORITY
from ..limits import INFERRED_CERTAINTY, STATED_CERTAINTY
from ..model import AWAITS_REVIEW, COLLEAGUE, GLOBAL_CHANNEL, InvalidInput, Kind, Memory, NewTurn, NodeId
from ..roles import MACHINES, Role
from ..text.fence import reads_foreign_words
from ..text.sentences import SENTENCE_OR_LINE_END
from ..text.words import normal_form

# Sessions in memory, and the sentences of one.
MOST_SESSIONS: Final = 200
MOST_SENTENCES: Final = 400

# Turns of a session that are read at once; with more, its earlier turns are dropped and it begins anew.
MOST_AT_ONCE: Final = 50

# Characters of a person's turn whose sentences count as their own; a longer turn was pasted.
LONGEST_WORDS: Final = 4000

# The time after the last turn for which a session is known: one that is named, and one of the same program.
NAMED_FOR, NEARBY_FOR = timedelta(hours=1), timedelta(minutes=10)

# The time in which a statement is judged after its session was read up to its end.
WHOLE_FOR: Final = timedelta(seconds=5)

# The beginnings of a person's command and of its output.
_PRINTED: Final = ("[it printed]", "[ran: ")

# In a line: the part after it is no statement without the part before it, so that the line is one sentence.
_BLOCK: Final = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,}).*?(?:^[ \t]{0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED: Final = re.compile(
    r"(?<!\w)\"[^\"]*(?:\"|\Z)|“[^”]*(?:”|\Z)|„[^“”]*(?:[“”]|\Z)|«[^»]*(?:»|\Z)|「[^」]*(?:」|\Z)"
    r"|(?<!\w)['‘](?=\S)(?:[^'’]|['’](?=\w))*(?:['’](?!\w)|\Z)"
)
_COLON: Final = re.compile(r":\s|：")

# The beginning of a line of code, of a quotation, or of a table.
_SHOWN: Final = re.compile(r" {4}|\t|[^\S\n]{0,3}[>|]")


class Origin(StrEnum):
    """The origin of an agent's statement, as far as is known.

    `said`: its person said the same; `own`: it can only come from the session's own words; `foreign`: it may come from
    a stranger's.
    """

    SAID = "said"
    OWN = "own"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class _LiveSession:
    """A session that goes on; `said` are the hashes of its person's sentences, the oldest first.

    One that is not read as it grows is known only until `whole_until`, shortly after it was read up to its end.
    """

    agent: str
    channel: str
    at: datetime
    is_known: bool = False
    is_foreign: bool = False
    said: OrderedDict[int, None] = field(default_factory=OrderedDict)
    grows_unseen: bool = False
    whole_until: datetime | None = None

    def trust(self, now: datetime) -> Origin:
        if self.is_foreign:
            return Origin.FOREIGN
        is_whole = not self.grows_unseen or (self.whole_until is not None and now <= self.whole_until)
        return Origin.OWN if self.is_known and is_whole else Origin.UNKNOWN


class ForeignWords:
    """Follows sessions as they go on. Every method may be called from any thread, and none waits."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = Lock()
        self._sessions: OrderedDict[NodeId, _LiveSession] = OrderedDict()

    def hear(
        self, session_id: NodeId, agent: str, channel: str, turns: Sequence[NewTurn], *, grows_unseen: bool = False
    ) -> None:
        """Read the turns of a session that goes on, in order, as soon as they are said; or later: `grows_unseen`."""
        # Sentences are hashed before the lock is taken: it is also taken by every statement of an agent.
        last = turns[-MOST_AT_ONCE:]
        heard_now = [(_is_word(turn), list(_sentences(own_words(turn.text))), turn) for turn in last]
        with self._lock:
            known = self._sessions.pop(session_id, None)
            heard = known if known and len(last) == len(turns) else _LiveSession(agent, channel, self._now())
            heard.at = self._now()
            heard.grows_unseen = grows_unseen
            # Example: the person speaks (known, not foreign), the agent fetches a page (foreign), the person speaks
            # again (not foreign): what the agent asks to keep from then on may be its own.
            for is_word, sentences, turn in heard_now:
                if is_word:
                    heard.is_known, heard.is_foreign = True, turn.is_foreign
                    heard.said.update(dict.fromkeys(sentences))
                elif turn.is_foreign or reads_foreign_words(turn.text):
                    heard.is_foreign = True
            self._keep(session_id, heard)

    def prompted(self, session_id: NodeId, agent: str, channel: str, prompt: str) -> None:
        """Note a person's words to a session of which nothing else may be heard: it is known by these alone."""
        sentences = dict.fromkeys(_sentences(own_words(prompt)))
        with self._lock:
            heard = self._sessions.pop(session_id, None) or _LiveSession(agent, channel, self._now())
            heard.at = self._now()
            heard.said.update(sentences)
            self._keep(session_id, heard)

    def caught_up(self, agent: str) -> None:
        """Note that all sessions of a program are read up to now."""
        with self._lock:
            for heard in self._sessions.values():
                if agent.startswith(heard.agent):
                    heard.whole_until = self._now() + WHOLE_FOR

    def miss(self, session_id: NodeId) -> None:
        """Forget a session of which turns were missed."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._sessions.clear()

    def trust(self, session_id: NodeId | None, agent: str, channel: str, text: str) -> Origin:
        """Return the origin of an agent's statement; `session_id` is as `observe` keeps it.

        Without a known session, all sessions of the same program in the channel count.
        """
        said = list(_sentences(text))
        with self._lock:
            near = self._near(session_id, agent, channel)
            if said and any(all(one in heard.said for one in said) for heard in near):
                return Origin.SAID
            found = {heard.trust(self._now()) for heard in near}
        # Several sessions may be meant, so the least trusted of them counts.
        if found == {Origin.OWN}:
            return Origin.OWN
        return Origin.FOREIGN if Origin.FOREIGN in found else Origin.UNKNOWN

    def refuse(self, session_id: NodeId | None, agent: str, channel: str, text: str) -> None:
        """Raise InvalidInput for an agent's change of a memory that may come of what strangers wrote."""
        trust = self.trust(session_id, agent, channel, text)
        if trust not in (Origin.SAID, Origin.OWN):
            raise InvalidInput(
                f"no memory is changed by an agent here: {_BECAUSE[trust]}",
                hint="Its person may change it; `remember` keeps a statement for their review.",
            )

    def _keep(self, session_id: NodeId, heard: _LiveSession) -> None:
        self._sessions[session_id] = heard
        while len(heard.said) > MOST_SENTENCES:
            heard.said.popitem(last=False)
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)

    def _near(self, session_id: NodeId | None, agent: str, channel: str) -> list[_LiveSession]:
        now = self._now()
        named = self._sessions.get(session_id) if session_id else None
        if named is not None:
            return [named] if now - named.at <= NAMED_FOR else []
        return [
            heard
            for heard in self._sessions.values()
            if heard.agent
            and agent.startswith(heard.agent)
            and channel in (heard.channel, GLOBAL_CHANNEL)
            and now - heard.at <= NEARBY_FOR
        ]


def _is_word(turn: NewTurn) -> bool:
    """Return True for a turn of the person that is no command of theirs, nor its output."""
    return turn.role == Role.USER and not turn.text.startswith(_PRINTED[:2])


def _sentences(text: str) -> Iterator[int]:
    """Yield the hash of each sentence of a short text, in normal form: equal for the same words."""
    if len(text) > LONGEST_WORDS:
        return
    for sentence in SENTENCE_OR_LINE_END.split(text):
        if words := normal_form(sentence):
            yield hash(words)


def own_words(text: str) -> str:
    """Return a person's turn without the parts that may be quoted: the rest is their own words.

    Left out are code, quotations (also over several lines), and the lines after one that ends with a colon, up to a
    gap: "Never do this:", "The page says:". A part left out in error waits for review; one left in would steer.
    """
    if len(text) > LONGEST_WORDS:
        return ""
    kept = []
    introduced = begun = False
    for line in _QUOTED.sub(" ", _BLOCK.sub("\n", text)).split("\n"):
        if not line.strip():
            introduced = introduced and not begun
            continue
        if not introduced and not _SHOWN.match(line):
            kept.append(SENTENCE_OR_LINE_END.sub(", ", line) if _COLON.search(line) else line)
        begun = introduced
        introduced = introduced or line.rstrip().endswith((":", "："))
    return "\n".join(kept)


# Kinds that are instructions, or speak in a person's name.
STEERING: Final = frozenset(
    {Kind.PROCEDURE, Kind.PREFERENCE, Kind.CORRECTION, Kind.NEGATIVE, Kind.DECISION, Kind.PITFALL}
)

INFERRED, STATED = "inferred", "user_stated"

_BECAUSE: Final = {
    Origin.FOREIGN: "its agent had read what strangers wrote",
    Origin.UNKNOWN: "the session of its agent is not known",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A memory that waits for review, the kind that its agent wants, and why. `always`: a priority, 0 for none.

    Of one that a colleague shared, `author` is who that is, and `quotes` its evidence, each with its day and speaker.
    """

    node_id: NodeId
    kind: Kind
    always: int
    because: str
    agent: str
    channel: str
    text: str
    at: datetime | None
    author: str = ""
    quotes: tuple[str, ...] = ()


def as_trusted(memory: Memory, trust: Origin) -> Memory:
    """Return an agent's statement as it is kept: if it may be a stranger's, as the agent's own, inferred word.

    A plain fact or note of an unknown session is kept as it is.
    """
    always = memory.extra.get(CURATED, 0)
    steers = memory.kind in STEERING or bool(always)
    if trust in (Origin.SAID, Origin.OWN) or (trust is Origin.UNKNOWN and not steers):
        return memory
    extra = {key: value for key, value in memory.extra.items() if key != CURATED}
    if steers:
        wanted = {"kind": memory.kind.value} | ({"always": always} if always else {})
        extra[AWAITS_REVIEW] = {**wanted, "because": _BECAUSE[trust]}
    return replace(
        memory,
        kind=memory.kind if memory.kind is Kind.EPISODE else Kind.FACT,
        said_by=Role.ASSISTANT.value,
        provenance=INFERRED,
        certainty=INFERRED_CERTAINTY,
        extra=extra,
    )


def waiting(memory: Memory) -> Waiting:
    """Return the review entry of a memory that waits."""
    kind, always, because = _wanted(memory)
    agent, origin = str(memory.extra.get("agent_id") or ""), memory.extra.get(COLLEAGUE)
    origin = origin if isinstance(origin, Mapping) else {}
    listed = origin.get("quotes")
    quotes = tuple(map(str, listed)) if isinstance(listed, list) else ()
    channel, author = memory.channel.removesuffix(TEAM), str(origin.get("author", ""))
    return Waiting(
        memory.node_id, kind, always, because, agent, channel, memory.text, memory.created_at, author, quotes
    )


def acceptance(memory: Memory, by: str, now: datetime) -> dict[str, Any]:
    """Return the changes that make a waiting memory the kind that its agent wanted, as its person's word.

    A colleague's stays theirs by name, and moves to the project's channel.
    """
    kind, always, _ = _wanted(memory)
    listed = memory.extra.get("verified")
    verified = [*(listed if isinstance(listed, list) else ()), {"by": f"human:{by}", "at": now.isoformat()}]
    speaker = None if memory.said_by in MACHINES else memory.said_by  # a proposal of a dream quotes its person
    changes: dict[str, Any] = {AWAITS_REVIEW: None, "kind": kind.value, "said_by": speaker, "verified": verified}
    is_colleagues = memory.provenance == COLLEAGUE
    changes |= {"provenance": COLLEAGUE if is_colleagues else STATED, "certainty": STATED_CERTAINTY}
    changes |= {"channel": memory.channel.removesuffix(TEAM)} if is_colleagues else {}
    return changes | ({CURATED: always} if always else {})


SHAREABLE: Final = STEERING | {Kind.FACT, Kind.NOTE, Kind.EVENT, Kind.VALUE, Kind.FINDING}
"""The kinds of memory that a person may share with colleagues, and accept of them."""


def _wanted(memory: Memory) -> tuple[Kind, int, str]:
    """Read the wanted kind, priority and reason; a person may have edited the file, so nothing is taken on trust.

    A colleague never chooses that it stands in every envelope.
    """
    wanted, is_colleagues = memory.extra.get(AWAITS_REVIEW), memory.provenance == COLLEAGUE
    wanted = wanted if isinstance(wanted, Mapping) else {}
    kinds = SHAREABLE if is_colleagues else STEERING
    kind = next((kind for kind in kinds if kind.value == wanted.get("kind")), Kind.NOTE)
    always = wanted.get("always")
    always = min(always, MOST_PRIORITY) if type(always) is int and always > 0 and not is_colleagues else 0
    return kind, always, str(wanted.get("because") or "")

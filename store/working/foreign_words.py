"""The sessions that are heard as they go on: had their agent read strangers' words since its person last spoke?

What an agent asks to have remembered may be what a web page told it to. Nothing is held of what was said but hashes,
bounded, in memory alone; what is not known is not trusted.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock
from typing import Final

from ..model import GLOBAL_CHANNEL, NewTurn, NodeId
from ..roles import Role
from ..text.fence import reads_foreign_words
from ..text.sentences import SENTENCE_OR_LINE_END
from ..text.words import normal_form

KEPT: Final = 200
MOST_SENTENCES: Final = 400
MOST_AT_ONCE: Final = 50
"""Turns of a session that are heard at once; before more than these nothing of it counts as known."""

LONGEST_WORDS: Final = 4000
"""Characters of a person's turn whose sentences count as their own; what is longer was pasted."""

NAMED_FOR, NEARBY_FOR = timedelta(hours=1), timedelta(minutes=10)
"""So long after it was heard last a session that is named is known, and one that is only near."""

_PRINTED: Final = ("[it printed]", "[ran: ")
"""The beginnings of a person's command, and of what it printed."""

_BLOCK: Final = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,}).*?(?:^[ \t]{0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED: Final = re.compile(
    r"(?<!\w)\"[^\"]*(?:\"|\Z)|“[^”]*(?:”|\Z)|„[^“”]*(?:[“”]|\Z)|«[^»]*(?:»|\Z)|「[^」]*(?:」|\Z)"
    r"|(?<!\w)['‘](?=\S)(?:[^'’]|['’](?=\w))*(?:['’](?!\w)|\Z)"
)
_COLON: Final = re.compile(r":\s|：")
"""In a line; what follows is no statement without what stands before it: the line is one sentence."""

_SHOWN: Final = re.compile(r" {4}|\t|[^\S\n]{0,3}[>|]")
"""The beginning of a line of code, of a quotation, or of a table."""


class Trust(StrEnum):
    """The origin of an agent's statement, as far as is known.

    `said`: its person said the same; `own`: only its session's own words can be in it; `foreign`: a stranger's can.
    """

    SAID = "said"
    OWN = "own"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class _Heard:
    agent: str
    channel: str
    at: datetime
    is_known: bool = False
    is_foreign: bool = False
    said: OrderedDict[int, None] = field(default_factory=OrderedDict)

    @property
    def trust(self) -> Trust:
        if self.is_foreign:
            return Trust.FOREIGN
        return Trust.OWN if self.is_known else Trust.UNKNOWN


class ForeignWords:
    """Listens to sessions. Every method may be called from any thread, and none waits."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = Lock()
        self._sessions: OrderedDict[NodeId, _Heard] = OrderedDict()

    def hear(self, session_id: NodeId, agent: str, channel: str, turns: Sequence[NewTurn]) -> None:
        """Take in the turns of a session that goes on, in order, as soon as they are said."""
        last = turns[-MOST_AT_ONCE:]
        heard_now = [(_is_word(turn), list(_sentences(own_words(turn.text))), turn) for turn in last]
        with self._lock:
            known = self._sessions.pop(session_id, None)
            heard = known if known and len(last) == len(turns) else _Heard(agent, channel, self._now())
            self._sessions[session_id] = heard
            heard.at = self._now()
            for is_word, sentences, turn in heard_now:
                if is_word:
                    heard.is_known, heard.is_foreign = True, turn.is_foreign
                    heard.said.update(dict.fromkeys(sentences))
                elif turn.is_foreign or reads_foreign_words(turn.text):
                    heard.is_foreign = True
            while len(heard.said) > MOST_SENTENCES:
                heard.said.popitem(last=False)
            while len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)

    def miss(self, session_id: NodeId) -> None:
        """Forget a session of which something was not heard."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._sessions.clear()

    def trust(self, session_id: NodeId | None, agent: str, channel: str, text: str) -> Trust:
        """Return whose words an agent's statement may be; `session_id` is as `observe` keeps it.

        Without a session that is known, those count that its program has going on in the channel, all of them.
        """
        said = list(_sentences(text))
        with self._lock:
            near = self._near(session_id, agent, channel)
            if said and any(all(one in heard.said for one in said) for heard in near):
                return Trust.SAID
            found = {heard.trust for heard in near}
        if found == {Trust.OWN}:
            return Trust.OWN
        return Trust.FOREIGN if Trust.FOREIGN in found else Trust.UNKNOWN

    def _near(self, session_id: NodeId | None, agent: str, channel: str) -> list[_Heard]:
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
    """Return True for a word of the person, not a command of theirs and what it printed."""
    return turn.role == Role.USER and not turn.text.startswith(_PRINTED[:2])


def _sentences(text: str) -> Iterator[int]:
    """Yield the hash of each sentence of a short text, of the words that two must share to say the same."""
    if len(text) > LONGEST_WORDS:
        return
    for sentence in SENTENCE_OR_LINE_END.split(text):
        if words := normal_form(sentence):
            yield hash(words)


def own_words(text: str) -> str:
    """Return a person's turn without what only stands in it, for all that is known: the rest is their own word.

    That is code and quotations, over several lines too, and what a line that ends with a colon speaks of, up to a gap:
    "Never do this:", "The page says:". What is left out in vain waits for a review; what is not would steer.
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

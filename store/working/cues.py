"""Cues: the memories that an agent's act recalls, by exact keys: before an edit, and after a failure.

Nothing is embedded and nothing is ranked, so that an answer takes a millisecond or two: the keys of the act
(`index.projection.cues_of`) are looked up, and of the sessions that they lead to a few dozen turns are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..core import Core
from ..door import outgoing
from ..index.projection import Cue, Node, cue_key
from ..limits import LONGEST_CURATED
from ..model import GLOBAL_CHANNEL, Kind, NodeId
from ..roles import Role
from ..text import acts
from ..text.fence import unmarked
from ..text.quotes import read_reply
from ..text.sentences import first_sentences
from ..text.words import content_stems
from .told import ToldTexts

# An error that came up in more sessions than this is the end of every failing run, and says nothing of its cause.
MOST_SESSIONS: Final = 6

# The acts with one key that are looked at, the newest first.
MOST_FOUND: Final = 24

# The turns of a session before and after a failure in which its call, and its cause and end, are looked for.
TURNS_BEFORE, TURNS_AFTER = 12, 40

# A name of more facts than this says little about the file that bears it.
MOST_FACTS: Final = 8

# The edits of a file whose exchanges are looked at.
MOST_EDITS: Final = 60

# The fewest content words of an explanation.
FEWEST_STEMS: Final = 6

# Characters of a quote, and of what its person answered.
QUOTE_CHARS, REPLY_CHARS = 280, 140

# The fewest words that an explanation shares with the error, its command and the files that were edited then.
SHARED_WORDS: Final = 2

MOST_LINES: Final = 2

_NUMBER = re.compile(r"\d+")
# Between the parts of an identifier: `QUOTA_BYTES`, `quotaBytes`.
_PARTS = re.compile(r"_+|(?<=[a-z])(?=[A-Z])")

# The moments under which texts at acts are recorded.
AT_AN_ACT: Final = frozenset({"before", "after"})

# The kinds of memories that guide an act; a finding, a pitfall or an event is of one that is over.
GUIDING: Final = frozenset({Kind.PREFERENCE, Kind.PROCEDURE, Kind.CORRECTION, Kind.NEGATIVE, Kind.DECISION, Kind.VALUE})


@dataclass(frozen=True, slots=True)
class CueLine:
    """A line for an agent, and the memory or turn that it quotes."""

    node_id: NodeId
    text: str


class _Explanation(NamedTuple):
    turn: Node
    reply: Node | None
    remedy: Node | None


class Cues:
    """Finds what an act recalls. Every method may be called from any thread; the session that asks is left out."""

    def __init__(self, core: Core, told: ToldTexts) -> None:
        self._catalog = core.catalog
        self._calls = core.calls
        self._told = told

    def after_failure(self, channel: str, session: NodeId, command: str, output: str) -> list[CueLine]:
        """Return the cause and the end of an earlier failure with the same error, in at most two lines; [] if none.

        Of the errors in the output the rarest that was explained is taken.
        """
        self._calls.note()
        found = [
            nodes
            for key in acts.error_keys(output)
            if (nodes := self._cued(Cue.ERROR, key, channel, session))
            if len({_session_of(node) for node in nodes}) <= MOST_SESSIONS
        ]
        for nodes in sorted(found, key=len):
            for node in nodes:
                if lines := self._of_use(self._explained(node)):
                    return lines
        return []

    def before_edit(self, channel: str, session: NodeId, path: str, text: str, asked: str = "") -> list[CueLine]:
        """Return what was decided about a file, in at most two lines: facts that name it, then those of its edits.

        A fact of an exchange in which the file was edited may be about another: it shares words with the edit's old and
        new `text`. One whose value the edit changes to a value that was just `asked` for is no longer what holds.
        """
        self._calls.note()
        named = [
            fact
            for name in acts.names_of_path(path)
            if len(facts := self._cued(Cue.FILE, name, channel, session)) <= MOST_FACTS
            for fact in facts
        ]
        channels = {channel, GLOBAL_CHANNEL}
        key = cue_key(Cue.EDIT, acts.file_key(path))
        subject = _stems_of(f"{text} {path}")
        drawn = [
            fact
            for fact in self._catalog.facts_of_exchanges(key, channels, session, MOST_EDITS)
            if len(subject & _stems(fact)) >= SHARED_WORDS
        ]
        changed_to = _numbers(asked) & _numbers(text)
        chosen = {
            fact.node_id: fact
            for fact in (*named, *drawn)
            if _guides(fact) and not (changed_to - _numbers(fact.text) and _numbers(fact.text) & _numbers(text))
        }
        return self._of_use([_line_of(fact) for fact in chosen.values()])[:MOST_LINES]

    def _of_use(self, lines: list[CueLine]) -> list[CueLine]:
        """Leave out lines that were told at acts before, and never used."""
        in_vain = self._told.never_used(AT_AN_ACT) if lines else ()
        return [line for line in lines if line.node_id not in in_vain]

    # ---- reading

    def _cued(self, cue: Cue, key: str, channel: str, session: NodeId) -> list[Node]:
        """Return the nodes with a cue in a channel and in the global one, but for those of a session; newest first."""
        return self._catalog.cued(cue_key(cue, key), {channel, GLOBAL_CHANNEL}, session, MOST_FOUND) if key else []

    def _explained(self, failure: Node) -> list[CueLine]:
        """Return the lines of a failed result that was explained, [] for any other."""
        around = self._catalog.turns_around(failure.path, failure.ordinal - TURNS_BEFORE, failure.ordinal + TURNS_AFTER)
        done = acts.acts_in(_texts(around))
        act = next((one for one in done if one.ended_at == failure.ordinal), None)
        if act is None:
            return []
        worked = acts.later_success(done, act)
        until = worked.at if worked is not None else failure.ordinal + TURNS_BEFORE
        edited = [acts.file_key(one.words) for one in acts.edits_between(done, failure.ordinal, until)]
        after = [turn for turn in around if failure.ordinal < turn.ordinal < until]
        subject = _stems_of(" ".join((act.words, *acts.error_keys(act.output), *edited)))
        explanation = _explanation(after, subject)
        if explanation is None:
            return []
        return list(_lines_of_failure(act, explanation, edited, worked is not None))


def _explanation(after: Sequence[Node], subject: AbstractSet[str]) -> _Explanation | None:
    """Return the agent's turn that explains a failure, with its person's reply and the agent's answer to that.

    It shares words with the error, its command or the files that were edited then. It counts too that it stands right
    behind the failure, that an edit follows it, or that the agent stopped there to tell its person: an announcement
    ("Let me look at the test:") is one short sentence in front of another call.
    """
    best: tuple[int, int] | None = None
    for place, turn in enumerate(after):
        stems = _stems(turn)
        shared = len(subject & stems)
        if turn.role != Role.ASSISTANT or not _is_prose(turn) or len(stems) < FEWEST_STEMS:
            continue
        following = after[place + 1] if place + 1 < len(after) else None
        called = acts.call_of(following.text) if following is not None else None
        is_acted_on = called is not None and called[0] in acts.EDITS
        is_report = place == 0 and following is not None and following.role == Role.USER
        score = shared + (place == 0) + is_report + SHARED_WORDS * is_acted_on
        if score >= SHARED_WORDS and score > (best[0] if best else 0):
            best = score, place
    if best is None:
        return None
    turn, behind = after[best[1]], after[best[1] + 1 :]
    reply = behind[0] if behind and behind[0].role == Role.USER else None
    remedy = behind[1] if reply is not None and len(behind) > 1 and behind[1].role == Role.ASSISTANT else None
    return _Explanation(turn, reply, remedy if remedy is not None and _is_prose(remedy) else None)


def _lines_of_failure(act: acts.Act, found: _Explanation, edited: Sequence[str], worked: bool) -> Iterator[CueLine]:
    cause = _quote(found.turn, QUOTE_CHARS)
    text = f"{_day(found.turn)}, the same error of `{_short(act.words)}`, assistant: “{cause}”"
    yield CueLine(found.turn.node_id, outgoing(text))
    parts = []
    if found.reply is not None:
        parts.append(f"user: “{_quote(found.reply, REPLY_CHARS)}”")
        if found.remedy is not None:
            parts.append(f"assistant: “{_quote(found.remedy, QUOTE_CHARS)}”")
    if worked:
        parts.append(f"it worked after edits of {', '.join(edited[:3])}" if edited else "it worked afterwards")
    if parts:
        yield CueLine((found.remedy or found.reply or found.turn).node_id, outgoing("; ".join(parts)))


def _guides(fact: Node) -> bool:
    """Return True for a fact that says how to do something: a person's words, and few of them.

    An assistant's finding about a file is most often of a fault that was mended then; a long text was pasted.
    """
    return fact.kind in GUIDING and fact.role not in (Role.ASSISTANT, Role.TOOL) and len(fact.text) <= LONGEST_CURATED


def _line_of(fact: Node) -> CueLine:
    words, reply_to = (" ".join(part.split()) for part in read_reply(fact.text))
    question = f"“{unmarked(reply_to)}” – " if reply_to else ""
    return CueLine(fact.node_id, outgoing(f"{_day(fact)}: {question}“{unmarked(words)}”"))


def _quote(turn: Node, most_chars: int) -> str:
    return unmarked(first_sentences(turn.text, most_chars))


def _numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(text))


def _short(command: str) -> str:
    plain = unmarked(acts.plain_command(command).replace("`", "'"))
    return plain if len(plain) <= REPLY_CHARS else f"{plain[: REPLY_CHARS - 1].rstrip()}…"


def _day(node: Node) -> str:
    return f"{node.created_at:%-d %b %Y}" if node.created_at else "earlier"


def _stems(node: Node) -> frozenset[str]:
    return _stems_of(node.text)


def _stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text; of an identifier those of its parts."""
    return frozenset(content_stems(_PARTS.sub(" ", text)))


def _session_of(node: Node) -> str:
    return node.session_id or node.node_id


def _is_prose(turn: Node) -> bool:
    return acts.call_of(turn.text) is None and turn.role in (Role.USER, Role.ASSISTANT)


def _texts(turns: Sequence[Node]) -> list[tuple[int, str]]:
    return [(turn.ordinal, turn.text) for turn in turns]

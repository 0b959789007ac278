"""Cues: the memories that an agent's act recalls, by exact keys: before an edit, and after a failure.

Nothing is embedded and nothing is ranked, so that an answer takes a millisecond or two: the keys of the act
(`index.projection.cues_of`) are looked up, and of the sessions that they lead to a few dozen turns are read.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..channel import channels_in_reach
from ..core import Core
from ..door import outgoing
from ..index.projection import Cue, Node, cue_key
from ..limits import LONGEST_CURATED
from ..model import Kind, NodeId
from ..roles import Role
from ..text import acts
from ..text.fence import unmarked
from ..text.quotes import read_reply
from ..text.sentences import first_sentences
from ..text.words import CODE_SPAN, content_stems, without_joints
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

# The fewest of these outside of code: "Now let me fix `TestLogging`" announces, and explains nothing.
FEWEST_PLAIN: Final = 4

# Characters of a quote, of what its person answered, of a command, and of what an edit took out or put in.
QUOTE_CHARS, REPLY_CHARS, COMMAND_CHARS, CHANGE_CHARS = 280, 140, 90, 120

# The fewest words that an explanation shares with the error, its command and the files that were edited then.
SHARED_WORDS: Final = 2

MOST_LINES: Final = 2

_NUMBER = re.compile(r"\d+")

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

    def after_failure(
        self, channel: str, session: NodeId, command: str, output: str, *, is_sure: bool = True
    ) -> list[CueLine]:
        """Return the cause and the end of an earlier failure with the same error, in at most two lines; [] if none.

        Of the errors in the output the rarest that was explained is taken, of the failures with it the one with most of
        the others. Where most errors are new, one that is known may be in every run, or be of another cause. Unless it
        `is_sure` that the command failed, the earlier one was of the same program.
        """
        self._calls.note()
        keys = acts.error_keys(output)
        found = self._cued(Cue.ERROR, keys, channel, session)
        if 2 * len(found) < len(keys):
            return []
        shared = Counter(node.node_id for nodes in found.values() for node in nodes)
        for key, nodes in sorted(found.items(), key=lambda one: len(one[1])):
            if len({_session_of(node) for node in nodes}) > MOST_SESSIONS:
                continue
            for node in sorted(nodes, key=lambda node: -shared[node.node_id]):
                if lines := self._of_use(self._explained(node, key, command, is_sure=is_sure)):
                    return lines
        return []

    def before_edit(self, channel: str, session: NodeId, path: str, text: str, asked: str = "") -> list[CueLine]:
        """Return what was decided about a file, in at most two lines: facts that name it, then those of its edits.

        A fact of an exchange in which the file was edited may be about another: it shares words with the edit's old and
        new `text`. One whose value the edit changes to a value that was just `asked` for is no longer what holds.
        """
        self._calls.note()
        found = self._cued(Cue.FILE, acts.names_of_path(path), channel, session).values()
        named = [
            fact
            for facts in found
            if len(facts) <= MOST_FACTS
            for fact in facts
            if acts.names_path(fact.text, path) and not (fact.asks and not read_reply(fact.text)[1])
        ]
        channels = {*channels_in_reach(channel)}
        key = cue_key(Cue.EDIT, acts.file_key(path))
        subject, values = _stems_of(f"{text} {path}"), acts.values_named(text)
        drawn = [
            fact
            for fact in self._catalog.facts_of_exchanges(key, channels, session, MOST_EDITS)
            if len(subject & _stems(fact)) >= SHARED_WORDS and values & acts.values_named(fact.text)
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
        in_vain = self._told.never_used({line.node_id for line in lines}, AT_AN_ACT) if lines else ()
        return [line for line in lines if line.node_id not in in_vain]

    # ---- reading

    def _cued(self, cue: Cue, names: Sequence[str], channel: str, session: NodeId) -> dict[str, list[Node]]:
        """Return the nodes with cues in a channel and in the global one, but for those of a session; newest first."""
        keys = {name: cue_key(cue, name) for name in names}
        found = self._catalog.cued(keys.values(), {*channels_in_reach(channel)}, session, MOST_FOUND) if keys else {}
        return {name: found[key] for name, key in keys.items() if key in found}

    def _explained(self, failure: Node, key: str, command: str, *, is_sure: bool) -> list[CueLine]:
        """Return the lines of a failed result whose error was explained or ended, [] for any other.

        Another command helps where the one that failed now is of the same program.
        """
        around = self._catalog.turns_around(failure.path, failure.ordinal - TURNS_BEFORE, failure.ordinal + TURNS_AFTER)
        done = acts.acts_in(_texts(around))
        act = next((one for one in done if one.ended_at == failure.ordinal), None)
        if act is None or not (is_sure or acts.are_of_one_program(act.words, command)):
            return []
        end = acts.ending_of(done, act, key)
        until = end.at if end is not None else failure.ordinal + TURNS_BEFORE
        between = [one for one in done if failure.ordinal < one.at < until]
        # What the agent says after its next step succeeded, or its person asked for something, is of something else.
        steps = (one for one in between if one.tool == acts.SHELL and one.ended_at is not None and not one.failed)
        until = next((one.at for one in steps if acts.is_of_project(acts.command_key(one.words))), until)
        after = [turn for turn in around if failure.ordinal < turn.ordinal < until]
        if end is None:
            after = list(itertools.takewhile(lambda turn: turn.role != Role.USER, after))
        edited = " ".join(acts.file_key(one.words) for one in between if one.is_edit)
        explanation = _explanation(
            after, _stems_of(key), _stems_of(f"{act.words} {edited}"), SHARED_WORDS if end is None else 0
        )
        ended = _ended(act, end, between, _stems_of(acts.place_of_error(act.output, key))) if end is not None else None
        if ended is not None and not ended[0].is_edit and not acts.are_of_one_program(act.words, command):
            ended = None
        return _lines_of_failure(act, explanation, ended, {turn.ordinal: turn for turn in around})


def _explanation(
    after: Sequence[Node], error: AbstractSet[str], subject: AbstractSet[str], least: int
) -> _Explanation | None:
    """Return the agent's turn that explains a failure, with its person's reply and the agent's answer to that.

    It shares words with the error, its command or the files that were edited then. It counts too that it stands in
    front of the first edit, that an edit follows it, or that the agent stopped there to tell its person; an
    announcement ("Let me look at the test:") is one short sentence in front of another call, or of what was found.
    """
    best: tuple[int, int] | None = None
    has_edited = False
    for place, (turn, following) in enumerate(zip(after, [*after[1:], None], strict=False)):
        has_edited |= _edits(turn)
        stems = _stems(turn)
        if turn.role != Role.ASSISTANT or not _is_prose(turn) or len(stems) < FEWEST_STEMS:
            continue
        if len(error & stems) < least or len(_stems_of(CODE_SPAN.sub(" ", turn.text))) < FEWEST_PLAIN:
            continue
        is_report = place == 0 and following is not None and following.role == Role.USER
        looks_on = following is not None and following.role == Role.ASSISTANT and _is_prose(following)
        score = 2 * len(error & stems) + len((subject - error) & stems) + is_report + (place == 0)
        score += SHARED_WORDS * (following is not None and _edits(following)) - SHARED_WORDS * looks_on
        if score >= SHARED_WORDS and (score := score + SHARED_WORDS * (not has_edited)) > (best[0] if best else 0):
            best = score, place
    if best is None:
        return None
    turn, behind = after[best[1]], after[best[1] + 1 :]
    reply = behind[0] if behind and behind[0].role == Role.USER else None
    remedy = behind[1] if reply is not None and len(behind) > 1 and behind[1].role == Role.ASSISTANT else None
    return _Explanation(turn, reply, remedy if remedy is not None and _is_prose(remedy) else None)


def _ended(
    failed: acts.Act, end: acts.Act, between: Sequence[acts.Act], subject: AbstractSet[str]
) -> tuple[acts.Act, str] | None:
    """Return the act that ended an error, and what it did in words; None where it is not known.

    Of several edits the one that shares most words with the error; without any, the command that ran in the failed
    one's place, or the one that ran before it ran again.
    """
    if edits := [one for one in between if one.is_edit and not one.failed]:
        shared = {one: len(_stems_of(one.change) & subject) for one in edits}
        best = max(edits, key=lambda one: shared[one])
        if len(edits) > 1 and not shared[best]:
            return None
        return best, f"gone after the edit of {acts.file_key(best.words)}{_changed(best.change)}"
    if end.words != failed.words:
        return (
            (end, f"`{_short(end.words)}` worked") if not end.failed and acts.is_like(end.words, failed.words) else None
        )
    ran = [one for one in between if one.tool == acts.SHELL and acts.is_of_project(acts.command_key(one.words))]
    return (ran[-1], f"gone after `{_short(ran[-1].words)}`") if ran else None


def _changed(change: str) -> str:
    """Return the lines of a change in words, "" without any."""
    old, new = (
        _cut("; ".join(line[2:] for line in change.splitlines() if line[:1] == sign), CHANGE_CHARS) for sign in "-+"
    )
    quoted = f"“{unmarked(old)}” became “{unmarked(new)}”" if old and new else f"added “{unmarked(new)}”"
    return f": {quoted if new else f'“{unmarked(old)}” was taken out'}" if change else ""


def _lines_of_failure(
    act: acts.Act,
    found: _Explanation | None,
    ended: tuple[acts.Act, str] | None,
    turns: Mapping[int, Node],
) -> list[CueLine]:
    day = _day(turns[act.at])
    opening = f"{day}, the same error of `{_short(act.words)}`"
    if found is None:
        if ended is None or (ended[0].is_edit and not ended[0].change):
            return []
        return [CueLine(turns[ended[0].at].node_id, outgoing(f"{opening}, {ended[1]}"))]
    lines = [CueLine(found.turn.node_id, outgoing(f"{opening}, assistant: “{_quote(found.turn, QUOTE_CHARS)}”"))]
    parts = []
    if found.reply is not None:
        parts.append(f"user: “{_quote(found.reply, REPLY_CHARS)}”")
        if found.remedy is not None:
            parts.append(f"assistant: “{_quote(found.remedy, QUOTE_CHARS)}”")
    if ended is not None:
        parts.append(ended[1])
    if parts:
        node = found.remedy or found.reply or (turns[ended[0].at] if ended is not None else found.turn)
        lines.append(CueLine(node.node_id, outgoing("; ".join(parts))))
    return lines


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
    return unmarked(_cut(acts.plain_command(command).replace("`", "'"), COMMAND_CHARS))


def _cut(text: str, most_chars: int) -> str:
    return text if len(text) <= most_chars else f"{text[: most_chars - 1].rstrip()}…"


def _day(node: Node) -> str:
    return f"{node.created_at:%-d %b %Y}" if node.created_at else "earlier"


def _stems(node: Node) -> frozenset[str]:
    return _stems_of(node.text)


def _stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text; of an identifier those of its parts."""
    return frozenset(content_stems(without_joints(text)))


def _session_of(node: Node) -> str:
    return node.session_id or node.node_id


def _edits(turn: Node) -> bool:
    return (called := acts.call_of(turn.text)) is not None and called[0] in acts.EDITS


def _is_prose(turn: Node) -> bool:
    return acts.call_of(turn.text) is None and turn.role in (Role.USER, Role.ASSISTANT)


def _texts(turns: Sequence[Node]) -> list[tuple[int, str]]:
    return [(turn.ordinal, turn.text) for turn in turns]

"""Lines of files: proposals to change lines of programs' own files that a later statement has overtaken.

The lines of the copies of a channel are compared with its person's statements since they were written, and with
lines that another file got later. Silence is the rule: the two must be the nearest to each other of all, the judge
must be sure, and a line that the statement repeats is left alone. Nothing is changed: a proposal waits for `review`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from ...store import okf
from ...store.limits import LONGEST_STATEMENT_CHARS
from ...store.model import Action, Level, Memory, NodeId
from ...store.roles import MACHINES, Role
from ...store.text.judging import EarlierStatement, Relation, differ_in_a_value, judge, line_after, value_changed
from ...store.text.sentences import split
from ...store.text.statements import read, shared
from ...store.upkeep.file_copies import FOLDER, PROPOSALS, copy_in, entries_of, line_hash, proposal_key, times_of_lines
from ..workspace.proposals import Proposals
from ..workspace.view import View
from .drift import speaker_of

STAGE = "file_lines"

OVERTAKES = frozenset({Relation.UPDATES, Relation.CONTRADICTS})

# A sentence of fewer words is a name or a mark; lines that are compared with one statement.
FEWEST_LINE_WORDS, NEAREST = 3, 12

# Files that a checkout writes have one time; of two lines the later is so much later at least.
APART = timedelta(hours=1)

# Proposals for one file that wait at a time.
MOST_PROPOSALS = 5


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence of a file, or a fact (without `copy`), and since when it holds."""

    text: str
    since: datetime
    node_id: NodeId
    copy: Memory | None = None


def plan(view: View, now: datetime) -> Proposals:
    """Propose changes of the lines of files that were overtaken, and drop proposals whose reason is gone."""
    planned = Proposals()
    if view.history.paused:
        return planned
    by_channel: dict[str, list[Memory]] = defaultdict(list)
    for path in sorted(view.indexed_paths()):
        data = view.read(path) if path.startswith(f"{FOLDER}/") else None
        if data is not None and (copy := copy_in(path, data)) and copy.channel not in view.history.channels_off:
            by_channel[copy.channel].append(copy)
    for channel, copies in by_channel.items():
        found = _overtaken(view, channel, copies)
        for copy in copies:
            entries = found.get(copy.node_id, [])[:MOST_PROPOSALS]
            if entries != entries_of(copy):
                planned.actions.append(_action(view, copy, entries))
                planned.count("lines of files overtaken", len(entries))
    return planned


def _action(view: View, copy: Memory, entries: Sequence[dict[str, Any]]) -> Action:
    before = view.read(copy.path) or b""
    content = okf.edit(before, {PROPOSALS: list(entries) or None})
    lines = "line is" if len(entries) == 1 else "lines are"
    reason = (
        f"{len(entries)} {lines} said otherwise since, see `dreamctl review`" if entries else "no line is overtaken"
    )
    return Action.replacing(copy.path, copy.node_id, before, content, stage=STAGE, reason=reason)


def _overtaken(view: View, channel: str, copies: Sequence[Memory]) -> dict[NodeId, list[dict[str, Any]]]:
    """Return the proposals for each copy, in the order of its lines."""
    lines = [line for copy in copies for line in _lines(copy)]
    later = [*_own_words(view, channel), *(line for line in lines if line.copy and line.copy.said_by not in MACHINES)]
    found: dict[NodeId, list[dict[str, Any]]] = defaultdict(list)
    if not lines or not later:
        return found
    cosines = view.vectors([one.text for one in later]) @ view.vectors([one.text for one in lines]).T
    may = np.array([[_is_later(said, line) for line in lines] for said in later])
    other = np.array([[said.copy is None or said.copy is not line.copy for line in lines] for said in later])
    reachable = np.where(may, cosines, -2.0)
    for place, said in enumerate(later):
        near = np.where(other[place], cosines[place], -2.0)
        best = int(near.argmax())
        if may[place, best] and int(reachable[:, best].argmax()) == place:
            nearest = [int(at) for at in np.argsort(-near, kind="stable")[:NEAREST] if other[place, at]]
            candidates = [EarlierStatement(str(at), lines[at].text, float(near[at])) for at in nearest]
            judged = {int(one.node_id): one.relation for one in judge(said.text, candidates)}
            entry = _entry(lines[best], said, judged.get(best))
            copy = lines[best].copy
            if entry is not None and copy is not None and not view.is_forbidden(_key(copy, entry)):
                found[copy.node_id].append(entry)
    for one in copies:
        found[one.node_id].sort(key=lambda entry, text=one.text: text.index(entry["old"]))  # type: ignore[misc]
    return found


def _key(copy: Memory, entry: dict[str, Any]) -> str:
    return proposal_key(copy.node_id, entry["old"], entry["because"])


def _entry(line: _Said, said: _Said, relation: Relation | None) -> dict[str, Any] | None:
    """Return the proposal that a pair makes; None for a line that is not overtaken."""
    if not _is_overtaken(line.text, said.text, relation) or line_after(line.text, said.text) is None:
        return None
    if said.copy is None:
        return {"old": line.text, "because": said.node_id}
    # The line of a file has no id: its words say which it is.
    return {"old": line.text, "because": f"{said.node_id}#{line_hash(said.text)}", "words": said.text}


def _is_overtaken(line: str, said: str, relation: Relation | None) -> bool:
    """Check that the judge is sure of a change, or that two differ in one value alone."""
    if value_changed(line, said) is not None:
        return not read(said).is_open
    if relation not in OVERTAKES:
        return False
    # Of two that differ in a value and in a name, each speaks of another thing.
    if relation is Relation.CONTRADICTS and differ_in_a_value(line, said):
        return False
    earlier, later = read(line), read(said)
    is_repeated = len(shared(earlier.content, later.content)) == len(earlier.content)
    over = shared(earlier.content, later.ended | later.denied)
    return not is_repeated or bool(over) or earlier.is_negated != later.is_negated


def _is_later(said: _Said, line: _Said) -> bool:
    if said.copy is None:
        return said.since > line.since
    return said.copy is not line.copy and said.since - line.since >= APART


def _own_words(view: View, channel: str) -> Iterator[_Said]:
    """Yield the statements of a channel's person that hold, without those that they have probably changed since."""
    for fact in view.memories(Level.FACT, channel):
        if speaker_of(fact) == Role.USER and fact.since is not None and len(fact.text) <= LONGEST_STATEMENT_CHARS:
            whole = view.memory(fact.node_id)
            if whole is not None and not whole.later:
                yield _Said(fact.text, fact.since, fact.node_id)


def _lines(copy: Memory) -> Iterator[_Said]:
    """Yield the sentences of a file that stand in it once, with the time of the newest line that they are on."""
    times = times_of_lines(copy)
    for one in split(copy.text):
        words = copy.text[one.start : one.end].rstrip()
        is_prose = one.shape in ("prose", "item") and len(words.split()) >= FEWEST_LINE_WORDS
        if not is_prose or len(words) > LONGEST_STATEMENT_CHARS or copy.text.count(words) != 1:
            continue
        first = copy.text.rfind("\n", 0, one.start) + 1
        last = copy.text.find("\n", one.start + len(words))
        on = copy.text[first : last if last >= 0 else None].splitlines()
        since = [at for line in on if (at := times.get(line_hash(line)))]
        if since:
            yield _Said(words, max(since), copy.node_id, copy)

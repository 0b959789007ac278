"""Procedures: rows of commands that were run in one order, and worked, in several sessions.

A step is a command without what differs from one run to the next. Of every two sessions the longest common row of steps
is a candidate. It loses the steps that are there by chance, and is kept where it has enough sessions:

    fetch comments, edit, lint, commit, push, answer      "lint, commit, push" is of many procedures; "answer" is of
    lint, status, commit, push, fetch comments, answer    this one, and the rest is nearly always before it
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Final, NamedTuple

from ...store.model import NodeId, Turn
from ...store.roles import Role
from ...store.text import acts

# The newest sessions that are compared, each with each; some 2 ms a hundred pairs.
MOST_SESSIONS: Final = 150

FEWEST_STEPS: Final = 3
FEWEST_SESSIONS: Final = 2
MOST_WORDS: Final = 4

# Sessions in which a command's words recur that are part of its step: of the command itself, and of its arguments.
COMMAND_WORDS: Final = 2
RECURS: Final = (2, 3)

# The share of a row's sessions that must stay with every one of its steps: one that half of the runs lack is no step.
BOUND: Final = 0.5

# The share of the steps of a procedure that another has too where the two are told as one.
ALIKE: Final = 0.6

# The last sessions that tried a step, where it is left out if it failed in each.
FAILED_LATELY: Final = 2

# Steps between the first and the last of a run, for each of its own: what is farther apart was done for another reason.
WIDEST: Final = 2.5

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(?P<open>['\"].*\Z)", re.DOTALL)
_BETWEEN = re.compile(r"&&|\|\||;|\n")
_REDIRECTED = re.compile(r"\d?>&?\s{0,4}[^\s>]{1,400}")
_ARGUMENT = re.compile(r"[\w:./@^-]+")
_DIFFERS = re.compile(r"\b[0-9a-f]{7,40}\b|\d+")

_SCRIPT: Final = "./"
# Parts of the shell's own grammar, which are no commands.
_GRAMMAR: Final = frozenset("do done elif else esac fi for if in select then until while".split())

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepRun:
    """One run of a command: its words, the command as it ran, the ordinals of its call and outcome, and its outcome.

    `is_sure`: its own exit is known; that of a pipe is the last command's, and that of "a; b" is b's. `after_edit`: a
    file was edited since the command before.
    """

    words: Key
    command: str
    at: int
    ended_at: int
    failed: bool
    is_sure: bool = True
    after_edit: bool = False


@dataclass(frozen=True, slots=True)
class ProcedureRun:
    """One run of a whole procedure: its steps, and how often each failed before it worked."""

    session_id: NodeId
    steps: tuple[StepRun, ...]
    failures: tuple[int, ...]

    @property
    def is_sure(self) -> bool:
        """True if every step is known to have ended with exit 0."""
        return all(step.is_sure for step in self.steps)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A row of steps by their keys, with its runs, one a session, the oldest first.

    `left_out` are steps that it had until they failed in the last two sessions that tried them.
    """

    keys: tuple[str, ...]
    runs: tuple[ProcedureRun, ...]
    left_out: tuple[str, ...] = ()


def step_runs(turns: Sequence[Turn]) -> list[StepRun]:
    """Return the runs of a session's commands that change or check something, in order.

    A command without output has no outcome of its own: it worked if its agent went on by itself.
    """
    done = acts.acts_in((turn.ordinal, turn.text) for turn in turns)
    asked = [turn.ordinal for turn in turns if turn.role == Role.USER]
    found: list[StepRun] = []
    after_edit = False
    for act, following in zip_longest(done, done[1:]):
        after_edit |= act.is_edit
        goes_on = following is not None and not any(act.at < ordinal < following.at for ordinal in asked)
        if act.tool == acts.SHELL and (act.ended_at is not None or goes_on):
            for one in _simple_commands(act.words):
                # Of a failed row nobody knows which failed, nor of a pipe that shows errors if it worked.
                if (act.failed and not one.is_alone) or (not one.is_sure and acts.error_keys(act.output)):
                    continue
                run = StepRun(one.words, one.text, act.at, act.ended_at or act.at, act.failed, one.is_sure, after_edit)
                found.append(run)
                after_edit = False
    return found


class _CommandOfRow(NamedTuple):
    """A command of a row: its words up to the first option, its text, and if its exit, or its row's, is its own."""

    words: Key
    text: str
    is_sure: bool
    is_alone: bool


def _simple_commands(row: str) -> Iterator[_CommandOfRow]:
    """Yield the commands of a row that may be steps."""
    # Same length, so that the places of the parts are those of the row.
    plain = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), row)
    # A note has the first line of a command: what a quote holds beyond it is not known.
    known = next((quoted.start() for quoted in _QUOTED.finditer(row) if quoted["open"]), len(row))
    start = 0
    for between in (*_BETWEEN.finditer(plain), None):
        end = between.start() if between else len(plain)
        command, _, piped = plain[start:end].partition(" | ")
        words = _words(_REDIRECTED.sub("", command))
        if len(words) >= _fewest_words(words) and words[0] not in _GRAMMAR and not acts.only_looks(words):
            is_sure = not piped and (between is None or between[0] == "&&")
            text = " ".join(row[start : min(end, known)].split()) + (" …" if end > known else "")
            yield _CommandOfRow(words, text, is_sure, not _BETWEEN.search(plain))
        start = between.end() if between else end


def _words(command: str) -> Key:
    words: list[str] = []
    for word in command.split():
        if not words and ("=" in word or word in ("!", "sudo", "time")):
            continue
        if word.startswith("-") or (words and not _ARGUMENT.fullmatch(word)):
            break
        words.append(_DIFFERS.sub("#", word) if words else _program(word))
        if len(words) == MOST_WORDS:
            break
    return tuple(words)


def _program(word: str) -> str:
    """Return a program's name; of one that is called by its path, as scripts are, with the mark of one."""
    name = word.rsplit("/", 1)[-1]
    return f"{_SCRIPT}{name}" if "/" in word else name


def _fewest_words(words: Key) -> int:
    """Return how many words a step has at least: a program alone says nothing, a script all."""
    return 1 if words[:1] and words[0].startswith(_SCRIPT) else 2


# ---- from runs of commands to procedures


def procedures_of(sessions: Mapping[NodeId, Sequence[StepRun]]) -> list[Procedure]:
    """Return the procedures of some sessions, the oldest session first; those of most runs and steps come first."""
    newest = dict(list(sessions.items())[-MOST_SESSIONS:])
    rows = {
        session_id: row for session_id, row in _rows(newest).items() if len({key for key, _ in row}) >= FEWEST_STEPS
    }
    search = _Search({session_id: _worked(row) for session_id, row in rows.items()})
    found = search.bound_rows()
    chosen: list[tuple[str, ...]] = []
    for keys in sorted(found, key=lambda keys: (-(len(keys) - 1) * len(search.support(keys)), keys)):
        if not any(_is_told(keys, by, search) for by in chosen):
            chosen.append(keys)
    return [procedure for keys in chosen if (procedure := _procedure(keys, found, rows, search))]


def _procedure(
    keys: tuple[str, ...],
    found: Collection[tuple[str, ...]],
    rows: Mapping[NodeId, Sequence[tuple[str, StepRun]]],
    search: _Search,
) -> Procedure | None:
    """Return a procedure without the steps that work no more; None if too few are left."""
    longer = sorted(other for other in found if set(keys) <= set(other))
    failing = {key: None for other in (keys, *longer) for key in other if _fails_now(key, other, rows, search)}
    keys = tuple(key for key in keys if key not in failing)
    if not _says_something(keys):
        return None
    return Procedure(keys, tuple(_runs(keys, rows, search.support(keys))), tuple(failing))


def _fails_now(
    key: str, keys: tuple[str, ...], rows: Mapping[NodeId, Sequence[tuple[str, StepRun]]], search: _Search
) -> bool:
    """Return True if a step failed, and never worked, in the last two sessions that ran the others and tried it."""
    others = search.support(tuple(other for other in keys if other != key))
    outcomes = [
        {run.failed for tried, run in rows[session_id] if tried == key} for session_id in rows if session_id in others
    ]
    return [outcome for outcome in outcomes if outcome][-FAILED_LATELY:] == [{True}] * FAILED_LATELY


def _is_told(keys: tuple[str, ...], by: tuple[str, ...], search: _Search) -> bool:
    """Return True if a procedure is another in most of its steps and of its sessions."""
    sessions = search.support(keys).keys()
    shared = len(set(keys) & set(by)), len(sessions & search.support(by).keys())
    return shared[0] >= ALIKE * len(keys) and 2 * shared[1] >= len(sessions)


def _rows(sessions: Mapping[NodeId, Sequence[StepRun]]) -> dict[NodeId, list[tuple[str, StepRun]]]:
    """Return the keys of every session's runs: of a command's words as many as recur in several sessions."""
    known = defaultdict[Key, set[NodeId]](set)
    for session_id, runs in sessions.items():
        for run in runs:
            for count in range(1, len(run.words) + 1):
                known[run.words[:count]].add(session_id)
    rows: dict[NodeId, list[tuple[str, StepRun]]] = {}
    for session_id, runs in sessions.items():
        row = rows.setdefault(session_id, [])
        for run in runs:
            counts = range(len(run.words), _fewest_words(run.words) - 1, -1)
            if count := next((n for n in counts if len(known[run.words[:n]]) >= RECURS[n > COMMAND_WORDS]), 0):
                row.append((" ".join(run.words[:count]), run))
    return rows


class _Search:
    """Finds the rows of steps that several sessions have in common; given are the runs that worked, with their keys."""

    def __init__(self, rows: Mapping[NodeId, Sequence[tuple[str, StepRun]]]) -> None:
        self._runs = rows
        self._rows = {session_id: [key for key, _ in row] for session_id, row in rows.items()}
        self._support: dict[tuple[str, ...], dict[NodeId, tuple[int, ...]]] = {}

    def support(self, keys: tuple[str, ...]) -> Mapping[NodeId, tuple[int, ...]]:
        """Return the sessions in which a row was run, with the places of its steps."""
        if keys not in self._support:
            places = ((session_id, _tightest(keys, row)) for session_id, row in self._rows.items())
            self._support[keys] = {session_id: found for session_id, found in places if found}
        return self._support[keys]

    def bound_rows(self) -> set[tuple[str, ...]]:
        """Return the candidates without the steps that are there by chance."""
        # A session's steps in the order of their first runs, and of their last: what came between was done again.
        orders = [
            {tuple(dict.fromkeys(row)), tuple(reversed(dict.fromkeys(reversed(row))))} for row in self._rows.values()
        ]
        candidates = {_common(a, b) for one, other in combinations(orders, 2) for a in one for b in other}
        return {bound for keys in candidates if (bound := self._bound(keys))}

    def _bound(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        while len(keys) >= FEWEST_STEPS:
            count = len(self.support(keys))
            without = [keys[:place] + keys[place + 1 :] for place in range(len(keys))]
            loosest = max(without, key=lambda rest: len(self.support(rest)))
            if count >= FEWEST_SESSIONS and count >= BOUND * len(self.support(loosest)):
                return self._turned(keys) if _says_something(keys) else ()
            keys = loosest
        return ()

    def _turned(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the row from its true beginning: work is a circle, and it begins where files are edited.

        "commit, lint, test" is the end of one run of "lint, test, commit" and the beginning of the next.
        """
        turns = [keys[place:] + keys[:place] for place in range(len(keys))]
        likely = [turn for turn in turns if len(self.support(turn)) >= ALIKE * len(self.support(keys))]
        return min(likely, key=lambda turn: (self._edits_inside(turn), turn != keys))

    def _edits_inside(self, keys: tuple[str, ...]) -> float:
        found = self.support(keys)
        inside = sum(
            self._runs[name][at][1].after_edit
            for name, places in found.items()
            for at in range(places[0] + 1, places[-1] + 1)
        )
        return inside / len(found)


def _says_something(keys: Sequence[str]) -> bool:
    """Return True for enough unlike steps, one of them of the project's own: that git works here is known."""
    unlike = [key for key in keys if not any(key != other and other.startswith(f"{key} ") for other in keys)]
    return len(unlike) >= FEWEST_STEPS and any(acts.is_of_project(key) for key in keys)


def _worked(row: Sequence[tuple[str, StepRun]]) -> list[tuple[str, StepRun]]:
    """Return the runs that worked, without those that only repeat the one before."""
    worked: list[tuple[str, StepRun]] = []
    for key, run in row:
        if not run.failed and (not worked or worked[-1][0] != key):
            worked.append((key, run))
    return worked


def _tightest(keys: Sequence[str], row: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the closest run of some keys in a row, of equals the last; () if it is too wide."""
    best: tuple[int, ...] = ()
    for start in range(len(row)):
        if row[start] != keys[0]:
            continue
        places = [start]
        for key in keys[1:]:
            if (place := _next(row, key, places[-1] + 1)) < 0:
                return best
            places.append(place)
        width = places[-1] - places[0]
        if width <= WIDEST * len(keys) and (not best or width <= best[-1] - best[0]):
            best = tuple(places)
    return best


def _next(row: Sequence[str], key: str, start: int) -> int:
    return next((place for place in range(start, len(row)) if row[place] == key), -1)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Return the longest row that is in both, with gaps."""
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in reversed(range(len(one))):
        for j in reversed(range(len(other))):
            same = one[i] == other[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    i = j = 0
    found = []
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            found.append(one[i])
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _runs(
    keys: tuple[str, ...],
    rows: Mapping[NodeId, Sequence[tuple[str, StepRun]]],
    support: Mapping[NodeId, tuple[int, ...]],
) -> Iterator[ProcedureRun]:
    """Yield the runs of a procedure, with the failures of its steps since the step before worked."""
    for session_id, places in support.items():
        worked = _worked(rows[session_id])
        steps = tuple(worked[place][1] for place in places)
        since = steps[0].at - 1
        failures = Counter(
            key for key, run in rows[session_id] if run.failed and since <= run.at <= steps[-1].at and key in keys
        )
        yield ProcedureRun(session_id, steps, tuple(failures[key] for key in keys))

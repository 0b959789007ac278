"""The account of a night: what a dream has to tell, in sections; the digest and its page say the same in two ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from ...store.changes.decisions import is_reviewed, mark_of
from ...store.keep import okf
from ...store.keep.ledger.records import Run
from ...store.model import Action, ActionKind, Kind, Level, Memory, NodeId, Status
from ..gate.gate import GateResult
from ..language.dates import format_date
from ..stages import staleness
from ..stages.lint import Finding
from ..workspace.view import View

MOST_NAMED = 8
_NEVER = datetime.min.replace(tzinfo=UTC)
LEVEL_NAMES = ((Level.FACT, "facts"), (Level.SCENARIO, "scenarios"), (Level.PROFILE, "profile pages"))
_WORTH_READING = (
    Kind.CORRECTION,
    Kind.DECISION,
    Kind.PREFERENCE,
    Kind.PROCEDURE,
    Kind.NEGATIVE,
    Kind.FACT,
    Kind.EPISODE,
)


@dataclass(frozen=True, slots=True)
class Night:
    """Everything that a digest tells of. `at` is the person's local time when the dream began.

    `way` says whether a language model took part, and if not, why; `decisions` are pairs, the older first.
    """

    day: date
    run_id: str
    actions: Sequence[Action]
    counts: Mapping[str, Mapping[str, int]]
    seconds: Mapping[str, float]
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    gaps: Sequence[str] = ()
    memories: Mapping[Level, int] = field(default_factory=dict)
    kind: str = "daily"
    at: datetime | None = None
    gate: GateResult | None = None
    way: str = ""
    tokens: int = 0
    calls: int = 0
    decisions: Sequence[tuple[Memory, Memory]] = ()
    runs: Sequence[Run] = ()
    used: Mapping[NodeId, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing told. `path` is the file it is about, `note` what is said beside it."""

    text: str
    path: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that belong together; `more` were not named."""

    lines: Sequence[Line]
    title: str = ""
    more: int = 0
    more_hint: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    groups: Sequence[Group]


@dataclass(frozen=True, slots=True)
class Told:
    """Tonight's actions, by what a person would call them."""

    facts: list[Memory]
    pages: list[Memory]
    superseded: list[tuple[Memory, str]]
    questioned: list[tuple[Memory, str]]
    faded: list[tuple[Memory, str]]
    stale: list[tuple[Memory, str]]
    changed: list[tuple[Memory, str]]


def told(actions: Sequence[Action]) -> Told:
    """Sort the actions; of several on one file the last counts, but what was made tonight is learned as well."""
    result = Told([], [], [], [], [], [], [])
    made = {action.path for action in actions if action.kind is ActionKind.CREATE}
    for action in {action.path: action for action in actions}.values():
        if action.content is None:
            continue
        memory = okf.to_memory(action.path, okf.parse(action.content))
        pair = (memory, action.reason)
        if action.path in made:
            (result.facts if memory.level is Level.FACT else result.pages).append(memory)
        if memory.superseded_by:
            result.superseded.append(pair)
        elif memory.contradicts:
            result.questioned.append(pair)
        elif action.path in made:
            continue
        elif memory.status is Status.DEPRECATED:
            result.faded.append(pair)
        elif action.stage == staleness.STAGE and "stale_after" in memory.extra:
            result.stale.append(pair)
        else:
            result.changed.append(pair)
    return result


def open_pairs(view: View) -> list[tuple[Memory, Memory]]:
    """The living pairs that contradict each other and wait for a person, the older of each first."""
    living = {memory.node_id: memory for memory in view.memories()}
    named = {
        tuple(sorted((memory.node_id, other)))
        for memory in living.values()
        for other in memory.contradicts
        if other in living and not view.is_forbidden(mark_of(memory.node_id, other))
    }
    found = []
    for names in sorted(named):
        pair = [view.memory(name) or living[name] for name in names]
        if not all(is_reviewed(memory.extra) for memory in pair):
            older, newer = sorted(pair, key=lambda memory: memory.valid_from or memory.created_at or _NEVER)
            found.append((older, newer))
    return found


def summary(night: Night, done: Told) -> str:
    """The night in two sentences."""
    turns = night.counts.get("consolidate", {}).get("turns", 0)
    if not night.actions:
        return f"{count(turns, 'new turn')} to read; nothing to change. The memory is as you left it."
    learned = f"{count(turns, 'new turn')} became {count(len(done.facts), 'fact')} and "
    learned += count(len(done.pages), "new page")
    also = [
        f"{number} {what}"
        for number, what in (
            (len(done.superseded), "superseded"),
            (len(done.questioned), "in question"),
            (len(done.stale), "gone stale"),
            (len(done.faded), "faded"),
        )
        if number
    ]
    return f"{learned}{'; ' + ', '.join(also) if also else ''}."


def sections(night: Night, done: Told) -> list[Section]:
    """Everything there is to say; a section that has nothing to say is left out."""
    all_sections = (
        Section("Decisions waiting", _waiting(night)),
        Section("Learned", [*_learned(done.facts), *_one(_new_pages(done.pages), 2 * MOST_NAMED)]),
        Section("Changed", _pairs(done.changed)),
        Section("Contradicted", _pairs([*done.superseded, *done.questioned])),
        Section("Gone stale", _pairs(done.stale)),
        Section("Faded", _faded(done)),
        Section("Questioned", _found(night, {"secrets", "links", "orphans"})),
        Section("Refused", _one(_refused(night))),
        Section("Asked and not found", _one(Line(gap) for gap in night.gaps)),
        Section("Health", _found(night, {"conformance", "index", "sessions", "embeddings", "tags"})),
        Section("The gate", _one(_gate(night))),
    )
    return [section for section in all_sections if section.groups]


def cost(night: Night) -> str:
    """What the night took."""
    spent = f"{sum(night.seconds.values()):.1f} s of thinking"
    if night.calls:
        spent += f", {count(night.calls, 'call')} to the language model and {count(night.tokens, 'token')}"
    return f"{spent}. {night.way}" if night.way else f"{spent}."


def asked_by(gate: GateResult) -> str:
    """How many of the gate's questions were asked by agents, and how many it made."""
    asked = f"{count(gate.probes - gate.made, 'question')} that your agents asked"
    made = f"{count(gate.made, 'question')} made of what was there"
    return " and ".join(part for part, number in ((asked, gate.probes - gate.made), (made, gate.made)) if number)


def holdings(night: Night) -> str:
    """What the memory holds now, in a sentence."""
    kept = ", ".join(f"{night.memories.get(level, 0)} {name}" for level, name in LEVEL_NAMES)
    return f"The memory now holds {kept}." if night.memories else ""


def count(number: int, what: str, plural: str = "") -> str:
    """`1 fact`, `2 facts`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def _learned(facts: Sequence[Memory]) -> Iterator[Group]:
    for channel in sorted({fact.channel for fact in facts}):
        here = [fact for fact in facts if fact.channel == channel]
        ranked = sorted(here, key=lambda fact: (_rank(fact), -(fact.certainty or 0), fact.node_id))
        lines = [Line(fact.title, fact.path, fact.kind.value) for fact in ranked[:MOST_NAMED]]
        yield Group(lines, f"{channel}: {count(len(here), 'fact')}", len(here) - len(lines))


def _rank(fact: Memory) -> int:
    return _WORTH_READING.index(fact.kind) if fact.kind in _WORTH_READING else len(_WORTH_READING)


def _new_pages(pages: Sequence[Memory]) -> Iterator[Line]:
    for page in sorted(pages, key=lambda page: (page.level, page.channel, page.title)):
        rests_on = count(len(page.sources), "scenario" if page.kind is Kind.INSIGHT else "fact")
        yield Line(page.title, page.path, f"new {page.kind.value}, from {rests_on}")


def _pairs(pairs: Sequence[tuple[Memory, str]]) -> list[Group]:
    return _one(Line(memory.title, memory.path, reason) for memory, reason in pairs)


def _faded(done: Told) -> list[Group]:
    hint = "`dreamctl restore ID` brings one back"
    return _one((Line(memory.title, memory.path, reason) for memory, reason in done.faded), hint=hint)


def _found(night: Night, checks: set[str]) -> list[Group]:
    lines = (
        Line(finding.path or "the whole memory", finding.path, finding.problem)
        for finding in night.findings
        if finding.check in checks
    )
    return _one(lines)


def _refused(night: Night) -> Iterator[Line]:
    forbidden = sum(counts.get("forbidden", 0) for counts in night.counts.values())
    if forbidden:
        yield Line(f"{count(forbidden, 'statement')} that you undid or had forgotten before")
    refused = sum(counts.get("refused", 0) for counts in night.counts.values() if "claims" in counts)
    if refused:
        yield Line(f"{count(refused, 'claim')} of the language model without evidence")
    for dropped in night.gate.dropped if night.gate else ():
        yield Line(f"everything that {dropped.stage} proposed", note=dropped.reason)
    yield from (Line(note) for note in night.notes)


def _gate(night: Night) -> Iterator[Line]:
    gate = night.gate
    if gate is None:
        return
    if gate.probes:
        yield Line(
            f"Tried with {asked_by(gate)}: recall {gate.recall_before:.3f} before, {gate.recall_after:.3f} after; "
            f"{gate.gained} better, {gate.lost} worse."
        )
    elif night.actions or gate.dropped:
        yield Line("Nothing was asked yet, and there was too little to make questions of: recall was not tried.")


def _waiting(night: Night) -> list[Group]:
    lines = [Line(newer.title, newer.path, f"or: {older.title}") for older, newer in night.decisions]
    return _one(lines, hint="`dreamctl review` walks through them")


def _one(lines: Sequence[Line] | Iterator[Line], most: int = MOST_NAMED, hint: str = "") -> list[Group]:
    every = list(lines)
    return [Group(every[:most], "", max(0, len(every) - most), hint)] if every else []


def headline(day: date) -> str:
    """What a digest is called."""
    return f"The night before {format_date(day)}"

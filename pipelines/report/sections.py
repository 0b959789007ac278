"""The account of a run in sections, which the digest renders as markdown and the page as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from ...store.keep import okf
from ...store.model import Action, ActionKind, Kind, Level, Memory
from ..gate.gate import GateResult
from ..language.dates import format_date
from ..stages import staleness
from .run_report import RunReport

MOST_NAMED = 8
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
class Line:
    """One line of a section. `path` is the file it is about, `note` a remark beside it."""

    text: str
    path: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that belong together; `more` is the number of those left out."""

    lines: Sequence[Line]
    title: str = ""
    more: int = 0
    more_hint: str = ""

    @property
    def rest(self) -> str:
        """The last line of the group, on what is left out; "" if there is nothing to say."""
        more = f"… and {self.more:,} more" if self.more else ""
        return "; ".join(part for part in (more, self.more_hint) if part)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the groups of lines below it."""

    title: str
    groups: Sequence[Group]


@dataclass(frozen=True, slots=True)
class ActionSummary:
    """The memories that a run's actions touch, with the reasons, sorted as a person would."""

    facts: list[Memory]
    pages: list[Memory]
    superseded: list[tuple[Memory, str]]
    contradicted: list[tuple[Memory, str]]
    faded: list[tuple[Memory, str]]
    stale: list[tuple[Memory, str]]
    changed: list[tuple[Memory, str]]


def summarize(actions: Sequence[Action]) -> ActionSummary:
    """Sort the actions; of several on one file the last counts, but what the run made is learned as well."""
    result = ActionSummary([], [], [], [], [], [], [])
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
            result.contradicted.append(pair)
        elif action.path in made:
            continue
        elif memory.is_archived:
            result.faded.append(pair)
        elif action.stage == staleness.STAGE and "stale_after" in memory.extra:
            result.stale.append(pair)
        else:
            result.changed.append(pair)
    return result


def lead(report: RunReport, summary: ActionSummary) -> str:
    """Say in two sentences what the run did."""
    turns = report.counts.get("consolidate", {}).get("turns", 0)
    if not report.actions:
        return f"{count(turns, 'new turn')} to read; nothing to change. The memory is as you left it."
    learned = f"{count(turns, 'new turn')} became {count(len(summary.facts), 'fact')} and "
    learned += count(len(summary.pages), "new page")
    also = [
        f"{number} {what}"
        for number, what in (
            (len(summary.superseded), "superseded"),
            (len(summary.contradicted), "in question"),
            (len(summary.stale), "gone stale"),
            (len(summary.faded), "faded"),
        )
        if number
    ]
    return f"{learned}{'; ' + ', '.join(also) if also else ''}."


def sections(report: RunReport, summary: ActionSummary) -> list[Section]:
    """Return the sections that have something to say."""
    all_sections = (
        Section("Decisions waiting", _waiting(report)),
        Section("Learned", [*_learned(summary.facts), *_one(_new_pages(summary.pages), 2 * MOST_NAMED)]),
        Section("Changed", _pairs(summary.changed)),
        Section("Contradicted", _pairs([*summary.superseded, *summary.contradicted])),
        Section("Gone stale", _pairs(summary.stale)),
        Section("Faded", _pairs(summary.faded, "`dreamctl restore ID` brings one back")),
        Section("Problems found", _found(report, {"secrets", "links", "orphans"})),
        Section("Refused", _one(_refused(report))),
        Section("Asked and not found", _one(Line(gap) for gap in report.gaps)),
        Section("Health", _found(report, {"conformance", "index", "sessions", "embeddings", "tags"})),
        Section("The gate", _one(_gate(report))),
    )
    return [section for section in all_sections if section.groups]


def cost(report: RunReport) -> str:
    """Say how long the run took, and what the language model was asked."""
    spent = f"{sum(report.seconds.values()):.1f} s"
    if report.calls:
        spent += f", {count(report.calls, 'call')} to the language model and {count(report.tokens, 'token')}"
    return f"{spent}. {report.model_note}" if report.model_note else f"{spent}."


def asked_by(gate: GateResult) -> str:
    """Say how many of the gate's questions agents asked, and how many it made itself."""
    kinds = (
        (gate.probes - gate.synthetic, "that your agents asked"),
        (gate.synthetic, "made from the memory"),
    )
    return " and ".join(f"{count(number, 'question')} {origin}" for number, origin in kinds if number)


def holdings(report: RunReport) -> str:
    """Say in a sentence how much the memory holds now."""
    kept = ", ".join(f"{report.memories.get(level, 0)} {name}" for level, name in LEVEL_NAMES)
    return f"The memory now holds {kept}." if report.memories else ""


def count(number: int, what: str, plural: str = "") -> str:
    """Write a number with its noun: `1 fact`, `2 facts`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def _learned(facts: Sequence[Memory]) -> Iterator[Group]:
    rank = {kind: place for place, kind in enumerate(_WORTH_READING)}
    for channel in sorted({fact.channel for fact in facts}):
        here = [fact for fact in facts if fact.channel == channel]
        ranked = sorted(here, key=lambda fact: (rank.get(fact.kind, len(rank)), -(fact.certainty or 0), fact.node_id))
        lines = [Line(fact.title, fact.path, fact.kind.value) for fact in ranked[:MOST_NAMED]]
        yield Group(lines, f"{channel}: {count(len(here), 'fact')}", len(here) - len(lines))


def _new_pages(pages: Sequence[Memory]) -> Iterator[Line]:
    for page in sorted(pages, key=lambda page: (page.level, page.channel, page.title)):
        rests_on = count(len(page.sources), "scenario" if page.kind is Kind.INSIGHT else "fact")
        yield Line(page.title, page.path, f"new {page.kind.value}, from {rests_on}")


def _pairs(pairs: Sequence[tuple[Memory, str]], hint: str = "") -> list[Group]:
    return _one((Line(memory.title, memory.path, reason) for memory, reason in pairs), hint=hint)


def _found(report: RunReport, checks: set[str]) -> list[Group]:
    lines = (
        Line(finding.path or "the whole memory", finding.path, finding.problem)
        for finding in report.findings
        if finding.check in checks
    )
    return _one(lines)


def _refused(report: RunReport) -> Iterator[Line]:
    forbidden = sum(counts.get("forbidden", 0) for counts in report.counts.values())
    if forbidden:
        yield Line(f"{count(forbidden, 'statement')} that you undid or had forgotten before")
    refused = sum(counts.get("refused", 0) for counts in report.counts.values() if "claims" in counts)
    if refused:
        yield Line(f"{count(refused, 'claim')} of the language model without evidence")
    for dropped in report.gate.dropped if report.gate else ():
        yield Line(f"everything that {dropped.stage} proposed", note=dropped.reason)
    yield from (Line(note) for note in report.notes)


def _gate(report: RunReport) -> Iterator[Line]:
    gate = report.gate
    if gate is None:
        return
    if gate.probes:
        yield Line(
            f"Tested with {asked_by(gate)}: recall {gate.recall_before:.3f} before, {gate.recall_after:.3f} after; "
            f"{gate.gained} better, {gate.lost} worse."
        )
    elif report.actions or gate.dropped:
        yield Line(
            "Recall was not tested: no question was asked yet, and the memory is too small to make questions from."
        )


def _waiting(report: RunReport) -> list[Group]:
    lines = [Line(newer.title, newer.path, f"or: {older.title}") for older, newer in report.decisions]
    return _one(lines, hint="`dreamctl review` walks through them")


def _one(lines: Sequence[Line] | Iterator[Line], most: int = MOST_NAMED, hint: str = "") -> list[Group]:
    every = list(lines)
    return [Group(every[:most], "", max(0, len(every) - most), hint)] if every else []


def headline(day: date) -> str:
    """Return the title of a day's digest."""
    return f"The night before {format_date(day)}"

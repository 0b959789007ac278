"""The account of a run in sections, which the digest renders as markdown and the page as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from typing import get_args

from ...store import okf
from ...store.model import Action, ActionKind, Kind, Level, Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.dates import format_date
from ..gate.gate import GateResult
from ..pages import changes, quotes
from ..protocol import RunKind
from ..stages import staleness
from .run_report import RunReport

MOST_NAMED, MOST_LEARNED, MOST_PAIRS, MOST_DOUBTED = 8, 5, 5, 4
LEVEL_NAMES = ((Level.FACT, "fact"), (Level.SCENARIO, "episode"), (Level.PROFILE, "profile page"))
_WORTH_READING = (
    Kind.CORRECTION,
    Kind.DECISION,
    Kind.PREFERENCE,
    Kind.PROCEDURE,
    Kind.NEGATIVE,
    Kind.PITFALL,
    Kind.VALUE,
    Kind.PERSON,
    Kind.EVENT,
    Kind.FINDING,
    Kind.FACT,
    Kind.EPISODE,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section. `path` is the file it is about, `note` a remark beside it."""

    text: str
    path: str = ""
    note: str = ""


Pair = tuple[Line, Line]
"""Two statements side by side, the older first."""


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that belong together, or pairs under two `heads`; `more` is the number of those left out."""

    lines: Sequence[Line] = ()
    title: str = ""
    more: int = 0
    more_hint: str = ""
    pairs: Sequence[Pair] = ()
    heads: tuple[str, str] = ("before", "now")

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
    """The memories that a run's actions touch, with the reasons, sorted as a person would.

    `replaced` and `doubted` are pairs of an older fact and the newer one that took its place, or perhaps did. The newer
    is None where the run did not touch it; doubts are those that a person sees at once.
    """

    facts: list[Memory]
    pages: list[Memory]
    replaced: list[tuple[Memory, Memory | None]]
    doubted: list[tuple[Memory, Memory]]
    contradicted: list[tuple[Memory, str]]
    faded: list[tuple[Memory, str]]
    stale: list[tuple[Memory, str]]
    changed: list[tuple[Memory, str]]


def summarize(actions: Sequence[Action]) -> ActionSummary:
    """Sort the actions; of several on one file the last counts, but what the run made is learned as well."""
    result = ActionSummary([], [], [], [], [], [], [], [])
    made = {action.path for action in actions if action.kind is ActionKind.CREATE}
    last = {action.path: action for action in actions}.values()
    touched = [(okf.to_memory(a.path, okf.parse(a.content)), a) for a in last if a.content is not None]
    by_id = {memory.node_id: memory for memory in changes.plainly(memory for memory, _ in touched)}
    for memory, action in touched:
        if action.path in made:
            (result.facts if memory.level is Level.FACT else result.pages).append(memory)
        _sort(result, memory, action, by_id, is_new=action.path in made)
    return result


def _sort(result: ActionSummary, memory: Memory, action: Action, by_id: dict[NodeId, Memory], *, is_new: bool) -> None:
    """Put a memory where what became of it is told."""
    pair = (memory, action.reason)
    if memory.superseded_by:
        result.replaced.append((memory, by_id.get(memory.superseded_by)))
    elif memory.contradicts:
        result.contradicted.append(pair)
    elif memory.later:
        result.doubted.extend((memory, by_id[newer]) for newer in by_id[memory.node_id].later[-1:])
    elif is_new:
        return
    elif memory.is_archived:
        result.faded.append(pair)
    elif action.stage == staleness.STAGE and "stale_after" in memory.extra:
        result.stale.append(pair)
    else:
        result.changed.append(pair)


def lead(report: RunReport, summary: ActionSummary) -> list[str]:
    """Say in at most five sentences what changed: learned, replaced, contradicted, faded, asked for."""
    turns = report.counts.get("consolidate", {}).get("turns", 0)
    if not report.actions:
        return [f"{count(turns, 'new turn')} to read; nothing to change.", "The memory is as you left it."]
    said = [_learned_sentence(turns, summary), _replaced_sentence(summary)]
    said += [_doubted_sentence(report, summary), _faded_sentence(summary), _asked_sentence(report)]
    verbs = ("was replaced", "is in question", "faded")
    quiet = [verb for verb, one in zip(verbs, said[1:4], strict=True) if not one]
    nothing = f"Nothing {' or '.join(filter(None, (', '.join(quiet[:-1]), quiet[-1])))}." if quiet else ""
    return [sentence for sentence in (*said[:4], nothing, said[4]) if sentence]


def _learned_sentence(turns: int, summary: ActionSummary) -> str:
    named = [f"“{page.title}”" for page in _newest(summary.pages) if page.kind is Kind.SCENARIO][:2]
    if not turns and not summary.facts:
        return "No new turns; the pages follow what changed." if summary.pages else "No new turns."
    said = f"{count(turns, 'new turn')} became {count(len(summary.facts), 'fact')}"
    said += f" and {count(len(summary.pages), 'new page')}" if summary.pages else ""
    return f"{said}, {' and '.join(named)} among them." if named else f"{said}."


def _replaced_sentence(summary: ActionSummary) -> str:
    number = len(summary.replaced)
    gave = "gave way to a newer one" if number == 1 else "gave way to newer ones"
    return f"{count(number, 'statement')} {gave}; old and new stand side by side below." if number else ""


def _doubted_sentence(report: RunReport, summary: ActionSummary) -> str:
    waiting, doubted, claims = len(report.decisions), len(summary.doubted), len(report.waiting)
    noted = f"{count(claims, 'note')} of your agents {'waits' if claims == 1 else 'wait'} for `dreamctl review`"
    said = f"{count(waiting, 'pair')} cannot both hold and {'waits' if waiting == 1 else 'wait'} for you"
    perhaps = f"{count(doubted, 'older statement')} {'is' if doubted == 1 else 'are'} perhaps out of date"
    told = [part for part, number in ((said, waiting), (noted, claims), (perhaps, doubted)) if number]
    return f"{'; '.join(told)}." if told else ""


def _faded_sentence(summary: ActionSummary) -> str:
    told = ((len(summary.faded), "faded"), (len(summary.stale), "went stale"))
    parts = [f"{number} {what}" for number, what in told if number]
    return f"{' and '.join(parts)}, and nothing of it is gone." if parts else ""


def _asked_sentence(report: RunReport) -> str:
    if not report.gaps:
        return ""
    return f"{count(len(report.gaps), 'question')} of your agents found no answer, first of all “{report.gaps[0]}”."


def sections(report: RunReport, summary: ActionSummary) -> list[Section]:
    """Return the sections that have something to say."""
    all_sections = (
        Section("Decisions waiting", _waiting(report)),
        Section("Replaced", _side_by_side(summary.replaced, MOST_PAIRS)),
        Section("Perhaps replaced", _side_by_side(summary.doubted, MOST_DOUBTED)),
        Section("Episodes", _one(_new_pages(summary.pages, episodes=True))),
        Section("Learned", list(_learned(summary.facts))),
        Section("Pages", _one(_new_pages(summary.pages, episodes=False))),
        Section("Changed", _noted(summary.changed)),
        Section("Left alone", _held(report.held)),
        Section("In question", _noted(summary.contradicted) if not report.decisions else []),
        Section("Gone stale", _noted(summary.stale)),
        Section("Remembered", _one(_linked(report))),
        Section("Purged", _one(_purged(report))),
        Section("Faded", _noted(summary.faded, "`dreamctl restore ID` brings one back")),
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
    kept = ", ".join(count(report.memories.get(level, 0), name) for level, name in LEVEL_NAMES)
    return f"The memory now holds {kept}." if report.memories else ""


def count(number: int, what: str, plural: str = "") -> str:
    """Write a number with its noun: `1 fact`, `2 facts`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def _learned(facts: Sequence[Memory]) -> Iterator[Group]:
    rank = {kind: place for place, kind in enumerate(_WORTH_READING)}
    for channel in sorted({fact.channel for fact in facts}):
        here = [fact for fact in facts if fact.channel == channel and not fact.superseded_by]
        ranked = sorted(_newest(here), key=lambda fact: (rank.get(fact.kind, len(rank)), -(fact.certainty or 0)))
        lines = [Line(quotes.dated(fact), fact.path, fact.kind.value) for fact in ranked[:MOST_LEARNED]]
        yield Group(lines, f"{channel}: {count(len(here), 'fact')}", len(here) - len(lines))


def _new_pages(pages: Sequence[Memory], *, episodes: bool) -> Iterator[Line]:
    several = len({page.channel for page in pages}) > 1
    for page in _newest(pages):
        if (page.kind is Kind.SCENARIO) is episodes:
            about = [page.channel] if several else []
            yield Line(page.title, page.path, ", ".join([*about, page.description.rstrip(".")]))


def _held(pages: Sequence[Memory]) -> list[Group]:
    """Name the pages that the run would have written, had no person edited them."""
    lines = [Line(_said(page), page.path, "you edited it") for page in pages]
    hint = "to have one written again, keep what is yours with `dreamctl remember` and delete the file"
    return _one(lines, hint=hint)


def _newest(memories: Sequence[Memory]) -> list[Memory]:
    return quotes.in_time(memories)[::-1]


def _noted(pairs: Sequence[tuple[Memory, str]], hint: str = "") -> list[Group]:
    return _one((Line(_said(memory), memory.path, reason) for memory, reason in pairs), hint=hint)


def _side_by_side(pairs: Sequence[tuple[Memory, Memory | None]], most: int) -> list[Group]:
    by_people = sorted(pairs, key=lambda pair: (pair[1] or pair[0]).said_by in MACHINES)
    told = [_pair(*changes.told_by(old, new)) if new else (_quote(old), Line("a newer one")) for old, new in by_people]
    return [Group(pairs=told[:most], more=max(0, len(told) - most))] if told else []


def _pair(older: Memory, newer: Memory) -> Pair:
    return _quote(older), _quote(newer)


def _quote(memory: Memory) -> Line:
    return Line(quotes.spoken(memory), memory.path, quotes.day_of(memory))


def _said(memory: Memory) -> str:
    """Return what a fact says, or a page's title and channel: a page of what holds now has every one."""
    return quotes.dated(memory) if memory.level is Level.FACT else f"{memory.title} ({memory.channel})"


def _found(report: RunReport, checks: set[str]) -> list[Group]:
    lines = (
        Line(finding.path or "the whole memory", finding.path, finding.problem)
        for finding in report.findings
        if finding.check in checks
    )
    return _one(lines)


def _linked(report: RunReport) -> Iterator[Line]:
    if report.linked:
        said = count(report.linked, "statement that was remembered", "statements that were remembered")
        what = "repeats, replaces or disputes" if report.linked == 1 else "repeat, replace or dispute"
        yield Line(f"{said} {what} what was known", note="`dreamctl runs --kind link` lists them")


def _purged(report: RunReport) -> Iterator[Line]:
    """Say what was erased since the last dream: numbers, no words."""
    since = takewhile(lambda run: run.kind not in get_args(RunKind) or run.state != "applied", report.runs)
    for run in since:
        if isinstance(purged := run.summary.get("purged"), dict):
            nouns = (("sessions", "session", ""), ("turns", "turn", ""), ("memories", "memory", "memories"))
            parts = [count(purged[name], one, many) for name, one, many in nouns if purged.get(name)]
            yield Line(f"{', '.join(parts) or 'Secrets'}, for good", note=format_date(run.started_at.date()))


def _refused(report: RunReport) -> Iterator[Line]:
    forbidden = sum(counts.get("forbidden", 0) for counts in report.counts.values())
    if forbidden:
        yield Line(f"{count(forbidden, 'statement')} that you undid or had forgotten before")
    refused = sum(counts.get("refused", 0) for counts in report.counts.values() if "claims" in counts)
    if refused:
        yield Line(f"{count(refused, 'claim')} of the language model without evidence")
    for dropped in report.gate.dropped if report.gate else ():
        of = f"{dropped.actions:,} of {count(dropped.of, 'change')}" if dropped.actions < dropped.of else "everything"
        yield Line(f"{of} that {dropped.stage} proposed", note=dropped.reason)
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
    told = [(_quote(older), _quote(newer)) for older, newer in report.decisions]
    if not told:
        return []
    hint = "`dreamctl review` walks through them"
    return [Group((), "", max(0, len(told) - MOST_PAIRS), hint, told[:MOST_PAIRS], ("said first", "said later"))]


def _one(lines: Sequence[Line] | Iterator[Line], most: int = MOST_NAMED, hint: str = "") -> list[Group]:
    every = list(lines)
    return [Group(every[:most], "", max(0, len(every) - most), hint)] if every else []


def headline(day: date) -> str:
    """Return the title of a day's digest."""
    return f"The night before {format_date(day)}"

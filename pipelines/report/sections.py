"""The account of a run in sections, which the digest renders as markdown and the page as HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from typing import get_args

from ...store import okf
from ...store.channel import project_name
from ...store.model import COLLEAGUE, Action, ActionKind, Kind, Level, Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.dates import format_date
from ...store.text.sentences import first_sentences
from ..gate.gate import GateResult
from ..messages import RunKind
from ..pages import current_facts
from ..pages.current_facts import shortened_to_change, with_plain_successors
from ..stages import decay, staleness
from .run_report import RunReport, step_name

ANSWER_CHARS = 160
MOST_NAMED, MOST_LEARNED, MOST_PAIRS, MOST_DOUBTED = 8, 5, 5, 4
LEVEL_NAMES = (
    (Level.FACT, "fact that holds", "facts that hold"),
    (Level.SCENARIO, "scenario", ""),
    (Level.PROFILE, "profile", ""),
)


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One line of a section. `path` is the file it is about, `note` a remark."""

    text: str
    path: str = ""
    note: str = ""


Pair = tuple[ReportLine, ReportLine]
"""Two statements side by side, the older first."""


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Lines that belong together, or pairs under two `heads`; `more` is the number of those left out."""

    lines: Sequence[ReportLine] = ()
    title: str = ""
    more: int = 0
    more_hint: str = ""
    pairs: Sequence[Pair] = ()
    heads: tuple[str, str] = ("before", "now")

    @property
    def rest(self) -> str:
        """The last line of the group, on the lines left out; "" for none."""
        more = f"… and {self.more:,} more" if self.more else ""
        return "; ".join(part for part in (more, self.more_hint) if part)


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading and the groups of lines below it."""

    title: str
    groups: Sequence[LineGroup]


@dataclass(frozen=True, slots=True)
class ActionSummary:
    """The memories that a run's actions touch, with the reasons, sorted as a person would.

    `replaced` and `doubted` are pairs of an older fact and its certain or probable successor. The successor is None
    where the run did not change it; doubts are only those that are plain from the words.
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
    """Sort the actions by their effect; of several on one file the last counts, and a new file is also learned.

    The pages of people and things are counted among the steps, and change with most sessions: none is told.
    """
    result = ActionSummary([], [], [], [], [], [], [], [])
    made = {action.path for action in actions if action.kind is ActionKind.CREATE}
    last = {action.path: action for action in actions}.values()
    touched = [(okf.to_memory(a.path, okf.parse(a.content)), a) for a in last if a.content is not None]
    by_id = {memory.node_id: memory for memory in with_plain_successors(memory for memory, _ in touched)}
    for memory, action in touched:
        if memory.kind is Kind.ENTITY:
            continue
        if action.path in made:
            (result.facts if memory.level is Level.FACT else result.pages).append(memory)
        _sort(result, memory, action, by_id, is_new=action.path in made)
    return result


def _sort(result: ActionSummary, memory: Memory, action: Action, by_id: dict[NodeId, Memory], *, is_new: bool) -> None:
    """Add a memory to the list of its change."""
    pair = (memory, action.reason)
    if memory.is_archived and action.stage == decay.STAGE:
        result.faded.append(pair)
    elif memory.superseded_by:
        result.replaced.append((memory, by_id.get(memory.superseded_by)))
    elif memory.contradicts:
        result.contradicted.append(pair)
    elif memory.later:
        result.doubted.extend((memory, by_id[newer]) for newer in by_id[memory.node_id].later[-1:])
    elif action.stage == staleness.STAGE and ("stale_after" in memory.extra or memory.tense == "past"):
        result.stale.append(pair)
    elif is_new:
        return
    elif memory.is_archived:
        result.faded.append(pair)
    else:
        result.changed.append(pair)


def lead(report: RunReport, summary: ActionSummary) -> list[str]:
    """Summarise the changes in at most five sentences: learned, replaced, contradicted, faded, asked for."""
    turns = report.counts.get("consolidate", {}).get("turns", 0)
    if not report.actions:
        return [f"{count(turns, 'new turn')} to read; nothing to change."]
    said = [_learned_sentence(turns, summary), _replaced_sentence(summary)]
    said += [_doubted_sentence(report, summary), _faded_sentence(summary), _asked_sentence(report)]
    return [sentence for sentence in said if sentence]


def _learned_sentence(turns: int, summary: ActionSummary) -> str:
    named = [f"“{page.title}”" for page in _newest(summary.pages) if page.kind is Kind.SCENARIO][:2]
    if not turns and not summary.facts:
        new, followed = len(summary.pages), sum(memory.level is not Level.FACT for memory, _ in summary.changed)
        parts = [f"{count(new, 'new page')} of what is known already"] if new else []
        parts += [f"{count(followed, 'page')} brought up to date"] if followed else []
        return f"{' and '.join(parts) or 'No new turns'}."
    said = f"{count(turns, 'new turn')} became {count(len(summary.facts), 'fact')}"
    said += f" and {count(len(summary.pages), 'new page')}" if summary.pages else ""
    return f"{said}, {' and '.join(named)} among them." if named else f"{said}."


def _replaced_sentence(summary: ActionSummary) -> str:
    number = len(summary.replaced)
    gave = "gave way to a newer one" if number == 1 else "gave way to newer ones"
    return f"{count(number, 'statement')} {gave}; old and new stand side by side below." if number else ""


def _doubted_sentence(report: RunReport, summary: ActionSummary) -> str:
    waiting, doubted = len(report.decisions), len(summary.doubted)
    theirs = sum(memory.provenance == COLLEAGUE for memory in report.waiting)
    claims = len(report.waiting) - theirs
    noted = f"{count(claims, 'note')} of your agents {'waits' if claims == 1 else 'wait'} for `dreamctl review`"
    shared = f"{count(theirs, 'note')} of colleagues {'waits' if theirs == 1 else 'wait'} for `dreamctl review`"
    said = f"{count(waiting, 'pair')} cannot both hold and {'waits' if waiting == 1 else 'wait'} for you"
    perhaps = f"{count(doubted, 'older statement')} {'is' if doubted == 1 else 'are'} perhaps out of date"
    told = [part for part, number in ((said, waiting), (noted, claims), (shared, theirs), (perhaps, doubted)) if number]
    return f"{'; '.join(told)}." if told else ""


def _faded_sentence(summary: ActionSummary) -> str:
    told = ((len(summary.faded), "faded"), (len(summary.stale), "went stale"))
    parts = [f"{number} {what}" for number, what in told if number]
    return f"{' and '.join(parts)}, and nothing of it is gone." if parts else ""


def _asked_sentence(report: RunReport) -> str:
    said = [f"Asked {_times(times)} in vain and answered now: “{text}”" for text, times, _ in report.filled[:1]]
    if report.gaps:
        number = count(len(report.gaps), "question")
        said.append(f"{number} of your agents found no answer, first of all “{report.gaps[0]}”")
    return f"{'; '.join(said)}." if said else ""


def sections(report: RunReport, summary: ActionSummary) -> list[ReportSection]:
    """Return the sections with content."""
    all_sections = (
        ReportSection("Decisions waiting", _waiting(report)),
        ReportSection("Replaced", _side_by_side(summary.replaced, MOST_PAIRS)),
        ReportSection("Perhaps replaced", _side_by_side(summary.doubted, MOST_DOUBTED)),
        ReportSection("Scenarios", _one(_new_pages(summary.pages, report.channels, scenarios=True))),
        ReportSection("Learned", list(_learned(summary.facts, report))),
        ReportSection("Pages", _one(_new_pages(summary.pages, report.channels, scenarios=False))),
        ReportSection("Changed", _noted(report, summary.changed)),
        ReportSection("Left alone", _left_alone(report)),
        ReportSection("In question", _noted(report, summary.contradicted) if not report.decisions else []),
        ReportSection("Gone stale", _noted(report, summary.stale)),
        ReportSection("Remembered", _one(_linked(report))),
        ReportSection("Told", _one(_told(report))),
        ReportSection("Purged", _one(_purged(report))),
        ReportSection("Faded", _noted(report, summary.faded, "`dreamctl restore ID` brings one back")),
        ReportSection("Problems found", _found(report, {"secrets", "links", "orphans"})),
        ReportSection("Refused", _one(_refused(report))),
        ReportSection("Asked in vain, answered now", _one(_filled(report))),
        ReportSection("Asked and not found", _one(ReportLine(gap) for gap in report.gaps)),
        ReportSection("Health", _found(report, {"conformance", "index", "sessions", "embeddings", "tags"})),
        ReportSection("Tested before it was applied", _one(_gate(report))),
    )
    return [section for section in all_sections if section.groups]


def cost(report: RunReport) -> str:
    """Write the duration of the run and the language model's cost."""
    spent = f"All steps took {sum(report.seconds.values()):.1f} s"
    if report.calls:
        spent += f", {count(report.calls, 'call')} to the language model and {count(report.tokens, 'token')}"
    return f"{spent}. {report.model_note}" if report.model_note else f"{spent}."


def asked_by(gate: GateResult) -> str:
    """Count the gate's questions by origin: asked by agents, or generated."""
    kinds = (
        (gate.probes - gate.synthetic, "that your agents asked"),
        (gate.synthetic, "made from the memory"),
    )
    return " and ".join(f"{count(number, 'question')} {origin}" for number, origin in kinds if number)


def memory_counts(report: RunReport) -> str:
    """Count the memories of each level in a sentence."""
    kept = ", ".join(count(report.memories.get(level, 0), name, names) for level, name, names in LEVEL_NAMES)
    return f"The memory now holds {kept}." if report.memories else ""


def count(number: int, what: str, plural: str = "") -> str:
    """Write a number with its noun: `1 fact`, `2 facts`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def _learned(facts: Sequence[Memory], report: RunReport) -> Iterator[LineGroup]:
    """Yield the facts of each channel: those that hold in the order of its page, then the others by worth."""
    for channel in sorted({fact.channel for fact in facts}):
        here = [fact for fact in facts if fact.channel == channel and not fact.superseded_by]
        ranked = sorted(_newest(here), key=lambda fact: current_facts.rank(fact, report.day))
        lines = [ReportLine(current_facts.dated(fact), fact.path, fact.kind.value) for fact in ranked[:MOST_LEARNED]]
        title = f"{project_name(channel, report.channels)}: {count(len(here), 'fact')}"
        yield LineGroup(lines, title, len(here) - len(lines))


def _new_pages(pages: Sequence[Memory], channels: Collection[str], *, scenarios: bool) -> Iterator[ReportLine]:
    several = len({page.channel for page in pages}) > 1
    for page in _newest(pages):
        if (page.kind is Kind.SCENARIO) is scenarios:
            about = [project_name(page.channel, channels)] if several else []
            yield ReportLine(page.title, page.path, ", ".join([*about, page.description.rstrip(".")]))


def _left_alone(report: RunReport) -> list[LineGroup]:
    """Name the pages that the run would have written, had no person edited them."""
    lines = [ReportLine(_subject(report, page), page.path, "you edited it") for page in report.left_alone]
    hint = "to have one written again, keep what is yours with `dreamctl remember` and delete the file"
    return _one(lines, hint=hint)


def _newest(memories: Sequence[Memory]) -> list[Memory]:
    return current_facts.in_time(memories)[::-1]


def _noted(report: RunReport, pairs: Sequence[tuple[Memory, str]], hint: str = "") -> list[LineGroup]:
    return _one((ReportLine(_subject(report, memory), memory.path, reason) for memory, reason in pairs), hint=hint)


def _side_by_side(pairs: Sequence[tuple[Memory, Memory | None]], most: int) -> list[LineGroup]:
    by_people = sorted(pairs, key=lambda pair: (pair[1] or pair[0]).said_by in MACHINES)
    told = [
        _pair(*shortened_to_change(old, new)) if new else (_quote(old), ReportLine("a newer one"))
        for old, new in by_people
    ]
    return [LineGroup(pairs=told[:most], more=max(0, len(told) - most))] if told else []


def _pair(older: Memory, newer: Memory) -> Pair:
    return _quote(older), _quote(newer)


def _quote(memory: Memory) -> ReportLine:
    return ReportLine(current_facts.spoken(memory), memory.path, current_facts.day_of(memory))


def _subject(report: RunReport, memory: Memory) -> str:
    """Return a fact's quote, or a page's title with its channel, since the title of a profile is the same in each."""
    return (
        current_facts.dated(memory)
        if memory.level is Level.FACT
        else f"{memory.title} ({project_name(memory.channel, report.channels)})"
    )


def _found(report: RunReport, checks: set[str]) -> list[LineGroup]:
    lines = (
        ReportLine(finding.path or "the whole memory", finding.path, finding.problem)
        for finding in report.findings
        if finding.check in checks
    )
    return _one(lines)


def _filled(report: RunReport) -> Iterator[ReportLine]:
    """Yield the questions that found no answer and have one now, each with it."""
    for text, times, answer in report.filled:
        said = f"“{text}” – {first_sentences(answer.text, ANSWER_CHARS)}"
        yield ReportLine(said, answer.path, f"asked {_times(times)}, answered now")


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _linked(report: RunReport) -> Iterator[ReportLine]:
    if report.since.linked:
        said = count(report.since.linked, "statement that was remembered", "statements that were remembered")
        what = "repeats, replaces or disputes" if report.since.linked == 1 else "repeat, replace or dispute"
        yield ReportLine(f"{said} {what} what was known", note="`dreamctl runs --kind link` lists them")


def _told(report: RunReport) -> Iterator[ReportLine]:
    """Yield one line on the texts that agents were handed, and on those that did not arrive."""
    told = report.since.told
    if told.texts or told.lost_starts:
        were = "was" if told.texts == 1 else "were"
        said = f"{count(told.texts, 'text')} {were} handed to {count(told.sessions, 'session')} since the last dream"
        used = f", {told.used:,} of them used" if told.used else ""
        lost = f", {count(told.lost_starts, 'start')} lost" if told.lost_starts else ""
        yield ReportLine(said + used + lost, note="`dreamctl told` shows them")


def _purged(report: RunReport) -> Iterator[ReportLine]:
    """Yield the purges since the last dream, in numbers without texts."""
    since = takewhile(lambda run: run.kind not in get_args(RunKind) or run.state != "applied", report.runs)
    for run in since:
        if isinstance(purged := run.summary.get("purged"), dict):
            nouns = (("sessions", "session", ""), ("turns", "turn", ""), ("memories", "memory", "memories"))
            parts = [count(purged[name], one, many) for name, one, many in nouns if purged.get(name)]
            yield ReportLine(f"{', '.join(parts) or 'Secrets'}, for good", note=format_date(run.started_at.date()))


def _refused(report: RunReport) -> Iterator[ReportLine]:
    forbidden = sum(counts.get("forbidden", 0) for counts in report.counts.values())
    if forbidden:
        yield ReportLine(f"{count(forbidden, 'statement')} that you undid or had forgotten before")
    refused = sum(counts.get("refused", 0) for counts in report.counts.values() if "claims" in counts)
    if refused:
        yield ReportLine(f"{count(refused, 'claim')} of the language model without evidence")
    for dropped in report.gate.dropped if report.gate else ():
        of = f"{dropped.actions:,} of {count(dropped.of, 'change')}" if dropped.actions < dropped.of else "everything"
        yield ReportLine(f"{of} that the step “{step_name(dropped.stage)}” proposed", note=dropped.reason)
    yield from (ReportLine(note) for note in report.notes)


def _gate(report: RunReport) -> Iterator[ReportLine]:
    gate = report.gate
    if gate is None:
        return
    if gate.probes:
        moved = [f"{number} {how}" for number, how in ((gate.gained, "better"), (gate.lost, "worse")) if number]
        yield ReportLine(
            f"With {asked_by(gate)}: {gate.recall_before:.1%} found their answer before, {gate.recall_after:.1%} after"
            f"{'; ' if moved else ''}{', '.join(moved)}."
        )
    elif report.actions or gate.dropped:
        yield ReportLine("Not tested: no question was asked yet, and the memory is too small to make questions from.")


def _waiting(report: RunReport) -> list[LineGroup]:
    told = [(_quote(older), _quote(newer)) for older, newer in report.decisions]
    if not told:
        return []
    hint = "`dreamctl review` walks through them"
    return [LineGroup((), "", max(0, len(told) - MOST_PAIRS), hint, told[:MOST_PAIRS], ("said first", "said later"))]


def _one(lines: Sequence[ReportLine] | Iterator[ReportLine], most: int = MOST_NAMED, hint: str = "") -> list[LineGroup]:
    every = list(lines)
    return [LineGroup(every[:most], "", max(0, len(every) - most), hint)] if every else []


def headline(day: date) -> str:
    """Return the title of a day's digest."""
    return f"Digest of {format_date(day)}"

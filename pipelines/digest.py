"""The digest: what a night did, as a page that a person reads with pleasure in the morning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from ..store.keep import okf
from ..store.model import Action, ActionKind, Kind, Level, Memory
from .dates import format_date
from .lint import Finding

MOST_NAMED = 8
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
    """Everything that a digest tells of."""

    day: date
    run_id: str
    actions: Sequence[Action]
    counts: Mapping[str, Mapping[str, int]]
    seconds: Mapping[str, float]
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    gaps: Sequence[str] = ()
    memories: Mapping[Level, int] = field(default_factory=dict)


def path_of(day: date) -> str:
    """Where the digest of a day lies."""
    return f"digests/{day.isoformat()}.md"


def render(night: Night) -> str:
    """The page. Sections that have nothing to say are left out."""
    learned = [memory for memory in _memories(night.actions, ActionKind.CREATE) if memory.level is Level.FACT]
    pages = [memory for memory in _memories(night.actions, ActionKind.CREATE) if memory.level is not Level.FACT]
    lines = [f"# The night before {format_date(night.day)}", "", _summary(night, learned, pages)]
    for title, body in (
        ("Learned", list(_learned(learned, pages))),
        ("Changed", list(_changed(night.actions))),
        ("Questioned", list(_questioned(night))),
        ("Refused", list(_refused(night))),
        ("Asked and not found", [f"- {gap}" for gap in night.gaps[:MOST_NAMED]]),
        ("Health", list(_health(night))),
        ("Numbers", list(_numbers(night))),
    ):
        if body:
            lines += ["", f"## {title}", "", *body]
    return "\n".join(lines) + "\n"


def _summary(night: Night, learned: Sequence[Memory], pages: Sequence[Memory]) -> str:
    turns = night.counts.get("consolidate", {}).get("turns", 0)
    if not night.actions:
        return f"{_count(turns, 'new turn')} to read; nothing to change. The memory is as you left it."
    return (
        f"{_count(turns, 'new turn')} became {_count(len(learned), 'fact')}"
        f" and {_count(len(pages), 'new page')}. Undo it all with `dreamctl undo {night.run_id}`."
    )


def _learned(facts: Sequence[Memory], pages: Sequence[Memory]) -> Iterator[str]:
    for channel in sorted({fact.channel for fact in facts}):
        here = [fact for fact in facts if fact.channel == channel]
        yield f"### {channel}: {_count(len(here), 'fact')}"
        yield ""
        ranked = sorted(here, key=lambda fact: (_rank(fact), -(fact.certainty or 0), fact.node_id))
        for fact in ranked[:MOST_NAMED]:
            yield f"- {_linked(fact)} *({fact.kind.value})*"
        if len(here) > MOST_NAMED:
            yield f"- … and {len(here) - MOST_NAMED} more"
        yield ""
    for page in sorted(pages, key=lambda page: (page.level, page.channel, page.title))[: 2 * MOST_NAMED]:
        what = "profile" if page.level is Level.PROFILE else "scenario"
        yield f"- New {what}: {_linked(page)}, from {_count(len(page.sources), 'fact')}"


def _rank(fact: Memory) -> int:
    return _WORTH_READING.index(fact.kind) if fact.kind in _WORTH_READING else len(_WORTH_READING)


def _changed(actions: Sequence[Action]) -> Iterator[str]:
    changed = [action for action in actions if action.kind is ActionKind.REPLACE]
    for action in changed[:MOST_NAMED]:
        memory = okf.to_memory(action.path, okf.parse(action.content or b""))
        yield f"- {_linked(memory)}: {action.reason}"
    if len(changed) > MOST_NAMED:
        yield f"- … and {len(changed) - MOST_NAMED} more"


def _questioned(night: Night) -> Iterator[str]:
    for finding in [finding for finding in night.findings if finding.check in {"secrets", "links", "orphans"}][
        :MOST_NAMED
    ]:
        yield f"- [{finding.path}](/{finding.path}): {finding.problem}"


def _refused(night: Night) -> Iterator[str]:
    forbidden = sum(counts.get("forbidden", 0) for counts in night.counts.values())
    if forbidden:
        yield f"- {_count(forbidden, 'statement')} that you undid or had forgotten before"
    for note in night.notes:
        yield f"- {note}"


def _health(night: Night) -> Iterator[str]:
    rest = [finding for finding in night.findings if finding.check in {"conformance", "index", "sessions"}]
    for finding in rest[:MOST_NAMED]:
        yield f"- [{finding.path}](/{finding.path}): {finding.problem}"
    if len(rest) > MOST_NAMED:
        yield f"- … and {len(rest) - MOST_NAMED} more; `dreamctl check` names them all"


def _numbers(night: Night) -> Iterator[str]:
    yield "| step | seconds | what |"
    yield "| --- | --- | --- |"
    for stage, seconds in night.seconds.items():
        counts = ", ".join(f"{number} {what}" for what, number in night.counts.get(stage, {}).items())
        yield f"| {stage} | {seconds:.1f} | {counts or 'nothing to do'} |"
    if night.memories:
        kept = ", ".join(f"{night.memories.get(level, 0)} {name}" for level, name in _LEVEL_NAMES)
        yield ""
        yield f"The memory now holds {kept}."


_LEVEL_NAMES = ((Level.FACT, "facts"), (Level.SCENARIO, "scenarios"), (Level.PROFILE, "profile pages"))


def _memories(actions: Sequence[Action], kind: ActionKind) -> list[Memory]:
    return [
        okf.to_memory(action.path, okf.parse(action.content))
        for action in actions
        if action.kind is kind and action.content is not None
    ]


def _linked(memory: Memory) -> str:
    shown = memory.title.replace("[", "(").replace("]", ")")
    return f"[{shown}](/{memory.path})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

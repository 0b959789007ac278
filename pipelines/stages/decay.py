"""Decay: memories that were not used, repeated or confirmed are archived; they stay files and can be restored.

A memory's confidence is a pure function of time, so the day on which it fades is known in advance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import exp, log
from typing import TYPE_CHECKING

from ...store import okf
from ...store.changes.decisions import is_reviewed
from ...store.channel import is_of_session
from ...store.ledger.ledger import Usage
from ...store.model import Action, Kind, Level, Memory, NodeId, Status, trust
from ...store.text.dates import format_date
from ..settings import DecaySettings
from ..workspace.proposals import Proposals, is_curated
from ..workspace.snapshot import History
from ..workspace.view import View

if TYPE_CHECKING:
    from ...store import DecayInputs

STAGE = "decay"

# The certainty of a file that states none: that of an inferred fact.
DEFAULT_CERTAINTY = 0.7

TAU_OF = {
    Kind.CORRECTION: "correction",
    Kind.PREFERENCE: "preference",
    Kind.DECISION: "preference",
    Kind.PROCEDURE: "procedure",
    Kind.NEGATIVE: "procedure",
    Kind.PITFALL: "procedure",
}
"""The time constant of each kind; every other kind fades like a fact."""

PROGRESS_EVERY = 1000
_NEVER = datetime.min.replace(tzinfo=UTC)

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence in one memory over time. `last_at` is the latest of learned, used and reinforced."""

    memory: Memory
    learned_at: datetime
    used_at: datetime
    last_at: datetime
    initial: float
    tau_days: float
    accesses: int
    trust: float

    @property
    def _peak(self) -> float:
        return self.initial * (1 + 0.1 * log(1 + self.accesses)) * self.trust

    def at(self, now: datetime) -> float:
        """Return the confidence at a moment, in [0, 1]."""
        age_days = max(0.0, (now - self.last_at) / timedelta(days=1))
        return min(1.0, self._peak * exp(-age_days / self.tau_days))

    def fades_at(self, settings: DecaySettings) -> datetime:
        """Return the first moment at which the memory may be archived, if nothing happens until then."""
        # peak * exp(-days / tau) = archive_below, solved for days; a peak below the threshold fades at once.
        days = self.tau_days * log(self._peak / settings.archive_below) if self._peak > 0 else 0.0
        return max(
            self.last_at + timedelta(days=max(0.0, days)),
            self.learned_at + timedelta(days=settings.least_age_days),
            self.used_at + timedelta(days=settings.unused_days) if self.used_at > _NEVER else _NEVER,
        )


class UsageEvidence:
    """The evidence for each memory: its use, the feedback on it, and the pages that cite it.

    `cites` are pairs of a live page and a live memory that it cites.
    """

    def __init__(self, history: History, cites: Iterable[tuple[NodeId, NodeId]], settings: DecaySettings) -> None:
        self._history = history
        self._settings = settings
        self._answered = Counter(node_id for probe in history.probes for node_id in probe.gold)
        self._pages: dict[NodeId, list[NodeId]] = defaultdict(list)
        self._left: Counter[NodeId] = Counter()
        for page, source in cites:
            self._pages[source].append(page)
            self._left[page] += 1

    def confidence_in(self, memory: Memory) -> Confidence | None:
        """Return the confidence in a memory read from its file; None for one that never fades."""
        learned_at = okf.instant(memory.extra.get("learned_at")) or memory.created_at
        if learned_at is None or self._never_fades(memory):
            return None
        uses = self._uses(memory.node_id, memory.sources)
        used_at = max((use.last_at for use in uses), default=_NEVER)
        again = self._history.reinforced.get(memory.node_id)
        repeated_at: list[datetime] = [*_repeated_at(memory), *([again.last_at] if again else [])]
        reinforced_at: datetime = max(repeated_at, default=_NEVER)
        tau = "inferred" if memory.provenance == "inferred" else TAU_OF.get(memory.kind, "fact")
        return Confidence(
            memory=memory,
            learned_at=learned_at,
            used_at=used_at,
            last_at=max(learned_at, used_at, reinforced_at),
            initial=DEFAULT_CERTAINTY if memory.certainty is None else memory.certainty,
            tau_days=getattr(self._settings.tau_days, tau),
            accesses=sum(use.shown for use in uses),
            trust=trust(self._feedback_on(memory)),
        )

    def was_used_since(self, node_id: NodeId, moment: datetime) -> bool:
        """Return True if the memory, or a page that cites it, was recalled after a moment."""
        return any(use.last_at > moment for use in self._uses(node_id, ()))

    def release_from_pages(self, node_id: NodeId) -> bool:
        """Remove a memory from the sources of its pages; False, and no change, if it is the last source of one."""
        pages = self._pages.get(node_id, [])
        if any(self._left[page] < 2 for page in pages):
            return False
        self._left.subtract(pages)
        return True

    def _never_fades(self, memory: Memory) -> bool:
        return (
            reinforcements(memory, self._history) > 1
            or is_curated(memory)
            or is_reviewed(memory.extra)
            or bool(memory.contradicts)  # a person has to decide about it first
            or tombstone_key(memory.node_id) in self._history.tombstones
        )

    def _feedback_on(self, memory: Memory) -> dict[str, int]:
        """Return the feedback on a memory; each question that it helped to answer counts as a use."""
        said = dict(self._history.feedback.get(memory.node_id, {}))
        helped = sum(self._answered[name] for name in (memory.node_id, *memory.sources))
        return said | {"used": said.get("used", 0) + helped}

    def _uses(self, node_id: NodeId, turns: Iterable[NodeId]) -> list[Usage]:
        """Return the uses of a memory: its own, of the turns that it was extracted from, of pages that cite it."""
        usage = self._history.usage
        return [usage[name] for name in (node_id, *turns, *self._pages.get(node_id, ())) if name in usage]


def plan(view: View, now: datetime) -> Proposals:
    """Propose to archive memories that have faded, those of least confidence first, up to the limit of a run."""
    planned = Proposals()
    settings = view.settings.decay
    facts = view.memories(Level.FACT)
    evidence = UsageEvidence(view.history, _cites(view), settings)
    due = [
        confidence
        for confidence in confidences(view.steps.counted(facts, "facts"), view.read, evidence, settings, now)
        if confidence.fades_at(settings) <= now
    ]
    most = most_per_run(len(facts), settings)
    for action in islice(_of_ended_sessions(view, now), most):
        planned.actions.append(action)
        planned.count("of sessions that are over")
    for confidence in islice(_archivable(due, evidence, now), most - len(planned.actions)):
        planned.actions.append(_archive(view, confidence, now))
        planned.count("faded")
    if waiting := len(due) - planned.counts.get("faded", 0):
        planned.count("kept for another night", waiting)
    return planned


def _of_ended_sessions(view: View, now: datetime) -> Iterator[Action]:
    """Yield the archiving of memories of one session, some time after its last turn, the oldest first."""
    lasting = timedelta(days=view.settings.decay.session_days)
    known = view.session_paths()
    held = [one for one in view.every(Level.FACT) if one.is_live and is_of_session(one.channel)]
    for one in sorted(held, key=lambda one: (one.created_at or _NEVER, one.node_id)):
        memory = view.memory(one.node_id)
        if memory is None or not memory.is_live or view.is_forbidden(tombstone_key(memory.node_id)):
            continue
        turns = view.turns(memory.session_id) if memory.session_id and memory.session_id in known else []
        last_at = max(filter(None, (memory.created_at, *(turn.at for turn in turns[-1:]))), default=_NEVER)
        if last_at + lasting <= now:
            yield _archived(view, memory, f"its session is over since {_day(last_at)}", now)


def confidences(
    memories: Iterable[Memory], read: Read, evidence: UsageEvidence, settings: DecaySettings, horizon: datetime
) -> Iterator[Confidence]:
    """Yield the confidence in every memory that could fade until the horizon; the files of others are not read."""
    young = horizon - timedelta(days=settings.least_age_days)
    unused = horizon - timedelta(days=settings.unused_days)
    for memory in memories:
        if (memory.created_at and memory.created_at > young) or evidence.was_used_since(memory.node_id, unused):
            continue
        data = read(memory.path)
        if data is None:
            continue
        whole = okf.to_memory(memory.path, okf.parse(data), memory.created_at)
        if not whole.is_archived and (confidence := evidence.confidence_in(whole)):
            yield confidence


def forecast(
    fading: Iterable[Confidence],
    evidence: UsageEvidence,
    settings: DecaySettings,
    now: datetime,
    days: int,
    most_per_run: int,
) -> Iterator[tuple[datetime, Confidence]]:
    """Yield what would be archived within some days if nothing happened, in that order, with the moment of its run.

    The first run is now, and each other a day after the one before.
    """
    coming = sorted(fading, key=lambda one: one.fades_at(settings), reverse=True)
    due: list[Confidence] = []
    for night in (now + timedelta(days=day) for day in range(days)):
        while coming and coming[-1].fades_at(settings) <= night:
            due.append(coming.pop())
        gone = list(islice(_archivable(due, evidence, night), most_per_run))
        yield from ((night, one) for one in gone)
        over = {one.memory.node_id for one in gone}
        due = [one for one in due if one.memory.node_id not in over]


def _archivable(due: Iterable[Confidence], evidence: UsageEvidence, now: datetime) -> Iterator[Confidence]:
    """Yield the faded memories that may be archived, those of least confidence first: a page keeps a live source."""
    for one in sorted(due, key=lambda one: (one.at(now), one.memory.node_id)):
        if evidence.release_from_pages(one.memory.node_id):
            yield one


@dataclass(frozen=True, slots=True)
class Preview:
    """The facts that would be archived, each with the moment, the soonest first; and the limit of one run."""

    fading: Sequence[tuple[datetime, Confidence]]
    most_per_run: int


def preview(
    inputs: DecayInputs,
    settings: DecaySettings,
    now: datetime,
    days: int,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Preview:
    """Return the facts that would be archived within some days without any further use; nothing is changed.

    `on_progress` is called every PROGRESS_EVERY facts, with their number so far.
    """
    history = History(
        tombstones=inputs.tombstones,
        usage=inputs.usage,
        feedback=inputs.feedback,
        probes=inputs.probes,
        reinforced=inputs.reinforced,
    )

    def counted(facts: Iterable[Memory]) -> Iterator[Memory]:
        for done, fact in enumerate(facts):
            if done % PROGRESS_EVERY == 0:
                on_progress(done)
            yield fact

    evidence = UsageEvidence(history, inputs.citations, settings)
    horizon = now + timedelta(days=days)
    fading = list(confidences(counted(inputs.facts(now)), inputs.read, evidence, settings, horizon))
    most = most_per_run(inputs.living, settings)
    return Preview(list(forecast(fading, evidence, settings, now, days, most)), most)


def most_per_run(living: int, settings: DecaySettings) -> int:
    """Return the number of memories that may fade in one run."""
    return max(settings.least_per_run, int(living * settings.share_per_run))


def reinforcements(memory: Memory, history: History) -> int:
    """Count the repetitions of a memory: in later sessions or as its file lists them, plus those in the ledger."""
    sessions = {source.partition("#")[0] for source in memory.sources if "#" in source}
    counted = history.reinforced.get(memory.node_id)
    return max(len(_repeated_at(memory)), len(sessions) - 1) + (counted.times if counted else 0)


def tombstone_key(node_id: NodeId) -> str:
    """Return the key of the tombstone that keeps a memory from fading after a person undid it."""
    return f"fade:{node_id}"


def _repeated_at(memory: Memory) -> list[datetime]:
    """Return when a memory was repeated, as its file says; older versions wrote it under `reinforced`."""
    listed = (memory.extra.get(key) for key in ("sources", "reinforced"))
    entries = [entry for some in listed if isinstance(some, list) for entry in some]
    return [at for entry in entries if isinstance(entry, Mapping) and (at := okf.instant(entry.get("at")))]


def _cites(view: View) -> Iterator[tuple[NodeId, NodeId]]:
    living = {fact.node_id for fact in view.memories(Level.FACT)}
    for page in view.memories():
        yield from ((page.node_id, source) for source in page.sources if source in living)


def _archive(view: View, confidence: Confidence, now: datetime) -> Action:
    used = f"last used {_day(confidence.used_at)}" if confidence.used_at > _NEVER else "never used"
    reason = f"confidence {confidence.at(now):.2f}; learned {_day(confidence.learned_at)}, {used}"
    return _archived(view, confidence.memory, reason, now)


def _archived(view: View, memory: Memory, reason: str, now: datetime) -> Action:
    data = view.read(memory.path) or b""
    content = okf.edit(data, {"status": Status.DEPRECATED.value, "archived_at": now.isoformat()})
    key = tombstone_key(memory.node_id)
    return Action.replacing(memory.path, memory.node_id, data, content, stage=STAGE, reason=reason, fingerprint=key)


def _day(at: datetime) -> str:
    return format_date(at.date())

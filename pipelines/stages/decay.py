"""Decay: what nobody used, repeated or vouched for fades; it is archived, stays a file, and can be restored.

A memory's confidence is a pure function of time, so the night on which it fades is known beforehand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp, log

from ...store.changes.decisions import is_reviewed
from ...store.keep import okf
from ...store.keep.ledger.ledger import Usage
from ...store.model import Action, Kind, Level, Memory, NodeId, Status
from ..language.dates import format_date
from ..settings import DecaySettings
from ..workspace.proposals import Planned, is_curated
from ..workspace.view import History, View

STAGE = "decay"
UNSAID_CERTAINTY = 0.7
"""Where a file does not say how sure it is: as sure as what was inferred."""

TAU_OF = {
    Kind.CORRECTION: "correction",
    Kind.PREFERENCE: "preference",
    Kind.DECISION: "preference",
    Kind.PROCEDURE: "procedure",
    Kind.NEGATIVE: "procedure",
}
"""Which of the time constants a kind has; every other kind fades like a fact."""

_TRUST = {"used": 0.05, "useful": 0.05, "not_useful": -0.10, "rejected": -0.02}
_MOST_TRUST = 2.0
_NEVER = datetime.min.replace(tzinfo=UTC)

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class Standing:
    """What speaks for one memory. `last_at` is the latest of learned, used and reinforced."""

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

    def confidence(self, now: datetime) -> float:
        """How much the memory is worth now, in [0, 1]."""
        age_days = max(0.0, (now - self.last_at) / timedelta(days=1))
        return min(1.0, self._peak * exp(-age_days / self.tau_days))

    def fades_at(self, settings: DecaySettings) -> datetime:
        """The first moment at which it may be archived, if nothing happens until then."""
        days = self.tau_days * log(self._peak / settings.archive_below) if self._peak > 0 else 0.0
        return max(
            self.last_at + timedelta(days=max(0.0, days)),
            self.learned_at + timedelta(days=settings.least_age_days),
            self.used_at + timedelta(days=settings.unused_days) if self.used_at > _NEVER else _NEVER,
        )


class Ground:
    """What is known around the memories: their use, what was said of them, and which pages rest on them.

    `cites` are pairs of a living page and a living memory that it rests on.
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

    def standing(self, memory: Memory) -> Standing | None:
        """What speaks for a whole memory; None for one that does not fade, whatever its age."""
        learned_at = okf.instant(memory.extra.get("learned_at")) or memory.created_at
        if learned_at is None or self._is_kept(memory):
            return None
        uses = self._uses(memory.node_id, memory.sources)
        used_at = max((use.last_at for use in uses), default=_NEVER)
        again = self._history.reinforced.get(memory.node_id)
        said_at: list[datetime] = [*_breadcrumbs(memory), *([again.last_at] if again else [])]
        reinforced_at: datetime = max(said_at, default=_NEVER)
        tau = "inferred" if memory.provenance == "inferred" else TAU_OF.get(memory.kind, "fact")
        return Standing(
            memory=memory,
            learned_at=learned_at,
            used_at=used_at,
            last_at=max(learned_at, used_at, reinforced_at),
            initial=UNSAID_CERTAINTY if memory.certainty is None else memory.certainty,
            tau_days=getattr(self._settings.tau_days, tau),
            accesses=sum(use.shown for use in uses),
            trust=trust(self._said_of(memory)),
        )

    def was_used_since(self, node_id: NodeId, moment: datetime) -> bool:
        """Whether it was shown after a moment: itself, or a page that rests on it."""
        return any(use.last_at > moment for use in self._uses(node_id, ()))

    def let_go(self, node_id: NodeId) -> bool:
        """Take a memory away from the pages that rest on it; False, and nothing, where it is one's only source."""
        pages = self._pages.get(node_id, [])
        if any(self._left[page] < 2 for page in pages):
            return False
        self._left.subtract(pages)
        return True

    def _is_kept(self, memory: Memory) -> bool:
        return (
            reinforcements(memory, self._history) > 1
            or is_curated(memory)
            or is_reviewed(memory.extra)
            or bool(memory.contradicts)  # a person has to decide about it first
            or mark_of(memory.node_id) in self._history.tombstones
        )

    def _said_of(self, memory: Memory) -> dict[str, int]:
        """What was said of a memory, and for how many questions it was of use without a word."""
        said = dict(self._history.feedback.get(memory.node_id, {}))
        helped = sum(self._answered[name] for name in (memory.node_id, *memory.sources))
        return said | {"used": said.get("used", 0) + helped}

    def _uses(self, node_id: NodeId, turns: Iterable[NodeId]) -> list[Usage]:
        """A memory is used when it is shown itself, as the turn that it was drawn from, or on a page that cites it."""
        usage = self._history.usage
        return [usage[name] for name in (node_id, *turns, *self._pages.get(node_id, ())) if name in usage]


def plan(view: View, now: datetime) -> Planned:
    """Propose to archive what has faded, the faintest first, at most so many a night."""
    planned = Planned()
    settings = view.settings.decay
    facts = view.memories(Level.FACT)
    ground = Ground(view.history, _cites(view), settings)
    due = [
        standing
        for standing in standings(view.steps.counted(facts, "facts"), view.read, ground, settings, now)
        if standing.fades_at(settings) <= now
    ]
    due.sort(key=lambda standing: (standing.confidence(now), standing.memory.node_id))
    most = most_a_night(len(facts), settings)
    for standing in due:
        if len(planned.actions) >= most:
            break
        if ground.let_go(standing.memory.node_id):
            planned.actions.append(_archive(view, standing, now))
            planned.count("faded")
    if waiting := len(due) - len(planned.actions):
        planned.count("kept for another night", waiting)
    return planned


def standings(
    memories: Iterable[Memory], read: Read, ground: Ground, settings: DecaySettings, horizon: datetime
) -> Iterator[Standing]:
    """The standing of every memory that could fade until the horizon; the files of the others are not read."""
    young = horizon - timedelta(days=settings.least_age_days)
    unused = horizon - timedelta(days=settings.unused_days)
    for memory in memories:
        if (memory.created_at and memory.created_at > young) or ground.was_used_since(memory.node_id, unused):
            continue
        data = read(memory.path)
        if data is None:
            continue
        whole = okf.to_memory(memory.path, okf.parse(data), memory.created_at)
        if not whole.is_archived and (standing := ground.standing(whole)):
            yield standing


def forecast(
    memories: Iterable[Memory], read: Read, ground: Ground, settings: DecaySettings, now: datetime, days: int
) -> list[tuple[datetime, Standing]]:
    """What would fade within some days if nothing happened, the soonest first."""
    horizon = now + timedelta(days=days)
    found = [
        (max(now, at), standing)
        for standing in standings(memories, read, ground, settings, horizon)
        if (at := standing.fades_at(settings)) <= horizon
    ]
    return sorted(found, key=lambda pair: (pair[0], pair[1].memory.node_id))


def most_a_night(living: int, settings: DecaySettings) -> int:
    """How many memories may fade in one night."""
    return max(settings.least_a_night, int(living * settings.share_a_night))


def trust(verdicts: Mapping[str, int]) -> float:
    """What was said of a memory after it was recalled, as a factor around 1."""
    said = 1.0 + sum(_TRUST.get(verdict, 0.0) * times for verdict, times in verdicts.items())
    return min(_MOST_TRUST, max(0.0, said))


def reinforcements(memory: Memory, history: History) -> int:
    """How often it was said again: in sessions beside the first, or as its file says; and as often as was counted."""
    sessions = {source.partition("#")[0] for source in memory.sources if "#" in source}
    counted = history.reinforced.get(memory.node_id)
    return max(len(_breadcrumbs(memory)), len(sessions) - 1) + (counted.times if counted else 0)


def mark_of(node_id: NodeId) -> str:
    """What a tombstone forbids when a person undoes the fading of a memory."""
    return f"fade:{node_id}"


def _breadcrumbs(memory: Memory) -> list[datetime]:
    """When its file says that it was said again; `reinforced` is what older versions wrote there."""
    listed = (memory.extra.get(key) for key in ("sources", "reinforced"))
    entries = [entry for some in listed if isinstance(some, list) for entry in some]
    return [at for entry in entries if isinstance(entry, Mapping) and (at := okf.instant(entry.get("at")))]


def _cites(view: View) -> Iterator[tuple[NodeId, NodeId]]:
    living = {fact.node_id for fact in view.memories(Level.FACT)}
    for page in view.memories():
        yield from ((page.node_id, source) for source in page.sources if source in living)


def _archive(view: View, standing: Standing, now: datetime) -> Action:
    memory = standing.memory
    data = view.read(memory.path) or b""
    used = f"last used {_day(standing.used_at)}" if standing.used_at > _NEVER else "never used"
    reason = f"confidence {standing.confidence(now):.2f}; learned {_day(standing.learned_at)}, {used}"
    content = okf.edit(data, {"status": Status.DEPRECATED.value, "archived_at": now.isoformat()})
    mark = mark_of(memory.node_id)
    return Action.replacing(memory.path, memory.node_id, data, content, stage=STAGE, reason=reason, fingerprint=mark)


def _day(at: datetime) -> str:
    return format_date(at.date())

"""The report of a run: everything that the digest and the page tell of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone

from ...store.changes.decisions import is_reviewed
from ...store.changes.tombstone_keys import pair_key
from ...store.ledger.records import Run
from ...store.model import Action, Level, Memory, NodeId
from ..gate.gate import GateResult
from ..protocol import RunRequest
from ..stages.lint import Finding
from ..stages.synthesis import recurring
from ..workspace.view import View
from .outcome import Outcome

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything that is reported of a run. `at` is the person's local time when it began.

    `model_note` says if a language model took part, and if not, why; `decisions` are pairs, the older first; `waiting`
    is what agents wrote down and its person has not accepted; `held` are pages left as a person edited them; `gaps` are
    questions without an answer; `runs` are the earlier ones, and `linked` counts the statements that were linked when
    they were remembered, since the last of them; `used` is when each memory was last recalled.
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
    model_note: str = ""
    tokens: int = 0
    calls: int = 0
    decisions: Sequence[tuple[Memory, Memory]] = ()
    waiting: Sequence[Memory] = ()
    held: Sequence[Memory] = ()
    runs: Sequence[Run] = ()
    linked: int = 0
    used: Mapping[NodeId, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, view: View, request: RunRequest, outcome: Outcome, runs: Sequence[Run], linked: int = 0) -> RunReport:
        """Gather what there is to report of a planned run."""
        return cls(
            day=request.local_date,
            run_id=request.run_id,
            actions=view.actions,
            counts=outcome.counts,
            seconds=outcome.seconds,
            notes=outcome.notes,
            findings=outcome.findings,
            gaps=_gaps(view),
            memories=Counter(memory.level for memory in view.memories()),
            kind=request.kind,
            at=request.now.astimezone(timezone(timedelta(seconds=request.utc_offset_s))),
            decisions=open_pairs(view),
            waiting=view.waiting(),
            held=[memory for memory in view.memories() if memory.node_id in view.held],
            runs=runs,
            linked=linked,
            used={node_id: usage.last_at for node_id, usage in view.history.usage.items()},
            gate=outcome.gate,
            model_note=outcome.model.note,
            tokens=outcome.model.tokens,
            calls=outcome.model.calls,
        )


def open_pairs(view: View) -> list[tuple[Memory, Memory]]:
    """Return the living pairs that contradict each other and wait for a person, the older of each first."""
    living = {memory.node_id: memory for memory in view.memories()}
    named = {
        tuple(sorted((memory.node_id, other)))
        for memory in living.values()
        for other in memory.contradicts
        if other in living and not view.is_forbidden(pair_key(memory.node_id, other))
    }
    found = []
    for names in sorted(named):
        pair = [view.memory(name) or living[name] for name in names]
        if not all(is_reviewed(memory.extra) for memory in pair):
            older, newer = sorted(pair, key=lambda memory: memory.valid_from or memory.created_at or _NEVER)
            found.append((older, newer))
    return found


def _gaps(view: View) -> list[str]:
    """Word the questions that found nothing, the most repeated first."""
    return [
        text if times == 1 else f"{text} (asked {times} times)" for text, times in recurring(view, view.history.gaps)
    ]

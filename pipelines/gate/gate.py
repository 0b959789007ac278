"""The gate: it tries what each stage proposes on a copy, and refuses what would make recall worse.

The actions of a stage are checked first, then tried: probes are asked of the copy before any stage, and again with the
overlay of this one and all that passed before. Later stages do not see one that is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from ...store.keep.ledger.questions import Probe
from ...store.model import Action, NodeId
from ..protocol import Check
from ..settings import GateSettings
from ..workspace.diff import gave_way
from ..workspace.view import View
from .action_checks import ActionChecker
from .probes import ProbeCase, ProbeGenerator, Score, ask
from .shadow_index import ShadowIndex

LOST_SHARE, LOST_AT_LEAST = 0.01, 1
RECALL_DROP = 0.005
COVERAGE_DROP = 0.25
"""The largest allowed drop of mean envelope coverage: facts leave out filler words, which costs a turn .09 of its rare
words where people talk (LoCoMo), and more where they write at length; an assistant's turns are not measured."""

ROUNDING = 1e-9
FEWEST_ASKED = 20
CHECKS = 40
PASSES = 6
"""About how often a run's probes are asked: the time for probes is divided by it."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A refused stage, and the reason in a sentence without a person's words."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """The probes' results before the run and after it; `lost` and `gained` count probes, `synthetic` made-up ones."""

    probes: int = 0
    recall_before: float = 1.0
    recall_after: float = 1.0
    lost: int = 0
    gained: int = 0
    dropped: tuple[Dropped, ...] = ()
    synthetic: int = 0


class Gate:
    """Decides on each stage of one run."""

    def __init__(
        self,
        open_shadow: Callable[[], ShadowIndex],
        view: View,
        settings: GateSettings,
        now: datetime,
    ) -> None:
        """`open_shadow` makes the copy, once there is something to try in it."""
        self._open_shadow = open_shadow
        self._view = view
        self._settings = settings
        self._checker = ActionChecker(view, now)
        self._shadow: ShadowIndex | None = None
        self._generator: ProbeGenerator | None = None
        self._asked: list[ProbeCase] = []
        self._before: list[Score] = []
        self._after: list[Score] = []
        self._dropped: list[Dropped] = []

    def refuses(self, stage: str, actions: Sequence[Action]) -> bool:
        """Try what a stage proposes: keep it in the overlay if it passes, else take it back and record the reason."""
        if not actions:
            return False
        if self._shadow is None:
            self._shadow = self._open_shadow()
            self._begin(self._shadow)
        reasons, losses = self._checker.check(actions)
        scores = self._after
        if not reasons:
            reasons, scores = self._try(self._shadow, stage, actions)
        if reasons:
            self._dropped.append(Dropped(stage, "; ".join(reasons)))
            return True
        self._after, self._checker.losses = scores, losses
        return False

    def _try(self, shadow: ShadowIndex, stage: str, actions: Sequence[Action]) -> tuple[list[str], list[Score]]:
        """Overlay a stage and ask again; return the reasons against it, and the probes' scores.

        Scenarios and profiles alone do not answer where no level is named: then nothing is asked again.

        An archived memory need not be found, so synthetic probes of it are dropped; a superseded one must be found
        through its successor, so it gets probes of its own, asked before and after.
        """
        files = {action.path: action.content for action in actions}
        before = {path: shadow.read(path) for path in files}
        archived, replaced = gave_way(self._view, actions)
        self._drop_probes_of(archived)
        cases = self._successor_probes(shadow, sorted(replaced)[: self._settings.probes])
        then = [ask(shadow, case) for case in cases]
        answered = shadow.answers(files)
        shadow.overlay(files, lambda done, total: self._view.steps.detail("trying", done, total))
        if not (answered or shadow.answers(files)):
            return [], self._after
        scores = [ask(shadow, case) for case in self._view.steps.counted(self._asked, "asking again")]
        reasons = worse(self._before, scores) or worse(self._after, scores)
        if not reasons:
            now = [ask(shadow, case) for case in cases]
            lost, _ = _lost_and_gained(then, now)
            if lost > max(LOST_AT_LEAST, LOST_SHARE * len(cases)):
                reasons = [f"{lost} of {len(cases)} superseded memories would not be found by their successors"]
        if reasons:
            shadow.overlay(before)
        return reasons, scores

    def _successor_probes(self, shadow: ShadowIndex, replaced: Sequence[NodeId]) -> list[ProbeCase]:
        """Generate probes of superseded memories that rest on no turn; the others are found by their turns anyway."""
        nodes = [
            node for node in shadow.catalog.nodes(replaced).values() if not shadow.catalog.links(node.node_id, "cites")
        ]
        return self._generator.of(nodes) if self._generator else []

    def _drop_probes_of(self, archived: Collection[NodeId]) -> None:
        kept = [
            n for n, case in enumerate(self._asked) if not (case.synthetic and set(case.probe.gold) & set(archived))
        ]
        self._asked = [self._asked[n] for n in kept]
        self._before, self._after = [self._before[n] for n in kept], [self._after[n] for n in kept]

    @property
    def result(self) -> GateResult:
        """The numbers of the run so far."""
        dropped = tuple(self._dropped)
        if not self._before:
            return GateResult(dropped=dropped)
        lost, gained = _lost_and_gained(self._before, self._after)
        before, after = (fmean(score.recall for score in scores) for scores in (self._before, self._after))
        synthetic = sum(case.synthetic for case in self._asked)
        return GateResult(len(self._before), round(before, 4), round(after, 4), lost, gained, dropped, synthetic)

    def checks(self) -> tuple[Check, ...]:
        """Return up to CHECKS of the run's probes, a person's own first, for the check after applying."""
        some = sorted(self._asked, key=lambda case: case.synthetic)[:CHECKS]
        return tuple(
            Check(
                text=case.probe.text,
                channel=case.probe.channel,
                gold=case.probe.gold,
                words=case.words,
                synthetic=case.synthetic,
            )
            for case in some
        )

    def _begin(self, shadow: ShadowIndex) -> None:
        """Ask the probes of the copy as it is: a person's own, then synthetic ones, as many as there is time for."""
        self._generator = ProbeGenerator(shadow)
        self._asked = probes_of(self._generator, self._view.history.probes, self._settings.probes)
        began, enough_s = time.monotonic(), self._settings.time_s / PASSES
        for number, case in enumerate(self._asked):
            if number >= FEWEST_ASKED and time.monotonic() - began > enough_s:
                break
            self._before.append(ask(shadow, case))
            self._view.steps.detail("asking", number + 1, len(self._asked))
        kept = [n for n, score in enumerate(self._before) if score.recall > 0 or not self._asked[n].synthetic]
        self._asked = [self._asked[n] for n in kept]
        self._before = self._after = [self._before[n] for n in kept]


def probes_of(generator: ProbeGenerator, past: Sequence[Probe], count: int) -> list[ProbeCase]:
    """Return up to `count` cases: the newest questions with known gold, and synthetic ones, at least a quarter."""
    real = generator.real(past)[: count - count // 4]
    return real + generator.synthetic(count - len(real))


def worse(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return in which ways the second is worse than the first, [] if in none that counts."""
    if not before:
        return []
    found = []
    lost, gained = _lost_and_gained(before, after)
    if lost - gained > max(LOST_AT_LEAST, LOST_SHARE * len(before)):
        found.append(f"{lost} of {len(before)} questions would find less, and {gained} more")
    drop = fmean(score.recall for score in before) - fmean(score.recall for score in after)
    if drop > RECALL_DROP + ROUNDING:
        found.append(f"recall would drop by {drop:.3f}")
    drop = fmean(score.coverage for score in before) - fmean(score.coverage for score in after)
    if drop > COVERAGE_DROP + ROUNDING:
        found.append(f"coverage of the expected words would drop by {drop:.2f}")
    return found


def _lost_and_gained(before: Sequence[Score], after: Sequence[Score]) -> tuple[int, int]:
    pairs = list(zip(before, after, strict=True))
    lost = sum(then.recall > now.recall + ROUNDING for then, now in pairs)
    return lost, sum(then.recall < now.recall - ROUNDING for then, now in pairs)

"""The gate: what each stage proposes is tried on the copy, and what would make recall worse does not pass.

Each stage is examined for what it takes away, then tried: probes are asked of the copy before anything, and again with
every stage that passed and this one. A stage that is refused is not seen by those after it.
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
from .action_checks import Examiner
from .probes import Asking, Maker, Score, ask
from .shadow_index import Trial

LOST_SHARE, LOST_AT_LEAST = 0.01, 1
RECALL_DROP = 0.005
TOLD_DROP = 0.25
"""Of what their gold should tell, probes may hear so much less: facts leave out what is no substance, which costs a
turn .09 of its rare words where people talk (LoCoMo), and more where they write at length; an assistant's turns are
not asked for theirs."""

ROUNDING = 1e-9
FEWEST_ASKED = 20
CHECKS = 40
PASSES = 6
"""How often a night's probes are asked, about: the time for all of it is shared among so many."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A stage that was refused, and why, in a sentence without a person's words."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the probes found before the dream and would find after it; `lost` and `gained` count probes.

    `made`: of them, those that nobody asked.
    """

    probes: int = 0
    recall_before: float = 1.0
    recall_after: float = 1.0
    lost: int = 0
    gained: int = 0
    dropped: tuple[Dropped, ...] = ()
    made: int = 0


class Gate:
    """Lets stages pass, or does not. One a night."""

    def __init__(
        self,
        trial: Callable[[], Trial],
        view: View,
        settings: GateSettings,
        now: datetime,
    ) -> None:
        """`trial` makes the copy, when there is something to try in it."""
        self._make_trial = trial
        self._view = view
        self._settings = settings
        self._examiner = Examiner(view, now)
        self._trial: Trial | None = None
        self._maker: Maker | None = None
        self._asked: list[Asking] = []
        self._before: list[Score] = []
        self._after: list[Score] = []
        self._dropped: list[Dropped] = []

    def refuses(self, stage: str, actions: Sequence[Action]) -> bool:
        """Try what a stage proposes. What passes stays in the trial; what does not is taken back and remembered."""
        if not actions:
            return False
        if self._trial is None:
            self._trial = self._make_trial()
            self._begin(self._trial)
        reasons, losses = self._examiner.examine(actions)
        scores = self._after
        if not reasons:
            reasons, scores = self._try(self._trial, stage, actions)
        if reasons:
            self._dropped.append(Dropped(stage, "; ".join(reasons)))
            return True
        self._after, self._examiner.losses = scores, losses
        return False

    def _try(self, trial: Trial, stage: str, actions: Sequence[Action]) -> tuple[list[str], list[Score]]:
        """Lay a stage over the copy and ask again; what speaks against it, and what the probes found.

        Scenarios and profiles alone do not answer where no level is named: then nothing is asked again.

        What fades is gone as it should be, so made probes of it are not asked again; what gives way must be found by
        what takes its place, so it is asked for by probes of its own.
        """
        files = {action.path: action.content for action in actions}
        standing = {path: trial.read(path) for path in files}
        archived, replaced = gave_way(self._view, actions)
        self._leave_out(archived)
        heirs = self._heirs(trial, sorted(replaced)[: self._settings.probes])
        then = [ask(trial, asking) for asking in heirs]
        answered = trial.answers(files)
        trial.lay(files, lambda done, total: self._view.steps.detail("trying", done, total))
        if not (answered or trial.answers(files)):
            return [], self._after
        scores = [ask(trial, asking) for asking in self._view.steps.counted(self._asked, "asking again")]
        reasons = worse(self._before, scores) or worse(self._after, scores)
        if not reasons:
            now = [ask(trial, asking) for asking in heirs]
            lost, _ = _lost_and_gained(then, now)
            if lost > max(LOST_AT_LEAST, LOST_SHARE * len(heirs)):
                reasons = [f"{lost} of {len(heirs)} memories would give way to what does not answer for them"]
        if reasons:
            trial.lay(standing)
        return reasons, scores

    def _heirs(self, trial: Trial, replaced: Sequence[NodeId]) -> list[Asking]:
        """Probes of what gives way; a fact that cites a turn is found by the turn, whatever becomes of it."""
        nodes = [
            node for node in trial.catalog.nodes(replaced).values() if not trial.catalog.links(node.node_id, "cites")
        ]
        return self._maker.of(nodes) if self._maker else []

    def _leave_out(self, gone: Collection[NodeId]) -> None:
        kept = [n for n, one in enumerate(self._asked) if not (one.made and set(one.probe.gold) & set(gone))]
        self._asked = [self._asked[n] for n in kept]
        self._before, self._after = [self._before[n] for n in kept], [self._after[n] for n in kept]

    @property
    def result(self) -> GateResult:
        """The night's numbers."""
        dropped = tuple(self._dropped)
        if not self._before:
            return GateResult(dropped=dropped)
        lost, gained = _lost_and_gained(self._before, self._after)
        before, after = (fmean(score.recall for score in scores) for scores in (self._before, self._after))
        made = sum(one.made for one in self._asked)
        return GateResult(len(self._before), round(before, 4), round(after, 4), lost, gained, dropped, made)

    def checks(self) -> tuple[Check, ...]:
        """Some of tonight's probes, a person's own first, for the last look at the real thing."""
        some = sorted(self._asked, key=lambda one: one.made)[:CHECKS]
        return tuple(
            Check(text=one.probe.text, channel=one.probe.channel, gold=one.probe.gold, words=one.words, made=one.made)
            for one in some
        )

    def _begin(self, trial: Trial) -> None:
        """Ask the probes of the copy as it is: a person's own, then made ones; as many as there is time for."""
        self._maker = Maker(trial)
        self._asked = probes_of(self._maker, self._view.history.probes, self._settings.probes)
        began, enough_s = time.monotonic(), self._settings.time_s / PASSES
        for number, asking in enumerate(self._asked):
            if number >= FEWEST_ASKED and time.monotonic() - began > enough_s:
                break
            self._before.append(ask(trial, asking))
            self._view.steps.detail("asking", number + 1, len(self._asked))
        kept = [n for n, score in enumerate(self._before) if score.recall > 0 or not self._asked[n].made]
        self._asked = [self._asked[n] for n in kept]
        self._before = self._after = [self._before[n] for n in kept]


def probes_of(maker: Maker, past: Sequence[Probe], count: int) -> list[Asking]:
    """The newest past questions of which it is known what was of use; made ones beside them, at least a quarter."""
    real = maker.real(past)[: count - count // 4]
    return real + maker.made(count - len(real))


def worse(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Say in which ways the second is worse than the first, [] if in none that counts."""
    if not before:
        return []
    found = []
    lost, gained = _lost_and_gained(before, after)
    if lost - gained > max(LOST_AT_LEAST, LOST_SHARE * len(before)):
        found.append(f"{lost} of {len(before)} probes would find less, {gained} more")
    drop = fmean(score.recall for score in before) - fmean(score.recall for score in after)
    if drop > RECALL_DROP + ROUNDING:
        found.append(f"recall would drop by {drop:.3f}")
    told = fmean(score.told for score in before) - fmean(score.told for score in after)
    if told > TOLD_DROP + ROUNDING:
        found.append(f"envelopes would tell {told:.2f} less of what they should")
    return found


def _lost_and_gained(before: Sequence[Score], after: Sequence[Score]) -> tuple[int, int]:
    pairs = list(zip(before, after, strict=True))
    lost = sum(then.recall > now.recall + ROUNDING for then, now in pairs)
    return lost, sum(then.recall < now.recall - ROUNDING for then, now in pairs)

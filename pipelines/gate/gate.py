"""The gate: it tries what each stage proposes on a copy, and refuses what would make recall worse.

The actions of a stage are checked first, then tried: probes are asked of the copy before any stage, and again with the
overlay of this one and all that passed before. If a few actions stand behind every answer that got worse, those alone
are refused; otherwise the whole stage is. Later stages do not see what is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from statistics import fmean

from ...store.ledger.questions import Probe
from ...store.model import Action, NodeId
from ..protocol import Check, Foreseen
from ..settings import GateSettings
from ..workspace.diff import Difference
from ..workspace.proposals import ProposedRanking
from ..workspace.view import View
from .action_checks import ActionChecker
from .probes import ProbeCase, ProbeGenerator, Score, Touched, ask, spread
from .shadow_index import ShadowIndex
from .trial import Trial

LOST_SHARE, LOST_AT_LEAST = 0.01, 1
RECALL_DROP = 0.005
ROUNDING = 1e-9
FEWEST_ASKED = 20
TOUCHED = 80
"""The most memories of those that a stage touches for which questions are made."""

CHECKS = 40
PASSES = 6
"""About how often a run's probes are asked: the time for probes is divided by it."""

SIFTINGS = 3
SIFTED_SHARE = 0.1
"""The times that a stage is tried again without the actions behind worse answers, and the largest share of them."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """`actions` refused actions of the `of` that a stage proposed; the reason holds no words of a person."""

    stage: str
    reason: str
    actions: int
    of: int


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

    def sift(self, stage: str, actions: Sequence[Action]) -> list[Action]:
        """Try what a stage proposes, keep in the overlay what passes, and return it: all of it, most of it or [].

        The reason for what does not pass is recorded.
        """
        if not actions:
            return []
        shadow = self._opened()
        reasons, losses = self._checker.check(actions)
        kept, scores = list[Action](), self._after
        if not reasons:
            trial = Trial(shadow, actions)
            reasons, scores = self._try(shadow, trial)
            kept = trial.kept
            if reasons and kept:  # the rest must keep the rules by itself
                still, losses = self._checker.check(kept)
                if still:
                    trial.take_back(kept)
                    kept, reasons = [], reasons + still
        if reasons:
            self._dropped.append(Dropped(stage, "; ".join(reasons), len(actions) - len(kept), len(actions)))
        if kept:
            self._after, self._checker.losses = scores, losses
        return kept

    def passes_ranking(self, stage: str, proposed: ProposedRanking) -> bool:
        """Try weights of the ranking on the questions that they were not learned from, and on all others.

        They hold in the copy from here on if nothing is worse by them; otherwise the reason is recorded.
        """
        shadow = self._opened()
        held_out = [] if self._generator is None else self._generator.real(proposed.held_out)
        then = [ask(shadow, case) for case in held_out]
        before = shadow.weigh(proposed.ranking.weights)
        now = [ask(shadow, case) for case in self._view.steps.counted(held_out, "asking what was left out")]
        scores = [ask(shadow, case) for case in self._view.steps.counted(self._asked, "asking again")]
        if reasons := worse(then, now) or worse(self._before, scores) or worse(self._after, scores):
            shadow.weigh(before)
            self._dropped.append(Dropped(stage, "; ".join(reasons), 1, 1))
            return False
        self._after = scores
        return True

    def _opened(self) -> ShadowIndex:
        if self._shadow is None:
            self._shadow = self._open_shadow()
            self._begin(self._shadow)
        return self._shadow

    def _try(self, shadow: ShadowIndex, trial: Trial) -> tuple[list[str], list[Score]]:
        """Overlay a stage and ask again; return the reasons against all of it, and the scores of what is kept.

        Scenarios and profiles alone do not answer where no level is named: then nothing is asked again.

        An archived memory need not be found, nor a superseded one by its rare words: synthetic probes of them are
        dropped. What the stage touches otherwise is asked for by harder probes of its own, before and after: a
        superseded memory by what its successor says too, which is then to be told.

        While a few actions stand behind everything that got worse, they are taken back and the rest is tried again.
        """
        difference = Difference.of(self._view, trial.kept)
        self._drop_probes_of(difference.archived | difference.superseded)
        self._expect_no_more(shadow, difference)
        touched = self._touched(shadow, difference)
        if not trial.begin(lambda done, total: self._view.steps.detail("trying", done, total)):
            return [], self._after
        against: list[str] = []
        for left in reversed(range(SIFTINGS + 1)):
            scores = [ask(shadow, case) for case in self._view.steps.counted(self._asked, "asking again")]
            then, now = [one.before for one in touched], [ask(shadow, one.case) for one in touched]
            reasons = worse(self._before, scores) or worse(self._after, scores)
            reasons = reasons or find_less(then, now) + tell_less(then, now)
            against = against or reasons
            if not reasons:
                break
            pairs = zip([*self._after, *then], [*scores, *now], strict=True)
            behind = trial.behind((before, after) for before, after in pairs if after.is_worse_than(before))
            if not (left and behind) or trial.share_left_out(behind) > SIFTED_SHARE:
                trial.take_back(trial.kept)
                break
            trial.take_back(behind)
        return against, scores

    def _touched(self, shadow: ShadowIndex, difference: Difference) -> list[Touched]:
        """Ask what the memory tells now of the turns and notes that a stage touches, as many as there is time for."""
        began, enough_s = time.monotonic(), self._settings.time_s / PASSES
        chosen = spread(list(difference.touched), TOUCHED)
        found: list[Touched] = []
        for node_id, node in shadow.catalog.nodes(chosen).items():
            if self._generator is None or (found and time.monotonic() - began > enough_s):
                break
            cases = self._generator.harder(node, difference.touched[node_id])
            asked = (Touched(case, ask(shadow, case)) for case in cases)
            found += islice((one for one in asked if one.before.is_firm), 1)
        return found

    def _expect_no_more(self, shadow: ShadowIndex, difference: Difference) -> None:
        """Expect of a person's questions, too, no more of what is superseded than its successor says."""
        for n, case in enumerate(self._asked):
            for replaced in filter(None, (difference.touched.get(node_id) for node_id in case.probe.gold)):
                self._asked[n] = self._asked[n].after(replaced)
            if self._asked[n] != case:
                told = ask(shadow, self._asked[n])
                self._before[n] = replace(told, recall=self._before[n].recall)
                self._after[n] = replace(told, recall=self._after[n].recall)

    def _drop_probes_of(self, gone: Collection[NodeId]) -> None:
        kept = [n for n, case in enumerate(self._asked) if not (case.synthetic and set(case.probe.gold) & set(gone))]
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
        """Return up to CHECKS of the run's probes, a person's own first, with their results in the copy by now."""
        asked = zip(self._asked, self._after, strict=True)
        some = sorted(asked, key=lambda one: one[0].synthetic)[:CHECKS]
        return tuple(
            Check(
                text=case.probe.text,
                channel=case.probe.channel,
                gold=case.probe.gold,
                words=case.words,
                details=case.details,
                synthetic=case.synthetic,
                foreseen=Foreseen(recall=score.recall, coverage=score.coverage, told=score.told),
            )
            for case, score in some
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
        kept = [n for n, score in enumerate(self._before) if score.is_firm or not self._asked[n].synthetic]
        self._asked = [self._asked[n] for n in kept]
        self._before = [self._before[n] for n in kept]
        self._after = list(self._before)


def probes_of(generator: ProbeGenerator, past: Sequence[Probe], count: int) -> list[ProbeCase]:
    """Return up to `count` cases: the newest questions with known gold, and synthetic ones, at least a quarter."""
    real = generator.real(past)[: count - count // 4]
    return real + generator.synthetic(count - len(real))


def worse(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return in which ways the second is worse than the first, [] if in none that counts."""
    if not before:
        return []
    found = find_less(before, after)
    drop = fmean(score.recall for score in before) - fmean(score.recall for score in after)
    if drop > RECALL_DROP + ROUNDING:
        found.append(f"recall would drop by {drop:.3f}")
    return found + tell_less(before, after)


def find_less(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return the reason against questions that find less than they did, [] if they do not."""
    lost, gained = _lost_and_gained(before, after)
    if lost - gained <= _most_lost(before):
        return []
    return [f"{lost} of {len(before)} questions would find less, and {gained} more"]


def tell_less(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return the reason against answers that tell less than they did, [] if they do not."""
    pairs = list(zip(before, after, strict=True))
    less, more = sum(b.tells_less_than(a) for a, b in pairs), sum(a.tells_less_than(b) for a, b in pairs)
    if less - more <= _most_lost(before):
        return []
    of = f"{less} of {len(before)} answers"
    return [f"{of} would leave out a name, a number, a reason or most words, and {more} would tell more"]


def _most_lost(scores: Sequence[Score]) -> float:
    return max(LOST_AT_LEAST, LOST_SHARE * len(scores))


def _lost_and_gained(before: Sequence[Score], after: Sequence[Score]) -> tuple[int, int]:
    pairs = list(zip(before, after, strict=True))
    lost = sum(then.recall > now.recall + ROUNDING for then, now in pairs)
    return lost, sum(then.recall < now.recall - ROUNDING for then, now in pairs)

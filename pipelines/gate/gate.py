"""The gate: it tries the proposals of each stage on a copy, and refuses those that would make recall worse.

The actions of a stage are checked by rules first, then tried: probes are asked of the copy before any stage, and again
with the overlay of all that passed and this stage. If a few actions explain every worse answer, those alone are
refused; otherwise the whole stage is. Later stages do not see refused actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from statistics import fmean
from threading import Event

from ...store.ledger.questions import Probe
from ...store.model import Action, NodeId
from ..messages import Check, Foreseen
from ..settings import GateSettings
from ..workspace.proposals import Difference
from ..workspace.view import View
from .action_checks import ActionChecker
from .probes import ProbeCase, ProbeGenerator, Score, Searchable, Touched, ask, spread
from .shadow_index import ShadowIndex

LONGEST_S = 20.0
GLANCE_S = 0.05
# Questions that may find less, beyond those that find more, and the drop of mean recall that is tolerated.
LOST_SHARE, LOST_AT_LEAST = 0.01, 1
RECALL_DROP = 0.005
ROUNDING = 1e-9
FEWEST_ASKED = 20

# Largest number of memories touched by a stage that probes are generated for.
TOUCHED = 80

CHECKS = 40

# Approximate number of times that all probes are asked in a run; each gets this part of the time for probes.
PASSES = 6

# Largest number of further trials of a stage without the actions that explain worse answers, and the largest share of
# its actions that may be left out so.
SIFTINGS, SIFTED_SHARE = 3, 0.1


@dataclass(frozen=True, slots=True)
class Dropped:
    """A refusal: `actions` of the `of` proposed actions of a stage; the reason quotes no text of a person."""

    stage: str
    reason: str
    actions: int
    of: int


@dataclass(frozen=True, slots=True)
class GateResult:
    """The probes' results before and after the run; `lost`, `gained` and `synthetic` count probes."""

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
        """`open_shadow` makes the copy; it is called at the first trial."""
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
        """Try the actions of a stage; return those that pass, which stay in the overlay: all, most or none.

        Refusals are recorded with their reasons.
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
            if reasons and kept:  # an action may depend on one that is refused now
                still, losses = self._checker.check(kept)
                if still:
                    trial.take_back(kept)
                    kept, reasons = [], reasons + still
        if reasons:
            self._dropped.append(Dropped(stage, "; ".join(reasons), len(actions) - len(kept), len(actions)))
        if kept:
            self._after, self._checker.losses = scores, losses
        return kept

    def _opened(self) -> ShadowIndex:
        if self._shadow is None:
            self._shadow = self._open_shadow()
            self._begin(self._shadow)
        return self._shadow

    def _try(self, shadow: ShadowIndex, trial: Trial) -> tuple[list[str], list[Score]]:
        """Overlay a stage and ask again; return the reasons against the stage, and the scores with its kept actions.

        Nothing is asked again where the files hold only scenarios and profiles: a question without a level is answered
        by turns and facts alone.

        An archived memory need not be found, nor a superseded one by its rare words: synthetic probes of them are
        dropped. Other memories touched by the stage get harder probes, asked before and after; a superseded one is
        asked for by the words that its successor shares, and only those are expected in the answer.

        While a few actions explain every worse answer, they are taken back and the rest is tried again.
        """
        difference = Difference.of(self._view, trial.kept)
        self._drop_probes_of(difference.archived | difference.superseded)
        self._lower_expectations(shadow, difference)
        touched = self._touched(shadow, difference)
        if not trial.begin(lambda done, total: self._view.steps.detail("trying", done, total)):
            return [], self._after
        against: list[str] = []
        for left in reversed(range(SIFTINGS + 1)):
            scores = [ask(shadow, case) for case in self._view.steps.counted(self._asked, "asking again")]
            then, now = [one.before for one in touched], [ask(shadow, one.case) for one in touched]
            reasons = worse(self._before, scores) or worse(self._after, scores)
            reasons = reasons or less_found(then, now) + less_contained(then, now)
            against = against or reasons
            if not reasons:
                break
            # Compared with the last accepted state, not with the start: an earlier stage's losses are not this one's.
            pairs = zip([*self._after, *then], [*scores, *now], strict=True)
            behind = trial.explaining((before, after) for before, after in pairs if after.is_worse_than(before))
            # Without a culprit, or with too many, nothing says which actions are harmless: the whole stage is refused.
            if not (left and behind) or trial.share_left_out(behind) > SIFTED_SHARE:
                trial.take_back(trial.kept)
                break
            trial.take_back(behind)
        return against, scores

    def _touched(self, shadow: ShadowIndex, difference: Difference) -> list[Touched]:
        """Generate probes for the turns and notes that a stage touches and ask them before it, as time allows."""
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

    def _lower_expectations(self, shadow: ShadowIndex, difference: Difference) -> None:
        """Drop the words and details that only superseded facts contain from a person's probes, too."""
        for n, case in enumerate(self._asked):
            for replaced in filter(None, (difference.touched.get(node_id) for node_id in case.probe.gold)):
                self._asked[n] = self._asked[n].after(replaced)
            if self._asked[n] != case:
                # What is expected has changed, so the results before are taken again; recall is compared as it was.
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
        """Return up to CHECKS of the run's probes, a person's own first, with their latest results in the copy."""
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
                foreseen=Foreseen(recall=score.recall, coverage=score.coverage, details=score.details),
            )
            for case, score in some
        )

    def _begin(self, shadow: ShadowIndex) -> None:
        """Ask the probes of the unchanged copy: a person's own, then synthetic ones, within the time limit."""
        self._generator = ProbeGenerator(shadow)
        self._asked = probes_of(self._generator, self._view.history.probes, self._settings.probes)
        began, enough_s = time.monotonic(), self._settings.time_s / PASSES
        for number, case in enumerate(self._asked):
            if number >= FEWEST_ASKED and time.monotonic() - began > enough_s:
                break
            self._before.append(ask(shadow, case))
            self._view.steps.detail("asking", number + 1, len(self._asked))
        # A synthetic probe that finds its gold at the edge of the hits would fail by chance; a person's own stays.
        kept = [n for n, score in enumerate(self._before) if score.is_firm or not self._asked[n].synthetic]
        self._asked = [self._asked[n] for n in kept]
        self._before = [self._before[n] for n in kept]
        self._after = list(self._before)


class Trial:
    """A stage's actions in the overlay of the shadow index; `kept` are those not taken back."""

    def __init__(self, shadow: ShadowIndex, actions: Sequence[Action]) -> None:
        self.kept = list(actions)
        self._shadow = shadow
        self._proposed = len(actions)
        self._before = {action.path: shadow.read(action.path) for action in actions}

    def begin(self, on_progress: Callable[[int, int], None]) -> bool:
        """Overlay the actions; return False if nothing in their files, before or after, may answer a question."""
        files = {action.path: action.content for action in self.kept}
        answered = self._shadow.answers(files)
        self._shadow.overlay(files, on_progress)
        return answered or self._shadow.answers(files)

    def explaining(self, worse: Iterable[tuple[Score, Score]]) -> list[Action]:
        """Return the kept actions that may explain the worse answers, [] if some answer is explained by none.

        An action explains an answer if its node, or a node that it cites, is shown only before or only after. An action
        whose file names such a node, as a superseding fact names the superseded, belongs to it.
        """
        cited = {action.node_id: {action.node_id, *self._shadow.cites(action.node_id)} for action in self.kept}
        found = set[NodeId]()
        for before, after in worse:
            changed = before.shown ^ after.shown  # in one of the two answers only
            here = {node_id for node_id, cites in cited.items() if cites & changed}
            if not here:
                return []
            found |= here
        return self._with_dependents(found)

    def _with_dependents(self, found: set[NodeId]) -> list[Action]:
        """Return the actions on these nodes and, transitively, those whose files name one of them."""
        behind: dict[str, Action] = {}
        news = found
        while news:
            named = [node_id.encode() for node_id in news]
            more = [
                action
                for action in self.kept
                if action.path not in behind
                and (action.node_id in news or any(name in (action.content or b"") for name in named))
            ]
            behind |= {action.path: action for action in more}
            news = {action.node_id for action in more} - news
        return list(behind.values())

    def share_left_out(self, with_these: Sequence[Action]) -> float:
        """Return the share of the proposed actions that is missing once these are taken back too, 0 to 1."""
        return (self._proposed - len(self.kept) + len(with_these)) / self._proposed

    def take_back(self, actions: Collection[Action]) -> None:
        """Take some of the kept actions out of the overlay."""
        paths = {action.path for action in actions}
        self._shadow.overlay({path: self._before[path] for path in paths})
        self.kept = [action for action in self.kept if action.path not in paths]


def probes_of(generator: ProbeGenerator, past: Sequence[Probe], count: int) -> list[ProbeCase]:
    """Return up to `count` cases: the newest questions with known gold, and synthetic ones, at least a quarter."""
    real = generator.real(past)[: count - count // 4]
    return real + generator.synthetic(count - len(real))


def worse(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return the reasons why the second scores are worse than the first, [] for losses within the limits."""
    if not before:
        return []
    found = less_found(before, after)
    drop = fmean(score.recall for score in before) - fmean(score.recall for score in after)
    if drop > RECALL_DROP + ROUNDING:
        found.append(f"recall would drop by {drop:.3f}")
    return found + less_contained(before, after)


def less_found(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return the reason if questions find less than before, [] if they do not."""
    lost, gained = _lost_and_gained(before, after)
    if lost - gained <= _most_lost(before):
        return []
    return [f"{lost} of {len(before)} questions would find less, and {gained} more"]


def less_contained(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    """Return the reason if envelopes contain less than before, [] if they do not."""
    pairs = list(zip(before, after, strict=True))
    less, more = sum(b.contains_less_than(a) for a, b in pairs), sum(a.contains_less_than(b) for a, b in pairs)
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


def _is_there(index: Searchable, case: ProbeCase) -> bool:
    """Return True unless all that answers a probe was forgotten."""
    return not all(node.forgotten for node in index.catalog.nodes(case.probe.gold).values())


class Recheck:
    """Asks the same probes of the real store before and after a changeset is applied, within LONGEST_S each time.

    It waits while `is_busy` (requests are in flight), and sees the store through `Searchable` alone. A run is undone if
    recall is worse than before and also worse than in the copy. The second condition is needed since only a few of the
    probes are asked here: those alone could show a loss that the gate saw balanced by a gain.
    """

    def __init__(self, store: Searchable, checks: Sequence[Check], is_busy: Callable[[], bool]) -> None:
        self._store = store
        self._is_busy = is_busy
        known = [one for one in checks if one.gold]
        self._asked = [
            ProbeCase(Probe(one.text, one.channel, one.gold), one.words, one.synthetic, one.details) for one in known
        ]
        self._before = self._ask_all()
        self._foreseen = [
            Score(one.foreseen.recall, one.foreseen.coverage, one.foreseen.details) if one.foreseen else before
            for one, before in zip(known, self._before, strict=False)
        ]

    def reasons(self) -> list[str]:
        """Return the reasons why recall is worse than at construction and than the gate foresaw, [] if it is not."""
        now = self._ask_all()
        both = min(len(self._before), len(now))  # the time limit may have cut either off
        return worse(self._before[:both], now[:both]) and worse(self._foreseen[:both], now[:both])

    def unanswered(self) -> list[str]:
        """Return the reason if questions find nothing more of what answered them first, [] if they do not.

        For memories that come from elsewhere, which compete with those here. A small memory shows most of its gold for
        any question: that a part of it gives way is no loss, nor that gold itself is gone.
        """
        pairs = [
            (before, now)
            for case, before, now in zip(self._asked, self._before, self._ask_all(), strict=False)
            if _is_there(self._store, case)
        ]
        lost = sum(before.is_firm and not now.recall for before, now in pairs)
        gained = sum(now.is_firm and not before.recall for before, now in pairs)
        if lost - gained <= _most_lost([before for before, _ in pairs]):
            return []
        return [f"{lost} of {len(pairs)} past questions find no longer what answered them, and {gained} find it now"]

    def _ask_all(self) -> list[Score]:
        """Ask as many probes as there is time for."""
        until = time.monotonic() + LONGEST_S
        scores: list[Score] = []
        for case in self._asked:
            while self._is_busy() and time.monotonic() < until:
                Event().wait(GLANCE_S)
            if time.monotonic() >= until:
                break
            scores.append(ask(self._store, case))
        return scores

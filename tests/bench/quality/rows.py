"""The rows of one set: its envelopes before a dream and after it, by kind of question, and how much the dream kept."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from tests.memories import facts_in

from ..datasets import Dataset
from ..in_process import AnyDaemon
from ..scoring import Difference, paired_bootstrap, wordpieces
from ..table import Row, say
from .asking import Enveloped, envelope_all

BUDGETS = (500, 1000)
JUDGED = BUDGETS[0]
COVERAGE = {"LoCoMo": 0.777, "BEAM-100K": 0.682}
"""What was covered after a dream before envelopes chose sentences: since then it is to be covered without one."""

USABLE, MOST_FACTS = 0.97, 25
NOT_WORSE = ("carried", "coverage")
"""What a dream may lower in no kind of question; of other measures, none may lie wholly below 0."""

FEWEST = 5
"""Questions of a kind below which its mean is shown and not judged: one question's interval has no width."""

SEED = 20261121
ROUNDED = 0.0005


def ask(daemon: AnyDaemon, data: Dataset, budgets: Sequence[int] = BUDGETS) -> list[Enveloped]:
    """Ask every question in envelopes of each budget."""
    count = wordpieces()
    return [envelope_all(daemon, data, budget, count) for budget in budgets]


def before(data: Dataset, results: Path, asked: Sequence[Enveloped]) -> Iterator[Row]:
    """Yield the rows of envelopes before any dream."""
    for enveloped in asked:
        least = COVERAGE[data.name] if enveloped.budget == JUDGED else None
        share = enveloped.mean("coverage")
        yield Row(
            f"{data.name} dev before a dream, coverage@{enveloped.budget} tokens",
            f"{share:.3f}",
            "" if least is None else f"≥ {least}",
            None if least is None else share >= least,
            str(enveloped),
        )
    yield _usable(data, asked[0], "before a dream", results)


def dream(daemon: AnyDaemon, data: Dataset, turns: int) -> Iterator[Row]:
    """Have one daily dream without a model; yield how much it kept."""
    say(f"{data.name}: a daily dream")
    run = daemon.call("dream", kind="daily", wait=True)
    daemon.wait_until_embedded()
    vault = Path(daemon.call("status")["vault"])
    facts = len(facts_in(vault))
    share = 100 * facts / turns
    how = f"{facts} of {turns}; {run['state']}, {run['actions']}, {run['seconds']:.0f} s"
    yield Row(f"{data.name} dev, facts of 100 turns", f"{share:.0f}", f"≤ {MOST_FACTS}", share <= MOST_FACTS, how)


def after(data: Dataset, results: Path, old: Sequence[Enveloped], new: Sequence[Enveloped]) -> Iterator[Row]:
    """Yield the rows of envelopes after a dream, beside those before it."""
    for one, other in zip(old, new, strict=True):
        for what in ("recall", *NOT_WORSE):
            yield from _effect(f"{data.name} dev after one daily dream, {what}@{one.budget} tokens", what, one, other)
    yield _usable(data, new[0], "after one", results)


def _usable(data: Dataset, enveloped: Enveloped, when: str, results: Path) -> Row:
    """Return the row of usable lines, and write the envelopes to be read."""
    enveloped.write(results / f"{data.name}, {when}, {enveloped.budget}.txt")
    share = enveloped.mean("usable")
    name = f"{data.name} dev {when}, usable lines@{enveloped.budget} tokens"
    return Row(name, f"{share:.3f}", f"≥ {USABLE}", share >= USABLE, "of five words and no heading")


def _effect(name: str, what: str, old: Enveloped, new: Enveloped) -> Iterator[Row]:
    """Compare a measure of the same questions, all in all and by kind of question."""
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for question, one, other in zip(old.questions, old.scores(what), new.scores(what), strict=True):
        if one is not None and other is not None:
            by_kind.setdefault(question.kind, []).append((one, other))
    every = [pair for pairs in by_kind.values() for pair in pairs]
    yield compared(name, [one for one, _ in every], [other for _, other in every], f"after: {new}")
    differences = {kind: _difference(*zip(*pairs, strict=True)) for kind, pairs in sorted(by_kind.items())}
    judged = [difference for kind, difference in differences.items() if len(by_kind[kind]) >= FEWEST]
    below, surely = (sum(low) for low in ([one.mean <= -ROUNDED for one in judged], [one.high < 0 for one in judged]))
    strictly = what in NOT_WORSE and old.budget == JUDGED
    yield Row(
        f"{name}, by kind",
        f"{below} below 0, {surely} surely",
        "none" if strictly else "none surely",
        not (below if strictly else surely),
        "; ".join(f"{kind} {_means(by_kind[kind])}, {difference}" for kind, difference in differences.items()),
    )


def _means(pairs: Sequence[tuple[float, float]]) -> str:
    return " → ".join(f"{fmean(side):.3f}" for side in zip(*pairs, strict=True))


def compared(measure: str, old: Sequence[float], new: Sequence[float], how: str = "") -> Row:
    """Return the row of a difference, with its bootstrap."""
    measured = f"{fmean(old):.3f} → {fmean(new):.3f}"
    told = f"{_difference(old, new)} by paired bootstrap over {len(old)} questions"
    return Row(measure, measured, "", None, f"{told}; {how}" if how else told)


def _difference(old: Sequence[float], new: Sequence[float]) -> Difference:
    return paired_bootstrap(old, new, random.Random(SEED))

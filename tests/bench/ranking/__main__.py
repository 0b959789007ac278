"""Learn the scorer's weights: `python -m tests.bench.ranking [--write] [--ablate] [--calibrate]`.

From invented people, the readers' benchmarks, real prompts and quotes; LoCoMo and BEAM are measured on alone. Prints
how well the questions of each set rank by cosine, by bm25, and by weights that were learned without this set, the
difference with its interval. `--ablate` says what is lost without each feature, `--write` writes the scorer's weights.
`--calibrate` says instead how often hits of some confidence are right.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from loguru import logger

from ..options import ROOT, SHARED_DATA
from ..scoring import paired_bootstrap
from ..scratch import own_folder
from . import calibration
from .gathering import ENTIRE, MEASURED_ALONE, QUOTED, Gathered, gathered, sets
from .listwise import Example, Values, cross_validated, learn

SCORING = ROOT / "store" / "search" / "scoring.py"
DEPTHS = (5, 10)
SEED = 20261123
SHARES = {"readers": 0.5, "readers-2": 1.0, ENTIRE: 0.3, QUOTED: 0.5}
SHARE_OF_LIFE = 0.35
"""How much the questions of a set count together."""

_WEIGHTS = re.compile(r"(?<=^WEIGHTS = \{\n).*?(?=^\}\n)", re.MULTILINE | re.DOTALL)
"""The lines of the weights in the module of the scorer."""

Scores = dict[str, list[float]]


def main() -> int:
    """Learn, and print what it is worth."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.ranking", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the weights that are learned from all")
    parser.add_argument("--ablate", action="store_true", help="say what each feature is worth")
    parser.add_argument("--calibrate", action="store_true", help="measure the confidence of hits, and nothing else")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="the folder of the sets")
    given = parser.parse_args()
    logger.remove()
    if given.calibrate:
        with own_folder("calibration") as scratch:
            learned_from = [name for name in sets() if name not in MEASURED_ALONE]
            calibration.show({name: calibration.hits_of(name, scratch / name, given.data) for name in learned_from})
        return 0
    os.environ["DREAMD_STORE__SEARCH__SCORER"] = "none"  # what it is compared with
    with own_folder("ranking") as scratch:
        parts = [gathered(name, scratch / name, given.data) for name in sets()]
    examples = shared_out(parts)
    show(parts, examples)
    if given.ablate:
        ablate(parts, examples)
    if given.write:
        write(parts[0].features, learn(examples))
    return 0


def shared_out(parts: Sequence[Gathered]) -> list[Example]:
    """Return the examples that are learned from, those of each set weighing its share together."""
    return [
        replace(one, weight=SHARES.get(part.name, SHARE_OF_LIFE) / len(part.examples))
        for part in parts
        if part.name not in MEASURED_ALONE
        for one in part.examples
    ]


def show(parts: Sequence[Gathered], examples: Sequence[Example]) -> None:
    """Print each set's recall by one arm alone and by weights that were learned from the other sets."""
    lives: dict[str, Scores] = {}
    for part in parts:
        arms = {name: _measured_by(part, name) for name in ("vector", "keyword")}
        weights = learn([one for one in examples if one.dataset != part.name])
        ours = measured(part.examples, [one.features @ weights + one.prior for one in part.examples])
        print(f"{part.name}: {len(part.examples)} questions")
        _print(arms, ours)
        if part.name not in {*SHARES, *MEASURED_ALONE}:
            for name, scores in (arms | {"ours": ours}).items():
                for measure, values in scores.items():
                    lives.setdefault(name, {}).setdefault(measure, []).extend(values)
    print("all invented people")
    _print(lives, lives.pop("ours"))


def _measured_by(part: Gathered, feature: str) -> Scores:
    column = part.features.index(feature)
    return measured(part.examples, [one.features[:, column] for one in part.examples])


def _print(arms: Mapping[str, Scores], ours: Scores) -> None:
    for name, scores in arms.items():
        print(f"  {name:10} {summary(scores)}")
    print(f"  {'left out':10} {summary(ours)}")
    best = max(arms.values(), key=lambda scores: float(np.mean(scores["recall@10"])))
    gain = paired_bootstrap(best["recall@10"], ours["recall@10"], random.Random(SEED))
    print(f"  recall@10 against the better arm: {gain}")


def ablate(parts: Sequence[Gathered], examples: Sequence[Example]) -> None:
    """Print what leaving out each feature changes, cross-validated: below 0, it is worth something."""
    whole = measured(examples, cross_validated(examples, learn))
    for place, name in enumerate(parts[0].features):
        without = [replace(one, features=np.delete(one.features, place, axis=1)) for one in examples]
        lacking = measured(without, cross_validated(without, learn))
        print(f"without {name:20s} {changes(examples, whole, lacking)}", flush=True)


def changes(examples: Sequence[Example], whole: Scores, lacking: Scores) -> str:
    """Describe the mean changes of each set, and all questions' with its bootstrap."""
    parts = []
    for dataset in dict.fromkeys(one.dataset for one in examples):
        at = [place for place, one in enumerate(examples) if one.dataset == dataset]
        means = [float(np.mean([lacking[name][i] - whole[name][i] for i in at])) for name in whole]
        parts.append(f"{dataset} " + " ".join(f"{mean:+.3f}" for mean in means))
    every = [sum(whole[name][i] for name in whole) / len(whole) for i in range(len(examples))]
    other = [sum(lacking[name][i] for name in whole) / len(whole) for i in range(len(examples))]
    return f"{'; '.join(parts)}; all {paired_bootstrap(every, other, random.Random(SEED))}"


def measured(examples: Sequence[Example], scores: Sequence[Values]) -> Scores:
    """Return evidence recall and any@k of each question."""
    found: Scores = {f"{what}@{depth}": [] for depth in DEPTHS for what in ("recall", "any")}
    for one, score in zip(examples, scores, strict=True):
        best = one.gold[np.argsort(-score, kind="stable")]
        for depth in DEPTHS:
            hits = int(best[:depth].sum())
            found[f"recall@{depth}"].append(hits / one.wanted)
            found[f"any@{depth}"].append(float(hits > 0))
    return found


def summary(scores: Scores) -> str:
    """Describe the means."""
    return ", ".join(f"{name} {np.mean(values):.3f}" for name, values in scores.items())


def write(names: Sequence[str], weights: Values) -> None:
    """Write the weights into the module of the scorer, three digits each."""
    lines = [f'    "{name}": {weight:.3f},\n' for name, weight in zip(names, weights.tolist(), strict=True)]
    SCORING.write_text(_WEIGHTS.sub("".join(lines), SCORING.read_text(), count=1))


if __name__ == "__main__":
    sys.exit(main())

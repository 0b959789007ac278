"""Learn the scorer's weights: `python -m tests.bench.ranking [--write] [--ablate]`.

From the dev sets of LoCoMo and BEAM and the readers' benchmark, without a language model. Prints how well the questions
of each rank without a scorer, by weights that were learned without their conversation, and by weights that were learned
from the other sets alone. `--ablate` says what is lost without each feature, `--write` writes the scorer's weights.py.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from dreamd.pipelines.learning.listwise import Example, Values, cross_validated, learn
from loguru import logger

from ..options import ROOT, SHARED_DATA
from ..scoring import paired_bootstrap
from ..scratch import own_folder
from .gathering import SETS, Gathered, gathered

WEIGHTS = ROOT / "store" / "find" / "search" / "weights.py"
DEPTHS = (5, 10)
SEED = 20261123
SHARES = {"LoCoMo": 1.0, "BEAM-100K": 1.0, "readers": 0.5}
"""How much the questions of a set count together."""

HEAD = '''"""The weights of the learned scorer: written by `python -m tests.bench.ranking --write`, not by hand."""

from __future__ import annotations

WEIGHTS = {
'''

Scores = dict[str, list[float]]


def main() -> int:
    """Learn, and print what it is worth."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.ranking", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the weights that are learned from all")
    parser.add_argument("--ablate", action="store_true", help="say what each feature is worth")
    parser.add_argument("--data", type=Path, default=SHARED_DATA, help="the folder of the sets")
    given = parser.parse_args()
    logger.remove()
    os.environ["DREAMD_STORE__SEARCH__SCORER"] = "none"  # what it is compared with
    with own_folder("ranking") as scratch:
        sets = [gathered(name, scratch / name, given.data) for name in SETS]
    examples = shared_out(sets)
    show(sets, examples)
    if given.ablate:
        ablate(sets, examples)
    if given.write:
        write(sets[0].features, learn(examples))
    return 0


def shared_out(sets: Sequence[Gathered]) -> list[Example]:
    """Return all examples, those of each set weighing its share together."""
    return [replace(one, weight=SHARES[part.name] / len(part.examples)) for part in sets for one in part.examples]


def show(sets: Sequence[Gathered], examples: Sequence[Example]) -> None:
    """Print each set's recall without a scorer, cross-validated, and by the other sets alone."""
    left_out = measured(examples, cross_validated(examples, learn))
    for part in sets:
        fused = measured(part.examples, [-np.arange(len(one.gold), dtype=np.float64) for one in part.examples])
        print(f"{part.name}: {len(part.examples)} questions")
        print(f"  without a scorer  {summary(fused)}")
        at = [place for place, one in enumerate(examples) if one.dataset == part.name]
        ours = {name: [values[place] for place in at] for name, values in left_out.items()}
        print(f"  cross-validated   {summary(ours)}")
        for name in fused:
            print(f"    {name}: {paired_bootstrap(fused[name], ours[name], random.Random(SEED))}")
        weights = learn([one for one in examples if one.dataset != part.name])
        foreign = measured(part.examples, [one.features @ weights + one.prior for one in part.examples])
        print(f"  by the other sets {summary(foreign)}")


def ablate(sets: Sequence[Gathered], examples: Sequence[Example]) -> None:
    """Print what leaving out each feature changes, cross-validated: below 0, it is worth something."""
    whole = measured(examples, cross_validated(examples, learn))
    for place, name in enumerate(sets[0].features):
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
    """Write the module of weights, three digits each."""
    lines = [f'    "{name}": {weight:.3f},\n' for name, weight in zip(names, weights.tolist(), strict=True)]
    WEIGHTS.write_text(HEAD + "".join(lines) + "}\n")


if __name__ == "__main__":
    sys.exit(main())

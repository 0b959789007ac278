"""How well grounding tells what was said from what was not, by a script of claims."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from dreamd.pipelines.grounding.verify import ClaimSource, ground

from .claims import Claim, draw
from .options import Options
from .table import Row, skipped

SCRIPTED_TRUE = "scripted model: true claims accepted"
SCRIPTED_FALSE = "scripted model: false claims accepted"
LEAST_TRUE, MOST_FALSE = 0.90, 0.01


def measure(options: Options) -> Iterator[Row]:
    """Measure what grounding lets through."""
    file = options.data / "locomo" / "dev.json"
    if not file.is_file():
        yield skipped(SCRIPTED_TRUE, "at least 90 %", f"{file} is not there")
        yield skipped(SCRIPTED_FALSE, "at most 1 %", f"{file} is not there")
        return
    yield from _scripted(draw(file, random.Random(20), options.of(100, 20)), options)


def _scripted(claims: list[Claim], options: Options) -> Iterator[Row]:
    asked: Counter[str] = Counter(claim.kind for claim in claims)
    accepted: Counter[str] = Counter(claim.kind for claim in claims if is_accepted(claim))
    for true, measure_name, target in ((True, SCRIPTED_TRUE, "at least 90 %"), (False, SCRIPTED_FALSE, "at most 1 %")):
        kinds = dict.fromkeys(claim.kind for claim in claims if claim.true is true)
        share = sum(accepted[kind] for kind in kinds) / sum(asked[kind] for kind in kinds)
        each = ", ".join(f"{kind} {accepted[kind]}/{asked[kind]}" for kind in kinds)
        ok = share >= LEAST_TRUE if true else share <= MOST_FALSE
        yield Row(
            measure_name, f"{share:.1%} ({each})", target, ok, "edits of LoCoMo dev sentences by tests/bench/claims.py"
        )


def is_accepted(claim: Claim) -> bool:
    """Whether grounding lets a claim pass on the sentence that it cites, with the question before it or without."""
    said = claim.said
    cited = [ClaimSource(said.text, said.speaker, said.other, said.day)]
    if said.asked:
        cited.append(ClaimSource(f"{said.asked} {said.text}", said.speaker, said.other, said.day))
    return ground(claim.text, cited).is_grounded

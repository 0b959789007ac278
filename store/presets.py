"""Presets: the published retrieval pipelines of other projects, as far as turns and facts have what they score.

The source of each number is in docs/presets.md. A time constant of d days, as two of them publish it under the name of
a half-life, is a half-life of d · ln 2.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from .score_stages import (
    Cascade,
    CosineRerank,
    Fusion,
    HardMinimum,
    Importance,
    LengthNormalisation,
    NearDuplicates,
    RecencyBoost,
    SessionCap,
    Stages,
    Tense,
    TimeDecay,
)

PresetName = Literal["aquifer", "aleph", "agentx", "jcode"]

PRESETS: Final[dict[PresetName, Stages]] = {
    "aquifer": Stages(
        fusion=Fusion(method="rrf", rrf_k=None, share=0.65),
        recency=RecencyBoost(shape="logistic", weight=0.25, half_life_days=45, steepness=0.05),
    ),
    "aleph": Stages(
        fusion=Fusion(method="weighted", keyword_weight=0.3, vector_weight=0.7, over_fetch=4),
        cosine_rerank=CosineRerank(blend=0.3),
        recency=RecencyBoost(weight=0.1, half_life_days=14 * math.log(2)),
        importance=Importance(floor=0.7),
        length=LengthNormalisation(anchor_chars=500, slope=0.5),
        time_decay=TimeDecay(half_life_days=60 * math.log(2), floor=0.5),
        minimum=HardMinimum(score=0.35),
        near_duplicates=NearDuplicates(cosine=0.85),
    ),
    "agentx": Stages(
        fusion=Fusion(method="rrf", keyword_weight=0.3, vector_weight=0.7, rrf_k=60, over_fetch=2),
        tense=Tense(current=1.2, past=0.7),
        session_cap=SessionCap(hits=3),
    ),
    "jcode": Stages(
        fusion=Fusion(method="rrf", rrf_k=60, over_fetch=5, least=50),
        cascade=Cascade(seeds=10, least_cosine=0.4, depth=2, step=0.7),
    ),
}

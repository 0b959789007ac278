"""The pipelines held against the default: each arm alone, plain fusions, presets, and one stage more or less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

from dreamd.store import settings as values
from dreamd.store.settings import PRESETS, Fusion, StageName, Stages

ONE_EACH = Stages(
    cosine_rerank=values.CosineRerank(),
    recency=values.RecencyBoost(),
    tense=values.Tense(),
    length=values.LengthNormalisation(),
    time_decay=values.TimeDecay(),
    minimum=values.HardMinimum(),
    cascade=values.Cascade(),
    mmr=values.Mmr(),
    near_duplicates=values.NearDuplicates(),
    session_cap=values.SessionCap(),
)
"""Every stage at its default values; certainty is a fact's, and turns have none."""


class Variant(NamedTuple):
    """A pipeline under its name in the table. `is_rival`: the default is to be ahead of it."""

    name: str
    stages: Stages
    is_rival: bool = False


def variants() -> Iterator[Variant]:
    """Yield the pipelines in the order of the table."""
    yield Variant("keyword alone", Stages(fusion=Fusion(vector_weight=0)), True)
    yield Variant("vector alone", Stages(fusion=Fusion(keyword_weight=0)), True)
    yield Variant("reciprocal ranks", Stages(fusion=Fusion(method="rrf")))
    yield Variant("min-max sum", Stages())
    for name in ONE_EACH.names():
        yield Variant(f"min-max sum + {name}", Stages().model_copy(update={name: getattr(ONE_EACH, name)}))
    stage_names: tuple[StageName, ...] = get_args(StageName)
    for preset, stages in PRESETS.items():
        yield Variant(preset, stages, True)
        switched_on: list[StageName] = [name for name in stage_names if name in stages.names()]
        yield from (Variant(f"{preset} - {name}", stages.without(name)) for name in switched_on)

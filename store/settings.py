"""The store's own settings, with units and defaults, the places of its parts, and the stages that make a preset.

A preset, or a person's own stages, ranks between the arms and the answer. The source of each number of a preset is in
docs/presets.md. A time constant of d days, which one of them publishes as a half-life, is a half-life of d · ln 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

PresetName = Literal["aquifer", "aleph", "agentx", "jcode"]


class StageValues(BaseModel):
    """Values of one stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Fusion(StageValues):
    """The sum of both arms, in [0, 1]: by reciprocal rank, by scaled scores, or of cosines and keyword scores.

    Of `weighted`, a cosine below 0 counts 0 and a keyword score is divided by the best one. `share` is what the sum
    weighs beside what later stages add. An arm takes part with `over_fetch` times as many candidates as are asked for,
    at least `least`; 0: with all that it found.
    """

    method: Literal["rrf", "min_max", "weighted"] = "min_max"
    keyword_weight: float = Field(1.0, ge=0)
    vector_weight: float = Field(1.0, ge=0)
    rrf_k: int = Field(60, ge=1)
    share: float = Field(1.0, gt=0)
    over_fetch: int = Field(0, ge=0)
    least: int = Field(0, ge=0)


class CosineRerank(StageValues):
    """The share of the cosine in a blend with the score so far."""

    blend: float = Field(0.3, ge=0, le=1)


class RecencyBoost(StageValues):
    """An addition for what is young: half of `weight` at `half_life_days`.

    `exponential` halves it every so many days; `logistic` is weight / (1 + e^(steepness · (age - half-life))).
    """

    weight: float = Field(0.1, ge=0)
    half_life_days: float = Field(14.0, gt=0)
    shape: Literal["exponential", "logistic"] = "exponential"
    steepness: float = Field(0.05, gt=0)


class Importance(StageValues):
    """A factor from `floor` (certainty 0) to 1 (certainty 1, or none given)."""

    floor: float = Field(0.7, ge=0, le=1)


class Tense(StageValues):
    """Factors of facts that hold and of facts that held; what is no fact keeps its score."""

    current: float = Field(1.2, ge=0)
    past: float = Field(0.7, ge=0)


class LengthNormalisation(StageValues):
    """A divisor of 1 + `slope` for each doubling of a text beyond `anchor_chars`."""

    anchor_chars: int = Field(500, ge=1)
    slope: float = Field(0.5, ge=0)


class TimeDecay(StageValues):
    """A factor that falls from 1 towards `floor`, half of the way every `half_life_days`."""

    half_life_days: float = Field(30.0, gt=0)
    floor: float = Field(0.5, ge=0, le=1)


class HardMinimum(StageValues):
    """The score below which nothing is returned."""

    score: float = Field(0.35, ge=0)


class Cascade(StageValues):
    """Scores of what the best candidates are linked to: times the link's weight and `step`, over `depth` links.

    Seeds are the `seeds` best candidates of at least `least_cosine`. `tag`: of the same tag; `page`: cited by the same
    page; `related`; `supersedes`, in both directions; `cites`: facts with a turn in common; `other`: contradictions.
    """

    seeds: int = Field(10, ge=1)
    least_cosine: float = Field(0.4, ge=-1, le=1)
    depth: int = Field(2, ge=1, le=4)
    step: float = Field(0.7, ge=0, le=1)
    tag: float = Field(0.8, ge=0, le=1)
    page: float = Field(0.6, ge=0, le=1)
    related: float = Field(0.6, ge=0, le=1)
    supersedes: float = Field(0.9, ge=0, le=1)
    cites: float = Field(0.7, ge=0, le=1)
    other: float = Field(0.3, ge=0, le=1)


class Mmr(StageValues):
    """Maximal marginal relevance of the `best` candidates: `share` is the weight of relevance (λ) against likeness."""

    share: float = Field(0.5, ge=0, le=1)
    best: int = Field(50, ge=1)


class NearDuplicates(StageValues):
    """The cosine with a better candidate above which one is put behind all others."""

    cosine: float = Field(0.85, ge=-1, le=1)


class SessionCap(StageValues):
    """The number of hits that one session may have."""

    hits: int = Field(3, ge=1)


StageName = Literal[
    "cosine_rerank",
    "recency",
    "importance",
    "tense",
    "length",
    "time_decay",
    "minimum",
    "cascade",
    "mmr",
    "near_duplicates",
    "session_cap",
]


class Stages(StageValues):
    """A pipeline of score stages in the order in which they run; None is switched off."""

    fusion: Fusion = Fusion()
    cosine_rerank: CosineRerank | None = None
    recency: RecencyBoost | None = None
    importance: Importance | None = None
    tense: Tense | None = None
    length: LengthNormalisation | None = None
    time_decay: TimeDecay | None = None
    minimum: HardMinimum | None = None
    cascade: Cascade | None = None
    mmr: Mmr | None = None
    near_duplicates: NearDuplicates | None = None
    session_cap: SessionCap | None = None

    def overlaid(self, other: Stages) -> Stages:
        """Return the pipeline with the stages of another in place of its own; what is off there, or fuses as by
        default, stays as it is.
        """
        plain = type(self)()
        given = {
            name: value for name in type(self).model_fields if (value := getattr(other, name)) != getattr(plain, name)
        }
        return self.model_copy(update=given)

    def without(self, *names: StageName) -> Stages:
        """Return the pipeline with stages switched off."""
        return self.model_copy(update=dict.fromkeys(names))

    def names(self) -> tuple[str, ...]:
        """Return the stages that are switched on, in their order; fusion always is."""
        return tuple(name for name in type(self).model_fields if name != "fusion" and getattr(self, name) is not None)


PRESETS: Final[dict[PresetName, Stages]] = {
    "aquifer": Stages(fusion=Fusion(method="rrf", rrf_k=60)),
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


class EmbeddingSettings(BaseModel):
    """The embedding model: `minilm` is shipped, `multilingual` an extra, `stub` for tests; others are fastembed's.

    `threads` work on one text or batch, `workers_when_quiet` on as many batches while no client has called for seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "minilm"
    allow_download: bool = False
    threads: int = Field(1, ge=1, le=64)
    workers_when_quiet: int = Field(2, ge=1, le=64)


class QueryCacheSettings(BaseModel):
    """The cache of questions: how many are held (0: none), and the periods of seconds within which they are shared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    entries: int = Field(256, ge=0, le=10_000)
    ttl_s: float = Field(300.0, gt=0.0, le=86_400.0)


class PriorSettings(BaseModel):
    """Weights of what speaks for a memory beside its match with the question: log odds, 0 switches one off.

    `time`: the question names the time that the memory is of, by `days_before` and `days_after` or less. Of LoCoMo's
    92 such questions it raised recall@10 from .777 to .895, cross-validated; any weight from 2 to 5 gave .87 or more.
    `newest`: the question asks for the newest, and the memory holds a word of it and is newer than others that do.
    `event`: the question asks about the time before or after an event, and the memory is of that time.
    `trust`: feedback on the memory, as a part of 1; what it adds or takes is at most `most_trust`, so that neighbours
    in the order change places and a clearly better memory stays first.
    `words`: a question of one or two words looks them up, and a memory holds them that few others hold.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    time: float = Field(3.0, ge=0.0, le=10.0)
    newest: float = Field(3.0, ge=0.0, le=10.0)
    event: float = Field(1.0, ge=0.0, le=10.0)
    words: float = Field(5.0, ge=0.0, le=20.0)
    trust: float = Field(4.0, ge=0.0, le=20.0)
    most_trust: float = Field(0.6, ge=0.0, le=5.0)
    days_before: float = Field(2.0, gt=0.0, le=366.0)
    days_after: float = Field(7.0, gt=0.0, le=366.0)


class SearchSettings(BaseModel):
    """Limits, fusion and weights of the two arms of recall, keyword and vector.

    With `preset` (docs/presets.md), or `stages` of one's own, a pipeline of score stages ranks instead.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    fusion: Literal["score", "rrf"] = "score"
    scorer: Literal["learned", "none"] = "learned"
    rrf_k: int = Field(60, ge=1)
    reach: int = Field(100, ge=10, le=2000)
    vector_weight: float = Field(1.0, ge=0.0, le=10.0)
    assistant_weight: float = Field(0.83, ge=0.0, le=1.0)
    preset: PresetName | None = Field(None, description="the published pipeline of another project")
    stages: Stages | None = Field(None, description="stages beside, or instead of, those of the preset")
    cross_encoder: str | None = Field(
        None, description="a cross-encoder of fastembed, by name, or the folder of one; it orders the best candidates"
    )
    cross_encoder_reads: int = Field(20, ge=1, le=200, description="candidates that it reads for a question")
    cache: QueryCacheSettings = QueryCacheSettings()
    priors: PriorSettings = PriorSettings()
    without: tuple[StageName, ...] = Field((), description="stages of the preset that are switched off")
    vectors_in_memory: int = Field(
        2_000_000,
        ge=0,
        description="the most vectors that are held in memory, 440 bytes each; more are searched on disk by sqlite-vec",
    )

    follow_links: bool = Field(False, description="what the best memories are linked to is found too: docs/presets.md")

    @property
    def is_reranked(self) -> bool:
        """True if a reranker of the settings takes the place of the default."""
        return any(one is not None for one in (self.preset, self.stages, self.cross_encoder))


class ChunkSettings(BaseModel):
    """Size and overlap of the chunks that are embedded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: int = Field(400, ge=32)
    overlap_tokens: int = Field(40, ge=0)


class ExtensionSettings(BaseModel):
    """The extensions that other packages add, by the entry points in their group `dreamd`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(True, description="load the extensions that are installed")
    off: tuple[str, ...] = Field((), description="those that are not loaded, by name")
    deadline_ms: int = Field(50, ge=1, le=1000, description="the longest that an answer waits for a filter of hits")
    event_deadline_s: float = Field(5, ge=0.05, le=60, description="the longest that an event may keep an extension")


class StoreSettings(BaseModel):
    """All settings of the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = Field(
        "sqlite-vec",
        pattern=r"^(sqlite-vec|files|postgres|qdrant|[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*)$",
        description="the search engine; `files` finds by words alone, and the daemon loads no model; a server, which"
        " `store.dsn` in the data folder names, answers with a copy of the index; an extension's is `EXTENSION.NAME`",
    )
    extensions: ExtensionSettings = ExtensionSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    search: SearchSettings = SearchSettings()
    chunks: ChunkSettings = ChunkSettings()
    capacity_mb: int = Field(
        5000,
        ge=0,
        description="a larger vault or index is warned of, and one waiting turn makes a small dream due",
    )
    apart: tuple[Path, ...] = Field(
        (), description="worktrees and clones that are projects of their own, by the path of their top folder"
    )
    history: Literal["off", "writes", "reads", "verbose"] = Field(
        "writes",
        description="events of each memory that are recorded beside its runs: none, undos and redos, also every answer"
        " that had it, or that with its question",
    )
    history_days: int = Field(90, ge=1, le=3650, description="for how long")
    redact_personal: bool = Field(
        False, description="replace e-mail addresses, telephone and card numbers and IBANs too, as secrets are"
    )
    probes: bool = Field(True, description="keep past questions, redacted, for 30 days: dreams are tested on them")


@dataclass(frozen=True, slots=True)
class StorePaths:
    """Where each part of a store lies. `runs` holds the folders of dreams that are being planned."""

    vault: Path
    ledger: Path
    index: Path
    embeddings: Path
    runs: Path

    @property
    def checkpoint(self) -> Path:
        """The file of finished units that one dream leaves to the next."""
        return self.runs.with_name("checkpoint")

    @property
    def dsn(self) -> Path:
        """The file that says where a search server is, and how to sign in: it is nobody else's to read."""
        return self.ledger.with_name("store.dsn")

    @property
    def models(self) -> Path:
        """The folder of models that were prepared or fetched."""
        return self.ledger.with_name("models")

    @property
    def purge(self) -> Path:
        """The file that says which purge is under way."""
        return self.ledger.with_name("purge.json")

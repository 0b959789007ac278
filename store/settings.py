"""The store's own settings, with units and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .score_stages import PresetName, StageName, Stages


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
    cache: QueryCacheSettings = QueryCacheSettings()
    priors: PriorSettings = PriorSettings()
    without: tuple[StageName, ...] = Field((), description="stages of the preset that are switched off")
    vectors_in_memory: int = Field(
        2_000_000,
        ge=0,
        description="the most vectors that are held in memory, 440 bytes each; more are searched on disk by sqlite-vec",
    )

    @property
    def is_reranked(self) -> bool:
        """True if a reranker of the settings takes the place of the default."""
        return self.preset is not None or self.stages is not None

    @property
    def is_learned(self) -> bool:
        """True if the learned scorer ranks."""
        return not self.is_reranked and self.fusion == "score" and self.scorer == "learned"


class ChunkSettings(BaseModel):
    """Size and overlap of the chunks that are embedded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: int = Field(400, ge=32)
    overlap_tokens: int = Field(40, ge=0)


class StoreSettings(BaseModel):
    """All settings of the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["sqlite-vec", "files"] = Field(
        "sqlite-vec", description="the search engine; `files` finds by words alone, and the daemon loads no model"
    )
    embedding: EmbeddingSettings = EmbeddingSettings()
    search: SearchSettings = SearchSettings()
    chunks: ChunkSettings = ChunkSettings()
    redact_personal: bool = Field(
        False, description="replace e-mail addresses, telephone and card numbers and IBANs too, as secrets are"
    )
    probes: bool = Field(True, description="keep past questions, redacted, for 30 days: dreams are tested on them")

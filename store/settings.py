"""The store's own settings, with units and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class EmbeddingSettings(BaseModel):
    """The embedding model: `minilm` is shipped, `stub` is for tests, others are fastembed's names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "minilm"
    allow_download: bool = False
    threads: int = Field(1, ge=1, le=64)


class SearchSettings(BaseModel):
    """Limits, fusion and weights of the two arms of recall, keyword and vector."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fusion: Literal["score", "rrf"] = "score"
    rrf_k: int = Field(60, ge=1)
    reach: int = Field(100, ge=10, le=2000)
    vector_weight: float = Field(1.0, ge=0.0, le=10.0)
    assistant_weight: float = Field(0.83, ge=0.0, le=1.0)


class ChunkSettings(BaseModel):
    """Size and overlap of the chunks that are embedded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: int = Field(400, ge=32)
    overlap_tokens: int = Field(40, ge=0)


class StoreSettings(BaseModel):
    """All settings of the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embedding: EmbeddingSettings = EmbeddingSettings()
    search: SearchSettings = SearchSettings()
    chunks: ChunkSettings = ChunkSettings()
    redact_personal: bool = Field(
        False, description="replace e-mail addresses, telephone and card numbers and IBANs too, as secrets are"
    )
    probes: bool = Field(True, description="keep past questions, redacted, for 30 days: dreams are tested on them")

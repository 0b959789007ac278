"""Which language model, if any, dreams may ask."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LlmSettings(BaseModel):
    """`none` is a whole and supported choice. An address beyond this machine needs `allow_remote`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["none", "ollama"] = "none"
    model: str = ""
    base_url: str = Field("", description="the provider's usual address on this machine, unless another is named")
    allow_remote: bool = False
    deadline_s: float = Field(60, gt=0, description="for one completion")
    context_tokens: int = Field(8192, ge=512)

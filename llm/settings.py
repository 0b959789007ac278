"""The language model for dreams, if any, and its bounds."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, SerializationInfo, field_serializer

# The key of the serialization context in which the API key is written: for the pipe to a dream alone.
REVEAL_SECRETS = "reveal_secrets"


class LlmSettings(BaseModel):
    """The model's settings; dreams work with `none` too. An address beyond this machine needs `allow_remote`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: str = Field(
        "none",
        pattern=r"^(none|ollama|openai_compatible|[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*)$",
        description="none, ollama, openai_compatible, or an extension's: EXTENSION.NAME",
    )
    model: str = ""
    base_url: str = Field("", description="the provider's usual address on this machine, unless another is named")
    allow_remote: bool = False
    api_key: SecretStr = Field(SecretStr(""), description="for an OpenAI-compatible server that wants one")
    api_key_file: Path | None = Field(None, description="a file that holds the key alone, instead of api_key")
    deadline_s: float = Field(60, gt=0, description="for one completion")
    context_tokens: int = Field(8192, ge=512)
    answer_tokens: int = Field(1024, ge=64, description="the longest answer")
    # Under their former names too, so that settings files written for those still hold.
    calls_per_day: int = Field(1000, ge=0, validation_alias=AliasChoices("calls_per_day", "calls_a_night"))
    tokens_per_day: int = Field(
        2_000_000,
        ge=0,
        validation_alias=AliasChoices("tokens_per_day", "tokens_a_night"),
        description="read and written",
    )
    failures_in_a_row: int = Field(3, ge=1, description="after so many a dream goes on without the model")
    keep_alive_s: float = Field(300, ge=0, description="how long Ollama holds the model between two calls of a dream")

    @field_serializer("api_key")
    def _hidden(self, key: SecretStr, info: SerializationInfo) -> str:
        reveal = isinstance(info.context, dict) and info.context.get(REVEAL_SECRETS)
        return key.get_secret_value() if reveal else str(key)

"""The one thing that a dream asks of a language model: JSON that fits a schema, by a deadline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .settings import LlmSettings

PRESENCE_DEADLINE_S = 2.0


class LlmError(Exception):
    """The base of what this room raises. `hint` is a sentence that says what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class LlmUnavailable(LlmError):
    """No server, no such model, a deadline passed: the stage goes its deterministic way."""


class LlmRefused(LlmError):
    """The model answered, but not with what was asked for; asking again is the caller's choice."""


class LanguageModel(Protocol):
    """A model that completes a prompt. Whatever it says is a claim, never a fact: see pipelines' grounding."""

    @property
    def name(self) -> str:
        """Provider and model, as `ollama/qwen3:4b`: recorded with what it proposed."""
        ...

    def check(self, deadline_s: float) -> None:
        """Return if the server answers and has the model. Never pulls one. Raises LlmUnavailable."""
        ...

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        """Answer with one JSON object that was checked to be one.

        `schema` is JSON Schema of an object; its `required` keys are there in what returns. Raises LlmUnavailable or
        LlmRefused, and nothing else.
        """
        ...


def model_for(settings: LlmSettings) -> LanguageModel | None:
    """The configured model, or None. Constructing asks nobody; `problem` does. Raises LlmUnavailable."""
    if settings.provider == "none":
        return None
    from .ollama import OllamaModel  # its client and httpx cost a second on a busy machine: only who asks pays

    return OllamaModel(settings)


def problem(settings: LlmSettings) -> str:
    """Why the configured model cannot be asked right now; "" if it can be, or if none is configured."""
    try:
        model = model_for(settings)
        if model is not None:
            model.check(PRESENCE_DEADLINE_S)
    except LlmError as error:
        return f"{error} {error.hint}".strip()
    return ""

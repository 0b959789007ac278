"""The one thing that a dream asks of a language model: JSON that fits a schema, by a deadline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        """Answer with one JSON object that was checked to be one.

        `schema` is JSON Schema of an object; its `required` keys are there in what returns. Raises LlmUnavailable or
        LlmRefused, and nothing else.
        """
        ...

"""The interface of a language model to a dream: JSON that fits a schema, by a deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class LlmError(Exception):
    """The base of what this room raises. `hint` is a sentence that says what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class LlmUnavailable(LlmError):
    """No server, no such model, a deadline passed, the allowance used up: the stage goes its deterministic way."""


class LlmRefused(LlmError):
    """An answer that does not fit what was asked for; asking again is the caller's choice."""


class LlmEndless(LlmRefused):
    """An answer without an end within the bounds; asked again the model would not end either."""


class LlmAborted(LlmError):
    """A call that was ended from another thread, by `abort`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked object, and what it cost; 0 tokens where the server does not say."""

    content: dict[str, Any]
    prompt_tokens: int = 0
    answer_tokens: int = 0


class LanguageModel(Protocol):
    """A model that completes a prompt. Whatever it says is a claim, never a fact: see pipelines' grounding."""

    @property
    def name(self) -> str:
        """Provider and model, as `ollama/qwen3:4b`: recorded with what it proposed."""
        ...

    def check(self, deadline_s: float) -> None:
        """Return if the server answers and has the model. Never pulls one. Raises LlmUnavailable."""
        ...

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> Answer:
        """Answer with one JSON object that was checked to fit.

        `schema` is JSON Schema of an object, of the kinds that json_schema.py knows. Raises LlmUnavailable, LlmRefused
        or LlmAborted, and nothing else.
        """
        ...

    def abort(self) -> None:
        """Shut the connection of the call that is under way, if one is, so that the server stops; from any thread."""
        ...

    def release(self, deadline_s: float) -> None:
        """Have the server free the model's memory, where its protocol can ask that. Raises nothing."""
        ...

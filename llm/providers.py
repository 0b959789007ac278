"""The providers of language models: the one that the settings name, and whether it can be asked."""

from __future__ import annotations

from .model import LanguageModel, LlmError
from .settings import LlmSettings

PRESENCE_DEADLINE_S = 2.0


def model_for(settings: LlmSettings) -> LanguageModel | None:
    """Return the configured model, or None. Sends no request; `problem` does. Raises LlmUnavailable."""
    match settings.provider:  # their clients and httpx cost a second on a busy machine: not imported until asked for
        case "none":
            return None
        case "ollama":
            from .ollama import OllamaModel

            return OllamaModel(settings)
        case "openai_compatible":
            from .openai_compatible import OpenAICompatibleModel

            return OpenAICompatibleModel(settings)


def problem(settings: LlmSettings) -> str:
    """Return why the configured model cannot be asked right now; "" if it can be, or if none is configured."""
    try:
        model = model_for(settings)
        if model is not None:
            model.check(PRESENCE_DEADLINE_S)
    except LlmError as error:
        return f"{error} {error.hint}".strip()
    return ""

"""A budget: the configured model, with a bound on the calls, tokens and failures of one dream."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pluggy

from .language_model import Answer, LanguageModel, LlmAborted, LlmEndless, LlmError, LlmRefused, LlmUnavailable
from .settings import LlmSettings

Providers = Mapping[str, Callable[[LlmSettings], LanguageModel]]

# Fewer than with any tokenizer of English, so that the estimate of tokens is rather too high.
CHARS_A_TOKEN = 3
_MOST_ABORTS = 100
_AGAIN = "\n\nYour last answer could not be used: {why} Answer again, with the JSON object alone.\n"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The calls and tokens left for this run."""

    calls: int
    tokens: int


@dataclass(slots=True)
class Spent:
    """The usage of a model by one dream. `tokens` are read and written, counted by the server or estimated."""

    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    failures: int = 0
    repairs: int = 0
    aborts: int = 0


class Asker:
    """Asks a model within bounds. `why_not` is the reason why it is not asked any more in this run, "" without one."""

    def __init__(
        self,
        model: LanguageModel,
        settings: LlmSettings,
        allowance: Allowance | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._settings = settings
        self._left = allowance or Allowance(settings.calls_per_day, settings.tokens_per_day)
        self._monotonic = monotonic
        self._failures_in_a_row = 0
        self.spent = Spent()
        self.why_not = ""

    @property
    def name(self) -> str:
        """Provider and model."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """The most tokens that a prompt and its answer may have together."""
        return self._settings.context_tokens

    @property
    def answer_tokens(self) -> int:
        """The most tokens that an answer may have."""
        return self._settings.answer_tokens

    def ask(self, prompt: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's answer, a JSON object; an unusable one is asked for once more.

        Raises LlmUnavailable if it does not answer or may not be asked, LlmRefused if both answers are unusable.
        """
        try:
            answer = self._once_repaired(prompt, schema)
        except LlmError as error:
            self._failed(error)
            raise
        self._failures_in_a_row = 0
        return answer.content

    def abort(self) -> None:
        """Close the connection of the current call, from any thread; the call is then repeated."""
        self._model.abort()

    def release(self) -> None:
        """Release the model at the end of the run, if it was asked."""
        if self.spent.calls:
            self._model.release(PRESENCE_DEADLINE_S)

    def _once_repaired(self, prompt: str, schema: Mapping[str, Any]) -> Answer:
        try:
            return self._call(prompt, schema)
        # A second answer would not end either, and cost as much.
        except LlmEndless:
            raise
        except LlmRefused as error:
            self.spent.repairs += 1
            return self._call(prompt + _AGAIN.format(why=error), schema)

    def _call(self, prompt: str, schema: Mapping[str, Any]) -> Answer:
        """Make one call, and repeat it if it was aborted: an abort is followed by a pause of this process."""
        estimate = len(prompt) // CHARS_A_TOKEN + 1
        for _ in range(_MOST_ABORTS):
            self._check_allowance(estimate)
            self.spent.calls += 1
            began_s = self._monotonic()
            # Charged before the answer: an aborted or failed call has cost its prompt too.
            tokens = _cost(None, estimate)
            try:
                answer = self._model.complete_json(prompt, schema, self._settings.deadline_s)
                tokens = _cost(answer, estimate)
            except LlmAborted:
                self.spent.aborts += 1
                continue
            except LlmError:
                raise
            except Exception as error:  # of an extension's model
                raise LlmUnavailable(f"{self.name} failed ({type(error).__name__}).") from None
            finally:
                self.spent.seconds += self._monotonic() - began_s
                self.spent.tokens += tokens
            return answer
        raise LlmUnavailable(f"{self.name} was called off {_MOST_ABORTS} times.")

    def _check_allowance(self, estimate: int) -> None:
        if self.why_not:
            raise LlmUnavailable(self.why_not)
        if self.spent.calls >= self._left.calls:
            self.why_not = "the day's calls are used up"
        elif self.spent.tokens + estimate > self._left.tokens:
            self.why_not = "the day's tokens are used up"
        if self.why_not:
            raise LlmUnavailable(self.why_not, "Raise llm.calls_per_day or llm.tokens_per_day.")

    def _failed(self, error: LlmError) -> None:
        self.spent.failures += 1
        self._failures_in_a_row += 1
        if not self.why_not and self._failures_in_a_row >= self._settings.failures_in_a_row:
            self.why_not = f"{self._failures_in_a_row} failures in a row, the last: {error}"


def _cost(answer: Answer | None, estimate: int) -> int:
    """Return the server's count, else the estimate: the prompt of a failed call was read all the same."""
    counted = answer.prompt_tokens + answer.answer_tokens if answer else 0
    return counted or estimate


def asker_for(
    settings: LlmSettings, allowance: Allowance | None = None, known: Providers | None = None
) -> tuple[Asker | None, str]:
    """Return the model for a dream, after asking the server; or None and the reason, "" if none is configured."""
    try:
        model = model_for(settings, known)
        if model is None:
            return None, ""
        _check(model)
    except LlmError as error:
        return None, f"{error} {error.hint}".strip()
    return Asker(model, settings, allowance), ""


PRESENCE_DEADLINE_S = 2.0


def _check(model: LanguageModel) -> None:
    """Ask whether a model answers. Raises LlmUnavailable, also for an error of any other kind."""
    try:
        model.check(PRESENCE_DEADLINE_S)
    except LlmError:
        raise
    except Exception as error:
        raise LlmUnavailable(f"{model.name} failed ({type(error).__name__}).") from None


@pluggy.HookimplMarker("dreamd")
def providers() -> Providers:
    """Return our own language models by name."""
    return {"ollama": _ollama, "openai_compatible": _openai_compatible}


def _ollama(settings: LlmSettings) -> LanguageModel:
    from .ollama import OllamaModel  # here, since the clients and httpx cost a second on a busy machine

    return OllamaModel(settings)


def _openai_compatible(settings: LlmSettings) -> LanguageModel:
    from .openai_compatible import OpenAICompatibleModel

    return OpenAICompatibleModel(settings)


def model_for(settings: LlmSettings, known: Providers | None = None) -> LanguageModel | None:
    """Return the configured model, or None. Sends no request, other than `problem`. Raises LlmUnavailable."""
    if settings.provider == "none":
        return None
    known = providers() if known is None else known
    if (made := known.get(settings.provider)) is None:
        raise LlmUnavailable(
            f"There is no provider {settings.provider}.",
            f"Install its package, or set llm.provider to one of {', '.join(known)}.",
        )
    try:
        return made(settings)
    except LlmError:
        raise
    except Exception as error:  # an extension's: the dream goes on without it
        raise LlmUnavailable(f"{settings.provider} cannot be used ({type(error).__name__}).") from None


def problem(settings: LlmSettings, known: Providers | None = None) -> str:
    """Return the reason why the configured model cannot be asked now; "" if it can, or if none is configured."""
    try:
        model = model_for(settings, known)
        if model is not None:
            _check(model)
    except LlmError as error:
        return f"{error} {error.hint}".strip()
    return ""

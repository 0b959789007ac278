"""Ollama, by its own client, with a schema and a deadline."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import ollama

from .http import ServerConnection
from .language_model import Answer, LlmEndless, LlmError, LlmUnavailable, checked
from .settings import LlmSettings

DEFAULT_URL = "http://127.0.0.1:11434"
Result = TypeVar("Result")


class OllamaModel:
    """A model of an Ollama server. Not for use inside a running event loop."""

    def __init__(self, settings: LlmSettings) -> None:
        if not settings.model:
            raise LlmUnavailable("No model is named.", "Set llm.model, for instance to one that `ollama list` shows.")
        self._settings = settings
        self._url = settings.base_url or DEFAULT_URL
        self._connection = ServerConnection(self.name, self._url, settings)
        self._loaded_by_us = False

    @property
    def name(self) -> str:
        """Provider and model."""
        return f"ollama/{self._settings.model}"

    def check(self, deadline_s: float) -> None:
        """Return if the server answers and has the model. Never pulls one. Raises LlmUnavailable."""
        listed = self._ask(lambda client: client.list(), deadline_s)
        model = self._settings.model
        if not self._names_of_model & {entry.model for entry in listed.models}:
            raise LlmUnavailable(f"Ollama at {self._url} has no model {model}.", f"Get it with `ollama pull {model}`.")

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> Answer:
        """Answer with one JSON object; see LanguageModel."""
        if not self._loaded_by_us:
            self._loaded_by_us = not self._is_loaded(deadline_s)
        text, last = self._ask(lambda client: self._chat(client, prompt, schema), deadline_s)
        if last is None or not last.done:
            raise LlmUnavailable(f"Ollama at {self._url} went away in the middle of its answer.")
        if last.done_reason == "length":
            raise LlmEndless(f"{self.name} stopped in the middle of its answer.", "Raise llm.answer_tokens.")
        return Answer(
            checked(self.name, text, schema), max(0, last.prompt_eval_count or 0), max(0, last.eval_count or 0)
        )

    def abort(self) -> None:
        """Close the connection of the current call."""
        self._connection.abort()

    def release(self, deadline_s: float) -> None:
        """Let the server unload the model, unless it was loaded before our first call: then another program uses it."""
        if not self._loaded_by_us:
            return
        with contextlib.suppress(LlmError):
            self._ask(lambda client: client.chat(self._settings.model, messages=[], keep_alive=0), deadline_s)
            self._loaded_by_us = False

    async def _chat(
        self, client: ollama.AsyncClient, prompt: str, schema: Mapping[str, Any]
    ) -> tuple[str, ollama.ChatResponse | None]:
        """Stream the answer, so that its size is known early, and the server notices a closed connection at once."""
        pieces: list[str] = []
        part: ollama.ChatResponse | None = None
        async for part in await client.chat(
            model=self._settings.model,
            messages=[{"role": "user", "content": prompt}],
            stream=True,
            format=dict(schema),
            options={
                # The same answer for the same prompt, as far as the server allows.
                "temperature": 0,
                "seed": 0,
                "num_ctx": self._settings.context_tokens,
                "num_predict": self._settings.answer_tokens,
            },
            keep_alive=self._settings.keep_alive_s,
        ):
            pieces.append(part.message.content or "")
        return "".join(pieces), part

    def _is_loaded(self, deadline_s: float) -> bool:
        running = self._ask(lambda client: client.ps(), deadline_s)
        return bool(self._names_of_model & {entry.model for entry in running.models})

    @property
    def _names_of_model(self) -> set[str | None]:
        return {self._settings.model, f"{self._settings.model}:latest"}

    def _ask(self, question: Callable[[ollama.AsyncClient], Awaitable[Result]], deadline_s: float) -> Result:
        """Ask once. Raises LlmUnavailable, LlmRefused or LlmAborted."""

        async def asked(options: Mapping[str, Any]) -> Result:
            client = ollama.AsyncClient(host=self._url, **options)
            try:
                return await question(client)
            finally:
                await client.close()  # type: ignore[no-untyped-call]

        try:
            return self._connection.call(asked, deadline_s)
        except LlmUnavailable as error:
            hint = error.hint.replace("Start it,", "Start it with `ollama serve`,")
            raise LlmUnavailable(str(error).replace("a model server", "Ollama"), hint) from None
        except LlmError:
            raise
        except ollama.ResponseError as error:
            hint = f"Get it with `ollama pull {self._settings.model}`." if error.status_code == 404 else ""
            raise LlmUnavailable(f"Ollama at {self._url} answers with status {error.status_code}.", hint) from None
        except Exception:  # its client does not check answers: any wrong JSON ends in any error
            raise LlmUnavailable(f"What answers at {self._url} is no Ollama.", "Set llm.base_url.") from None

"""Ollama on this machine: asked through its own client, held to a schema and a deadline."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import ollama
from pydantic import ValidationError

from .model import LlmRefused, LlmUnavailable
from .settings import LlmSettings

DEFAULT_URL = "http://127.0.0.1:11434"
Result = TypeVar("Result")


class OllamaModel:
    """A model that an Ollama server already has. Not for use inside a running event loop: each call runs its own."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._url = settings.base_url or DEFAULT_URL
        if not settings.model:
            raise LlmUnavailable("No model is named.", "Set llm.model, for instance to one that `ollama list` shows.")
        if not settings.allow_remote and not is_loopback(self._url):
            raise LlmUnavailable(
                f"{self._url} is not on this machine.",
                "Set llm.allow_remote = true if your memories may be sent there.",
            )

    @property
    def name(self) -> str:
        """Provider and model."""
        return f"ollama/{self._settings.model}"

    def check(self, deadline_s: float) -> None:
        """Return if the server answers and has the model. Never pulls one. Raises LlmUnavailable."""
        listed = self._ask(lambda client: client.list(), deadline_s)
        names = {entry.model for entry in listed.models if entry.model}
        wanted = self._settings.model
        if not names & {wanted, f"{wanted}:latest"}:
            raise LlmUnavailable(
                f"Ollama at {self._url} has no model {wanted}.", f"Get it with `ollama pull {wanted}`."
            )

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        """Answer with one JSON object; see LanguageModel."""
        answer = self._ask(
            lambda client: client.chat(
                model=self._settings.model,
                messages=[{"role": "user", "content": prompt}],
                format=dict(schema),
                options={"temperature": 0, "seed": 0, "num_ctx": self._settings.context_tokens},
            ),
            deadline_s,
        )
        if answer.done_reason == "length":
            raise LlmRefused(f"{self.name} stopped in the middle of its answer.", "Raise llm.context_tokens.")
        return _checked(self.name, answer.message.content or "", schema)

    def _ask(self, question: Callable[[ollama.AsyncClient], Awaitable[Result]], deadline_s: float) -> Result:
        """Ask once. The whole call is cancelled at the deadline, which also stops Ollama generating."""

        async def asked() -> Result:
            # No proxies from the environment and no redirects: what is for this machine stays on it. A client without
            # TLS needs no certificates, whose loading costs 20 ms.
            client = ollama.AsyncClient(
                host=self._url,
                timeout=deadline_s,
                follow_redirects=False,
                trust_env=False,
                verify=self._url.startswith("https:"),
            )
            try:
                async with asyncio.timeout(deadline_s):
                    return await question(client)
            finally:
                await client.close()  # type: ignore[no-untyped-call]

        try:
            return asyncio.run(asked())
        except (TimeoutError, httpx.TimeoutException):
            raise LlmUnavailable(
                f"{self.name} did not answer within {deadline_s:g} s.", "Raise llm.deadline_s, or use a smaller model."
            ) from None
        except ollama.ResponseError as error:
            hint = f"Get it with `ollama pull {self._settings.model}`." if error.status_code == 404 else ""
            raise LlmUnavailable(f"Ollama at {self._url} answers with status {error.status_code}.", hint) from None
        except (ConnectionError, httpx.HTTPError):
            raise LlmUnavailable(f"No Ollama answers at {self._url}.", "Start it with `ollama serve`.") from None
        except (ValidationError, ValueError):
            raise LlmUnavailable(f"What answers at {self._url} is no Ollama.", "Set llm.base_url.") from None


def is_loopback(url: str) -> bool:
    """Whether an address can only mean this machine. Names other than localhost are not trusted to."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(name: str, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The object in a model's answer. `format` is enforced by the server, which may be old, or lie."""
    try:
        answer = json.loads(text)
    except ValueError:
        raise LlmRefused(f"{name} did not answer with JSON.") from None
    if not isinstance(answer, dict):
        raise LlmRefused(f"{name} answered with something else than an object.")
    if missing := [key for key in schema.get("required", ()) if key not in answer]:
        raise LlmRefused(f"{name} left out {', '.join(missing)}.")
    return answer

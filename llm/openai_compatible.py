"""Servers with OpenAI's chat completions: LM Studio, llama.cpp, vLLM."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from .http import ServerConnection
from .language_model import Answer, LlmEndless, LlmError, LlmUnavailable, checked
from .settings import LlmSettings

DEFAULT_URL = "http://127.0.0.1:1234/v1"
# Statuses of servers that do not know a `response_format`; some fail on it.
_UNKNOWN_FORMAT = frozenset([400, 404, 415, 422, 500, 501])


class _Status(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class OpenAICompatibleModel:
    """A model of such a server. Not for use inside a running event loop."""

    def __init__(self, settings: LlmSettings) -> None:
        if not settings.model:
            raise LlmUnavailable("No model is named.", "Set llm.model to one that the server lists.")
        self._settings = settings
        self._url = (settings.base_url or DEFAULT_URL).rstrip("/")
        self._connection = ServerConnection(self.name, self._url, settings)
        self._formats = ["json_schema", "json_object", ""]

    @property
    def name(self) -> str:
        """Provider and model."""
        return f"openai_compatible/{self._settings.model}"

    def check(self, deadline_s: float) -> None:
        """Return if the server answers and has the model. Raises LlmUnavailable."""

        async def asked(options: Mapping[str, Any]) -> Any:
            async with httpx.AsyncClient(**options) as client:
                response = await client.get(f"{self._url}/models", headers=self._headers())
                if not response.is_success:
                    raise _Status(response.status_code)
                return response.json()

        listed = self._call(asked, deadline_s)
        entries = listed.get("data") if isinstance(listed, dict) else None
        names = [entry.get("id") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        if self._settings.model not in names:
            raise LlmUnavailable(f"The server at {self._url} has no model {self._settings.model}.", "Load it there.")

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> Answer:
        """Answer with one JSON object; see LanguageModel. A refused `response_format` is not tried again."""
        while True:
            try:
                return self._complete(prompt, schema, self._formats[0], deadline_s)
            except _Status as error:
                if error.status not in _UNKNOWN_FORMAT or len(self._formats) == 1:
                    raise self._as_llm_error(error) from None
                del self._formats[0]

    def abort(self) -> None:
        """Close the connection of the current call."""
        self._connection.abort()

    def release(self, deadline_s: float) -> None:
        """Do nothing: this protocol has no request for it; the servers unload models by themselves."""

    def _complete(self, prompt: str, schema: Mapping[str, Any], form: str, deadline_s: float) -> Answer:
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "seed": 0,
            "max_tokens": self._settings.answer_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if form == "json_schema":
            named = {"name": "answer", "strict": True, "schema": dict(schema)}
            body["response_format"] = {"type": form, "json_schema": named}
        elif form:
            body["response_format"] = {"type": form}

        async def asked(options: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
            async with (
                httpx.AsyncClient(**options) as client,
                client.stream("POST", f"{self._url}/chat/completions", json=body, headers=self._headers()) as response,
            ):
                if not response.is_success:
                    raise _Status(response.status_code)
                return await _gathered(response)

        text, ending, usage = self._call(asked, deadline_s, keep_status=True)
        if ending == "length":
            raise LlmEndless(f"{self.name} stopped in the middle of its answer.", "Raise llm.answer_tokens.")
        if not ending:
            raise LlmUnavailable(f"The server at {self._url} went away in the middle of its answer.")
        return Answer(
            checked(self.name, text, schema), _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        )

    def _headers(self) -> dict[str, str]:
        key = self._settings.api_key.get_secret_value()
        if self._settings.api_key_file is not None:
            try:
                key = self._settings.api_key_file.read_text(encoding="utf-8").strip()
            except (OSError, ValueError):
                raise LlmUnavailable("The file of the API key cannot be read.", "See llm.api_key_file.") from None
        # It becomes a header: a line break in it would add others.
        if not key.isascii() or not key.isprintable():
            raise LlmUnavailable("The API key holds what no key holds.", "See llm.api_key_file.")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _call(self, question: Any, deadline_s: float, keep_status: bool = False) -> Any:
        try:
            return self._connection.call(question, deadline_s)
        except LlmError:
            raise
        except _Status as error:
            if keep_status:
                raise
            raise self._as_llm_error(error) from None
        except Exception:  # a wrong answer may end in any error
            raise LlmUnavailable(
                f"What answers at {self._url} does not speak as OpenAI's servers do.", "Set llm.base_url."
            ) from None

    def _as_llm_error(self, error: _Status) -> LlmUnavailable:
        hint = "See llm.api_key_file." if error.status in {401, 403} else ""
        return LlmUnavailable(f"The server at {self._url} answers with status {error.status}.", hint)


async def _gathered(response: httpx.Response) -> tuple[str, str, Mapping[str, Any]]:
    """Return the answer's text, its finish reason, and its usage."""
    pieces: list[str] = []
    ending = ""
    usage: Mapping[str, Any] = {}
    async for event in _events(response):
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            pieces.append((choice.get("delta") or choice.get("message") or {}).get("content") or "")
            ending = choice.get("finish_reason") or ending
    return "".join(pieces), ending, usage


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the objects of a stream of server-sent events, or the one object of a server that does not stream."""
    if "event-stream" not in response.headers.get("Content-Type", ""):
        yield json.loads(await response.aread())
        return
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        if line.startswith("data:") and data:
            yield json.loads(data)


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key) if isinstance(usage, Mapping) else 0
    return max(0, value) if isinstance(value, int) else 0

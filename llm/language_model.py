"""The interface of a language model to a dream: JSON that fits a schema, by a deadline.

A server may enforce the schema, be too old to, or lie: what it says is checked here all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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

        `schema` is JSON Schema of an object, of the kinds that `misfit` knows. Raises LlmUnavailable, LlmRefused
        or LlmAborted, and nothing else.
        """
        ...

    def abort(self) -> None:
        """Shut the connection of the call that is under way, if one is, so that the server stops; from any thread."""
        ...

    def release(self, deadline_s: float) -> None:
        """Have the server free the model's memory, where its protocol can ask that. Raises nothing."""
        ...


_FENCE = re.compile(r"^\s*```\w*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def checked(name: str, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse an answer of `name` and return its object. Raises LlmRefused if it is none, or does not fit."""
    fenced = _FENCE.match(text)
    try:
        answer = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        raise LlmRefused(f"{name} did not answer with JSON.") from None
    if not isinstance(answer, dict):
        raise LlmRefused(f"{name} answered with something else than an object.")
    if missing := [key for key in schema.get("required", ()) if key not in answer]:
        raise LlmRefused(f"{name} left out {', '.join(missing)}.")
    if wrong := misfit(answer, schema):
        raise LlmRefused(f"{name} answered with a wrong {wrong}.")
    return answer


def misfit(value: Any, schema: Mapping[str, Any], place: str = "answer") -> str:
    """Return where a value does not fit a schema, as `facts[3].turn`; "" if it fits.

    Knows type, enum, properties, required, additionalProperties false, items, maxItems, maxLength, minimum, maximum.
    """
    if "enum" in schema:
        return "" if value in schema["enum"] else place
    kind = schema.get("type", "")
    if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return place
    if isinstance(value, dict):
        return _misfit_of_object(value, schema, place)
    if isinstance(value, list):
        return _misfit_of_array(value, schema, place)
    if isinstance(value, str):
        return place if len(value) > schema.get("maxLength", len(value)) else ""
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return place
    return ""


def _misfit_of_object(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> str:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            return f"{place}.{key}"
    for key, inner in value.items():
        if key not in properties:
            if schema.get("additionalProperties") is False:
                return place
        elif wrong := misfit(inner, properties[key], f"{place}.{key}"):
            return wrong
    return ""


def _misfit_of_array(value: Sequence[Any], schema: Mapping[str, Any], place: str) -> str:
    if len(value) > schema.get("maxItems", len(value)):
        return place
    places = (misfit(inner, schema.get("items", {}), f"{place}[{at}]") for at, inner in enumerate(value))
    return next((wrong for wrong in places if wrong), "")

"""The interface of a language model to a dream: JSON that fits a schema, by a deadline.

A server may enforce the schema, be too old for it, or not keep to it: its answer is checked here in any case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class LlmError(Exception):
    """The base of this room's errors. `hint` is a sentence that says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class LlmUnavailable(LlmError):
    """No server, no such model, a missed deadline, or no allowance left: the stage works without the model."""


class LlmRefused(LlmError):
    """An answer that does not fit the schema; the caller may ask again."""


class LlmEndless(LlmRefused):
    """An answer that exceeds the bounds; asking again would not help."""


class LlmAborted(LlmError):
    """A call that was ended from another thread, by `abort`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked object, and its tokens; 0 if the server does not report them."""

    content: dict[str, Any]
    prompt_tokens: int = 0
    answer_tokens: int = 0


class LanguageModel(Protocol):
    """A model that completes a prompt. Its answer is a claim, never a fact: see pipelines' grounding."""

    @property
    def name(self) -> str:
        """Provider and model, as `ollama/qwen3:4b`, recorded with its proposals."""
        ...

    def check(self, deadline_s: float) -> None:
        """Return if the server answers and has the model. Never pulls one. Raises LlmUnavailable."""
        ...

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> Answer:
        """Answer with one JSON object that fits the schema.

        `schema` is JSON Schema of an object, with the keywords that `misfit` knows. Raises LlmUnavailable, LlmRefused
        or LlmAborted, and nothing else.
        """
        ...

    def abort(self) -> None:
        """Close the connection of the current call, if there is one, so that the server stops. From any thread."""
        ...

    def release(self, deadline_s: float) -> None:
        """Let the server free the model's memory, if its protocol allows that. Raises nothing."""
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
    """Parse the answer of a model and return its object. Raises LlmRefused if it is no object, or does not fit."""
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
    """Return the place at which a value does not fit a schema, as `facts[3].turn`; "" if it fits.

    Known keywords: type, enum, properties, required, additionalProperties false, items, maxItems, maxLength, minimum,
    maximum.
    """
    if "enum" in schema:
        return "" if value in schema["enum"] else place
    kind = schema.get("type", "")
    # In Python a bool is an int, in JSON it is not.
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

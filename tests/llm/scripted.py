"""A model that says what a test wants it to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dreamd.llm.language_model import Answer, LlmError


class ScriptedModel:
    """A `LanguageModel` whose answers are made by a function of the prompt; an error is raised."""

    def __init__(self, say: Callable[[str], dict[str, Any] | LlmError], tokens: int = 10) -> None:
        self.say = say
        self.tokens = tokens
        self.prompts: list[str] = []
        self.released = 0
        self.aborted = 0

    @property
    def name(self) -> str:
        return "scripted/model"

    def check(self, deadline_s: float) -> None:
        pass

    def complete_json(self, prompt: str, schema: Mapping[str, Any], deadline_s: float) -> Answer:
        self.prompts.append(prompt)
        said = self.say(prompt)
        if isinstance(said, LlmError):
            raise said
        return Answer(said, self.tokens, self.tokens)

    def abort(self) -> None:
        self.aborted += 1

    def release(self, deadline_s: float) -> None:
        self.released += 1

"""What a scripted server says reaches who asks it as a language model."""

from __future__ import annotations

from dreamd.llm.ollama import OllamaModel
from dreamd.llm.settings import LlmSettings

from .model_server import ScriptedModel

SCHEMA = {"type": "object", "properties": {"heard": {"type": "string"}}, "required": ["heard"]}


def test_a_prompt_is_answered_as_scripted() -> None:
    with ScriptedModel(lambda prompt, schema: {next(iter(schema["properties"])): prompt[:5]}) as server:
        model = OllamaModel(LlmSettings(provider="ollama", model=server.model, base_url=server.url))
        model.check(10)
        assert model.complete_json("hello, model", SCHEMA, 10).content == {"heard": "hello"}
        assert server.calls == 1

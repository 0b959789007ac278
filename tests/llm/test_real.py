"""Both clients against real small models behind a server that speaks as Ollama and as OpenAI's do."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.llm.budget import asker_for, model_for
from dreamd.llm.language_model import LanguageModel, LlmAborted, LlmError, LlmUnavailable
from dreamd.llm.settings import LlmSettings

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-llm" / "bin" / "python"
SCHEMA = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "green", "blue"]}, "why": {"type": "string", "maxLength": 80}},
    "required": ["color", "why"],
}
ENDLESS = {"type": "object", "properties": {"story": {"type": "string", "minLength": 4000}}, "required": ["story"]}

pytestmark = [pytest.mark.llm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, Any]]:
    if not PYTHON.exists():
        pytest.skip("no real model here: make test-llm installs two")
    command = [str(PYTHON), str(Path(__file__).with_name("server.py")), "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, "the server did not start"
        yield json.loads(told)
        process.terminate()


def settings(server: dict[str, Any], provider: str = "ollama", model: str = "smollm2:135m", **more: Any) -> LlmSettings:
    url = server["url"] + ("/v1" if provider == "openai_compatible" else "")
    given = {"provider": provider, "model": model, "base_url": url, "deadline_s": 300, "context_tokens": 2048}
    return LlmSettings(**{**given, "answer_tokens": 128, **more})


def counts(server: dict[str, Any]) -> dict[str, int]:
    with urllib.request.urlopen(server["url"] + "/counts", timeout=60) as answer:
        counted: dict[str, int] = json.load(answer)
    return counted


@pytest.mark.parametrize("provider", ["ollama", "openai_compatible"])
@pytest.mark.parametrize("model", ["smollm2:135m", "gemma3:270m"])
def test_a_real_model_answers_in_the_schema(server: dict[str, Any], provider: str, model: str) -> None:
    if model not in server["models"]:
        pytest.skip(f"{model} is not installed")
    asker, why = asker_for(settings(server, provider, model))
    assert asker is not None, why
    answer = asker.ask("Which colour is the sky? Answer as JSON with a color and why, in a few words.", SCHEMA)
    assert answer["color"] in {"red", "green", "blue"}
    assert asker.spent.tokens > 20
    asker.release()


def test_an_absent_model_is_not_pulled(server: dict[str, Any]) -> None:
    model = model_for(settings(server, model="llama9"))
    assert model is not None
    with pytest.raises(LlmUnavailable, match="no model llama9"):
        model.check(30)


@pytest.mark.parametrize("provider", ["ollama", "openai_compatible"])
def test_an_aborted_call_stops_the_server_generating(server: dict[str, Any], provider: str) -> None:
    model = model_for(settings(server, provider, answer_tokens=1500))
    assert model is not None
    raised: list[LlmError] = []

    def call(model: LanguageModel) -> None:
        try:
            model.complete_json("Tell a very long story as JSON.", ENDLESS, 300)
        except LlmError as error:
            raised.append(error)

    before = counts(server)["aborted"]
    caller = threading.Thread(target=call, args=(model,))
    caller.start()
    while counts(server)["asked"] == counts(server)["answered"] + counts(server)["aborted"]:  # until it generates
        time.sleep(0.05)
    began_s = time.monotonic()
    model.abort()
    assert time.monotonic() - began_s < 0.25
    caller.join(30)
    assert [type(error) for error in raised] == [LlmAborted]
    while counts(server)["aborted"] == before:
        time.sleep(0.05)
    assert counts(server)["aborted"] == before + 1

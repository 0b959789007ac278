"""The OpenAI-compatible client against a server that knows one, or none, of the ways to ask for JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from dreamd.llm.budget import problem
from dreamd.llm.language_model import LlmUnavailable
from dreamd.llm.openai_compatible import OpenAICompatibleModel
from dreamd.llm.settings import REVEAL_SECRETS, LlmSettings

SCHEMA = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}


class FakeServer:
    """Knows the `response_format` types in `knows`; remembers what it was asked with which headers."""

    def __init__(self) -> None:
        self.knows = {"json_schema", "json_object", ""}
        self.streams = True
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                fake.keys.append(self.headers["Authorization"])
                self._send(200, json.dumps({"data": [{"id": "tiny"}]}).encode())

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append(request)
                fake.keys.append(self.headers["Authorization"])
                if request.get("response_format", {}).get("type", "") not in fake.knows:
                    self._send(400, b'{"error": "unknown response_format"}')
                    return
                said = '{"fact": "tea"}'
                usage = {"prompt_tokens": 9, "completion_tokens": 4}
                if fake.streams:
                    parts: list[dict[str, Any]] = [{"choices": [{"delta": {"content": letter}}]} for letter in said]
                    parts += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
                    lines = b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts)
                    self._send(200, b": hello\n\n" + lines + b"data: [DONE]\n\n", "text/event-stream")
                else:
                    whole = {"choices": [{"message": {"content": said}, "finish_reason": "stop"}], "usage": usage}
                    self._send(200, json.dumps(whole).encode())

            def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def settings(self, **changes: Any) -> LlmSettings:
        url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        return LlmSettings(**{"provider": "openai_compatible", "model": "tiny", "base_url": url} | changes)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("knows", "tried"),
    [
        ({"json_schema", "json_object", ""}, ["json_schema"]),
        ({"json_object", ""}, ["json_schema", "json_object"]),
        ({""}, ["json_schema", "json_object", ""]),
    ],
)
@pytest.mark.parametrize("streams", [True, False])
def test_the_best_response_format_of_the_server_is_used(
    fake: FakeServer, knows: set[str], tried: list[str], streams: bool
) -> None:
    fake.knows, fake.streams = knows, streams
    model = OpenAICompatibleModel(fake.settings())
    answer = model.complete_json("What?", SCHEMA, 5)
    assert answer.content == {"fact": "tea"}
    assert (answer.prompt_tokens, answer.answer_tokens) == (9, 4)
    assert [request.get("response_format", {}).get("type", "") for request in fake.asked] == tried
    model.complete_json("And?", SCHEMA, 5)
    assert len(fake.asked) == len(tried) + 1  # what was refused is not tried again


def test_a_server_that_refuses_every_format_is_unavailable(fake: FakeServer) -> None:
    fake.knows = set()
    with pytest.raises(LlmUnavailable, match="status 400"):
        OpenAICompatibleModel(fake.settings()).complete_json("?", SCHEMA, 5)
    assert len(fake.asked) == 3


def test_the_key_comes_from_a_file_or_the_settings(fake: FakeServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-a-file\n")
    OpenAICompatibleModel(fake.settings(api_key_file=file)).check(5)
    OpenAICompatibleModel(fake.settings(api_key="told")).check(5)
    OpenAICompatibleModel(fake.settings()).check(5)
    assert fake.keys == ["Bearer from-a-file", "Bearer told", None]


def test_the_key_is_revealed_to_the_dream_alone(fake: FakeServer, tmp_path: Path) -> None:
    settings = fake.settings(api_key="sesame")
    assert "sesame" not in f"{settings} {settings!r} {settings.model_dump()} {settings.model_dump_json()}"
    assert "sesame" in settings.model_dump_json(context={REVEAL_SECRETS: True})
    with pytest.raises(LlmUnavailable) as raised:
        OpenAICompatibleModel(fake.settings(api_key="ses\name")).check(5)
    assert "ses" not in f"{raised.value} {raised.value.hint}"
    assert "cannot be read" in problem(fake.settings(api_key_file=tmp_path / "absent"))


def test_check_finds_the_model_and_an_absent_server(fake: FakeServer) -> None:
    assert problem(fake.settings()) == ""
    assert "no model other" in problem(fake.settings(model="other"))
    assert "not on this machine" in problem(fake.settings(base_url="https://api.example.org/v1"))
    assert "Cannot reach a model server at" in problem(fake.settings(base_url="http://127.0.0.1:9/v1"))
    assert "No model is named" in problem(fake.settings(model=""))

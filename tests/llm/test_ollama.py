"""The Ollama client against a small server that plays well-behaved, absent, slow and lying."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from dreamd.llm.budget import model_for, problem
from dreamd.llm.http import is_loopback
from dreamd.llm.language_model import LlmRefused, LlmUnavailable
from dreamd.llm.ollama import OllamaModel
from dreamd.llm.settings import LlmSettings

SCHEMA = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}


class FakeOllama:
    """Answers `/api/tags` and `/api/chat`; `say` makes the chat's content, `hold` keeps it waiting."""

    def __init__(self) -> None:
        self.say: Callable[[dict[str, Any]], str] = lambda request: json.dumps({"fact": "tea"})
        self.done_reason = "stop"
        self.status = 200
        self.location = ""
        self.loaded = False
        self.hold = threading.Event()
        self.hold.set()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                there = [] if self.path == "/api/ps" and not fake.loaded else [{"model": "tiny:latest"}]
                self._answer({"models": [*there, {"model": "qwen3:4b"}]})

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append((self.path, request))
                fake.hold.wait(10)
                content = {"role": "assistant", "content": fake.say(request)}
                ending = {"done": True, "done_reason": fake.done_reason, "prompt_eval_count": 7, "eval_count": 3}
                self._answer({"model": request["model"], "message": content} | ending)

            def _answer(self, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                try:
                    self.send_response(fake.status)
                    if fake.location:
                        self.send_header("Location", fake.location)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except ConnectionError:
                    pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def settings(self, **changes: Any) -> LlmSettings:
        return LlmSettings(**{"provider": "ollama", "model": "tiny", "base_url": self.url} | changes)


@pytest.fixture
def fake() -> Iterator[FakeOllama]:
    server = FakeOllama()
    yield server
    server.close()


def test_asks_with_the_schema_and_returns_the_object(fake: FakeOllama) -> None:
    model = OllamaModel(fake.settings())
    assert model.complete_json("What is drunk?", SCHEMA, 5).content == {"fact": "tea"}
    path, request = fake.asked[0]
    assert path == "/api/chat"
    assert request["stream"] is True
    assert request["format"] == SCHEMA
    assert request["options"]["temperature"] == 0
    assert model.name == "ollama/tiny"


def test_counts_the_tokens(fake: FakeOllama) -> None:
    answer = OllamaModel(fake.settings()).complete_json("What is drunk?", SCHEMA, 5)
    assert (answer.prompt_tokens, answer.answer_tokens) == (7, 3)


def test_a_model_that_we_loaded_is_unloaded(fake: FakeOllama) -> None:
    model = OllamaModel(fake.settings())
    model.release(5)
    assert fake.asked == []
    model.complete_json("?", SCHEMA, 5)
    assert fake.asked[0][1]["keep_alive"] == 300
    model.release(5)
    assert fake.asked[1][1]["keep_alive"] == 0
    assert fake.asked[1][1]["messages"] == []


def test_a_model_that_was_loaded_before_stays_loaded(fake: FakeOllama) -> None:
    fake.loaded = True
    model = OllamaModel(fake.settings())
    model.complete_json("?", SCHEMA, 5)
    model.release(5)
    assert len(fake.asked) == 1


def test_releasing_raises_nothing(fake: FakeOllama) -> None:
    model = OllamaModel(fake.settings())
    model.complete_json("?", SCHEMA, 5)
    fake.close()
    model.release(1)


def test_finds_a_model_by_its_short_name_and_never_pulls(fake: FakeOllama) -> None:
    OllamaModel(fake.settings()).check(5)
    OllamaModel(fake.settings(model="qwen3:4b")).check(5)
    with pytest.raises(LlmUnavailable, match="no model llama9") as raised:
        OllamaModel(fake.settings(model="llama9")).check(5)
    assert "ollama pull llama9" in raised.value.hint
    assert fake.asked == []  # pulling would have been a POST


def test_an_absent_server_is_unavailable() -> None:
    fake = FakeOllama()
    fake.close()
    with pytest.raises(LlmUnavailable, match="Cannot reach Ollama at"):
        OllamaModel(fake.settings()).complete_json("?", SCHEMA, 5)
    assert "Cannot reach Ollama at" in problem(fake.settings())


def test_the_deadline_is_the_whole_calls(fake: FakeOllama) -> None:
    fake.hold.clear()
    with pytest.raises(LlmUnavailable, match=r"within 0\.2 s"):
        OllamaModel(fake.settings()).complete_json("?", SCHEMA, 0.2)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [("tea, probably", "JSON"), ('["tea"]', "object"), ('{"facts": 1}', "left out fact"), ("", "JSON")],
)
def test_an_answer_that_does_not_fit_is_refused(fake: FakeOllama, said: str, complaint: str) -> None:
    fake.say = lambda request: said
    with pytest.raises(LlmRefused, match=complaint):
        OllamaModel(fake.settings()).complete_json("?", SCHEMA, 5)


def test_a_truncated_answer_is_refused_even_if_it_parses(fake: FakeOllama) -> None:
    fake.done_reason = "length"
    with pytest.raises(LlmRefused, match="in the middle"):
        OllamaModel(fake.settings()).complete_json("?", SCHEMA, 5)


def test_a_redirect_is_not_followed(fake: FakeOllama) -> None:
    fake.status, fake.location = 307, "http://192.0.2.1/"
    with pytest.raises(LlmUnavailable):
        OllamaModel(fake.settings()).complete_json("?", SCHEMA, 5)


def test_proxies_of_the_environment_are_not_used(fake: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert OllamaModel(fake.settings()).complete_json("?", SCHEMA, 5).content == {"fact": "tea"}


def test_another_machine_needs_permission() -> None:
    settings = LlmSettings(provider="ollama", model="tiny", base_url="http://192.0.2.1:11434")
    with pytest.raises(LlmUnavailable, match="not on this machine"):
        OllamaModel(settings)
    assert "allow_remote" in problem(settings)
    assert OllamaModel(settings.model_copy(update={"allow_remote": True})).name


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://127.9.9.9", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1@example.org", False),
        ("", False),
    ],
)
def test_what_counts_as_this_machine(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def test_provider_none_has_no_model_and_no_problem() -> None:
    assert model_for(LlmSettings()) is None
    assert problem(LlmSettings()) == ""


def test_a_provider_without_a_model_says_so() -> None:
    assert "llm.model" in problem(LlmSettings(provider="ollama"))

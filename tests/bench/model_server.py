"""A model's server for the benches: Ollama's way of speaking, and what it says is a subclass's."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]


class ModelServer:
    """A context in which it listens, and `generate` answers each prompt."""

    model = "bench:latest"

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known: dict[str, Json] = {
                    "/api/tags": {"models": [{"model": outer.model, "name": outer.model}]},
                    "/api/ps": {"models": []},
                    "/api/version": {"version": "0.6.0"},
                }
                self._answer(json.dumps(known.get(self.path, {})).encode())

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/api/chat" and asked.get("messages"):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/x-ndjson")
                    self.end_headers()
                    outer.generate(self, asked)
                else:
                    said = {"model": outer.model, "message": {"role": "assistant"}, "done": True}
                    self._answer(json.dumps(said).encode())

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environ(self) -> dict[str, str]:
        """Have a daemon ask it, however often it was left."""
        return {
            "DREAMD_LLM__PROVIDER": "ollama",
            "DREAMD_LLM__MODEL": self.model,
            "DREAMD_LLM__BASE_URL": self.url,
            "DREAMD_LLM__FAILURES_IN_A_ROW": "1000000",
            "DREAMD_LLM__CALLS_PER_DAY": "1000000",
            "DREAMD_LLM__TOKENS_PER_DAY": "1000000000",
        }

    def generate(self, handler: BaseHTTPRequestHandler, asked: Json) -> None:
        """Write the parts of an answer to a chat request."""
        raise NotImplementedError

    def part(self, content: str, *, done: bool) -> bytes:
        """Make one line of an answer."""
        said: Json = {"model": self.model, "message": {"role": "assistant", "content": content}, "done": done}
        return json.dumps(said | ({"done_reason": "stop"} if done else {})).encode() + b"\n"


class ScriptedModel(ModelServer):
    """Answers every prompt with the JSON that a function makes of it and of the schema that is asked for."""

    def __init__(self, say: Callable[[str, Json], Json]) -> None:
        super().__init__()
        self.calls = 0
        self._say = say

    def generate(self, handler: BaseHTTPRequestHandler, asked: Json) -> None:
        """Answer at once."""
        self.calls += 1
        said = self._say(asked["messages"][-1]["content"], asked["format"])
        handler.wfile.write(self.part(json.dumps(said), done=True))

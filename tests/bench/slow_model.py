"""A model's server that is slow and knows when it was left: Ollama's way of speaking, and nothing to say."""

from __future__ import annotations

import json
import select
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MODEL = "slow:latest"
TOKEN_EVERY_S = 0.05


class SlowModel:
    """A context in which it listens. `generating` counts the answers under way; `left_at` is when one was last left."""

    def __init__(self, answer_s: float = 30.0) -> None:
        self.answer_s = answer_s
        self.generating = 0
        self.calls = 0
        self.left_at = 0.0
        self._guard = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known: dict[str, Any] = {
                    "/api/tags": {"models": [{"model": MODEL, "name": MODEL}]},
                    "/api/ps": {"models": []},
                    "/api/version": {"version": "0.6.0"},
                }
                self._answer(json.dumps(known.get(self.path, {})).encode())

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/api/chat" and asked.get("messages"):
                    outer._generate(self)
                else:
                    self._answer(json.dumps({"model": MODEL, "message": {"role": "assistant"}, "done": True}).encode())

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
            "DREAMD_LLM__MODEL": MODEL,
            "DREAMD_LLM__BASE_URL": self.url,
            "DREAMD_LLM__FAILURES_IN_A_ROW": "1000000",
            "DREAMD_LLM__CALLS_A_NIGHT": "1000000",
            "DREAMD_LLM__TOKENS_A_NIGHT": "1000000000",
        }

    def _generate(self, handler: BaseHTTPRequestHandler) -> None:
        """Say a blank now and then until nobody listens, or the answer is long enough; it is no JSON."""
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-ndjson")
        handler.end_headers()
        with self._guard:
            self.generating += 1
            self.calls += 1
        ends = time.monotonic() + self.answer_s
        try:
            while time.monotonic() < ends:
                handler.wfile.write(_part(done=False))
                handler.wfile.flush()
                if select.select([handler.connection], [], [], TOKEN_EVERY_S)[0]:
                    raise ConnectionResetError  # it says nothing more: it has left
            handler.wfile.write(_part(done=True))
        except OSError:
            self.left_at = time.monotonic()
        finally:
            with self._guard:
                self.generating -= 1


def _part(*, done: bool) -> bytes:
    part = {"model": MODEL, "message": {"role": "assistant", "content": " "}, "done": done}
    return json.dumps(part | ({"done_reason": "stop"} if done else {})).encode() + b"\n"

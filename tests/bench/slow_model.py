"""A model's server that is slow and knows when it was left, and has nothing to say."""

from __future__ import annotations

import select
import threading
import time
from http.server import BaseHTTPRequestHandler

from .model_server import Json, ModelServer

TOKEN_EVERY_S = 0.05


class SlowModel(ModelServer):
    """`generating` counts the answers under way; `left_at` is when one was last left."""

    def __init__(self, answer_s: float = 30.0) -> None:
        super().__init__()
        self.answer_s = answer_s
        self.generating = 0
        self.calls = 0
        self.left_at = 0.0
        self._guard = threading.Lock()

    def generate(self, handler: BaseHTTPRequestHandler, asked: Json) -> None:
        """Say a blank now and then until nobody listens, or the answer is long enough; it is no JSON."""
        with self._guard:
            self.generating += 1
            self.calls += 1
        ends = time.monotonic() + self.answer_s
        try:
            while time.monotonic() < ends:
                handler.wfile.write(self.part(" ", done=False))
                handler.wfile.flush()
                if select.select([handler.connection], [], [], TOKEN_EVERY_S)[0]:
                    raise ConnectionResetError  # it says nothing more: it has left
            handler.wfile.write(self.part(" ", done=True))
        except OSError:
            self.left_at = time.monotonic()
        finally:
            with self._guard:
                self.generating -= 1

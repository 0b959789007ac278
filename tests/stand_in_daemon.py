"""A server that answers each method with what it was given, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dreamd.ipc.call import Call
from dreamd.ipc.server.listener import open_listener
from dreamd.ipc.server.server import Server
from pydantic import BaseModel, ConfigDict

from tests.answer_types import ANSWERS, faults
from tests.ipc.methods import method, named


class Anything(BaseModel):
    """Parameters as they come."""

    model_config = ConfigDict(extra="allow")


class StandIn:
    """Answers with what `answers` holds for a method: a value, an exception to raise, or a function of the call.

    What no daemon would answer is no answer here either.
    """

    def __init__(self, path: Path, answers: Mapping[str, Any]) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers = dict(answers)
        handlers = {name: method(Anything, self._answerer(name), long=True) for name in self.answers}
        self.loop = asyncio.new_event_loop()
        self.server = Server(named(handlers))
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(open_listener(path)), self.loop).result(10)

    def _answerer(self, name: str) -> Callable[[Anything, Call], Any]:
        def answer(params: Anything, call: Call) -> Any:
            if name != "hello":
                self.asked.append((name, params.model_dump()))
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            answer = answer(call) if callable(answer) else answer
            assert (wrong := list(faults(answer, ANSWERS[name], name))) == [], wrong
            return answer

        return answer

    def close(self) -> None:
        """Stop answering."""
        asyncio.run_coroutine_threadsafe(self.server.stop(0.1), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

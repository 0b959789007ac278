"""Methods for a server under test: of a function, or of a store."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dreamd.ipc.call import Call, Method
from dreamd.ipc.methods import STORE_METHODS
from dreamd.ipc.protocol import encode_answer
from dreamd.store.memory import MemoryStore
from pydantic import BaseModel

AnyMethod = Method[Any, Any]


def as_answered(answer: Any) -> Any:
    """Return an answer as a client receives it."""
    return json.loads(encode_answer(0, answer))["result"]


def method(
    params: type[BaseModel], answer: Callable[[Any, Call], Any], blocking: bool = False, **flags: Any
) -> AnyMethod:
    """Return a method without a home, which a server under test names by its table."""
    if inspect.iscoroutinefunction(answer):

        async def run(home: None, params: Any, call: Call) -> Any:
            return await answer(params, call)

    else:

        def run(home: None, params: Any, call: Call) -> Any:  # type: ignore[misc]
            return answer(params, call)

    return Method("", params, object, run, blocking, **flags)


def named(methods: dict[str, AnyMethod]) -> list[AnyMethod]:
    """Return the rows of a table."""
    return [replace(method, name=name) for name, method in methods.items()]


def store_methods(store: MemoryStore) -> dict[str, AnyMethod]:
    """Return the store's methods by name."""
    return {method.name: method.of(store) for method in STORE_METHODS}

"""The wire's methods for agent programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ...ipc.answers import HookAnswer
from ...ipc.call import Call
from ...ipc.params import Folder
from ...ipc.store_methods import Handler, Params
from ..agents.hooks import Hooks

Word = Annotated[str, Field(max_length=64)]


class HookParams(Params):
    """An agent's event, and what the agent says of it; unknown ones are answered with nothing."""

    agent: Word
    event: Word
    given: Annotated[Mapping[str, Any], Field(max_length=256)]
    cwd: Folder | None = None


class AgentMethods:
    """The methods as they are called, in the server's threads."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {"hook": Handler(HookParams, self.hook, blocking=True, activity=True, first=True)}

    def hook(self, params: HookParams, call: Call) -> HookAnswer:
        """Answer an agent's hook."""
        return {"output": self._hooks.answer(params.agent, params.event, params.given, params.cwd)}

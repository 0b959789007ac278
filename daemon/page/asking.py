"""A request of the page, and its way to the methods of the daemon."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ipc.mcp.mcp_session import WireClient
from ...ipc.protocol import METHOD_NOT_FOUND, NOT_FOUND, Json, ProtocolError

MOST_KNOWN = 256
"""Answers that are kept for `lately`."""


@dataclass(frozen=True)
class PageRequest:
    """A request of the page: its words, and the way to the daemon's methods."""

    wire: WireClient
    known: dict[str, tuple[float, Json]]
    words: Mapping[str, str]
    lists: Mapping[str, list[str]] = field(default_factory=dict)

    async def call(self, method: str, **params: Any) -> Json:
        """Return a method's result, without the parameters that are None. Raises ProtocolError."""
        return await self.wire.call(method, {name: value for name, value in params.items() if value is not None})

    async def call_if_any(self, method: str, **params: Any) -> Json | None:
        """Return a method's result; None where it found nothing, or is none of this daemon's."""
        try:
            return await self.call(method, **params)
        except ProtocolError as error:
            if error.code in (NOT_FOUND, METHOD_NOT_FOUND):
                return None
            raise

    async def lately(self, within_s: float, method: str, **params: Any) -> Json:
        """Return a method's result that is at most so old: for what hardly changes between two looks."""
        key = json.dumps([method, params], sort_keys=True)
        at_s, result = self.known.get(key, (float("-inf"), {}))
        if time.monotonic() - at_s > within_s:
            result = await self.call(method, **params)
            while len(self.known) >= MOST_KNOWN:
                self.known.pop(next(iter(self.known)))
            self.known[key] = (time.monotonic(), result)
        return result

    def word(self, name: str, default: str = "") -> str:
        """Return a word of the address or the form."""
        return self.words.get(name, default)

    def whole(self, name: str, least: int = 0, most: int = 2**31) -> int:
        """Return a whole number of the address, brought within its bounds."""
        given = self.word(name)
        return min(max(int(given), least), most) if re.fullmatch(r"\d{1,10}", given) else least


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """Return the results of calls that are made at once, in their order."""
    return list(await asyncio.gather(*calls))

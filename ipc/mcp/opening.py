"""The opening of a session, answered without the daemon: from a file that the table of tools was written to.

The relay reads this, so it imports the standard library alone. `python -m dreamd.ipc.mcp.tools` writes the file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ... import __version__
from ..protocol import METHOD_NOT_FOUND

FILE = os.path.join(os.path.dirname(__file__), "opening.json")  # noqa: PTH118, PTH120  (pathlib is a tenth of its time)

MODERN = "2026-07-28"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The SDK's own: the first two differ from the others in nothing that is served here."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
UNSUPPORTED_VERSION = -32022
FRESH_MS = 300_000
"""Lists change with the version of the daemon alone."""

SERVER = {"name": "dreamd", "version": __version__}
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}

Message = dict[str, Any]


def is_modern(message: Message) -> bool:
    """Say whether a request carries the envelope of the new era."""
    return VERSION_KEY in _meta(message)


def complete(result: Message) -> Message:
    """Return a result as the new era wants it."""
    return {**result, "resultType": "complete", "_meta": {SERVER_KEY: SERVER, **result.get("_meta", {})}}


class Opening:
    """The answers to `initialize`, `server/discover`, `ping` and the lists."""

    def __init__(self, path: str = FILE) -> None:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            self._said: Message = json.load(file)

    def answer(self, message: Message) -> Message | None:
        """Return the answer to a request as a message; None for what only the daemon can answer."""
        method, modern = message["method"], is_modern(message)
        if modern and (version := _meta(message)[VERSION_KEY]) != MODERN:
            data = {"supported": [MODERN], "requested": version}
            return _failed(message, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        if method == "initialize" and not modern:
            return _answered(message, self._initialized(message.get("params") or {}))
        if method == "server/discover":
            return (
                _answered(message, self._discovered())
                if modern
                else _failed(message, METHOD_NOT_FOUND, "Method not found", method)
            )
        if method == "ping" and not modern:
            return _answered(message, {})
        if (key := LISTS.get(method)) is not None:
            listed = {key: self._said[key]}
            return _answered(message, complete({**listed, **_FRESH}) if modern else listed)
        return None

    def _initialized(self, params: Message) -> Message:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in HANDSHAKES else HANDSHAKES[-1],
            "capabilities": _capabilities(changes=False),
            "serverInfo": SERVER,
            "instructions": self._said["instructions"],
        }

    def _discovered(self) -> Message:
        found = {
            "supportedVersions": [MODERN],
            "capabilities": _capabilities(changes=True),
            "instructions": self._said["instructions"],
        }
        return complete({**found, **_FRESH})


_FRESH = {"ttlMs": FRESH_MS, "cacheScope": "private"}


def _capabilities(*, changes: bool) -> Message:
    return {"tools": {"listChanged": changes}, "resources": {"listChanged": changes, "subscribe": changes}}


def _answered(message: Message, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _failed(message: Message, code: int, sentence: str, data: Any) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": sentence, "data": data}}


def _meta(message: Message) -> Message:
    params = message.get("params")
    meta = params.get("_meta") if type(params) is dict else None
    return meta if type(meta) is dict else {}

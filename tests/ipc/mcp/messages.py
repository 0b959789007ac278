"""Messages of both eras of MCP, as agents send them."""

from __future__ import annotations

from typing import Any

MODERN = "2026-07-28"
HANDSHAKES = ("2025-06-18", "2025-11-25")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "an-agent", "version": "1"},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def asked(request_id: object, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def modern(request_id: object, method: str, **params: Any) -> dict[str, Any]:
    return asked(request_id, method, _meta=ENVELOPE, **params)


def attach(**params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "mcp.attach", "params": params}


def initialize(request_id: object, version: str) -> dict[str, Any]:
    info = {"name": "an-agent", "version": "1"}
    return asked(request_id, "initialize", protocolVersion=version, capabilities={}, clientInfo=info)


def called(request_id: object, tool: str, **arguments: Any) -> dict[str, Any]:
    return asked(request_id, "tools/call", name=tool, arguments=arguments)


def called_modern(request_id: object, tool: str, **arguments: Any) -> dict[str, Any]:
    return modern(request_id, "tools/call", name=tool, arguments=arguments)

"""MCP as the SDK serves it. Importing this costs a second of a processor and 40 MiB, so only a session imports it."""

from __future__ import annotations

import logging
import re
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from loguru import logger
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from ... import __version__
from ..protocol import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, ProtocolError
from . import render
from .exchange import FRESH_MS
from .mcp_session import McpSession
from .tools import INSTRUCTIONS, RESOURCES, TEMPLATES, TOOLS, arguments_of, read

NAME = "dreamd"
UNNAMED = "agent"
"""The name of an agent without one: its statements must not count as a person's."""
LONGEST_NAME = 64
_NO_NAME = re.compile(r"[^\w.-]")

Context = ServerRequestContext[McpSession, Any]


async def serve(session: McpSession) -> None:
    """Serve one session until its client is gone."""
    await serve_dual_era_loop(
        SERVER, Incoming(session), Outgoing(session), lifespan_state=session, session_id=session.known.get("session")
    )


class _Stream:
    """One direction of a session, as the SDK opens and closes it."""

    def __init__(self, session: McpSession) -> None:
        self._session = session

    async def aclose(self) -> None:
        """Leave the session as it is: it ends with its connection."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Incoming(_Stream):
    """A session's messages as the stream that the SDK reads."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        if (message := await self._session.next()) is None:
            raise StopAsyncIteration
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
        except ValidationError as error:
            # The SDK only logs an invalid message; without an answer the agent would wait for its deadline.
            if (request_id := message.get("id")) is not None:
                complaint = types.ErrorData(code=INVALID_REQUEST, message="this is no message of MCP")
                failed = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=complaint)
                self._session.answer(failed.model_dump_json(by_alias=True, exclude_unset=True).encode(), request_id)
            return error

    async def receive(self) -> SessionMessage | Exception:
        """Wait for the next message."""
        return await self.__anext__()


class Outgoing(_Stream):
    """The stream that the SDK writes: each message goes to the connection at once."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        message = item.message
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        answers = message.id if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) else None
        self._session.answer(line, answers)


class Log(logging.Handler):
    """The SDK's warnings in our log: place and kind, never their values, which may be a person's words."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the sentence without its values."""
        kind = record.exc_info[0] if record.exc_info else None
        logger.warning("mcp: {} {}", record.msg, kind.__name__ if kind else "")


async def _list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool.model_validate(tool.listed()) for tool in TOOLS.values()])


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    tool = TOOLS.get(params.name)
    if tool is None:
        return _text_result(f"There is no tool {params.name[:64]!r}; there are: {', '.join(TOOLS)}", is_error=True)
    session, given = context.lifespan_context, params.arguments or {}
    known = {
        **session.known,
        "agent_id": session.known.get("agent") or _agent(context) or UNNAMED,
        "session": _session(context),
        "idempotency_key": session.idempotency_key(context.request_id, given),
    }
    try:
        answer = await session.wire.call(tool.method, arguments_of(tool, given, known))
    except ValueError as error:
        return _text_result(str(error), is_error=True)
    except ProtocolError as error:
        return _text_result(render.sentence(error), is_error=True)
    return _text_result(tool.render(answer, given))


async def _list_resources(context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource.model_validate(entry) for entry in RESOURCES])


async def _list_templates(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    templates = [types.ResourceTemplate.model_validate(entry) for entry in TEMPLATES]
    return types.ListResourceTemplatesResult(resource_templates=templates)


async def _read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    session = context.lifespan_context
    try:
        text = await read(str(params.uri), session.wire, session.known)
    except ProtocolError as error:
        code = INVALID_PARAMS if error.code == NOT_FOUND else INTERNAL_ERROR
        raise MCPError(code, render.sentence(error), {"uri": str(params.uri)}) from None
    contents = types.TextResourceContents(uri=params.uri, mime_type="text/markdown", text=text)
    return types.ReadResourceResult(contents=[contents])


async def _listen(context: Context, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
    if not context.lifespan_context.may_listen():
        raise MCPError(INVALID_REQUEST, "this session listens too often already")
    return await LISTENING(context, params)


def _text_result(text: str, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


def _agent(context: Context) -> str | None:
    """Return the name that the agent's program gives itself, in the characters of a name."""
    parameters = context.session.client_params
    name = parameters.client_info.name if parameters and parameters.client_info else ""
    return _NO_NAME.sub("", name)[:LONGEST_NAME].lstrip(".") or None


def _session(context: Context) -> str | None:
    """Return the agent's session: that of this call (Codex sends one), else that of the connection or its relay."""
    turn = (context.meta or {}).get("x-codex-turn-metadata")
    named = turn.get("session_id") if isinstance(turn, dict) else None
    known = context.lifespan_context.known
    return (named if isinstance(named, str) else None) or known.get("session") or known.get("relay") or None


def _server() -> Server[Any]:
    hint = CacheHint(FRESH_MS)
    made: Server[Any] = Server(
        NAME,
        version=__version__,
        instructions=INSTRUCTIONS,
        cache_hints={
            "server/discover": hint,
            "tools/list": hint,
            "resources/list": hint,
            "resources/templates/list": hint,
        },
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
        on_subscriptions_listen=_listen,
    )
    made.middleware.clear()  # nothing of a person's memory is traced
    return made


LISTENING = ListenHandler(InMemorySubscriptionBus())
SERVER = _server()
logging.getLogger("mcp").addHandler(Log(logging.WARNING))
logging.getLogger("mcp").propagate = False

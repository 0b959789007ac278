"""The first line by which a connection becomes an MCP session."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...store.names import Name
from ..errors import invalid_params
from ..params import Folder
from ..protocol import Notification, Request, encode_answer
from ..serialize import hello_answer
from ..server.connection import Connection
from ..server.server import Server
from .session import McpSession

METHOD = "mcp.attach"


class AttachParams(BaseModel):
    """The parties to a session: the agent's folder and name, its own session, and the process that relays it.

    What a newer relay says beside these is passed over.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    cwd: Folder | None = None
    agent: Name | None = None
    session: Name | None = None
    relay: Annotated[str, Field(max_length=64)] = ""


def attach(server: Server, connection: Connection, message: Request | Notification) -> McpSession:
    """Begin an MCP session on a connection; an attach with an id is answered first. Raises ProtocolError."""
    try:
        params = AttachParams.model_validate(message.params)
    except ValidationError as error:
        raise invalid_params(error, AttachParams) from None
    if isinstance(message, Request):
        connection.send(encode_answer(message.id, hello_answer()))
    return McpSession(server, connection, params.model_dump(exclude_none=True))

"""The relay's own answers are the daemon's, in every era."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.mcp.exchange import FILE, Opening
from dreamd.ipc.mcp.mcp_session import ATTACH, attach
from dreamd.ipc.mcp.tools import description
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.ipc.conftest import Serve
from tests.ipc.mcp import messages
from tests.ipc.mcp.messages import INITIALIZED, asked, initialize, modern

LISTS = ("tools/list", "resources/list", "resources/templates/list")
UNKNOWN_VERSION = {**messages.ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}


def test_the_file_holds_the_table() -> None:
    written = json.loads(Path(FILE).read_text(encoding="utf-8"))
    assert written == description(), "write it again: python -m dreamd.ipc.mcp.tools"


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "2019-01-01"])
def test_the_old_eras_opening_is_the_daemons(serve: Serve, version: str) -> None:
    requests = [initialize(0, version), *(asked(number, method) for number, method in enumerate(LISTS, 1))]
    wire = serve({}, protocols={ATTACH: attach}).connect()
    wire.send(messages.attach(), requests[0], INITIALIZED)
    answers = [wire.receive()]
    for request in requests[1:]:
        wire.send(request)
        answers.append(wire.receive())
    opening = Opening()
    assert [opening.answer(request) for request in requests] == answers


@pytest.mark.parametrize("version", MODERN_PROTOCOL_VERSIONS)
def test_the_new_eras_opening_is_the_daemons(serve: Serve, version: str) -> None:
    assert version == messages.MODERN
    requests: list[dict[str, Any]] = [modern("probe-1", "server/discover"), *(modern(name, name) for name in LISTS)]
    requests.append(asked(9, "server/discover", _meta=UNKNOWN_VERSION))
    wire = serve({}, protocols={ATTACH: attach}).connect()
    wire.send(messages.attach())
    opening = Opening()
    for request in requests:
        wire.send(request)
        assert opening.answer(request) == wire.receive()


def test_a_probe_without_the_envelope_is_unknown_so_that_a_client_falls_back(serve: Serve) -> None:
    request = asked(1, "server/discover")
    wire = serve({}, protocols={ATTACH: attach}).connect()
    wire.send(messages.attach(), request)
    assert Opening().answer(request) == wire.receive()


def test_what_the_daemon_alone_knows_is_not_answered() -> None:
    for request in (messages.called(1, "recall"), modern(2, "resources/read", uri="dreamd://profile")):
        assert Opening().answer(request) is None

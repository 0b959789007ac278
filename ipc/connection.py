"""One client's connection: lines in, lines out, and the bounds on both."""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from typing import TYPE_CHECKING, cast

from loguru import logger

from .listener import peer_uid
from .protocol import (
    BUSY,
    REFUSED,
    LineBuffer,
    Malformed,
    Message,
    ProtocolError,
    RequestId,
    encode_error,
)

if TYPE_CHECKING:
    from .running import Running
    from .server import Server

HANGUP_INTERVAL_S = 0.25
# Answers are joined up to this size; more is written at once, so that a full socket is noticed before the next answer.
WRITE_BYTES = 2**18


class Connection(asyncio.Protocol):
    """Reads no faster than it answers, and drops a client that does not read what it asked for."""

    def __init__(self, server: Server) -> None:
        self.running: dict[object, Running] = {}
        self.held = False
        self._server = server
        self._buffer = LineBuffer()
        self._waiting: deque[Message] = deque()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._reading = True
        self._writing = True
        self._closing = False
        self._pumping = False
        self._stalled: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the user's own programs in, as many as there is room for."""
        self._transport = cast("asyncio.Transport", transport)
        settings = self._server.settings
        self._transport.set_write_buffer_limits(settings.stalled_output_bytes, settings.stalled_output_bytes // 4)
        self._server.connections.add(self)
        uid = peer_uid(self._transport.get_extra_info("socket"))
        if uid not in (os.geteuid(), 0):
            self._turn_away(ProtocolError("this memory belongs to another user", "", REFUSED))
        elif len(self._server.connections) > settings.max_connections:
            hint = "close some, or raise ipc.max_connections in the settings"
            self._turn_away(ProtocolError(f"{settings.max_connections} clients are connected already", hint, BUSY))

    def data_received(self, data: bytes) -> None:
        """Answer what these bytes complete."""
        if not self._closing:
            self._waiting.extend(self._buffer.feed(data))
            self.pump()

    def eof_received(self) -> bool:
        """A client that has asked everything may still wait for its answers; one that is gone does not."""
        self._closing = True
        self.pump()
        self._watch_for_hangup()
        return not self._transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody waits any more: take back what was asked."""
        self._closing = True
        self._waiting.clear()
        self._server.connections.discard(self)
        if self._stalled is not None:
            self._stalled.cancel()
        for running in list(self.running.values()):
            self._server.cancel(running)

    def pause_writing(self) -> None:
        """The client does not read: it has a while to begin."""
        self._writing = False
        self._stalled = self._server.loop.call_later(self._server.settings.stalled_s, self._drop)

    def resume_writing(self) -> None:
        """It reads again."""
        self._writing = True
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self.pump()

    def pump(self) -> None:
        """Begin what waits, as far as the bounds allow, and write what is answered."""
        if self._pumping:
            return
        self._pumping = True
        waiting, running, room = self._waiting, self.running, self._server.settings.max_in_flight
        try:
            while waiting and self._writing and not self.held and len(running) < room:
                message = waiting.popleft()
                if isinstance(message, Malformed):
                    self.fail(message.id, message.error, always=True)
                    if message.fatal:
                        waiting.clear()
                        self._closing = True
                else:
                    self._server.begin(self, message)
                if self._out_bytes >= WRITE_BYTES:
                    self._write()
        finally:
            self._pumping = False
        self._write()
        if self._closing:
            if not waiting and not running:
                self._transport.close()
        elif self._reading == bool(waiting or len(running) >= room or not self._writing):
            self._reading = not self._reading
            (self._transport.resume_reading if self._reading else self._transport.pause_reading)()

    def send(self, line: bytes) -> None:
        """Have a line written by the next `pump`: what is answered together is written together."""
        self._out.append(line)
        self._out_bytes += len(line)

    def fail(self, request_id: RequestId | None, error: ProtocolError, always: bool = False) -> None:
        """Answer with an error; a notification has no answer, unless it was too broken to tell."""
        if request_id is not None or always:
            self.send(encode_error(request_id, error))

    def close(self) -> None:
        """Write what is answered, then close."""
        self._closing = True
        self._write()
        self._transport.close()

    def abort(self) -> None:
        """Close now."""
        self._transport.abort()

    def _write(self) -> None:
        if self._out and not self._transport.is_closing():
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
            if self._transport.get_write_buffer_size() > self._server.settings.max_output_bytes:
                self._drop()
        self._out.clear()
        self._out_bytes = 0

    def _watch_for_hangup(self) -> None:
        """After its end-of-file, a Unix socket tells a half-closed peer from a dead one only when it is polled."""
        if self._transport.is_closing():
            return
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), 0)
        if poll.poll(0):
            self._transport.abort()
        else:
            self._server.loop.call_later(HANGUP_INTERVAL_S, self._watch_for_hangup)

    def _turn_away(self, error: ProtocolError) -> None:
        self._closing = True
        self._transport.write(encode_error(None, error))
        self._transport.close()

    def _drop(self) -> None:
        logger.warning("a client that reads no answers was dropped, with {} requests open", len(self.running))
        self._transport.abort()

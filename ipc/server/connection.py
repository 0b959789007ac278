"""One client's connection: lines in, lines out, and the bounds on both."""

from __future__ import annotations

import asyncio
import os
import select
from typing import Protocol, cast

from loguru import logger

from ..protocol import (
    BUSY,
    REFUSED,
    Inbox,
    MalformedLine,
    Message,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    encode_error,
)
from ..settings import IpcSettings
from .lanes import OpenRequest, Turns
from .listener import peer_uid

HANGUP_INTERVAL_S = 0.25
TURNED_AWAY_S, MOST_TURNED_AWAY = 1.0, 32
# Answers are joined up to this size; more is written at once, so that a full socket is noticed before the next answer.
WRITE_BYTES = 2**18
# What waits for its turn is read ahead so far: to stop reading and begin again is two calls of the system a message.
READ_AHEAD_BYTES = 2**16


class Session(Protocol):
    """Another protocol on a connection, from the line on that asked for it."""

    @property
    def open_count(self) -> int:
        """Count the requests that are owed an answer."""
        ...

    @property
    def has_room(self) -> bool:
        """Return True while another line is taken."""
        ...

    def receive(self, line: bytes) -> None:
        """Take a line in, without its newline."""
        ...

    def end(self) -> None:
        """Stop all work: the client is gone, or the server ends."""
        ...


class Dispatcher(Protocol):
    """The server as a connection needs it: begins and cancels requests, and keeps the list of connections."""

    settings: IpcSettings
    loop: asyncio.AbstractEventLoop
    turns: Turns
    connections: set[Connection]
    turned_away: set[Connection]

    def attach(self, connection: Connection, message: Request | Notification) -> Session | None:
        """Begin the protocol that a first message asks for; None if it is of ours. Raises ProtocolError."""
        ...

    def outlives(self, message: Request | Notification) -> bool:
        """Return True for a message that is done although its sender has left."""
        ...

    def begin(self, client: Connection, message: Request | Notification) -> None:
        """Begin to answer a message."""
        ...

    def cancel(self, request: OpenRequest) -> None:
        """Take a request back, once."""
        ...


class Connection(asyncio.Protocol):
    """Reads no faster than it answers, and drops a client that does not read its answers."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.requests: dict[object, OpenRequest] = {}
        self.paused = False
        self._dispatcher = dispatcher
        self._inbox = Inbox()
        self._session: Session | None = None
        self._is_first = True
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._reading = True
        self._writing = True
        self._closing = self._watching = self._gone = False
        self._stalled: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the user's own programs, up to the limit of connections."""
        self._transport = cast("asyncio.Transport", transport)
        settings = self._dispatcher.settings
        # Above the high mark asyncio calls `pause_writing`, below the low one `resume_writing`.
        self._transport.set_write_buffer_limits(settings.stalled_output_bytes, settings.stalled_output_bytes // 4)
        self._dispatcher.connections.add(self)
        uid = peer_uid(self._transport.get_extra_info("socket"))
        # The mode of the socket and its folder keep others out too; this holds where a folder was opened by hand.
        if uid not in (os.geteuid(), 0):
            self._turn_away(ProtocolError("this memory belongs to another user", "", REFUSED))
        elif len(self._dispatcher.connections) > settings.max_connections:
            hint = "close some, or raise ipc.max_connections in the settings"
            self._turn_away(ProtocolError(f"{settings.max_connections} clients are connected already", hint, BUSY))

    def data_received(self, data: bytes) -> None:
        """Begin to answer the messages that these bytes complete."""
        if not self._closing:
            self._inbox.receive(data)
            self.pump()

    def eof_received(self) -> bool:
        """Finish the answers of a client that has sent everything, unless it is gone."""
        self._closing = True
        self.pump()
        # A client may shut down its sending side and still read: only a hang-up of both sides ends the requests.
        if not self._watching:
            self._watch_for_hangup()
        return not self._transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the open requests: the client is gone."""
        self._closing = True
        self._inbox.clear()
        self._dispatcher.connections.discard(self)
        self._dispatcher.turned_away.discard(self)
        if self._stalled is not None:
            self._stalled.cancel()
        for request in list(self.requests.values()):
            self._dispatcher.cancel(request)
        if self._session is not None:
            self._session.end()

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        self._writing = False
        self._stalled = self._dispatcher.loop.call_later(self._dispatcher.settings.stalled_s, self._drop)

    def resume_writing(self) -> None:
        """Read and answer again, since the client reads."""
        self._writing = True
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self.pump()

    def pump(self) -> None:
        """Begin the waiting messages at this connection's turn, and write the answers."""
        if self._may_begin():
            self._dispatcher.turns.want(self)
        self._flush()

    def begin_some(self, most: int, until_s: float) -> bool:
        """Begin at most `most` waiting messages, until a time of the loop's clock; return True if more could begin."""
        clock = self._dispatcher.loop.time
        while most and self._may_begin() and clock() < until_s:
            most -= 1
            if self._session is None:
                self._begin(self._inbox.take())
            else:
                self._pass_on(self._session, self._inbox.take_line())
            # A write that fills the socket pauses the connection before the next message is begun.
            if self._out_bytes >= WRITE_BYTES:
                self._write()
        self._flush()
        return self._may_begin()

    def _may_begin(self) -> bool:
        return not self._is_full() and self._writing and not self.paused and bool(self._inbox)

    def _begin(self, message: Message) -> None:
        if self._gone and (isinstance(message, MalformedLine) or not self._dispatcher.outlives(message)):
            return
        is_first, self._is_first = self._is_first, False
        if isinstance(message, MalformedLine):
            self._refuse(message)
        elif not is_first or not self._attach(message):
            self._dispatcher.begin(self, message)

    def _attach(self, message: Request | Notification) -> bool:
        try:
            self._session = self._dispatcher.attach(self, message)
        except ProtocolError as error:
            self._refuse(MalformedLine(error, message.id if isinstance(message, Request) else None, fatal=True))
            return True
        return self._session is not None

    def _pass_on(self, session: Session, line: bytes | MalformedLine) -> None:
        if isinstance(line, MalformedLine):
            self._refuse(line)
        elif not self._gone:
            session.receive(line)

    def _refuse(self, malformed: MalformedLine) -> None:
        self.fail(malformed.id, malformed.error, always=True)
        if malformed.fatal:
            self._inbox.clear()
            self._closing = True

    def _is_full(self) -> bool:
        if self._session is not None and not self._session.has_room:
            return True
        return len(self.requests) >= self._dispatcher.settings.max_in_flight

    def _flush(self) -> None:
        """Write the answers, then read on, or close, or wait, by the bounds."""
        self._write()
        # After an end-of-file everything that was asked is still answered; then the connection is closed.
        if self._closing:
            if not self._inbox and not self.owes_answers:
                self._transport.close()
            return
        if self._reading == (self._inbox.size_bytes > READ_AHEAD_BYTES or self._is_full() or not self._writing):
            self._reading = not self._reading
            (self._transport.resume_reading if self._reading else self._transport.pause_reading)()
            if not self._reading and not self._watching:  # while nothing is read, an end is seen by polling alone
                self._watch_for_hangup()

    def send(self, line: bytes) -> None:
        """Queue a line for the next `pump`, which joins the answers of one turn into one write."""
        self._out.append(line)
        self._out_bytes += len(line)

    def fail(self, request_id: RequestId | None, error: ProtocolError, always: bool = False) -> None:
        """Answer with an error; a notification gets none, unless it could not be parsed."""
        if request_id is not None or always:
            self.send(encode_error(request_id, error))

    def end(self, request: OpenRequest) -> None:
        """Drop a request that is answered; after an ordered one, the next messages may begin."""
        self.requests.pop(request.key, None)
        if request.ordered:
            self.paused = False

    @property
    def owes_answers(self) -> bool:
        """Return True while a request is open."""
        return bool(self.requests) or (self._session is not None and self._session.open_count > 0)

    def close(self) -> None:
        """Write the answers, then close."""
        self._closing = True
        self._write()
        self._transport.close()

    def abort(self) -> None:
        """Close now."""
        self._transport.abort()

    def _write(self) -> None:
        if self._out and not self._gone and not self._transport.is_closing():
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
            # The mark of `pause_writing` gives a slow reader time; this bound protects the daemon's memory at once.
            if self._transport.get_write_buffer_size() > self._dispatcher.settings.max_output_bytes:
                self._drop()
        self._out.clear()
        self._out_bytes = 0

    def _watch_for_hangup(self) -> None:
        """Poll for a peer that is gone, while nothing is read, or after end-of-file, which a living one may send."""
        self._watching = False
        if self._transport.is_closing() or (self._reading and not self._closing):
            return
        if self._gone or self._has_hung_up():
            self._hang_up()
        if not self._transport.is_closing():
            self._watching = True
            self._dispatcher.loop.call_later(HANGUP_INTERVAL_S, self._watch_for_hangup)

    def _has_hung_up(self) -> bool:
        poll = select.poll()
        # No events are asked for: POLLHUP is always reported, and unread data does not wake the poll.
        poll.register(self._transport.get_extra_info("socket").fileno(), 0)
        return bool(poll.poll(0))

    def _hang_up(self) -> None:
        """Cancel the requests of a client that is gone; notifications, and what outlives it, are still done."""
        self._gone = True
        # A notification wants no answer, so its sender may leave without taking it back.
        for request in list(self.requests.values()):
            if request.call.id is not None:
                self._dispatcher.cancel(request)
        if self._session is not None:
            self._session.end()
        if self._closing and not self._inbox:
            self._transport.abort()
        else:
            self.pump()

    def _turn_away(self, error: ProtocolError) -> None:
        """Send the reason, and read on for a moment: a connection that is closed over unread bytes is reset."""
        dispatcher = self._dispatcher
        self._closing = self._gone = True
        dispatcher.connections.discard(self)
        self._transport.write(encode_error(None, error))
        if len(dispatcher.turned_away) >= MOST_TURNED_AWAY:
            self._transport.close()
            return
        dispatcher.turned_away.add(self)
        self._transport.write_eof()
        dispatcher.loop.call_later(TURNED_AWAY_S, self._transport.close)

    def _drop(self) -> None:
        logger.warning("a client that reads no answers was dropped, with {} requests open", len(self.requests))
        self._transport.abort()

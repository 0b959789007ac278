"""The server: connections in, methods run, answers out; nothing here depends on the store."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from loguru import logger
from pydantic import ValidationError

from ..call import Cancelled, Method
from ..errors import invalid_params, unknown_method, wire_error
from ..protocol import (
    BUSY,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    STOPPING,
    Notification,
    ProtocolError,
    Request,
    encode_answer,
    encode_error,
    encode_notification,
)
from ..settings import IpcSettings
from .connection import Connection, Session
from .lanes import Lanes, OpenRequest, Requester, Turns
from .listener import Acceptor, Listener, ListenerError, listen_again
from .measures import OK, Measures

# A progress bar needs no more; a stage that reports every item must not fill the wire.
PROGRESS_INTERVAL_S = 0.05
LAST_ANSWERS_S = 0.5
SOCKET_CHECK_S = 2.0
SOCKET_LOST = "No other client can connect: {} is gone and cannot be made again ({})."
SYSTEMS_SOCKET_LOST = (
    "{} was removed, and dreamd has made it again by itself; the service manager, which made the first one, knows of "
    "this one after `systemctl --user restart dreamd.socket dreamd`."
)
Attach = Callable[["Server", Connection, Request | Notification], Session]
"""Begins another protocol on a connection; raises ProtocolError."""

# A message this long costs its method milliseconds (redaction, hashing): not in the loop.
BULKY_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """`cancelled`: the request was open."""

    cancelled: bool


class Server:
    """Answers methods on a listener's connections, in the running event loop.

    `on_activity` is called with the method's name, in the loop, for every request that an agent at work sends.
    `protocols` are those that a connection may change to with its first message, by that message's method.
    `socket_problem` is a sentence on a socket file that was removed, "" while all is well.
    """

    def __init__(
        self,
        methods: Iterable[Method[Any, Any]],
        settings: IpcSettings | None = None,
        on_activity: Callable[[str], None] | None = None,
        protocols: Mapping[str, Attach] | None = None,
    ) -> None:
        self.settings = settings or IpcSettings()
        self.connections: set[Connection] = set()
        self.stopping = False
        self._methods = {method.name: method for method in methods}
        # A coroutine function gives the loop back by itself, so it is called there and needs no thread.
        self._in_loop = {name for name, one in self._methods.items() if inspect.iscoroutinefunction(one.run)}
        self._on_activity = on_activity
        self._protocols = dict(protocols or {})
        self.turned_away: set[Connection] = set()
        self.socket_problem = ""
        self.measures = Measures()
        self._acceptors: list[Acceptor] = []
        self._socket_timer: asyncio.TimerHandle | None = None
        # Results of threads wait here for the loop; a deque's append and popleft are atomic, so it needs no lock.
        self._finished: deque[tuple[OpenRequest, Future[Any] | None]] = deque()
        self._woken = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._open: set[OpenRequest] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pool = ThreadPoolExecutor(self.settings.threads, "answer")
        self._long_pool = ThreadPoolExecutor(self.settings.long_threads, "long-answer")

    async def start(self, listener: Listener) -> None:
        """Accept connections, those that waited since the listener was opened among them."""
        self.loop = asyncio.get_running_loop()
        settings, clock = self.settings, self.loop.time
        submit, submit_long = partial(self._submit, self._pool), partial(self._submit, self._long_pool)
        # Half of the threads are kept free for agents; long methods have threads of their own, so that four imports
        # never keep a recall waiting.
        self._lanes = Lanes(submit, clock, settings.threads, settings.max_at_work, settings.threads // 2)
        self._long_lanes = Lanes(submit_long, clock, settings.long_threads, settings.max_at_work)
        self.turns = Turns(self.loop, lambda: self._lanes.agents_at_work > 0)
        self._is_systems = listener.path is None
        self._accept_from(listener)
        self._socket_timer = self.loop.call_later(SOCKET_CHECK_S, self._check_socket)

    def _accept_from(self, listener: Listener) -> None:
        self._acceptors.append(Acceptor(self.loop, listener, lambda: Connection(self)))
        self._acceptors[-1].start()

    def _check_socket(self) -> None:
        """Make a removed socket file again: a cleaner of temporary folders, or a person, may remove it."""
        lost = self._acceptors[-1].listener
        if lost.is_lost():
            self._listen_again(lost)
        self._socket_timer = self.loop.call_later(SOCKET_CHECK_S, self._check_socket)

    def _listen_again(self, lost: Listener) -> None:
        try:
            listener = listen_again(lost)
        except ListenerError as error:
            problem = SOCKET_LOST.format(lost.place, error)
            if problem != self.socket_problem:
                logger.error("{} is gone and cannot be made again: {}", lost.place, error)
            self.socket_problem = problem
            return
        logger.warning("{} was removed, and is made again", lost.place)
        self.socket_problem = SYSTEMS_SOCKET_LOST.format(lost.place) if self._is_systems else ""
        self._acceptors.pop().stop()
        self._accept_from(listener)

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop accepting, finish open answers for at most `grace_s`, close every connection."""
        self.stopping = True
        if self._socket_timer is not None:
            self._socket_timer.cancel()
        for acceptor in self._acceptors:
            acceptor.stop()
        # Long work is cancelled at once, since it would outlast any grace; short work is finished, then cancelled.
        for request in [request for request in self._open if request.method.long]:
            self.cancel(request)
        await self._until_idle(self.settings.stop_grace_s if grace_s is None else grace_s)
        for request in list(self._open):
            self.cancel(request)
        await self._until_idle(LAST_ANSWERS_S)
        await self._until(lambda: not any(connection.owes_answers for connection in self.connections), LAST_ANSWERS_S)
        for connection in (*self.connections, *self.turned_away):
            connection.close()
        await self._until_closed(LAST_ANSWERS_S)
        # Not waited for: a thread that hangs must not keep the process, and the locks of its folders, alive.
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._long_pool.shutdown(wait=False, cancel_futures=True)

    def attach(self, connection: Connection, message: Request | Notification) -> Session | None:
        """Begin the protocol that a first message asks for; None if it is of ours. Raises ProtocolError."""
        attach = self._protocols.get(message.method)
        return attach(self, connection, message) if attach is not None else None

    def outlives(self, message: Request | Notification) -> bool:
        """Return True for a message that is done although its sender has left."""
        method = self._methods.get(message.method)
        return isinstance(message, Notification) or (method is not None and method.outlives)

    def begin(self, client: Requester, message: Request | Notification) -> None:
        """Run the message's method; its answer is sent as soon as there is one."""
        request_id = message.id if isinstance(message, Request) else None
        if message.method == "cancel":
            self._cancel_request(client, request_id, message.params)
            return
        method = self._methods.get(message.method)
        if method is None:
            self.measures.refused(METHOD_NOT_FOUND)
            client.fail(request_id, self._unknown(message.method))
            return
        try:
            params = method.params.model_validate(message.params)
        except ValidationError as error:
            self.measures.refused(INVALID_PARAMS)
            client.fail(request_id, invalid_params(error, method.params))
            return
        # Checked after the parameters, so that a faulty request with a used id still learns its own fault.
        if request_id is not None and request_id in client.requests:
            client.fail(
                request_id,
                ProtocolError(f"a request with the id {request_id!r} is being answered", "", INVALID_REQUEST),
            )
            return
        if self.stopping:
            client.fail(request_id, ProtocolError("dreamd is stopping", "try again when it is back", STOPPING))
            return
        if method.activity and self._on_activity is not None:
            self._on_activity(method.name)
        request = OpenRequest(client, message, method, self._wake_loop)
        request.began_s = self.loop.time()
        client.requests[request.key] = request
        self._open.add(request)
        self._idle.clear()
        if method.name in self._in_loop:
            self._call(request, params)
        elif method.long:
            self._queue_for_thread(request, params)
        elif method.blocking:
            request.timer = self.loop.call_later(self.settings.deadline_s, self._out_of_time, request)
            self._queue_for_thread(request, params)
        # A long message of a method that is quick otherwise goes to a thread; `ordered` keeps the client's later
        # messages behind it, as if it had been answered in the loop.
        elif isinstance(message, Request) and message.size_bytes > BULKY_BYTES:
            request.ordered = client.paused = True
            self._queue_for_thread(request, params)
        else:
            self._call(request, params)

    def _unknown(self, method: str) -> ProtocolError:
        if method in self._protocols:
            return ProtocolError(f"{method} is the first message of a connection", "connect anew", INVALID_REQUEST)
        return unknown_method(method, self._methods)

    def cancel(self, request: OpenRequest) -> None:
        """Cancel a request, once. One whose work can no longer be stopped is answered all the same.

        A second cancellation would interrupt the orderly end of a task.
        """
        if request.call.cancelled:
            return
        request.call.cancel()
        if request.stop_work is not None and not request.method.outlives:
            request.stop_work()

    def _cancel_request(self, client: Requester, request_id: Any, params: Mapping[str, Any]) -> None:
        # `cancel` is no row of the table: it acts on the connection's own requests, which no method sees.
        open_id = params.get("id")
        if not isinstance(open_id, int | str) or len(params) != 1:
            client.fail(request_id, ProtocolError("cancel takes the id of a request", "parameters: id", INVALID_PARAMS))
            return
        request = client.requests.get(open_id)
        if request is not None:
            self.cancel(request)
        if request_id is not None:
            client.send(encode_answer(request_id, CancelAnswer(request is not None)))

    def _call(self, request: OpenRequest, params: Any) -> None:
        try:
            outcome = request.method.answer(params, request.call)
        except Exception as error:
            self._fail(request, error)
        else:
            self._answer_outcome(request, outcome)

    def _queue_for_thread(self, request: OpenRequest, params: Any) -> None:
        request.in_lane, request.params = True, params
        request.stop_work = partial(self._cancel_queued, request, Cancelled("the request was cancelled"))
        self._lanes_of(request).put(request)

    def _lanes_of(self, request: OpenRequest) -> Lanes:
        return self._long_lanes if request.method.long else self._lanes

    def _submit(self, pool: ThreadPoolExecutor, request: OpenRequest) -> None:
        request.stop_work, request.worked_s = None, self.loop.time()
        future = pool.submit(request.method.answer, request.params, request.call)
        future.add_done_callback(lambda done: self._wake_loop(request, done))

    def _cancel_queued(self, request: OpenRequest, error: ProtocolError) -> None:
        """Answer a request that waits for a thread with an error; one that has a thread goes on."""
        if self._take_from_queue(request):
            given_up: Future[Any] = Future()
            given_up.set_exception(error)
            self._wake_loop(request, given_up)

    def _take_from_queue(self, request: OpenRequest) -> bool:
        """Remove a request that waits for a thread; return False for one that has a thread, or needs none."""
        if not request.in_lane or not self._lanes_of(request).drop(request):
            return False
        request.in_lane = False
        return True

    def _out_of_time(self, request: OpenRequest) -> None:
        """Answer with BUSY at the deadline; work that has begun is asked to end."""
        busy = ProtocolError(
            f"{request.call.method} was not done within {self.settings.deadline_s:g} s",
            "try again later; what it changes may still come",
            BUSY,
        )
        # Its thread, if it has one, goes on until it looks at the call; it keeps its place in the lane meanwhile.
        request.call.cancel()
        if not request.method.outlives:
            self._take_from_queue(request)
        self._fail(request, busy)
        request.client.pump()

    def _answer_outcome(self, request: OpenRequest, outcome: Any) -> None:
        """Answer now, or as soon as the outcome has a result."""
        if isinstance(outcome, Future):
            request.stop_work = None  # the store's own promises are kept, not cancelled
            outcome.add_done_callback(lambda done: self._wake_loop(request, done))
        elif asyncio.iscoroutine(outcome):
            task = self.loop.create_task(outcome)
            request.stop_work = task.cancel
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._task_done(request, done))
        else:
            self._answer(request, outcome)

    def _task_done(self, request: OpenRequest, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._fail(request, Cancelled("the request was cancelled"))
        elif (error := task.exception()) is not None:
            self._fail(request, error)
        else:
            self._answer_outcome(request, task.result())
        request.client.pump()

    def _wake_loop(self, request: OpenRequest, future: Future[Any] | None) -> None:
        """Let the loop handle this request, from any thread. One wake-up serves all that come before it runs."""
        self._finished.append((request, future))
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: no client is left to answer
                self.loop.call_soon_threadsafe(self._drain_finished)

    def _drain_finished(self) -> None:
        self._woken = False
        touched: set[Requester] = set()
        while self._finished:
            request, future = self._finished.popleft()
            if future is None:
                self._send_progress(request)
            else:
                self._release_thread(request)
                self._take_outcome(request, future)
            touched.add(request.client)
        # Each client is written to once, however many of its answers came together.
        for client in touched:
            client.pump()

    def _release_thread(self, request: OpenRequest) -> None:
        if request.in_lane:
            request.in_lane = False
            self._lanes_of(request).done(request)

    def _take_outcome(self, request: OpenRequest, future: Future[Any]) -> None:
        if request not in self._open:  # answered already: it took too long
            return
        if future.cancelled():
            self._fail(request, Cancelled("the request was cancelled"))
        elif (error := future.exception()) is not None:
            self._fail(request, error)
        else:
            self._answer_outcome(request, future.result())

    def _answer(self, request: OpenRequest, result: Any) -> None:
        try:
            line = b"" if request.call.id is None else encode_answer(request.call.id, result)
        except Exception as error:
            self._fail(request, error)
        else:
            self._finish(request, line, OK)

    def _fail(self, request: OpenRequest, error: BaseException) -> None:
        wrong = wire_error(error, request.call.method)
        self._finish(request, encode_error(request.call.id, wrong), str(wrong.code))

    def _finish(self, request: OpenRequest, line: bytes, outcome: str) -> None:
        method, began_s, worked_s = request.method.name, request.began_s, request.worked_s
        self.measures.answered(method, outcome, began_s, worked_s, self.loop.time())
        if request.call.id is not None:
            # The last progress first: a client must not get one after the answer.
            self._emit_progress(request)
            request.client.send(line)
        request.call.end()
        if request.timer is not None:
            request.timer.cancel()
        request.client.end(request)
        self._open.discard(request)
        if not self._open:
            self._idle.set()

    def _send_progress(self, request: OpenRequest) -> None:
        if request not in self._open:
            return
        # At most one every PROGRESS_INTERVAL_S; one in between is kept, and replaced by later ones until it is sent.
        wait_s = request.progress_at + PROGRESS_INTERVAL_S - self.loop.time()
        if wait_s > 0:
            self.loop.call_later(wait_s, self._wake_loop, request, None)
        else:
            self._emit_progress(request)

    def _emit_progress(self, request: OpenRequest) -> None:
        if request.progress is None or request.call.id is None:
            return
        stage, done, total, note = request.progress
        request.progress = None
        request.progress_at = self.loop.time()
        params = {"request": request.call.id, "stage": stage, "done": done, "total": total, "note": note}
        request.client.send(encode_notification("progress", params))

    async def _until_idle(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)

    async def _until(self, is_done: Callable[[], bool], timeout_s: float) -> None:
        deadline = self.loop.time() + timeout_s
        while not is_done() and self.loop.time() < deadline:
            await asyncio.sleep(0.01)

    async def _until_closed(self, timeout_s: float) -> None:
        await self._until(lambda: not self.connections, timeout_s)
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            logger.warning("{} connections were cut off", len(self.connections))

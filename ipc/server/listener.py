"""The listening socket, and the accepting of its connections.

The socket is its owner's alone, never a second one at one path, or adopted from systemd or launchd.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from loguru import logger

from ..protocol import BUSY, ProtocolError, encode_error
from ..socket_path import too_long

BACKLOG = 128
PROBE_TIMEOUT_S = 1.0


class ListenerError(ProtocolError):
    """A path at which there can be no socket; the message is the reason."""


class AddressInUse(ListenerError):
    """Another daemon answers at this path."""


class Listener:
    """A listening Unix socket at `place`; `path` is None when another process made it."""

    def __init__(self, sock: socket.socket, path: Path | None = None, lock_fd: int | None = None) -> None:
        self.socket = sock
        self.path = path
        self.place = path or _place_of(sock)
        self._lock_fd = lock_fd
        self._made = _identity(self.place) if self.place else None

    def is_lost(self) -> bool:
        """Return True if the socket file is gone, or is another one: then no client can connect."""
        return self.place is not None and (self._made is None or _identity(self.place) != self._made)

    def unlock(self) -> None:
        """Release the lock of the socket."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def close(self) -> None:
        """Stop listening; remove the socket file if it is still ours. One of systemd's stays. Safe to call twice."""
        if self.socket.fileno() < 0:
            return
        self.socket.close()
        if self.path is not None and _identity(self.path) == self._made:
            self.path.unlink(missing_ok=True)
        self.unlock()


def listen_again(lost: Listener) -> Listener:
    """Listen at the place of a listener whose socket file is gone. Raises ListenerError, and AddressInUse."""
    assert lost.place is not None
    # A lock file that was removed with the socket is another file now, so the old lock would protect nothing.
    lost.unlock()
    return open_listener(lost.place)


def open_listener(path: str | Path) -> Listener:
    """Listen at `path`: 0600, in a folder of the user's own. A stale socket is replaced.

    Call it before the slow part of a start: clients that connect meanwhile wait instead of failing. Raises
    AddressInUse, or ListenerError with a hint.
    """
    path = Path(path)
    if complaint := too_long(str(path)):
        raise ListenerError(complaint, "set DREAMD_SOCKET to a shorter path, for the daemon and for its clients")
    _own_folder(path.parent)
    # The lock comes first: without it two starts could each find the other's socket stale and remove it.
    lock_fd = _lock(path)
    try:
        _remove_stale(path)
        sock = _bind(path)
    except BaseException:
        os.close(lock_fd)
        raise
    return Listener(sock, path, lock_fd)


def adopt_listener(fd: int) -> Listener:
    """Listen on a socket that systemd or launchd made and passed."""
    complaint = f"the passed file descriptor {fd} is no Unix stream socket", "see ListenStream= in the unit"
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        os.close(fd)
        raise ListenerError(*complaint) from error
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        sock.close()
        raise ListenerError(*complaint)
    sock.setblocking(False)
    os.set_inheritable(fd, False)
    return Listener(sock)


def peer_uid(sock: socket.socket) -> int:
    """Return the user on the other side of a connected Unix socket."""
    if sys.platform == "darwin":
        uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
        if ctypes.CDLL(None, use_errno=True).getpeereid(sock.fileno(), ctypes.byref(uid), ctypes.byref(gid)):
            raise OSError(ctypes.get_errno(), "getpeereid failed")
        return uid.value
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _own_folder(folder: Path) -> None:
    """Make the folder 0700, or accept one to which no other user can write."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        # A folder of our own name is ours to restrict; another one is only checked.
        if found.st_uid == os.geteuid() and folder.name == "dreamd":
            folder.chmod(0o700)
            return
    except OSError as error:
        raise ListenerError(
            f"no folder for the socket: {error}", "set DREAMD_SOCKET to a path that you may write"
        ) from error
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ListenerError(f"others may write to {folder}", "set DREAMD_SOCKET to a path in a folder of your own")


def _lock(path: Path) -> int:
    """Take the lock file of the socket: it distinguishes a stale socket from that of a daemon that is starting."""
    try:
        fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ListenerError(
            f"no lock beside the socket: {error}", "set DREAMD_SOCKET to a path that you may write"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise _address_in_use(path) from error
    return fd


def _remove_stale(path: Path) -> None:
    """Remove a socket that no daemon answers. Anything that is no socket is left, and refused."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ListenerError(f"{path} is in the way and is no socket", "move it away, or set DREAMD_SOCKET")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            # A connection proves a living daemon; a refused one proves that no process listens.
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            # A full queue, or a daemon that is busy: it lives.
            if error.errno not in (errno.EAGAIN, errno.ETIMEDOUT) and not isinstance(error, TimeoutError):
                raise ListenerError(
                    f"cannot tell who owns {path}: {error}", "set DREAMD_SOCKET to another path"
                ) from error
    raise _address_in_use(path)


def _bind(path: Path) -> socket.socket:
    """Bind under another name, restrict, listen, and only then rename: a client that sees the socket can connect.

    Until `listen` no client can connect, so the wide mode is never in use. The other name is as long as the first,
    whose length was checked; this process has the lock, so a file of that name is of a start that died.
    """
    beside = path.with_name(path.name[:-1] + ("~" if path.name[-1] != "~" else "-"))
    sock = socket.socket(socket.AF_UNIX)
    try:
        beside.unlink(missing_ok=True)
        sock.bind(str(beside))
        beside.chmod(0o600)
        sock.listen(BACKLOG)
        sock.setblocking(False)
        beside.rename(path)
    except OSError as error:
        sock.close()
        raise ListenerError(f"cannot listen at {path}: {error}", "set DREAMD_SOCKET to another path") from error
    return sock


def _address_in_use(path: Path) -> AddressInUse:
    return AddressInUse(
        f"a daemon already answers at {path}", "see it with `dreamctl status`, end it with `dreamctl stop`"
    )


def _place_of(sock: socket.socket) -> Path | None:
    """Return where a socket's file lies; one with an abstract name has none."""
    name = os.fsdecode(sock.getsockname())
    return Path(name) if name and not name.startswith("\0") else None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


# ---- accepting

AT_ONCE = 16
"""Connections accepted before the loop does something else."""

PAUSE_S = 0.5
"""Pause of accepting when not even a client can be turned away."""

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
GONE = (errno.ECONNABORTED, errno.EINTR)

NO_ROOM = encode_error(
    None,
    ProtocolError(
        "the daemon has no file descriptor left for another client",
        "close some clients, or raise the limit of open files (ulimit -n, LimitNOFILE=)",
        BUSY,
    ),
)


class Acceptor:
    """Makes a protocol of each connection. asyncio's own logs 128 lines each time that descriptors run out.

    One descriptor is kept in reserve: with it a client is turned away.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: Listener, protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._protocol = protocol
        self._reserve: int | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[object]] = set()
        self._has_said_so = self._stopped = False

    def start(self) -> None:
        """Begin to accept."""
        self._keep_reserve()
        self._pause = None
        self._loop.add_reader(self.listener.socket.fileno(), self._accept_some)

    def stop(self) -> None:
        """Stop accepting, and close the listener."""
        if self._stopped:
            return
        self._stopped = True
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self.listener.socket.fileno())
        self._let_reserve_go()
        self.listener.close()

    def _accept_some(self) -> None:
        for _ in range(AT_ONCE):
            try:
                client, _address = self.listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # The client left between its connecting and this call.
                if error.errno in GONE:
                    continue
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                if not self._turn_away():
                    self._rest()
                    return
            else:
                self._has_said_so = False
                self._begin(client)

    def _begin(self, client: socket.socket) -> None:
        client.setblocking(False)
        connecting = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, client))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    def _turn_away(self) -> bool:
        """Give up the reserve for as long as it takes to refuse one client; False when there is none."""
        if not self._has_said_so:
            self._has_said_so = True
            logger.warning("no file descriptor is left; clients are turned away until there are some")
        if self._reserve is None:
            return False
        self._let_reserve_go()
        try:
            client, _address = self.listener.socket.accept()
        except OSError:  # another thread took the descriptor, or the client has left
            return self._keep_reserve()
        with client, contextlib.suppress(OSError):
            client.setblocking(False)
            client.send(NO_ROOM)
            client.shutdown(socket.SHUT_WR)
            client.recv(2**16)  # one that is closed over unread bytes is reset, and its client reads nothing
        return self._keep_reserve()

    def _rest(self) -> None:
        # Level-triggered readiness would wake the loop without end while the waiting client cannot be accepted.
        self._loop.remove_reader(self.listener.socket.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self.start)

    def _keep_reserve(self) -> bool:
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._reserve is not None

    def _let_reserve_go(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

"""The real daemon on folders of its own, and a socket that costs as little as a socket can."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import psutil

MIB = 2**20
POLL_S = 0.05
QUIET_S = 10


class Refused(RuntimeError):
    """The daemon answered with an error."""


class Wire:
    """One connection, one request at a time, no more than bytes: `ask` is what an agent's latency is made of."""

    def __init__(self, path: str, timeout_s: float = 600) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.connect(path)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, line: bytes) -> bytes:
        """Send one line, return the answer's; progress that comes before it is read over."""
        with contextlib.suppress(BrokenPipeError):  # turned away before it asked: the reason is there to be read
            self._socket.sendall(line)
        held = b""
        while True:
            data = self._socket.recv(2**18)
            if not data:
                raise ConnectionResetError("the daemon closed the connection")
            held += data
            while held.endswith(b"\n") or b"\n" in data:
                answer, _, held = held.partition(b"\n")
                if b'"id"' in answer:
                    return answer
                data = held

    def call(self, method: str, **params: Any) -> Any:
        """Ask for a method's result. Raises Refused with the daemon's own words."""
        answer = json.loads(self.ask(request(method, **params)))
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()


def request(method: str, **params: Any) -> bytes:
    """Make one line of the wire."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


class DaemonUnderTest:
    """A context in which a daemon runs; its folder goes with it, unless it was given.

    No dream starts by itself, a question that is asked again is answered anew (the query cache is off), and nothing of
    the person's own settings is seen. Vectors are taken from `kept` and, once
    it was stopped, left there for the next run: what was embedded once is not embedded again.
    """

    def __init__(
        self, folder: Path | None = None, environ: Mapping[str, str] | None = None, kept: Path | None = None
    ) -> None:
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="dreamd-bench-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        # The socket lies where systemd has it, in a short folder: its path may have 103 bytes.
        self._runtime = Path(tempfile.mkdtemp(prefix="dreamd-"))
        (self._runtime / "dreamd").mkdir(mode=0o700)
        self.socket_path = str(self._runtime / "dreamd" / "dreamd.sock")
        self.environ = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ} | {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "DREAMD_DATA_DIR": str(self.folder / "data"),
            "XDG_RUNTIME_DIR": str(self._runtime),
            "DREAMD_PIPELINES__SCHEDULE__ENABLED": "false",
            "DREAMD_STORE__SEARCH__CACHE__ENTRIES": "0",
            **(environ or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._kept = kept
        self._peak_bytes = 0

    def __enter__(self) -> Self:
        if self._kept is not None and self._kept.is_file():
            self.embeddings.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._kept, self.embeddings)
        try:
            self.start()
            self.wait_until_it_answers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._runtime, ignore_errors=True)
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- its life

    def start(self) -> None:
        """Execute it and do not wait."""
        command = [str(Path(sys.executable).with_name("dreamd"))]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environ, cwd=self.folder, stdout=log, stderr=log)

    def wait_until_it_answers(self, timeout_s: float = 120) -> None:
        """Wait for the first answer. Raises RuntimeError with the end of its log."""
        assert self.process is not None
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                wire = Wire(self.socket_path)
            except OSError:
                time.sleep(POLL_S)
                continue
            try:
                wire.call("ping")
            except OSError:  # it is on its way in, or out
                time.sleep(POLL_S)
            else:
                return
            finally:
                wire.close()
        raise RuntimeError(f"the daemon never answered: {self._how_it_is()}")

    def stop(self, timeout_s: float = 60) -> None:
        """End it as a service manager would. Raises if it does not end well."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        if code := self.process.wait(timeout_s):
            raise RuntimeError(f"the daemon ended with {code}:\n{self.log.read_text()[-4000:]}")
        if self._kept is not None:
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.embeddings, self._kept)

    def pause(self) -> None:
        """Have it hang."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def log(self) -> Path:
        """Where it writes."""
        return self.folder / "dreamd.log"

    @property
    def embeddings(self) -> Path:
        """Where the vectors of every text seen are kept."""
        return self.folder / "data" / "index" / "embeddings.db"

    # -- what it is asked

    def wire(self) -> Wire:
        """Make a connection of one's own. Raises RuntimeError with the end of the log if the daemon has ended."""
        try:
            return Wire(self.socket_path)
        except OSError as error:
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"{error}; {self._how_it_is()}") from error
            raise

    def _how_it_is(self) -> str:
        """Say whether it lives, and the last it said."""
        code = None if self.process is None else self.process.poll()
        state = "it is running" if code is None else f"the daemon ended with {code}"
        return f"{state}; its log ends:\n{self.log.read_text()[-4000:]}"

    def call(self, method: str, **params: Any) -> Any:
        """Ask once, over a new connection."""
        wire = self.wire()
        try:
            return wire.call(method, **params)
        except OSError as error:
            raise RuntimeError(f"{method}: {error}; {self._how_it_is()}") from error
        finally:
            wire.close()

    def wait_until_embedded(self, timeout_s: float = 3600) -> dict[str, Any]:
        """Wait until no chunk waits for its vector; return the status."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            status: dict[str, Any] = self.call("status")
            self.rss_bytes()
            behind = status["pending_embeddings"] or status["not_found_yet"] or status["catching_up"]
            if not behind and status["embedding"]["ready"]:
                return status
            time.sleep(5 * POLL_S)
        raise RuntimeError(f"chunks still wait for their vectors after {timeout_s:g} s: {status}")

    def wait_until_linked(self, timeout_s: float = 600) -> None:
        """Wait until what was remembered is compared with what was known: some seconds without another run.

        Raises RuntimeError.
        """
        self.wait_until_embedded()
        deadline, newest, quiet = time.monotonic() + timeout_s, None, 0
        while quiet < QUIET_S:
            if time.monotonic() > deadline:
                raise RuntimeError(f"runs still come after {timeout_s:g} s")
            time.sleep(1)
            run = self.call("runs", limit=1, all=True)["runs"]
            quiet, newest = (quiet + 1, newest) if run == newest else (0, run)

    # -- what it takes

    def rss_bytes(self) -> int:
        """Resident memory now."""
        assert self.process is not None
        now: int = psutil.Process(self.process.pid).memory_info().rss
        self._peak_bytes = max(self._peak_bytes, now)
        return now

    def peak_rss_bytes(self) -> int:
        """The most that was resident: the kernel's own mark on Linux, the most that was seen elsewhere."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status")
        if status.exists():
            (mark,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            return int(mark.split()[1]) * 1024
        return max(self._peak_bytes, self.rss_bytes())

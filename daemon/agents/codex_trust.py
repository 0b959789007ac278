"""Codex's trust in our hooks, read and given: silently it runs no hook that its person has not trusted.

Both go through `codex app-server`, as in its own interface; trust is bound to the content of each hook.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .agent_connection import ConnectError
from .programs import is_hook_of

TIMEOUT_S = 20.0
TRUSTED = "trusted"


@dataclass(frozen=True, slots=True)
class CodexTrust:
    """The number of our hooks in Codex's list, and of those that it trusts."""

    hooks: int
    trusted: int

    @property
    def is_whole(self) -> bool:
        """Return True if Codex will run every hook of ours."""
        return self.hooks > 0 and self.trusted == self.hooks


class AppServer:
    """A process of `codex app-server`, asked over its stdio and ended with the block. Raises ConnectError."""

    def __init__(self, executable: str, codex_home: Path, environ: Mapping[str, str]) -> None:
        self._command = [executable, "app-server"]
        # `app-server` could call our own hooks, which the last variable switches off.
        self._environ = {**environ, "CODEX_HOME": str(codex_home), "DREAMD_NO_HOOKS": "1"}
        self._folder = codex_home
        self._last_id = 0
        self._received = b""

    def __enter__(self) -> AppServer:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                cwd=self._folder,
            )
        except OSError as error:
            raise ConnectError(f"`{' '.join(self._command)}` cannot be started: {error.strerror}.") from None
        info = {"name": "dreamctl", "title": "dreamctl", "version": "1"}
        try:
            self.call("initialize", {"clientInfo": info})
            self._send({"jsonrpc": "2.0", "method": "initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return a method's result."""
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            message = self._receive(deadline)
            # Notifications and requests of the server come in between, and are not answered.
            if message.get("id") == self._last_id and "method" not in message:
                if "result" not in message:
                    raise ConnectError(f"Codex refused {method}: {message.get('error')}.")
                return message["result"]

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ConnectError("`codex app-server` ended at once.", "Does `codex` run?") from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ConnectError(f"`codex app-server` did not answer within {TIMEOUT_S:g} s.")
                piece = os.read(handle, 2**16)
                if not piece:
                    raise ConnectError("`codex app-server` ended before it answered.", "Does `codex` run?")
                self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        message = json.loads(line)
        return message if isinstance(message, dict) else {}


def trust_of(server: AppServer, cwd: Path) -> CodexTrust:
    """Return Codex's trust in our hooks."""
    hooks = _our_hooks(server, cwd)
    return CodexTrust(len(hooks), sum(hook.get("trustStatus") == TRUSTED for hook in hooks))


def give_trust(server: AppServer, cwd: Path) -> None:
    """Have Codex trust our hooks in their present form, and no others."""
    state = {hook["key"]: {"trusted_hash": hook["currentHash"], "enabled": True} for hook in _our_hooks(server, cwd)}
    edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
    server.call("config/batchWrite", {"edits": [edit]})


def _our_hooks(server: AppServer, cwd: Path) -> list[dict[str, Any]]:
    is_ours = is_hook_of("codex")
    listed = server.call("hooks/list", {"cwds": [str(cwd)]}).get("data", [])
    return [hook for folder in listed for hook in folder.get("hooks", []) if is_ours(hook)]

"""One question to the daemon and its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import __version__
from ...ipc.client import Client
from .terminal import Terminal

# Longer than any healthy answer takes, shorter than a person's patience.
ANSWER_TIMEOUT_S = 30.0


def ask(
    terminal: Terminal,
    method: str,
    params: dict[str, Any] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Any:
    """Return the daemon's answer, of the type that `ipc.answers` declares for the method. Ctrl-C takes it back."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    with Client(timeout_s=timeout_s, name=f"dreamctl {__version__}") as client:
        try:
            answer = client.call(method, given, on_progress)
        except KeyboardInterrupt:
            client.cancel()
            raise
        theirs = client.server.get("version", __version__)
        if theirs != __version__ and method != "stop":
            terminal.warn(
                f"the daemon that answers is {theirs}, this is {__version__}; "
                "to have them alike: `dreamctl stop`, then start it again"
            )
    return answer

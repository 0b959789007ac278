"""Codex's trust in our hooks: asked for, given if its person says so, and said."""

from __future__ import annotations

import os
import shutil

from ....ipc.client import ClientError
from ...agents.connect.connection import ConnectError, Connection
from ...agents.connect.trust import AppServer, Trust, give_trust, trust_of
from ..terminal import Terminal

UNTRUSTED = "Codex runs none of them until you trust them: start `codex` and say /hooks, or connect again with --trust"


def say_trust(trust: Trust | None, terminal: Terminal) -> None:
    """Print how many of our hooks Codex runs."""
    if trust is None:
        terminal.warn(f"`codex` was not found, so its trust could not be asked. {UNTRUSTED}")
        return
    said = f"{trust.trusted} of {trust.hooks} hooks are trusted"
    terminal.note(said) if trust.is_whole else terminal.warn(f"{said}. {UNTRUSTED}")


def ask_trust(connection: Connection, *, give: bool) -> Trust | None:
    """Return what Codex trusts, after giving it our hooks with `give`; None where `codex` is not to be found."""
    executable = shutil.which("codex")
    if executable is None:
        return None
    try:
        with AppServer(executable, connection.folder, os.environ) as server:
            if give:
                with connection.letting_it_write():
                    give_trust(server, connection.folder)
            return trust_of(server, connection.folder)
    except ConnectError as error:
        raise ClientError(f"The hooks are in place, and their trust is not known: {error}", error.hint) from error

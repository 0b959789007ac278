"""The place of the socket, for the daemon and for its thinnest client alike: no import that costs a millisecond."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# sun_path holds 104 bytes on macOS and 108 on Linux, the closing NUL among them; the smaller one holds everywhere.
MAX_SOCKET_PATH_BYTES = 103

# The variables that `default_socket_path` reads, but for HOME, which every program passes on.
SOCKET_VARIABLES = ("DREAMD_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")


def default_socket_path(environ: Mapping[str, str] | None = None) -> str:
    """Return `$DREAMD_SOCKET`, else `$XDG_RUNTIME_DIR/dreamd/dreamd.sock`, else one in the user's own state folder."""
    environ = os.environ if environ is None else environ
    if named := environ.get("DREAMD_SOCKET"):
        return named
    if (runtime := environ.get("XDG_RUNTIME_DIR", "")).startswith("/"):
        return f"{runtime}/dreamd/dreamd.sock"
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111  (pathlib is a tenth of a thin command's time)
    if sys.platform == "darwin":
        return f"{home}/Library/Application Support/dreamd/dreamd.sock"
    state = environ.get("XDG_STATE_HOME", "")
    return f"{state if state.startswith('/') else home + '/.local/state'}/dreamd/dreamd.sock"


def path_of_lost(socket_path: str) -> str:
    """Return the file in which hooks note that they got no answer from the socket."""
    return f"{socket_path}.lost"


def too_long(path: str) -> str:
    """Return a complaint about a path that is too long for a socket; "" for one that is not."""
    if (size := len(os.fsencode(path))) <= MAX_SOCKET_PATH_BYTES:
        return ""
    return f"the socket's path has {size} bytes and the system allows {MAX_SOCKET_PATH_BYTES}: {path}"

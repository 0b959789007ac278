"""The living process: settings, wiring, schedule, supervision, file watching, the commands."""

from __future__ import annotations


class HintedError(Exception):
    """The base of the daemon's errors. `hint` is a sentence that says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

"""The output of a command: answers to stdout, everything else to stderr, or one JSON document."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..formatting import BOLD, DIM, RED, YELLOW, Look, sentence

# Characters that JSON does not escape and that control a terminal.
_COMMANDS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Terminal:
    """The standard streams, formatted for a person or for a program."""

    def __init__(self, as_json: bool = False, now: datetime | None = None) -> None:
        self.as_json = as_json
        self.user: str | None = None
        """The user for whom a command asks, None for the owner."""
        self.look = Look(_width(), _wants_colour(sys.stdout), now or datetime.now().astimezone())
        self._err = Look(self.look.width, _wants_colour(sys.stderr), self.look.now)

    @property
    def is_live(self) -> bool:
        """True if stderr is a terminal that can redraw lines, and no JSON was asked for."""
        return not self.as_json and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def document(self, answer: Mapping[str, object]) -> None:
        """Print the answer as one JSON document."""
        _write_json(answer, sys.stdout)

    def report(self, answer: Mapping[str, object], lines: Iterable[str]) -> None:
        """Print the answer, as a document or in words."""
        if self.as_json:
            self.document(answer)
        else:
            self.lines(lines)

    def lines(self, lines: Iterable[str]) -> None:
        """Print the answer in words."""
        _write("\n".join(lines) + "\n", sys.stdout)

    def flush(self) -> None:
        """Flush stdout."""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a remark, but not beside JSON."""
        if not self.as_json:
            _write(self._err.paint(sentence(text), DIM) + "\n", sys.stderr)

    def warn(self, text: str) -> None:
        """Print a warning, but not beside JSON."""
        if not self.as_json:
            _write(self._err.paint(sentence(text), YELLOW) + "\n", sys.stderr)

    def fail(self, message: str, hint: str = "", code: int = 0) -> None:
        """Print an error, and a hint what to do."""
        sys.stdout.flush()
        if self.as_json:
            _write_json({"error": {"code": code, "message": message, "hint": hint}}, sys.stderr)
            return
        text = self._err.paint("dreamctl:", BOLD, RED) + " " + sentence(message)
        _write(text + (f"\n{sentence(hint)}" if hint else "") + "\n", sys.stderr)


def _write(text: str, stream: Any) -> None:
    try:
        stream.write(text)
    # A terminal of another encoding shows a question mark instead of failing.
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))


def _write_json(answer: Mapping[str, object], stream: Any) -> None:
    import json

    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(answer, ensure_ascii=not utf8, indent=2 if stream.isatty() else None)
    if stream.isatty():
        text = _COMMANDS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)
    _write(text + "\n", stream)


def _width() -> int:
    """Return the terminal's width, 80 without a terminal."""
    if (given := os.environ.get("COLUMNS", "")).isdigit() and int(given) > 0:
        return max(int(given), 40)
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, 40)
    except (OSError, ValueError):
        return 80


def _wants_colour(stream: Any) -> bool:
    """Return True if a stream is to have colours; any non-empty NO_COLOR turns them off (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def edited_text(text: str, terminal: Terminal) -> str | None:
    """Return a text as edited in the person's editor; None if it is unchanged, or the editor failed."""
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="dreamctl-") as folder:
        file = Path(folder, "memory.md")
        file.write_text(f"{text}\n", encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
            edited = file.read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            terminal.warn(f"{editor} failed: {error}")
            return None
    return edited if edited and edited != text.strip() else None

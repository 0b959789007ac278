"""What a path holds: its format, told by its content, and every file of a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from . import beam, chat_jsonl, claude_code, locomo, markdown
from .lines import json_document, json_lines
from .model import Item, Reader, Skipped, UnsupportedFile

FORMATS: Mapping[str, Reader] = {
    "claude-code": claude_code.read,
    "chat-jsonl": chat_jsonl.read,
    "locomo": locomo.read,
    "beam": beam.read,
    "markdown": markdown.read,
}
SUPPORTED = (
    "Supported are Claude Code's session files, chats with one JSON message a line (role, and content or text), "
    "LoCoMo, BEAM, and markdown notes; name one with --format " + ", ".join(FORMATS) + "."
)

_LINES_TRIED = 50
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"}) | markdown.SUFFIXES
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


def read(path: Path, format_name: str | None = None) -> Iterator[Item]:
    """Read a file, or every file of a folder in the order of their names. Raises UnsupportedFile at once.

    Of a folder, files of other kinds are passed over and told of in a few Skipped at the end.
    """
    if format_name is not None and format_name not in FORMATS:
        raise UnsupportedFile(f"There is no format {format_name}.", SUPPORTED)
    if path.is_dir():
        return _folder(path, format_name)
    return _file(path, FORMATS[format_name or guess(path)])


def guess(path: Path) -> str:
    """The name of a file's format, by its content. Raises UnsupportedFile, which names the file."""
    try:
        if not path.exists():
            raise UnsupportedFile(f"There is no file {path}.", "Check the spelling; relative paths are yours.")
        if not path.is_file():
            raise UnsupportedFile(f"{path} is no regular file.", SUPPORTED)
        found = _by_content(path)
    except OSError as error:
        raise UnsupportedFile(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if found is None:
        raise UnsupportedFile(f"{path} is of no format that can be imported.", SUPPORTED)
    return found


def _by_content(path: Path) -> str | None:
    if path.suffix.lower() in markdown.SUFFIXES:
        return "markdown"
    if path.stat().st_size == 0 and path.suffix.lower() in _SUFFIXES:
        return "chat-jsonl"  # of which there is nothing to take, which is no error
    lines = islice(json_lines(path), _LINES_TRIED)
    values = [line[1] for line in lines if not isinstance(line, Skipped)]
    if any(claude_code.recognises(value) for value in values):
        return "claude-code"
    if any(chat_jsonl.recognises(value) for value in values):
        return "chat-jsonl"
    return _by_document(path)


def _by_document(path: Path) -> str | None:
    try:
        document = json_document(path)
    except ValueError:
        return None
    if locomo.recognises(document):
        return "locomo"
    return "beam" if beam.recognises(document) else None


def _file(path: Path, reader: Reader) -> Iterator[Item]:
    try:
        yield from reader(path)
    except OSError as error:
        yield Skipped(path, None, f"cannot be read: {error.strerror}")


def _folder(folder: Path, format_name: str | None) -> Iterator[Item]:
    """What is left out is counted by reason, so that a thousand pictures are one line."""
    left_out: Counter[str] = Counter()
    for path in _walk(folder, left_out):
        try:
            items = _file(path, FORMATS[format_name or guess(path)])
        except UnsupportedFile:
            left_out[f"no conversation or note that is known ({path.suffix})"] += 1
            continue
        for item in items:
            if isinstance(item, Skipped) and item.line is None:
                left_out[item.reason] += 1
            else:
                yield item
    for reason, count in sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0])):
        yield Skipped(folder, None, f"{count} × {reason}")


def _walk(folder: Path, left_out: Counter[str]) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        entered = [name for name in folders if not name.startswith(".") and name not in _NOT_ENTERED]
        if len(entered) < len(folders):
            left_out["folders not entered: hidden, or other people's code"] += len(folders) - len(entered)
        folders[:] = sorted(entered)
        for name in sorted(files):
            path = Path(root, name)
            if name.startswith(".") or path.suffix.lower() not in _SUFFIXES:
                left_out["files of another kind"] += 1
            elif not path.is_file():
                left_out["no regular files"] += 1
            else:
                yield path

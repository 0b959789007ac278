"""Detection of a file's format by its content, of unsupported ones too, and reading of every file of a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...store import beginning, opened
from . import exports
from .formats import chat_jsonl, chatgpt, claude_ai, claude_code, codex, gemini, markdown, opencode
from .items import UNREADABLE, Item, Reader, SessionRead, Skipped, UnreadableFile, UnsupportedFile
from .json_lines import json_document, json_lines

FORMATS: Mapping[str, Reader] = {
    "claude-code": claude_code.read,
    "codex": codex.read,
    "gemini": gemini.read,
    "opencode": opencode.read,
    "chatgpt": chatgpt.read,
    "claude-ai": claude_ai.read,
    "chat-jsonl": chat_jsonl.read,
    "markdown": markdown.read,
}
SUPPORTED = (
    "Supported are the sessions of Claude Code, Codex, Gemini CLI and opencode, the exports of ChatGPT and claude.ai, "
    "chats with one JSON message a line (role, and content or text), and markdown notes; name one with "
    "--format " + ", ".join(FORMATS) + "."
)

_BY_LINE: Mapping[str, Callable[[object], bool]] = {
    "claude-code": claude_code.recognises,
    "codex": codex.recognises,
    "gemini": gemini.recognises,
}
_LINES_TRIED = 50
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"}) | markdown.SUFFIXES
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
BESIDE_NOTES = "a conversation beside notes, which is not taken unless its format is named (--format)"
LEADS_OUT = "a link that leads out of the folder, which is not followed"


def read(path: Path, format_name: str | None = None, own: Collection[Path] = ()) -> Iterator[Item]:
    """Read a file, or every file of a folder in the order of their names. Raises UnsupportedFile at once.

    Of a folder, files of other kinds are passed over and counted in a few Skipped at the end, and no link leads out of
    it. A link that is named itself is its target. `own` are the folders in which agents keep their sessions: elsewhere
    a conversation beside or below notes is taken only where its format is named: their author may have written it.
    """
    if format_name is not None and format_name not in FORMATS:
        raise UnsupportedFile(f"There is no format {format_name}.", SUPPORTED)
    real = _readable(path)
    if real.is_dir():
        return _folder(real, format_name, [folder.resolve() for folder in own])
    return FORMATS[format_name or detect_format(real)](real)


def detect_format(path: Path) -> str:
    """Return the name of a file's format, by its content. Raises UnsupportedFile, which names the file."""
    try:
        found = _by_content(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if isinstance(found, Foreign):
        raise UnsupportedFile(f"{path} is {found.name}; dreamd cannot read those yet.", found.instead, found.names)
    if found is None:
        raise UnsupportedFile(f"{path} is of no format that can be imported.", SUPPORTED)
    return found


def _readable(path: Path) -> Path:
    """Return where a named path leads. Raises UnsupportedFile where nothing can be read."""
    try:
        real = path.resolve(strict=True)
        if real.is_dir():
            os.scandir(real).close()
        elif real.is_file():
            opened(real).close()
        else:
            raise UnsupportedFile(f"{path} is no regular file.", SUPPORTED)
    except FileNotFoundError as error:
        raise UnreadableFile(f"There is no file {path}.", "Check the spelling.") from error
    except (OSError, RuntimeError) as error:
        raise _unreadable(path, error) from error
    return real


def _unreadable(path: Path, error: Exception) -> UnreadableFile:
    why = getattr(error, "strerror", None) or "its links go round in a circle"
    return UnreadableFile(f"{path} cannot be read: {why}.", "Check its permissions.")


def _by_content(path: Path) -> str | Foreign | None:
    suffix = path.suffix.lower()
    if suffix in markdown.SUFFIXES:
        return "markdown"
    if suffix in _SUFFIXES and path.stat().st_size == 0:
        return "chat-jsonl"  # of which there is nothing to take, which is no error
    lines = islice(json_lines(path), _LINES_TRIED)
    values = [line[1] for line in lines if not isinstance(line, Skipped)]
    for name, recognises in _BY_LINE.items():
        if any(recognises(value) for value in values):
            return name
    if foreign := next((found for value in values if (found := by_line(value))), None):
        return foreign
    if any(chat_jsonl.recognises(value) for value in values):
        return "chat-jsonl"
    if not values and opencode.is_database(path):
        return "opencode"
    return exports.kind_of(path) or _by_document(path) or by_beginning(path)


def _by_document(path: Path) -> str | Foreign | None:
    try:
        document = json_document(path)
    except ValueError:
        return None
    if gemini.recognises(document):
        return "gemini"
    if opencode.recognises(document) or opencode.is_piece(document):
        return "opencode"
    if chatgpt.recognises(document):
        return "chatgpt"
    if claude_ai.recognises(document):
        return "claude-ai"
    return by_document(document)


def _folder(folder: Path, format_name: str | None, own: Collection[Path]) -> Iterator[Item]:
    """Read what is in a folder. What is left out is counted by reason, so that a thousand pictures are one line."""
    left_out: Counter[str] = Counter()
    with_notes = {
        path.parent
        for path in _walk(folder, Counter())
        if isinstance(path, Path) and path.suffix.lower() in markdown.SUFFIXES
    }
    for path in _walk(folder, left_out):
        if isinstance(path, Skipped):
            yield path
            continue
        is_named = format_name is not None or any(path.is_relative_to(one) for one in own)
        try:
            name = format_name or detect_format(path)
            if name != "markdown" and not is_named and not with_notes.isdisjoint(path.parents):
                left_out[BESIDE_NOTES] += 1
                continue
            for item in FORMATS[name](path):
                if isinstance(item, SessionRead) and not is_named:
                    item = replace(item, found_in=path)
                if isinstance(item, Skipped) and item.line is None:
                    left_out[item.reason] += 1
                else:
                    yield item
        except UnreadableFile as error:
            yield Skipped(path, None, str(error))
        except UnsupportedFile as error:
            kinds = f"{error.kinds}, which dreamd cannot read yet" if error.kinds else ""
            left_out[kinds or f"no conversation or note that is known ({path.suffix})"] += 1
        except OSError as error:
            yield Skipped(path, None, f"cannot be read: {error.strerror}")
        except Exception as error:  # a reader's on one file is that file's: the others are read
            yield Skipped(path, None, f"{UNREADABLE}: {type(error).__name__}")
    for reason, count in sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0])):
        yield Skipped(folder, None, f"{count} × {reason}")


def _walk(root: Path, left_out: Counter[str]) -> Iterator[Path | Skipped]:
    """Yield every file once, by its real path, and every link that leads out as Skipped."""
    seen: set[Path] = set()
    for folder, folders, files in os.walk(root, onerror=lambda _: left_out.update(["folders that cannot be read"])):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (Skipped(Path(folder, name), None, LEADS_OUT) for name in links if not _inside(root, folder, name))
        plain = [name for name in folders if name not in links]
        entered = [name for name in plain if not name.startswith(".") and name not in _NOT_ENTERED]
        if len(entered) < len(plain):
            left_out["folders not entered: hidden, or other people's code"] += len(plain) - len(entered)
        folders[:] = sorted(entered)
        for name in sorted(files):
            yield from _file(root, folder, name, seen, left_out)


def _file(root: Path, folder: str, name: str, seen: set[Path], left_out: Counter[str]) -> Iterator[Path | Skipped]:
    """Yield a file where it is to be read, by its real path."""
    path = Path(folder, name)
    if name.startswith(".") or (path.suffix.lower() not in _SUFFIXES and not opencode.DATABASE_NAME.fullmatch(name)):
        kind = by_name(path)
        left_out[f"{kind.names}, which dreamd cannot read yet" if kind else "files of another kind"] += 1
    elif (real := _inside(root, folder, name)) is None:
        yield Skipped(path, None, LEADS_OUT)
    elif not real.is_file():
        left_out["no regular files"] += 1
    elif real not in seen:
        seen.add(real)
        yield real


def _inside(root: Path, folder: str, name: str) -> Path | None:
    """Return where an entry really lies; None where that is not under the root. The folder itself is no link."""
    path = Path(folder, name)
    if not path.is_symlink():
        return path
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a loop
        return None
    return real if real.is_relative_to(root) else None


_SNIFFED_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format by its name; `instead` says what can be done, where something can."""

    name: str
    names: str
    instead: str = ""


CODEX = Foreign("a Codex rollout of 2025", "Codex rollouts of 2025")
GEMINI = Foreign("a Gemini CLI log", "Gemini CLI logs")
CURSOR_DB = Foreign("a Cursor database", "Cursor databases")
DATABASE = Foreign("an SQLite database", "SQLite databases")
ARCHIVE = Foreign("an archive", "archives", "Unpack it, and import the folder.")


def by_name(path: Path) -> Foreign | None:
    """Recognise a file by its name alone."""
    return CURSOR_DB if path.name.lower() == "state.vscdb" else None


def by_line(value: object) -> Foreign | None:
    """Recognise a file by one of its lines."""
    return CODEX if isinstance(value, dict) and _is_codex(value) else None


def by_document(document: object) -> Foreign | None:
    """Recognise a file by its whole value."""
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return None
    if isinstance(document, list) and "role" in first and isinstance(first.get("parts"), list):
        return GEMINI
    if isinstance(document, list) and {"sessionId", "messageId", "message"} <= first.keys():
        return GEMINI
    return by_line(first)


def by_beginning(path: Path) -> Foreign | None:
    """Recognise a file by its first bytes: one that is no JSON, or too long to be read whole."""
    head = beginning(path, _SNIFFED_BYTES)
    if head.startswith(b"SQLite format 3\0"):
        return by_name(path) or DATABASE
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b")):
        return ARCHIVE
    return None


def _is_codex(value: Mapping[str, Any]) -> bool:
    """Say whether it is a line of the first rollouts, which began with a line of instructions."""
    return value.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= value.keys()

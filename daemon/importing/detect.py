"""Detection of a file's format by its content, of unsupported ones too, and reading of every file of a folder."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ...store import beginning, extensions, opened
from . import exports
from .foreign_database import HEADER, has_tables
from .formats import (
    chat_jsonl,
    chatgpt,
    claude_ai,
    claude_code,
    cline,
    codex,
    copilot,
    cursor,
    gemini,
    goose,
    markdown,
    openclaw,
    opencode,
    qwen,
)
from .items import UNREADABLE, Item, Reader, SessionRead, Skipped, UnreadableFile, UnsupportedFile
from .json_lines import LineReading, json_document, json_lines

FORMATS: dict[str, Reader] = {
    "claude-code": claude_code.read,
    "codex": codex.read,
    "gemini": gemini.read,
    "opencode": opencode.read,
    "copilot": copilot.read,
    "cursor": cursor.read,
    "cline": cline.read,
    "qwen": qwen.read,
    "goose": goose.read,
    "openclaw": openclaw.read,
    "chatgpt": chatgpt.read,
    "claude-ai": claude_ai.read,
    "chat-jsonl": chat_jsonl.read,
    "markdown": markdown.read,
}
SUPPORTED = (
    "Supported are the sessions of Claude Code, Codex, Gemini CLI, opencode, Copilot CLI, Cursor, Cline, Qwen Code, "
    "Goose and OpenClaw, the exports of ChatGPT and claude.ai, chats with one JSON message a line (role, and content "
    "or text), and markdown notes; name one with --format " + ", ".join(FORMATS) + "."
)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """An agent's transcript that grows by lines: how a line is recognised, and how its reading is made."""

    recognises: Callable[[object], bool]
    reading: Callable[[Path], LineReading]


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """An agent's database of sessions. Its changes are numbered: by instants in milliseconds of its clock, or by rows.

    `changed_since` a number are those that were made then or later, and `overlap` is how far before the last number
    that was read a change may still be seen.
    """

    file_name: re.Pattern[str]
    tables: frozenset[str]
    changed_since: Callable[[Path, int], Iterator[SessionRead | Skipped]]
    latest_change: Callable[[Path, int], int]
    counts: Callable[[Path], tuple[int, int]]
    overlap: int


# Qwen Code's lines are Claude Code's with other messages: they are tried first.
BY_LINE: Mapping[str, LineFormat] = {
    "qwen": LineFormat(qwen.recognises, qwen.QwenReading),
    "claude-code": LineFormat(claude_code.recognises, claude_code.ClaudeCodeReading),
    "codex": LineFormat(codex.recognises, codex.CodexReading),
    "gemini": LineFormat(gemini.recognises, gemini.GeminiReading),
    "copilot": LineFormat(copilot.recognises, copilot.CopilotReading),
    "openclaw": LineFormat(openclaw.recognises, openclaw.OpenclawReading),
    "cursor": LineFormat(cursor.recognises, cursor.CursorReading),
    "goose": LineFormat(goose.recognises, goose.GooseReading),
}
DATABASES: Mapping[str, DatabaseFormat] = {
    name: DatabaseFormat(
        module.DATABASE_NAME,
        module.TABLES,
        module.changed_since,
        module.latest_change,
        module.counts,
        module.OVERLAP,
    )
    for name, module in (("opencode", opencode), ("cursor", cursor), ("goose", goose), ("openclaw", openclaw))
}
# Agents that write a session as one value, anew with each message: whether a file's name is that of one.
BY_VALUE: Mapping[str, Callable[[str], bool]] = {"cline": cline.is_session_file}

_BY_DOCUMENT: Mapping[str, Callable[[object], bool]] = {
    "gemini": gemini.recognises,
    "opencode": lambda document: opencode.recognises(document) or opencode.is_piece(document),
    "cline": cline.recognises,
    "chatgpt": chatgpt.recognises,
    "claude-ai": claude_ai.recognises,
}
# The ending of files of lines.
LINES = ".jsonl"
_LINES_TRIED = 50
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"}) | markdown.SUFFIXES
_NOTES_TO_LEARN = markdown.SUFFIXES | {".txt", ".text"}
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
BESIDE_NOTES = "a conversation beside notes, which is not taken unless its format is named (--format)"
LEADS_OUT = "a link that leads out of the folder, which is not followed"


@extensions.implements
def importers() -> dict[str, Reader]:
    """Return our own formats by name."""
    return FORMATS


def formats() -> Mapping[str, Reader]:
    """Return the formats by name, those of extensions too."""
    known = extensions.current()
    known.add_own("formats", sys.modules[__name__])
    return known.table("importers")


def read(
    path: Path, format_name: str | None = None, own: Collection[Path] = (), *, to_learn: bool = False
) -> Iterator[Item]:
    """Read a file, or every file of a folder by name. Raises UnsupportedFile before the first item.

    Files of other kinds in a folder are counted in a few Skipped at the end, and no link leads out of it; a named link
    stands for its target. `own` are the folders in which agents keep their sessions. Elsewhere a conversation beside
    or below notes is read only if its format is named: the notes' author may have written it. `to_learn`: notes, and
    plain text with them, come as sessions.
    """
    if format_name is not None and format_name not in formats():
        raise UnsupportedFile(f"There is no format {format_name}.", SUPPORTED)
    real = _readable(path)
    if real.is_dir():
        return _folder(real, format_name, [folder.resolve() for folder in own], to_learn)
    if to_learn and format_name in (None, "markdown") and real.suffix.lower() in _NOTES_TO_LEARN:
        return markdown.read_entries(real)
    return formats()[format_name or detect_format(real)](real)


def detect_format(path: Path) -> str:
    """Return the name of a file's format, by its content. Raises UnsupportedFile."""
    try:
        found = extensions.current().recognised(path) or _by_content(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if isinstance(found, _UnsupportedFormat):
        raise UnsupportedFile(f"{path} is {found.name}; dreamd cannot read those yet.", found.instead, found.names)
    if found is None:
        raise UnsupportedFile(f"{path} is of no format that can be imported.", SUPPORTED)
    return found


def database_named(path: Path) -> DatabaseFormat | None:
    """Return the format of a database, by its file's name alone; None for another file."""
    return next((one for one in DATABASES.values() if one.file_name.fullmatch(path.name)), None)


def agents_writing(file_name: str) -> frozenset[str]:
    """Return the agents that give the files of their sessions such a name, without opening one."""
    found = {name for name, one in DATABASES.items() if one.file_name.fullmatch(file_name)}
    found |= {name for name, is_one in BY_VALUE.items() if is_one(file_name)}
    return frozenset(found or (BY_LINE if file_name.lower().endswith(LINES) else ()))


def _readable(path: Path) -> Path:
    """Return the real path of a named path. Raises UnsupportedFile if it cannot be read."""
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


def _by_content(path: Path) -> str | _UnsupportedFormat | None:
    suffix = path.suffix.lower()
    if suffix in markdown.SUFFIXES:
        return "markdown"
    if suffix in _SUFFIXES and path.stat().st_size == 0:
        return "chat-jsonl"  # an empty file is no error
    if named := next((name for name, is_one in BY_VALUE.items() if is_one(path.name)), None):
        return named
    lines = islice(json_lines(path), _LINES_TRIED)
    values = [line[1] for line in lines if not isinstance(line, Skipped)]
    for name, one in BY_LINE.items():
        if any(one.recognises(value) for value in values):
            return name
    if unsupported := next((found for value in values if (found := _unsupported_line(value))), None):
        return unsupported
    # The last of the line formats: its messages are so general that others match too.
    if any(chat_jsonl.recognises(value) for value in values):
        return "chat-jsonl"
    if not values and (kind := _database_format(path)):
        return kind
    return exports.kind_of(path) or _by_document(path) or _unsupported_bytes(path)


def _database_format(path: Path) -> str | None:
    """Return the format of a database, by its tables."""
    try:
        return next((name for name, one in DATABASES.items() if has_tables(path, one.tables)), None)
    except OSError:
        return None


def _by_document(path: Path) -> str | _UnsupportedFormat | None:
    try:
        document = json_document(path)
    except ValueError:
        return None
    found = (name for name, recognises in _BY_DOCUMENT.items() if recognises(document))
    return next(found, None) or _unsupported_document(document)


def _folder(folder: Path, format_name: str | None, own: Collection[Path], to_learn: bool) -> Iterator[Item]:
    """Read the files of a folder. Files left out are counted by reason, so that a thousand pictures are one line."""
    left_out: Counter[str] = Counter()
    # Known before the first file is read: notes may come after a conversation, by name.
    with_notes = {
        path.parent
        for path in _walk(folder, Counter())
        if isinstance(path, Path) and path.suffix.lower() in markdown.SUFFIXES
    }
    for path in _walk(folder, left_out, _SUFFIXES | (_NOTES_TO_LEARN if to_learn else frozenset())):
        if isinstance(path, Skipped):
            yield path
            continue
        is_named = format_name is not None or any(path.is_relative_to(one) for one in own)
        try:
            is_note = to_learn and format_name is None and path.suffix.lower() in _NOTES_TO_LEARN
            name = format_name or ("markdown" if is_note else detect_format(path))
            # A repository with notes may hold a conversation that its author wrote for this purpose.
            if name != "markdown" and not is_named and not with_notes.isdisjoint(path.parents):
                left_out[BESIDE_NOTES] += 1
                continue
            for item in markdown.read_entries(path) if to_learn and name == "markdown" else formats()[name](path):
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
        except Exception as error:  # a reader's error concerns one file: the others are read
            yield Skipped(path, None, f"{UNREADABLE}: {type(error).__name__}")
    for reason, count in sorted(left_out.items(), key=lambda entry: (-entry[1], entry[0])):
        yield Skipped(folder, None, f"{count} × {reason}")


def _walk(root: Path, left_out: Counter[str], suffixes: Collection[str] = _SUFFIXES) -> Iterator[Path | Skipped]:
    """Yield every file once, by its real path, and every link that leads out of the folder as Skipped."""
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
            yield from _file(root, folder, name, seen, left_out, suffixes)


def _file(
    root: Path, folder: str, name: str, seen: set[Path], left_out: Counter[str], suffixes: Collection[str]
) -> Iterator[Path | Skipped]:
    """Yield a file to be read, by its real path."""
    path = Path(folder, name)
    if name.startswith(".") or (path.suffix.lower() not in suffixes and database_named(path) is None):
        left_out["files of another kind"] += 1
    elif (real := _inside(root, folder, name)) is None:
        yield Skipped(path, None, LEADS_OUT)
    elif not real.is_file():
        left_out["no regular files"] += 1
    elif real not in seen:
        seen.add(real)
        yield real


def _inside(root: Path, folder: str, name: str) -> Path | None:
    """Return the real path of an entry, None if it is outside the root. The folder itself is no link."""
    path = Path(folder, name)
    if not path.is_symlink():
        return path
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a loop
        return None
    return real if real.is_relative_to(root) else None


# ---- formats that are recognised and cannot be read yet, so that the person is told what was left out

_SNIFFED_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class _UnsupportedFormat:
    """A known format that cannot be read yet: its name, its plural, and another way to import it, if there is one."""

    name: str
    names: str
    instead: str = ""


CODEX = _UnsupportedFormat("a Codex rollout of 2025", "Codex rollouts of 2025")
GEMINI = _UnsupportedFormat("a Gemini CLI log", "Gemini CLI logs")
DATABASE = _UnsupportedFormat("an SQLite database", "SQLite databases")
ARCHIVE = _UnsupportedFormat("an archive", "archives", "Unpack it, and import the folder.")


def _unsupported_line(value: object) -> _UnsupportedFormat | None:
    """Recognise a file by one of its lines: the first rollouts began with a line of instructions."""
    if not isinstance(value, dict):
        return None
    is_codex = value.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= value.keys()
    return CODEX if is_codex else None


def _unsupported_document(document: object) -> _UnsupportedFormat | None:
    """Recognise a file by its whole value."""
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return None
    is_message = "role" in first and isinstance(first.get("parts"), list)
    if isinstance(document, list) and (is_message or {"sessionId", "messageId", "message"} <= first.keys()):
        return GEMINI
    return _unsupported_line(first)


def _unsupported_bytes(path: Path) -> _UnsupportedFormat | None:
    """Recognise a file by its first bytes: one that is no JSON, or too long to be read whole."""
    head = beginning(path, _SNIFFED_BYTES)
    if head.startswith(HEADER):
        return DATABASE
    if head.startswith((exports.ARCHIVE, b"\x1f\x8b")):
        return ARCHIVE
    return None

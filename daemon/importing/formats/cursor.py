"""Cursor's sessions: those of the editor in its database (`state.vscdb`), and of both in `agent-transcripts/ID.jsonl`.

The database has times and the results of calls; a transcript has neither, and no ids. The same session may be in
both, so a turn is named by its words and the words that were said before it: read from either place it is one turn.
Left out: thinking, sub-agents' sessions, the program's texts round a prompt, and answers of our own memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ....store import beginning
from ....store.roles import Role
from ..foreign_database import DAY_MS, HEADER, LONGEST_BYTES, ForeignDatabase, json_object
from ..items import SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, guarded, read_through
from ..sanitize import element, tidy, without_elements
from ..turns import Conversation

AGENT = "cursor"
DATABASE_NAME = re.compile(r"state\.vscdb")
TABLES = frozenset({"cursorDiskKV"})
# A session's time of change is set while an answer is written, and not always at its end.
OVERLAP = 10 * 60 * 1000

_WRITTEN_BY_THE_PROGRAM = (
    *("system_reminder", "system-reminder", "system_notification", "timestamp", "attached_files", "open_and_recently"),
    *("additional_data", "user_info", "rules", "git_status", "agent_transcripts", "hook_context"),
)
_TIMESTAMP = re.compile(r"\b(\w{3} \d{1,2}, \d{4}), (\d{1,2}:\d\d [AP]M) \(UTC([+-]\d{1,2})?(?::(\d\d))?\)")
_WORKSPACE = re.compile(rb"workspacePath=([^\s\"]+)")
_LOG_BYTES = 2**16
_DEEPEST = 24
_NAME_DIGITS = 16
_USER = 1
# Of a call that has ended.
_ENDED = frozenset({"completed", "success", "error", "cancelled", "rejected"})
_CONTROL = frozenset({"turn_ended", "turn_started", "error", "status", "metadata"})


def recognises(value: object) -> bool:
    """Return True if a line's value is a message of a transcript."""
    match value:
        case {"role": "user" | "assistant", "message": {"content": list() | str()}, **others}:
            return "type" not in others and "uuid" not in others
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of a database, the oldest first, or that of a transcript."""
    if beginning(path, len(HEADER)) != HEADER:
        yield from read_through(path, CursorReading(path))
        return
    try:
        yield from changed_since(path, 0)
    except OSError as error:
        yield Skipped(path, None, str(error.strerror))


class _Session:
    """A session whose turns are named by their words: see the module's docstring."""

    def __init__(self, path: Path) -> None:
        self.talk = Conversation(AGENT, path)
        self._before = ""
        self._noted: Counter[str] = Counter()

    def says(self, role: Role, text: str, at: object) -> Iterator[SessionRead]:
        """Add a text of a speaker."""
        if text := tidy(text):
            name = _hashed(self._before, role.value, text)
            self._before = text
            self._noted.clear()
            yield from self.talk.add(role, text, at, name)

    def calls(
        self, name: object, arguments: object, at: object, call_id: object, result: tuple[str, bool] | None = None
    ) -> Iterator[SessionRead]:
        """Add the note of a call and, where it is known, of its result."""
        note = self.talk.called(name, arguments, call_id)
        self._noted[note] += 1
        named = f"{_hashed(self._before, '', note)}/{self._noted[note]}"
        yield from self.talk.add(Role.ASSISTANT, note, at, named)
        if result is not None:
            text, is_error = result
            answer = self.talk.calls.answered(call_id, text, is_error=is_error)
            yield from self.talk.add(Role.TOOL, answer, at, f"{named}/result")


def _hashed(*parts: str) -> str:
    plain = "\0".join(" ".join(part.split()) for part in parts)
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:_NAME_DIGITS]


def _of_person(text: str) -> str:
    """Return a person's words without the program's texts round them."""
    asked = element(text, "user_query")
    return without_elements(text, _WRITTEN_BY_THE_PROGRAM) if asked is None else asked


# ---- transcripts


class CursorReading:
    """The state in the middle of a transcript."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = _Session(path)
        self._at: datetime | None = None
        talk = self._session.talk
        talk.given = path.stem
        if "agent-transcripts" in path.parts:
            talk.folder = path.parents[len(path.parts) - path.parts.index("agent-transcripts") - 1]
            talk.cwd = _folder_of_project(talk.folder)
        if path.parent.name == "subagents":
            talk.left_out = SUB_AGENT

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not recognises(value):
            if not (isinstance(value, dict) and value.get("type") in _CONTROL):
                yield self._session.talk.unknown(number, "not a line of Cursor: no role and message")
            return
        content = value["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else dicts_in(content)
        for place, block in enumerate(blocks):
            match block:
                case {"type": "text", "text": str(text)} if value["role"] == "user":
                    self._at = _time_in(text) or self._at
                    yield from self._session.says(Role.USER, _of_person(text), self._when())
                case {"type": "text", "text": str(text)}:
                    yield from self._session.says(Role.ASSISTANT, text, self._when())
                case {"type": "tool_use", "name": name}:
                    call_id = f"{number}/{place}"
                    yield from self._session.calls(name, block.get("input"), self._when(), call_id)

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        return self._session.talk.rest()

    def _when(self) -> object:
        """Return the time of the last prompt that says it, else that of the file's last change."""
        return self._at.isoformat() if self._at else self._path.stat().st_mtime


def _time_in(text: str) -> datetime | None:
    """Return the instant that the program wrote before a prompt: `Tuesday, Jul 28, 2026, 12:06 PM (UTC+2)`."""
    found = _TIMESTAMP.search(element(text, "timestamp") or "")
    if found is None:
        return None
    day, time, hours, minutes = found.groups()
    try:
        moment = datetime.strptime(f"{day} {time}", "%b %d, %Y %I:%M %p")
        offset = timedelta(
            hours=int(hours or 0), minutes=int(minutes or 0) * (-1 if (hours or "").startswith("-") else 1)
        )
        return moment.replace(tzinfo=timezone(offset)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _folder_of_project(project: Path) -> str | None:
    """Return the folder that a project's sessions run in: from the program's own notes, else by its name."""
    try:
        trusted = json_object(beginning(project / ".workspace-trusted", _LOG_BYTES)).get("workspacePath")
        if isinstance(trusted, str) and trusted:
            return trusted
    except OSError:
        pass
    try:
        if found := _WORKSPACE.findall(beginning(project / "worker.log", _LOG_BYTES)):
            return os.fsdecode(found[-1])
    except OSError:
        pass
    return _folder_named(project.name)


def _folder_named(encoded: str) -> str | None:
    """Return the folder of this machine that is meant by a path with hyphens for all but letters and digits."""

    def look(folder: Path, rest: str, depth: int) -> str | None:
        try:
            names = [one.name for one in os.scandir(folder) if one.is_dir(follow_symlinks=False)] if depth else []
        except OSError:
            return None
        for name in sorted(names):
            written = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
            if written and rest == written:
                return str(folder / name)
            if written and rest.startswith(f"{written}-"):
                found = look(folder / name, rest[len(written) + 1 :], depth - 1)
                if found:
                    return found
        return None

    return look(Path("/"), encoded.strip("-"), _DEEPEST)


# ---- the database


def changed_since(path: Path, since_ms: int) -> Iterator[SessionRead | Skipped]:
    """Yield the sessions that changed since an instant. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        for given in _changed(database, since_ms):
            yield from guarded(_session_of(database, given, path), path)


def latest_change(path: Path, now_ms: int) -> int:
    """Return the instant of the latest change, 0 for none. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        times = [at for at, _ in _sessions(database) if at <= now_ms + DAY_MS]
    return max(times, default=0)


def counts(path: Path) -> tuple[int, int]:
    """Return the numbers of sessions and of messages. Raises OSError where the database cannot be read now."""
    sql = "SELECT count(*) FROM cursorDiskKV WHERE key >= ? AND key < ?"
    with ForeignDatabase(path) as database:
        found = [database.rows(sql, f"{name}:", f"{name};")[0][0] for name in ("composerData", "bubbleId")]
    return int(found[0]), int(found[1])


def _changed(database: ForeignDatabase, since_ms: int) -> list[str]:
    return [given for at, given in sorted(_sessions(database)) if at >= since_ms]


def _sessions(database: ForeignDatabase) -> Iterator[tuple[int, str]]:
    """Yield the time of change and the id of each session; newer versions have a table of them."""
    if {"composerId", "lastUpdatedAt", "createdAt"} <= database.columns("composerHeaders"):
        for given, changed, created in database.rows(
            "SELECT composerId, lastUpdatedAt, createdAt FROM composerHeaders"
        ):
            yield _number(changed) or _number(created), str(given)
        return
    sql = "SELECT substr(key, 14), value FROM cursorDiskKV WHERE key >= ? AND key < ? AND length(value) <= ?"
    for given, content in database.rows(sql, "composerData:", "composerData;", LONGEST_BYTES):
        head = json_object(content)
        yield _number(head.get("lastUpdatedAt")) or _number(head.get("createdAt")), str(given)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**53 else 0


def _session_of(database: ForeignDatabase, given: str, path: Path) -> Iterator[SessionRead | Skipped]:
    sql = "SELECT value FROM cursorDiskKV WHERE key = ? AND length(value) <= ?"
    head = next((json_object(row[0]) for row in database.rows(sql, f"composerData:{given}", LONGEST_BYTES)), {})
    bubbles = _bubbles(database, given, head)
    session = _Session(path)
    talk = session.talk
    talk.given, talk.title, talk.started_at = given, str(head.get("name") or ""), head.get("createdAt")
    talk.cwd = _folder_in(head) or next((one for bubble in bubbles if (one := bubble.get("workspaceProjectDir"))), None)
    if head.get("subagentInfo") or head.get("isSubagent") is True:
        talk.left_out = SUB_AGENT
    for bubble in bubbles:
        yield from guarded(_turns_of(session, bubble), path)
    yield from talk.rest()


def _bubbles(database: ForeignDatabase, given: str, head: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the messages in their order, without the last one while it is being written."""
    listed = dicts_in(head.get("fullConversationHeadersOnly"))
    if listed:
        sql = "SELECT key, value FROM cursorDiskKV WHERE key >= ? AND key < ? AND length(value) <= ?"
        rows = database.rows(sql, f"bubbleId:{given}:", f"bubbleId:{given};", LONGEST_BYTES)
        known = {str(key).rpartition(":")[2]: json_object(content) for key, content in rows}
        found = [known[name] for one in listed if (name := str(one.get("bubbleId"))) in known]
    else:  # older versions have them in the session itself
        found = dicts_in(head.get("conversation"))
    return found[:-1] if head.get("status") == "generating" else found


def _folder_in(head: Mapping[str, Any]) -> str | None:
    match head:
        case {"workspaceIdentifier": {"uri": {"fsPath": str(folder)}}} if folder:
            return folder
        case {"trackedGitRepos": [{"repoPath": str(folder)}, *_]} if folder:
            return folder
        case _:
            return None


def _turns_of(session: _Session, bubble: Mapping[str, Any]) -> Iterator[SessionRead]:
    at = bubble.get("createdAt") or bubble.get("timestamp")
    text = bubble.get("text") or bubble.get("rawText")
    if isinstance(text, str) and text:
        is_person = bubble.get("type") == _USER
        yield from session.says(Role.USER if is_person else Role.ASSISTANT, _of_person(text) if is_person else text, at)
    call = bubble.get("toolFormerData")
    if isinstance(call, dict) and str(call.get("status") or "completed").lower() in _ENDED:
        arguments = call.get("params") or call.get("rawArgs")
        yield from session.calls(call.get("name"), arguments, at, str(call.get("toolCallId")), _result_of(call))


def _result_of(call: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a call's result, and True if it failed: of a command also by its exit code."""
    result, failed = call.get("result"), call.get("status") == "error"
    parsed = json_object(result) if isinstance(result, str) else result if isinstance(result, dict) else {}
    if not parsed:
        text = call.get("error") if failed and not result else result
        return text if isinstance(text, str) else "", failed
    code = parsed.get("exitCode", parsed.get("exit_code"))
    said = next(
        (one for key in ("error", "output", "contents", "text") if isinstance(one := parsed.get(key), str)), None
    )
    text = json.dumps(parsed, ensure_ascii=False) if said is None else said
    return text, failed or bool(parsed.get("error")) or code not in (None, 0)

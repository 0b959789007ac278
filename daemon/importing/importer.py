"""An import: what the readers yield, put into the store in bounded batches, and an account of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ipc.answers import ImportAnswer, SkippedAnswer
from ...ipc.call import Call
from ...store.channel import channel_of_folder
from ...store.model import GLOBAL_CHANNEL, InvalidInput, Kind, NodeId, StoreBusy, StoreReadOnly
from ...store.results import Kept
from .detect import read
from .reading.items import Item, NoteRead, Remark, SessionRead, Skipped, UnreadableFile, UnsupportedFile

if TYPE_CHECKING:
    from ...store import MemoryStore

MAX_SKIPPED = 1000
MAX_NAMED = 5
"""Files that a remark names; the others are counted."""
UNTRUSTED = "the frontmatter asks for a channel or a kind, which is not followed (--trust-frontmatter does)"
# Batches that the store works on while the next is read: enough to share its fsyncs, little enough to stay small.
MAX_IN_FLIGHT = 16
BUSY_WAIT_S = 60


@dataclass(slots=True)
class Account:
    """The outcome of an import: what it took and left."""

    sessions: set[NodeId] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    turns_added: int = 0
    turns_known: int = 0
    turns_purged: int = 0
    notes: int = 0
    notes_known: int = 0
    redacted: int = 0
    contents_left_out: int = 0
    refused: list[Skipped] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    skipped_total: int = 0
    remarks: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, what: Skipped) -> None:
        """Count what was left out, and list the first ones; paths that were named themselves before others."""
        self.skipped_total += 1
        listed = self.refused if what.refused else self.skipped
        if len(listed) < MAX_SKIPPED:
            listed.append(what)

    def remark(self, what: Remark) -> None:
        """Keep a remark on something that was taken."""
        self.remarks.setdefault(what.text, []).append(what.path.name)

    def answer(self) -> ImportAnswer:
        """Return the account in the wire's form."""
        return {
            "sessions": len(self.sessions),
            "turns_added": self.turns_added,
            "turns_known": self.turns_known,
            "turns_purged": self.turns_purged,
            "notes": self.notes,
            "notes_known": self.notes_known,
            "redacted": self.redacted,
            "contents_left_out": self.contents_left_out,
            "skipped": [_skipped(one) for one in (*self.refused, *self.skipped)[:MAX_SKIPPED]],
            "skipped_total": self.skipped_total,
            "remarks": [_remark(text, names) for text, names in self.remarks.items()],
            "channels": sorted(self.channels),
        }


def _skipped(what: Skipped) -> SkippedAnswer:
    return {
        "path": str(what.path),
        "line": what.line,
        "reason": what.reason,
        "refused": what.refused,
        "hint": what.hint,
    }


def _remark(text: str, names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{len(names)} × {text}: {', '.join(names[:MAX_NAMED])}{more}."


class Importer:
    """One import. Idempotent: a turn that is known is counted and not added, so one that broke off is run again."""

    def __init__(
        self, store: MemoryStore, call: Call, channel: str | None = None, *, trust_frontmatter: bool = False
    ) -> None:
        """Make an import. Notes go into `channel`, else their folder's; trusted, they choose it and their kind."""
        self._store = store
        self._call = call
        self._channel = channel
        self._trust_frontmatter = trust_frontmatter
        self._folders_channel = GLOBAL_CHANNEL
        self._waiting: deque[tuple[Path, Future[Any]]] = deque()
        self.account = Account()

    def take(self, paths: Iterable[Path], format_name: str | None) -> Account:
        """Import everything. Raises Cancelled between two batches; what was taken by then stays."""
        for path in paths:
            self._folders_channel = channel_of_folder(path if path.is_dir() else path.parent)
            for item in self._items(path, format_name):
                self._call.raise_if_cancelled()
                self._take(path, item)
                self._report(path)
        while self._waiting:
            self._finish_oldest()
        return self.account

    def _items(self, path: Path, format_name: str | None) -> Iterator[Item]:
        try:
            yield from read(path, format_name)
        except UnreadableFile as error:
            yield Skipped(path, None, str(error), "unreadable", error.hint)
        except UnsupportedFile as error:
            yield Skipped(path, None, str(error), "unsupported", error.hint)
        except OSError as error:
            yield Skipped(path, None, f"{path} cannot be read: {error.strerror}.", "unreadable")

    def _take(self, path: Path, item: Item) -> None:
        if isinstance(item, Skipped):
            self.account.skip(item)
            return
        if isinstance(item, Remark):
            self.account.remark(item)
            return
        if len(self._waiting) >= MAX_IN_FLIGHT:
            self._finish_oldest()
        try:
            self._waiting.append((path, self._submit(item)))
        except StoreBusy:  # others write as well: wait for what is ours, then try once more
            while self._waiting:
                self._finish_oldest()
            self._waiting.append((path, self._submit(item)))
        except InvalidInput as error:
            self.account.skip(Skipped(path, None, str(error)))
        except StoreReadOnly as error:  # of a channel that was asked for; another one's sessions are left out
            if self._channel is not None:
                raise
            self.account.skip(Skipped(path, None, str(error)))

    def _submit(self, item: SessionRead | NoteRead) -> Future[Any]:
        if isinstance(item, NoteRead):
            return self._remember(item)
        asked = self._channel or item.head.channel
        channel = self._store.channel_of_session(item.head.session_id) or asked
        self._store.refuse_if_off(channel)
        self.account.contents_left_out += item.contents_left_out
        self.account.channels.add(channel)
        self.account.sessions.add(item.head.session_id)
        return self._store.observe(replace(item.head, channel=channel), item.turns)

    def _remember(self, note: NoteRead) -> Future[Kept]:
        """Keep a note where the import keeps notes: its author does not choose its channel, unless trusted."""
        channel, kind = self._channel or self._folders_channel, Kind.NOTE
        asked = (self._channel or note.channel or channel, note.kind or kind)
        if self._trust_frontmatter:
            channel, kind = asked
        kept = self._store.take_note(
            note.text, kind=kind, channel=channel, tags=note.tags, title=note.title, created_at=note.created_at
        )
        self.account.channels.add(channel)
        if asked != (channel, kind):
            self.account.remark(Remark(note.path, UNTRUSTED))
        return kept

    def _finish_oldest(self) -> None:
        """Wait for the oldest batch and count what came of it."""
        path, future = self._waiting.popleft()
        try:
            result = future.result(BUSY_WAIT_S)
        except InvalidInput as error:
            self.account.skip(Skipped(path, None, str(error)))
            return
        if isinstance(result, Kept):
            is_new = result.novelty != "known"
            self.account.notes += is_new
            self.account.notes_known += not is_new
        self.account.turns_added += getattr(result, "added", 0)
        self.account.turns_known += getattr(result, "known", 0)
        self.account.turns_purged += getattr(result, "purged", 0)
        self.account.redacted += getattr(result, "redacted", 0)

    def _report(self, path: Path) -> None:
        account = self.account
        self._call.progress("import", account.turns_added + account.turns_known, 0, path.name)

"""An import: the readers' items, put into the store in bounded batches, and an account of the outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ...ipc.call import Call
from ...store.channel import channel_of_folder
from ...store.model import GLOBAL_CHANNEL, InvalidInput, Kind, NewTurn, NodeId, SessionHead, StoreBusy, StoreReadOnly
from ...store.results import Kept
from ...store.roles import Role
from . import FOLLOWED
from .detect import read
from .following.followed_places import folder_of, other_folders_of
from .items import UNREADABLE, Item, NoteRead, Remark, SessionRead, Skipped, UnreadableFile, UnsupportedFile
from .turns import is_by_place, known_by_place, renewed

if TYPE_CHECKING:
    from ...store import MemoryStore

AddedFormat = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$", max_length=81)]
"""A format that an extension adds: `EXTENSION.NAME`."""

MAX_SKIPPED = 1000
# Files that a remark names; further ones are counted.
MAX_NAMED = 5
UNTRUSTED = "the frontmatter asks for a channel or a kind, which is not followed (--trust-frontmatter does)"
NOT_NAMED = "was found by its content alone (--format or --channel says that it is meant)"
# Batches in the store's queue while the next is read: enough to share its fsyncs, and few enough to stay small.
MAX_IN_FLIGHT = 16
BUSY_WAIT_S = 60
# Errors that an unforeseen content may cause: its item is left out and named, and the rest is imported.
_CONTENT_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportAnswer:
    """The outcome of an import on the wire: the amounts that it took, and what it left."""

    sessions: int
    turns_added: int
    turns_known: int
    turns_purged: int
    notes: int
    notes_known: int
    redacted: int
    contents_left_out: int
    skipped: Sequence[Skipped]
    skipped_total: int
    remarks: Sequence[str]
    channels: Sequence[str]


@dataclass(slots=True)
class Account:
    """The outcome of an import: counts of imported and skipped items, and remarks."""

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

    def skip(self, part: Skipped) -> None:
        """Count a skipped part, and list the first ones, paths that the person named before others."""
        self.skipped_total += 1
        listed = self.refused if part.refused else self.skipped
        if len(listed) < MAX_SKIPPED:
            listed.append(part)

    def remark(self, remark: Remark) -> None:
        """Add a remark on an imported item."""
        self.remarks.setdefault(remark.text, []).append(remark.path.name)

    def answer(self) -> ImportAnswer:
        """Return the account in the wire's form."""
        return ImportAnswer(
            sessions=len(self.sessions),
            turns_added=self.turns_added,
            turns_known=self.turns_known,
            turns_purged=self.turns_purged,
            notes=self.notes,
            notes_known=self.notes_known,
            redacted=self.redacted,
            contents_left_out=self.contents_left_out,
            skipped=(*self.refused, *self.skipped)[:MAX_SKIPPED],
            skipped_total=self.skipped_total,
            remarks=[_remark(text, names) for text, names in self.remarks.items()],
            channels=sorted(self.channels),
        )


def _remark(text: str, names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{len(names)} × {text}: {', '.join(names[:MAX_NAMED])}{more}."


class Importer:
    """One import. Idempotent: known turns are counted and not added, so an import that broke off can be run again."""

    def __init__(
        self,
        store: MemoryStore,
        call: Call,
        channel: str | None = None,
        *,
        trust_frontmatter: bool = False,
        to_learn: bool = False,
        written_by: str | None = None,
    ) -> None:
        """Make an import. Notes go into `channel`, else their folder's; trusted ones choose channel and kind.

        `to_learn`: notes become sessions, in the words of the agent that they are `written_by`, else of their person.
        """
        self._store = store
        self._call = call
        self._channel = channel
        self._trust_frontmatter = trust_frontmatter
        self._to_learn = to_learn
        self._written_by = written_by
        self._folders_channel = GLOBAL_CHANNEL
        self._known_channels = frozenset(store.channels())
        self._by_place: dict[NodeId, Mapping[str, str]] = {}
        self._waiting: deque[tuple[Path, Future[Any]]] = deque()
        self.account = Account()

    def take(self, paths: Iterable[Path], format_name: str | None) -> Account:
        """Import every path. Raises Cancelled between two batches; the batches before it stay."""
        for path in paths:
            # Notes, and sessions that may not choose, go into the channel of the folder that was named.
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
            yield from read(path, format_name, self._own_folders(), to_learn=self._to_learn)
        except UnreadableFile as error:
            yield Skipped(path, None, str(error), "unreadable", error.hint)
        except UnsupportedFile as error:
            yield Skipped(path, None, str(error), "unsupported", error.hint)
        except OSError as error:
            yield Skipped(path, None, f"{path} cannot be read: {error.strerror}.", "unreadable")
        except Exception as error:  # a reader's error concerns one path: the others are read
            yield Skipped(path, None, f"{path} cannot be read: {type(error).__name__}.", "unreadable")

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
        except StoreBusy:  # other clients write too: wait for our own batches, then try once more
            while self._waiting:
                self._finish_oldest()
            self._waiting.append((path, self._submit(item)))
        except InvalidInput as error:
            self.account.skip(Skipped(path, None, str(error)))
        except (
            StoreReadOnly
        ) as error:  # learning is off in the channel: an error if it was asked for, else its sessions are left out
            if self._channel is not None:
                raise
            self.account.skip(Skipped(path, None, str(error)))
        except _CONTENT_ERRORS as error:
            self.account.skip(Skipped(path, None, f"a part that {UNREADABLE}: {type(error).__name__}"))

    def _submit(self, item: SessionRead | NoteRead) -> Future[Any]:
        if isinstance(item, NoteRead):
            return self._remember(item)
        if self._written_by and not item.head.channel:  # a note
            turns = tuple(replace(turn, role=Role.ASSISTANT.value) for turn in item.turns)
            item = replace(item, head=replace(item.head, agent_id=self._written_by), turns=turns)
        item = item if self._channel else self._admitted(item)
        asked = self._channel or item.head.channel or self._folders_channel  # a note's session names none
        # A session stays in the channel in which it was first kept.
        channel = self._store.channel_of_session(item.head.session_id) or asked
        self._store.refuse_if_off(channel)
        self.account.contents_left_out += item.contents_left_out
        self.account.channels.add(channel)
        self.account.sessions.add(item.head.session_id)
        return self._store.observe(replace(item.head, channel=channel), self._renewed(item))

    def _own_folders(self) -> list[Path]:
        """Return the folders in which agents keep their sessions, and those that a person has followed."""
        usual = [folder for agent in FOLLOWED for folder in (folder_of(agent), *other_folders_of(agent))]
        return [*usual, *map(Path, self._store.followed.watches())]

    def _admitted(self, item: SessionRead) -> SessionRead:
        """Return a session with the channel and turns that may be kept without the person's consent.

        A file that was only found by its content may not put a session into another project's channel: it goes into
        the folder's channel. Of a session that is already known in another channel, no new turn is added.
        """
        wanted, own = item.head.channel or self._folders_channel, self._folders_channel
        if item.found_in is None or wanted in (own, channel_of_folder(item.found_in.parent)):
            return item
        if not self._is_known_elsewhere(item.head):
            return item
        known = {node.external_id: node.channel for node in self._store.turns_of(item.head.session_id)}
        if known and (channel := next(iter(known.values()))) != own:
            return self._without_new_turns(item, known, channel, item.found_in)
        self.account.remark(Remark(item.found_in, f"the file asks for another project's channel, and it {NOT_NAMED}"))
        return replace(item, head=replace(item.head, channel=own))

    def _without_new_turns(
        self, item: SessionRead, known: Collection[str | None], channel: str, path: Path
    ) -> SessionRead:
        turns = tuple(turn for turn in item.turns if turn.external_id in known)
        if left := len(item.turns) - len(turns):
            self.account.skip(Skipped(path, None, f"{left} turns of a session of another project; it {NOT_NAMED}"))
        return replace(item, head=replace(item.head, channel=channel), turns=turns)

    def _is_known_elsewhere(self, head: SessionHead) -> bool:
        """Return True if a channel is the global one, that of a folder of this machine, or one that has memories."""
        if head.channel == GLOBAL_CHANNEL:
            return True
        if not head.cwd:
            return head.channel in self._known_channels
        folder = Path(head.cwd)
        return any(channel_of_folder(one) == head.channel for one in (folder, *folder.parents) if _exists(one))

    def _renewed(self, item: SessionRead) -> Sequence[NewTurn]:
        """Return the turns with the ids to keep them by: a file of lines without ids may have been rewritten."""
        if not is_by_place(item.turns):
            return item.turns
        if not self._by_place:
            self._store.settle()
        session = item.head.session_id
        if session not in self._by_place:  # the state before this import
            self._by_place[session] = known_by_place(self._store, session)
        return renewed(self._store, item.turns, self._by_place[session])

    def _remember(self, note: NoteRead) -> Future[Kept]:
        """Keep a note in the import's channel; its author chooses the channel only if trusted."""
        channel, kind = self._channel or self._folders_channel, Kind.NOTE
        asked = (self._channel or note.channel or channel, note.kind or kind)
        if self._trust_frontmatter:
            channel, kind = asked
        kept = self._store.take_note(
            note.text,
            kind=kind,
            channel=channel,
            tags=note.tags,
            title=note.title,
            created_at=note.created_at,
            alias=note.path.stem,
        )
        self.account.channels.add(channel)
        if asked != (channel, kind):
            self.account.remark(Remark(note.path, UNTRUSTED))
        return kept

    def _finish_oldest(self) -> None:
        """Wait for the oldest batch and count its result."""
        path, future = self._waiting.popleft()
        try:
            result = future.result(BUSY_WAIT_S)
        except InvalidInput as error:
            self.account.skip(Skipped(path, None, str(error)))
            return
        except _CONTENT_ERRORS as error:
            self.account.skip(Skipped(path, None, f"a part that {UNREADABLE}: {type(error).__name__}"))
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
        done = account.turns_added + account.turns_known + account.notes + account.notes_known
        self._call.progress("reading", done, 0, path.name)


def _exists(folder: Path) -> bool:
    try:
        return folder.exists()
    except (OSError, ValueError):  # a name that no folder of this machine can have
        return False

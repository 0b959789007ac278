"""The flags of the ledger: learning on and off, the followed files of other programs, and the projects of remotes.

Flags are carried over from a damaged ledger to the next.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from .channel import WITHIN, enclosing, is_link, know_clones, know_projects, remote_of_channel
from .door import Door
from .ledger import records
from .ledger.ledger import Ledger
from .model import InvalidInput, ReadUpTo, StoreReadOnly
from .writer.writer import Writer

PAUSED = "paused"


class Switches:
    """Learning, on and off, as a whole and in single channels. Every method may be called from any thread.

    Held in memory, since every write asks.
    """

    def __init__(self, ledger: Ledger, writer: Writer, door: Door) -> None:
        self._door = door
        self._ledger = ledger
        self._writer = writer
        self.paused = False
        self.channels_off: frozenset[str] = frozenset()
        self._read()

    def is_off(self, channel: str) -> bool:
        """Return True if learning is off in a channel."""
        return self.paused or self._off_at(channel) is not None

    def _off_at(self, channel: str) -> str | None:
        """Return the channel that is off: this one, or one that it lies within."""
        return next((one for one in enclosing(channel) if one in self.channels_off), None)

    def refuse_if_off(self, channel: str) -> None:
        """Raise StoreReadOnly if learning is off in a channel."""
        if self.paused:
            raise StoreReadOnly("learning is paused", hint="Resume it with `dreamctl resume`.")
        if (off := self._off_at(channel)) is not None:
            raise StoreReadOnly(f"learning is off in {off}", hint=f"`dreamctl channel {off} on` switches it on.")

    def pause(self) -> None:
        """Switch all learning off, until `resume`."""
        self._write(records.set_flag(PAUSED))

    def resume(self) -> None:
        """Switch learning on again."""
        self._write(records.clear_flag(PAUSED))

    def set_channel(self, channel: str, learning: bool) -> None:
        """Switch learning in one channel on or off. Raises InvalidInput for a name that cannot be a channel's."""
        self._door.check_names(channel)
        flag = _flag_of(channel)
        self._write(records.clear_flag(flag) if learning else records.set_flag(flag))

    def flags(self) -> Sequence[str]:
        """Return the ledger's flags for the switches as they are now."""
        return [_flag_of(channel) for channel in self.channels_off] + [PAUSED] * self.paused

    def _write(self, write: records.Write) -> None:
        self._writer.write(write).result()
        self._read()

    def _read(self) -> None:
        self.paused = self._ledger.paused
        self.channels_off = self._ledger.channels_off


def _flag_of(channel: str) -> str:
    return f"off:{channel}"


# The longest wait for an acknowledgement: an agent's hook waits too.
WATCH, NAMED, PROJECT = "watch:", "named:", "project:"
_KEY_DIGITS = 32
ACKNOWLEDGED_WITHIN_S = 10.0


class Followed:
    """The followed files of other programs, and how far each was read. Every method may be called from any thread.

    The position in a file is no flag and may be lost with the ledger: then the file is read again, and its turns are
    known.
    """

    def __init__(self, ledger: Ledger, writer: Writer) -> None:
        self._ledger = ledger
        self._writer = writer

    def watches(self) -> Mapping[str, str]:
        """Return the followed places, each with its note."""
        return {name.removeprefix(WATCH): value for name, value in self._ledger.flags(WATCH).items()}

    def watch(self, place: str, note: str) -> None:
        """Follow a place from now on, or replace its note; wait until that is acknowledged."""
        self._writer.write(records.set_flag(WATCH + place, note)).result()

    def unwatch(self, place: str) -> None:
        """Stop following a place; wait until that is acknowledged."""
        self._writer.write(records.clear_flag(WATCH + place)).result()

    def named(self) -> Mapping[str, str]:
        """Return the named files, each with its note."""
        return {name.removeprefix(NAMED): value for name, value in self._ledger.flags(NAMED).items()}

    def name(self, path: str, note: str) -> None:
        """Note a file that another program named; wait until that is acknowledged."""
        self._writer.write(records.set_flag(NAMED + path, note)).result(ACKNOWLEDGED_WITHIN_S)

    def unname(self, path: str) -> None:
        """Forget that a file was named, within about a second."""
        self._writer.later(records.clear_flag(NAMED + path))

    def read_up_to(self, path: str) -> ReadUpTo | None:
        """Return how far a file was read."""
        found = self._ledger.followed(_key(path))
        return None if found is None else ReadUpTo(*found)

    def move(self, path: str, read: ReadUpTo) -> None:
        """Keep how far a file was read, within about a second; a crash before that has it read again."""
        self._writer.later(records.follow(_key(path), read.size_bytes, read.lines, read.mark))


class ProjectChannels:
    """The channels of the remotes of repositories, each remote by its hash.

    The first is that of the clone in which something was kept first; no other takes its place, whatever another machine
    says. Every method may be called from any thread.
    """

    def __init__(self, ledger: Ledger, writer: Writer, named: Collection[str], apart: Collection[Path]) -> None:
        """`named` are the channels that have memories, `apart` the folders that are projects of their own."""
        self._writer = writer
        self._lock = threading.Lock()
        self._of_remotes = project_channels(ledger)
        know_projects(self._of_remotes, named, apart)

    def learn(self, channel: str, folder: str | None = None) -> None:
        """Note the channel of a repository's remote; `folder` may be one of the repository."""
        project = channel.partition(WITHIN)[0]
        if remote := remote_of_channel(project, Path(folder) if folder else None):
            self.link(remote, project)

    def link(self, remote: str, channel: str) -> None:
        """Note a channel of a remote, after those that are known; within about a second it is kept.

        Raises InvalidInput for what can be none.
        """
        if not is_link(remote, channel):
            raise InvalidInput("it is no channel of a repository, or no hash of a remote")
        with self._lock:
            known = self._of_remotes.get(remote, ())
            if channel not in known:
                self._of_remotes = {**self._of_remotes, remote: (*known, channel)}
                know_clones(self._of_remotes)
                self._writer.later(records.set_flag(PROJECT + remote, " ".join(self._of_remotes[remote])))

    def links(self) -> list[tuple[str, str]]:
        """Return the channels of all remotes, each after its remote."""
        return [(remote, channel) for remote, channels in self._of_remotes.items() for channel in channels]


def project_channels(ledger: Ledger) -> Mapping[str, Sequence[str]]:
    """Return the channels of each remote, by its hash."""
    return {name.removeprefix(PROJECT): value.split() for name, value in ledger.flags(PROJECT).items()}


def _key(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:_KEY_DIGITS]

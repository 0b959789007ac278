"""Learning, on and off: as a whole, and in single channels."""

from __future__ import annotations

from collections.abc import Sequence

from ..door import Door
from ..ledger import records
from ..ledger.ledger import Ledger
from ..model import StoreReadOnly
from ..writer.writer import Writer

PAUSED = "paused"


class Switches:
    """Holds the switches in memory, since every write looks at them. Every method may be called from any thread."""

    def __init__(self, ledger: Ledger, writer: Writer, door: Door) -> None:
        self._door = door
        self._ledger = ledger
        self._writer = writer
        self.paused = False
        self.channels_off: frozenset[str] = frozenset()
        self._read()

    def is_off(self, channel: str) -> bool:
        """Return whether nothing is learned in a channel."""
        return self.paused or channel in self.channels_off

    def refuse_if_off(self, channel: str) -> None:
        """Raise StoreReadOnly where nothing is learned."""
        if self.paused:
            raise StoreReadOnly("learning is paused", hint="Resume it with `dreamctl resume`.")
        if channel in self.channels_off:
            raise StoreReadOnly(
                f"learning is off in {channel}", hint=f"`dreamctl channel {channel} on` switches it on."
            )

    def pause(self) -> None:
        """Learn nothing more until `resume`."""
        self._write(records.set_flag(PAUSED))

    def resume(self) -> None:
        """Learn again."""
        self._write(records.clear_flag(PAUSED))

    def set_channel(self, channel: str, learning: bool) -> None:
        """Switch learning in one channel on or off. Raises InvalidInput for what is no channel's name."""
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

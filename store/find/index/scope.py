"""Scope: which memories an answer may bring in or name, besides those that the search itself found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ...model import GLOBAL_CHANNEL
from .projection import Node


@dataclass(frozen=True, slots=True)
class Scope:
    """The question's own filter. `channels` None is all of them; with `as_of` what held then, whatever holds now."""

    channels: frozenset[str] | None = None
    as_of: datetime | None = None
    include_archived: bool = False

    def holds(self, channel: str) -> bool:
        """Return True if a channel is in scope."""
        return self.channels is None or channel in self.channels

    def admits(self, node: Node) -> bool:
        """Return True if a memory may be brought in, or a turn named."""
        if not self.holds(node.channel):
            return False
        if self.as_of is None:
            return node.live or self.include_archived
        since, until = _aware(node.since), _aware(node.valid_to)
        return (since is None or since <= self.as_of) and (until is None or self.as_of < until)


EVERYTHING: Final = Scope()
"""Live memories of all channels."""


def beside(channel: str) -> Scope:
    """Return the scope of what may be named beside a memory of this channel, live or not."""
    return Scope(frozenset({channel, GLOBAL_CHANNEL}), include_archived=True)


def living_beside(channel: str) -> Scope:
    """Return the scope of what is live and may be named beside a memory of this channel."""
    return Scope(frozenset({channel, GLOBAL_CHANNEL}))


def _aware(at: datetime | None) -> datetime | None:
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)

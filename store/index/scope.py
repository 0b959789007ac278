"""Scope: which memories an answer may bring in or name, besides those that the search itself found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ..filters import OWN_FIELDS, Filter, conditions_of, holds
from ..model import GLOBAL_CHANNEL
from .projection import Node


@dataclass(frozen=True, slots=True)
class Scope:
    """The question's own filter. `channels` None is all of them; with `as_of` what held then, whatever holds now.

    `where` narrows it further; `is_each_alone`: a fact is then judged by itself, and not by the turn that it is from.
    """

    channels: frozenset[str] | None = None
    as_of: datetime | None = None
    include_archived: bool = False
    where: Filter = ()

    @property
    def is_each_alone(self) -> bool:
        """Return True if the filter tests a field in which a fact differs from its turn."""
        return any(condition.field in OWN_FIELDS for condition in conditions_of(self.where))

    def holds(self, channel: str) -> bool:
        """Return True if a channel is in scope."""
        return self.channels is None or channel in self.channels

    def admits(self, node: Node) -> bool:
        """Return True if a memory may be brought in, or a turn named."""
        if node.forgotten or not self.holds(node.channel) or (self.where and not holds(node.payload(), self.where)):
            return False
        if self.as_of is None:
            return node.live or self.include_archived
        until = aware(node.valid_to)
        return self.is_past(node.since) and (until is None or self.as_of < until)

    def is_past(self, at: datetime | None) -> bool:
        """Return True for a moment that is not later than the one that is asked of; an unknown one is none."""
        at = aware(at)
        return at is None or self.as_of is None or at <= self.as_of


EVERYTHING: Final = Scope()
"""Live memories of all channels."""


def beside(channel: str) -> Scope:
    """Return the scope of what may be named beside a memory of this channel, live or not."""
    return Scope(frozenset({channel, GLOBAL_CHANNEL}), include_archived=True)


def living_beside(channel: str) -> Scope:
    """Return the scope of what is live and may be named beside a memory of this channel."""
    return Scope(frozenset({channel, GLOBAL_CHANNEL}))


def aware(at: datetime | None) -> datetime | None:
    """Return a moment with its zone: UTC for one that a person wrote without."""
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)

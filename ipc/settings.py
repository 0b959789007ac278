"""The settings of the wire: bounds of a client and of the server, with units and defaults."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class IpcSettings(BaseModel):
    """Bounds of the server. Where the socket lies is no setting: clients that read no settings must find it too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_connections: int = Field(128, ge=1, le=10_000)
    max_in_flight: int = Field(32, ge=1, le=10_000)
    """Requests of one connection that are open; more wait in the socket."""
    max_at_work: int = Field(2, ge=1, le=32)
    """Requests of one connection that have a thread; its other open ones wait for their turn."""
    threads: int = Field(4, ge=1, le=32)
    """Threads of methods that take milliseconds: recall, context, show, list."""
    deadline_s: float = Field(20.0, gt=0)
    """The longest that one of those may wait and work before its client gets the error BUSY."""
    long_threads: int = Field(4, ge=1, le=32)
    """Threads of methods that take seconds or minutes: import, rebuild, check."""
    stalled_output_bytes: int = Field(4 * 2**20, ge=2**16)
    """A client with this much unread output for `stalled_s` is dropped."""
    stalled_s: float = Field(10.0, gt=0)
    max_output_bytes: int = Field(8 * 2**20, ge=2**16)
    """A client with this much unread output is dropped at once."""
    stop_grace_s: float = Field(5.0, ge=0)
    """The time that a stop waits for the answers in flight."""

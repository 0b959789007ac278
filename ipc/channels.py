"""The channels of a question that names none, and notes on the channels that were not searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from ..store.channel import channel_of_folder, is_in_repository
from ..store.model import ALL_CHANNELS, GLOBAL_CHANNEL
from ..store.results import Elsewhere

MOST_NAMED = 3


def channel_of(channel: str | None, cwd: str | None) -> str:
    """Return the channel that is meant: the one named, else that of a working directory, else the global one."""
    if channel is not None:
        return channel
    return channel_of_folder(Path(cwd)) if cwd else GLOBAL_CHANNEL


def channel_of_repository(channel: str | None, cwd: str | None) -> str:
    """Return the channel to keep a statement in: the one named, else that of a working directory's git repository.

    Outside of one it is kept for all, where it is found from everywhere.
    """
    if channel is not None or not cwd or not is_in_repository(Path(cwd)):
        return channel or GLOBAL_CHANNEL
    return channel_of_folder(Path(cwd))


def not_looked_in(channel: str, held: Mapping[str, int]) -> list[str]:
    """Return a note that names channels that hold something and were not asked."""
    if channel == ALL_CHANNELS:
        return []
    others = [name for name in held if name not in (channel, GLOBAL_CHANNEL)]
    others.sort(key=lambda name: -held[name])
    if not others:
        return []
    more = len(others) - 1
    named = f"`{others[0]}`" + (f" and {more} other channel{'s' * (more > 1)}" if more else "")
    return [f'{named} {"were" if more else "was"} not looked in; channel "*" looks everywhere']


def found_elsewhere(found: Sequence[Elsewhere]) -> list[str]:
    """Return a note that counts what other channels hold; no text of theirs, which was not asked for."""
    if not found:
        return []
    places = ", ".join(f"{len(place.hits)} in `{place.channel}`" for place in found[:MOST_NAMED])
    return [f"nothing is kept in this channel; elsewhere something was found: {places}"]


def nothing_there(channel: str, held: Mapping[str, int]) -> list[str]:
    """Return a note on a channel that holds nothing, which may be a name mistyped, or a project's bare name."""
    if held.get(channel):
        return []
    of_project = (name for name in held if name.casefold().startswith(f"{channel.casefold()}-"))
    close = [*of_project, *get_close_matches(channel, held, n=1)]
    return [f"nothing is kept in `{channel}` yet" + (f"; did you mean `{close[0]}`?" if close else "")]

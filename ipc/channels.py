"""The channel of a request, and notes on the channels that were not searched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..store.channel import (
    OF_USER,
    TEAM,
    WITHIN,
    channel_of_folder,
    channel_of_user,
    channels_in_reach,
    is_in_repository,
    is_of_session,
    is_of_user,
    may_read,
    not_this_users,
    own_of_clones,
    project_name,
)
from ..store.filters import Condition, Filter
from ..store.model import ALL_CHANNELS, GLOBAL_CHANNEL, InvalidInput, NodeId, NotFound
from ..store.results import Elsewhere

if TYPE_CHECKING:
    from ..store import MemoryStore

MOST_NAMED = 3
OWNERS = "The memory's owner changes it: without `--user` (`user_id`)."
Names = Callable[[str], Collection[str]]
"""Returns the names of the channels; called with the name that is looked up."""


def full_name(named: str, names: Collection[str], *, beginning: bool = True) -> str:
    """Return the channel of a name: the one of exactly this name, else the only project of that name, else the name.

    Of clones of one project with channels of their own it is that of this machine. `beginning`: a prefix of exactly one
    name is enough. Writes and purges ask for the whole name of the project, since a prefix may be the name of a new
    channel.
    """
    if named in (ALL_CHANNELS, GLOBAL_CHANNEL) or named in names:
        return named
    # A project's channel is its name with six hex digits of its git folder (`shop-1a2b3c`), which people do not type.
    head, within, part = named.partition(WITHIN)
    if within:
        parts = [one.casefold() if one.startswith(OF_USER) else one for one in part.split(WITHIN)]
        return WITHIN.join((full_name(head, names, beginning=beginning), *parts))
    short, names = named.casefold(), [name for name in names if WITHIN not in name]
    meant = [name for name in names if project_name(name).casefold() == short]
    if not meant and beginning:
        meant = [name for name in names if name.casefold().startswith(short)]
    return meant[0] if len(meant) == 1 else own_of_clones(meant) or named


def channel_of(channel: str | None, cwd: str | None, names: Names | None = None, *, beginning: bool = True) -> str:
    """Return the channel that is named, else that of a working directory, else the global one."""
    if channel is not None:
        return full_name(channel, names(channel), beginning=beginning) if names is not None else channel
    return channel_of_folder(Path(cwd)) if cwd else GLOBAL_CHANNEL


def channel_for(user: str | None, channel: str) -> str:
    """Return a user's part of a channel, the channel itself without a user.

    Raises InvalidInput for all channels, and NotFound for another user's part.
    """
    if user is None:
        return channel
    if channel == ALL_CHANNELS:
        raise InvalidInput("a user does not look into all channels", hint="Name one, or leave out `user_id`.")
    if not may_read(user, channel):
        raise NotFound(f"there is no one channel {channel!r}", hint="It is not this user's.")
    return channel_of_user(channel, user)


def searched_channel(
    channel: str | None, cwd: str | None, names: Names, *, beginning: bool = True, user: str | None = None
) -> str:
    """Return the channel that is named, else that of a working directory, to look into it; of a `user` their part.

    Raises NotFound, with the nearest names, for one that is named and does not exist; the channel of `cwd` always does,
    and a part of one that does.
    """
    if user is not None:
        own = lambda wanted: [name for name in names(wanted) if may_read(user, name)]  # noqa: E731
        return channel_for(user, searched_channel(channel, cwd, own, beginning=beginning))
    if channel is None:
        return channel_of(None, cwd)
    known = names(channel)
    found = full_name(channel, known, beginning=beginning)
    # Without any name the memory is new, or its index is being made anew.
    there = {*known, *(name.partition(WITHIN)[0] for name in known)}
    if not known or {found, found.partition(WITHIN)[0]} & there or found in (ALL_CHANNELS, GLOBAL_CHANNEL):
        return found
    if cwd and found == channel_of_folder(Path(cwd)):
        return found
    close = nearest_names(channel, known)
    hint = f"The nearest: {', '.join(close)}." if close else "`dreamctl status` lists the channels."
    raise NotFound(f"there is no one channel {channel!r}", hint=hint)


def channel_of_repository(channel: str | None, cwd: str | None, names: Names) -> str:
    """Return the channel to keep a statement in: the one named, else that of a working directory's git repository.

    Outside of a repository it is the global one, which is searched from everywhere.
    """
    if channel is not None:
        return channel_of(channel, None, names, beginning=False)
    if not cwd or not is_in_repository(Path(cwd)):
        return GLOBAL_CHANNEL
    return channel_of_folder(Path(cwd))


# ---- one of several users: each method asks here which channels, memories, sessions and runs are theirs to see


class InChannel(Protocol):
    """The parameters of a request of a channel, and of a user."""

    @property
    def user_id(self) -> str | None:
        """Return one of several users, None for the owner."""

    @property
    def channel(self) -> str | None:
        """Return the channel that is named, None for none."""

    @property
    def cwd(self) -> str | None:
        """Return the caller's working directory, None where it is not sent."""


def searched_by(store: MemoryStore, params: InChannel) -> str:
    """Return the channel that a request looks into, of a user their part. Raises NotFound as `searched_channel`."""
    return searched_channel(params.channel, params.cwd, store.channel_names_with, user=params.user_id)


def kept_by(store: MemoryStore, params: InChannel) -> str:
    """Return the channel that a request keeps something in, of a user their part."""
    named = channel_of(params.channel, params.cwd, lambda _: store.channel_names(), beginning=False)
    return channel_for(params.user_id, named)


def full_id(store: MemoryStore, user: str | None, named: str) -> NodeId:
    """Return the id that the beginning of one means, among those that a user sees; else the same.

    Raises NotFound for the beginning of several.
    """
    return store.full_id(named, partial(may_read, user)) if user is not None else store.full_id(named)


def node_of(store: MemoryStore, user: str | None, named: str, *, own: bool = False) -> NodeId:
    """Return the full id of a memory. Raises NotFound where it is another user's.

    `own`: to change it. Raises InvalidInput where it is not this user's alone: shared memories are the owner's.
    """
    node_id = full_id(store, user, named)
    if user is not None:
        channel = store.channel_of_node(node_id)
        if not may_read(user, channel):
            # In the words for an unknown one: that it is there is the other user's to tell.
            raise NotFound(f"there is no {node_id}", hint="`dreamctl list` and `dreamctl recall` show ids.")
        if own and not is_of_user(user, channel):
            raise InvalidInput(f"{node_id} is what all users share", hint=OWNERS)
    return node_id


def session_of(store: MemoryStore, user: str | None, session: str | None) -> None:
    """Raise NotFound for a session with words, an anchor or goals in another user's part."""
    if user is None or session is None:
        return
    if not all(may_read(user, channel) for channel in store.channels_of_session(session)):
        raise not_this_users(session)


def run_of(store: MemoryStore, user: str | None, run_id: str, *, own: bool = False) -> str:
    """Return the id of a run. Raises NotFound where it changed something of another user's, or too much to tell.

    `own`: to take it back. Raises InvalidInput where it changed shared memories.
    """
    if user is not None:
        if not is_run_of(store, user, run_id):
            raise NotFound(f"there is no run {run_id!r} of this user's", hint="`dreamctl runs --user NAME` lists them.")
        if own and not all(is_of_user(user, channel) for channel in store.channels_of_run(run_id)):
            raise InvalidInput(f"{run_id} changed what all users share", hint=OWNERS)
    return run_id


def is_run_of(store: MemoryStore, user: str, run_id: str) -> bool:
    """Return True for a run that changed memories which a user sees, and no others."""
    channels = store.channels_of_run(run_id)
    return bool(channels) and all(may_read(user, channel) for channel in channels)


def readable_by(store: MemoryStore, user: str | None) -> Filter:
    """Return the test of the channels that a user sees; () without a user."""
    if user is None:
        return ()
    return (Condition("channel", "in", tuple(name for name in store.channel_names() if may_read(user, name))),)


def not_looked_in(channel: str, sizes: Mapping[str, int]) -> list[str]:
    """Return a note that names non-empty channels that were not searched."""
    if channel == ALL_CHANNELS:
        return []
    reach = channels_in_reach(channel)
    others = [name for name in sizes if name not in reach and not is_of_session(name) and not name.endswith(TEAM)]
    others.sort(key=lambda name: -sizes[name])
    if not others:
        return []
    more = len(others) - 1
    named = f"`{others[0]}`" + (f" and {more} other channel{'s' * (more > 1)}" if more else "")
    return [f'{named} {"were" if more else "was"} not looked in; channel "*" looks everywhere']


def lasting(found: Sequence[Elsewhere]) -> list[Elsewhere]:
    """Return the hits of other channels without those that hold in one session alone."""
    return [place for place in found if not is_of_session(place.channel)]


def found_elsewhere(found: Sequence[Elsewhere]) -> list[str]:
    """Return a note that counts the hits in other channels, without their texts, which were not asked for."""
    if not found:
        return []
    places = ", ".join(f"{len(place.hits)} in `{place.channel}`" for place in found[:MOST_NAMED])
    return [f"nothing is kept in this channel; elsewhere something was found: {places}"]


def nothing_there(channel: str, sizes: Mapping[str, int]) -> list[str]:
    """Return a note on an empty channel, whose name may be mistyped, or a project's without its hash."""
    if sizes.get(channel):
        return []
    close = nearest_names(channel, sizes)
    return [f"nothing is kept in `{channel}` yet" + (f"; did you mean `{close[0]}`?" if close else "")]


def nearest_names(named: str, names: Collection[str]) -> list[str]:
    """Return the channels that an unknown name may mean, the likeliest first: by prefix, then by similarity.

    A project is compared without its hash, which a person does not remember.
    """
    begun = [name for name in names if name.casefold().startswith(named.casefold())]
    # `get_close_matches` compares whole strings, so six random digits would hide a similar name.
    by_project = {project_name(name).casefold(): name for name in names}
    alike = [by_project[close] for close in get_close_matches(named.casefold(), by_project, n=MOST_NAMED)]
    return list(dict.fromkeys((*begun, *alike)))[:MOST_NAMED]

"""The method that erases: no dream runs meanwhile, and the derived pages are written again after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self

from loguru import logger
from pydantic import Field, model_validator

from ...ipc.call import Call, Method
from ...ipc.channels import node_of, searched_channel
from ...ipc.params import Instant, UserParams
from ...store import Selection
from ...store.channel import may_read, of_one_project
from ...store.model import NotFound, StoreError
from ...store.names import Name
from ...store.results import Purged
from ..clock import local_now
from ..dreaming.dreamer import Dreamer
from ..dreaming.landing import DerivedPages

if TYPE_CHECKING:
    from ...store import MemoryStore


class PurgeParams(UserParams):
    """The data to remove for good, named in one way; `dry_run` only counts it.

    `nodes`: memories, turns or whole sessions. `matching`: all texts with these words. `before`: all that is older.
    `secrets`: all that today's rules take for secrets, and nothing around them. `probes`: every past question, with the
    memories that were of use for it. A user purges only their own.
    """

    nodes: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    channel: Name | None = None
    matching: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    before: Instant | None = None
    secrets: bool = False
    probes: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _is_named_in_one_way(self) -> Self:
        named = (self.nodes, self.channel, self.matching, self.before, self.secrets, self.probes)
        if sum(bool(one) for one in named) != 1:
            raise ValueError("name what is to be purged in one way")
        if self.probes and self.dry_run:
            raise ValueError("questions are not looked at before they are purged")
        if self.user_id is not None and not (self.nodes or self.channel):
            raise ValueError("a user purges nodes, or their part of a channel")
        return self


class PurgeMethods:
    """The method; it is called in the server's loop, and works in a thread."""

    def __init__(self, store: MemoryStore, dreamer: Dreamer) -> None:
        self._store = store
        self._dreamer = dreamer
        self._pages = DerivedPages(store, local_now)

    async def purge(self, params: PurgeParams, call: Call) -> Purged:
        """Erase a selection, or count what that would erase. Once begun it is finished, even if its client leaves."""
        # Questions are only in the ledger: no file changes, and no dream needs to wait.
        if params.probes:
            return Purged(questions=await asyncio.to_thread(self._store.purge_questions))
        selection = await asyncio.to_thread(self._selection, params)
        if params.dry_run:
            preview = await asyncio.to_thread(self._store.preview_purge, selection, call.progress)
            return _seen_by(params.user_id, preview)
        # Shielded: a purge that its client leaves half-way must still erase everything.
        task = asyncio.create_task(self._purge(selection, call.progress))
        return _seen_by(params.user_id, await asyncio.shield(task))

    def _selection(self, params: PurgeParams) -> Selection:
        channel = params.channel
        if channel is not None:
            names = self._store.channel_names_with
            channel = searched_channel(channel, None, names, beginning=False, user=params.user_id)
            if channel != params.channel and len(clones := of_one_project(channel)) > 1:
                raise NotFound(
                    f"{len(clones)} channels are of {params.channel}", hint=f"Name one: {', '.join(clones)}."
                )
        if params.user_id is not None:
            for one in params.nodes:
                if node_of(self._store, params.user_id, one, own=True) != one:
                    raise NotFound(f"there is no {one}", hint="What is erased is named by its whole id.")
        return Selection(params.nodes, channel, params.matching, params.before, params.secrets)

    async def _purge(self, selection: Selection, on_progress: Callable[[str, int, int], None]) -> Purged:
        # A dream that has read the data already could write it back after the purge.
        async with self._dreamer.held_back("a purge is under way"):
            purged = await asyncio.to_thread(self._store.purge, selection, on_progress)
            if purged.run_id is not None:
                await asyncio.to_thread(self._refresh)
        return purged

    def _refresh(self) -> None:
        try:
            if self._store.pages.written():  # else no dream has been applied yet
                self._pages.refresh()
        except (StoreError, OSError) as error:  # it is purged all the same; the next dream writes them
            logger.warning("the catalogue is as the purge left it: {}", type(error).__name__)


def _seen_by(user: str | None, purged: Purged) -> Purged:
    """Return the account of a purge without the memories of others that say the same."""
    if user is None:
        return purged
    items = tuple(item for item in purged.items if may_read(user, item.channel))
    return replace(purged, items=items, titles=(), repeated_in=(), traces=(), copies=())


PURGE_METHODS: tuple[Method[Any, Any], ...] = (Method("purge", PurgeParams, Purged, PurgeMethods.purge, long=True),)

"""The wire's method that erases: dreams are kept away while it does, and the derived pages are made anew after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from loguru import logger

from ...ipc.answers import PurgeAnswer
from ...ipc.call import Call
from ...ipc.channels import full_name
from ...ipc.params import PurgeParams
from ...ipc.store_methods import Handler
from ...store import Purged, PurgePreview, Selection
from ...store.model import StoreError
from ..clock import local_now
from ..dreaming.dreamer import Dreamer
from ..dreaming.landing import DerivedPages

if TYPE_CHECKING:
    from ...store import MemoryStore


class PurgeMethods:
    """The method; it is called in the server's loop, and works in a thread."""

    def __init__(self, store: MemoryStore, dreamer: Dreamer) -> None:
        self._store = store
        self._dreamer = dreamer
        self._pages = DerivedPages(store, local_now)

    def handlers(self) -> dict[str, Handler]:
        """Return the method by its name."""
        return {"purge": Handler(PurgeParams, self.purge, long=True)}

    async def purge(self, params: PurgeParams, call: Call) -> PurgeAnswer:
        """Erase what is named, or say what that comes to. Once begun it is finished, whoever waits for it."""
        if params.probes:
            return _answer(Purged(None, NOTHING), await asyncio.to_thread(self._store.purge_questions))
        selection = await asyncio.to_thread(self._selection, params)
        if params.dry_run:
            return _answer(Purged(None, await asyncio.to_thread(self._store.preview_purge, selection)))
        task = asyncio.create_task(self._purge(selection, call.progress))
        return _answer(await asyncio.shield(task))

    def _selection(self, params: PurgeParams) -> Selection:
        channel = params.channel
        if channel is not None:
            channel = full_name(channel, self._store.channel_names_with(channel), beginning=False)
        return Selection(params.nodes, channel, params.matching, params.before, params.secrets)

    async def _purge(self, selection: Selection, on_progress: Callable[[str, int, int], None]) -> Purged:
        async with self._dreamer.held_back("a purge is under way"):
            purged = await asyncio.to_thread(self._store.purge, selection, on_progress)
            if purged.run_id is not None:
                await asyncio.to_thread(self._refresh)
        return purged

    def _refresh(self) -> None:
        try:
            if self._store.pages.written():  # else no dream has landed yet
                self._pages.refresh()
        except (StoreError, OSError) as error:  # it is purged all the same; the next dream writes them
            logger.warning("the catalogue is as the purge left it: {}", type(error).__name__)


NOTHING = PurgePreview(0, 0, 0, 0, 0, 0, (), (), ())


def _answer(purged: Purged, questions: int = 0) -> PurgeAnswer:
    preview = purged.preview
    return {
        "run_id": purged.run_id,
        "sessions": preview.sessions,
        "turns": preview.turns,
        "memories": preview.memories,
        "secrets": preview.secrets,
        "files_removed": preview.files_removed,
        "files_changed": preview.files_changed,
        "titles": list(preview.titles),
        "repeated_in": list(preview.repeated_in),
        "copies": list(preview.copies),
        "traces": list(purged.traces),
        "out_of_reach": list(purged.out_of_reach),
        "questions": questions,
    }

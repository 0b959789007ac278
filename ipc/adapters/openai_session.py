"""A session of the OpenAI Agents SDK, kept by the daemon. Needs `dreamd[openai-agents]`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from agents.memory import SessionABC, SessionSettings

from ...store.roles import Role
from ..client import Client, ClientError
from .space import NOTHING, TRIES, Space, changing

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from ..protocol import Json

SPACE: Final = ("openai", "sessions")
SPEAKERS: Final = frozenset({Role.USER.value, Role.ASSISTANT.value})

MOST_BYTES: Final = 900_000
"""The size of the items in one document, of which the daemon takes a little more."""

DIGITS: Final = 10
"""The width of a document's number, so that keys sort as they count."""


class DreamdSession(SessionABC):
    """The items of one conversation, in the order in which they were added; they survive `kill -9` when that returns.

    Each `add_items` is a document. With `learn`, what the person and the assistant said is learned too, as from any
    transcript. A daemon that is away raises `dreamd.ipc.client.Unreachable` from every method.
    """

    def __init__(
        self,
        session_id: str,
        client: Client | None = None,
        *,
        channel: str | None = None,
        learn: bool = True,
        space: Sequence[str] = SPACE,
        user_id: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._items = Space(client or Client(name="openai-session"), (*space, session_id), channel, user_id)
        self._learn = learn
        self._next: int | None = None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, the oldest first; with a limit (or the settings') the last ones, all for a negative one."""
        wanted = limit if limit is not None else self.session_settings.limit if self.session_settings else None
        return cast("list[TResponseInputItem]", await asyncio.to_thread(self._last, wanted))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items to the end."""
        if items:
            await asyncio.to_thread(self._add, cast("list[Mapping[str, Any]]", items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it, None where there is none."""
        return cast("TResponseInputItem | None", await asyncio.to_thread(self._pop))

    async def clear_session(self) -> None:
        """Remove every item. The turns that were learned stay: `dreamctl purge` erases them."""
        await asyncio.to_thread(self._items.delete)

    def _last(self, limit: int | None) -> list[Any]:
        if limit is None or limit < 0:
            return [item for document in self._documents(values=True) for item in document["value"]]
        found: list[Any] = []
        for document in reversed(self._documents() if limit else []):
            if (kept := self._items.get(document["key"])) is not None:
                found = [*kept["value"], *found]
            if len(found) >= limit:
                break
        return found[len(found) - limit :] if len(found) > limit else found

    def _documents(self, *, values: bool = False) -> list[Json]:
        return sorted(self._items.all(values=values), key=lambda document: document["key"])

    def _add(self, items: Sequence[Mapping[str, Any]]) -> None:
        for batch in _batches(items):
            self._put(batch)
        turns = [turn for item in items for turn in _turns_of(item)] if self._learn else []
        if turns:
            with contextlib.suppress(ClientError):  # the items are kept: adding them again would double them
                self._items.observe({"session_id": self.session_id, "agent_id": "openai-agents"}, turns)

    def _put(self, batch: Sequence[Mapping[str, Any]]) -> None:
        for _ in range(TRIES):
            if self._next is None:
                self._next = max((int(document["key"]) for document in self._documents()), default=0) + 1
            # The next number is remembered, so that adding costs one call; another writer's number makes the put fail,
            # and the numbers are read again.
            number = self._next
            if self._items.put(f"{number:0{DIGITS}}", list(batch), if_version=NOTHING, searched=False):
                self._next = number + 1
                return
            self._next = None  # another one was added elsewhere
        raise changing(self.session_id)

    def _pop(self) -> Any:
        for _ in range(TRIES):
            known = self._documents()
            if not known:
                return None
            if (last := self._items.get(known[-1]["key"])) is None:
                continue
            *rest, item = last["value"]
            if rest:
                popped = self._items.put(last["key"], rest, if_version=last["version"], searched=False)
            else:
                popped = self._items.delete_version(last["key"], last["version"])
            if popped:
                return item
        raise changing(self.session_id)


def _batches(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Cut items into as many documents as they need: nearly always one."""
    batch: list[Mapping[str, Any]] = []
    size_bytes = 0
    for item in items:
        item_bytes = len(json.dumps(item, ensure_ascii=False).encode()) + 2
        if batch and size_bytes + item_bytes > MOST_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(item)
        size_bytes += item_bytes
    yield batch


def _turns_of(item: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the text of a person or the assistant in an item; calls of tools and their outputs have none."""
    role, content = item.get("role"), item.get("content")
    if role not in SPEAKERS:
        return
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    if text := "\n".join(text for text in texts if isinstance(text, str)).strip():
        yield {"role": str(role), "text": text}

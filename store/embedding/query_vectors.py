"""Vectors of past questions, for one that asks the same in the same words, whatever else is asked."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from ..engine.interface import Vector
from ..settings import QueryCacheSettings
from ..text.words import normal_form
from .embedding import Embedder

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Holds the `most` values that were used last, and counts how often one was there. Any thread may ask."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = self.cleared = 0

    def __len__(self) -> int:
        """Return how many are held."""
        return len(self._held)

    def get(self, key: Hashable) -> Value | None:
        """Return what is held of a key, which is then the last that was used."""
        with self._lock:
            value = self._held.get(key)
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
                self._held.move_to_end(key)
            return value

    def put(self, key: Hashable, value: Value) -> None:
        """Hold a value, and let go of those beyond the most."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._held.clear()
            self.cleared += 1


_MARKS = re.compile(r"[^\w\s.,;:!?'’\"()-]")  # what may be a part of a name: C++ and C# are not C


def form_of(text: str) -> tuple[str, ...]:
    """Return what two questions must share to ask the same."""
    return (*normal_form(text), *_MARKS.findall(text)) or (text,)


class QueryVectors:
    """Embeds a question once: its vector is held by form, and by what made it."""

    def __init__(self, embedder: Embedder, settings: QueryCacheSettings) -> None:
        self._embedder, self.held = embedder, Recent[Vector](settings.entries)

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question. Raises ModelUnavailable."""
        form = form_of(text)
        if (vector := self.held.get((form, self._embedder.made_by))) is None:
            vector = self._embedder.embed_query(text)
            self.held.put((form, self._embedder.made_by), vector)  # asked again: the model may be another by now
        return vector

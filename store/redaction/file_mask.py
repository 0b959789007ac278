"""The mask over a vault's files, for what is read of them again: the index."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from .redaction import masked

MOST_KNOWN: Final = 4096
"""Contents remembered, of 32 bytes each: more than are ever between the writer and the index."""


class FileMask:
    """Masks the secrets of files, but looks for none in what the store itself has just written from redacted text.

    A content is known by its hash, and no longer than this process lives: what anybody else wrote, into whichever
    file, has another hash, and is masked. `note` is called in the writer's thread, `over` in any.
    """

    def __init__(self, *, personal: bool = False) -> None:
        """Mask identifiers of people too where `personal` asks for it."""
        self._personal = personal
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def note(self, sha256: bytes) -> None:
        """Remember the hash of a whole file of which every text was redacted."""
        self._known[sha256] = None
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def over(self, data: bytes, parts: Callable[[bytes], Iterable[bytes]] = lambda data: (data,)) -> bytes:
        """Return a file's bytes, or a part of them, with an `x` for each byte of a secret in one of its `parts`."""
        if self._known and hashlib.sha256(data).digest() in self._known:
            return data
        return b"".join(masked(part, personal=self._personal) for part in parts(data))

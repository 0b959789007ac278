"""One space of documents, asked over the wire. Every method raises the client's errors: these are no hints to lose."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ..client import Client, DaemonError
from ..protocol import CONFLICT, Json

TRIES = 8
"""Changes of one document that are begun again since another one came first."""

NOTHING = ""
"""The version of a document that is not there."""


_TURNS: WeakKeyDictionary[Client, threading.Lock] = WeakKeyDictionary()
_GATE = threading.Lock()


def turn_of(client: Client) -> threading.Lock:
    """Return the lock of a client: it is one connection, for one call at a time, however many use it."""
    with _GATE:
        return _TURNS.setdefault(client, threading.Lock())


class Space:
    """The documents of a space. Every method may be called from any thread; all that share a client take turns."""

    def __init__(
        self, client: Client, space: Sequence[str], channel: str | None = None, user_id: str | None = None
    ) -> None:
        self._client = client
        self._of = {"space": list(space), "user_id": user_id}
        self._channel = channel
        self._turn = turn_of(client)

    def get(self, key: str) -> Json | None:
        """Return a document, None where there is none."""
        document: Json | None = self._call("document_get", key=key)["document"]
        return document

    def put(self, key: str, value: Any, *, if_version: str | None = None, searched: bool = True) -> bool:
        """Keep a value; False where the document is not of this version."""
        given = {"key": key, "value": value, "if_version": if_version, "searched": searched, "channel": self._channel}
        return self._succeeds("document_put", **given)

    def all(self, prefix: str = "", *, values: bool = False) -> Iterator[Json]:
        """Yield the documents whose keys begin with a prefix, the oldest first."""
        after = None
        while True:
            page = self._call("document_list", prefix=prefix, values=values, after=after, limit=1000)
            yield from page["documents"]
            if (after := page["next"]) is None:
                return

    def rename(self, key: str, to: str) -> bool:
        """Give a document and those below it another key; False where something has it, or they are changing."""
        return self._succeeds("document_rename", key=key, to=to, tree=True)

    def delete(self, key: str | None = None) -> int:
        """Delete a document and those below it, or all of the space; return how many there were."""
        for _ in range(TRIES):
            try:
                return int(self._call("document_delete", key=key, tree=True)["documents"])
            except DaemonError as error:
                if error.code != CONFLICT:
                    raise
        raise changing(key or "the space")

    def delete_version(self, key: str, version: str) -> bool:
        """Delete a document; False where it is not of this version."""
        try:
            return bool(self._call("document_delete", key=key, if_version=version)["documents"])
        except DaemonError as error:
            if error.code != CONFLICT:
                raise
            return False

    def observe(self, session: dict[str, Any], turns: Sequence[dict[str, str]]) -> None:
        """Send the turns of a session to be learned."""
        with self._turn:
            given = {"channel": self._channel, **session} if self._channel else session
            of_user = {**given, "user_id": self._of["user_id"]}
            self._client.call("observe", {"session": of_user, "turns": list(turns)})

    def _succeeds(self, method: str, **params: Any) -> bool:
        try:
            self._call(method, **params)
        except DaemonError as error:
            if error.code != CONFLICT:
                raise
            return False
        return True

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        # The client is one connection with one call at a time, and frameworks call from many threads.
        with self._turn:
            return self._client.call(method, {**self._of, **params})


def changing(key: str) -> DaemonError:
    """Return the error for a document that others keep changing."""
    return DaemonError(f"{key} is being changed by others", "Try again in a moment.", CONFLICT)

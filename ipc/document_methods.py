"""The table of methods for documents: kept by key, listed, searched, renamed, deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ..store.names import Channel, DocumentKey, Label
from .answers import (
    DocumentAnswer,
    DocumentGetAnswer,
    DocumentListAnswer,
    DocumentMovedAnswer,
    DocumentPutAnswer,
    DocumentSearchAnswer,
)
from .call import Call, Handler
from .channels import channel_of
from .params import Folder, Limit, Params
from .serialize import instant, plain

if TYPE_CHECKING:
    from ..store import MemoryStore
    from ..store.results import Document

Space = Annotated[tuple[Label, ...], Field(min_length=1, max_length=16)]
AnySpace = Annotated[tuple[Label, ...], Field(max_length=16)]
Version = Annotated[str, Field(max_length=64)]
Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 366 * 100, allow_inf_nan=False)]


MOST_NESTED = 100
"""Lists and objects within each other in a value."""


def _shallow(value: Any) -> Any:
    """Return a value of JSON. Raises ValueError where it is nested too deep to be written."""
    inner, depth = [value], 0
    while inner := [one for outer in inner for one in _parts(outer)]:
        depth += 1
        if depth > MOST_NESTED:
            raise PydanticCustomError(
                "nested", "its lists and objects lie deeper than {most} within each other", {"most": MOST_NESTED}
            )
    return value


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class DocumentPutParams(Params):
    """A value to keep under a key. `if_version`: only in the place of this version, empty for none."""

    space: Space
    key: DocumentKey
    value: Annotated[Any, BeforeValidator(_shallow)]
    channel: Channel | None = None
    cwd: Folder | None = None
    if_version: Version | None = None
    ttl_minutes: Minutes | None = None
    searched: bool = True


class DocumentGetParams(Params):
    """The document that is wanted. `refresh`: its time to live begins again."""

    space: Space
    key: DocumentKey
    refresh: bool = False


class DocumentListParams(Params):
    """The space whose documents are wanted, none for all. `deep`: those of the spaces within it too."""

    space: AnySpace = ()
    prefix: Annotated[str, Field(max_length=1024)] = ""
    deep: bool = False
    values: bool = True
    limit: Limit = 100
    after: Annotated[str, Field(max_length=256)] | None = None


class DocumentSearchParams(Params):
    """The question, and the space whose documents may answer it, with those of the spaces within it."""

    space: AnySpace = ()
    query: Annotated[str, Field(min_length=1, max_length=2**16)]
    limit: Limit = 10


class DocumentRenameParams(Params):
    """The document that gets another key. `tree`: those below it too, whose keys go on with a slash."""

    space: Space
    key: DocumentKey
    to: DocumentKey
    tree: bool = False


class DocumentDeleteParams(Params):
    """The document to delete; all of the space where no key is given."""

    space: Space
    key: DocumentKey | None = None
    tree: bool = False
    if_version: Version | None = None


MOST_PAGE_BYTES = 2**20 - 2**12
"""The size of the documents in one answer, of which any one fits."""


class DocumentMethods:
    """The methods; all of them block, so they run in the server's threads."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {
            "document_put": Handler(DocumentPutParams, self.put, blocking=True, activity=True, first=True),
            "document_get": Handler(DocumentGetParams, self.get, blocking=True, activity=True, first=True),
            "document_list": Handler(DocumentListParams, self.list, blocking=True, activity=True),
            "document_search": Handler(DocumentSearchParams, self.search, blocking=True, activity=True),
            "document_rename": Handler(DocumentRenameParams, self.rename, blocking=True, activity=True),
            "document_delete": Handler(DocumentDeleteParams, self.delete, blocking=True, activity=True),
        }

    def put(self, params: DocumentPutParams, call: Call) -> DocumentPutAnswer:
        """Keep a value under a key."""
        answer: DocumentPutAnswer = plain(
            self._store.put_document(
                params.space,
                params.key,
                params.value,
                channel=channel_of(params.channel, params.cwd, lambda _: self._store.channel_names(), beginning=False),
                if_version=params.if_version,
                ttl_minutes=params.ttl_minutes,
                searched=params.searched,
            )
        )
        return answer

    def get(self, params: DocumentGetParams, call: Call) -> DocumentGetAnswer:
        """Return a document, null where there is none."""
        found = self._store.document(params.space, params.key, refresh=params.refresh)
        return {"document": None if found is None else _answer(found, values=True)}

    def list(self, params: DocumentListParams, call: Call) -> DocumentListAnswer:
        """Return the documents of a space, as many as one answer holds."""
        listed = self._store.documents(params.space, prefix=params.prefix, deep=params.deep, after=params.after)
        return _page(listed, params.limit, values=params.values)

    def search(self, params: DocumentSearchParams, call: Call) -> DocumentSearchAnswer:
        """Return the places of the documents that are nearest to a question."""
        ranked = self._store.search_documents(params.space, params.query)[: params.limit]
        return {
            "hits": [
                {"space": [*each.document.space], "key": each.document.key, "score": each.score} for each in ranked
            ]
        }

    def rename(self, params: DocumentRenameParams, call: Call) -> DocumentMovedAnswer:
        """Give documents other keys."""
        answer: DocumentMovedAnswer = plain(
            self._store.rename_document(params.space, params.key, params.to, tree=params.tree)
        )
        return answer

    def delete(self, params: DocumentDeleteParams, call: Call) -> DocumentMovedAnswer:
        """Delete documents."""
        answer: DocumentMovedAnswer = plain(
            self._store.delete_document(params.space, params.key, tree=params.tree, if_version=params.if_version)
        )
        return answer


def _page(listed: Iterator[tuple[str, Document]], limit: int, *, values: bool) -> DocumentListAnswer:
    documents: list[DocumentAnswer] = []
    last, left_bytes = None, MOST_PAGE_BYTES
    for mark, found in listed:
        answer = _answer(found, values=values)
        left_bytes -= len(json.dumps(answer, ensure_ascii=False).encode())
        if documents and (len(documents) == limit or left_bytes < 0):
            return {"documents": documents, "next": last}
        documents.append(answer)
        last = mark
    return {"documents": documents, "next": None}


def _answer(found: Document, *, values: bool) -> DocumentAnswer:
    return {
        "space": [*found.space],
        "key": found.key,
        "value": found.value if values else None,
        "node_id": found.node_id,
        "channel": found.channel,
        "version": found.version,
        "created_at": found.created_at.isoformat(),
        "updated_at": found.updated_at.isoformat(),
        "expires_at": instant(found.expires_at),
        "ttl_minutes": found.ttl_minutes,
        "searched": found.searched,
        "size_bytes": found.size_bytes,
    }

"""The methods for documents: kept by key, listed, searched, renamed, deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..store.results import Document, Moved, Stored
from .answers import DocumentGetAnswer, DocumentHit, DocumentListAnswer, DocumentSearchAnswer
from .call import Call, Method
from .channels import channel_of
from .params import (
    DocumentDeleteParams,
    DocumentGetParams,
    DocumentListParams,
    DocumentPutParams,
    DocumentRenameParams,
    DocumentSearchParams,
)
from .protocol import as_json

if TYPE_CHECKING:
    from ..store import MemoryStore

MOST_PAGE_BYTES = 2**20 - 2**12
"""The size of the documents in one answer, of which any one fits."""


def put(store: MemoryStore, params: DocumentPutParams, call: Call) -> Stored:
    """Keep a value under a key."""
    return store.put_document(
        params.space,
        params.key,
        params.value,
        channel=channel_of(params.channel, params.cwd, lambda _: store.channel_names(), beginning=False),
        if_version=params.if_version,
        ttl_minutes=params.ttl_minutes,
        searched=params.searched,
    )


def get(store: MemoryStore, params: DocumentGetParams, call: Call) -> DocumentGetAnswer:
    """Return a document, null where there is none."""
    return DocumentGetAnswer(store.document(params.space, params.key, refresh=params.refresh))


def list_(store: MemoryStore, params: DocumentListParams, call: Call) -> DocumentListAnswer:
    """Return the documents of a space that fit into one answer."""
    listed = store.documents(params.space, prefix=params.prefix, deep=params.deep, after=params.after)
    return _page(listed, params.limit, values=params.values)


def search(store: MemoryStore, params: DocumentSearchParams, call: Call) -> DocumentSearchAnswer:
    """Return the places of the documents that are nearest to a question."""
    ranked = store.search_documents(params.space, params.query)[: params.limit]
    return DocumentSearchAnswer([DocumentHit(each.document.space, each.document.key, each.score) for each in ranked])


def rename(store: MemoryStore, params: DocumentRenameParams, call: Call) -> Moved:
    """Give documents other keys."""
    return store.rename_document(params.space, params.key, params.to, tree=params.tree)


def delete(store: MemoryStore, params: DocumentDeleteParams, call: Call) -> Moved:
    """Delete documents."""
    return store.delete_document(params.space, params.key, tree=params.tree, if_version=params.if_version)


def _page(listed: Iterator[tuple[str, Document]], limit: int, *, values: bool) -> DocumentListAnswer:
    """Return the first documents with the mark of the last one, if others follow."""
    documents: list[Document] = []
    last, left_bytes = None, MOST_PAGE_BYTES
    for mark, found in listed:
        document = found if values else replace(found, value=None)
        # One document more than the page is read: only then is it known that another page follows.
        left_bytes -= len(json.dumps(document, ensure_ascii=False, default=as_json).encode())
        if documents and (len(documents) == limit or left_bytes < 0):
            return DocumentListAnswer(documents, last)
        documents.append(document)
        last = mark
    return DocumentListAnswer(documents, None)


DOCUMENT_METHODS: tuple[Method[Any, Any], ...] = (
    Method("document_put", DocumentPutParams, Stored, put, blocking=True, activity=True, first=True),
    Method("document_get", DocumentGetParams, DocumentGetAnswer, get, blocking=True, activity=True, first=True),
    Method("document_list", DocumentListParams, DocumentListAnswer, list_, blocking=True, activity=True),
    Method("document_search", DocumentSearchParams, DocumentSearchAnswer, search, blocking=True, activity=True),
    Method("document_rename", DocumentRenameParams, Moved, rename, blocking=True, activity=True),
    Method("document_delete", DocumentDeleteParams, Moved, delete, blocking=True, activity=True),
)

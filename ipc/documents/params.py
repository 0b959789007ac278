"""The parameters of the methods for documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ...store.names import Channel, DocumentKey, Label
from ..params import Folder, Limit, Params

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

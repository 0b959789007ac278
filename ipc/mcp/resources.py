"""The resources, which an agent reads beside its tools: its project's profile, digests, and single memories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from ...store.model import GLOBAL_CHANNEL
from ..channels import channel_of
from ..protocol import NOT_FOUND, ProtocolError
from . import render

if TYPE_CHECKING:
    from ..answers import ShowAnswer
    from .session import WireClient

PROFILE, DIGEST, NODE = "dreamd://profile", "dreamd://digest", "dreamd://node/"
MARKDOWN = "text/markdown"
MOST_PAGES = 20

RESOURCES: tuple[Mapping[str, Any], ...] = (
    {
        "uri": PROFILE,
        "name": "profile",
        "description": "What holds now in this project, and of its person",
        "mimeType": MARKDOWN,
    },
    {
        "uri": DIGEST,
        "name": "digest",
        "description": "What the last dreams changed in the memory",
        "mimeType": MARKDOWN,
    },
)
TEMPLATES: tuple[Mapping[str, Any], ...] = (
    {
        "uriTemplate": DIGEST + "/{date}",
        "name": "digest of a day",
        "description": "YYYY-MM-DD",
        "mimeType": MARKDOWN,
    },
    {
        "uriTemplate": NODE + "{id}",
        "name": "memory",
        "description": "one memory, turn or session, by its id",
        "mimeType": MARKDOWN,
    },
)
_DATED = re.compile(re.escape(DIGEST) + r"/(\d{4}-\d{2}-\d{2})")


async def read(uri: str, wire: WireClient, known: Mapping[str, str]) -> str:
    """Return a resource's text, fenced. Raises ProtocolError, NOT_FOUND for what is none."""
    if uri == PROFILE:
        return await _profile(wire, known.get("cwd"))
    dated = _DATED.fullmatch(uri)
    if uri == DIGEST or dated:
        digest = await wire.call("digest", {"date": dated[1]} if dated else {})
        return render.listed([(digest["date"], digest["text"])])
    if uri.startswith(NODE):
        node = await wire.call("show", {"node_id": unquote(uri.removeprefix(NODE))})
        return render.shown(cast("ShowAnswer", node), {})
    raise ProtocolError(f"there is no resource {uri[:200]}", "they are listed by resources/list", NOT_FOUND)


async def _profile(wire: WireClient, cwd: str | None) -> str:
    """Return the profile pages of the agent's project, and those of the person."""
    pages: list[dict[str, Any]] = []
    for channel in dict.fromkeys((channel_of(None, cwd), GLOBAL_CHANNEL)):
        listed = await wire.call("list", {"channel": channel, "level": "L3", "limit": MOST_PAGES})
        pages += [await wire.call("show", {"node_id": page["node_id"]}) for page in listed["memories"] if page["live"]]
    if not pages:
        return "There is no profile of this project yet; dreams make one."
    return render.listed([(page["title"], page["text"]) for page in pages])

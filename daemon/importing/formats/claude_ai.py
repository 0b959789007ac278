"""claude.ai's export: `conversations.json`, a list of conversations, alone or in the archive as it came.

A message's `uuid` is the turn's. Left out: thinking, calls of tools and their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store import session_id
from ....store.model import GLOBAL_CHANNEL, NewTurn, SessionHead
from ....store.roles import Role
from ..exports import conversations
from ..items import SessionRead, Skipped
from ..json_lines import guarded
from ..sanitize import instant, tidy
from ..turns import in_batches

_SPEAKERS = {"human": Role.USER.value, "assistant": Role.ASSISTANT.value}


def recognises(document: object) -> bool:
    """Return True if a file's value is such a list."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and isinstance(first.get("chat_messages"), list) and "uuid" in first


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every conversation."""
    for place, value in enumerate(conversations(path), start=1):
        if isinstance(value, Skipped):
            yield value
        elif not recognises(value):
            yield Skipped(path, None, f"conversation {place}: no messages")
        else:
            yield from guarded(_conversation(path, value), path)


def _conversation(path: Path, value: Mapping[str, Any]) -> Iterator[SessionRead | Skipped]:
    turns = [turn for message in value["chat_messages"] if (turn := _turn(message)) is not None]
    if not turns:
        yield Skipped(path, None, "a conversation without words")
        return
    name = value.get("name")
    head = SessionHead(
        session_id=session_id(f"claude-ai-{value['uuid']}"),
        channel=GLOBAL_CHANNEL,
        title=tidy(name) if isinstance(name, str) else "",
        started_at=instant(value.get("created_at")),
        agent_id="claude-ai",
    )
    yield from in_batches(head, turns)


def _turn(message: object) -> NewTurn | None:
    if not isinstance(message, dict):
        return None
    named, role = message.get("uuid"), _SPEAKERS.get(str(message.get("sender")))
    text = tidy("\n".join(_texts(message)))
    if role is None or not text or not isinstance(named, str) or not named:
        return None
    return NewTurn(role, text, instant(message.get("created_at")), named)


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the blocks' texts, else the message's own; and the names of attachments."""
    content = message.get("content")
    texts = [
        block["text"]
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    own = message.get("text")
    yield from texts or ([own] if isinstance(own, str) else [])
    attached = message.get("attachments")
    for one in attached if isinstance(attached, list) else []:
        if isinstance(one, dict) and isinstance(one.get("file_name"), str):
            yield f"[document {one['file_name']}]"

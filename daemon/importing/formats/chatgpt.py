"""ChatGPT's export: `conversations.json`, a list of conversations, alone or in the archive as it came.

A conversation is a tree, since a message may be edited and an answer repeated; its turns are the path from its
`current_node` to the root. A message's id is the turn's. Left out: instructions, hidden messages, thinking.
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
from ..sanitize import instant, shorten, tidy
from ..turns import in_batches

USER, ASSISTANT, TOOL = Role.USER.value, Role.ASSISTANT.value, Role.TOOL.value

_HIDDEN = frozenset({"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap", "system_error"})
_TOOL_CHARS = (300, 500)


def recognises(document: object) -> bool:
    """Return True if a file's value is such a list."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every conversation, by its latest path."""
    for place, value in enumerate(conversations(path), start=1):
        if isinstance(value, Skipped):
            yield value
        elif not recognises(value):
            yield Skipped(path, None, f"conversation {place}: no tree of messages")
        else:
            yield from guarded(_conversation(path, place, value), path)


def _conversation(path: Path, place: int, value: Mapping[str, Any]) -> Iterator[SessionRead | Skipped]:
    turns = [turn for message in _current_path(value) if (turn := _turn(message)) is not None]
    given = next((one for key in ("conversation_id", "id") if isinstance(one := value.get(key), str) and one), "")
    title = value.get("title")
    head = SessionHead(
        session_id=session_id(f"chatgpt-{given or path.stem + '-' + str(place)}"),
        channel=GLOBAL_CHANNEL,
        title=tidy(title) if isinstance(title, str) else "",
        started_at=instant(value.get("create_time")),
        agent_id="chatgpt",
    )
    if not turns:
        yield Skipped(path, None, "a conversation without words")
        return
    yield from in_batches(head, turns)


def _current_path(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages from the root to the current node."""
    nodes = value["mapping"]
    name = value.get("current_node")
    if not isinstance(name, str) or name not in nodes:  # the newest node
        name = next(reversed(nodes), None)
    found: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    # A damaged export may have a cycle, or a missing parent.
    while isinstance(name, str) and name not in seen and isinstance(node := nodes.get(name), dict):
        seen.add(name)
        if isinstance(message := node.get("message"), dict):
            found.append(message)
        name = node.get("parent")
    return found[::-1]


def _turn(message: Mapping[str, Any]) -> NewTurn | None:
    author, content, metadata = message.get("author"), message.get("content"), message.get("metadata")
    role = author.get("role") if isinstance(author, dict) else None
    if role not in (USER, ASSISTANT, TOOL) or not isinstance(content, dict) or content.get("content_type") in _HIDDEN:
        return None
    if isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation"):
        return None
    if role == ASSISTANT and message.get("recipient") not in (None, "all"):  # a call of a tool
        return None
    text = tidy("\n".join(_texts(content)))
    text = shorten(text, *_TOOL_CHARS) if role == TOOL else text
    named = message.get("id")
    if not text or not isinstance(named, str) or not named:
        return None
    return NewTurn(role, text, instant(message.get("create_time")), named)


def _texts(content: Mapping[str, Any]) -> Iterator[str]:
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else [content.get("text")]:
        match part:
            case str() if part:
                yield part
            case {"content_type": "image_asset_pointer"}:
                yield "[image]"
            case {"content_type": "audio_transcription", "text": str(text)}:
                yield text

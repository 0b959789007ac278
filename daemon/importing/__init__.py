"""Imports of other programs' transcripts, chats and notes. Their names are here, so that no reader has to be loaded."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

FollowedName = Literal[
    "claude-code",
    "codex",
    "gemini",
    "opencode",
    "copilot",
    "cursor",
    "cline",
    "qwen",
    "goose",
    "openclaw",
]
FormatName = Literal[
    FollowedName,
    "chatgpt",
    "claude-ai",
    "chat-jsonl",
    "markdown",
]

AddedFormat = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*$", max_length=81)]
"""A format that an extension adds: `EXTENSION.NAME`."""

# Agents whose sessions can be followed as they grow.
FOLLOWED: Final[tuple[FollowedName, ...]] = get_args(FollowedName)

# The formats of imports: the sessions of these agents first.
FORMAT_NAMES: Final[tuple[FormatName, ...]] = get_args(FormatName)

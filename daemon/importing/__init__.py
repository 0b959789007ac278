"""Imports of other programs' transcripts, chats and notes. Their names are here, so that no reader has to be loaded."""

from __future__ import annotations

from typing import Final, Literal, get_args

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

# Agents whose sessions can be followed as they grow.
FOLLOWED: Final[tuple[FollowedName, ...]] = get_args(FollowedName)

# The formats of imports: the sessions of these agents first.
FORMAT_NAMES: Final[tuple[FormatName, ...]] = get_args(FormatName)

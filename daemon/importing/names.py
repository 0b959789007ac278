"""The names of what is imported and followed; the command line reads them without the readers."""

from __future__ import annotations

from typing import Final, Literal, get_args

FollowedName = Literal["claude-code", "codex", "gemini", "opencode"]
FormatName = Literal[
    FollowedName,
    "chatgpt",
    "claude-ai",
    "chat-jsonl",
    "markdown",
]

FOLLOWED: Final[tuple[FollowedName, ...]] = get_args(FollowedName)
"""Agents whose sessions can be followed as they grow."""

FORMAT_NAMES: Final[tuple[FormatName, ...]] = get_args(FormatName)
"""The formats of imports: the sessions of these agents first."""

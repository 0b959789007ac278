"""The notes of calls by which an agent reads what strangers wrote: the web, foreign tools, a sub-agent's report."""

from __future__ import annotations

import re
from typing import Final

_WEB_CALL: Final = re.compile(r"\s*\[\w*(?:web|fetch|brows|https?:)[^\n]*|\s*\[[^\n\]]*https?://", re.IGNORECASE)
"""The call of a tool that reads the web: "[WebFetch: …]", "[mcp__browser__open …]", "[Bash: curl https://…]"."""

_FOREIGN_CALL: Final = re.compile(
    r"^[ \t]*\[(?:\w*(?:web|fetch|brows|https?:)|mcp__|read_mcp_|ReadMcp|(?:Agent|BashOutput|Skill|Task|TaskOutput)\b"
    r"|[^\n\]]*(?:https?://|\b(?:curl|wget|lynx|w3m|gh|glab|ssh)\s))",
    re.IGNORECASE | re.MULTILINE,
)
"""Such a call or its result, at the beginning of any line. What a sub-agent read is not known, so it counts."""


def reads_the_web(text: str) -> bool:
    """Return True for the note of a call that reads the web."""
    return _WEB_CALL.match(text) is not None


def reads_foreign_words(text: str) -> bool:
    """Return True for a turn with a call, or its result, that brings what strangers wrote."""
    return "[" in text and _FOREIGN_CALL.search(text) is not None

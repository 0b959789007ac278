"""Roles: the speaker of a turn, as one word for each part in a conversation or as a person's name."""

from __future__ import annotations

import re
from enum import StrEnum

from .names import as_label


class Role(StrEnum):
    """The parts of a conversation. Any other role is a speaker's name."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


MACHINES = frozenset({Role.ASSISTANT, Role.TOOL, Role.SYSTEM})
"""The parts in which no person speaks."""

UNKNOWN_SPEAKER = "unknown"

# What other programs call the parts: OpenAI, Anthropic, Google, LangChain, ShareGPT, OASST, Open Interpreter.
_CALLED: dict[Role, tuple[str, ...]] = {
    Role.USER: ("user", "human", "me", "person", "prompter", "end-user"),
    Role.ASSISTANT: (
        *("assistant", "ai", "model", "bot", "agent", "chatbot", "llm", "language-model", "ai-assistant"),
        *("chatgpt", "gpt", "claude", "claude-code", "codex", "copilot", "gemini"),
    ),
    Role.TOOL: (
        *("tool", "function", "tool-call", "tool-result", "toolresult", "function-call", "function-result"),
        *("function-call-output", "ipython", "observation"),
    ),
    Role.SYSTEM: ("system", "developer"),
}
_ROLES = {word: role for role, words in _CALLED.items() for word in words}
_MODEL = re.compile(
    r"(?:chatgpt|gpt|claude|gemini|gemma|llama|mistral|mixtral|qwen|deepseek|grok|phi)[-_.:/ ]?v?\d[\w.:/-]*"
    r"|claude[-_ ](?:opus|sonnet|haiku|instant)[\w.:/-]*"
)


def role_of(said: str) -> str:
    """Return the role that a word means, in any case and spelling; a speaker's name stays a name."""
    # "Tool Result", "tool_result" and "tool-result" are one word.
    word = re.sub(r"[\s_]+", "-", said.strip().lower())
    if (role := _ROLES.get(word)) is not None:
        return role.value
    return Role.ASSISTANT.value if _MODEL.fullmatch(word) else as_label(said) or UNKNOWN_SPEAKER

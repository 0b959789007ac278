"""The text at an agent's act: what was decided about a file, before its edit, and the cause of a known failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...store import EDITS, SHELL, estimate_tokens, fenced
from ..importing.tool_calls import as_known, is_our_own

if TYPE_CHECKING:
    from ...store import HandedSession, MemoryStore
    from .hook_formats import HookInput

# The most for one act: two lines of an explanation.
ACT_TOKENS = 220

BEFORE_EDIT = "From earlier sessions, about this file:"
AFTER_FAILURE = "This error came up in an earlier session:"

# Gemini CLI and opencode take no text before an edit, but read a file before they edit it.
READS = "Read"

# The exit code in a result, in the words of Codex, Gemini CLI and Claude Code; the first is the program's own.
_EXIT_CODE = re.compile(r"\bexit(?:ed with)? code:? ?(-?\d+)", re.IGNORECASE)

# Characters of an output that are read: errors stand at its beginning or its end.
READ_CHARS = 20_000

# Characters of an edit's new text that are compared with what was said about the file.
EDIT_CHARS = 4_000


class AgentAct(NamedTuple):
    """A call as a hook gives it: `words` are a command or a path, `text` an edit's new text, `output` a result's.

    `failed` is None where its program does not say so.
    """

    tool: str
    words: str
    text: str
    output: str
    failed: bool | None


def act_of(hook: HookInput) -> AgentAct | None:
    """Return the call of a hook's input, None for one that recalls nothing: of another tool, or of our own."""
    tool, given = as_known(hook.tool, hook.tool_input)
    if is_our_own(hook.tool, given):
        return None
    words = given.get("command" if tool == SHELL else "file_path")
    if not isinstance(words, str) or not words.strip():
        return None
    text = "\n".join(_texts({key: value for key, value in given.items() if key not in ("command", "file_path")}))
    output = "\n".join(_texts(hook.tool_output))
    code = _EXIT_CODE.search(output[:READ_CHARS])
    failed = int(code[1]) != 0 if code is not None and not hook.is_failure else hook.is_failure
    return AgentAct(tool, words, text[:EDIT_CHARS], output[:READ_CHARS], failed)


def text_at_act(
    store: MemoryStore, name: str, place: tuple[str, str], act: AgentAct, session: HandedSession, budget_tokens: int
) -> str:
    """Return the lines that an act recalls, fenced; "" for nothing, or nothing that is new in this session.

    `place` is the channel and the folder of the act.
    """
    channel, folder = place
    if act.failed is not False and act.tool == SHELL and act.output:
        lines = store.after_failure(channel, name, act.words, act.output, is_sure=act.failed is True)
        opening = AFTER_FAILURE
    elif not act.failed and (act.tool in EDITS or act.tool == READS):
        opening, lines = BEFORE_EDIT, store.before_edit(channel, name, act.words, act.text, session.prompt)
    else:
        return ""
    fresh = [line for line in lines if not any(line.text in before for before in session.given)]
    changed = store.code.changed([line.node_id for line in fresh], folder)
    fresh = [line for line in fresh if line.node_id not in changed]
    text, tokens = "", 0
    while fresh:
        text = fenced("\n".join((opening, *(f"- {line.text}" for line in fresh))))
        tokens = estimate_tokens(text)
        if tokens <= min(ACT_TOKENS, budget_tokens):
            break
        fresh.pop()  # the first line says most
    if not fresh:
        return ""
    session.hand([line.text for line in fresh], tokens, [line.node_id for line in fresh])
    return text


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value, also those within objects and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)

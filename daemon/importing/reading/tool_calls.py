"""An agent's actions, in a few words: tool calls and their results as short notes.

Calls that only read are not kept, those that act are; of results, outcomes and every error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .foreign_tools import brings_foreign_words
from .sanitize import first_line, shorten

# A call is described by the first of these inputs that it has. None: the call is not worth a note.
_DESCRIBED_BY: Mapping[str, tuple[str, ...] | None] = {
    "Agent": ("description", "prompt"),
    "Bash": ("command",),
    "BashOutput": None,
    "Edit": ("file_path",),
    "EnterPlanMode": None,
    "Glob": None,
    "Grep": None,
    "KillShell": None,
    "LS": None,
    "MultiEdit": ("file_path",),
    "NotebookEdit": ("notebook_path",),
    "Read": None,
    "Skill": ("skill", "command"),
    "Task": ("description", "prompt"),
    "TaskCreate": ("subject",),
    "TaskGet": None,
    "TaskList": None,
    "TaskOutput": None,
    "TaskUpdate": None,
    "ToolSearch": None,
    "WebFetch": ("url",),
    "WebSearch": ("query",),
    "Write": ("file_path",),
}

# How much of a result's head and tail is kept. A sub-agent's report is prose; of an output the end says most.
_RESULT_CHARS: Mapping[str, tuple[int, int]] = {
    "Agent": (1500, 500),
    "Bash": (200, 500),
    "BashOutput": (0, 500),
    "Task": (1500, 500),
    "WebFetch": (500, 0),
    "WebSearch": (500, 0),
}
_ERROR_CHARS = (400, 400)
_CALL_CHARS = 160
_PLAN_CHARS = (3000, 500)

_REFUSED = re.compile(
    r"The user doesn't want to (?:proceed with this tool use|take this action right now)\. "
    r"(?:The tool use was rejected \(eg\. if it was [\w ]{1,20}, the new_string was NOT written to the file\)\. "
    r"To tell you how to proceed, the user said:\n(?P<said>.*)|.{0,150}STOP what you are doing.*)",
    re.DOTALL,
)
"""The whole of what Claude Code answers for a call that its person refused."""
_NOTE = "\n\nNote: The user's next message"
_DENIED = frozenset({"user", "user-rejected"})
_ASKS = "AskUserQuestion"
_ANSWERED = ("User has answered your question", "Your questions have been answered:")


def is_our_own(name: str, arguments: object) -> bool:
    """Say whether a call asks our own memory: what it returns was learned before."""
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return "dreamd" in name.lower() or (isinstance(command, str) and "dreamctl" in command)


def note_of_call(name: str, arguments: object) -> str:
    """Return `[Edit /tmp/x.py]`, `[Bash: pytest -q]`; empty for calls that only look at what is the project's."""
    given = arguments if isinstance(arguments, dict) else {}
    if name == "TodoWrite":
        return _note_of_todos(given.get("todos"))
    if name == "ExitPlanMode" and isinstance(plan := given.get("plan"), str):
        return f"[plan]\n{shorten(plan.strip(), *_PLAN_CHARS)}"
    if name == _ASKS:
        return _note_of_questions(given.get("questions"))
    keys = _DESCRIBED_BY.get(name, tuple(given))
    if keys is None:  # what may bring a stranger's words is noted all the same
        return _note(name, "") if brings_foreign_words(name, arguments) else ""
    about = next((value for key in keys if isinstance(value := given.get(key), str) and value.strip()), "")
    return _note(name, first_line(about, _CALL_CHARS))


def note_of_result(name: str, text: str, *, is_error: bool) -> str:
    """Return the outcome of a call of the tool `name`, bounded; empty where nothing is worth keeping."""
    text = text.strip()
    if not text:
        return ""
    if is_error:
        return f"[{name or 'tool'} failed]\n{shorten(text, *_ERROR_CHARS)}"
    bounds = _RESULT_CHARS.get(name)
    return f"[{name} result]\n{shorten(text, *bounds)}" if bounds else ""


def words_of_user(name: str, result: str, denial: object, *, is_error: bool) -> str | None:
    """Return what the person typed to answer or refuse a call of the tool `name`; None if the result is a tool's own.

    Not the words decide, which any page can print, but who wrote them there. An answer is that of the tool that asks.
    A refusal is an error that the program names one in `denial`. An older program says no more than that it is an
    error: there it is the program's whole sentence, of a tool whose errors it words itself. A server words its own.
    """
    text = result.strip()
    if not is_error:
        return text if name == _ASKS and text.startswith(_ANSWERED) else None
    known = denial in _DENIED if isinstance(denial, str) else bool(name) and "mcp" not in name.lower()
    if not known or (found := _REFUSED.fullmatch(text)) is None:
        return None
    return (found["said"] or "").strip().partition(_NOTE)[0].strip()


def _note(name: str, about: str) -> str:
    if not about:
        return f"[{name}]"
    return f"[{name} {about}]" if about.startswith(("/", "~", "./")) and " " not in about else f"[{name}: {about}]"


def _note_of_todos(todos: object) -> str:
    """Note only what is in progress: the whole list comes again with every step."""
    entries = [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
    now = [str(todo.get("content", "")) for todo in entries if todo.get("status") == "in_progress"]
    return f"[doing: {first_line(' … '.join(now), _CALL_CHARS)}]" if now else ""


def _note_of_questions(questions: object) -> str:
    asked = (
        [str(each.get("question", "")) for each in questions if isinstance(each, dict)]
        if isinstance(questions, list)
        else []
    )
    return "\n".join(question for question in asked if question)

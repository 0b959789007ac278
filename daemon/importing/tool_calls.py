"""Tool calls of agents: names and inputs in one form, short notes of calls and results, and calls with foreign content.

Notes are made of calls that act, not of those that only read; of results, outcomes and every error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...store import EDITS, lines_of_errors, redact
from .sanitize import first_line, shorten
from .shell_commands import PATCHED, is_local

# Claude Code's name of a tool, and those of the other programs.
_ALIASES: Mapping[str, str] = {
    "Agent": "invoke_agent spawn_agent agent",
    "Bash": (
        "bash container.exec developer__shell exec exec_command execute_command local_shell run_commands"
        " run_shell_command run_terminal_cmd run_terminal_command run_terminal_command_v2 shell Shell shell_command"
    ),
    "Edit": (
        "apply_patch ApplyPatch developer__text_editor edit edit_file edit_file_v2 editor multiedit patch replace"
        " replace_in_file search_replace StrReplace text_editor"
    ),
    "Glob": "file_search glob glob_file_search",
    "Grep": "codebase_search grep grep_search ripgrep_raw_search search_codebase search_file_content search_files",
    "LS": "list list_code_definition_names list_dir list_directory list_files ls tree",
    "Read": "read read_file read_file_v2 read_files read_lints read_many_files ReadFile ReadLints view",
    "Skill": "skill",
    "Task": "task",
    "TodoWrite": "todo_write todowrite",
    "WebFetch": "fetch_web_content web_fetch webfetch",
    "WebSearch": "google_web_search web_search websearch",
    "Write": "create write write_file write_to_file",
}
_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}
_INPUTS: Mapping[str, str] = {
    "absolute_path": "file_path",
    "cmd": "command",
    "filePath": "file_path",
    "message": "prompt",
    "name": "skill",
    "relativeWorkspacePath": "file_path",
    "searchTerm": "query",
    "search_term": "query",
    "targetFile": "file_path",
    "target_file": "file_path",
}
# Tools that call another, which they are given by its name.
_WRAPPERS = frozenset({"CallMcpTool", "tool_call", "use_mcp_tool"})
# Tools that only look, or steer the agent's own program.
LOOKS_ONLY = frozenset(
    "close_agent enter_plan_mode exit_plan_mode get_goal list_mcp_resources lsp read_mcp_resource todoread update_goal"
    " update_topic view_image wait write_stdin write_todos".split()
)

_LOCAL_TOOLS = frozenset(
    "Read Grep Glob LS Edit MultiEdit Write NotebookEdit NotebookRead KillShell TodoWrite TaskCreate TaskGet"
    " TaskList TaskUpdate ToolSearch AskUserQuestion EnterPlanMode ExitPlanMode enter_plan_mode exit_plan_mode"
    " update_plan get_goal update_goal update_topic write_todos todoread view_image lsp".split()
)

# A call is described by the first of these inputs that it has. None: the call gets no note.
_DESCRIBED_BY: Mapping[str, tuple[str, ...] | None] = {
    "Agent": ("description", "prompt"),
    "Bash": ("command",),
    "Edit": ("file_path",),
    "MultiEdit": ("file_path",),
    "NotebookEdit": ("notebook_path",),
    "Skill": ("skill", "command"),
    "Task": ("description", "prompt"),
    "TaskCreate": ("subject",),
    "WebFetch": ("url",),
    "WebSearch": ("query",),
    "Write": ("file_path",),
    **dict.fromkeys(
        "BashOutput EnterPlanMode Glob Grep KillShell LS Read TaskGet TaskList TaskOutput TaskUpdate ToolSearch".split()
    ),
}

# Characters kept of a result's head and tail. A sub-agent's report is prose; of an output the end matters most.
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

# Lines kept of what an edit took out and put in, and the characters of each.
_CHANGED_LINES, _CHANGED_CHARS = 2, 120
_PLAN_CHARS = (3000, 500)

# Claude Code's result, in full, of a call that its person refused.
_REFUSED = re.compile(
    r"The user doesn't want to (?:proceed with this tool use|take this action right now)\. "
    r"(?:The tool use was rejected \(eg\. if it was [\w ]{1,20}, the new_string was NOT written to the file\)\. "
    r"To tell you how to proceed, the user said:\n(?P<said>.*)|.{0,150}STOP what you are doing.*)",
    re.DOTALL,
)
_NOTE = "\n\nNote: The user's next message"
_DENIED = frozenset({"user", "user-rejected"})
_ASKS = "AskUserQuestion"
_ANSWERED = ("User has answered your question", "Your questions have been answered:")


def as_known(name: str, arguments: object) -> tuple[str, Mapping[str, Any]]:
    """Return a call's name and inputs in Claude Code's form; an unknown tool keeps its own.

    Arguments may be an object, its JSON, or a patch.
    """
    known = _NAMES.get(name, name)
    return known, _inputs(_parsed(arguments), known)


def unwrapped(name: str, arguments: object) -> tuple[str, object]:
    """Return the name and the arguments of the call that is meant: a program may call a tool through one of its own."""
    given = _parsed(arguments)
    if name not in _WRAPPERS or not isinstance(given, dict):
        return name, arguments
    names = ("tool_name", "toolName", "name", "id")
    parts = (given.get("server_name", given.get("server")), *(given[key] for key in names if given.get(key)))[:2]
    inner = "__".join(part for part in parts if isinstance(part, str) and part)
    return inner or name, given.get("arguments", given.get("args"))


def _parsed(arguments: object) -> object:
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _inputs(given: object, known: str) -> Mapping[str, Any]:
    if isinstance(given, str):
        return _patched(given) if PATCHED.search(given) else {"input": given}
    if not isinstance(given, dict):
        return {}
    inputs = {_INPUTS.get(key, key) if known else key: value for key, value in given.items()}
    if known in ("Edit", "Write") and "file_path" not in inputs and isinstance(path := inputs.get("path"), str):
        inputs["file_path"] = path
    if known == "Bash" and isinstance(commands := inputs.get("commands"), list):
        inputs["command"] = "\n".join(command for command in commands if isinstance(command, str))
    # ["bash", "-lc", "make test"], or the words themselves.
    if isinstance(command := inputs.get("command"), list):
        words = [word for word in command if isinstance(word, str)]
        inputs["command"] = words[-1] if words[1:2] in (["-lc"], ["-c"]) else " ".join(words)
    if known == "Edit" and "file_path" not in inputs:
        patch = next((value for value in inputs.values() if isinstance(value, str) and PATCHED.search(value)), "")
        return _patched(patch)
    return inputs


def _patched(patch: str) -> Mapping[str, Any]:
    """Return the files of a patch as inputs; the first describes the call, with its old and new lines."""
    files = [found.strip() for found in PATCHED.findall(patch)]
    first = "".join(PATCHED.split(patch, maxsplit=2)[2:3])
    old, new = ("\n".join(line[1:] for line in first.splitlines() if line[:1] == sign) for sign in "-+")
    return {"file_path": files[0] if files else "", "paths": files, "old_string": old, "new_string": new}


def brings_foreign_words(name: str, arguments: object) -> bool:
    """Return True if a result may hold text from outside the project; `name` and inputs in Claude Code's form.

    No list of tools that fetch is ever complete, so the list here is of those that are local.
    """
    if name == "Bash":
        command = arguments.get("command") if isinstance(arguments, dict) else None
        return not (isinstance(command, str) and is_local(command))
    return name not in _LOCAL_TOOLS and "dreamd" not in name.lower()


def is_our_own(name: str, arguments: object) -> bool:
    """Return True if a call asks our own memory: its result is known already."""
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return "dreamd" in name.lower() or (isinstance(command, str) and "dreamctl" in command)


def note_of_call(name: str, arguments: object) -> str:
    """Return `[Edit /tmp/x.py]`, `[Bash: pytest -q]`; empty for calls that only look at the project."""
    given = arguments if isinstance(arguments, dict) else {}
    if name == "TodoWrite":
        return _note_of_todos(given.get("todos"))
    if name == "ExitPlanMode" and isinstance(plan := given.get("plan"), str):
        return f"[plan]\n{shorten(plan.strip(), *_PLAN_CHARS)}"
    if name == _ASKS:
        return _note_of_questions(given.get("questions"))
    keys = _DESCRIBED_BY.get(name, tuple(given))
    # The provenance of a result from outside has to be seen: it is noted all the same.
    if keys is None:
        return _note(name, "") if brings_foreign_words(name, arguments) else ""
    about = next((value for key in keys if isinstance(value := given.get(key), str) and value.strip()), "")
    return _note(name, first_line(about, _CALL_CHARS))


def lines_of_change(name: str, arguments: object) -> list[str]:
    """Return the first lines that an edit took out and put in, with "- " and "+ " in front; [] for other calls.

    They say what ended an error, where nobody said it in words.
    """
    given = arguments if name in EDITS and isinstance(arguments, dict) else {}
    edits = given.get("edits")
    given = edits[0] if isinstance(edits, list) and edits and isinstance(edits[0], dict) else given
    texts = (value if isinstance(value := given.get(key), str) else "" for key in ("old_string", "new_string"))
    # Secrets are redacted first: the rules would not recognise one of whose lines some are left out.
    before, after = ([line for line in redact(text).text.splitlines() if line.strip()] for text in texts)
    if not before:  # a new file, or new lines without what they stand beside
        return []
    while before and after and before[0].strip() == after[0].strip():
        del before[0], after[0]
    while before and after and before[-1].strip() == after[-1].strip():
        del before[-1], after[-1]
    return [
        f"{sign} {first_line(line, _CHANGED_CHARS)}"
        for sign, lines in (("-", before), ("+", after))
        for line in lines[:_CHANGED_LINES]
    ]


def note_of_result(name: str, text: str, *, is_error: bool) -> str:
    """Return the note of a result of the tool `name`, bounded; empty where none is kept."""
    text = text.strip()
    if not text:
        return ""
    if is_error:
        return f"[{name or 'tool'} failed]\n{shorten(text, *_ERROR_CHARS, kept=lines_of_errors)}"
    bounds = _RESULT_CHARS.get(name)
    return f"[{name} result]\n{shorten(text, *bounds)}" if bounds else ""


def words_of_user(name: str, result: str, denial: object, *, is_error: bool) -> str | None:
    """Return the person's text in the result of a call of the tool `name`; None if the text is the tool's own.

    The wording alone decides nothing, since any web page can print it. An answer counts in results of the tool that
    asks questions. A refusal counts in an error that the program marks in `denial`. Older programs mark only the error:
    there the text must be the program's whole sentence, of a tool other than an MCP server's, which words its own.
    """
    # A tool may print the program's own sentences, so the text alone never decides (see above).
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
    """Return a note of the items in progress alone: the whole list comes again with every step."""
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

"""The tools of other agents, under the names and inputs of Claude Code's, by which notes are made (`tool_calls`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# Codex, Gemini CLI, opencode. "" : only looks, or steers the agent's own program.
_NAMES: Mapping[str, str] = {
    "apply_patch": "Edit",
    "bash": "Bash",
    "container.exec": "Bash",
    "edit": "Edit",
    "exec_command": "Bash",
    "glob": "Glob",
    "google_web_search": "WebSearch",
    "grep": "Grep",
    "grep_search": "Grep",
    "invoke_agent": "Agent",
    "list": "LS",
    "list_directory": "LS",
    "local_shell": "Bash",
    "multiedit": "Edit",
    "patch": "Edit",
    "read": "Read",
    "read_file": "Read",
    "read_many_files": "Read",
    "replace": "Edit",
    "run_shell_command": "Bash",
    "search_file_content": "Grep",
    "shell": "Bash",
    "shell_command": "Bash",
    "skill": "Skill",
    "spawn_agent": "Agent",
    "task": "Task",
    "todowrite": "TodoWrite",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "write": "Write",
    "write_file": "Write",
}
LOOKS_ONLY = frozenset(
    {
        *(
            "close_agent",
            "enter_plan_mode",
            "exit_plan_mode",
            "get_goal",
            "list_mcp_resources",
            "lsp",
            "read_mcp_resource",
        ),
        *("todoread", "update_goal", "update_topic", "view_image", "wait", "write_stdin", "write_todos"),
    }
)
_INPUTS: Mapping[str, str] = {
    "absolute_path": "file_path",
    "cmd": "command",
    "filePath": "file_path",
    "message": "prompt",
    "name": "skill",
}
PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)


def as_known(name: str, arguments: object) -> tuple[str, Mapping[str, Any]]:
    """Return a call's name and inputs as Claude Code has them; an unknown one stays as it is.

    Arguments may be an object, its JSON, or a patch.
    """
    known = _NAMES.get(name, name)
    return known, _inputs(_parsed(arguments), known)


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
    if isinstance(command := inputs.get("command"), list):  # ["bash", "-lc", "make test"], or the words themselves
        words = [word for word in command if isinstance(word, str)]
        inputs["command"] = words[-1] if words[1:2] in (["-lc"], ["-c"]) else " ".join(words)
    if known == "Edit" and "file_path" not in inputs:
        patch = next((value for value in inputs.values() if isinstance(value, str) and PATCHED.search(value)), "")
        return _patched(patch)
    return inputs


def _patched(patch: str) -> Mapping[str, Any]:
    """Return the files that a patch changes; the first describes it."""
    files = [found.strip() for found in PATCHED.findall(patch)]
    return {"file_path": files[0] if files else "", "paths": files}

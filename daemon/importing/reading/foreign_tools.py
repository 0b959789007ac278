"""Calls that may bring what strangers wrote: every one of which is not known that it stays with the project.

A list of what fetches is never complete, so the lists here are of what is local: tools, and the programs of a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from .shell_files import ASSIGNMENT, BEFORE, MAX_CHARS, OPERATOR, SHELLS, parted, tokens

_LOCAL_TOOLS = frozenset(
    "Read Grep Glob LS Edit MultiEdit Write NotebookEdit NotebookRead KillShell TodoWrite TaskCreate TaskGet"
    " TaskList TaskUpdate ToolSearch AskUserQuestion EnterPlanMode ExitPlanMode enter_plan_mode exit_plan_mode"
    " update_plan get_goal update_goal update_topic write_todos todoread view_image lsp".split()
)
_LOCAL_PROGRAMS = frozenset(
    "[ [[ ]] basename bat batcat cal cat cd chmod chown cmp column comm cp ctest cut date df diff dir dirname done"
    " dreamctl dreamd du echo egrep esac exit expand export false fd fgrep fi file find fold for free grep groups"
    " gunzip gzip head hexdump hostname id in jobs jq kill less ln ls lsof make md5sum mkdir mktemp more mv nl nproc"
    " od paste patch pgrep pkill popd printenv printf ps pushd pwd read readlink realpath rev rg rm rmdir sed seq set"
    " sha1sum sha256sum shopt sleep sort stat strings tac tail tar tee test touch tr tree true type ulimit umask"
    " unalias uname uniq unset unzip uptime wait wc which whoami xxd yq zcat zip bandit biome black clang"
    " clang-format cmake eslint flake8 g++ gcc gofmt isort javac jest mypy ninja prettier pylint pyright pytest"
    " py.test rubocop ruff rustc rustfmt shellcheck tox tsc vitest".split()
)
"""Programs that show, count and change what is on the machine, and those that build and test what is in the project."""

_LOCAL_COMMANDS: Mapping[str, frozenset[str]] = {
    "git": frozenset(
        "add apply blame branch checkout cherry-pick clean commit config describe diff fetch grep init log ls-files"
        " merge mv rebase reflog reset restore rev-parse revert rm shortlog show stash status switch tag"
        " worktree".split()
    ),
    "cargo": frozenset({"bench", "build", "check", "clippy", "doc", "fmt", "run", "test"}),
    "go": frozenset({"build", "env", "fmt", "list", "run", "test", "version", "vet"}),
    "npm": frozenset({"run", "start", "t", "test"}),
    "pnpm": frozenset({"run", "start", "t", "test"}),
    "yarn": frozenset({"run", "start", "test"}),
    "bun": frozenset({"run", "test"}),
    "pip": frozenset({"check", "freeze", "list", "show"}),
    "docker": frozenset({"images", "ps"}),
    "systemctl": frozenset({"is-active", "restart", "start", "status", "stop"}),
}
"""Programs of which some commands are local, by their first word."""

_LOCAL_MODULES = frozenset({"black", "compileall", "json.tool", "mypy", "pytest", "ruff", "unittest", "venv"})
_RUNNERS = frozenset({"poetry", "pipenv", "uv", "rye", "pdm"})
_PYTHON = re.compile(r"python[\d.]*")
_ELSEWHERE = re.compile(r"://|/dev/(?:tcp|udp)/|\w@[\w.-]{1,253}:", re.IGNORECASE)
_ACTIVATES = re.compile(r"(?:.*/)?bin/activate")
_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--prefix", "-n", "-u", "-I", "-P", "-L"})
_EXECUTES = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_KEYWORDS = frozenset({"do", "else", "elif", "fi", "done", "if", "then", "until", "while", "$", "{", "}", "!"})
_DEPTH = 4


def brings_foreign_words(name: str, arguments: object) -> bool:
    """Say whether what a call returns may be a stranger's words; `name` and inputs as Claude Code has them."""
    if name == "Bash":
        command = arguments.get("command") if isinstance(arguments, dict) else None
        return not (isinstance(command, str) and is_local(command))
    return name not in _LOCAL_TOOLS and "dreamd" not in name.lower()


def is_local(command: str) -> bool:
    """Say whether every program of a shell command is known to stay on the machine, and no address stands in it."""
    if _ELSEWHERE.search(command):
        return False
    whole = parted(command)
    if "$(" in whole.held or "`" in whole.held or not whole.is_closed:
        return False
    return len(whole.commands) <= MAX_CHARS and _is_local(whole.commands, _DEPTH)


def _is_local(text: str, depth: int) -> bool:
    return depth > 0 and all(_is_local_call(words, depth) for words in _calls(text))


def _calls(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command; what a redirection names is left out."""
    words: list[str] = []
    pending = iter([*tokens(_without_comments(text)), ";"])
    for token in pending:
        if not OPERATOR.fullmatch(token):
            words.append(token)
        elif any(mark in token for mark in "<>") and not token.endswith(("(", ";")):
            next(pending, "")
        else:
            yield words
            words = []


def _without_comments(text: str) -> str:
    return "\n".join("" if line.lstrip().startswith("#") else line for line in text.split("\n"))


def _is_local_call(words: Sequence[str], depth: int) -> bool:
    if not all(_is_local(inner, depth - 1) for word in words for inner in _substituted(word)):
        return False
    words = _from_program(words)
    if not words:
        return True
    program, rest = PurePath(words[0]).name, words[1:]
    if program in SHELLS:
        return len(rest) > 1 and rest[0] in ("-c", "-lc") and _is_local(rest[1], depth - 1)
    if program in ("source", "."):
        return bool(rest) and _ACTIVATES.fullmatch(rest[0]) is not None
    if _PYTHON.fullmatch(program):
        return (rest[:1] == ["-m"] and rest[1:2] != [] and rest[1] in _LOCAL_MODULES) or rest == ["--version"]
    if program in _RUNNERS and rest[:1] == ["run"]:
        return _is_local_call(rest[1:], depth - 1)
    if program == "find" and not _EXECUTES.isdisjoint(rest):
        inner = [rest[place + 1 :] for place, word in enumerate(rest) if word in _EXECUTES]
        return all(_is_local_call(one, depth - 1) for one in inner)
    if program in _LOCAL_COMMANDS:
        return _first_word(rest) in _LOCAL_COMMANDS[program] or rest == ["--version"]
    return program in _LOCAL_PROGRAMS


def _substituted(word: str) -> Iterator[str]:
    """Yield the commands that a word holds."""
    if "$(" in word:
        yield word[word.index("$(") + 2 :]
    if "`" in word:
        yield word[word.index("`") + 1 :].replace("`", " ; ")


def _from_program(words: Sequence[str]) -> Sequence[str]:
    """Return the words from the program on, past assignments and what only calls another program."""
    at = 0
    while at < len(words) and (words[at] in BEFORE or words[at] in _KEYWORDS or ASSIGNMENT.match(words[at])):
        is_call = words[at] in BEFORE
        at += 1
        while is_call and at < len(words) and re.fullmatch(r"-.*|[\d.]+[smh]?", words[at]):
            at += 2 if words[at] in _VALUED else 1
    return words[at:]


def _first_word(words: Sequence[str]) -> str:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _VALUED else 1
    return words[at] if at < len(words) else ""

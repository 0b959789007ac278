"""Shell commands, read as far as they are plain: the files that they show or write, and whether they stay local.

Known are the programs of the tables below, redirections, and the commands inside `$(…)`, pipes and `sh -c`. A name
that the shell makes at run time (`$FILE`, a loop), and a program that opens a file by itself, are not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

# A file in a patch of Codex (`apply_patch`).
PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)

# Characters of a command that are read, without what follows `<<`; splitting takes about 1 ms for a thousand.
MAX_CHARS = 4000
_INNER_DEPTH = 3

_SHOW = frozenset(
    {
        *("base64", "bat", "batcat", "cat", "column", "comm", "cut", "diff", "expand", "fold", "gc", "get-content"),
        *("head", "hexdump", "less", "more", "nl", "od", "paste", "rev", "sort", "strings", "tac", "tail", "type"),
        *("uniq", "view", "xxd", "zcat"),
    }
)
# Their first word is an expression, unless an option gives it.
_SHOW_BY_EXPRESSION = frozenset({"awk", "egrep", "fgrep", "gawk", "grep", "jq", "perl", "rg", "sed", "yq"})
_EXPRESSION = frozenset({"-e", "-f", "--expression", "--file", "--regexp"})
_WRITE = frozenset({"tee", "sponge"})
BEFORE = frozenset(
    {
        *("!", "$", "{", "builtin", "command", "do", "else", "env", "exec", "if", "nice", "nohup", "sudo", "then"),
        *("time", "timeout", "while", "xargs"),
    }
)
SHELLS = frozenset({"bash", "dash", "ksh", "sh", "zsh"})
OPERATOR = re.compile(r"[();<>|&]+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*[\"'\\]?(\w+)")
_WILDCARDS = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class ShellFile:
    """A file in a command: its path, relative to the command's folder, and whether it is written."""

    path: str
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class SplitCommand:
    """A command without its here-documents, and their lines; `is_closed` if each of them has its end."""

    commands: str
    documents: str
    is_closed: bool


def files_of_command(command: str) -> Iterator[ShellFile]:
    """Yield the files that a command shows or writes."""
    yield from (ShellFile(found[1].strip(), is_written=True) for found in PATCHED.finditer(command))
    yield from _files_in(without_documents(command).commands[:MAX_CHARS], "", _INNER_DEPTH)


def _files_in(command: str, folder: str, depth: int) -> Iterator[ShellFile]:
    words: list[str] = []
    pending = iter([*tokens(command), ";"])
    for token in pending:
        if not OPERATOR.fullmatch(token):
            words.append(token)
        elif _redirects(token):
            path = next(pending, "")
            if not path.isdigit() and not OPERATOR.fullmatch(path):
                yield ShellFile(_at(folder, path), is_written=">" in token)
        else:
            # Later paths of the command are relative to this folder.
            if words[:1] == ["cd"] and len(words) > 1:
                folder = _at(folder, words[-1])
            yield from (ShellFile(_at(folder, one.path), one.is_written) for one in _of_simple(words))
            if depth:
                for inner in _inner_commands(words):
                    yield from _files_in(inner, folder, depth - 1)
            words = []


def _at(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder and not path.startswith(("/", "~")) else path


def _redirects(operator: str) -> bool:
    """Return True if a file's name follows: `<`, `>`, `2>&`; not a here-document, not the beginning of `<(…)`."""
    return any(mark in operator for mark in "<>") and "<<" not in operator and not operator.endswith(("(", ";"))


def _of_simple(words: Sequence[str]) -> Iterator[ShellFile]:
    """Yield the files of a command without operators."""
    start = 0
    while start < len(words) and (words[start] in BEFORE or ASSIGNMENT.match(words[start])):
        start += 1
        while start < len(words) and words[start - 1] in BEFORE and re.fullmatch(r"-.*|[\d.]+[smh]?", words[start]):
            start += 1
    program = PurePath(words[start]).name.lower() if start < len(words) else ""
    rest = list(words[start + 1 :])
    if program in _SHOW_BY_EXPRESSION:
        rest = _without_expression(rest)
    elif program not in _SHOW and program not in _WRITE:
        return
    is_written = program in _WRITE or (program in ("sed", "perl") and any(word.startswith("-i") for word in rest))
    for word in rest:
        if not word.startswith("-"):
            yield ShellFile(word, is_written)
            if _WILDCARDS.search(word):  # `.env*` is `.env` as well
                yield ShellFile(_WILDCARDS.sub("", word), is_written)


def _without_expression(words: list[str]) -> list[str]:
    if _EXPRESSION.isdisjoint(words):
        first = next((place for place, word in enumerate(words) if not word.startswith("-")), len(words))
        return words[:first] + words[first + 1 :]
    return [word for before, word in zip(["", *words], words, strict=False) if before not in _EXPRESSION]


def _inner_commands(words: Sequence[str]) -> Iterator[str]:
    """Yield the commands inside words: of `sh -c`, and of a substitution in quotes."""
    for place, word in enumerate(words):
        if place and words[place - 1] in ("-c", "-lc") and PurePath(words[0]).name in (*SHELLS, *BEFORE):
            yield word
        elif "$(" in word:
            yield word[word.index("$(") + 2 :]
        elif "`" in word:
            yield word[word.index("`") + 1 :].replace("`", " ; ")


def tokens(command: str) -> list[str]:
    """Split a command into words and operators; an end of line becomes `;`. With unclosed quotes, split at spaces."""
    text = command.replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        # The shell would refuse it, but a name in it may still be an ignored file's.
        return [word.strip("\"'") for word in OPERATOR.sub(lambda found: f" {found[0]} ", text).split()]


def without_documents(command: str) -> SplitCommand:
    """Split a command from the text of its here-documents, which is no command. Linear."""
    commands, documents, ends = [], [], ""
    for line in command.split("\n"):
        if ends:
            documents.append(line)
            ends = "" if line.strip() == ends else ends
            continue
        commands.append(line)
        found = _HEREDOC.search(line)
        ends = found[1] if found else ""
    return SplitCommand("\n".join(commands), "\n".join(documents), not ends)


# Programs that show, count and change local files, and those that build and test the project.
# No list of programs that fetch is ever complete, so the lists here are of those that stay local.
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

# Programs of which some subcommands are local.
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

_LOCAL_MODULES = frozenset({"black", "compileall", "json.tool", "mypy", "pytest", "ruff", "unittest", "venv"})
_RUNNERS = frozenset({"poetry", "pipenv", "uv", "rye", "pdm"})
_PYTHON = re.compile(r"python[\d.]*")
_ELSEWHERE = re.compile(r"://|/dev/(?:tcp|udp)/|\w@[\w.-]{1,253}:", re.IGNORECASE)
_ACTIVATES = re.compile(r"(?:.*/)?bin/activate")
_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--prefix", "-n", "-u", "-I", "-P", "-L"})
_EXECUTES = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_KEYWORDS = frozenset({"do", "else", "elif", "fi", "done", "if", "then", "until", "while", "$", "{", "}", "!"})
_LOCAL_DEPTH = 4


def is_local(command: str) -> bool:
    """Return True if every program of a shell command is known to stay local, and the command holds no address."""
    if _ELSEWHERE.search(command):
        return False
    split = without_documents(command)
    # The shell runs substitutions in a here-document too.
    if "$(" in split.documents or "`" in split.documents or not split.is_closed:
        return False
    return len(split.commands) <= MAX_CHARS and _is_local(split.commands, _LOCAL_DEPTH)


def _is_local(text: str, depth: int) -> bool:
    return depth > 0 and all(_is_local_call(words, depth) for words in _calls(text))


def _calls(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without the targets of redirections."""
    words: list[str] = []
    pending = iter([*tokens(_without_comments(text)), ";"])
    for token in pending:
        if not OPERATOR.fullmatch(token):
            words.append(token)
        # The word behind a redirection is a file, not a word of the command.
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
    # Of a shell only `-c` is known; a script file may do anything.
    if program in SHELLS:
        return len(rest) > 1 and rest[0] in ("-c", "-lc") and _is_local(rest[1], depth - 1)
    if program in ("source", "."):
        return bool(rest) and _ACTIVATES.fullmatch(rest[0]) is not None
    if _PYTHON.fullmatch(program):
        return (rest[:1] == ["-m"] and rest[1:2] != [] and rest[1] in _LOCAL_MODULES) or rest == ["--version"]
    if program in _RUNNERS and rest[:1] == ["run"]:
        return _is_local_call(rest[1:], depth - 1)
    # `find -exec` runs another program, which decides.
    if program == "find" and not _EXECUTES.isdisjoint(rest):
        inner = [rest[place + 1 :] for place, word in enumerate(rest) if word in _EXECUTES]
        return all(_is_local_call(one, depth - 1) for one in inner)
    # Options before the subcommand are skipped, with their values.
    if program in _LOCAL_COMMANDS:
        return _first_word(rest) in _LOCAL_COMMANDS[program] or rest == ["--version"]
    return program in _LOCAL_PROGRAMS


def _substituted(word: str) -> Iterator[str]:
    """Yield the commands substituted in a word."""
    if "$(" in word:
        yield word[word.index("$(") + 2 :]
    if "`" in word:
        yield word[word.index("`") + 1 :].replace("`", " ; ")


def _from_program(words: Sequence[str]) -> Sequence[str]:
    """Return the words from the program on, after assignments and programs that only call another (`sudo`, `time`)."""
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

"""The files that a shell command shows or writes, where they are plain to see in it. A best effort.

Known are the programs of the table below, redirections, and what `$(…)`, pipes and `sh -c` hold. A name that the shell
makes at run time (`$FILE`, a loop), and a program that opens a file by itself, are not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from .agent_tools import PATCHED

MAX_CHARS = 4000
"""Characters of a command that are read, without what follows `<<`; splitting takes about 1 ms for a thousand."""
_DEPTH = 3

_SHOW = frozenset(
    {
        *("base64", "bat", "batcat", "cat", "column", "comm", "cut", "diff", "expand", "fold", "gc", "get-content"),
        *("head", "hexdump", "less", "more", "nl", "od", "paste", "rev", "sort", "strings", "tac", "tail", "type"),
        *("uniq", "view", "xxd", "zcat"),
    }
)
# Their first word is an expression, unless an option brings it.
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
    """A file in a command: its path as it is to be taken from the command's folder, and whether it is written."""

    path: str
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Parted:
    """A command without its here-documents, and the lines that these hold; `is_closed` where each of them ends."""

    commands: str
    held: str
    is_closed: bool


def files_of_command(command: str) -> Iterator[ShellFile]:
    """Yield the files that a command shows or writes."""
    yield from (ShellFile(found[1].strip(), is_written=True) for found in PATCHED.finditer(command))
    yield from _files(parted(command).commands[:MAX_CHARS], "", _DEPTH)


def _files(command: str, folder: str, depth: int) -> Iterator[ShellFile]:
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
            if words[:1] == ["cd"] and len(words) > 1:
                folder = _at(folder, words[-1])
            yield from (ShellFile(_at(folder, one.path), one.is_written) for one in _of_simple(words))
            if depth:
                for inner in _inner_commands(words):
                    yield from _files(inner, folder, depth - 1)
            words = []


def _at(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder and not path.startswith(("/", "~")) else path


def _redirects(operator: str) -> bool:
    """Say whether a file's name follows: `<`, `>`, `2>&`; not a here-document, and not the beginning of `<(…)`."""
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
    """Yield the commands that stand in a word: of `sh -c`, and of a substitution in quotes."""
    for place, word in enumerate(words):
        if place and words[place - 1] in ("-c", "-lc") and PurePath(words[0]).name in (*SHELLS, *BEFORE):
            yield word
        elif "$(" in word:
            yield word[word.index("$(") + 2 :]
        elif "`" in word:
            yield word[word.index("`") + 1 :].replace("`", " ; ")


def tokens(command: str) -> list[str]:
    """Split a command into words and operators; an end of line is one. Where quotes are left open, at spaces."""
    text = command.replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return [word.strip("\"'") for word in OPERATOR.sub(lambda found: f" {found[0]} ", text).split()]


def parted(command: str) -> Parted:
    """Part a command from what its here-documents hold, text that is no command. Linear."""
    commands, held, ends = [], [], ""
    for line in command.split("\n"):
        if ends:
            held.append(line)
            ends = "" if line.strip() == ends else ends
            continue
        commands.append(line)
        found = _HEREDOC.search(line)
        ends = found[1] if found else ""
    return Parted("\n".join(commands), "\n".join(held), not ends)

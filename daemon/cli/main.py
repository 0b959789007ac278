"""`dreamctl`: read what was typed, run that one command, say how it ended.

Only the standard library is on the way of a command that asks the daemon one question; each group of commands is a
module that is imported when one of them is called.
"""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Any, NoReturn

from ...ipc.client import Absent, ClientError, DaemonError, Unreachable
from ...ipc.protocol import CANCELLED, NOT_FOUND
from .terminal import Terminal

OK, ANSWERED_ERROR, USAGE, UNREACHABLE, NOTHING_FOUND = range(5)
INTERRUPTED = 130
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended

# command: (its module here, what it does); `NAME_arguments` and `NAME` are its functions there
COMMANDS = {
    "recall": ("query", "find what is remembered about something"),
    "context": ("query", "the same as one text within a token budget, as an agent gets it"),
    "show": ("query", "one memory or turn in full, with its sources"),
    "list": ("query", "the newest memories"),
    "remember": ("write", "keep one thing"),
    "forget": ("write", "take one memory back (undo brings it again)"),
    "feedback": ("write", "say whether a memory that was shown was of use"),
    "purge": ("write", "remove for good what undo cannot bring back"),
    "import": ("write", "take in transcripts, data sets or notes"),
    "dream": ("dreams", "think over what was learned, now"),
    "runs": ("dreams", "what dreams did"),
    "undo": ("dreams", "take back what a run changed"),
    "digest": ("dreams", "what the last dream has to report"),
    "review": ("review", "decide what a dream could not"),
    "decay": ("review", "what would fade in the next 30 days"),
    "restore": ("review", "bring a faded or deleted memory back"),
    "status": ("admin", "what the daemon is doing"),
    "check": ("admin", "look for problems in settings and vault"),
    "salvage": ("repair", "bring back what a damaged ledger held; without a daemon"),
    "rebuild": ("admin", "make the index again from the vault"),
    "pause": ("admin", "learn nothing until resume"),
    "resume": ("admin", "learn again"),
    "channel": ("admin", "switch learning in one channel on or off"),
    "stop": ("admin", "end the daemon"),
    "install": ("service", "have the daemon started for you"),
    "uninstall": ("service", "no more; the memories stay"),
    "log": ("log", "what the daemon wrote: its file, or the journal"),
    "version": ("admin", "which version this is, and which one answers"),
}


class Parser(ArgumentParser):
    """argparse with our way to complain."""

    def error(self, message: str) -> NoReturn:
        """End with the usage exit code."""
        raise UsageError(message, f"see `{self.prog} --help`")


class UsageError(Exception):
    """A command line that cannot be understood."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code says how it went."""
    words = sys.argv[1:] if argv is None else argv
    terminal = Terminal("--json" in words[: words.index("--") if "--" in words else None])
    try:
        code = _run(words, terminal)
        sys.stdout.flush()
    except UsageError as error:
        return _end(terminal, USAGE, str(error), error.hint)
    except Absent as error:
        from .absence import explained

        found = explained(error)
        return _end(terminal, UNREACHABLE, str(found), found.hint)
    except Unreachable as error:
        return _end(terminal, UNREACHABLE, str(error), error.hint)
    except DaemonError as error:
        if error.code == CANCELLED:
            return _end(terminal, INTERRUPTED, str(error))
        return _end(
            terminal, NOTHING_FOUND if error.code == NOT_FOUND else ANSWERED_ERROR, str(error), error.hint, error.code
        )
    except ClientError as error:
        return _end(terminal, ANSWERED_ERROR, str(error), error.hint)
    except KeyboardInterrupt:
        return _end(terminal, INTERRUPTED, "cancelled")
    except BrokenPipeError:
        # Whoever read has left; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _run(words: list[str], terminal: Terminal) -> int:
    command, rest = _split(words)
    if command is None:
        terminal.lines(_overview())
        return OK if {"-h", "--help"} & {*rest} else USAGE
    if command not in COMMANDS:
        raise UsageError(f"there is no command {command!r}", _nearest(command))
    module: Any = import_module(f".{COMMANDS[command][0]}", __package__)
    name = command if hasattr(module, command) else f"{command}_"  # `import` and `list` are taken
    parser = Parser(prog=f"dreamctl {command}", description=_capital(COMMANDS[command][1]), allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="answer in one JSON document")
    getattr(module, f"{command}_arguments")(parser)
    try:
        # Words may stand on both sides of an option; but the intermixed way obeys options behind a `--`.
        options: Namespace = parser.parse_args(rest) if "--" in rest else parser.parse_intermixed_args(rest)
    except SystemExit:  # --help was printed
        return OK
    run = getattr(module, name)
    return int(run(options, terminal))


def _split(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the command and what belongs to it; `--json` may come first."""
    for position, word in enumerate(words):
        if word == "--version":
            return "version", words[:position] + words[position + 1 :]
        if word in ("-h", "--help"):
            return None, words
        if word == "help":
            return (words[position + 1], ["--help"]) if len(words) > position + 1 else (None, ["--help"])
        if not word.startswith("-"):
            return word, words[:position] + words[position + 1 :]
        if word != "--json":
            raise UsageError(f"there is no option {word}", "see `dreamctl --help`")
    return None, words


def _overview() -> list[str]:
    width = max(map(len, COMMANDS))
    commands = [f"  {name.ljust(width)}  {does}" for name, (_, does) in COMMANDS.items()]
    return [
        "dreamctl COMMAND …: ask the memory that dreamd keeps.",
        "",
        *commands,
        "",
        "`dreamctl COMMAND --help` tells more. Every command has --json.",
        "Exit codes: 0 done, 1 an error was answered, 2 not understood, 3 no daemon,",
        "4 nothing found, or left to undo, 65 nothing to import in it, 66 no such file,",
        "130 cancelled.",
    ]


def _nearest(command: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(command, COMMANDS, n=1)
    return f"did you mean `dreamctl {close[0]}`?" if close else "see `dreamctl --help`"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _end(terminal: Terminal, exit_code: int, message: str, hint: str = "", code: int = 0) -> int:
    with contextlib.suppress(BrokenPipeError):
        terminal.fail(message, hint, code)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())

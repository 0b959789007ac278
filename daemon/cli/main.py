"""`dreamctl`: parse the command line, run the command, report errors.

A command that asks the daemon one question imports the standard library alone; each group of commands is a module that
is imported when one of them is called.
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
from .. import HintedError
from .terminal import Terminal

USER_HELP = "one of several users of this memory: what all share and their own part, no other's ($DREAMD_USER)"

OK, ANSWERED_ERROR, USAGE, UNREACHABLE, NOTHING_FOUND = range(5)
INTERRUPTED = 130
# What a shell reports of a program that SIGPIPE ended.
BROKEN_PIPE = 141

# Command: (its module here, its summary). Its functions there are `NAME`, and `NAME_arguments` if it has arguments.
COMMANDS = {
    "recall": ("query_commands", "find what is remembered about something"),
    "context": ("query_commands", "recall as one text within a token budget, as an agent gets it"),
    "brief": ("query_commands", "show what a session of a project starts with"),
    "show": ("query_commands", "show one memory or turn in full, with its sources"),
    "history": ("query_commands", "show what became of a memory: by whom, when and why"),
    "about": ("query_commands", "show what is known of a person or a thing"),
    "entities": ("query_commands", "list people and things, most mentioned first"),
    "merge": ("write_commands", "make one page of two of the same person or thing"),
    "split": ("write_commands", "give a name of a person's or thing's page its own"),
    "deny": ("write_commands", "take a relation that is not so off a person's or thing's page"),
    "list": ("query_commands", "list the newest memories"),
    "remember": ("write_commands", "keep one memory"),
    "edit": ("write_commands", "change the words, kind or tags of a memory (undo takes it back)"),
    "forget": ("write_commands", "forget one memory (undo brings it back)"),
    "feedback": ("write_commands", "say whether a memory was useful"),
    "link": ("write_commands", "link two memories"),
    "tag": ("write_commands", "add tags to a memory, or take some away"),
    "anchor": ("query_commands", "show what an agent was doing last"),
    "goals": ("query_commands", "show open threads, and close one"),
    "purge": ("purge_commands", "erase memories, sessions or secrets for good, everywhere"),
    "import": ("write_commands", "import transcripts, data sets or notes"),
    "learn": ("write_commands", "have the facts of notes or chats now (undo takes them back)"),
    "export": ("write_commands", "hand memories out: files, JSON lines, or a project's handover"),
    "watch": ("watch_commands", "follow an agent's sessions as they are written"),
    "unwatch": ("watch_commands", "follow an agent's sessions no more"),
    "dream": ("dream_commands", "run a dream now: consolidate what was learned"),
    "runs": ("dream_commands", "list the runs (dreams and other changes) and what they changed"),
    "undo": ("dream_commands", "undo what a run changed, or some of it"),
    "redo": ("dream_commands", "change again what an undo took back"),
    "digest": ("dream_commands", "show the report of the last dreams"),
    "open": ("dream_commands", "open the memory as a page in the browser"),
    "review": ("review_commands", "decide between memories that contradict each other"),
    "decay": ("review_commands", "preview which memories would be archived in the next 30 days"),
    "restore": ("review_commands", "bring an archived, replaced or deleted memory back, or a backup"),
    "status": ("admin_commands", "show what the daemon is doing"),
    "tools": ("query_commands", "count the calls, failures and times of agents' tools"),
    "metrics": ("service_commands", "print the daemon's measures in Prometheus' text format"),
    "prove": ("service_commands", "put your own questions again, with dreamd and without"),
    "told": ("admin_commands", "show what agents were told, and what became of it"),
    "check": ("repair_commands", "look for problems in the settings and the vault (memory files)"),
    "sync": ("admin_commands", "keep the same memory on your other machines, through git"),
    "doctor": ("service_commands", "look for all that ever went wrong, and repair it (--fix)"),
    "salvage": ("repair_commands", "recover a damaged ledger (history database); stop the daemon first"),
    "rebuild": ("repair_commands", "rebuild the search index from the vault"),
    "migrate": ("repair_commands", "move the vault's files into folders by project and kind"),
    "backup": ("repair_commands", "back up memories, history and settings (restore FILE)"),
    "pause": ("admin_commands", "learn nothing until resume"),
    "resume": ("admin_commands", "learn again"),
    "channel": ("admin_commands", "switch learning on or off in a channel (one project's memories)"),
    "stop": ("admin_commands", "stop the daemon"),
    "connect": ("connect_commands", "let an agent program use this memory: its hooks and its tools"),
    "disconnect": ("connect_commands", "take out of an agent program what connect put in"),
    "hook": ("entry", "answer an agent's hook (`connect` has the agent call it)"),
    "install": ("service_commands", "install a service that starts the daemon"),
    "uninstall": ("service_commands", "remove the service (memories are kept)"),
    "mcp": ("entry", "speak MCP with an agent, which starts this by itself"),
    "completion": ("service_commands", "print what completes commands in a shell, or the man page"),
    "log": ("service_commands", "show the daemon's log: its file, or the journal"),
    "version": ("admin_commands", "show the version of this program and of the daemon"),
}


OF_USERS = frozenset(
    (
        *(
            "recall",
            "context",
            "brief",
            "show",
            "history",
            "about",
            "entities",
            "merge",
            "split",
            "deny",
            "list",
            "remember",
        ),
        *("edit", "forget", "feedback", "link", "tag", "anchor", "goals", "tools", "purge", "export", "told"),
        *("runs", "undo", "redo", "review", "decay", "restore"),
    )
)
"""The commands for one of several users; the others are the owner's alone."""


class Parser(ArgumentParser):
    """argparse, with errors in our form."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, f"see `{self.prog} --help`")


class UsageError(HintedError):
    """A command line that cannot be understood."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    # Errors of parsing are to be JSON too, so the option is looked for before parsing.
    terminal = Terminal("--json" in words[: words.index("--") if "--" in words else None])
    try:
        code = _run(words, terminal)
        sys.stdout.flush()
    except UsageError as error:
        return _end(terminal, USAGE, str(error), error.hint)
    except Absent as error:
        found = _explained(error)
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
        # The reader of stdout has left; nothing may be written at exit either.
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
    name = command if hasattr(module, command) else f"{command}_"  # `import` and `list` are words of Python
    parser = Parser(prog=f"dreamctl {command}", description=summary_of(command), allow_abbrev=False)
    declare_arguments(command, parser)
    try:
        # Intermixed parsing allows words on both sides of an option, but would parse options behind a `--` too.
        options: Namespace = parser.parse_args(rest) if "--" in rest else parser.parse_intermixed_args(rest)
    except SystemExit:  # --help was printed
        return OK
    terminal.user = getattr(options, "user", None)
    return int(getattr(module, name)(options, terminal))


def summary_of(command: str) -> str:
    """Return the summary of a command as a sentence."""
    summary = COMMANDS[command][1]
    return f"{summary[0].upper()}{summary[1:]}."


def declare_arguments(command: str, parser: ArgumentParser) -> None:
    """Declare the arguments of a command."""
    parser.add_argument("--json", action="store_true", help="answer in one JSON document")
    if command in OF_USERS:
        parser.add_argument("--user", default=os.environ.get("DREAMD_USER") or None, metavar="NAME", help=USER_HELP)
    if declare := getattr(import_module(f".{COMMANDS[command][0]}", __package__), f"{command}_arguments", None):
        declare(parser)


def _split(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the command and its other words; `--json` may come first."""
    for position, word in enumerate(words):
        if word == "--version":
            return "version", words[:position] + words[position + 1 :]
        if word == "--man":
            return "completion", ["man", *words[:position], *words[position + 1 :]]
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
        "dreamctl COMMAND …: use the memory that dreamd keeps.",
        "",
        *commands,
        "",
        "`dreamctl COMMAND --help` tells more, --man all. Every command has --json.",
        "Exit codes: 0 done, 1 an error was answered, 2 not understood, 3 no daemon,",
        "4 nothing found, or left to undo, 65 nothing to import in it, 66 no such file,",
        "130 cancelled.",
    ]


def _nearest(command: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(command, COMMANDS, n=1)
    return f"did you mean `dreamctl {close[0]}`?" if close else "see `dreamctl --help`"


def _end(terminal: Terminal, exit_code: int, message: str, hint: str = "", code: int = 0) -> int:
    with contextlib.suppress(BrokenPipeError):
        terminal.fail(message, hint, code)
    return exit_code


def _explained(error: Absent) -> Absent:
    """Return the error with its cause, if one is found; the search starts a few processes."""
    if "could not start" in str(error):
        # The daemon's own answer holds the cause.
        return error
    from ..host.installed_service import installed_service

    if cause := _cause_in_settings():
        return Absent(f"{error}. {cause[0]}", cause[1])
    service = installed_service()
    if service is None:
        return error
    if service.failure:
        return Absent(f"{error}. {service.manager} could not start it: {service.failure}", service.remedy)
    return Absent(str(error), f"it is installed; {service.remedy}, and `dreamctl log` shows what it said")


def _cause_in_settings() -> tuple[str, str] | None:
    from ..host import settings_check
    from ..settings import SettingsError, load

    try:
        settings_check.refuse_unusable(load())
    except SettingsError as problem:
        return f"Its settings cannot be followed: {problem}", problem.hint
    except settings_check.UnusableFolder as problem:
        return str(problem), problem.hint
    return None


if __name__ == "__main__":
    sys.exit(main())

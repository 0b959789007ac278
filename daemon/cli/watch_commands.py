"""The commands that follow agents' sessions: watch, unwatch; and the same choice while connecting a program."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...ipc.client import Absent, ClientError, DaemonError, Unreachable
from ...ipc.protocol import NOT_FOUND, Json
from ..formatting import Look, clean, count, listing
from ..importing import FOLLOWED
from .request import ask
from .terminal import Terminal

STATUS_TIMEOUT_S = 5.0


def watch_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of watch."""
    parser.add_argument(
        "what", nargs="?", metavar="AGENT|FOLDER", help=f"{', '.join(FOLLOWED)}; or a folder of sessions"
    )
    parser.add_argument("--folder", metavar="FOLDER", help="where this agent keeps its sessions, if not where it does")
    parser.add_argument("--from-now", action="store_true", help="leave out what was said before")
    parser.add_argument("--dry-run", action="store_true", help="only count what is there")
    parser.add_argument("--yes", action="store_true", help="do not ask whether to take in what is there")
    parser.epilog = "Without an agent or a folder, it lists what is watched. `dreamctl unwatch` ends it."


def watch(options: Namespace, terminal: Terminal) -> int:
    """Follow an agent's sessions, or list the followed ones."""
    if options.what is None:
        status = ask(terminal, "status", timeout_s=STATUS_TIMEOUT_S)
        terminal.report(status["transcripts"], transcripts_in_words(status["transcripts"], terminal.look))
        return 0
    params = _named(options.what, options.folder)
    found = ask(terminal, "watch", {**params, "dry_run": True}, timeout_s=None)
    if options.dry_run:
        terminal.report(found, [*terminal.look.wrap(found_in_words(found))])
        return 0
    from_now = options.from_now or not (options.yes or takes_all(found, terminal))
    answer = ask(terminal, "watch", {**params, "backlog": "none" if from_now else "all"}, timeout_s=None)
    terminal.report(answer, watched_in_words(answer, terminal.look))
    return 0


def unwatch_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of unwatch."""
    parser.add_argument("what", metavar="AGENT|FOLDER", help="as `dreamctl watch` lists it")


def unwatch(options: Namespace, terminal: Terminal) -> int:
    """Stop following an agent's sessions."""
    answer = ask(terminal, "unwatch", _named(options.what, None))
    terminal.report(answer, [f"{clean(answer['name'])} is not watched any more. What was learned stays."])
    return 0


def _named(what: str, folder: str | None) -> dict[str, Any]:
    path = folder if what in FOLLOWED else what
    return {
        "agent": what if what in FOLLOWED else None,
        "path": str(Path(path).expanduser().absolute()) if path else None,
    }


def takes_all(found: Json, terminal: Terminal) -> bool:
    """Ask whether to import the existing sessions; return True where no one can be asked."""
    if not found["turns"] or terminal.as_json or not sys.stdin.isatty():
        return True
    print(*terminal.look.wrap(found_in_words(found)), sep="\n", file=sys.stderr)
    print("Take it in, in the background? [Y/n] ", end="", file=sys.stderr, flush=True)
    return not sys.stdin.readline().strip().lower().startswith("n")


def found_in_words(found: Json) -> str:
    """Describe the amount of existing sessions."""
    if not found["files"]:
        return f"There are no sessions in {clean(found['path'])} yet."
    return (
        f"There are about {count(found['sessions'], 'session')} with {count(found['turns'], 'turn')} in "
        f"{clean(found['path'])}; taking them in needs about {_minutes(found['minutes'])}."
    )


def watched_in_words(answer: Json, look: Look) -> list[str]:
    """Describe a followed place, and whether its existing sessions are imported."""
    lines = look.wrap(f"Watching {clean(answer['name'])}: what is said there is remembered as it is said.")
    if answer["since"]:
        return lines + look.wrap("What was said before is left out.")
    if not answer["turns"]:
        return lines + look.wrap(found_in_words(answer))
    return lines + look.wrap(
        found_in_words(answer) + " It goes on in the background; `dreamctl status` says how far it is."
    )


def transcripts_in_words(answer: Json, look: Look) -> list[str]:
    """List the followed places."""
    if not answer["places"]:
        return look.wrap("No sessions are watched. `dreamctl watch claude-code` follows what Claude Code writes.")
    lines = []
    for place in answer["places"]:
        since = f", from {place['since'][:10]} on" if place["since"] else ""
        lines += look.wrap(f"{clean(place['name'])}: {place['state']}{since}")
    progress = "; ".join(_progress(answer))
    return lines + (look.wrap(progress) if progress else [])


def progress_in_words(answer: Json) -> str:
    """Describe the followed places, active sessions, and the backlog in a line."""
    if not answer["places"]:
        return ""
    return "; ".join([listing([place["name"] for place in answer["places"]]), *_progress(answer)])


def _progress(answer: Json) -> Iterator[str]:
    if active := len(answer["active"]):
        yield f"{count(active, 'session')} going on"
    if backlog := answer["backlog"]:
        left = f"{backlog['files']:,} of {backlog['of']:,} older files to take in"
        yield f"{left}, about {_minutes(backlog['minutes'])}"
    if answer["problem"]:
        yield answer["problem"]


def _minutes(minutes: float) -> str:
    return "a minute" if minutes < 1.5 else f"{minutes:.0f} minutes"


# NamedTuples, since `dataclasses` would be a third of a thin command's imports.
class FollowChoice(NamedTuple):
    """The person's choice about following a program's sessions.

    `watch` None: ask. `from_now` leaves out existing sessions; `takes_past` imports them without asking.
    """

    watch: bool | None = None
    from_now: bool = False
    takes_past: bool = False


class ProgramSessions(NamedTuple):
    """A program, and the folder of its sessions."""

    agent: str
    title: str
    folder: Path

    @property
    def params(self) -> dict[str, str]:
        """Return the parameters of a request; the folder is among them, since the daemon may have another home."""
        return {"agent": self.agent, "path": str(self.folder)}


def follow_arguments(parser: ArgumentParser) -> None:
    """Declare the options about following sessions."""
    parser.add_argument(
        "--watch",
        action=BooleanOptionalAction,
        help="also follow its sessions, as `dreamctl watch` does (asked if not said)",
    )
    parser.add_argument("--from-now", action="store_true", help="with --watch: leave out the sessions that are there")


def follow_choice(options: Namespace) -> FollowChoice:
    """Return the choice on the command line."""
    return FollowChoice(options.watch, options.from_now, options.yes)


def can_be_followed(agent: str) -> bool:
    """Return True if dreamd can read this program's sessions."""
    return agent in FOLLOWED


def follow(
    sessions: ProgramSessions, choice: FollowChoice, terminal: Terminal, says_yes: Callable[[str], bool]
) -> bool:
    """Follow sessions if the person wants it; return whether they are followed.

    Without the person's consent none are followed: where no one can be asked, the command that does it is named. Raises
    ClientError if --watch was given and fails.
    """
    if choice.watch is False:
        return False
    command = f"`dreamctl watch {sessions.agent}`"
    try:
        if is_followed(sessions, terminal):
            return True
        found = ask(terminal, "watch", {**sessions.params, "dry_run": True}, timeout_s=None)
    except Unreachable as error:
        if choice.watch:
            raise ClientError(
                f"{sessions.title} is connected, but its sessions are not followed: {error}.",
                f"Start dreamd, then say {command}.",
            ) from error
        terminal.note(f"dreamd does not run yet. Once it does, {command} also takes in older sessions")
        return False
    if choice.watch is None and not _asks(sessions, found, terminal, says_yes):
        return False
    from_now = choice.from_now or not (choice.takes_past or takes_all(found, terminal))
    params = {**sessions.params, "backlog": "none" if from_now else "all"}
    answer = ask(terminal, "watch", params, timeout_s=None)
    if not terminal.as_json:
        terminal.lines(watched_in_words(answer, terminal.look))
    return True


def is_followed(sessions: ProgramSessions, terminal: Terminal) -> bool:
    """Return True if the daemon follows these sessions."""
    status = ask(terminal, "status", timeout_s=STATUS_TIMEOUT_S)
    return any(place["path"] == str(sessions.folder) for place in status["transcripts"]["places"])


def _asks(sessions: ProgramSessions, found: Json, terminal: Terminal, says_yes: Callable[[str], bool]) -> bool:
    """Ask whether to follow sessions; where no one can be asked, name the command."""
    if terminal.as_json or not sys.stdin.isatty():
        past = f" (of before: about {count(found['turns'], 'turn')})" if found["turns"] else ""
        terminal.note(
            f"its sessions are not followed{past}: `dreamctl watch {sessions.agent}` takes them in as they are written"
        )
        return False
    terminal.lines(
        terminal.look.wrap(
            f"What {sessions.title} is told is remembered when it has answered. dreamd can also follow its sessions in "
            f"{sessions.folder}: those that break off too, and if you want the older ones."
        )
    )
    return says_yes(f"Follow the sessions of {sessions.title}?")


def unfollow(sessions: ProgramSessions, terminal: Terminal) -> None:
    """Stop following sessions; their memories stay."""
    command = f"`dreamctl unwatch {sessions.agent}`"
    try:
        ask(terminal, "unwatch", {"path": str(sessions.folder)})
    except Absent:
        terminal.note(f"dreamd does not run. If it was to follow these sessions, {command} ends that once it does")
    except DaemonError as error:
        if error.code != NOT_FOUND:
            terminal.warn(f"its sessions are followed still: {error} {error.hint}")
    except Unreachable as error:
        terminal.warn(f"its sessions may be followed still ({error}): {command} ends that")
    else:
        if not terminal.as_json:
            terminal.lines([f"The sessions of {sessions.title} are not followed any more. What was learned stays."])

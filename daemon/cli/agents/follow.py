"""The sessions of a program that is being connected: followed if its person says so, and no more once it is not."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....ipc.client import Absent, ClientError, DaemonError, Unreachable
from ....ipc.protocol import NOT_FOUND
from ...importing.names import FOLLOWED
from ..formatting import count
from ..request import ask
from ..terminal import Terminal
from .watch import STATUS_TIMEOUT_S, takes_all, watched_in_words

if TYPE_CHECKING:
    from ....ipc.answers import StatusAnswer, WatchAnswer


@dataclass(frozen=True, slots=True)
class Wish:
    """A person's word on following: `watch` None is to be asked for, `from_now` leaves out what is there already.

    `takes_past` False asks before it is taken in.
    """

    watch: bool | None = None
    from_now: bool = False
    takes_past: bool = False


@dataclass(frozen=True, slots=True)
class Sessions:
    """A program's sessions: its name, and the folder in which it keeps them."""

    agent: str
    title: str
    folder: Path

    @property
    def params(self) -> dict[str, str]:
        """Return how the daemon is told of them: it may have another home than its person's shell."""
        return {"agent": self.agent, "path": str(self.folder)}


def follow_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of a wish."""
    parser.add_argument(
        "--watch",
        action=BooleanOptionalAction,
        help="also follow its sessions, as `dreamctl watch` does (asked if not said)",
    )
    parser.add_argument("--from-now", action="store_true", help="with --watch: leave out the sessions that are there")


def wish_of(options: Namespace) -> Wish:
    """Return what was said on the command line."""
    return Wish(options.watch, options.from_now, options.yes)


def can_be_followed(agent: str) -> bool:
    """Say whether dreamd reads what this program writes."""
    return agent in FOLLOWED


def follow(sessions: Sessions, wish: Wish, terminal: Terminal, says_yes: Callable[[str], bool]) -> bool:
    """Have sessions followed if that is wished; return whether they are. Raises ClientError where --watch fails.

    Nothing is followed without its person's word: where nobody can be asked, the command that does it is named.
    """
    if wish.watch is False:
        return False
    command = f"`dreamctl watch {sessions.agent}`"
    try:
        if is_followed(sessions, terminal):
            return True
        found: WatchAnswer = ask(terminal, "watch", {**sessions.params, "dry_run": True}, timeout_s=None)
    except Unreachable as error:
        if wish.watch:
            raise ClientError(
                f"{sessions.title} is connected, but its sessions are not followed: {error}.",
                f"Start dreamd, then say {command}.",
            ) from error
        terminal.note(f"dreamd does not run yet. Once it does, {command} also takes in older sessions")
        return False
    if wish.watch is None and not _asks(sessions, found, terminal, says_yes):
        return False
    from_now = wish.from_now or not (wish.takes_past or takes_all(found, terminal))
    params = {**sessions.params, "backlog": "none" if from_now else "all"}
    answer: WatchAnswer = ask(terminal, "watch", params, timeout_s=None)
    if not terminal.as_json:
        terminal.lines(watched_in_words(answer, terminal.look))
    return True


def is_followed(sessions: Sessions, terminal: Terminal) -> bool:
    """Ask the daemon whether sessions are followed."""
    status: StatusAnswer = ask(terminal, "status", timeout_s=STATUS_TIMEOUT_S)
    return any(place["path"] == str(sessions.folder) for place in status["transcripts"]["places"])


def _asks(sessions: Sessions, found: WatchAnswer, terminal: Terminal, says_yes: Callable[[str], bool]) -> bool:
    """Ask whether sessions are to be followed; where nobody can be asked, say how it is said."""
    if terminal.as_json or not sys.stdin.isatty():
        there = f" (of before: about {count(found['turns'], 'turn')})" if found["turns"] else ""
        terminal.note(
            f"its sessions are not followed{there}: `dreamctl watch {sessions.agent}` takes them in as they are written"
        )
        return False
    terminal.lines(
        terminal.look.wrap(
            f"What {sessions.title} is told is remembered when it has answered. dreamd can also follow its sessions in "
            f"{sessions.folder}: those that break off too, and if you want the older ones."
        )
    )
    return says_yes(f"Follow the sessions of {sessions.title}?")


def unfollow(sessions: Sessions, terminal: Terminal) -> None:
    """Have sessions followed no more, and say so; what was learned stays."""
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

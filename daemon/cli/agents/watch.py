"""The commands that have agents' sessions followed: watch, unwatch."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...importing.names import FOLLOWED
from ..formatting import Look, clean, count, listing
from ..request import ask
from ..terminal import Terminal

if TYPE_CHECKING:
    from ....ipc.answers import PlaceAnswer, StatusAnswer, TranscriptsAnswer, WatchAnswer

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
    """Follow an agent's sessions, or list which are."""
    if options.what is None:
        status: StatusAnswer = ask(terminal, "status", timeout_s=STATUS_TIMEOUT_S)
        terminal.report(status["transcripts"], transcripts_in_words(status["transcripts"], terminal.look))
        return 0
    params = _named(options.what, options.folder)
    found: WatchAnswer = ask(terminal, "watch", {**params, "dry_run": True}, timeout_s=None)
    if options.dry_run:
        terminal.report(found, [*terminal.look.wrap(found_in_words(found))])
        return 0
    from_now = options.from_now or not (options.yes or takes_all(found, terminal))
    answer: WatchAnswer = ask(terminal, "watch", {**params, "backlog": "none" if from_now else "all"}, timeout_s=None)
    terminal.report(answer, watched_in_words(answer, terminal.look))
    return 0


def unwatch_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of unwatch."""
    parser.add_argument("what", metavar="AGENT|FOLDER", help="as `dreamctl watch` lists it")


def unwatch(options: Namespace, terminal: Terminal) -> int:
    """Follow an agent's sessions no more."""
    answer: PlaceAnswer = ask(terminal, "unwatch", _named(options.what, None))
    terminal.report(answer, [f"{clean(answer['name'])} is not watched any more. What was learned stays."])
    return 0


def _named(what: str, folder: str | None) -> dict[str, Any]:
    path = folder if what in FOLLOWED else what
    return {
        "agent": what if what in FOLLOWED else None,
        "path": str(Path(path).expanduser().absolute()) if path else None,
    }


def takes_all(found: WatchAnswer, terminal: Terminal) -> bool:
    """Ask whether what is there is wanted; yes where nobody can be asked."""
    if not found["turns"] or terminal.as_json or not sys.stdin.isatty():
        return True
    print(*terminal.look.wrap(found_in_words(found)), sep="\n", file=sys.stderr)
    print("Take it in, in the background? [Y/n] ", end="", file=sys.stderr, flush=True)
    return not sys.stdin.readline().strip().lower().startswith("n")


def found_in_words(found: WatchAnswer) -> str:
    """Say how much is there already."""
    if not found["files"]:
        return f"There are no sessions in {clean(found['path'])} yet."
    return (
        f"There are about {count(found['sessions'], 'session')} with {count(found['turns'], 'turn')} in "
        f"{clean(found['path'])}; taking them in needs about {_minutes(found['minutes'])}."
    )


def watched_in_words(answer: WatchAnswer, look: Look) -> list[str]:
    """Say what is watched from now on, and what becomes of what was there."""
    lines = look.wrap(f"Watching {clean(answer['name'])}: what is said there is remembered as it is said.")
    if answer["since"]:
        return lines + look.wrap("What was said before is left out.")
    if not answer["turns"]:
        return lines + look.wrap(found_in_words(answer))
    return lines + look.wrap(
        found_in_words(answer) + " It goes on in the background; `dreamctl status` says how far it is."
    )


def transcripts_in_words(answer: TranscriptsAnswer, look: Look) -> list[str]:
    """List the places that are watched."""
    if not answer["places"]:
        return look.wrap("No sessions are watched. `dreamctl watch claude-code` follows what Claude Code writes.")
    lines = []
    for place in answer["places"]:
        since = f", from {place['since'][:10]} on" if place["since"] else ""
        lines += look.wrap(f"{clean(place['name'])}: {place['state']}{since}")
    progress = "; ".join(_progress(answer))
    return lines + (look.wrap(progress) if progress else [])


def progress_in_words(answer: TranscriptsAnswer) -> str:
    """Say in a line what is watched, which sessions go on, and how far the older ones are."""
    if not answer["places"]:
        return ""
    return "; ".join([listing([place["name"] for place in answer["places"]]), *_progress(answer)])


def _progress(answer: TranscriptsAnswer) -> Iterator[str]:
    if active := len(answer["active"]):
        yield f"{count(active, 'session')} going on"
    if backlog := answer["backlog"]:
        left = f"{backlog['files']:,} of {backlog['of']:,} older files to take in"
        yield f"{left}, about {_minutes(backlog['minutes'])}"
    if answer["problem"]:
        yield answer["problem"]


def _minutes(minutes: float) -> str:
    return "a minute" if minutes < 1.5 else f"{minutes:.0f} minutes"

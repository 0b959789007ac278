"""The commands that look after the daemon: status, check, rebuild, pause, resume, channel, stop, version."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ... import __version__
from ...ipc.client import Absent, Unreachable
from ...ipc.paths import default_socket_path
from .agents.watch import progress_in_words
from .formatting import BOLD, DIM, RED, YELLOW, Look, clean, count, duration, listing, pairs, sentence, when
from .repair import check_alone, is_in_use, rebuild_alone
from .request import ask
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.answers import ChannelAnswer, CheckAnswer, HelloAnswer, RebuildAnswer, StatusAnswer

LEVEL_NOUNS = {"L0": "session", "L1": "fact", "L2": "scenario", "L3": "profile"}
MOST_CHANNELS = 4
STATUS_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 30.0


def status_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of status: none."""


def status(options: Namespace, terminal: Terminal) -> int:
    """Print what the daemon is doing."""
    answer: StatusAnswer = ask(terminal, "status", timeout_s=STATUS_TIMEOUT_S)
    terminal.report(answer, status_in_words(answer, terminal.look))
    return 0


def check_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of check."""
    parser.add_argument(
        "--accept", action="store_true", help="accept that files which vanished from the vault are deleted"
    )


def check(options: Namespace, terminal: Terminal) -> int:
    """Look for problems; without a daemon, in the settings and the databases only."""
    away = {}
    try:
        answer: CheckAnswer = ask(terminal, "check", {"accept": options.accept or None}, timeout_s=None)
    except Unreachable as error:
        if options.accept:
            raise
        answer = {"problems": [], "settings_problems": _settings_problems()}
        away = {"daemon": str(error), "not_looked_at": "the data: where it lies is not known"}
        if not answer["settings_problems"]:
            answer["problems"], away["not_looked_at"] = check_alone()
    terminal.report({**answer, **away}, check_in_words(answer, terminal.look))
    if away:
        terminal.note(f"no daemon answers; not looked at: {away['not_looked_at']}")
    wrong = [problem for problem in answer["problems"] if problem["severity"] != "note"]
    return 1 if wrong or answer["settings_problems"] else 0


def rebuild_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of rebuild: none."""


def rebuild(options: Namespace, terminal: Terminal) -> int:
    """Rebuild the index."""
    from .request import shown_progress

    with shown_progress(terminal, "Rebuilding") as on_progress:
        try:
            answer: RebuildAnswer = ask(terminal, "rebuild", {}, on_progress, timeout_s=None)
        except Absent:
            if not is_in_use():
                raise
            answer = rebuild_alone(on_progress)
    terminal.report(answer, rebuild_in_words(answer, terminal.look))
    return 0


def pause_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of pause: none."""


def pause(options: Namespace, terminal: Terminal) -> int:
    """Stop learning for now."""
    return _done(terminal, ask(terminal, "pause"), "Learning is paused. Recall goes on; `dreamctl resume` ends it.")


def resume_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of resume: none."""


def resume(options: Namespace, terminal: Terminal) -> int:
    """Learn again."""
    return _done(terminal, ask(terminal, "resume"), "Learning goes on.")


def channel_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of channel."""
    parser.add_argument(
        "name", help="the channel (a project's memories), as recall prints it; the project's name is enough"
    )
    parser.add_argument("learning", choices=("on", "off"), help="on to learn from it, off not to")


def channel(options: Namespace, terminal: Terminal) -> int:
    """Switch learning in one channel."""
    answer: ChannelAnswer = ask(terminal, "channel", {"name": options.name, "learning": options.learning == "on"})
    for note in answer["notes"]:
        terminal.warn(note)
    return _done(terminal, answer, f"Learning in {clean(answer['channel'])} is {options.learning}.")


def stop_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of stop: none."""


def stop(options: Namespace, terminal: Terminal) -> int:
    """End the daemon, and wait until it has ended."""
    pid = ask(terminal, "hello", timeout_s=STATUS_TIMEOUT_S)["pid"]
    answer = ask(terminal, "stop")
    if not _wait_for_end(pid):
        terminal.warn(f"the daemon (pid {pid}) is still finishing")
        return 1
    return _done(terminal, answer, "The daemon has stopped.")


def version_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of version: none."""


def version(options: Namespace, terminal: Terminal) -> int:
    """Print this version, and the one that answers."""
    try:
        daemon: HelloAnswer | None = ask(terminal, "hello", timeout_s=STATUS_TIMEOUT_S)
    except Unreachable:
        daemon = None
    if terminal.as_json:
        terminal.document({"version": __version__, "daemon": daemon, "socket": default_socket_path()})
    else:
        running = f"running as {daemon['version']}, pid {daemon['pid']}" if daemon else "not running"
        terminal.lines([f"dreamd {__version__} ({running})"])
    return 0


def status_in_words(answer: StatusAnswer, look: Look) -> list[str]:
    """Describe the daemon in a few lines."""
    up = f", up {duration(answer['uptime_s'])}"
    lines = [look.paint(f"dreamd {answer['version']}", BOLD) + f" is running (pid {answer['pid']}{up}).", ""]
    rows = [
        ("vault", answer["vault"]),
        ("memories", memories_in_words(answer)),
        ("channels", channels_in_words(answer)),
        ("searchable", searchable_in_words(answer)),
        ("learning", learning_in_words(answer)),
        ("watching", progress_in_words(answer["transcripts"])),
        ("dreams", dreams_in_words(answer, look)),
    ]
    lines += pairs([row for row in rows if row[1]], look)
    if advice := answer["embedding"]["advice"]:
        lines += ["", *look.wrap(advice, "  ")]
    for problem in answer["problems"]:
        lines += ["", *(look.paint(line, YELLOW) for line in look.wrap(sentence(problem), "  "))]
    return lines


def memories_in_words(answer: StatusAnswer) -> str:
    """Count the memories: `10 sessions with 150 turns, 40 facts`."""
    numbers = answer["memories"]
    parts = [count(numbers[level], noun) for level, noun in LEVEL_NOUNS.items() if numbers[level]]
    if numbers["L0"]:
        parts[0] += " with " + count(answer["turns"], "turn")
    if purged := answer["turns_purged"]:
        parts.append(f"{count(purged, 'turn')} purged")
    if forgotten := answer["turns_forgotten"]:
        parts.append(f"{count(forgotten, 'turn')} forgotten")
    return ", ".join(parts) or "none yet; `dreamctl import` and `dreamctl remember` make some"


def channels_in_words(answer: StatusAnswer) -> str:
    """List the channels that hold most, with how many memories and turns."""
    held = sorted(answer["channels"].items(), key=lambda channel: -channel[1])
    return listing([f"{name} ({number:,})" for name, number in held], MOST_CHANNELS) if held else ""


def searchable_in_words(answer: StatusAnswer) -> str:
    """Count what is found by words, and how much of it not yet by meaning."""
    if not answer["chunks"]:
        return ""
    if not answer["embedding"]["ready"]:
        return count(answer["chunks"], "chunk") + "; by words only until the embedding model is loaded"
    waiting, unread = answer["pending_embeddings"], answer["not_found_yet"]
    by_words = f"; {waiting:,} by words only, until embedded" if waiting else ""
    return count(answer["chunks"], "chunk") + by_words + (f"; {unread:,} changes not found yet" if unread else "")


def learning_in_words(answer: StatusAnswer) -> str:
    """Say whether learning is on, and in which channels it is off."""
    if answer["paused"]:
        return "paused; `dreamctl resume` ends it"
    off = answer["channels_off"]
    return "on" if not off else f"on, but not in {listing(off)}"


def dreams_in_words(answer: StatusAnswer, look: Look) -> str:
    """Describe the dream that runs, else the last and the next."""
    if running := answer["dream"]:
        far = f", {running['done']:,} of {running['total']:,}" if running["total"] else ""
        held = f"; held back: {why}" if (why := running["paused"]) else ""
        return f"one is running: {running['stage'] or 'starting'}{far}{held}"
    last, upcoming = answer["last_dream"], when(answer["next_dream"])
    parts = [f"last {look.ago(last)}" if last else "none yet"]
    if upcoming:
        parts.append(f"next {look.ago(answer['next_dream'])}" if upcoming > look.now else "one is due when it is quiet")
    return "; ".join(parts)


def check_in_words(answer: CheckAnswer, look: Look) -> list[str]:
    """List every problem, the settings' first."""
    lines: list[str] = []
    for problem in answer["settings_problems"]:
        lines += [look.paint(line, RED) for line in look.wrap(sentence(f"settings: {problem}"))]
    for found in answer["problems"]:
        severity = found["severity"]
        colour = {"error": RED, "warning": YELLOW}.get(severity, DIM)
        place = f"{found['path']}: " if found["path"] else ""
        lines += look.wrap(f"{severity}: {place}{sentence(found['problem'])}")
        lines[-1] = lines[-1] if not look.colour else lines[-1].replace(severity, look.paint(severity, colour), 1)
    return lines or ["No problems."]


def rebuild_in_words(answer: RebuildAnswer, look: Look) -> list[str]:
    """Count what was read and what had to be embedded anew."""
    text = (
        f"The index is rebuilt from {count(answer['files'], 'file')}: {count(answer['nodes'], 'node')}, "
        f"{count(answer['chunks'], 'chunk')}, {answer['embedded']:,} of them embedded anew, "
        f"in {duration(answer['seconds'])}."
    )
    return look.wrap(text)


def _done(terminal: Terminal, answer: Mapping[str, object], words: str) -> int:
    terminal.report(answer, [words])
    return 0


def _settings_problems() -> list[str]:
    from ..host.settings_check import complaints

    return complaints()


def _wait_for_end(pid: int) -> bool:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not (ended := _has_ended(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return ended


def _has_ended(pid: int) -> bool:
    """Say whether there is no such process, or (Linux) one that ended and that its parent has not waited for yet."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  (pathlib costs more than the whole status)
            return stat.read().rpartition(b") ")[2].startswith(b"Z")
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return False

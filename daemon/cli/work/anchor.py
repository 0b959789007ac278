"""The command that shows what an agent was doing last."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from ..formatting import Look, clean, pairs
from ..request import ask
from ..terminal import Terminal

if TYPE_CHECKING:
    from ....ipc.answers import AnchorAnswer, FoundAnchorAnswer

NOTHING_FOUND = 4


def anchor_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of anchor."""
    parser.add_argument("--session", help="the session (the newest of this folder's channel)")
    parser.add_argument("--channel", help="the channel (that of this folder)")


def anchor(options: Namespace, terminal: Terminal) -> int:
    """Show the anchor of a session, or the newest of a channel."""
    answer: FoundAnchorAnswer = ask(terminal, "anchor_get", {"session": options.session, "channel": options.channel})
    found = answer["anchor"]
    terminal.report(answer, anchor_in_words(found, terminal.look) if found else ["No agent left an anchor here."])
    return 0 if found else NOTHING_FOUND


def anchor_in_words(anchor: AnchorAnswer, look: Look) -> list[str]:
    """Describe an anchor: whose it is and of when, and what it says."""
    ended = " (ended)" if anchor["ended_at"] else ""
    head = f"Session {clean(anchor['session_id'])}{ended} in {clean(anchor['channel'])}, {look.ago(anchor['set_at'])}:"
    rows = [("task", anchor["task"]), ("plan", anchor["plan"])]
    rows += [("decided", text) for text in anchor["decisions"]]
    rows.append(("next step", anchor["next_step"]))
    return [*look.wrap(head), *pairs([(name, text) for name, text in rows if text], look)]

"""The commands about work that is under way: anchor, goals."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .formatting import Look, clean, pairs, table
from .request import ask
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.answers import AnchorAnswer, FoundAnchorAnswer, GoalAnswer, GoalsAnswer

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


def goals_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of goals."""
    parser.add_argument("--session", help="the goals of this session too")
    parser.add_argument("--channel", help="the channel (that of this folder)")
    parser.add_argument("--complete", metavar="GOAL", help="close the goal with this id: it is done")
    parser.add_argument("--abandon", metavar="GOAL", help="close the goal with this id: it is given up")


def goals(options: Namespace, terminal: Terminal) -> int:
    """Show the open threads of a channel, or close one."""
    if closing := options.complete or options.abandon:
        state = "completed" if options.complete else "abandoned"
        closed: GoalAnswer = ask(terminal, "goal_set", {"goal_id": closing, "state": state, "channel": options.channel})
        terminal.report(closed, [f"{state.capitalize()}: {clean(closed['text'])}"])
        return 0
    params: dict[str, Any] = {"session": options.session, "channel": options.channel}
    answer: GoalsAnswer = ask(terminal, "goals", params)
    terminal.report(answer, goals_in_words(answer, terminal.look))
    return 0


def goals_in_words(answer: GoalsAnswer, look: Look) -> list[str]:
    """List the goals of a session, and the threads that earlier ones left open."""
    lines = _listed("Goals of the session:", answer["goals"], look)
    lines += _listed(f"Open threads in {clean(answer['channel'])}:", answer["threads"], look)
    return lines or [f"There are no open threads in {clean(answer['channel'])}."]


def _listed(head: str, goals: Sequence[GoalAnswer], look: Look) -> list[str]:
    rows = [(goal["goal_id"], goal["state"], look.ago(goal["changed_at"]), goal["text"]) for goal in goals]
    return [head, *table(rows, look, ("goal", "state", "when", "text"))] if rows else []

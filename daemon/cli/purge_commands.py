"""The command that erases: purge. It shows its plan, asks, and reports traces and places out of reach."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..formatting import Look, clean, count, date_of, listing, sentence, when
from .request import ask, shown_progress
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.protocol import Json

MOST_TITLES = 5
MOST_REPEATED = 5
NOT_UNDERSTOOD, LEFT = 2, 4
TRACES_LEFT = 1


def purge_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of purge."""
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="memories, turns (SESSION#N) or whole sessions")
    parser.add_argument("--channel", help="everything in a channel (one project's memories) and of its sessions")
    parser.add_argument("--matching", metavar="TEXT", help="every turn and memory that says these words")
    parser.add_argument("--before", metavar="DATE", type=_begin_of_day, help="everything older than a day (2026-01-31)")
    parser.add_argument("--secrets", action="store_true", help="every secret that today's rules find, and only that")
    parser.add_argument("--probes", action="store_true", help="the past questions that dreams are tested with")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    parser.epilog = (
        "Unlike forget, a purge cannot be undone: what it removes is searched for afterwards in every byte that "
        "dreamd keeps. Exit codes: 0 removed; 1 something of it was found afterwards; 4 nothing of it "
        "is there, or it was left as it was."
    )


def purge(options: Namespace, terminal: Terminal) -> int:
    """Erase memories for good."""
    named = _named(options)
    if len(named) != 1:
        terminal.fail("say in one way what is to be purged", "`dreamctl purge --help` lists them.")
        return NOT_UNDERSTOOD
    if not options.probes:
        with shown_progress(terminal, "Planning") as on_progress:
            plan = ask(terminal, "purge", {**named, "dry_run": True}, on_progress, timeout_s=None)
        if options.dry_run or is_nothing(plan):
            terminal.report(plan, plan_in_words(plan, terminal.look))
            return LEFT if is_nothing(plan) else 0
        if not options.yes and not _agreed(plan, terminal):
            return LEFT
    with shown_progress(terminal, "Purging") as on_progress:
        answer = ask(terminal, "purge", named, on_progress, timeout_s=None)
    terminal.report(answer, outcome_in_words(answer, terminal.look, questions=options.probes))
    return TRACES_LEFT if answer["traces"] else 0


def _named(options: Namespace) -> dict[str, Any]:
    named = {
        "nodes": options.nodes,
        "channel": options.channel,
        "matching": options.matching,
        "before": options.before,
        "secrets": options.secrets,
        "probes": options.probes,
    }
    return {name: value for name, value in named.items() if value}


def _begin_of_day(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().isoformat()


def _agreed(plan: Json, terminal: Terminal) -> bool:
    """Show the plan and ask; refuse without a terminal."""
    if not sys.stdin.isatty():
        terminal.fail("a purge cannot be undone, and nobody is there to be asked", "`--yes` does it all the same.")
        return False
    print("\n".join(plan_in_words(plan, terminal.look)), file=sys.stderr)
    print("Erase it for good? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    terminal.note("nothing was removed")
    return False


def is_nothing(plan: Json) -> bool:
    """Return True for a plan that removes nothing."""
    named = plan["turns"] or plan["memories"] or plan["sessions"] or plan["secrets"]
    return not (named or plan["files_removed"] or plan["files_changed"])


def amounts_in_words(answer: Json) -> str:
    """Count the erased items: `1 session, 26 turns and 9 memories`."""
    memories = answer["memories"]
    parts = [
        (answer["sessions"], count(answer["sessions"], "session")),
        (answer["turns"], count(answer["turns"], "turn")),
        (memories, f"{memories:,} {'memory' if memories == 1 else 'memories'}"),
        (answer["secrets"], count(answer["secrets"], "secret")),
    ]
    return listing([words for number, words in parts if number] or ["what titles and pages say of it"])


def plan_in_words(plan: Json, look: Look) -> list[str]:
    """Describe a plan: the removed items, and remaining ones with much of the same text."""
    if is_nothing(plan):
        return ["There is nothing to purge."]
    done = (("removed", plan["files_removed"]), ("changed", plan["files_changed"]))
    changes = ", ".join(f"{count(number, 'file')} {verb}" for verb, number in done if number) or "no file is changed"
    lines = look.wrap(f"This erases {amounts_in_words(plan)} for good, everywhere: {changes}.")
    named = [_item_in_words(one, look) for one in plan["items"]] or plan["titles"]
    lines += [line for words in named[:MOST_TITLES] for line in look.wrap(f"- {clean(words)}", "  ")]
    if len(named) > MOST_TITLES:
        lines.append("  - …")
    if plan["copies"]:
        lines += look.wrap(f"These set-aside ledgers go as a whole: {listing(plan['copies'])}.")
    if repeated := plan["repeated_in"]:
        more = f" and {len(repeated) - MOST_REPEATED:,} more" if len(repeated) > MOST_REPEATED else ""
        lines += look.wrap(f"These stay, and say much of the same: {', '.join(repeated[:MOST_REPEATED])}{more}.")
    return lines


def _item_in_words(item: Json, look: Look) -> str:
    day = when(item["created_at"])
    place = ", ".join(filter(None, (item["kind"], date_of(day, look.now) if day else "", item["channel"])))
    return f"{item['title'] or item['node_id']} ({place}{'' if item['goes'] else '; loses lines'})"


def outcome_in_words(answer: Json, look: Look, *, questions: bool) -> list[str]:
    """Describe a purge: the removed items, traces that were found, and places that were not searched."""
    if questions:
        return [f"{count(answer['questions'], 'past question')} deleted for good; this cannot be undone."]
    if answer["run_id"] is None:
        beyond = [line for each in answer["out_of_reach"] for line in look.wrap(sentence(each))]
        return ["There was nothing to purge.", *beyond]
    lines = look.wrap(f"Erased for good: {amounts_in_words(answer)}.")
    if answer["traces"]:
        lines += look.wrap("Something of it is still in:")
        lines += [f"- {clean(trace)}" for trace in answer["traces"]]
    else:
        lines += look.wrap("Nothing of it is left in any byte that dreamd keeps.")
    return lines + [line for sentence_ in answer["out_of_reach"] for line in look.wrap(sentence(sentence_))]

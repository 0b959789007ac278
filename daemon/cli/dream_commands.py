"""The commands about dreams and their results: dream, runs, undo, redo, digest; and their page: open."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ..formatting import BOLD, Look, clean, count, duration, listing, sentence, side_by_side, table
from .arguments import day, whole
from .request import ask, shown_progress
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.protocol import Json

# A page's links lead nowhere in a terminal.
# A link; its name may be a long quote, with a resolved day in brackets.
LINK = re.compile(r"\[((?:[^\[\]\n]|\[[^\[\]\n]{0,100}\]){0,4000})\]\([^)\n]{0,400}\)")

MARK = re.compile(r"^<!--.*-->\n\n?", re.MULTILINE)
CELL = re.compile(r" (?<!\\)\| ")
PAIR = 2
MOST_PLANNED = 20
PLACES = ("today", "search", "projects", "timeline", "things", "review", "runs", "sessions", "memories", "health")
NOTHING_LEFT = 4  # as when nothing is found
OUTCOMES: dict[str, str] = {
    "running": "The dream {run} has begun. `dreamctl status` shows its progress.",
    "applied": "The dream {run} is done after {took}.",
    "nothing": "There was nothing new to consolidate.",
    "undone": "The dream {run} made recall worse and was undone automatically; nothing was changed.",
    "planned": "This is what a dream would do now; nothing was changed.",
    "paused": "The dream {run} is paused. `dreamctl dream resume` resumes it.",
    "preempted": "The dream {run} gave way to an agent at work, and begins again when the machine is idle.",
    "failed": "The dream {run} failed after {took}; nothing was changed.",
    "cancelled": "The dream {run} was cancelled; nothing was changed.",
}


FORBIDDEN = (
    "No dream proposes again what was undone; what was said is still found, and `dreamctl remember TEXT` keeps a "
    "single fact of it."
)

STEERING = ("pause", "resume", "cancel")


def dream_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of dream."""
    parser.add_argument(
        "kind",
        nargs="?",
        default="daily",
        choices=("daily", "weekly", "compaction", *STEERING),
        help="the kind of dream (daily), or what to do with the running one",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what it would change")
    parser.add_argument("--wait", action="store_true", help="wait until it is done, and show its progress")


def dream(options: Namespace, terminal: Terminal) -> int:
    """Start a dream, or pause, resume or cancel the running one."""
    if options.kind in STEERING:
        return _steer(options.kind, terminal)
    params = {"kind": options.kind, "dry_run": options.dry_run, "wait": options.wait or options.dry_run}
    answer: Json
    if not params["wait"]:
        answer = ask(terminal, "dream", params)
    else:
        with shown_progress(terminal, "Dreaming") as on_progress:
            answer = ask(terminal, "dream", params, on_progress, timeout_s=None)
    terminal.report(answer, dream_in_words(answer, terminal.look))
    return 1 if answer["state"] in ("failed", "cancelled", "preempted") else 0


def _steer(word: str, terminal: Terminal) -> int:
    answer = ask(terminal, f"dream_{word}")
    if terminal.as_json:
        terminal.document(answer)
    else:
        words = "The dream {run} is resumed." if word == "resume" else OUTCOMES[answer["state"]]
        terminal.lines(terminal.look.wrap(words.format(run=answer["run_id"])))
    return 0


def runs_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of runs."""
    parser.add_argument("run", nargs="?", help="a run's id: what it changed")
    parser.add_argument("--limit", type=whole(1, 1000), metavar="N", help="at most N runs (20)")
    parser.add_argument("--kind", help="only one kind: daily, weekly, compaction, forget, review, link …")
    parser.add_argument(
        "--all", action="store_true", help="also the runs that only link new memories to old ones (link)"
    )


def runs(options: Namespace, terminal: Terminal) -> int:
    """List the runs, or the changes of one."""
    if options.run:
        return _changes(options.run, terminal)
    answer = ask(terminal, "runs", {"limit": options.limit, "kind": options.kind, "all": options.all or None})
    if terminal.as_json:
        terminal.document(answer)
    elif answer["runs"]:
        terminal.lines(runs_in_words(answer["runs"], terminal.look))
    else:
        terminal.note("there were no runs yet; `dreamctl dream daily --wait` makes one")
    return 0


def _changes(run_id: str, terminal: Terminal) -> int:
    answer = ask(terminal, "run", {"run_id": run_id})
    while (at := answer["next"]) is not None:
        more = ask(terminal, "run", {"run_id": run_id, "offset": at})
        answer["changes"] += more["changes"]
        answer["next"] = more["next"]
    terminal.report(answer, run_in_words(answer, terminal.look))
    return 0


def run_in_words(answer: Json, look: Look) -> list[str]:
    """List the changes of a run, each with its memory and the state that it is in."""
    rows = [
        (one["node_id"], one["kind"], one["stage"], one["state"], one["title"] or one["path"])
        for one in answer["changes"]
    ]
    lines = runs_in_words([answer["run"]], look)
    return [*lines, "", *table(rows, look, ("memory", "change", "by", "state", "title"))] if rows else lines


def undo_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of undo."""
    parser.add_argument("run", help="a run's id, as runs prints it")
    parser.add_argument(
        "--item", action="append", metavar="NODE", help="only its change of this memory; may be repeated"
    )
    parser.epilog = f"`dreamctl redo RUN` does it again. {FORBIDDEN}"


def undo(options: Namespace, terminal: Terminal) -> int:
    """Undo the changes of a run."""
    with shown_progress(terminal, "Undoing") as on_progress:
        params = {"run_id": options.run, "items": options.item}
        answer = ask(terminal, "undo", params, on_progress, timeout_s=None)
    terminal.report(answer, undo_in_words(answer, terminal.look))
    if answer["already"] or not (answer["restored"] or answer["turns"] or answer["conflicts"]):
        return NOTHING_LEFT
    return 1 if answer["conflicts"] else 0


def redo_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of redo."""
    parser.add_argument("run", help="the id of a run that was undone, as runs prints it")
    parser.add_argument(
        "--item", action="append", metavar="NODE", help="only its change of this memory; may be repeated"
    )


def redo(options: Namespace, terminal: Terminal) -> int:
    """Change again what an undo of a run took back."""
    with shown_progress(terminal, "Doing again") as on_progress:
        params = {"run_id": options.run, "items": options.item}
        answer = ask(terminal, "redo", params, on_progress, timeout_s=None)
    terminal.report(answer, redo_in_words(answer, terminal.look))
    if not (answer["redone"] or answer["turns"] or answer["conflicts"]):
        return NOTHING_LEFT
    return 1 if answer["conflicts"] else 0


def digest_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of digest."""
    parser.add_argument("date", nargs="?", type=day, help="a day like 2026-11-21 (the newest report)")
    parser.add_argument("--open", action="store_true", help="open it as a page in the browser")


def digest(options: Namespace, terminal: Terminal) -> int:
    """Print the report of a day's dreams."""
    answer = ask(terminal, "digest", {"date": options.date})
    if terminal.as_json:
        terminal.document(answer)
    elif options.open:
        page = answer["page"] or answer["path"]
        _show(Path(page).as_uri(), page, terminal)
        terminal.note(
            "`dreamctl open` has the same beside the memory itself, and `dreamctl open --at review` what waits"
        )
    else:
        terminal.lines(page_in_words(answer["text"], terminal.look))
    for run in answer["undone"]:
        terminal.note(f"what {run} did has been undone since")
    return 0


def open_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of open."""
    parser.add_argument("--at", choices=PLACES, default="today", help="where to begin (today)")
    parser.add_argument("--print", action="store_true", help="only print the address, good once and for a minute")


def open_(options: Namespace, terminal: Terminal) -> int:
    """Have the daemon serve the web page, and open it in the browser."""
    answer = ask(terminal, "page_open", {"at": "/" if options.at == "today" else f"/{options.at}"})
    if terminal.as_json:
        terminal.document(answer)
    elif options.print:
        terminal.lines([answer["url"]])
    else:
        _show(answer["url"], answer["url"], terminal)
        terminal.note(f"the page is gone after {answer['idle_s'] / 60:g} minutes without a look at it")
    return 0


def _show(address: str, shown: str, terminal: Terminal) -> None:
    """Open an address in the browser, and print it as it is shown."""
    import webbrowser

    try:
        is_open = webbrowser.open(address)
    except (webbrowser.Error, OSError):
        is_open = False
    terminal.lines([shown])
    if not is_open:
        terminal.note("no browser could be opened; that is where the page lies")


def page_in_words(text: str, look: Look) -> list[str]:
    """Render a page for a terminal: links by their names, tables in columns, no marks for programs."""
    # A page escapes `<` so that a browser shows it.
    text = MARK.sub("", LINK.sub(r"\1", text)).replace("\\<", "<")
    lines: list[str] = []
    for is_table, grouped in groupby(text.splitlines(), lambda line: line.startswith("| ")):
        block = list(grouped)
        lines += _table_in_words(block, look) if is_table else _prose_in_words(block, look)
    return lines


def _prose_in_words(block: list[str], look: Look) -> list[str]:
    lines = [shown for line in block for shown in look.wrap(line) or [""]]
    return [look.paint(line, BOLD) if line.startswith("#") else line for line in lines]


def _table_in_words(block: list[str], look: Look) -> list[str]:
    heads, _, *rows = [[cell.replace("\\|", "|") for cell in CELL.split(line.strip("| "))] for line in block]
    if len(heads) == PAIR:
        return side_by_side([(row[0], row[-1]) for row in rows], look, (heads[0], heads[1]))
    return table(rows, look, heads)


def dream_in_words(answer: Json, look: Look) -> list[str]:
    """Describe the end of a dream, and its changes or planned changes."""
    state = answer["state"]
    words = OUTCOMES.get(state, f"The dream {{run}} is {state}.")
    if state == "planned" and not answer.get("plan"):
        words = "A dream would change nothing now."
    lines = look.wrap(words.format(run=answer["run_id"], took=duration(answer["seconds"])))
    if answer["note"]:
        lines += look.wrap(sentence(answer["note"]))
    if actions := {stage: number for stage, number in answer["actions"].items() if number}:
        lines += look.wrap("Changes: " + listing([f"{number:,} by {stage}" for stage, number in actions.items()]) + ".")
    if plan := answer.get("plan"):
        rows = [
            (step["stage"], step["kind"], ": ".join(part for part in (step["path"], step["reason"]) if part))
            for step in plan
        ]
        shown = rows[:MOST_PLANNED]
        lines += ["", *table(shown, look)]
        if len(rows) > len(shown):
            lines.append(f"… and {len(rows) - len(shown):,} more (--json has them)")
    if answer["state"] == "applied":
        lines += ["", "Read:  dreamctl digest", f"Undo:  dreamctl undo {answer['run_id']}"]
    return lines


def runs_in_words(runs: Iterable[Json], look: Look) -> list[str]:
    """Describe each run in one line."""
    rows = [
        (
            run["run_id"],
            run["kind"],
            run["state"],
            look.ago(run["started_at"]),
            duration(run["seconds"]) if run["seconds"] is not None else "",
            changes_in_words(run),
        )
        for run in runs
    ]
    return table(rows, look, ("run", "kind", "state", "when", "took", "changes"))


def changes_in_words(run: Json) -> str:
    """Count a run's changes, as `+12 ~3 -1`, and add the memory that it is about, else its note."""
    numbers = (("+", run["created"]), ("~", run["replaced"]), ("-", run["deleted"]))
    amounts = " ".join(f"{sign}{number}" for sign, number in numbers if number)
    about = f"“{clean(run['about'])}”" if run["about"] else run["note"]
    return "  ".join(part for part in (amounts, about) if part) or "nothing"


def undo_in_words(answer: Json, look: Look) -> list[str]:
    """Count the restored files, and list the files that later changes keep from being restored."""
    if answer["already"]:
        return [f"Run {answer['run_id']} was undone before; nothing was changed."]
    if not any(answer[key] for key in ("restored", "turns", "conflicts")):
        return look.wrap(f"Nothing of run {answer['run_id']} can come back: it changed no file, or that was purged.")
    files = [f"{count(answer['restored'], 'file')} as before"] if answer["restored"] else []
    files += [f"{count(answer['turns'], 'turn')} found again"] if answer["turns"] else []
    part = " in part" if answer["left"] > len(answer["conflicts"]) else ""
    undone = f"Run {answer['run_id']} is undone{part}{': ' if files else ''}{', '.join(files)}."
    lines = look.wrap(undone if files else f"Nothing of run {answer['run_id']} could be undone.")
    if answer["forbidden"]:
        lines += look.wrap(FORBIDDEN)
    return lines + _left_as_they_are(answer["conflicts"], look)


def redo_in_words(answer: Json, look: Look) -> list[str]:
    """Count the files that are again as a run left them, and list those that could not be changed."""
    if not (answer["redone"] or answer["turns"] or answer["conflicts"]):
        return look.wrap(f"Nothing of run {answer['run_id']} is undone.")
    done = count(answer["redone"], "file") if answer["redone"] else count(answer["turns"], "turn")
    left = f"; {answer['left']:,} of its changes stay undone" if answer["left"] else ""
    is_done = answer["redone"] or answer["turns"]
    said = f"Run {answer['run_id']} is done again: {done}{left}." if is_done else "Nothing could be done again."
    return look.wrap(said) + _left_as_they_are(answer["conflicts"], look)


def _left_as_they_are(conflicts: Sequence[Json], look: Look) -> list[str]:
    if not conflicts:
        return []
    are = "is left as it is" if len(conflicts) == 1 else "are left as they are"
    lines = [f"{count(len(conflicts), 'file')} {are}:"]
    for conflict in conflicts:
        lines += look.wrap(f"{conflict['path']}: {conflict['reason']}", "  ")
    return lines

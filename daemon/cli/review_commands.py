"""The commands about fading memories and open decisions: decay, restore, review."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...ipc.client import DaemonError
from ..formatting import BOLD, DIM, GREEN, RED, YELLOW, Look, clean, clip, count, listing, table, when
from .arguments import whole
from .request import ask
from .terminal import Terminal, edited_text
from .write_commands import changes_in_words

if TYPE_CHECKING:
    from ...ipc.protocol import Json

MOST_SHOWN = 40
# Marks shown after the open decisions, if they were not asked for.
MARKS_SHOWN = 20

# The names of the two sides of a decision or of a mark.
SIDES = {
    None: ("older", "newer"),
    "replaced": ("replaced", "by"),
    "likely": ("likely changed", "by"),
    "same": ("stands", "archived as the same"),
    "archived": ("archived", ""),
}

KEPT = {
    "newer": "The newer one holds.",
    "older": "The older one holds.",
    "both": "Both hold.",
    "edit": "Your wording holds.",
    "accept": "It holds from now on.",
    "reject": "It is forgotten.",
    "change": "The line is changed.",
    "leave": "The file stays as it is.",
}
KEYS = {
    "n": "newer", "o": "older", "b": "both", "e": "edit", "s": "skip", "q": "quit", "": "skip",
}  # fmt: skip
CLAIM_KEYS = {"a": "accept", "r": "reject", "s": "skip", "q": "quit", "": "skip"}
SHARE_KEYS = {"y": "yes", "n": "no", "q": "no", "": "no"}
SHARE_PROMPT = "Share this? [y]es  [n]o "
NO_PLACE = "no place to send it to is set: once there is one, `dreamctl sync team --release` sends it"
WITHDRAWN_THERE = "Clones that fetched it keep it, and so does whoever accepted it."
CLAIM_PROMPT = "[a]ccept  [r]eject  [s]kip  [q]uit "
PROMPT = "[n]ewer holds  [o]lder holds  [b]oth hold  [e]dit  [s]kip  [q]uit "


def decay_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of decay."""
    parser.add_argument("--preview", action="store_true", help="only show it, which is the default")
    parser.add_argument("--days", type=whole(1, 3650), metavar="N", help="N days ahead (30)")


def decay(options: Namespace, terminal: Terminal) -> int:
    """Print the memories that would be archived."""
    answer = ask(terminal, "decay_preview", {"days": options.days}, timeout_s=None)
    terminal.report(answer, fading_in_words(answer, terminal.look))
    return 0


def restore_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of restore."""
    parser.add_argument(
        "node", metavar="NODE|FILE", help="the id of a memory that is archived, replaced or deleted; or a backup's path"
    )


def restore(options: Namespace, terminal: Terminal) -> int:
    """Bring an archived or replaced memory back, or all of a backup where there is no memory."""
    if "/" in options.node or options.node.endswith(".tar.gz"):
        from .repair_commands import restore_from

        return restore_from(options.node, terminal)
    answer = ask(terminal, "restore", {"node_id": options.node})
    lines = [f"{clean(answer['node_id'])} is back. `dreamctl undo {answer['run_id']}` takes that back."]
    if other := answer["beside"]:
        lines += [f"{other}, which had taken its place, holds as well.", f"`dreamctl forget {other}` removes that one."]
    terminal.report(answer, lines)
    return 0


def review_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of review."""
    parser.add_argument("decision", nargs="?", help="the id of a decision or of a memory; by default all, in turn")
    parser.add_argument("--list", action="store_true", help="only list the open decisions, and all marks")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--keep", choices=("newer", "older", "both"), help="which memory holds; both: takes a mark back"
    )
    choice.add_argument("--edit", metavar="TEXT", help="the text that holds instead of both")
    choice.add_argument(
        "--accept", action="store_true", help="what an agent wrote down holds; write, or change, a file"
    )
    choice.add_argument("--reject", action="store_true", help="forget what an agent wrote down; leave the file")
    choice.add_argument("--share", metavar="NODE", help="share a memory with the colleagues of this folder's project")
    choice.add_argument("--unshare", metavar="NODE", help="withdraw it; clones that fetched it keep it")
    choice.add_argument("--shared", action="store_true", help="list what is shared here, yours and your colleagues'")
    parser.add_argument("--yes", action="store_true", help="share it without asking")
    parser.add_argument("--to", metavar="FOLDER", help="the folder of skills (.claude/skills of this project)")
    parser.add_argument("--by", metavar="NAME", help="the name of who decides (your login)")


def review(options: Namespace, terminal: Terminal) -> int:
    """List open decisions and marks, settle one, or ask about each decision."""
    if options.keep or options.edit or options.accept or options.reject:
        return _settle(options, terminal)
    if options.share or options.unshare or options.shared:
        return _share(options, terminal)
    answer = ask(terminal, "review_list")
    if options.decision or options.list or terminal.as_json:
        _ask_for_all_marks(answer, terminal)
    if options.decision:
        answer["decisions"], answer["marks"] = (
            [one for one in pairs if options.decision in _names(one)]
            for pairs in (answer["decisions"], answer["marks"])
        )
        for kind in ("waiting", "drafts"):
            answer[kind] = [one for one in answer[kind] if options.decision == one["node_id"]]
        answer["marks_total"] = len(answer["marks"])
        answer["files"] = [one for one in answer["files"] if options.decision in (one["proposal_id"], one["path"])]
    waits = _waits(answer)
    if terminal.as_json:
        terminal.document(answer)
    elif waits and not options.list and sys.stdin.isatty() and sys.stdout.isatty():
        return _walk(answer, options, terminal)
    else:
        terminal.lines(decisions_in_words(answer, terminal.look, len(answer["marks"]) if options.list else MARKS_SHOWN))
    return 4 if options.decision and not (waits or answer["marks"]) else 0


def _waits(answer: Json) -> bool:
    """Return True if something waits for a decision."""
    return any(answer[kind] for kind in ("decisions", "waiting", "drafts", "files"))


def _ask_for_all_marks(answer: Json, terminal: Terminal) -> None:
    while len(marks := answer["marks"]) < answer["marks_total"]:
        more = ask(terminal, "review_list", {"offset": len(marks)})
        # Some may be undone between two pages: the total is then never reached.
        if not more["marks"]:  # some were taken back meanwhile
            break
        marks += more["marks"]


def _settle(options: Namespace, terminal: Terminal) -> int:
    from .main import UsageError

    if not options.decision:
        raise UsageError("a choice needs a decision's id", "`dreamctl review --list` shows them")
    keep = next((name for name in ("edit", "accept", "reject") if getattr(options, name)), options.keep)
    answer = _decide(terminal, options.decision, keep, options, options.edit)
    terminal.report(answer, [*decided_in_words(answer), *changes_in_words(answer, terminal)])
    return 0


def _decide(terminal: Terminal, name: str, keep: str, options: Namespace, text: str | None = None) -> Json:
    to = _folder_of_skills(options.to) if keep == "accept" else None
    return ask(terminal, "review_decide", {"decision": name, "keep": keep, "by": options.by, "text": text, "to": to})


def _share(options: Namespace, terminal: Terminal) -> int:
    """List the shared memories, withdraw one, or show one and share it if its person says so."""
    if options.shared:
        answer = ask(terminal, "team_list")
        terminal.report(answer, team_in_words(answer, terminal.look))
        return 0
    if options.unshare:
        answer = ask(terminal, "team_unshare", {"name": options.unshare})
        terminal.report(answer, withdrawn_in_words(answer, terminal.look))
        return 0
    wanted = {"node_id": options.share}
    answer = ask(terminal, "team_share", wanted)
    is_new, is_asked = answer["memory"]["state"] == "shown", sys.stdin.isatty() and sys.stdout.isatty()
    if not is_new or not (options.yes or (is_asked and not terminal.as_json)):
        terminal.report(answer, sharing_in_words(answer, terminal.look))
        return 0
    if not options.yes:
        terminal.lines(sharing_in_words(answer, terminal.look, asks=True))
        if _choice(terminal, SHARE_PROMPT, SHARE_KEYS) != "yes":
            terminal.note("nothing was shared")
            return 0
    seen = {"seen": answer["memory"]["entry_id"], "place": answer["remote"]}
    answer = ask(terminal, "team_share", {**wanted, **seen})
    terminal.report(answer, sharing_in_words(answer, terminal.look))
    return 0


def _folder_of_skills(named: str | None) -> str:
    """Return the folder that was named, else that of the project that this folder is in."""
    if named is not None:
        return os.path.abspath(os.path.expanduser(named))  # noqa: PTH100, PTH111  (as the shell's folder is)
    here = os.getcwd()  # noqa: PTH109
    folder = here
    while not os.path.exists(os.path.join(folder, ".git")) and os.path.dirname(folder) != folder:  # noqa: PTH110, PTH118, PTH120
        folder = os.path.dirname(folder)  # noqa: PTH120
    is_project = os.path.dirname(folder) != folder  # noqa: PTH120
    return os.path.join(folder if is_project else here, ".claude", "skills")  # noqa: PTH118


def _walk(answer: Json, options: Namespace, terminal: Terminal) -> int:
    """Ask about one decision after the other; a skipped one stays open."""
    look = terminal.look
    asked: list[tuple[str, list[str], str]] = [
        *((one["node_id"], claim_in_words(one, look), "") for one in answer["waiting"]),
        *((one["proposal_id"], file_in_words(one, look), "") for one in answer["files"]),
        *((one["node_id"], draft_in_words(one, look), "") for one in answer["drafts"]),
        *((one["decision_id"], decision_in_words(one, look), one["newer"]["text"]) for one in answer["decisions"]),
    ]
    settled = 0
    for place, (name, lines, newer) in enumerate(asked, 1):
        title = f"Decision {place} of {len(asked)}"
        terminal.lines(["", look.paint(title, BOLD) + look.paint(f"  {name}", DIM), *lines])
        choice = _choice(terminal, PROMPT, KEYS) if newer else _choice(terminal, CLAIM_PROMPT, CLAIM_KEYS)
        if choice == "quit":
            break
        text = edited_text(newer, terminal) if choice == "edit" else None
        if choice == "skip" or (choice == "edit" and not text):
            terminal.note("left as it is")
            continue
        try:
            done = _decide(terminal, name, choice, options, text)
        except DaemonError as error:  # a file was edited meanwhile, or another client has decided
            terminal.warn(f"{error}; left as it is")
            continue
        changes = changes_in_words(done, terminal)
        terminal.lines([*(look.paint(line, GREEN) for line in decided_in_words(done)), *changes])
        settled += 1
    terminal.lines(["", f"{count(settled, 'decision')} made; {len(asked) - settled:,} still waiting."])
    terminal.lines(marks_in_words(answer, look) + leaks_in_words(answer["leaks"], look))
    return 0


def _choice(terminal: Terminal, prompt: str, keys: Mapping[str, str]) -> str:
    while True:
        try:
            typed = input(terminal.look.paint(prompt, BOLD)).strip().lower()
        except EOFError:
            return "quit"
        if (choice := keys.get(typed[:1])) and (not typed or choice.startswith(typed)):
            return choice
        terminal.note(f"{clean(typed)!r} is not one of these")


def fading_in_words(answer: Json, look: Look) -> list[str]:
    """List the memories that would fade, the soonest first."""
    fading, days = answer["fading"], answer["days"]
    if not fading:
        return look.wrap(f"Nothing would fade within {count(days, 'day')}.")
    many = count(answer["total"], "memory", "memories")
    head = f"{many} would fade within {count(days, 'day')}, unless used or said again; at most "
    head += f"{answer['most_a_night']:,} a night. They stay as files, and `dreamctl restore NODE` brings them back."
    rows = [
        (
            each["node_id"],
            _in_days(each["fades_at"], look),
            f"{each['confidence']:.2f}",
            each["kind"],
            each["title"],
        )
        for each in fading[:MOST_SHOWN]
    ]
    lines = [*look.wrap(head), "", *table(rows, look, ("node", "fades", "now", "kind", "what"), right=(2,))]
    if answer["total"] > len(rows):
        lines.append(f"… and {answer['total'] - len(rows):,} more (--json has them)")
    return lines


def _in_days(instant: str | None, look: Look) -> str:
    at = when(instant)
    if at is None or at <= look.now:
        return "tonight"
    days = (at.date() - look.now.date()).days
    return "tonight" if days == 0 else f"in {count(days, 'day')}"


def decisions_in_words(answer: Json, look: Look, most_marks: int = MARKS_SHOWN) -> list[str]:
    """Describe the open decisions, claims of agents first, then the marks."""
    lines: list[str] = [] if _waits(answer) else ["No decision waits."]
    for one in answer["waiting"]:
        lines += [look.paint(one["node_id"], BOLD), *claim_in_words(one, look), ""]
    for one in answer["files"]:
        lines += [look.paint(one["proposal_id"], BOLD), *file_in_words(one, look), ""]
    if answer["waiting"] or answer["files"]:
        lines += [*look.wrap("Settle one with `dreamctl review ID --accept` or --reject."), ""]
    for draft in answer["drafts"]:
        lines += [look.paint(draft["node_id"], BOLD), *draft_in_words(draft, look), ""]
    if answer["drafts"]:
        lines += [*look.wrap("Write one with `dreamctl review ID --accept [--to FOLDER]`, or --reject it."), ""]
    for decision in answer["decisions"]:
        lines += [look.paint(decision["decision_id"], BOLD), *decision_in_words(decision, look), ""]
    if answer["decisions"]:
        if answer["total"] > len(answer["decisions"]):
            lines += [f"… and {answer['total'] - len(answer['decisions']):,} more after these.", ""]
        lines += look.wrap("Settle one with `dreamctl review ID --keep newer|older|both`, or --edit TEXT.")
    return lines + marks_in_words(answer, look, most_marks) + leaks_in_words(answer["leaks"], look)


def marks_in_words(answer: Json, look: Look, most: int = MARKS_SHOWN) -> list[str]:
    """Describe the pairs marked by dreams or `remember`, and how a mark is undone."""
    shown = answer["marks"][:most]
    if not shown:
        return []
    are = "statement is" if answer["marks_total"] == 1 else "statements are"
    head = f"{answer['marks_total']:,} {are} marked by dreams as changed, repeated or faded. "
    head += "`dreamctl review ID --keep both` takes a mark back: what it put away holds, and no dream marks it again. "
    head += "`--keep newer` confirms it."
    lines = ["", *look.wrap(head), ""]
    for mark in shown:
        lines += [look.paint(mark["decision_id"], BOLD), *decision_in_words(mark, look), ""]
    if left := answer["marks_total"] - len(shown):
        lines += [f"… and {left:,} more (`dreamctl review --list` has them)."]
    return lines


def claim_in_words(claim: Json, look: Look) -> list[str]:
    """Describe an agent's claim: its kind and place, and why it waits."""
    wanted = claim["kind"] + (", in every envelope" if claim["always"] else "")
    since = look.ago(claim["at"]) if claim["at"] else "undated"
    about = " · ".join(clean(part) for part in (since, claim["channel"], claim["agent"] or claim["author"]) if part)
    title = "OF A COLLEAGUE" if claim["author"] else "TO ACCEPT"
    lines = [f"  {look.paint(title, BOLD, YELLOW)}  {look.paint(about, DIM)}"]
    lines += look.wrap(claim["text"], "    ", 8)
    lines += [line for quote in claim["quotes"] for line in look.wrap(f"because {clean(quote)}", "      ", 8)]
    return [*lines, *look.wrap(clean(f"as {wanted}; waits, since {claim['because']}"), "      ")]


def sharing_in_words(answer: Json, look: Look, *, asks: bool = False) -> list[str]:
    """Describe the entry that leaves, or has left: the text, its evidence and its author."""
    memory, ref, remote = answer["memory"], clean(answer["ref"]), clean(answer["remote"])
    if memory["state"] == "shared":
        return look.wrap(f"It is shared: {remote} has it, from {ref}.")
    if memory["state"] == "released":
        goes = f"`dreamctl sync team` sends it to {remote}" if remote else NO_PLACE
        return look.wrap(f"It is released: it is in {ref}, and {goes}.")
    to = f"to all who can read {remote}" if remote else "to no place yet, as none is set"
    lines = look.wrap(f"This would leave, {to}, of the project {clean(answer['project'])}:")
    lines += shared_in_words(memory, look)
    more = [] if asks else look.wrap("Nothing was shared: say so at a terminal, or with --yes.")
    return [*lines, *look.wrap(f"It is written to {ref}, in plain text."), *more]


def withdrawn_in_words(answer: Json, look: Look) -> list[str]:
    """Name the places that have a withdrawn entry, which the next sync with each tells."""
    if not answer["memory"]["sent_to"]:
        return look.wrap("It is withdrawn before it left.")
    places = clean(listing(answer["memory"]["sent_to"]))
    return look.wrap(f"It is withdrawn here: `dreamctl sync team` with {places} tells that. {WITHDRAWN_THERE}")


def places_in_words(memory: Json) -> str:
    """Say of an entry of one's own where it was released to, and which of these have it."""
    waits = [place for place in memory["released_to"] if place not in memory["sent_to"]]
    sent = [f"sent to {listing(memory['sent_to'])}"] if memory["sent_to"] else []
    released = [f"released to {listing(waits)}, not sent yet"] if waits else []
    return "; ".join(["yours", *(sent + released or ["released to no place yet"])])


def shared_in_words(memory: Json, look: Look) -> list[str]:
    """Describe an entry of a team: its author, its words, and those on which it rests."""
    said_on = f", {memory['said_at'][:10]}" if memory["said_at"] else ""
    lines = ["", look.paint(clean(f"  {memory['author']}, as {memory['kind']}{said_on}"), DIM)]
    lines += look.wrap(clean(memory["text"]), "    ", 4)
    return lines + [line for quote in memory["quotes"] for line in look.wrap(f"because {clean(quote)}", "      ", 8)]


def team_in_words(answer: Json, look: Look) -> list[str]:
    """List the entries of a project's team, each with its state."""
    lines = look.wrap(f"Shared in {clean(answer['project'])}; you are {clean(answer['author'])}.")
    for memory in (*answer["mine"], *answer["colleagues"]):
        state = places_in_words(memory) if memory["state"] in ("released", "shared") else memory["state"]
        lines += ["", look.paint(memory["entry_id"][:8], BOLD) + look.paint(f"  {clean(state)}", DIM)]
        lines += shared_in_words(memory, look)[1:]
    return lines if len(lines) > 1 else [*lines, "Nothing is shared yet: `dreamctl review --share NODE` does."]


def file_in_words(proposal: Json, look: Look) -> list[str]:
    """Describe the change of a file: the statement that overtook its line, and the difference."""
    since = look.ago(proposal["said_at"]) if proposal["said_at"] else "undated"
    about = " · ".join((since, clean(proposal["channel"]), clean(proposal["because"])))
    lines = [f"  {look.paint('FILE', BOLD, YELLOW)}  {look.paint(about, DIM)}"]
    lines += look.wrap(f"“{clean(proposal['words'])}”", "    ", 6)
    return lines + [f"    {look.paint(clean(line), *_colours(line))}" for line in proposal["diff"].splitlines()]


def _colours(line: str) -> tuple[str, ...]:
    """Return the colours of a line of a unified diff."""
    if line.startswith(("---", "+++", "@@")):
        return (DIM,)
    return (RED,) if line.startswith("-") else (GREEN,) if line.startswith("+") else ()


def draft_in_words(draft: Json, look: Look) -> list[str]:
    """Describe a skill that may be written: its name, project and text."""
    about = " · ".join(clean(part) for part in (draft["name"], draft["channel"]))
    lines = [f"  {look.paint('SKILL', BOLD, YELLOW)}  {look.paint(about, DIM)}"]
    return lines + [line for part in draft["text"].splitlines() for line in look.wrap(part, "    ")]


def decision_in_words(decision: Json, look: Look) -> list[str]:
    """Describe both sides of a decision with their dates and sources."""
    lines = []
    for name, side in zip(SIDES[decision["mark"]], (decision["older"], decision["newer"]), strict=True):
        if not name:  # a mark of one memory alone
            continue
        since = look.ago(side["since"]) if side["since"] else "undated"
        about = " · ".join(clean(part) for part in (since, side["channel"], side["node_id"]))
        lines += [f"  {look.paint(name.upper(), BOLD, YELLOW)}  {look.paint(about, DIM)}"]
        lines += look.wrap(side["text"], "    ", 8)
        for turn in side["evidence"]:
            quote = f"{turn['role']} {look.ago(turn['at'])}: {turn['text']}"
            lines.append(look.paint("      " + clip(f"“{quote}”", look.width - 6), DIM))
    return lines


def leaks_in_words(leaks: list[Json], look: Look) -> list[str]:
    """List the person's own files that may hold a secret; they are reported, never changed."""
    if not leaks:
        return []
    lines = ["", look.paint(f"{count(len(leaks), 'file')} of yours may hold a secret:", YELLOW)]
    listed = [look.wrap(f"- {leak['path']}: {leak['kinds']}", "  ") for leak in leaks[:MOST_SHOWN]]
    return lines + [line for each in listed for line in each]


def decided_in_words(answer: Json) -> list[str]:
    """Describe a decision, and how to undo it."""
    if answer["paths"] and answer["paths"][0].endswith("SKILL.md"):
        return [f"{clean(answer['paths'][0])} is written. `dreamctl undo {answer['run_id']}` removes it."]
    return [f"{KEPT[answer['choice']]} `dreamctl undo {answer['run_id']}` takes that back."]


def _names(decision: Json) -> tuple[str, str, str]:
    return decision["decision_id"], decision["older"]["node_id"], decision["newer"]["node_id"]

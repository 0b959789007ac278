"""The commands that change memories: remember, forget, feedback, link, tag, import, learn."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ...ipc.client import ClientError
from ...ipc.protocol import KEPT_KINDS, Json
from ..formatting import Look, clean, clip, count, listing, sentence
from ..importing import FORMAT_NAMES
from .arguments import NODE_HELP, whole
from .request import ask, shown_progress, shown_whole
from .terminal import Terminal, edited_text

GLOBAL_CHANNEL = "_global"
KEPT = {
    "new": "Remembered as {node} in {channel}.",
    "known": "Known already, as {node} in {channel}; it counts as said again.",
    "again": "Known before, as {node} in {channel}, and replaced or faded since; it holds again.",
}
RELATIONS = ("RelatesTo", "Supersedes", "Contradicts")
VERDICTS = ("useful", "not-useful", "rejected")
MOST_SKIPPED, MOST_CHANGES, LONGEST_CHANGE = 10, 3, 120
MOST_LEARNED = 20
# Variables that agents set for the commands that they run; a person's own terminal has none of them.
AGENTS_SHELLS = {
    "CLAUDECODE": "claude-code",
    "CODEX_SANDBOX": "codex",
    "CODEX_THREAD_ID": "codex",
    "GEMINI_CLI": "gemini",
    "OPENCODE": "opencode",
    "CURSOR_AGENT": "cursor",
    "COPILOT_CLI": "copilot",
    "CLINE_ACTIVE": "cline",
    "QWEN_CODE": "qwen",
    "OPENCLAW_SHELL": "openclaw",
}

WAITS = (
    "It was written down by an agent, and may be from the web or a tool: it waits for `dreamctl review`, and is quoted "
    "until then as the agent's word."
)
# sysexits.h: a named path is missing or may not be read; or has no content to import
NO_INPUT, BAD_DATA = 66, 65


def remember_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of remember."""
    parser.add_argument("text", nargs="+", help="what to keep; - reads it from standard input")
    parser.add_argument("--kind", choices=KEPT_KINDS, help="its kind (note)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--channel",
        help="the channel, one for each project, by its name; a new name makes a new channel. By default that of this "
        "git repository",
    )
    where.add_argument("--global", action="store_true", dest="for_all", help="for all projects (the channel _global)")
    scopes = ("session", "project", "global")
    parser.add_argument("--scope", choices=scopes, help="session: read in that alone, and archived when it is over")
    parser.add_argument("--session", metavar="ID", help="the session in which it is said")
    parser.add_argument("--tag", action="append", help="a word to find it by; may be repeated")
    parser.add_argument("--always", action="store_true", help="have it in every envelope of the channel")
    parser.add_argument("--priority", type=whole(1, 10), metavar="1..10", help="its place among those (5)")


def remember(options: Namespace, terminal: Terminal) -> int:
    """Remember one memory."""
    from .main import UsageError

    text = _standard_input() if options.text == ["-"] else " ".join(options.text)
    if not text.strip():
        raise UsageError("there is nothing to keep: the text is empty", 'say it in words: `dreamctl remember "…"`')
    channel = GLOBAL_CHANNEL if options.for_all else options.channel
    params = {
        "text": text,
        "kind": options.kind,
        "channel": channel,
        "tags": options.tag,
        "scope": options.scope,
        **written_by(os.environ),
    }
    if options.session:
        params["session"] = options.session
    if options.always or options.priority:
        params |= {"always": True, "priority": options.priority}
    answer = ask(terminal, "remember", params)
    terminal.report(answer, remembered_in_words(answer, terminal.look))
    # A known memory has been linked before; only a new one may replace others.
    if answer["novelty"] == "new" and not terminal.as_json:
        # The memory is kept, even if the others cannot be shown.
        with suppress(ClientError):
            new = ask(terminal, "show", {"node_id": answer["node_id"], "linked": True})
            if changes := changes_in_words(new, terminal):
                terminal.lines(changes)
    return 0


def changes_in_words(new: Json, terminal: Terminal) -> list[str]:
    """Describe the memories that a new one replaces and disputes; nothing where the answer is printed as JSON."""
    lines: list[str] = []
    if terminal.as_json:
        return lines
    for does, others in (("replaces", new["supersedes"]), ("disputes", new["contradicts"])):
        for other in others[:MOST_CHANGES]:
            old = ask(terminal, "show", {"node_id": other})
            lines += terminal.look.wrap(f"It {does} {clean(other)}: {clean(clip(old['text'], LONGEST_CHANGE))}")
    return lines


def written_by(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the agent whose shell runs this command, and its session if known; nothing for a person."""
    agent = next((agent for mark, agent in AGENTS_SHELLS.items() if environ.get(mark)), "")
    session = environ.get("CLAUDE_CODE_SESSION_ID", "") if agent == "claude-code" else ""
    return {name: value for name, value in (("agent_id", agent), ("session", session)) if value}


def remembered_in_words(answer: Json, look: Look) -> list[str]:
    """Describe a kept memory: its place, whether it was known, and redacted secrets."""
    node, channel = answer["node_id"], clean(answer["channel"])
    for_all = ", for all projects" if answer["channel"] == GLOBAL_CHANNEL else ""
    lines = look.wrap(KEPT[answer["novelty"]].format(node=node, channel=channel + for_all))
    lines += look.wrap(WAITS) if answer["waits"] else []
    return lines + redacted_in_words(answer["redacted"], look)


def redacted_in_words(redacted: int, look: Look) -> list[str]:
    """Count the redacted secrets."""
    return (
        look.wrap(f"{count(redacted, 'secret')} {'was' if redacted == 1 else 'were'} not kept: [redacted].")
        if redacted
        else []
    )


def edit_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of edit."""
    parser.add_argument("node", help=NODE_HELP)
    parser.add_argument("--text", help="its new words; - reads them from standard input")
    parser.add_argument("--title", help="its new title")
    parser.add_argument("--kind", choices=KEPT_KINDS, help="its new kind")
    parser.add_argument("--tag", action="append", help="a tag, instead of those that it has; may be repeated")
    always = parser.add_mutually_exclusive_group()
    always.add_argument("--always", action="store_true", help="have it in every envelope of its channel")
    always.add_argument("--not-always", action="store_true", help="have it in every envelope no more")
    parser.add_argument("--priority", type=whole(1, 10), metavar="1..10", help="its place among those (5)")
    parser.epilog = "Without an option its text is opened in $VISUAL or $EDITOR; saved as it was, nothing changes."


def edit(options: Namespace, terminal: Terminal) -> int:
    """Change a memory by hand."""
    text = _standard_input() if options.text == "-" else options.text
    always = False if options.not_always else True if options.always or options.priority else None
    params = {"text": text, "title": options.title, "kind": options.kind, "tags": options.tag, "always": always}
    params |= {"node_id": options.node, "priority": options.priority, **written_by(os.environ)}
    if all(given is None for given in (text, options.title, options.kind, options.tag, always)):
        shown = shown_whole(options.node, terminal)
        params |= {"text": edited_text(shown["text"], terminal), "if_version": shown["version"]}
        if params["text"] is None:
            terminal.note(f"{options.node} is left as it is")
            return 0
    try:
        answer = ask(terminal, "edit", params)
    except ClientError:
        if options.text is None and params["text"]:
            terminal.warn(f"your text is kept in {_kept_aside(params['text'])}")
        raise
    node = clean(answer["node_id"])
    done = _done(f"{node} is changed" if answer["run_id"] else f"{node} is so", answer["run_id"])
    terminal.report(answer, [done, *redacted_in_words(answer["redacted"], terminal.look)])
    return 0


def _kept_aside(text: str) -> str:
    """Keep a text that could not be saved in a file of its own, and return its path."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="dreamctl-", suffix=".md", delete=False, encoding="utf-8") as file:
        file.write(f"{text}\n")
    return file.name


def forget_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of forget."""
    parser.add_argument("node", help=NODE_HELP)
    parser.add_argument("--reason", help="why, for the history")


def forget(options: Namespace, terminal: Terminal) -> int:
    """Forget one memory."""
    answer = ask(terminal, "forget", {"node_id": options.node, "reason": options.reason})
    terminal.report(answer, [f"Forgot {clean(answer['node_id'])}. `dreamctl undo {answer['run_id']}` brings it back."])
    return 0


def merge_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of merge."""
    parser.add_argument("node", help="the page that stays, as `dreamctl entities` prints it")
    parser.add_argument("other", help="the page of the same person or thing, which goes into it")


def merge(options: Namespace, terminal: Terminal) -> int:
    """Make one page of two."""
    return _named(ask(terminal, "entity_merge", {"node_id": options.node, "other": options.other}), terminal)


def split_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of split."""
    parser.add_argument("node", help="the page of a person or thing, as `dreamctl entities` prints it")
    parser.add_argument("names", nargs="+", metavar="NAME", help="a name that is another's")


def split(options: Namespace, terminal: Terminal) -> int:
    """Give some names of a page their own."""
    return _named(ask(terminal, "entity_split", {"node_id": options.node, "names": options.names}), terminal)


def deny_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of deny."""
    parser.add_argument("name", help="the name of a person or thing, or the id of its page (`dreamctl entities`)")
    parser.add_argument("relation", nargs="+", help="the relation that is not so, as `dreamctl about` says it")
    parser.add_argument("--channel", help="where to look the name up; by default this folder's, '*' for all")
    parser.epilog = 'Example: `dreamctl deny Ana "Ana owns billing"`. What is said later may state it again.'


def deny(options: Namespace, terminal: Terminal) -> int:
    """Take a relation off a page."""
    relation = " ".join(options.relation)
    answer = ask(terminal, "entity_deny", {"node_id": options.name, "relation": relation, "channel": options.channel})
    terminal.report(answer, [_done(f"It is not so that {clean(relation)}", answer["run_id"])])
    return 0


def _named(answer: Json, terminal: Terminal) -> int:
    also = f" (also {', '.join(map(clean, answer['aliases']))})" if answer["aliases"] else ""
    said = f"{answer['node_id']} is {clean(answer['name'])}{also}."
    terminal.report(answer, [f"{said} `dreamctl undo {answer['run_id']}` takes it back."])
    return 0


def feedback_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of feedback."""
    parser.add_argument("node", help=NODE_HELP)
    parser.add_argument("verdict", choices=VERDICTS, help="whether it helped, did not, or should not have been shown")


def feedback(options: Namespace, terminal: Terminal) -> int:
    """Record a verdict on a memory."""
    answer = ask(terminal, "feedback", {"node_id": options.node, "verdict": options.verdict})
    terminal.report(answer, [f"Noted: {clean(answer['node_id'])} was {options.verdict.replace('-', ' ')}."])
    return 0


def link_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of link."""
    parser.add_argument("node", help=NODE_HELP)
    parser.add_argument("other", help="the id of the other one")
    parser.add_argument("--relation", choices=RELATIONS, help="Supersedes: NODE takes the place of OTHER (RelatesTo)")


def link(options: Namespace, terminal: Terminal) -> int:
    """Link two memories."""
    answer = ask(terminal, "link", {"from": options.node, "to": options.other, "relation": options.relation})
    linked = f"{clean(answer['source'])} {answer['relation']} {clean(answer['target'])}"
    terminal.report(answer, [_done(linked, answer["run_id"])])
    return 0


def tag_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of tag."""
    parser.add_argument("node", help=NODE_HELP)
    parser.add_argument("tags", nargs="*", metavar="TAG", help="tags to add")
    parser.add_argument("--remove", action="append", metavar="TAG", help="a tag to take away; may be repeated")


def tag(options: Namespace, terminal: Terminal) -> int:
    """Change the tags of a memory."""
    params = {"node_id": options.node, "add": options.tags or None, "remove": options.remove}
    answer = ask(terminal, "tag", params)
    tags = " ".join(f"#{clean(tag)}" for tag in answer["tags"]) or "no tags"
    terminal.report(answer, [_done(f"{clean(answer['node_id'])} has {tags}", answer["run_id"])])
    return 0


def _done(sentence: str, run_id: str | None) -> str:
    return f"{sentence}. `dreamctl undo {run_id}` takes it back." if run_id else f"{sentence} already."


FORMS = ("okf", "ocf", "jsonl", "handover")
"""The forms of an export; the name of its file says which, where none is named."""


def export_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of export."""
    parser.add_argument("path", metavar="FILE", help="a new file: NAME.tar.gz, NAME.ocf, NAME.jsonl, NAME.md or .html")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=FORMS, help="okf: a bundle of files; ocf: a committed state (docs/importing.md)"
    )
    form.add_argument("--handover", action="store_true", help="a project's rules, decisions, people, pitfalls, threads")
    form.add_argument("--jsonl", action="store_true", help="a JSON object a line (guessed from NAME.jsonl)")
    parser.add_argument("--channel", help="only this project's memories (a handover: this folder's project)")
    parser.add_argument("--sessions", action="store_true", help="the sessions too, word for word")


def export(options: Namespace, terminal: Terminal) -> int:
    """Write memories into a file for another program, or another person."""
    path = os.path.abspath(os.path.expanduser(options.path))  # noqa: PTH100, PTH111  (as the shell's folder is)
    is_page = options.handover or path.endswith((".md", ".html", ".htm"))
    by_name = next((form for form in FORMS if path.endswith(f".{form}")), "okf")
    form = options.format or ("handover" if is_page else "jsonl" if options.jsonl else by_name)
    channel = options.channel
    if form == "handover" and channel is None:
        channel = ask(terminal, "brief")["channel"]
    params = {"path": path, "form": form, "channel": channel, "sessions": options.sessions or None}
    with shown_progress(terminal, "Exporting") as on_progress:
        answer = ask(terminal, "export", params, on_progress, timeout_s=None)
    held = ("line", "") if form == "handover" else ("memory", "memories")
    of = f" of {clean(answer['channel'])}" if answer["channel"] else ""
    masked = f" {count(answer['redacted'], 'secret')} masked." if answer["redacted"] else ""
    text = f"{clean(answer['path'])} holds {count(answer['memories'], *held)}{of}.{masked}"
    terminal.report(answer, terminal.look.wrap(text))
    return 0


class _Formats(tuple[str, ...]):
    """The names of our own formats; one of an extension's (`EXTENSION.NAME`) is for the daemon to know."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or "." in str(name)


def import_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of import."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders")
    parser.add_argument("--format", choices=_Formats(FORMAT_NAMES), help="their format; detected by default")
    parser.add_argument("--channel", help="the channel (a project's memories) for all of it")
    parser.add_argument(
        "--trust-frontmatter", action="store_true", help="let notes choose their channel and kind themselves"
    )
    parser.epilog = (
        "Exit codes: 0 taken, or known already; 66 a path is not there or may not be read; 65 a path holds nothing "
        "that can be imported. The other paths are imported all the same; lines and files skipped within "
        "a folder are listed, and are no failure."
    )


def import_(options: Namespace, terminal: Terminal) -> int:
    """Import transcripts, data sets or notes."""
    params = {
        "paths": [str(Path(path).expanduser().absolute()) for path in options.paths],
        "format": options.format,
        "channel": options.channel,
        "trust_frontmatter": options.trust_frontmatter or None,
    }
    with shown_progress(terminal, "Importing") as on_progress:
        answer = ask(terminal, "import", params, on_progress, timeout_s=None)
    terminal.report(answer, import_in_words(answer, terminal.look))
    return import_code(answer)


def learn_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of learn."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="notes (text, markdown), a folder of them, or chats")
    parser.add_argument("--format", choices=_Formats(FORMAT_NAMES), help="their format; detected by default")
    parser.add_argument("--channel", help="the channel (a project's memories) for all of it; notes have their folder's")
    parser.add_argument("--all", action="store_true", help="list each fact and each passage (200 of each)")
    parser.epilog = (
        "A day at the start of a line, in a heading, a file's name or its frontmatter is the day of its facts. "
        "`dreamctl undo RUN` takes the facts back. What was read stays as if imported, and is found word for word; "
        "`dreamctl purge` erases it. Pages and episodes follow in the next dream. Exit codes as of import."
    )


def learn(options: Namespace, terminal: Terminal) -> int:
    """Have the facts of files at once."""
    paths = [str(Path(path).expanduser().absolute()) for path in options.paths]
    agent = written_by(os.environ).get("agent_id")
    params = {"paths": paths, "format": options.format, "channel": options.channel, "agent_id": agent}
    with shown_progress(terminal, "Learning") as on_progress:
        answer = ask(terminal, "learn", params, on_progress, timeout_s=None)
    most = len(answer["kept"]) + len(answer["left"]) if options.all else MOST_LEARNED
    terminal.report(answer, learned_in_words(answer, terminal.look, most))
    if answer["state"] in ("failed", "cancelled", "preempted", "undone"):
        return 1
    return import_code({**answer, "notes": 0, "notes_known": 0})


def learned_in_words(answer: Json, look: Look, most: int) -> list[str]:
    """List the new and known facts, and the passages without one by their reasons."""
    kept, known, left = answer["kept_total"], answer["known_total"], answer["left_total"]
    lines = look.wrap(_learned(answer))
    lines += _dated(answer["kept"], kept, look, most)
    if answer["changed"]:
        lines += look.wrap(
            f"They changed {count(answer['changed'], 'older fact')}: `dreamctl runs {answer['run_id']}`."
        )
    if known:
        lines += look.wrap(f"{count(known, 'fact')} {'was' if known == 1 else 'were'} known already, and said again:")
        lines += _dated(answer["known"], known, look, most)
    for reason in dict.fromkeys(piece["reason"] for piece in answer["left"]):
        pieces = [piece for piece in answer["left"] if piece["reason"] == reason]
        number = left - len(answer["left"]) + len(pieces) if len(pieces) == len(answer["left"]) else len(pieces)
        lines += look.wrap(f"No fact was made of {count(number, 'passage')}: {reason}.")
        lines += _dated(pieces, number, look, most)
    if left:
        lines += look.wrap("`dreamctl remember TEXT` keeps one of them all the same.")
    lines += redacted_in_words(answer["redacted"], look)
    for remark in (*answer["remarks"], *([sentence(answer["note"])] if answer["note"] else [])):
        lines += look.wrap(remark)
    return lines + _left_out(answer, look)


def _learned(answer: Json) -> str:
    run, kept = answer["run_id"], answer["kept_total"]
    if not answer["turns"]:
        return "Nothing was found to learn from."
    if run is None:
        return f"Nothing is new: {count(answer['turns'], 'passage')} of it were read before, and nothing was changed."
    if answer["state"] in ("failed", "cancelled", "preempted", "undone"):
        return f"The run {run} is {answer['state']}; nothing was changed. What it reads is imported: learn it again."
    of = f" in {listing(answer['channels'])}" if answer["channels"] else ""
    said = f"Kept {count(kept, 'fact')}{of} of {count(answer['turns'] - answer['read_before'], 'new passage')}"
    return f"{said}. `dreamctl undo {run}` takes {'it' if kept == 1 else 'them'} back." if kept else f"{said}."


def _dated(pieces: list[Json], total: int, look: Look, most: int) -> list[str]:
    lines = []
    for piece in pieces[:most]:
        at = f"{piece['at'][:10]} " if piece["at"] else ""
        text = clean(clip(" ".join(piece["text"].split()), LONGEST_CHANGE))
        lines += look.wrap(f"- {at}{text} ({clean(piece['node_id'])})", "  ")
    return [*lines, f"  … and {total - most:,} more (--all, --json)"] if total > most else lines


def import_code(answer: Json) -> int:
    """Return 0 if every named path had content to import."""
    refusals = {piece["refused"] for piece in answer["skipped"]}
    if "unreadable" in refusals:
        return NO_INPUT
    nothing = not answer["sessions"] and not answer["notes"] and not answer["notes_known"]
    return BAD_DATA if nothing or "unsupported" in refusals else 0


def import_in_words(answer: Json, look: Look) -> list[str]:
    """Count the imported, known and skipped parts, with the reasons."""
    lines = look.wrap(_taken(answer))
    if channels := answer["channels"]:
        lines += look.wrap(f"{'Channel' if len(channels) == 1 else 'Channels'}: {listing(channels)}.")
    lines += redacted_in_words(answer["redacted"], look)
    if left_out := answer["contents_left_out"]:
        times = "once" if left_out == 1 else f"{left_out:,} times"
        lines += look.wrap(f"The contents of ignored files were left out {times} (.gitignore, .secretsignore).")
    for remark in answer["remarks"]:
        lines += look.wrap(remark)
    return lines + _left_out(answer, look)


def _left_out(answer: Json, look: Look) -> list[str]:
    """Name the paths that were refused, and the parts that were passed over."""
    lines: list[str] = []
    skipped = answer["skipped"]
    refused = [piece for piece in skipped if piece["refused"]]
    for piece in refused:
        lines += look.wrap(sentence(piece["reason"]))
    lines += [line for hint in dict.fromkeys(piece["hint"] for piece in refused) for line in look.wrap(hint)]
    return lines + _passed_over(skipped[len(refused) :], answer["skipped_total"] - len(refused), look)


def _taken(answer: Json) -> str:
    added, purged = answer["turns_added"], answer["turns_purged"]
    known = answer["turns_known"] - purged
    parts = [f"{count(added, 'new turn')} from {count(answer['sessions'], 'session')}"] if answer["sessions"] else []
    parts += [count(answer["notes"], "note")] if answer["notes"] else []
    taken = f"Took {listing(parts)}" if parts else "Nothing was taken"
    for number, noun in ((known, "turn"), (answer["notes_known"], "note")):
        if number:
            taken += f"; {count(number, noun)} {'was' if number == 1 else 'were'} known already"
    if purged:
        taken += f"; {count(purged, 'turn')} that {'was' if purged == 1 else 'were'} purged stay away"
    return taken + "."


def _passed_over(skipped: list[Json], total: int, look: Look) -> list[str]:
    if not skipped:
        return []
    lines = [f"Passed over {count(total, 'piece')} that could not be read:"]
    for piece in skipped[:MOST_SKIPPED]:
        line = f", line {piece['line']}" if piece["line"] else ""
        lines += look.wrap(f"- {Path(piece['path']).name}{line}: {piece['reason']}", "  ")
    if total > MOST_SKIPPED:
        lines.append(f"  … and {total - MOST_SKIPPED:,} more (--json has them)")
    return lines


def _standard_input() -> str:
    if sys.stdin.isatty():
        print("Write what to keep; Ctrl-D ends it.", file=sys.stderr)
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip()

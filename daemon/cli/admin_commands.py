"""The commands that show and control the daemon: status, told, pause, resume, channel, sync, stop, version."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...ipc.client import Unreachable
from ...ipc.socket_path import default_socket_path
from ..formatting import BOLD, DIM, YELLOW, Look, clean, clip, count, duration, listing, pairs, sentence, when
from .arguments import whole
from .request import ask
from .terminal import Terminal
from .watch_commands import STATUS_TIMEOUT_S, progress_in_words

if TYPE_CHECKING:
    from ...ipc.protocol import Json

LEVEL_NOUNS = {"L0": "session", "L1": "fact", "L2": "scenario", "L3": "profile"}
MOST_CHANNELS = 4
MOST_ANSWERED = 3
TIMES = {1: "once", 2: "twice"}
STOP_TIMEOUT_S = 30.0
USAGE, NOTHING_FOUND = 2, 4
BECAME = {"used": "used", "useful": "useful", "not_useful": "not useful", "rejected": "wrong"}
LOST = {
    "late": "too late",
    "no daemon": "dreamd was away, and did not hear it",
    "not delivered": "dreamd was too busy, and did not hear it",
    "failed": "failed",
}
# Of a prompt, what became of its own words.
_UNHEARD = "it is not sent again, and is kept only if the program's transcript or the hook of the answer has it"
KEPT_PROMPT = {
    "late": "the prompt is kept, and what belongs to it comes with the next one on the same topic",
    "no daemon": _UNHEARD,
    "not delivered": _UNHEARD,
}
# Moments as a person knows them; those of a program's tools keep their names.
MOMENTS = {"start": "at the start", "prompt": "at a prompt", "before": "before an act", "after": "after a failure"}


def status(options: Namespace, terminal: Terminal) -> int:
    """Print the daemon's state."""
    answer = ask(terminal, "status", timeout_s=STATUS_TIMEOUT_S)
    terminal.report(answer, status_in_words(answer, terminal.look))
    return 0


def pause(options: Namespace, terminal: Terminal) -> int:
    """Pause learning."""
    return _done(terminal, ask(terminal, "pause"), "Learning is paused. Recall goes on; `dreamctl resume` ends it.")


def resume(options: Namespace, terminal: Terminal) -> int:
    """Resume learning."""
    return _done(terminal, ask(terminal, "resume"), "Learning goes on.")


def channel_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of channel."""
    parser.add_argument(
        "name", help="the channel (a project's memories), as recall prints it; the project's name is enough"
    )
    parser.add_argument("learning", choices=("on", "off"), help="on to learn from it, off not to")


def channel(options: Namespace, terminal: Terminal) -> int:
    """Switch learning in one channel."""
    answer = ask(terminal, "channel", {"name": options.name, "learning": options.learning == "on"})
    for note in answer["notes"]:
        terminal.warn(note)
    return _done(terminal, answer, f"Learning in {clean(answer['channel'])} is {options.learning}.")


def sync_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of sync."""
    parser.add_argument(
        "do", nargs="?", default="now", choices=("now", "init", "status", "off", "on", "channel", "team")
    )
    parser.add_argument(
        "what",
        nargs="?",
        help="of init the remote: a folder, or what git understands; a channel; of team a remote, or the path of "
        "a file with the DSN of a Postgres",
    )
    parser.add_argument("setting", nargs="?", choices=("off", "mine"), help="off: the channel stays on this machine")
    parser.add_argument("--key", metavar="FILE", help="the key that the first machine printed, on every other machine")
    parser.add_argument("--plain", action="store_true", help="do not encrypt: for a folder on your own disk")
    parser.add_argument("--adopt", action="store_true", help="of team: what the remote has under your name is yours")
    parser.add_argument(
        "--release", action="store_true", help="of team: what you shared for another place goes to this one too"
    )
    parser.add_argument(
        "--table", action="store_true", help="of team: only print the SQL by which an administrator makes the table"
    )
    parser.epilog = (
        "team exchanges what this folder's project shares (`dreamctl review --share`) with its remote, or with a "
        "Postgres: that of the file that `git config dreamd.team` names, unless one is named here. init REMOTE "
        "begins, and prints the key that your other machines need; without a word it syncs now. What one "
        "machine remembers, changes or forgets is so on all of them. docs/sync.md says how."
    )


def sync(options: Namespace, terminal: Terminal) -> int:
    """Keep the same memory on several machines."""
    if options.do == "init" and options.what:
        return _begin_sync(options, terminal)
    if options.do == "channel" and options.what and options.setting:
        answer = ask(terminal, "sync_set", {"channel": options.what, "setting": options.setting})
        stays = "stays on this machine" if options.setting == "off" else "goes to your other machines"
        return _done(terminal, answer, f"What is learned in {clean(answer['channel'])} {stays}.")
    if options.do in ("off", "on"):
        answer = ask(terminal, "sync_set", {"setting": "off" if options.do == "off" else "mine"})
        ends = "The sync is off; what came from elsewhere stays." if options.do == "off" else "The sync goes on."
        return _done(terminal, answer, ends)
    if options.do == "team":
        return _sync_team(options, terminal)
    if options.do == "status":
        answer = ask(terminal, "sync_status")
        terminal.report(answer, sync_status_in_words(answer, terminal.look))
        return 0
    if options.do != "now":
        terminal.fail(f"`dreamctl sync {options.do}` needs more words", "`dreamctl sync --help` lists them.")
        return USAGE
    answer = ask(terminal, "sync", timeout_s=None)
    terminal.report(answer, synced_in_words(answer, terminal.look))
    return 1 if answer["trouble"] else 0


def _sync_team(options: Namespace, terminal: Terminal) -> int:
    if options.table:
        from textwrap import dedent

        from ..sync.team import TABLE

        sql = f"{dedent(TABLE).strip()};"
        terminal.report({"sql": sql}, [sql])
        return 0
    is_path = (options.what or "").startswith(("/", ".", "~"))
    remote = str(Path(options.what).expanduser().absolute()) if is_path else options.what
    wanted = {"remote": remote, "adopt": options.adopt}
    answer = ask(terminal, "team_sync", wanted, timeout_s=None)
    if options.release and (left := [one["entry_id"] for one in answer["unreleased"]]):
        if not terminal.as_json:
            terminal.lines(
                [f"To {clean(answer['remote'])} go too:", *_named_in_words(answer["unreleased"], terminal.look)]
            )
        answer = ask(terminal, "team_sync", {**wanted, "release": left}, timeout_s=None)
    terminal.report(answer, team_synced_in_words(answer, terminal.look))
    return 0


def _begin_sync(options: Namespace, terminal: Terminal) -> int:
    is_folder = "://" not in options.what and ":" not in options.what.split("/", 1)[0]
    remote = str(Path(options.what).expanduser().absolute()) if is_folder else options.what
    key = str(Path(options.key).expanduser().absolute()) if options.key else None
    answer = ask(terminal, "sync_init", {"remote": remote, "key": key, "plain": options.plain}, timeout_s=None)
    terminal.report(answer, begun_in_words(answer, terminal.look, is_first=key is None))
    return 0


def begun_in_words(answer: Mapping[str, Any], look: Look, *, is_first: bool) -> list[str]:
    """Name the remote, and say how the key gets to the other machines."""
    others = f" It is shared with {clean(listing(answer['machines']))}." if answer["machines"] else ""
    lines = look.wrap(f"This machine syncs with {clean(answer['remote'])}.{others}")
    if answer["key"] and is_first:
        lines += look.wrap(
            "What leaves this machine is encrypted with this key. Whoever has it can read the memory, and without it "
            "nobody can, you included: keep a copy in your password manager."
        )
        lines += ["", f"  {answer['key']}", ""]
        lines += look.wrap(
            f"On each of your other machines put that line into a file, by hand or from {clean(answer['key_file'])}, "
            "and run `dreamctl sync init REMOTE --key FILE` there."
        )
    return lines


def synced_in_words(answer: Mapping[str, Any], look: Look) -> list[str]:
    """Describe one sync."""
    if answer["trouble"]:
        return look.wrap(f"{clean(answer['trouble'])} What changed here waits, and goes with the next sync.")
    came = f"{count(answer['changed'], 'change')} and {count(answer['turns'], 'turn')} came from other machines"
    went = f"{count(answer['written'], 'entry', 'entries')} went there"
    undo = f" `dreamctl undo {answer['run_id']}` takes the changes back." if answer["run_id"] else ""
    lines = look.wrap(f"Synced: {came}, {went}.{undo}")
    return lines + [line for note in answer["notes"] for line in look.wrap(sentence(note))]


def team_synced_in_words(answer: Mapping[str, Any], look: Look) -> list[str]:
    """Describe one exchange of a project's team with its remote."""
    went = "what you share is there" if answer["pushed"] else "nothing of yours was new"
    came = f"{count(answer['came'], 'memory', 'memories')} of colleagues came"
    came += f", {answer['went']} withdrawn" if answer["went"] else ""
    undo = f" `dreamctl undo {answer['run_id']}` takes that back." if answer["run_id"] else ""
    waits = " `dreamctl review` asks about each." if answer["came"] else ""
    lines = look.wrap(f"{clean(answer['remote'])}: {went}; {came}.{waits}{undo}")
    lines += [line for note in answer["notes"] for line in look.wrap(sentence(clean(note)))]
    if left := answer["unreleased"]:
        many, them = count(len(left), "entry", "entries"), "it" if len(left) == 1 else "them"
        head = f"{many} of yours stayed here, shared for another place than this one. The same command with --release "
        head += f"sends {them} there too, to all who can read that place:"
        lines += [*look.wrap(head), *_named_in_words(left, look)]
    return lines + [line for one in answer["refused"] for line in look.wrap(f"- not let in: {clean(one)}", "  ", 4)]


def _named_in_words(entries: Iterable[Mapping[str, Any]], look: Look) -> list[str]:
    return [line for one in entries for line in look.wrap(f"- {one['entry_id'][:8]} {clean(one['text'])}", "  ", 3)]


def sync_status_in_words(answer: Mapping[str, Any], look: Look) -> list[str]:
    """Describe the machines, the amount that waits, and all that could not be let in."""
    if answer["state"] == "off":
        return look.wrap("The sync is off. `dreamctl sync init REMOTE` begins it.")
    sealed = "encrypted" if answer["encrypted"] else "not encrypted"
    last = f"{when(answer['last_at']):%-d %b %Y %H:%M}" if answer["last_at"] else "not since the start"
    rows = [("remote", f"{answer['remote']}, {sealed}"), ("last sync", last)]
    if answer["trouble"]:
        rows.append(("trouble", f"{answer['trouble']} Since {when(answer['trouble_since']):%-d %b %H:%M}."))
    for one in answer["machines"]:
        seen = f"wrote last {when(one['last_at']):%-d %b %Y %H:%M}" if one["last_at"] else "wrote nothing yet"
        named = "this machine" if one["is_this"] else f"as {one['machine']}"
        rows.append((one["host"], f"{seen}, {named}"))
    waits = f"{count(answer['waiting_here'], 'memory', 'memories')} here, {answer['waiting_there']} from elsewhere"
    rows.append(("waiting", waits))
    rows += [("stays here", clean(listing(answer["off"])))] if answer["off"] else []
    if answer["unfetched"]:
        rows.append(("purges", f"not carried out yet by {listing(answer['unfetched'])}"))
    rows += [("not let in", f"{one['name']}: {one['reason']}") for one in answer["aside"]]
    return pairs([(clean(name), clean(text)) for name, text in rows], look)


def _extension_in_words(one: Json) -> str:
    troubles = [f"{one[what]} {what}" for what in ("failed", "slow", "dropped") if one[what]]
    return f"{one['name']} ({', '.join((one['package'], *troubles))})"


def stop(options: Namespace, terminal: Terminal) -> int:
    """Stop the daemon, and wait for its end."""
    # Asked first: after `stop` no one is left to ask for the pid.
    pid = ask(terminal, "hello", timeout_s=STATUS_TIMEOUT_S)["pid"]
    answer = ask(terminal, "stop")
    if not _wait_for_end(pid):
        terminal.warn(f"the daemon (pid {pid}) is still finishing")
        return 1
    return _done(terminal, answer, "The daemon has stopped.")


def version(options: Namespace, terminal: Terminal) -> int:
    """Print the versions of this program and of the daemon."""
    try:
        daemon: Json | None = ask(terminal, "hello", timeout_s=STATUS_TIMEOUT_S)
    except Unreachable:
        daemon = None
    if terminal.as_json:
        terminal.document({"version": __version__, "daemon": daemon, "socket": default_socket_path()})
    else:
        running = f"running as {daemon['version']}, pid {daemon['pid']}" if daemon else "not running"
        terminal.lines([f"dreamd {__version__} ({running})"])
    return 0


def status_in_words(answer: Json, look: Look) -> list[str]:
    """Describe the daemon's state in a few lines."""
    up = f", up {duration(answer['uptime_s'])}"
    lines = [look.paint(f"dreamd {answer['version']}", BOLD) + f" is running (pid {answer['pid']}{up}).", ""]
    rows = [
        ("vault", vault_in_words(answer)),
        ("memories", memories_in_words(answer)),
        ("channels", channels_in_words(answer)),
        ("searchable", searchable_in_words(answer)),
        ("server", server_in_words(answer.get("server"))),
        ("learning", learning_in_words(answer)),
        ("watching", progress_in_words(answer["transcripts"])),
        ("dreams", dreams_in_words(answer, look)),
        ("told", told_today_in_words(answer)),
        ("answered", answered_in_words(answer)),
        ("extensions", listing([_extension_in_words(one) for one in answer["extensions"]])),
    ]
    lines += pairs([row for row in rows if row[1]], look)
    if advice := answer["embedding"]["advice"]:
        lines += ["", *look.wrap(advice, "  ")]
    for problem in answer["problems"]:
        lines += ["", *(look.paint(line, YELLOW) for line in look.wrap(sentence(problem), "  "))]
    return lines


def vault_in_words(answer: Json) -> str:
    """Name the vault's folder, and the command that would lay it out anew."""
    return f"{answer['vault']}{'; flat: see `dreamctl migrate --dry-run`' if answer.get('layout') == 'flat' else ''}"


def memories_in_words(answer: Json) -> str:
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


def channels_in_words(answer: Json) -> str:
    """List the largest channels, with their number of memories and turns."""
    largest = sorted(answer["channels"].items(), key=lambda channel: -channel[1])
    return listing([f"{name} ({number:,})" for name, number in largest], MOST_CHANNELS) if largest else ""


def searchable_in_words(answer: Json) -> str:
    """Count the searchable chunks, and those not yet found by meaning."""
    if not answer["chunks"]:
        return ""
    if not answer["embedding"]["ready"]:
        return count(answer["chunks"], "chunk") + "; by words only until the embedding model is loaded"
    waiting, unread = answer["pending_embeddings"], answer["not_found_yet"]
    by_words = f"; {waiting:,} by words only, until embedded" if waiting else ""
    if answer["embedding"]["model"] == "none":
        by_words = '; by words only (store.backend = "files")'
    return count(answer["chunks"], "chunk") + by_words + (f"; {unread:,} changes not found yet" if unread else "")


def server_in_words(server: Json | None) -> str:
    """Describe the server of the index: `Postgres is catching up; 1,200 chunks to be sent; the index answers`."""
    if server is None:
        return ""
    name, problem = server["name"], server["problem"]
    away = problem if problem.startswith(name) else f"{name} is away: {problem}"
    words = {"in step": f"{name} answers", "catching up": f"{name} is catching up", "away": away}
    waiting = [f"{count(server['waiting'], 'chunk')} to be sent"] if server["waiting"] else []
    meanwhile = [*waiting, "the index answers meanwhile"] if server["state"] != "in step" else []
    return "; ".join([words[server["state"]], *meanwhile])


def learning_in_words(answer: Json) -> str:
    """Return whether learning is on, and the channels in which it is off."""
    if answer["paused"]:
        return "paused; `dreamctl resume` ends it"
    off = answer["channels_off"]
    return "on" if not off else f"on, but not in {listing(off)}"


def dreams_in_words(answer: Json, look: Look) -> str:
    """Describe the dream that runs, else the last and the next."""
    if running := answer["dream"]:
        far = f", {running['done']:,} of {running['total']:,}" if running["total"] else ""
        paused = f"; held back: {why}" if (why := running["paused"]) else ""
        return f"one is running: {running['stage'] or 'starting'}{far}{paused}"
    last, upcoming = answer["last_dream"], when(answer["next_dream"])
    parts = [f"last {look.ago(last)}" if last else "none yet"]
    if upcoming:
        parts.append(f"next {look.ago(answer['next_dream'])}" if upcoming > look.now else "one is due when it is quiet")
    return "; ".join(parts)


def told_today_in_words(answer: Json) -> str:
    """Count the texts of the last 24 hours; "" where no agent asked."""
    counts = answer["told"]
    asked = counts["texts"] or counts["lost_starts"] or counts["lost_prompts"]
    return f"in 24 hours {counts_in_words(counts).rstrip('.')}" if asked else ""


def answered_in_words(answer: Json) -> str:
    """Name the questions that were asked in vain and have an answer now; "" for none."""
    asked = [
        f"“{clip(one['text'], 80)}” (asked {TIMES.get(one['times']) or count(one['times'], 'time')})"
        for one in answer["answered"]
    ]
    return f"now, and in vain before: {listing(asked, MOST_ANSWERED)}" if asked else ""


def told_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of told."""
    parser.add_argument("--today", action="store_true", help="only since midnight")
    parser.add_argument("--session", help="only what this session's agent was told")
    parser.add_argument("--channel", help="only what was told in this channel, a project's name")
    parser.add_argument("--limit", type=whole(1, 1000), metavar="N", help="at most N texts (50)")


def told(options: Namespace, terminal: Terminal) -> int:
    """Print the texts that agents were handed, the newest first, and their outcomes."""
    params: dict[str, Any] = {name: getattr(options, name) for name in ("session", "channel", "limit")}
    if options.today:
        params["since"] = _midnight(time.time())
    answer = ask(terminal, "told", params)
    terminal.report(answer, [*told_in_words(answer, terminal.look)])
    return 0 if answer["texts"] else NOTHING_FOUND


def told_in_words(answer: Json, look: Look) -> Iterator[str]:
    """Describe each text under its time, agent and moment; then the counts."""
    for one in answer["texts"]:
        at = f"{datetime.fromisoformat(one['at']).astimezone():%-d %b %H:%M}"
        about = [clean(one["channel"]), f"session {clean(one['session_id'])}"]
        about += [count(one["tokens"], "token")] if one["tokens"] else []
        head = look.paint(f"{at} {clean(one['agent'])} {MOMENTS.get(one['moment'], clean(one['moment']))}", BOLD)
        yield head + look.paint(" · " + " · ".join(about), DIM)
        if one["lost"]:
            yield from (look.paint(line, YELLOW) for line in look.wrap(f"lost: {lost_in_words(one)}", "  "))
        for line in one["lines"]:
            became = f" [{BECAME[line['became']]}]" if line["became"] in BECAME else ""
            yield from look.wrap(line["text"] + became, "  ")
        yield ""
    yield from look.wrap(counts_in_words(answer["counts"]))


def lost_in_words(text: Json) -> str:
    """Say why a text did not come, and, of a prompt, whether its own words are kept."""
    why = LOST.get(text["lost"], clean(text["lost"]))
    kept = KEPT_PROMPT.get(text["lost"]) if text["moment"] == "prompt" else None
    return f"{why}; {kept}" if kept else why


def counts_in_words(counts: Json) -> str:
    """Count texts, sessions and losses in a sentence."""
    said = f"{count(counts['texts'], 'text')} to {count(counts['sessions'], 'session')}"
    behind = f" (the whole sessions behind them: {counts['cited']:,})" if counts.get("cited") else ""
    said += f", {count(counts['tokens'], 'token')}{behind}, {counts['used']} used" if counts["texts"] else ""
    lost = [
        f"{count(number, noun)} lost"
        for number, noun in ((counts["lost_starts"], "start"), (counts["lost_prompts"], "prompt"))
        if number
    ]
    return "; ".join([said, *lost]) + "."


def _midnight(now_s: float) -> str:
    """Return the last midnight of this machine's zone, in ISO 8601."""
    return datetime.fromtimestamp(now_s).astimezone().replace(hour=0, minute=0, second=0, microsecond=0).isoformat()


def _done(terminal: Terminal, answer: Mapping[str, object], words: str) -> int:
    terminal.report(answer, [words])
    return 0


def _wait_for_end(pid: int) -> bool:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not (ended := _has_ended(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return ended


def _has_ended(pid: int) -> bool:
    """Return True if there is no such process, or (Linux) one that its parent has not waited for yet."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  (pathlib costs more than the whole status)
            return stat.read().rpartition(b") ")[2].startswith(b"Z")
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return False

"""The commands for agent programs: connect, disconnect."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...ipc.client import ClientError
from ..agents.agent_connection import AgentConnection, ConnectError, FileEdit, Records, make_private
from ..agents.codex_trust import AppServer, CodexTrust, give_trust, trust_of
from ..agents.connection_check import CheckResult, check_results
from ..agents.hook_formats import FORMATS
from ..agents.programs import GENERIC, PROGRAMS, Program, UserEnvironment, found_here, own_command, plugin_files
from ..importing.following.followed_places import folder_of
from ..settings import SettingsError, load
from .formatting import count
from .terminal import Terminal
from .watch_commands import (
    ProgramSessions,
    Wish,
    can_be_followed,
    follow,
    follow_arguments,
    is_followed,
    unfollow,
    wish_of,
)


def connect_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of connect."""
    _common_arguments(parser, [*PROGRAMS, GENERIC])
    parser.add_argument("--check", action="store_true", help="change nothing; ask hooks, daemon and tools, and report")
    parser.add_argument("--trust", action="store_true", help="codex: have it trust our hooks, as /hooks there does")
    parser.add_argument("--plugin", type=Path, metavar="FOLDER", help="claude-code: write a plugin there, nothing else")
    follow_arguments(parser)


def disconnect_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of disconnect."""
    _common_arguments(parser, [*PROGRAMS])


def _common_arguments(parser: ArgumentParser, names: Sequence[str]) -> None:
    parser.add_argument("agent", choices=names, metavar="AGENT", help=", ".join(names))
    parser.add_argument(
        "--config-dir", type=Path, action="append", metavar="FOLDER", help="its settings' folder; may be given again"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def connect(options: Namespace, terminal: Terminal) -> int:
    """Put our hooks and our tools into a program's settings."""
    if options.agent == GENERIC:
        return _print_entry(terminal)
    if options.plugin is not None:
        return _write_plugin(options, terminal)
    connections = _connections(options)
    if options.check:
        return _check(connections, terminal)
    outcome = _change([(one, one.connecting()) for one in connections], options, terminal, "connected")
    followed = []
    if outcome.is_so:
        for one in connections:
            followed += _after(one, terminal, wish_of(options), trust=options.trust)
    return _report(outcome, terminal, followed)


def disconnect(options: Namespace, terminal: Terminal) -> int:
    """Take our hooks and our tools out again, give back what was there, and follow its sessions no more."""
    connections = _connections(options)
    outcome = _change([(one, one.disconnecting()) for one in connections], options, terminal, "disconnected")
    if outcome.is_so:
        for one in connections:
            for sessions in _sessions(one):
                unfollow(sessions, terminal)
    return _report(outcome, terminal, [])


def offer(terminal: Terminal) -> None:
    """Name the programs on this machine that are not connected yet, and connect those that a person says yes to."""
    for program in found_here(_places()):
        connection = _connection(program, None)
        try:
            edits = connection.connecting()
        except ConnectError as error:
            terminal.note(f"{program.title} cannot be connected: {error}")
            continue
        if not edits:
            continue
        if not sys.stdin.isatty() or terminal.as_json:
            terminal.note(f"{program.title} is here: `dreamctl connect {program.name}` lets it use this memory")
        elif _says_yes(f"Connect {program.title}, so that it uses this memory? ({_named(edits)})"):
            connection.apply(edits)
            terminal.lines([f"{program.title} is connected."])
            try:
                _after(connection, terminal, Wish(), trust=False)
            except ClientError as error:
                terminal.warn(f"{error} {error.hint}")


# ---- what is done


@dataclass(frozen=True, slots=True)
class ConnectOutcome:
    """The outcome of a plan. `is_so`: the program is now as it was asked for, whether or not a file had to change."""

    edits: Sequence[FileEdit]
    changed: bool = False
    is_so: bool = False


def _change(
    planned: Sequence[tuple[AgentConnection, Sequence[FileEdit]]], options: Namespace, terminal: Terminal, done: str
) -> ConnectOutcome:
    """Show the edits, ask, and carry them out."""
    edits = [edit for _, some in planned for edit in some]
    title = planned[0][0].program.title
    if not edits:
        return _said(terminal, f"{title} is {done} already.", ConnectOutcome(edits, is_so=not options.dry_run))
    if not terminal.as_json:
        terminal.lines(line for edit in edits for line in edit.diff().splitlines())
    if options.dry_run:
        return _said(terminal, "Nothing was changed.", ConnectOutcome(edits))
    if not options.yes:
        if not sys.stdin.isatty():
            raise ClientError("Nothing was changed: there is no terminal to ask at.", "Say --yes, or --dry-run.")
        if not _says_yes(f"Change {count(len(edits), 'file')}?"):
            return _said(terminal, "Nothing was changed.", ConnectOutcome(edits))
    try:
        for connection, some in planned:
            connection.apply(some)
    except ConnectError as error:
        raise ClientError(str(error), error.hint) from error
    return _said(terminal, f"{title} is {done}.", ConnectOutcome(edits, changed=True, is_so=True))


def _said(terminal: Terminal, sentence: str, outcome: ConnectOutcome) -> ConnectOutcome:
    if not terminal.as_json:
        terminal.lines([sentence])
    return outcome


def _report(outcome: ConnectOutcome, terminal: Terminal, followed: Sequence[Path]) -> int:
    """Print what was done as a document, for a program; a person has read it."""
    files = [str(edit.path) for edit in outcome.edits]
    answer = {"changed": outcome.changed, "files": files, "followed": [str(folder) for folder in followed]}
    if terminal.as_json:
        terminal.document(answer)
    return 0


def _after(connection: AgentConnection, terminal: Terminal, wish: Wish, *, trust: bool) -> list[Path]:
    """Say what a person still has to know, and what Codex trusts; return the folders of sessions that are followed."""
    for remark in connection.program.remarks:
        terminal.note(remark)
    if connection.program.name == "codex":
        say_trust(ask_trust(connection, give=trust), terminal)
    return [one.folder for one in _sessions(connection) if follow(one, wish, terminal, _says_yes)]


def _check(connections: Sequence[AgentConnection], terminal: Terminal) -> int:
    """Report what was found, and whether all of it is well."""
    found = []
    for connection in connections:
        name = connection.program.name
        found += list(check_results(connection, own_command(), list(FORMATS[name].moments)))
        if name == "codex":
            trust = ask_trust(connection, give=False)
            said = f"{trust.trusted} of {trust.hooks} hooks trusted" if trust else "`codex` was not found"
            found.append(CheckResult("trust", trust is not None and trust.is_whole, said, UNTRUSTED))
        found += [_followed(sessions, terminal) for sessions in _sessions(connection)]
    width = max(len(one.what) for one in found)
    lines = [
        f"{'ok  ' if one.ok else 'BAD '} {one.what.ljust(width)}  {one.seen}"
        + (f"\n{' ' * (width + 7)}{one.hint}" if one.hint and not one.ok else "")
        for one in found
    ]
    answer = {"findings": [{"what": one.what, "ok": one.ok, "seen": one.seen, "hint": one.hint} for one in found]}
    terminal.report(answer, lines)
    return 0 if all(one.ok for one in found) else 1


def _followed(sessions: ProgramSessions, terminal: Terminal) -> CheckResult:
    """Say whether sessions are followed; that they are not is a person's choice."""
    try:
        is_so = is_followed(sessions, terminal)
    except ClientError as error:
        return CheckResult("sessions", False, f"not known whether they are followed: {error}")
    return CheckResult("sessions", True, f"{'' if is_so else 'not '}followed: {sessions.folder}")


def _print_entry(terminal: Terminal) -> int:
    """Print the entry that most programs take, for one that is not known here."""
    entry = {"mcpServers": {"dreamd": own_command().server()}}
    terminal.report(entry, [json.dumps(entry, indent=2)])
    return 0


def _write_plugin(options: Namespace, terminal: Terminal) -> int:
    files = plugin_files(own_command())
    for name, content in files.items():
        file = options.plugin / name
        make_private(file.parent)
        file.write_text(content, encoding="utf-8")
    used = f"Use it with `claude --plugin-dir {options.plugin}`."
    terminal.report({"changed": True, "files": [str(options.plugin / name) for name in files]}, [used])
    return 0


# ---- what it is done to


def _connections(options: Namespace) -> list[AgentConnection]:
    program = PROGRAMS[options.agent]
    return [_connection(program, folder) for folder in options.config_dir or [None]]


def _connection(program: Program, folder: Path | None) -> AgentConnection:
    places = _places()
    where = program.folder(places) if folder is None else folder.expanduser().absolute()
    try:
        records = Records(load().data_dir / "connected")
    except SettingsError as error:
        raise ClientError(str(error), error.hint) from error
    return AgentConnection(program, where, places, own_command(), records)


def _sessions(connection: AgentConnection) -> list[ProgramSessions]:
    """Return where a program keeps its sessions, none for one that dreamd cannot read."""
    program = connection.program
    if not can_be_followed(program.name):
        return []
    return [ProgramSessions(program.name, program.title, folder_of(program.name, os.environ, connection.folder))]


def _places() -> UserEnvironment:
    return UserEnvironment(Path.home(), os.environ)


def _named(edits: Sequence[FileEdit]) -> str:
    return ", ".join(str(edit.path) for edit in edits)


def _says_yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


UNTRUSTED = "Codex runs none of them until you trust them: start `codex` and say /hooks, or connect again with --trust"


def say_trust(trust: CodexTrust | None, terminal: Terminal) -> None:
    """Print how many of our hooks Codex runs."""
    if trust is None:
        terminal.warn(f"`codex` was not found, so its trust could not be asked. {UNTRUSTED}")
        return
    said = f"{trust.trusted} of {trust.hooks} hooks are trusted"
    terminal.note(said) if trust.is_whole else terminal.warn(f"{said}. {UNTRUSTED}")


def ask_trust(connection: AgentConnection, *, give: bool) -> CodexTrust | None:
    """Return what Codex trusts, after giving it our hooks with `give`; None where `codex` is not to be found."""
    executable = shutil.which("codex")
    if executable is None:
        return None
    try:
        with AppServer(executable, connection.folder, os.environ) as server:
            if give:
                with connection.letting_it_write():
                    give_trust(server, connection.folder)
            return trust_of(server, connection.folder)
    except ConnectError as error:
        raise ClientError(f"The hooks are in place, and their trust is not known: {error}", error.hint) from error

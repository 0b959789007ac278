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
from ..agents.agent_connection import AgentConnection, ConnectError, FileEdit, OriginalContents, make_private
from ..agents.codex_trust import AppServer, CodexTrust, give_trust, trust_of
from ..agents.connection_check import CheckResult, check_results
from ..agents.instruction_files import PLACE_FOR_RULES
from ..agents.programs import (
    GENERIC,
    PROGRAMS,
    Program,
    UserEnvironment,
    own_command,
    plugin_files,
    programs_on_this_machine,
)
from ..formatting import count
from ..importing.following.followed_places import folder_of
from ..settings import SettingsError, load
from .terminal import Terminal
from .watch_commands import (
    FollowChoice,
    ProgramSessions,
    can_be_followed,
    follow,
    follow_arguments,
    follow_choice,
    is_followed,
    unfollow,
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
    """Add our hooks and tools to a program's settings."""
    if options.agent == GENERIC:
        return _print_entry(terminal)
    if options.plugin is not None:
        return _write_plugin(options, terminal)
    connections = _connections(options)
    if options.check:
        return _check(connections, terminal)
    outcome = _change([(one, one.connecting()) for one in connections], options, terminal, "connected")
    followed = []
    if outcome.is_done:
        terminal.note(f"rules for every program belong into {PLACE_FOR_RULES}; CLAUDE.md may import it (@AGENTS.md)")
        for one in connections:
            followed += _after(one, terminal, follow_choice(options), trust=options.trust)
    return _report(outcome, terminal, followed)


def disconnect(options: Namespace, terminal: Terminal) -> int:
    """Remove our hooks and tools, restore the earlier settings, and stop following the program's sessions."""
    connections = _connections(options)
    outcome = _change([(one, one.disconnecting()) for one in connections], options, terminal, "disconnected")
    if outcome.is_done:
        for one in connections:
            for sessions in _sessions(one):
                unfollow(sessions, terminal)
    return _report(outcome, terminal, [])


def offer(terminal: Terminal) -> None:
    """Offer to connect each program on this machine that is not connected yet."""
    for program in programs_on_this_machine(_places()):
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
                _after(connection, terminal, FollowChoice(), trust=False)
            except ClientError as error:
                terminal.warn(f"{error} {error.hint}")


# ---- steps


@dataclass(frozen=True, slots=True)
class ConnectOutcome:
    """The outcome of a plan. `is_done`: the program is in the requested state, whether or not a file had to change."""

    edits: Sequence[FileEdit]
    changed: bool = False
    is_done: bool = False


def _change(
    planned: Sequence[tuple[AgentConnection, Sequence[FileEdit]]], options: Namespace, terminal: Terminal, done: str
) -> ConnectOutcome:
    """Show the edits, ask, and apply them."""
    edits = [edit for _, some in planned for edit in some]
    title = planned[0][0].program.title
    if not edits:
        return _print_outcome(
            terminal, f"{title} is {done} already.", ConnectOutcome(edits, is_done=not options.dry_run)
        )
    if not terminal.as_json:
        terminal.lines(line for edit in edits for line in edit.diff().splitlines())
    if options.dry_run:
        return _print_outcome(terminal, "Nothing was changed.", ConnectOutcome(edits))
    if not options.yes:
        if not sys.stdin.isatty():
            raise ClientError("Nothing was changed: there is no terminal to ask at.", "Say --yes, or --dry-run.")
        if not _says_yes(f"Change {count(len(edits), 'file')}?"):
            return _print_outcome(terminal, "Nothing was changed.", ConnectOutcome(edits))
    try:
        for connection, some in planned:
            connection.apply(some)
    except ConnectError as error:
        raise ClientError(str(error), error.hint) from error
    return _print_outcome(terminal, f"{title} is {done}.", ConnectOutcome(edits, changed=True, is_done=True))


def _print_outcome(terminal: Terminal, sentence: str, outcome: ConnectOutcome) -> ConnectOutcome:
    if not terminal.as_json:
        terminal.lines([sentence])
    return outcome


def _report(outcome: ConnectOutcome, terminal: Terminal, followed: Sequence[Path]) -> int:
    """Print the outcome as a document, if that was asked for; a person has read it already."""
    files = [str(edit.path) for edit in outcome.edits]
    answer = {"changed": outcome.changed, "files": files, "followed": [str(folder) for folder in followed]}
    if terminal.as_json:
        terminal.document(answer)
    return 0


def _after(connection: AgentConnection, terminal: Terminal, choice: FollowChoice, *, trust: bool) -> list[Path]:
    """Print remarks, and Codex's trust; return the folders of sessions that are followed now."""
    for remark in connection.program.remarks:
        terminal.note(remark)
    if connection.program.name == "codex":
        print_trust(ask_trust(connection, give=trust), terminal)
    return [one.folder for one in _sessions(connection) if follow(one, choice, terminal, _says_yes)]


def _check(connections: Sequence[AgentConnection], terminal: Terminal) -> int:
    """Print the results of the checks; return 1 if one failed."""
    found = []
    for connection in connections:
        name = connection.program.name
        found += list(check_results(connection, own_command()))
        if name == "codex":
            trust = ask_trust(connection, give=False)
            seen = f"{trust.trusted} of {trust.hooks} hooks trusted" if trust else "`codex` was not found"
            found.append(CheckResult("trust", trust is not None and trust.is_whole, seen, UNTRUSTED))
        found += [_followed(sessions, terminal) for sessions in _sessions(connection)]
    # Aligned columns: mark, check, observation; a hint in a line of its own.
    width = max(len(one.check) for one in found)
    lines = [
        f"{'ok  ' if one.ok else 'BAD '} {one.check.ljust(width)}  {one.seen}"
        + (f"\n{' ' * (width + 7)}{one.hint}" if one.hint and not one.ok else "")
        for one in found
    ]
    answer = {"findings": [{"what": one.check, "ok": one.ok, "seen": one.seen, "hint": one.hint} for one in found]}
    terminal.report(answer, lines)
    return 0 if all(one.ok for one in found) else 1


def _followed(sessions: ProgramSessions, terminal: Terminal) -> CheckResult:
    """Return whether sessions are followed, as a passed check either way: it is the person's choice."""
    try:
        followed = is_followed(sessions, terminal)
    except ClientError as error:
        return CheckResult("sessions", False, f"not known whether they are followed: {error}")
    return CheckResult("sessions", True, f"{'' if followed else 'not '}followed: {sessions.folder}")


def _print_entry(terminal: Terminal) -> int:
    """Print the entry of our tools in the form of most programs, for an unknown one."""
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


# ---- the programs


def _connections(options: Namespace) -> list[AgentConnection]:
    program = PROGRAMS[options.agent]
    return [_connection(program, folder) for folder in options.config_dir or [None]]


def _connection(program: Program, folder: Path | None) -> AgentConnection:
    places = _places()
    where = program.folder(places) if folder is None else folder.expanduser().absolute()
    try:
        records = OriginalContents(load().data_dir / "connected")
    except SettingsError as error:
        raise ClientError(str(error), error.hint) from error
    return AgentConnection(program, where, places, own_command(), records)


def _sessions(connection: AgentConnection) -> list[ProgramSessions]:
    """Return the folder of a program's sessions, none for a program whose sessions cannot be read."""
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


def print_trust(trust: CodexTrust | None, terminal: Terminal) -> None:
    """Print the number of our hooks that Codex runs."""
    if trust is None:
        terminal.warn(f"`codex` was not found, so its trust could not be asked. {UNTRUSTED}")
        return
    amount = f"{trust.trusted} of {trust.hooks} hooks are trusted"
    terminal.note(amount) if trust.is_whole else terminal.warn(f"{amount}. {UNTRUSTED}")


def ask_trust(connection: AgentConnection, *, give: bool) -> CodexTrust | None:
    """Return Codex's trust in our hooks, with `give` after giving it; None if `codex` is not found."""
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

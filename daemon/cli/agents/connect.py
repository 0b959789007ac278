"""The commands for agent programs: connect, disconnect."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from ....ipc.client import ClientError
from ...agents.connect import claude_code
from ...agents.connect.agents import GENERIC, PROGRAMS, found_here, own_command
from ...agents.connect.check import Finding, findings
from ...agents.connect.connection import ConnectError, Connection, FileEdit, Records
from ...agents.connect.programs import Places, Program
from ...agents.connect.trust import AppServer, Trust, give_trust, trust_of
from ...agents.formats import FORMATS
from ...settings import SettingsError, load
from ..formatting import count
from ..terminal import Terminal

UNTRUSTED = "Codex runs none of them until you trust them: start `codex` and say /hooks, or connect again with --trust"


def connect_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of connect."""
    _common_arguments(parser, [*PROGRAMS, GENERIC])
    parser.add_argument("--check", action="store_true", help="change nothing; ask hooks, daemon and tools, and report")
    parser.add_argument("--trust", action="store_true", help="codex: have it trust our hooks, as /hooks there does")
    parser.add_argument("--plugin", type=Path, metavar="FOLDER", help="claude-code: write a plugin there, nothing else")


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
    code = _change([(one, one.connecting()) for one in connections], options, terminal, "connected")
    if code == 0 and not options.dry_run:
        for one in connections:
            _after(one, options, terminal)
    return code


def disconnect(options: Namespace, terminal: Terminal) -> int:
    """Take our hooks and our tools out again, and give back what was there."""
    return _change([(one, one.disconnecting()) for one in _connections(options)], options, terminal, "disconnected")


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


# ---- what is done


def _change(
    planned: Sequence[tuple[Connection, Sequence[FileEdit]]], options: Namespace, terminal: Terminal, done: str
) -> int:
    """Show the edits, ask, and carry them out."""
    edits = [edit for _, some in planned for edit in some]
    title = planned[0][0].program.title
    if not edits:
        return _report(terminal, f"{title} is {done} already.", edits, changed=False)
    if not terminal.as_json:
        terminal.lines(line for edit in edits for line in edit.diff().splitlines())
    if options.dry_run:
        return _report(terminal, "Nothing was changed.", edits, changed=False)
    if not options.yes:
        if not sys.stdin.isatty():
            raise ClientError("Nothing was changed: there is no terminal to ask at.", "Say --yes, or --dry-run.")
        if not _says_yes(f"Change {count(len(edits), 'file')}?"):
            return _report(terminal, "Nothing was changed.", edits, changed=False)
    try:
        for connection, some in planned:
            connection.apply(some)
    except ConnectError as error:
        raise ClientError(str(error), error.hint) from error
    return _report(terminal, f"{title} is {done}.", edits, changed=True)


def _report(terminal: Terminal, sentence: str, edits: Iterable[FileEdit], *, changed: bool) -> int:
    terminal.report({"changed": changed, "files": [str(edit.path) for edit in edits]}, [sentence])
    return 0


def _after(connection: Connection, options: Namespace, terminal: Terminal) -> None:
    """Say what a person still has to know, and what Codex trusts."""
    for remark in connection.program.remarks:
        terminal.note(remark)
    if connection.program.name == "codex":
        trust = _codex_trust(connection, give=options.trust)
        if trust is None:
            terminal.warn(f"`codex` was not found, so its trust could not be asked. {UNTRUSTED}")
        else:
            said = f"{trust.trusted} of {trust.hooks} hooks are trusted"
            terminal.note(said) if trust.is_whole else terminal.warn(f"{said}. {UNTRUSTED}")


def _codex_trust(connection: Connection, *, give: bool) -> Trust | None:
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


def _check(connections: Sequence[Connection], terminal: Terminal) -> int:
    """Report what was found, and whether all of it is well."""
    found = []
    for connection in connections:
        name = connection.program.name
        found += list(findings(connection, own_command(), list(FORMATS[name].moments)))
        if name == "codex":
            trust = _codex_trust(connection, give=False)
            said = f"{trust.trusted} of {trust.hooks} hooks trusted" if trust else "`codex` was not found"
            found.append(Finding("trust", trust is not None and trust.is_whole, said, UNTRUSTED))
    width = max(len(one.what) for one in found)
    lines = [
        f"{'ok  ' if one.ok else 'BAD '} {one.what.ljust(width)}  {one.seen}"
        + (f"\n{' ' * (width + 7)}{one.hint}" if one.hint and not one.ok else "")
        for one in found
    ]
    answer = {"findings": [{"what": one.what, "ok": one.ok, "seen": one.seen, "hint": one.hint} for one in found]}
    terminal.report(answer, lines)
    return 0 if all(one.ok for one in found) else 1


def _print_entry(terminal: Terminal) -> int:
    """Print the entry that most programs take, for one that is not known here."""
    entry = {"mcpServers": {"dreamd": own_command().server()}}
    terminal.report(entry, [json.dumps(entry, indent=2)])
    return 0


def _write_plugin(options: Namespace, terminal: Terminal) -> int:
    files = claude_code.plugin_files(own_command())
    for name, content in files.items():
        file = options.plugin / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    used = f"Use it with `claude --plugin-dir {options.plugin}`."
    terminal.report({"changed": True, "files": [str(options.plugin / name) for name in files]}, [used])
    return 0


# ---- what it is done to


def _connections(options: Namespace) -> list[Connection]:
    program = PROGRAMS[options.agent]
    return [_connection(program, folder) for folder in options.config_dir or [None]]


def _connection(program: Program, folder: Path | None) -> Connection:
    places = _places()
    where = program.folder(places) if folder is None else folder.expanduser().absolute()
    try:
        records = Records(load().data_dir / "connected")
    except SettingsError as error:
        raise ClientError(str(error), error.hint) from error
    return Connection(program, where, places, own_command(), records)


def _places() -> Places:
    return Places(Path.home(), os.environ)


def _named(edits: Sequence[FileEdit]) -> str:
    return ", ".join(str(edit.path) for edit in edits)


def _says_yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False

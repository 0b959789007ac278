"""The commands about the service and its health: install, uninstall, log, doctor, metrics; completion in shells."""

from __future__ import annotations

import os
import subprocess
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...ipc.client import ClientError
from .. import HintedError
from ..formatting import DIM, RED, YELLOW, Look, clean, count, sentence, table
from ..host import installed_service as service_host
from ..host.installed_service import Installed, InstallError
from .arguments import whole
from .connect_commands import offer
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.protocol import Json
    from ..host.installed_service import Service
    from ..methods.doctor import Finding

POLL_S = 0.25
WRONG = ("warning", "error")


def install(options: Namespace, terminal: Terminal) -> int:
    """Install the service, and offer to connect the agent programs on this machine."""
    code = _report(terminal, service_host.install, "Wrote")
    offer(terminal)  # also where it could not be installed: a daemon that is started by hand serves agents as well
    return code


def uninstall(options: Namespace, terminal: Terminal) -> int:
    """Remove the service; the vault stays."""
    return _report(terminal, service_host.uninstall, "Removed")


def _report(terminal: Terminal, act: Callable[[], Installed], did: str) -> int:
    try:
        done = act()
    except InstallError as error:
        terminal.fail(str(error), error.hint)
        return 1
    if terminal.as_json:
        terminal.document({"files": done.files, "notes": done.notes})
        return 0
    files = [f"{did} {count(len(done.files), 'file')}:", *(f"  {file}" for file in done.files)] if done.files else []
    terminal.lines([*files, *(sentence(note) for note in done.notes)])
    return 0


def doctor_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of doctor."""
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    parser.add_argument("--all", action="store_true", help="name the checks that found nothing, too")


def doctor(options: Namespace, terminal: Terminal) -> int:
    """Check everything that ever went wrong; return 1 if something is wrong still."""
    from ..clock import utc_now
    from ..methods.doctor import examine

    findings = list(examine(utc_now()))
    outcomes = _repaired(findings) if options.fix else {}
    answer = {
        "findings": [
            {
                **{name: getattr(one, name) for name in ("check", "severity", "found", "why", "remedy")},
                "repairable": one.repair is not None,
                **({"repair": outcomes[place]._asdict()} if place in outcomes else {}),
            }
            for place, one in enumerate(findings)
        ]
    }
    terminal.report(answer, doctor_in_words(answer, terminal.look, whole=options.all))
    wrong = [one for place, one in enumerate(findings) if one.severity in WRONG and not _is_done(outcomes, place)]
    return 1 if wrong else 0


class Repair(NamedTuple):
    """The outcome of a repair."""

    done: bool
    says: str


def _repaired(findings: Sequence[Finding]) -> dict[int, Repair]:
    """Carry out the repairs of warnings and errors; the daemon is started last, since some need it to be away."""
    outcomes = {}
    wanted = [place for place, one in enumerate(findings) if one.repair is not None and one.severity in WRONG]
    for place in sorted(wanted, key=lambda place: findings[place].check == "daemon"):
        repair = findings[place].repair
        assert repair is not None
        try:
            outcomes[place] = Repair(True, repair())
        except (ClientError, HintedError, OSError, subprocess.SubprocessError) as error:
            outcomes[place] = Repair(False, str(error))
    return outcomes


def _is_done(outcomes: Mapping[int, Repair], place: int) -> bool:
    return place in outcomes and outcomes[place].done


def doctor_in_words(answer: Json, look: Look, *, whole: bool = False) -> list[str]:
    """Describe each finding: the observation, its importance, and the remedy, or the outcome of the repair."""
    lines: list[str] = []
    passed, skipped = (
        [one["check"] for one in answer["findings"] if one["severity"] == severity] for severity in ("ok", "skipped")
    )
    for one in answer["findings"]:
        if one["severity"] in ("ok", "skipped"):
            continue
        colour = {"error": RED, "warning": YELLOW}.get(one["severity"], DIM)
        head, *rest = look.wrap(f"{one['severity']}: {one['check']}: {sentence(clean(one['found']))}")
        lines += [head.replace(one["severity"], look.paint(one["severity"], colour), 1), *rest]
        if one["why"]:
            lines += look.wrap(one["why"], "    ")
        if (repair := one.get("repair")) is not None:
            lines += look.wrap(f"{'Repaired' if repair['done'] else 'Not repaired'}: {clean(repair['says'])}.", "    ")
        elif one["remedy"]:
            by_fix = " (--fix does it)" if one["repairable"] and one["severity"] in WRONG else ""
            lines += look.wrap(f"To do: {clean(one['remedy'])}{by_fix}", "    ")
        elif one["repairable"]:
            lines += look.wrap("`dreamctl doctor --fix` repairs it.", "    ")
    if whole:
        lines += look.wrap(f"Nothing wrong: {', '.join(passed)}.")
    else:
        lines.append(f"{count(len(passed), 'other check' if lines else 'check')} found nothing wrong.")
    if skipped:
        lines += look.wrap(f"Not looked at, since no daemon answers: {', '.join(skipped)}.")
    return lines


def metrics(options: Namespace, terminal: Terminal) -> int:
    """Print the daemon's measures as Prometheus reads them."""
    from .request import ask

    answer = ask(terminal, "metrics")
    terminal.report(answer, answer["text"].splitlines())
    return 0


def prove_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of prove."""
    parser.add_argument("path", nargs="?", default="dreamd-proof.html", metavar="FILE", help="a new page, NAME.html")
    parser.add_argument("--days", type=whole(1, 30), default=30, metavar="N", help="the questions of N days (30)")


def prove(options: Namespace, terminal: Terminal) -> int:
    """Put a person's own questions again, and write the outcome as a page and a card."""
    from .request import ask, shown_progress

    params = {"path": str(Path(options.path).expanduser().absolute()), "days": options.days}
    with shown_progress(terminal, "Proving") as on_progress:
        answer = ask(terminal, "prove", params, on_progress, timeout_s=None)
    terminal.report(answer, proof_in_words(answer, terminal.look))
    return 0


def proof_in_words(answer: Json, look: Look) -> list[str]:
    """Give the figures of each, and their limits."""
    judged = max(answer["judged"], 1)
    rows = [
        (one["name"], f"{one['hits']}", f"{one['tokens'] / judged:,.0f}", f"{one['replaced']} of {one['lines']}")
        for one in answer["contestants"]
    ]
    known = (
        f"{count(answer['questions'], 'question')} of {answer['days']} days, {answer['judged']} with a known answer."
    )
    lines = look.wrap(known)
    if answer["judged"]:
        lines += table(rows, look, ("who", "carried", "tokens each", "lines replaced since"), (1, 2, 3))
    for note in answer["notes"]:
        lines += look.wrap(note, "  ")
    return [*lines, *look.wrap(f"The page is {clean(answer['path'])}, the card {clean(answer['card'])}.")]


def log_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of log."""
    parser.add_argument(
        "-n", "--lines", type=whole(0, 1_000_000), default=50, metavar="N", help="the last N lines (50)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow new lines until Ctrl-C")


def log(options: Namespace, terminal: Terminal) -> int:
    """Print the end of the log."""
    service = service_host.installed_service()
    source, lines = _source(service, options.lines, options.follow)
    if terminal.as_json and not options.follow:
        terminal.document({"source": source, "lines": [clean(line) for line in lines]})
        return 0
    for line in lines:
        terminal.report({"line": clean(line)}, [clean(line)])
        if options.follow:
            terminal.flush()
    if service is not None and service.failure:
        terminal.note(f"{service.manager} could not start it: {service.failure}")
    return 0


def _source(service: Service | None, lines: int, follow: bool) -> tuple[str, Iterator[str]]:
    """Return the log's name and its lines: the settings' file, the service's, or the journal. Raises ClientError."""
    for file in (_named_in_settings(), service.log_file if service else None):
        if file is not None and file.exists():
            return str(file), _of_file(file, lines, follow)
    if service is not None and (command := service_host.journal_command(lines, follow)):
        return "the journal", _of_command(command)
    raise ClientError(
        "dreamd keeps no log here: it writes to the terminal that it was started in",
        "to have a file, set log.file in dreamd.toml (DREAMD_LOG__FILE)",
    )


def _named_in_settings() -> Path | None:
    from ..settings import SettingsError, load

    try:
        file = load().log.file
    except SettingsError:
        return None
    return None if file is None else file.expanduser().absolute()


def _of_file(path: Path, lines: int, follow: bool) -> Iterator[str]:
    """Yield the last lines of a file, then, with `follow`, new ones, also of the file that replaces it by rotation."""
    file = path.open(encoding="utf-8", errors="replace")
    with file:
        yield from [line.rstrip("\n") for line in deque(file, lines)]
        while follow:
            if line := file.readline():
                yield line.rstrip("\n")
            # The log was rotated: the rest of the old file has been read, and the path is a new file.
            elif _is_another(path, file.fileno()):
                yield from _of_file(path, 2**20, follow)
                return
            else:
                time.sleep(POLL_S)


def _is_another(path: Path, descriptor: int) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _of_command(command: list[str]) -> Iterator[str]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        try:
            yield from (line.rstrip("\n") for line in process.stdout)
        finally:
            process.terminate()


# ---- completion and the man page

SHELLS = ("bash", "zsh", "fish")
CHANNELS = "dreamctl completion channels 2>/dev/null"
COMPLETED_WITHIN_S = 1.0


def completion_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of completion."""
    parser.add_argument(
        "what", choices=(*SHELLS, "man", "channels"), help="the shell; or the man page, or the channels' names"
    )
    parser.epilog = (
        'bash: eval "$(dreamctl completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit; '
        "fish: dreamctl completion fish > ~/.config/fish/completions/dreamctl.fish. "
        "man: dreamctl --man > ~/.local/share/man/man1/dreamctl.1"
    )


def completion(options: Namespace, terminal: Terminal) -> int:
    """Print a script for a shell, the man page, or the names of the channels."""
    if options.what == "channels":
        lines = _channel_names(terminal)
    elif options.what == "man":
        lines = man_page()
    else:
        import shtab

        lines = shtab.complete(whole_parser(), options.what).splitlines()
    terminal.report({"what": options.what, "text": "\n".join(lines)}, lines)
    return 0


def _channel_names(terminal: Terminal) -> list[str]:
    """Return the names of the channels; none without a daemon, since a shell asks at each press of a key."""
    from .request import ask

    try:
        return sorted(ask(terminal, "status", timeout_s=COMPLETED_WITHIN_S)["channels"])
    except ClientError:
        return []


def whole_parser() -> ArgumentParser:
    """Return one parser of all commands, whose channels are completed by their names."""
    import shtab

    from .main import COMMANDS, declare_arguments, summary_of

    parser = ArgumentParser(prog="dreamctl")
    commands = parser.add_subparsers(metavar="COMMAND")
    for command in COMMANDS:
        # argparse expands the help of a subparser, in which a percent sign would begin a field.
        sub = commands.add_parser(command, help=COMMANDS[command][1], description=summary_of(command))
        declare_arguments(command, sub)
        for action in sub._actions:
            if action.dest == "channel":
                action.complete = shtab.cmd(CHANNELS)  # type: ignore[attr-defined]
            elif action.dest in ("paths", "path", "file"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return parser


def man_page() -> list[str]:
    """Return the man page of all commands, as roff."""
    from ... import __version__
    from .main import COMMANDS, Parser, declare_arguments, summary_of

    lines = [
        f'.TH DREAMCTL 1 "" "dreamd {__version__}"',
        ".SH NAME",
        r"dreamctl \- use the memory that dreamd keeps",
        ".SH SYNOPSIS",
        r"\fBdreamctl\fR \fICOMMAND\fR …",
        ".SH COMMANDS",
    ]
    for command in COMMANDS:
        parser = Parser(prog=f"dreamctl {command}", allow_abbrev=False)
        declare_arguments(command, parser)
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        lines += [f'.SS "{_roff(command)}"', _roff(usage), ".PP", _roff(summary_of(command))]
        for action in parser._actions:
            if action.dest not in ("help", "json") and action.help:
                shown = action.metavar if isinstance(action.metavar, str) else action.dest
                value = f" {shown.upper()}" if action.option_strings and action.nargs != 0 else ""
                named = ", ".join(action.option_strings or [shown]) + value
                lines += [".TP", rf"\fB{_roff(named)}\fR", _roff(action.help)]
        lines += [".PP", _roff(" ".join(parser.epilog.split()))] if parser.epilog else []
    return [*lines, ".SH SEE ALSO", "README.md and docs/ of dreamd"]


def _roff(text: str) -> str:
    """Return a text in which roff sees no command of its own."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain

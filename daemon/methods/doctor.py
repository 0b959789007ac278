"""The doctor: each thing that ever went wrong is a check, with its finding, its meaning, and most often its repair.

A check is a row of `CHECKS`. It asks the daemon where there is one, and looks for itself where there is none. A repair
follows the remedy that a person is told; nothing is repaired by losing anything.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from ... import __version__
from ...ipc.call import Call, Method
from ...ipc.client import Absent, Client, ClientError
from ...ipc.params import Params
from ...ipc.socket_path import default_socket_path, too_long
from ...store import check_closed, noted_in_ledger, salvage_ledgers
from ..agents.agent_connection import AgentConnection, ConnectError, OriginalContents
from ..agents.programs import UserEnvironment, own_command, programs_on_this_machine
from ..clock import utc_now
from ..host import installed_service, settings_check
from ..host.lock import AlreadyRunning, DaemonLock
from ..settings import Settings, SettingsError, load, store_paths

Severity = Literal["ok", "skipped", "note", "warning", "error"]
"""`skipped`: it needs a daemon, and none answers."""

ANSWER_TIMEOUT_S: Final = 10.0
HELLO_TIMEOUT_S: Final = 4.0
CHECK_TIMEOUT_S: Final = 120.0
START_TIMEOUT_S: Final = 20.0
QUEUE_LOOK_S: Final = 2.0

LEAST_FREE, SCARCE_FREE = 200 * 2**20, 2 * 2**30
"""Free bytes below which writes may be refused soon, and below which a rebuild or a dream's copy may not fit."""

AHEAD: Final = timedelta(hours=1)
DREAMLESS: Final = timedelta(days=3)
BACKUP_AGE: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check: an observation, its importance, the remedy, and a repair that returns its outcome."""

    check: str
    severity: Severity
    found: str
    why: str = ""
    remedy: str = ""
    repair: Callable[[], str] | None = field(default=None, compare=False)


@dataclass(slots=True)
class Patient:
    """The installation that is looked at: its settings, and the daemon's own answers, None where it gave none.

    `checked` are the problems that its `check` has told.
    """

    environ: Mapping[str, str]
    now: datetime
    settings: Settings | None = None
    hello: dict[str, Any] | None = None
    silence: ClientError | None = None
    status: dict[str, Any] | None = None
    checked: list[str] = field(default_factory=list)

    @property
    def socket_path(self) -> str:
        """The path of the daemon's socket."""
        return default_socket_path(self.environ)

    def ask(self, method: str, timeout_s: float = ANSWER_TIMEOUT_S, **params: Any) -> dict[str, Any]:
        """Return the daemon's answer. Raises ClientError."""
        with Client(self.socket_path, timeout_s=timeout_s, name="dreamctl doctor") as client:
            return client.call(method, params)


class DoctorParams(Params):
    """`files`: look at every file of the vault too, which takes its time."""

    files: bool = True


@dataclass(frozen=True, slots=True)
class FindingAnswer:
    """The outcome of a check: an observation, its importance, its meaning, and the remedy, each "" for none."""

    check: str
    severity: Severity
    found: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DoctorAnswer:
    """The findings of the checks, in order; of one that found nothing there is one, `ok` or `skipped`."""

    findings: Sequence[FindingAnswer]


class DoctorMethods:
    """The method; it runs in a thread of long ones, and asks the daemon as any client does."""

    def doctor(self, params: DoctorParams, call: Call) -> DoctorAnswer:
        """Return the findings of every check; nothing is repaired."""
        found = examine(utc_now(), leaving_out=() if params.files else OF_FILES)
        return DoctorAnswer([FindingAnswer(one.check, one.severity, one.found, one.why, one.remedy) for one in found])


def examine(
    now: datetime, environ: Mapping[str, str] = os.environ, leaving_out: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield the findings of every check, in order; a check that fails is a finding itself."""
    patient = Patient(environ, now)
    for name, look in CHECKS:
        if name in leaving_out:
            continue
        found = False
        try:
            for finding in look(patient):
                found = True
                yield finding
        except Exception as error:  # one check must not cost the others
            found = True
            told = str(error) if isinstance(error, ClientError | OSError) else type(error).__name__
            yield Finding(name, "warning", f"it could not be looked at: {told}", "What is not looked at may be wrong.")
        if not found:
            yield Finding(name, "skipped" if name in OF_A_DAEMON and patient.status is None else "ok", "")


# ---- the installation


def _settings(patient: Patient) -> Iterator[Finding]:
    try:
        patient.settings = load()
    except SettingsError as error:
        yield Finding("settings", "error", str(error), "The daemon does not start with them.", error.hint)
        return
    for complaint in settings_check.complaints():
        exposed = re.search("`chmod 600 ([^`]+)`", complaint)
        repair = partial(_chmod, Path(exposed[1]), 0o600) if exposed else None
        yield Finding("settings", "warning", complaint, "The daemon does without it, or does not start.", repair=repair)


def _programs(patient: Patient) -> Iterator[Finding]:
    """Look for another dreamctl before ours on the path: hooks and a person would use two versions."""
    ours, first = Path(own_command(patient.environ).path), shutil.which("dreamctl", path=patient.environ.get("PATH"))
    if first and Path(first).resolve() != ours.resolve():
        why = "Commands and hooks may be of another version than the daemon."
        yield Finding("dreamctl", "note", f"`dreamctl` on your path is {first}, this one is {ours}", why)


def _daemon(patient: Patient) -> Iterator[Finding]:
    if complaint := too_long(patient.socket_path):
        why = "No daemon can listen there, and no program can reach it."
        yield Finding("daemon", "error", complaint, why, "set DREAMD_SOCKET to a shorter path")
        return
    try:
        patient.hello = patient.ask("hello", HELLO_TIMEOUT_S, client="doctor")
    except Absent as error:
        patient.silence = error
        yield Finding(
            "daemon",
            "error",
            str(error),
            "Nothing is remembered, and agents start without their memory.",
            error.hint or "run `dreamd`",
            partial(_start, patient),
        )
        return
    except ClientError as error:
        patient.silence = error
        why = "Agents go on without their memory; a full disk or a very busy machine may be the cause."
        # A service manager accepts for a daemon that it cannot start: once its unit is repaired, it can.
        repair = partial(_start, patient) if _is_installed(patient) else None
        found = f"it is there and does not answer: {error}"
        yield Finding("daemon", "error", found, why, "`dreamctl log`; restart it", repair)
        return
    if (theirs := patient.hello["version"]) != __version__:
        yield Finding(
            "daemon",
            "warning",
            f"the daemon is {theirs}, this is {__version__}",
            "New commands may not be understood, and mended faults are still there.",
            "`dreamctl stop`, then start it again",
            partial(_restart, patient),
        )


def _socket(patient: Patient) -> Iterator[Finding]:
    path = Path(patient.socket_path)
    folder = path.parent
    yield from _open_folder("socket", folder, "the socket's folder")
    if patient.hello is None and path.is_socket() and not _listens(path):
        yield Finding(
            "socket",
            "warning",
            f"{path} was left by a daemon that ended",
            "The next start replaces it; until then programs wait for nobody.",
            f"`rm {path}`",
            partial(_remove_socket, path),
        )


def _lock(patient: Patient) -> Iterator[Finding]:
    """Look for daemons that hold this data folder or vault, and listen elsewhere."""
    if patient.hello is not None or patient.settings is None or not patient.settings.data_dir.is_dir():
        return
    lock = DaemonLock(patient.settings.data_dir, patient.settings.vault)
    try:
        lock.acquire()
    except AlreadyRunning as error:
        why = "It listens at another socket than this command asks, so both wait for each other."
        remedy = f"start both with the same DREAMD_SOCKET and XDG_RUNTIME_DIR (here {patient.socket_path}), or end it"
        yield Finding("lock", "error", str(error), why, remedy)
    finally:
        lock.release()


def _service(patient: Patient) -> Iterator[Finding]:
    by_hand = "run `dreamd` when you log in, by your own means: its log goes to the terminal"
    why = "Without a service nobody starts the daemon after a login."
    if not installed_service.has_manager():
        yield Finding("service", "note", "no service manager answers here", why, by_hand)
        return
    service = installed_service.installed_service(patient.environ)
    if service is None:
        yield Finding("service", "note", "no service is installed", why, "`dreamctl install`", _install)
        return
    if stale := installed_service.stale_files(patient.environ):
        yield Finding(
            "service",
            "warning",
            f"{', '.join(map(str, stale))}: not as this installation writes it",
            "The next login starts another installation, or none.",
            "`dreamctl install`",
            _install,
        )
    if service.failure:
        found = f"it could not start: {service.failure}"
        yield Finding("service", "error", found, why, service.remedy, partial(_start, patient))
    if installed_service.lingers() is False:
        yield Finding(
            "service",
            "note",
            "it ends with your last session (no lingering)",
            "Dreams are for the night: on a machine that you log out of, there is no daemon to have them.",
            "`loginctl enable-linger`",
            partial(_command, "loginctl", "enable-linger"),
        )


# ---- the data


def _folders(patient: Patient) -> Iterator[Finding]:
    if (settings := patient.settings) is None:
        return
    for folder, title in ((settings.data_dir, "the data folder"), (settings.vault, "the vault")):
        yield from _open_folder("folders", folder, title)
    ledger = store_paths(settings).ledger
    if ledger.is_file() and stat.S_IMODE(ledger.stat().st_mode) & 0o077:
        why = "It holds questions and history."
        found = f"others may read {ledger}"
        yield Finding("folders", "warning", found, why, f"`chmod 600 {ledger}`", partial(_chmod, ledger, 0o600))


def _disk(patient: Patient) -> Iterator[Finding]:
    if (settings := patient.settings) is None:
        return
    seen: set[int] = set()
    for folder in (settings.data_dir, settings.vault):
        there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
        if (device := there.stat().st_dev) in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(there).free
        if free < SCARCE_FREE:
            severity: Severity = "error" if free < LEAST_FREE else "warning"
            why = "A full disk refuses writes; a dream and a rebuild need room for a copy."
            yield Finding("disk", severity, f"{free >> 20} MiB are free at {there}", why, "make room")


def _clock(patient: Patient) -> Iterator[Finding]:
    if patient.settings is None:
        return
    newest = noted_in_ledger(store_paths(patient.settings).ledger).newest_run
    if newest is not None and newest > patient.now.astimezone(UTC) + AHEAD:
        why = "What was learned then counts as newer than what is said now; dreams dated so are not counted."
        found = f"a run is dated {newest:%Y-%m-%d %H:%M}, which is in the future"
        yield Finding("clock", "warning", found, why, "set the clock; if it is right now, this passes with that date")


def _data(patient: Patient) -> Iterator[Finding]:
    """Report the problems of vault and databases: by the daemon, or without one by a look at the closed files."""
    if patient.hello is not None:
        answer = patient.ask("check", CHECK_TIMEOUT_S)
        for problem in answer["problems"]:
            place = f"{problem['path']}: " if problem["path"] else ""
            why = _WHY_DATA if problem["path"] and problem["severity"] != "note" else ""
            patient.checked.append(f"{place}{problem['problem']}")
            yield Finding("data", problem["severity"], patient.checked[-1], why)
        return
    if patient.settings is None or patient.silence is None or not isinstance(patient.silence, Absent):
        return
    paths = store_paths(patient.settings)
    if not patient.settings.data_dir.is_dir():
        yield Finding("data", "note", f"nothing was ever kept in {patient.settings.data_dir}")
        return
    lock = DaemonLock(patient.settings.data_dir, patient.settings.vault)
    try:
        lock.acquire()
    except AlreadyRunning:  # `lock` has said it
        return
    try:
        problems = list(check_closed(paths))
    finally:
        lock.release()
    for one in problems:
        repair = (
            partial(_salvage, patient.settings) if "salvage" in one.problem and "lies here" in one.problem else None
        )
        yield Finding("data", one.severity, f"{one.path}: {one.problem}", _WHY_DATA, repair=repair)


_WHY_DATA: Final = "It is what you must not lose, or what is found of it."


def _backups(patient: Patient) -> Iterator[Finding]:
    if patient.settings is None or not (ledger := store_paths(patient.settings).ledger).is_file():
        return
    backed_up = noted_in_ledger(ledger).backed_up
    remedy = "`dreamctl backup FOLDER`, best on another disk"
    if backed_up is None:
        yield Finding("backup", "note", "there was never a backup", "A disk that fails takes all of it.", remedy)
    elif patient.now.astimezone(UTC) - backed_up > BACKUP_AGE:
        found = f"the last backup is of {backed_up:%Y-%m-%d}"
        yield Finding("backup", "note", found, "A disk that fails takes what came since.", remedy)


# ---- the daemon's work


def _state(patient: Patient) -> Iterator[Finding]:
    """Report the problems of the daemon's own status, and queues that do not move."""
    if patient.hello is None:
        return
    status = patient.status = patient.ask("status")
    for problem in status["problems"]:
        if problem.removesuffix(".") not in patient.checked:
            yield Finding("status", "warning", problem)
    if status["paused"]:
        yield Finding("status", "warning", "learning is paused", "Nothing is remembered.", "`dreamctl resume`")
    waiting = {name: status[name] for name in ("pending_embeddings", "not_found_yet", "journal") if status[name]}
    if waiting:
        time.sleep(QUEUE_LOOK_S)
        later = patient.ask("status")
        for name, number in waiting.items():
            if later[name] >= number and name != "journal":
                why = "What waits is found by its words only, or not at all."
                yield Finding(
                    "queues", "note", f"{name}: {number} wait, and none less after 2 s", why, "`dreamctl log`"
                )


def _extensions(patient: Patient) -> Iterator[Finding]:
    """Name the extensions that are loaded, and those that cannot be, or fail."""
    for one in patient.status["extensions"] if patient.status is not None else ():
        named = f"{one['name']} ({one['package']} {one['version']})".replace(" )", ")")
        if one["problem"]:
            remedy = f"mend or remove {one['package']}, or add {one['name']} to store.extensions.off"
            yield Finding("extensions", "warning", f"{named}: {one['problem']}", "It adds nothing.", remedy)
            continue
        faults = ", ".join(f"{one[what]} {words}" for what, words in _FAULTS.items() if one[what])
        found = f"{named} is loaded: {', '.join(one['hooks']) or 'no hook'}" + (f"; calls: {faults}" if faults else "")
        why = "Answers and events go on without it meanwhile." if faults else ""
        yield Finding("extensions", "warning" if faults else "note", found, why, "`dreamctl log`" if faults else "")


def _model(patient: Patient) -> Iterator[Finding]:
    if patient.status is None or patient.settings is None:
        return
    embedding = patient.status["embedding"]
    if not embedding["ready"]:
        why = "Memories are found by their words only."
        yield Finding("model", "warning", f"{embedding['model']} is not loaded", why, "`dreamctl log` says why")
    wanted = patient.settings.store.embedding.model
    if wanted == "multilingual" and "minilm" in embedding["model"].lower():
        why = "The daemon started with other settings."
        found = f"the settings say {wanted}, the daemon uses {embedding['model']}"
        yield Finding("model", "warning", found, why, "restart it", partial(_restart, patient))
    if embedding["advice"]:
        yield Finding("model", "note", embedding["advice"])


def _dreams(patient: Patient) -> Iterator[Finding]:
    if (status := patient.status) is None or patient.settings is None:
        return
    if not patient.settings.pipelines.schedule.enabled:
        why = "Facts, pages and links come of dreams."
        yield Finding("dreams", "note", "no dream starts by itself (pipelines.schedule.enabled)", why)
        return
    runs = patient.ask("runs", limit=50)["runs"]
    failed = [run for run in runs if run["state"] == "failed"]
    last = status["last_dream"]
    if runs and len(failed) >= 3 and all(run["state"] == "failed" for run in runs[:3]):
        why = "Nothing is learned of what was said since."
        yield Finding("dreams", "error", "the last three dreams failed", why, "`dreamctl runs` and `dreamctl log`")
    if not status["turns"]:
        return
    since = None if last is None else patient.now.astimezone(UTC) - datetime.fromisoformat(last)
    up = timedelta(seconds=status["uptime_s"])
    if (since is None and up > DREAMLESS) or (since is not None and since > DREAMLESS):
        waits = status["waiting_for"] or "nothing that it names"
        found = f"{'none yet' if since is None else f'none for {since.days} days'}; the next waits for: {waits}"
        why = "What was said since is found word for word, and no facts or pages were drawn from it."
        remedy = "`dreamctl dream daily` has one now; pipelines.idle and pipelines.schedule say when one may come"
        yield Finding("dreams", "warning", found, why, remedy, partial(_dream, patient))


def _sessions(patient: Patient) -> Iterator[Finding]:
    if (status := patient.status) is None:
        return
    transcripts = status["transcripts"]
    for place in transcripts["places"]:
        if place["state"].startswith(("cannot", "not there")):
            why = "Sessions there are not read."
            yield Finding("sessions", "warning", f"{place['path']}: {place['state']}", why, "`dreamctl watch --help`")
    if backlog := transcripts["backlog"]:
        found = f"{backlog['files']} of {backlog['of']} older sessions are not read yet"
        yield Finding("sessions", "note", found, "They are taken in while it is quiet.")


def _connections(patient: Patient) -> Iterator[Finding]:
    if patient.settings is None:
        return
    places = UserEnvironment(Path(patient.environ.get("HOME") or Path.home()), patient.environ)
    command, records = own_command(patient.environ), OriginalContents(patient.settings.data_dir / "connected")
    for program in programs_on_this_machine(places):
        connection = AgentConnection(program, program.folder(places), places, command, records)
        name = f"connection of {program.name}"
        try:
            edits = connection.connecting()
            is_connected = bool(connection.disconnecting())
        except ConnectError as error:
            yield Finding(name, "warning", str(error), "Whether it is connected is not known.", error.hint)
            continue
        again = f"`dreamctl connect {program.name}`"
        if edits and is_connected:
            yield Finding(
                name,
                "warning",
                f"its hooks or tools are of another path, or gone: {', '.join(str(one.path) for one in edits)}",
                "Its sessions start without the memory, and leave nothing in it.",
                again,
                partial(_connect, connection),
            )
        elif edits:
            yield Finding(name, "note", f"{program.title} is here and not connected", "", again)
        else:
            yield Finding(name, "ok", "")


CHECKS: Final[tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...]] = (
    ("settings", _settings),
    ("dreamctl", _programs),
    ("daemon", _daemon),
    ("socket", _socket),
    ("lock", _lock),
    ("service", _service),
    ("folders", _folders),
    ("disk", _disk),
    ("clock", _clock),
    ("data", _data),
    ("backup", _backups),
    ("status", _state),
    ("extensions", _extensions),
    ("model", _model),
    ("dreams", _dreams),
    ("sessions", _sessions),
    ("connections", _connections),
)


_FAULTS: Final = {"failed": "failed", "slow": "too slow", "dropped": "left out"}
OF_FILES: Final = frozenset({"data"})
OF_A_DAEMON: Final = frozenset({"status", "extensions", "model", "dreams", "sessions"})


# ---- repairs


def _open_folder(check: str, folder: Path, title: str) -> Iterator[Finding]:
    """Yield a finding on a folder of this user's that others may look into; one for everybody is not closed."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return
    if status.st_uid != os.getuid() or not stat.S_IMODE(status.st_mode) & 0o077:
        return
    found = f"other users of this machine may look into {title} {folder}"
    why = "What is remembered is yours alone."
    if status.st_mode & stat.S_ISVTX:  # as /tmp has it
        yield Finding(check, "warning", found, why, "choose a folder of its own")
        return
    yield Finding(check, "warning", found, why, f"`chmod 700 {folder}`", partial(_chmod, folder, 0o700))


def _chmod(path: Path, mode: int) -> str:
    path.chmod(mode)
    return f"{path} is yours alone now"


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _remove_socket(path: Path) -> str:
    if _listens(path):  # a daemon has started meanwhile
        return f"{path} is in use again"
    path.unlink(missing_ok=True)
    return f"{path} is removed"


def _install() -> str:
    done = installed_service.install()
    return f"wrote {', '.join(done.files)}" if done.files else "the service is in place"


def _start(patient: Patient) -> str:
    """Start the daemon: by its service, or else as a process of its own, whose log is beside the data."""
    if _is_installed(patient):
        installed_service.start()
    else:
        if patient.settings is None:
            raise ClientError("the settings cannot be followed", "Mend them first.")
        patient.settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = patient.settings.data_dir / "dreamd.log"
        # A shell between makes it nobody's child: it outlives this command and is waited for by the system.
        own = [sys.executable, "-P", "-m", "dreamd.daemon"]
        apart = ["/bin/sh", "-c", 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null &', "sh", str(log), *own]
        subprocess.run(apart, env=dict(patient.environ), start_new_session=True, check=True)
    until = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return f"dreamd {patient.ask('hello', client='doctor')['version']} runs"
        except ClientError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _is_installed(patient: Patient) -> bool:
    return installed_service.has_manager() and installed_service.installed_service(patient.environ) is not None


def _restart(patient: Patient) -> str:
    patient.ask("stop")
    path, until = Path(patient.socket_path), time.monotonic() + START_TIMEOUT_S
    while path.is_socket() and _listens(path) and time.monotonic() < until:
        time.sleep(0.1)
    return _start(patient)


def _dream(patient: Patient) -> str:
    return f"a dream has begun: {patient.ask('dream', kind='daily').get('run_id') or 'see `dreamctl runs`'}"


def _connect(connection: AgentConnection) -> str:
    edits = connection.connecting()
    connection.apply(edits)
    return f"{connection.program.title} is connected by this installation"


def _salvage(settings: Settings) -> str:
    lock = DaemonLock(settings.data_dir, settings.vault)
    lock.acquire()
    try:
        done = salvage_ledgers(store_paths(settings).ledger)
    finally:
        lock.release()
    return f"{sum(sum(one.rows.values()) for one in done)} rows are back"


def _command(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False)
    if done.returncode:
        raise ClientError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return f"`{' '.join(command)}` is done"


DOCTOR_METHODS: tuple[Method[Any, Any], ...] = (
    Method("doctor", DoctorParams, DoctorAnswer, DoctorMethods.doctor, long=True),
)

"""A daemon that cannot start says why: on its terminal, to who asks, and to who looks for it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dreamd.daemon.host import settings_check
from dreamd.daemon.settings import Settings

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import plain, typed
from tests.system.test_service_contract import Manager
from tests.system.waiting import until

pytestmark = pytest.mark.system

Make = Callable[..., DaemonUnderTest]
WITHIN_S = 60.0


def ended(daemon: DaemonUnderTest) -> tuple[int, str]:
    """Start it and wait for its end; its exit code and what it said."""
    daemon.start()
    assert daemon.process is not None
    return daemon.process.wait(WITHIN_S), daemon.log.read_text()


def bare(text: str) -> str:
    """Drop all space: a long path is broken at a line's end."""
    return "".join(text.split())


@pytest.mark.parametrize(
    ("variable", "place", "says"),
    [
        ("DREAMD_DATA_DIR", "/proc/nowhere", "The data folder /proc/nowhere cannot be used: it cannot be made"),
        ("DREAMD_DATA_DIR", "{file}", "The data folder {file} cannot be used: it is a file."),
        ("DREAMD_DATA_DIR", "{file}/under", "The data folder {file}/under cannot be used: {file} is a file."),
        ("DREAMD_VAULT_DIR", "/proc/nowhere", "The vault /proc/nowhere cannot be used: it cannot be made"),
        ("DREAMD_VAULT_DIR", "{file}", "The vault {file} cannot be used: it is a file."),
        ("DREAMD_LOG__FILE", "{file}/dreamd.log", "The log's folder {file} cannot be used: it is a file."),
        ("DREAMD_LOG__FILE", "/proc", "The log /proc cannot be used: it is no file."),
    ],
)
def test_a_place_that_cannot_be_used_is_a_sentence_and_78(
    make: Make, tmp_path: Path, variable: str, place: str, says: str
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    daemon = make(**{variable: place.format(file=file)})
    code, said = ended(daemon)
    assert code == 78
    assert said.startswith(f"dreamd: {says.format(file=file)}")
    assert variable in said
    assert said.count("\n") == 1
    assert file.read_text() == "mine"

    checked = typed(daemon, "check")
    assert checked.returncode == 1
    assert bare(says.format(file=file)) in bare(checked.stdout)
    asked = typed(daemon, "status")
    assert asked.returncode == 3
    assert bare(says.format(file=file)) in bare(asked.stderr)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user has")
def test_a_folder_of_another_user_is_a_sentence() -> None:
    program = (
        "import os; from dreamd.daemon.host import settings_check; from dreamd.daemon.settings import load;"
        "os.setgid(65534); os.setuid(65534); print(*settings_check.folder_problems(load()), sep='\\n')"
    )
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "theirs").mkdir(mode=0o700)
        environ = {"DREAMD_DATA_DIR": f"{name}/theirs", "HOME": "/nonexistent"}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True)
    assert "theirs cannot be used: permission denied" in done.stdout, done.stderr


def test_a_ledger_that_is_no_file_is_a_sentence(make: Make) -> None:
    daemon = make()
    (daemon.folder / "data" / "ledger.db").mkdir(parents=True)
    code, said = ended(daemon)
    assert code == 78
    assert said.startswith("dreamd: The ledger ")
    assert said.count("\n") == 1


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="has no file that cannot be read")
def test_settings_that_cannot_be_read_at_the_moment_end_with_a_code_that_the_unit_starts_after(make: Make) -> None:
    code, said = ended(make(DREAMD_CONFIG="/proc/self/mem"))  # its first page is not there: an input/output error
    assert code == 71
    assert said == "dreamd: /proc/self/mem cannot be read: [Errno 5] Input/output error\n"
    unit = Path(__file__).parents[2] / "systemd" / "dreamd.service"
    (no_restart,) = [line for line in unit.read_text().splitlines() if line.startswith("RestartPreventExitStatus=")]
    assert "71" not in no_restart


def test_a_folder_that_cannot_be_read_at_the_moment_is_no_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(os, "scandir", unreadable)
    assert list(settings_check.folder_problems(Settings(data_dir=tmp_path))) == []


def test_nothing_is_left_of_what_was_tried(make: Make, tmp_path: Path) -> None:
    daemon = make(DREAMD_VAULT_DIR=str(tmp_path / "notes" / "vault"))
    assert typed(daemon, "check").returncode == 0
    assert not (tmp_path / "notes").exists()
    assert not (daemon.folder / "data").exists()


def test_a_second_daemon_says_that_and_nothing_else(daemon: DaemonUnderTest, make: Make) -> None:
    second = make("second", DREAMD_DATA_DIR=daemon.environ["DREAMD_DATA_DIR"])
    code, said = ended(second)
    assert code == 75
    assert said.startswith("dreamd: Another dreamd (pid")
    assert "has stopped" not in said


@pytest.fixture
def manager(make: Make) -> Iterator[Manager]:
    one = Manager(make())
    (one.daemon.folder / "config" / "dreamd").mkdir(parents=True)
    yield one
    one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="who waits in a socket is seen in /proc")
def test_a_client_of_a_daemon_with_bad_settings_gets_the_error(manager: Manager) -> None:
    config = manager.daemon.folder / "config" / "dreamd" / "dreamd.toml"
    config.write_text("[store\n")
    process = None
    for _ in range(2):  # the second question is answered by the same process
        asking = typed_in_the_background(manager.daemon, "status")
        process = process or manager.start()
        said = asking.communicate(timeout=WITHIN_S)[1]
        assert asking.returncode == 3
        assert f"dreamd could not start: {config} is not TOML" in plain(said)
        assert "Mend that line" in said
    assert any(f"STATUS=could not start: {config} is not TOML" in each for each in heard(manager))

    config.unlink()
    waiting = typed_in_the_background(manager.daemon, "remember", "The gate is green.")
    assert process is not None
    assert process.wait(WITHIN_S) == 78  # it leaves the question to the next one
    manager.start()
    assert "Remembered as" in waiting.communicate(timeout=WITHIN_S)[0]


def typed_in_the_background(daemon: DaemonUnderTest, *words: str) -> subprocess.Popen[str]:
    """Begin a command, and wait until its question is in the socket."""
    asking = subprocess.Popen(
        [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *words],
        env=daemon.environ,
        cwd=daemon.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: asking.poll() is not None or _waits(daemon))
    return asking


def _waits(daemon: DaemonUnderTest) -> bool:
    """Whether more than the listening socket goes by its path."""
    rows = Path("/proc/net/unix").read_text().splitlines()
    return sum(row.endswith(f" {daemon.socket_path}") for row in rows) > 1


def heard(manager: Manager) -> list[str]:
    """Return the messages of the daemon to the service manager so far."""
    manager.notices.setblocking(False)
    said = []
    try:
        while True:
            said.append(manager.notices.recv(4096).decode())
    except BlockingIOError:
        manager.notices.settimeout(WITHIN_S)
    return said

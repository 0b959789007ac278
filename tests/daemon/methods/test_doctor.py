"""The doctor: each fault is planted, found, and repaired where a repair is offered."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.daemon.agents.programs import own_command
from dreamd.daemon.cli import main
from dreamd.daemon.host import installed_service
from dreamd.daemon.host.lock import DaemonLock
from dreamd.daemon.methods import doctor
from dreamd.daemon.methods.doctor import CHECKS, Finding, Patient, examine
from dreamd.daemon.settings import load, store_paths
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.records import Run
from dreamd.store.memory import MemoryStore
from dreamd.store.settings import StoreSettings

from tests.bench.daemon_under_test import DaemonUnderTest

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(socket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an installation of its own: no daemon, no service manager, no programs."""
    monkeypatch.setenv("HOME", str(socket_folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(socket_folder / "run"))
    monkeypatch.setenv("DREAMD_DATA_DIR", str(socket_folder / "data"))
    monkeypatch.setattr(installed_service, "has_manager", lambda: False)
    (socket_folder / "run" / "dreamd").mkdir(mode=0o700, parents=True)
    return socket_folder


def kept() -> MemoryStore:
    return MemoryStore.open(store_paths(load()), StoreSettings(), StubEmbedder(), lambda: NOW)


@pytest.fixture
def lived_in(home: Path) -> Path:
    """Give a data folder in which something was kept, and no daemon."""
    with contextlib.closing(kept()) as store:
        store.remember("The heron nests behind the mill.").result()
        store.settle()
    return home / "data"


def found(check: str, now: datetime = NOW) -> list[Finding]:
    """Return the findings of one check, after those that it rests on."""
    patient = Patient(os.environ, now)
    findings: list[Finding] = []
    needed = {"settings", "daemon", "connections" if check.startswith("connection") else check}
    for name, look in CHECKS:
        if name in needed | ({"status"} if check == "dreams" else set()):
            findings += look(patient)
    return [one for one in findings if one.check == check and one.severity != "ok"]


def repaired(one: Finding) -> str:
    assert one.repair is not None
    return one.repair()


def test_a_check_that_needs_a_daemon_says_that_it_was_not_made(lived_in: Path) -> None:
    seen = {one.check: one.severity for one in examine(NOW, os.environ)}
    assert set(seen) >= {name for name, _ in CHECKS} - {"connections"}
    assert (seen["daemon"], seen["status"], seen["disk"]) == ("error", "skipped", "ok")


def test_settings_that_cannot_be_followed_are_named_and_cost_no_other_check(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = home / "dreamd.toml"
    config.write_text("[log]\nlevel = 'LOUD'\n")
    monkeypatch.setenv("DREAMD_CONFIG", str(config))
    (one,) = found("settings")
    assert one.severity == "error"
    assert "log.level" in one.found
    config.write_text('[llm]\nprovider = "ollama"\nmodel = "m"\napi_key = "sk-123"\n')
    config.chmod(0o644)
    (one,) = found("settings")
    repaired(one)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert found("settings") == []


def test_a_socket_path_that_is_too_long(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_SOCKET", "/tmp/" + 100 * "s")
    assert "103" in found("daemon")[0].found


def test_a_socket_that_a_daemon_left_and_its_open_folder(home: Path) -> None:
    left = home / "run" / "dreamd" / "dreamd.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    left.parent.chmod(0o755)
    folder, stale = found("socket")
    repaired(folder)
    repaired(stale)
    assert not left.exists()
    assert found("socket") == []


def test_a_folder_for_everybody_is_named_and_not_closed(home: Path) -> None:
    folder = home / "run" / "dreamd"
    folder.chmod(0o1777)
    (shared,) = found("socket")
    assert shared.repair is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777


def test_folders_that_others_may_read(lived_in: Path) -> None:
    lived_in.chmod(0o755)
    (lived_in / "vault").chmod(0o770)
    (lived_in / "ledger.db").chmod(0o644)
    findings = found("folders")
    assert len(findings) == 3
    for one in findings:
        repaired(one)
    assert found("folders") == []


def test_a_daemon_that_holds_the_folder_and_listens_elsewhere(lived_in: Path) -> None:
    lock = DaemonLock(lived_in, lived_in / "vault")
    lock.acquire()
    try:
        (one,) = found("lock")
        assert "already serves" in one.found
    finally:
        lock.release()
    other = DaemonLock(lived_in.parent / "other", lived_in / "vault")
    other.acquire()
    try:
        assert "another data folder" in found("lock")[0].found
    finally:
        other.release()
    assert found("lock") == []


def test_a_full_disk(lived_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, severity in ((10 * 2**20, "error"), (2**30, "warning")):
        usage = shutil._ntuple_diskusage(2**40, 2**40 - free, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        (one,) = found("disk")
        assert one.severity == severity


def test_a_run_of_the_future(home: Path) -> None:
    with contextlib.closing(kept()) as store:
        store.record_run(Run("run-1", "daily", "nothing", NOW + timedelta(days=400), NOW + timedelta(days=400)))
    (one,) = found("clock")
    assert "2027" in one.found
    assert found("clock", NOW + timedelta(days=401)) == []


def test_a_damaged_ledger_is_said_and_what_was_set_aside_is_brought_back(lived_in: Path) -> None:
    ledger = lived_in / "ledger.db"
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    assert any("ledger.db" in one.found and one.severity == "error" for one in found("data"))
    with contextlib.closing(kept()):  # which sets it aside
        pass
    (aside,) = [one for one in found("data") if one.repair is not None]
    assert "rows are back" in repaired(aside)


def test_a_vault_without_its_marker(lived_in: Path) -> None:
    (lived_in / "vault" / ".dreamd").unlink()
    assert any("not marked" in one.found for one in found("data"))


def test_a_backup_that_was_never_made_and_one_that_is_old(lived_in: Path, tmp_path: Path) -> None:
    assert "never" in found("backup")[0].found
    with contextlib.closing(kept()) as store:
        store.exports.backup(tmp_path, "1", None)
    assert found("backup") == []
    assert "2026-11-21" in found("backup", NOW + timedelta(days=40))[0].found


def test_hooks_that_name_an_installation_that_is_gone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    (one,) = found("connection of claude-code")
    assert (one.severity, one.repair) == ("note", None)
    assert main.main(["connect", "claude-code", "--yes"]) == 0
    assert found("connection of claude-code") == []
    ours = own_command(os.environ).path
    settings.write_text(settings.read_text().replace(ours, "/gone/dreamctl"))
    (one,) = found("connection of claude-code")
    repaired(one)
    assert ours in settings.read_text()
    assert "/gone/" not in settings.read_text()
    assert found("connection of claude-code") == []


@pytest.fixture
def with_manager(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a service manager that knows one unit."""
    monkeypatch.setattr(installed_service, "has_manager", lambda: True)
    monkeypatch.setattr(installed_service, "_output_of", lambda *command: "no" if command[0] == "loginctl" else "")
    return installed_service.unit_folder(os.environ)


def test_a_service_of_another_installation(with_manager: Path) -> None:
    assert found("service")[0].found == "no service is installed"
    with_manager.mkdir(parents=True)
    for name, text in installed_service.units(os.environ, "/another/python").items():
        (with_manager / name).write_text(text)
    stale, silent, lingers = found("service")
    assert "dreamd.service" in stale.found
    assert "does not listen" in silent.found
    assert "lingering" in lingers.found


def test_fix_repairs_and_its_code_says_whether_all_is_well(
    lived_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lived_in.chmod(0o755)
    monkeypatch.setattr(doctor, "_start", lambda patient: "dreamd runs")
    assert main.main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "(--fix does it)" in " ".join(told.split())
    assert "Not looked at, since no daemon answers: status" in " ".join(told.split())
    assert main.main(["doctor", "--fix"]) == 0
    assert "Repaired: dreamd runs." in capsys.readouterr().out
    assert stat.S_IMODE(lived_in.stat().st_mode) == 0o700

    def refuses(patient: doctor.Patient) -> str:
        raise OSError("no room")

    monkeypatch.setattr(doctor, "_start", refuses)
    assert main.main(["doctor", "--fix", "--all"]) == 1
    assert "Not repaired: no room." in capsys.readouterr().out


@pytest.fixture
def daemon(home: Path) -> Iterator[DaemonUnderTest]:
    """Give a real daemon at this installation's socket."""
    with DaemonUnderTest(home / "d", {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as daemon:
        yield daemon


@pytest.mark.system
def test_a_real_daemon_is_asked(daemon: DaemonUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in daemon.environ.items():
        monkeypatch.setenv(name, value)
    daemon.call("pause")
    (paused,) = found("status", datetime.now(UTC))
    assert paused.remedy == "`dreamctl resume`"
    assert "no dream starts by itself" in found("dreams", datetime.now(UTC))[0].found
    monkeypatch.setattr(doctor, "__version__", "9.9.9")
    (old,) = found("daemon", datetime.now(UTC))
    assert "9.9.9" in old.found
    before = daemon.call("hello", client="test", protocol=1)["pid"]
    assert "runs" in repaired(old)
    after = daemon.call("hello", client="test", protocol=1)["pid"]
    daemon.call("stop")
    assert after != before


@pytest.mark.system
def test_the_running_daemon_tells_the_same_as_the_command(daemon: DaemonUnderTest) -> None:
    told = daemon.call("doctor")["findings"]
    names = list(dict.fromkeys(one["check"] for one in told if not one["check"].startswith("connection of")))
    assert names == [name for name, _ in CHECKS if name in names]
    assert {"daemon", "data", "status", "dreams"} <= set(names)
    quick = daemon.call("doctor", files=False)["findings"]
    assert set(names) - {one["check"] for one in quick} == {"data"}


def test_what_check_and_status_both_tell_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    note = "2 notes wait for review: `dreamctl review`"
    away = "Postgres cannot be used now: it refuses connections"
    answers = {
        "check": {
            "problems": [
                {"path": "", "problem": note, "severity": "note"},
                {"path": "", "problem": away, "severity": "warning"},
            ]
        },
        "status": {
            "problems": [f"{note}.", "Vectors cannot be stored."],
            "paused": False,
            "pending_embeddings": 0,
            "not_found_yet": 0,
            "journal": 0,
        },
    }
    patient = Patient(os.environ, NOW, hello={})
    monkeypatch.setattr(Patient, "ask", lambda self, method, *given, **more: answers[method])
    findings = [one for name, look in CHECKS if name in ("data", "status") for one in look(patient)]
    assert [(one.check, one.severity, one.found, one.why) for one in findings] == [
        ("data", "note", note, ""),
        ("data", "warning", away, ""),
        ("status", "warning", "Vectors cannot be stored.", ""),
    ]
